"""What only the path over blocks can get wrong; test_paths.py holds it against the reference."""

import dataclasses
import logging

import pytest
import torch
from test_paths import BRANCHES, check, converted, problem, solve

from fairseq_hybrid_attn.attention import blocks as module
from fairseq_hybrid_attn.attention.block_layout import layout
from fairseq_hybrid_attn.attention.blocks import blocks
from fairseq_hybrid_attn.attention.problem import AttentionProblem
from fairseq_hybrid_attn.attention.reference import reference
from fairseq_hybrid_attn.patterns import FUTURE, GLOBAL, PAST, Band, Pattern, local

HYSAN = (GLOBAL, PAST, FUTURE, local(1))


@dataclasses.dataclass(frozen=True)
class Every(Pattern):
    """Each third key: no band, and no neighbours."""

    def allows(self, offset):
        return offset % 3 == 0


ODD = {
    "not a band": (GLOBAL, Every()),
    "only not a band": (Every(),),
    "strictly before": (Band(ahead=-1), GLOBAL),
    "far away": (Band(behind=90, ahead=-80), PAST),
    "a gap": (Band(behind=2, ahead=2), Band(behind=60, ahead=-50)),
    "wide": (Band(behind=40, ahead=70), FUTURE),
    "nobody": (Band(behind=-200), local(3)),
}


@pytest.mark.parametrize("padded", ["none", "left", "right"])
@pytest.mark.parametrize("n, m", [(100, 100), (300, 300), (70, 110), (1, 90)])
@pytest.mark.parametrize("name", ODD)
def test_any_pattern(name, n, m, padded):
    check("blocks", problem(tuple((p,) for p in ODD[name]), n=n, m=m, padded=padded, b=2, h=2))


@pytest.mark.parametrize("small", [0, 2**22])
@pytest.mark.parametrize("chunk", [1, 3 * 80 * 80, 2**21])
@pytest.mark.parametrize("branches", ["hysan", "decoder", "hybrid"])
def test_work_in_parts(branches, chunk, small, monkeypatch):
    """Heads apart, sentences apart, all together; shares kept or computed again."""
    monkeypatch.setattr(module, "CHUNK", chunk)
    monkeypatch.setattr(module, "SMALL", small)
    check("blocks", problem(BRANCHES[branches], n=80, padded="left", b=5, h=2))


def test_a_layout_covers_every_allowed_pair_once():
    """Zone and sides together are the mask, of each branch."""
    for patterns in (HYSAN, *ODD.values()):
        for n, m in ((100, 100), (60, 170)):
            covered = torch.zeros(len(patterns), n, m)
            for panel in layout(patterns, n, m, torch.float32, torch.device("cpu")):
                for block in panel.blocks:
                    covered[:, block.rows, block.zone] += block.mask
                    for side in block.sides:
                        for branch in side.branches:
                            covered[branch, block.rows, side.keys] += 1
            want = torch.stack([pattern.mask(n, m) for pattern in patterns]).float()
            torch.testing.assert_close(covered, want, rtol=0, atol=0)


def test_sides_are_shared():
    """What makes it fast: little is masked, and far keys are multiplied once for all branches."""
    masked = shared = 0
    (panel,) = layout(HYSAN, 512, 512, torch.float32, torch.device("cpu"))
    for block in panel.blocks:
        masked += block.mask.numel()
        shared += sum(side.keys.stop - side.keys.start for side in block.sides) * 64
    assert masked < 0.6 * 512**2
    assert shared < 512**2


def test_causal_branches_compute_no_future():
    computed = sum(
        (panel.rows.stop - panel.rows.start) * (panel.keys.stop - panel.keys.start)
        for panel in layout((PAST, local(0)), 1024, 1024, torch.float32, torch.device("cpu"))
    )
    assert computed < 0.6 * 1024**2


