"""What only the path over blocks can get wrong; test_paths.py holds it against the reference."""

import logging

import torch
from attention_problems import BRANCHES, WAYS, check, make

from fairseq_hybrid_attn.attention import blocks as module
from fairseq_hybrid_attn.attention.block_layout import layout
from fairseq_hybrid_attn.attention.blocks import blocks, solve
from fairseq_hybrid_attn.patterns import PAST, Band, local

HYSAN = tuple(branch[0] for branch in BRANCHES["hysan"])
ODD = ["not a band", "only not a band", "beside", "far away", "a gap", "wide", "nobody"]


def panels(patterns, n, m):
    return layout(patterns, n, m, torch.float32, torch.device("cpu"))


def test_a_layout_covers_every_allowed_pair_once():
    """Zone and sides together are the mask, of each branch; the rest is nobody's."""
    for name in ("hysan", *ODD):
        patterns = tuple(branch[0] for branch in BRANCHES[name])
        for n, m in ((100, 100), (300, 300), (60, 170), (40, 800)):
            covered = torch.zeros(len(patterns), n, m)
            for panel in panels(patterns, n, m):
                for block in panel.blocks:
                    covered[:, block.rows, block.zone] += block.mask
                    for side in block.sides:
                        covered[side.branches, block.rows, side.keys] += 1
            want = torch.stack([pattern.mask(n, m) for pattern in patterns]).float()
            torch.testing.assert_close(covered, want, rtol=0, atol=0)


def test_little_is_computed_twice_or_in_vain():
    """Little is masked, far keys are multiplied once for all branches, no future is computed."""
    (panel,) = panels(HYSAN, 512, 512)
    masked = sum(block.mask.numel() for block in panel.blocks)
    sides = [side.keys for block in panel.blocks for side in block.sides]
    assert masked < 0.6 * 512**2 and sum(keys.stop - keys.start for keys in sides) * 64 < 512**2
    found = [len(panel.blocks) for m in (150, 512, 768) for panel in panels(HYSAN, m, m)]
    assert found == [5, 8, 6]
    for patterns, most in (((PAST, local(0)), 0.6), ((Band(40, 0),), 0.2)):
        computed = sum(
            (panel.rows.stop - panel.rows.start) * (panel.keys.stop - panel.keys.start)
            for panel in panels(patterns, 1024, 1024)
        )
        assert computed < most * 1024**2


def test_a_branch_without_a_share_is_left_to_another_path(monkeypatch, caplog):
    """Scores so far below the highest that one softmax for all branches would lose them."""
    module._tell_once.cache_clear()
    calls = []
    real_short = module.short
    monkeypatch.setattr(module, "short", lambda p: calls.append(p) or real_short(p))
    with caplog.at_level(logging.INFO, logger=module.__name__):
        for padded in ("none", "left"):
            for gap, more in ((10.0, 0), (60.0, 1)):
                given = make("hysan", 80, padded=padded)
                with torch.no_grad():
                    given.q[..., 0] = 1.0
                    given.k[..., 0] = 0.0
                    given.k[:, :, 40, 0] = gap  # one key above all others
                before = len(calls)
                check(given, ways={"blocks": WAYS["blocks"]})
                assert len(calls) == before + more
    assert caplog.messages == ["path blocks leaves problems with very small shares to path short"]


def test_it_solves_ordinary_problems_itself_and_heads_lie_side_by_side():
    """Outputs lie in memory as the layer joins them: ``[l, b, n, h, d_k]``."""
    for padded in ("none", "left", "scattered"):
        for name in ("hysan", "decoder", "beside", "empty"):
            given = make(name, 150, padded=padded)
            patterns = tuple(branch[0] for branch in given.branches)
            assert solve(given.q, given.k, given.v, given.key_padding, patterns) is not None
            assert blocks(given).outputs.transpose(2, 3).is_contiguous()
