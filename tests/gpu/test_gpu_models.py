"""Losses, gradients and memory of models on a GPU: in each precision, compiled, under DDP."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from fairseq.models.distributed_fairseq_model import DistributedFairseqModel
from models import CONFIGURATIONS, PAD, build_tiny, dictionary, pad

from benchmarks import check_gpu
from fairseq_hybrid_attn.criterions import cross_entropy
from fairseq_hybrid_attn.criterions.cross_entropy import FusedLabelSmoothedCrossEntropy

#: The largest error of all gradients by their norm: two ways of rounding differ by as much.
BOUNDS = {"fp32": 1e-3, "fp16": 3e-2, "bf16": 0.1}
COMPILED = ("mma", "hysan-gated", "gate-hidden")  # each takes half a minute
SIZE = {
    "encoder_embed_dim": 64,
    "encoder_ffn_embed_dim": 128,
    "encoder_layers": 2,
    "max_source_positions": 1024,
    "max_target_positions": 1024,
}


def build(name, device, **settings):
    """A model in training, without dropout."""
    return build_tiny(name, **{**SIZE, **settings}).train().to(device)


def sample(device, longest=30):
    generator = torch.Generator().manual_seed(longest)

    def sentences(left):
        lengths = torch.randint(1, longest, (8,), generator=generator).tolist() + [longest]
        tokens = [torch.randint(4, 16, (n,), generator=generator).tolist() for n in lengths]
        return pad([[*line, 2] for line in tokens], PAD, left=left).to(device)

    source, target = sentences(True), sentences(False)
    previous = torch.cat([torch.full_like(target[:, :1], 2), target[:, :-1]], dim=1)
    inputs = {"src_tokens": source, "src_lengths": source.ne(PAD).sum(1)}
    inputs["prev_output_tokens"] = previous
    return {"net_input": inputs, "target": target, "ntokens": int(target.ne(PAD).sum())}


def loss_and_gradient(model, batch, precision="fp32"):
    task = SimpleNamespace(target_dictionary=dictionary(12))
    criterion = FusedLabelSmoothedCrossEntropy(task, False, 0.1, autocast_bf16=precision == "bf16")
    loss, _, _ = criterion(model, batch)
    loss.backward()
    gradient = torch.cat([p.grad.detach().cpu().double().flatten() for p in model.parameters()])
    model.zero_grad()
    return float(loss), gradient


def check_near(found, expected, bound, told=""):
    (loss, gradient), (exact, want) = found, expected
    assert abs(loss - exact) <= bound * exact, told
    error = float((gradient - want).norm() / want.norm())
    assert error <= bound, f"{told}: {error}"


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_gradients_are_those_of_single_precision_on_the_processor(name, device, monkeypatch):
    monkeypatch.setattr(cross_entropy, "has_bfloat16", lambda kind: True)
    expected = loss_and_gradient(build(name, "cpu"), sample("cpu"))
    for precision, bound in BOUNDS.items():
        model = build(name, device)
        if precision == "fp16":
            model = model.half()
        found = loss_and_gradient(model, sample(device), precision)
        check_near(found, expected, bound, precision)


@pytest.mark.parametrize("name", COMPILED)
def test_a_compiled_model_computes_the_same(name, device):
    """In float16, at several lengths, which one compilation has to suffice for."""
    plain, compiled = (build(name, device, compile=one).half() for one in (False, True))
    for longest in (30, 17, 55):
        batch = sample(device, longest)
        pair = (loss_and_gradient(compiled, batch), loss_and_gradient(plain, batch))
        check_near(*pair, BOUNDS["fp16"], longest)


@pytest.fixture
def one_process(device, tmp_path):
    backend = "nccl" if device == "cuda" else "gloo"
    store = f"file://{tmp_path}/store"
    torch.distributed.init_process_group(backend, init_method=store, world_size=1, rank=0)
    yield torch.distributed.group.WORLD
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_distributed_data_parallelism_in_one_process(name, device, one_process):
    """Twice: parameters without a gradient are refused in the second step."""
    settings = SimpleNamespace(
        ddp_backend="pytorch_ddp",
        device_id=0,
        broadcast_buffers=False,
        bucket_cap_mb=25,
        find_unused_parameters=False,
        gradient_as_bucket_view=False,
        ddp_comm_hook="none",
        heartbeat_timeout=-1,
    )
    own = build(name, device)
    if device == "cpu":  # it would be given the number of a GPU
        wrapped = torch.nn.parallel.DistributedDataParallel(own, process_group=one_process)
    else:
        wrapped = DistributedFairseqModel(settings, own, one_process, torch.device(device))
    alone = build(name, device)
    for longest in (20, 30):
        batch = sample(device, longest)
        net_output = wrapped(**batch["net_input"])
        net_output[0].float().square().mean().backward()
        alone(**batch["net_input"])[0].float().square().mean().backward()
        for ours, single in zip(own.parameters(), alone.parameters(), strict=True):
            torch.testing.assert_close(ours.grad, single.grad, rtol=1e-3, atol=1e-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_memory_is_at_most_that_of_stock():
    """MMA and the hybrid gate; HySAN's four branches may take more."""
    settings = replace(check_gpu.CUDA.settings, rounds=1, shortest=0)
    size = replace(check_gpu.CUDA, settings=settings, lines=200)
    now = check_gpu.Check(size, check_gpu.dictionary(settings), {"faults": []})
    own = {check_gpu.OURS[system]: check_gpu.ours(system) for system in check_gpu.OURS}
    for found in (*check_gpu.steps(own, now), *check_gpu.translation(now)):
        told = {key: found[key] for key in ("case", "candidate", "megabytes", "vanilla_megabytes")}
        print(told)
        if "HySAN" not in found["case"] and "by translate" not in found["case"]:
            assert found["megabytes"] <= 1.02 * found["vanilla_megabytes"], told
    assert not now.document["faults"]
