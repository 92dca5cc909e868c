"""Patterns against the definitions of the papers, position by position, and the papers' words."""

from dataclasses import dataclass

import pytest
from brute_force import KINDS

from fairseq_hybrid_attn import vocabulary as module
from fairseq_hybrid_attn.errors import Faults, UserError
from fairseq_hybrid_attn.patterns import FUTURE, GLOBAL, PAST, Band, Pattern, local, local_past
from fairseq_hybrid_attn.vocabulary import (
    HYSAN_DECODER,
    HYSAN_ENCODER,
    mma_vocabulary,
    parse_patterns,
    register_pattern,
    vocabulary_for,
)


def test_mask_is_the_definition():
    """The queries are the last rows."""
    for word, (pattern, allowed) in KINDS.items():
        for keys in range(1, 13):
            whole = [[allowed(i, j) for j in range(keys)] for i in range(keys)]
            for queries in range(1, keys + 1):
                assert pattern.mask(queries, keys).tolist() == whole[keys - queries :], word
    assert local(10**30).mask(4, 4).all()


@pytest.mark.parametrize("width", [-1, 1.5, 2.0, "2", None])
def test_a_width_is_a_whole_number(width):
    for pattern in (local, local_past):
        with pytest.raises(UserError, match="whole number, 0 or more"):
            pattern(width)
    assert local(0) == Band(0, 0)


@pytest.mark.parametrize("returned", [lambda offset: offset % 3, lambda offset: offset[:1] > 0])
def test_a_rule_that_gives_no_bool_for_each_offset_is_refused(returned):
    class Wrong(Pattern):
        def allows(self, offset):
            return returned(offset)

    with pytest.raises(UserError, match=r"allows\(\) returned .*, not a bool for each offset"):
        Wrong().mask(4, 4)


def parsed(value, vocabulary):
    faults = Faults("test")
    patterns = parse_patterns("--flag", value, vocabulary, faults)
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
        ("", "global, fw, bw, lK"),
        ("global,,fw", "''"),
        ("global,sideways", "'sideways'", "--user-dir FOLDER"),
        ("l1.5", "'l1.5'"),
        ("Global", "'Global'"),
        ("l0,sideways,global,up", "l0", "sideways", "up"),  # all faults at once
    ):
        with pytest.raises(UserError, match="--flag") as error:
            parsed(value, HYSAN_ENCODER)
        assert all(words in str(error.value) for words in said), value


@dataclass(frozen=True)
class Every(Pattern):
    step: int

    def __post_init__(self):
        if self.step > 9:
            raise ValueError("use 9 or less")

    def allows(self, offset):
        return offset % self.step == 0


@dataclass
class Changeable(Pattern):
    step: int

    def allows(self, offset):
        return offset == self.step


@pytest.fixture
def registry(monkeypatch):
    monkeypatch.setattr(module, "_PATTERNS", {"encoder": {}, "decoder": {}})


def test_registered_words_are_added_to_those_of_a_side(registry):
    register_pattern("encoder", "everyK", Every)
    register_pattern("encoder", "odd-or-even", Every(2))
    register_pattern("decoder", "everyK", local_past)
    vocabulary = vocabulary_for("encoder", HYSAN_ENCODER)
    assert parsed("every3,odd-or-even,fw,every2", vocabulary) == (
        Every(3),
        Every(2),
        PAST,
        Every(2),
    )
    assert parsed("every3", vocabulary_for("decoder", HYSAN_DECODER)) == (local_past(3),)
    for value, said in (
        ("every0", "width 0"),
        ("every10", "'every10': use 9 or less"),
        ("each2", "use global, fw, bw, lK, everyK, odd-or-even"),
    ):
        with pytest.raises(UserError, match=said):
            parsed(value, vocabulary)
    register_pattern("encoder", "changeableK", Changeable)
    with pytest.raises(UserError, match=r"Changeable must be .*@dataclass\(frozen=True\)"):
        parsed("changeable2", vocabulary_for("encoder", {}))


def test_words_that_cannot_be_registered(registry):
    register_pattern("encoder", "everyK", Every)
    for side, word, pattern, said in (
        ("cross", "every", PAST, "'cross' is not a side"),
        ("encoder", "everyK", Every, "'everyK' is a word"),
        ("encoder", "forward", PAST, "'forward' is a word"),
        *(("encoder", word, PAST, "is not a word") for word in ("", "a,b", "l5", "2K")),
        ("encoder", "every", Every, "'every' must be a pattern"),
        ("encoder", "soK", PAST, "'soK' must be a function of a number"),
    ):
        with pytest.raises(UserError, match=said):
            register_pattern(side, word, pattern)
