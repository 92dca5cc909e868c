"""What fairseq-generate wrote, against the reference."""

import pytest

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.scores.generate_output import read_generated

REFERENCE = [f"the {word} sleeps ." for word in ("cat", "dog", "bird", "horse")]


def generated(path, targets):
    path.write_text(
        "".join(
            f"S-{n}\ta b\nT-{n}\t{target}\nH-{n}\t-1.0\tit sleeps .\n"
            for n, target in enumerate(targets)
        )
    )
    return path


def test_unknown_words_do_not_make_a_reference_that_of_another_set(tmp_path):
    """fairseq's targets have the words of the dictionary alone, here hardly any."""
    unknown = ["<<unk>> <<unk>> <<unk>> ."] * 4
    for targets in (unknown, [*unknown[:3], REFERENCE[3]]):
        path = generated(tmp_path / "out.txt", targets)
        lines, _ = read_generated(path, [REFERENCE], "none", "none", "en")
        assert lines == ["it sleeps ."] * 4
    path = generated(tmp_path / "out.txt", [*unknown[:3], "quite another sentence here"])
    with pytest.raises(UserError, match="the reference is of another set: sentence 3"):
        read_generated(path, [REFERENCE], "none", "none", "en")
