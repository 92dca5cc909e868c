"""How many kernels a training step launches on a GPU, and how often the host waits for one.

At the lengths of sentences a GPU waits for launches.

Without a GPU, :func:`counted` runs a step on the CPU with the choices it would make on CUDA.  It
counts the operations of torch below autograd, except views and allocations.  An operation of torch
may launch more than one kernel; where the two sides of a comparison differ in such operations,
:data:`MORE` corrects it.  On a GPU, :func:`profiled` counts what the driver is asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from unittest.mock import patch

import torch
import torch.nn.functional as F
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss
from fairseq.dataclass.configs import FairseqConfig
from fairseq.modules import FairseqDropout
from fairseq.optim import build_optimizer
from fairseq.optim.adam import FairseqAdamConfig
from fairseq.optim.dynamic_loss_scaler import DynamicLossScaler
from fairseq.optim.fp16_optimizer import FP16Optimizer
from omegaconf import OmegaConf
from torch.utils._python_dispatch import TorchDispatchMode

from fairseq_hybrid_attn.attention import compute, fusion
from fairseq_hybrid_attn.models import lstm_on_top, transformer
from fairseq_hybrid_attn.models.fast_dropout import Dropout

from .common import CHOSEN, Settings
from .systems import SYSTEMS, batch, build, dictionary

#: Operations that are not declared as views, but launch nothing.
FREE = {"_unsafe_view", "_reshape_alias", "detach", "lift_fresh"}
#: Operations after which the host waits, since it reads a number.
READS = {"_local_scalar_dense", "nonzero", "masked_select", "equal"}
#: torch's attention with a mask; its gradient first sums the products of output and gradient, which
#: the kernel in half precision does itself (``kKernelComputesDelta`` in torch's sources).
ATTENTION_GRADIENT = "_scaled_dot_product_flash_attention_for_cpu_backward"
MORE = {"constant_pad_nd": 1}


@dataclass
class Launches:
    """What was counted.

    Attributes:
        operations: of torch, by name.
        reads: operations that make the host wait, by name.
    """

    operations: Counter[str] = field(default_factory=Counter)
    reads: Counter[str] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        """Return the number of launches."""
        return self.operations.total()


class _Operations(TorchDispatchMode):
    def __init__(self, found: Launches):
        super().__init__()
        self.found = found

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        name = operation._schema.name.split("::")[1]
        if name in READS:
            self.found.reads[name] += 1
        if not (operation.is_view or name in FREE or "empty" in name or _no_tensor(operation)):
            self.found.operations[name] += 1 + MORE.get(name, 0)
            if name == ATTENTION_GRADIENT and args[0].dtype == torch.float32:
                self.found.operations["(sum before the gradient of attention)"] += 3
        return operation(*args, **(kwargs or {}))


def _no_tensor(operation) -> bool:
    """Whether an operation only asks: its result is no tensor, and not read from one."""
    results = [str(result.type) for result in operation._schema.returns]
    name = operation._schema.name.split("::")[1]
    return bool(results) and not any("Tensor" in r for r in results) and name not in READS


@contextmanager
def as_on_cuda() -> Iterator[None]:
    """Make calls on CPU tensors choose as on CUDA.

    Results are without meaning, so the test for overflow in half precision is left out.
    """

    def dropout(x, p=0.5, training=True, inplace=False):
        return torch.native_dropout(x, p, True)[0] if training and p else x

    attention = F.scaled_dot_product_attention

    def attend(q, k, v, attn_mask=None, dropout_p=0.0, *rest, **options):
        if attn_mask is not None and any(stride % 16 for stride in attn_mask.stride()[:-1]):
            m = attn_mask.size(-1)  # its rows must be aligned there
            attn_mask = F.pad(attn_mask, (0, -m % 16))[..., :m]
        return attention(q, k, v, attn_mask, 0.0, *rest, **options)  # the kernel draws dropout

    with ExitStack() as stack:
        for module in (compute, fusion, lstm_on_top, transformer):
            stack.enter_context(patch.object(module, "is_cpu", lambda device: False))
        for target, name, replacement in (
            (DynamicLossScaler, "check_overflow", lambda scaler, norm: float(norm)),
            (Dropout, "forward", FairseqDropout.forward),
            (F, "dropout", dropout),
            (F, "scaled_dot_product_attention", attend),
        ):
            stack.enter_context(patch.object(target, name, replacement))
        yield


def counted(call: Callable[[], object]) -> Launches:
    """Count what ``call`` would launch on CUDA, after a call that fills caches."""
    found = Launches()
    with as_on_cuda():
        call()
        with _Operations(found):
            call()
    return found


def profiled(call: Callable[[], object]) -> Launches:
    """Count what ``call`` asks of CUDA's driver, after three calls that compile and fill caches."""
    found = Launches()
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    kinds = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=kinds) as profile:
        call()
    for event in profile.key_averages():
        if "LaunchKernel" in event.key:  # of the runtime's and of the driver's interface
            found.operations[event.key] += event.count
        elif event.key in ("cudaStreamSynchronize", "cudaEventSynchronize"):
            found.reads[event.key] += event.count
    return found


