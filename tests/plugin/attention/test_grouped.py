"""What only heads with different patterns can get wrong; test_paths.py has the rest."""

import dataclasses

import torch
from attention_problems import WAYS, check, make

from fairseq_hybrid_attn.attention import flash, grouped
from fairseq_hybrid_attn.attention.reference import reference
from fairseq_hybrid_attn.patterns import GLOBAL, PAST, local

WAY = {"grouped": WAYS["grouped"]}


def test_the_way():
    for way, name, lengths, settings in (
        (grouped._plain, "heads", 128, {}),
        (grouped._in_blocks, "heads", 129, {}),
        (grouped._in_blocks, "heads", 399, {}),
        (grouped._by_groups, "heads", 400, {}),
        (grouped._plain, "heads", 400, {"dropout": 0.1}),
        (grouped._in_blocks, "heads", (399, 400), {}),
        (grouped._in_blocks, "half bands", 500, {}),
        (grouped._by_groups, "heads", 400, {"dtype": torch.bfloat16}),
    ):
        assert grouped._way(make(name, lengths, batch=(1, 2), **settings)) is way, (name, lengths)


def test_long_sentences_without_the_private_kernel(monkeypatch):
    monkeypatch.setattr(flash, "ENABLED", False)
    problem = make("heads", 600, batch=(1, 2), width=4)
    assert grouped.applies(problem) and grouped._way(problem) is grouped._in_blocks
    check(problem, ways=WAY)


def test_padding_is_remembered_only_while_it_is_the_same():
    first, padding = make("heads", 12), torch.zeros(4, 12, dtype=torch.bool)

    def check_with(problem, padding):
        check(dataclasses.replace(problem, key_padding=padding), ways=WAY)

    check_with(first, padding)
    padding[1, 7:] = True  # the same tensor, changed
    check_with(first, padding)
    padding.data[:, :4] = True  # unnoticed by autograd
    check_with(first, padding)
    for _ in range(3):  # another tensor, perhaps at the same address
        del padding
        padding = torch.rand(4, 12) < 0.5
        check_with(first, padding)
    for problem in (
        make("heads", (3, 12)),  # other heads' and queries' masks
        make("local", 12),
        make("heads", 12, dtype=torch.float64),
        make(((PAST, PAST, local(2), GLOBAL),), 12),
        first,
    ):
        check_with(problem, padding)
    with torch.inference_mode():
        made = torch.rand(4, 12) < 0.5
        problem = dataclasses.replace(make("heads", 12), key_padding=made)
        torch.testing.assert_close(grouped.grouped(problem).outputs, reference(problem).outputs)
