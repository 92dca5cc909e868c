"""Patterns against the definitions of the papers, position by position."""

import pytest

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

WIDTHS = range(1, 10)

# From the papers' equations: may query i attend to key j?
DEFINITIONS = [
    ("global", GLOBAL, lambda i, j: True),
    ("past", PAST, lambda i, j: j <= i),
    ("future", FUTURE, lambda i, j: i <= j),
    *((f"local {k}", local(k), lambda i, j, k=k: abs(i - j) <= k) for k in WIDTHS),
    *((f"local past {k}", local_past(k), lambda i, j, k=k: 0 <= i - j <= k) for k in WIDTHS),
]


@pytest.mark.parametrize("n", range(1, 8))
@pytest.mark.parametrize("name, pattern, allowed", DEFINITIONS)
def test_mask_is_the_definition(name, pattern, allowed, n):
    mask = pattern.mask(n, n)
    for i in range(n):
        for j in range(n):
            assert mask[i, j].item() == allowed(i, j), (name, i, j)


@pytest.mark.parametrize("name, pattern, allowed", DEFINITIONS)
def test_last_queries_are_the_last_rows(name, pattern, allowed):
    whole = pattern.mask(6, 6)
    for queries in range(1, 7):
        assert pattern.mask(queries, 6).equal(whole[6 - queries :])


def parsed(value, vocabulary):
    faults = Faults("test")
    patterns = parse_patterns("--flag", value, vocabulary, faults)
    faults.raise_if_any()
    return patterns


def test_hysan_and_mma_mean_opposite_directions():
    assert parsed("fw,bw", HYSAN_ENCODER) == (PAST, FUTURE)
    assert parsed("forward,backward", mma_vocabulary(1)) == (FUTURE, PAST)


def test_words_of_the_papers():
    assert parsed("global, l1,l2,l5,l17", HYSAN_ENCODER) == (
        GLOBAL,
        *(local(k) for k in (1, 2, 5, 17)),
    )
    assert parsed("fw,l5", HYSAN_DECODER) == (PAST, local_past(5))
    assert parsed("local,global,local", mma_vocabulary(3)) == (local(3), GLOBAL, local(3))


@pytest.mark.parametrize(
    "value, said",
    [
        ("", "empty"),
        (" ", "empty"),
        ("global,,fw", "''"),
        ("global,sideways", "'sideways'"),
        ("l0", "width 0"),
        ("l", "'l'"),
        ("lK", "'lK'"),
        ("l-1", "'l-1'"),
        ("l1.5", "'l1.5'"),
        ("global2", "'global2'"),
        ("Global", "'Global'"),
    ],
)
def test_wrong_words_are_named(value, said):
    with pytest.raises(UserError, match="--flag") as error:
        parsed(value, HYSAN_ENCODER)
    assert said in str(error.value)


def test_all_faults_are_reported_at_once():
    with pytest.raises(UserError) as error:
        parsed("l0,sideways,global,up", HYSAN_ENCODER)
    assert all(word in str(error.value) for word in ("l0", "sideways", "up"))
