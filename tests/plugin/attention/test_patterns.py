"""Patterns against the definitions of the papers, position by position, and the papers' words."""

import pytest
from brute_force import KINDS

from fairseq_hybrid_attn.errors import Faults, UserError
from fairseq_hybrid_attn.patterns import (
    FUTURE,
    GLOBAL,
    HYSAN_DECODER,
    HYSAN_ENCODER,
    PAST,
    local,
    local_past,
    mma_vocabulary,
    parse_patterns,
)


def test_mask_is_the_definition():
    """The queries are the last rows."""
    for word, (pattern, allowed) in KINDS.items():
        for keys in range(1, 13):
            whole = [[allowed(i, j) for j in range(keys)] for i in range(keys)]
            for queries in range(1, keys + 1):
                assert pattern.mask(queries, keys).tolist() == whole[keys - queries :], word
    assert local(10**30).mask(4, 4).all()


def parsed(value, vocabulary):
    faults = Faults("test")
    patterns = parse_patterns("--flag", value, vocabulary, faults, hint="; see the paper")
    faults.raise_if_any()
    return patterns


def test_words_of_the_papers():
    """HySAN and MMA mean opposite directions by forward and backward."""
    widths = tuple(local(k) for k in (1, 2, 5, 17))
    for value, vocabulary, patterns in (
        ("fw,bw", HYSAN_ENCODER, (PAST, FUTURE)),
        ("forward,backward", mma_vocabulary(1), (FUTURE, PAST)),
        ("global, l1,l2,l5,l17", HYSAN_ENCODER, (GLOBAL, *widths)),
        ("fw,l5", HYSAN_DECODER, (PAST, local_past(5))),
        ("local,global,local", mma_vocabulary(3), (local(3), GLOBAL, local(3))),
    ):
        assert parsed(value, vocabulary) == patterns


def test_wrong_words_are_named():
    for value, *said in (
        ("", "empty", "global, fw, bw, lK"),
        (" ", "empty"),
        ("global,,fw", "''"),
        ("global,sideways", "'sideways'", "K a whole number", "see the paper"),
        ("l0", "width 0"),
        ("l", "'l'"),
        ("lK", "'lK'"),
        ("l-1", "'l-1'"),
        ("l1.5", "'l1.5'"),
        ("global2", "'global2'"),
        ("Global", "'Global'"),
        ("l0,sideways,global,up", "l0", "sideways", "up"),  # all faults at once
    ):
        with pytest.raises(UserError, match="--flag") as error:
            parsed(value, HYSAN_ENCODER)
        assert all(words in str(error.value) for words in said), value
