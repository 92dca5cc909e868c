"""What is particular to a step of decoding; test_paths.py holds it against the reference."""

import dataclasses

import torch
from attention_problems import WAYS, able, make

from fairseq_hybrid_attn.attention import step
from fairseq_hybrid_attn.attention.reference import reference
from fairseq_hybrid_attn.patterns import local_past


def test_is_the_last_row_of_the_whole():
    for m in (10, 200):
        whole = make("decoder", m, dtype=torch.float64)
        last = dataclasses.replace(whole, q=whole.q[:, :, -1:])
        want = reference(whole).outputs[:, :, :, -1:]
        torch.testing.assert_close(step.step(last).outputs, want, rtol=0, atol=1e-12)


def test_a_local_branch_does_not_see_other_keys():
    """Whatever they hold."""
    for m in (10, 200):
        problem = make(((local_past(3),),), (1, m))
        k, v = problem.k.detach().clone(), problem.v.detach().clone()
        k[:, :, : m - 4] = 1e6
        v[:, :, : m - 4] = 1e6
        for name, way in able(problem).items():
            if name.startswith("step"):
                with way.taken() as path:
                    ours = path(dataclasses.replace(problem, k=k, v=v)).outputs
                    torch.testing.assert_close(ours, path(problem).outputs, rtol=0, atol=1e-6)


def test_slices_are_for_long_sentences_of_plain_numbers():
    for m, settings, slices in (
        (128, {}, True),
        (127, {}, False),
        (128, {"padded": "left"}, False),
        (128, {"need_weights": True}, False),
        (128, {"dtype": torch.bfloat16}, False),
    ):
        assert step._slices_pay(make("decoder", (1, m), **settings)) == slices
    with torch.autocast("cpu", dtype=torch.bfloat16):
        problem = make("decoder", (1, 128))
        assert not step._slices_pay(problem)
        for m in (25, 200):
            problem = make("decoder", (1, m))
            with WAYS["step"].taken() as path:
                ours = path(problem).outputs.float()
            assert (ours - reference(problem).outputs.float()).abs().max() <= 0.02