def run(settings: Settings) -> Iterator[dict]:
    """Count the launches of a training step of every system; yield results."""
    count = profiled if settings.device == "cuda" else counted
    if count is counted:
        # The sizes below change no number.
        small = {"width": 16 * settings.heads, "ffn": 64, "vocabulary": 100, "sentences": 16}
        settings = replace(settings, **small)
    words = dictionary(settings)
    for system in filter(settings.wants, SYSTEMS):
        stock = count(_step(system, words, settings, stock=True))
        ours = count(_step(system, words, settings))
        ratio = round(ours.total / stock.total, 4)
        yield {
            "benchmark": "launches",
            "case": system,
            "measure": "launches",
            "sentences": settings.sentences,
            "queries": settings.length,
            "candidate": CHOSEN,
            "ratio": dict.fromkeys(("median", "min", "max"), ratio),
            "launches": ours.total,
            "vanilla_launches": stock.total,
            "waits": ours.reads.total(),
            "vanilla_waits": stock.reads.total(),
        }


def _step(system: str, words, settings: Settings, *, stock: bool = False) -> Callable[[], None]:
    """A training step as fairseq's trainer takes it, in single precision, ``--bf16`` or ``--fp16``.

    Forward, fairseq's loss, backward, and fairseq's Adam.
    """
    model = build(system, words, settings, stock=stock).train()
    optimizer = _adam(model, settings.dtype)
    source, lengths, previous, target = batch(words, settings)

    def step() -> None:
        logits = model(source, lengths, previous)
        scores = model.get_normalized_probs(logits, log_probs=True)
        loss, _ = label_smoothed_nll_loss(
            scores.view(-1, len(words)), target.reshape(-1), 0.1, ignore_index=words.pad()
        )
        optimizer.backward(loss)
        optimizer.multiply_grads(1 / target.numel())
        optimizer.clip_grad_norm(0.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def _adam(model, dtype: str):
    """Build fairseq's Adam for a model in this precision."""
    cfg = OmegaConf.structured(FairseqConfig())
    OmegaConf.set_struct(cfg, False)
    cfg.common.update({"bf16": dtype == "bf16", "fp16": dtype == "fp16", "fp16_init_scale": 1})
    cfg.optimizer = OmegaConf.structured(FairseqAdamConfig(lr=[1e-4]))
    cfg.optimizer._name = "adam"
    parameters = [p for p in model.parameters() if p.requires_grad]
    if dtype == "fp32":
        return build_optimizer(cfg.optimizer, parameters)
    with patch.object(torch.cuda, "current_device", lambda: parameters[0].device.index):
        return FP16Optimizer.build_optimizer(cfg, parameters)