@pytest.mark.parametrize("padded", ["none", "left"])
def test_a_branch_without_a_share_is_left_to_another_path(padded, monkeypatch):
    """Scores so far below the highest that one softmax for all branches would lose them."""
    calls = []
    real_short = module.short
    monkeypatch.setattr(module, "short", lambda p: calls.append(p) or real_short(p))
    given = problem(tuple((p,) for p in HYSAN), n=80, padded=padded, scale=1.0, dtype=torch.float64)
    q, k = given.q.detach().clone(), given.k.detach().clone()
    q[..., 0], k[..., 0] = 10.0, 0.0
    k[:, :, 40, 0] = 9.0  # one key 90 above all others
    given = converted(dataclasses.replace(given, q=q, k=k), torch.float32)
    results, gradients = solve(blocks, given)
    expected, expected_gradients = solve(reference, converted(given, torch.float64))
    assert len(calls) == 1
    assert (results[0].double() - expected[0]).abs().max() <= 5e-6
    for got, want in zip(gradients, expected_gradients, strict=True):
        assert (got.double() - want).abs().max() <= 2e-5 * max(1.0, want.abs().max())


def test_gradcheck():
    torch.manual_seed(0)
    q, k, v = (
        torch.randn(2, 2, 70, 3, dtype=torch.float64).mul(0.5).requires_grad_() for _ in range(3)
    )
    padding = torch.zeros(2, 70, dtype=torch.bool)
    padding[1, 60:] = True

    def outputs(q, k, v):
        given = AttentionProblem(
            q=q,
            k=k,
            v=v,
            branches=((GLOBAL,), (PAST,), (FUTURE,), (local(2),)),
            key_padding=padding,
        )
        return blocks(given).outputs

    assert torch.autograd.gradcheck(outputs, (q, k, v), fast_mode=True)


def test_training_after_inference_uses_the_same_layout():
    """Masks that were made in inference mode could serve no gradient."""
    layout.cache_clear()
    given = problem(((GLOBAL,), (local(2),)), n=90)
    with torch.inference_mode():
        blocks(given)
    solve(blocks, given)


def test_heads_side_by_side():
    """Outputs lie in memory as the layer joins them: ``[l, b, n, h, d_k]``."""
    outputs = blocks(problem(BRANCHES["hysan"], n=90)).outputs
    assert outputs.transpose(2, 3).is_contiguous()


def test_what_it_is_not_able_to():
    given = problem(BRANCHES["hysan"], n=120)
    assert module.able(given) and module.applies(given)
    for change in (
        {"dropout": 0.1},
        {"need_weights": True},
        {"bias": torch.zeros(1)},
        {"branches": ((GLOBAL, PAST, FUTURE, local(1)),)},
        {"q": given.q[:0], "k": given.k[:0], "v": given.v[:0]},
    ):
        assert not module.able(dataclasses.replace(given, **change))


@pytest.mark.parametrize("patterns", [(PAST, local(0)), (PAST, Band(3, 0))])
def test_the_future_is_not_seen_by_a_last_digit(patterns):
    given = problem(tuple((p,) for p in patterns), n=300, b=1)
    before = blocks(given).outputs
    k, v = given.k.detach().clone(), given.v.detach().clone()
    k[:, :, 200:] += 0.5  # not so much that another path has to help
    v[:, :, 200:] -= 3
    after = blocks(dataclasses.replace(given, k=k, v=v)).outputs
    assert torch.equal(before[:, :, :, :200], after[:, :, :, :200])
    assert not torch.equal(before[:, :, :, 200:], after[:, :, :, 200:])


def test_the_log_says_once_that_another_path_helps(caplog):
    """A share of e^-40 is too small to be told from a softmax over all keys."""
    module._tell_once.cache_clear()
    given = problem(((GLOBAL,), (PAST,)), n=100, b=1)
    k = torch.zeros_like(given.k)
    k[:, :, 60, 0] = 40.0
    q = torch.zeros_like(given.q)
    q[..., 0] = 1.0
    given = dataclasses.replace(given, q=q, k=k)
    with caplog.at_level(logging.INFO, logger=module.__name__):
        outputs = [blocks(given).outputs for _ in range(2)]
    assert torch.equal(*outputs)
    torch.testing.assert_close(outputs[0], reference(given).outputs, rtol=0, atol=5e-6)
    assert [record.getMessage() for record in caplog.records] == [
        "path blocks leaves problems with very small shares to path short"
    ]
