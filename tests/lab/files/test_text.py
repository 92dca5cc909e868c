"""Reading and writing text."""

import gzip

import pytest
from refusals import check_refusals

from fairseq_hybrid_attn import UserError
from fairseq_hybrid_attn.lab.files import text
from fairseq_hybrid_attn.lab.files.text import ParallelWriter, lines, pairs, read_lines, rewrite

#: Characters at which ``str.splitlines`` would split.
INSIDE = "one\u2028two\x0bthree\x85four\x1cfive\x0csix\rseven"
ODD = [INSIDE, "", " \ufeffÄ 😀 ", "last"]


def test_lines_end_at_newlines_only_in_any_form_of_a_file(tmp_path):
    plain = "\n".join(ODD).encode()
    for form, content in {
        "no newline at the end": plain,
        "newline at the end": plain + b"\n",
        "Windows": plain.replace(b"\n", b"\r\n"),
        "byte order mark": b"\xef\xbb\xbf" + plain,
    }.items():
        (tmp_path / "x").write_bytes(content)
        (tmp_path / "x.gz").write_bytes(gzip.compress(content))
        assert read_lines(tmp_path / "x") == read_lines(tmp_path / "x.gz") == ODD, form


def test_text_that_cannot_be_read_is_refused(tmp_path):
    packed = gzip.compress(b"".join(b"%d\n" % number for number in range(1000)))
    files = {
        "empty": (b"", "empty is empty"),
        "latin": (b"one\ncaf\xe9\n", "latin, line 2: not UTF-8 .byte 0xe9"),
        "mac": (b"one\rtwo\r", "mac: its lines end in carriage returns"),
        "cut.gz": (packed[:-20], "cut.gz is damaged or cut off"),
        "bit.gz": (packed[:-8] + b"xxxx" + packed[-4:], "bit.gz is damaged"),
        "none.gz": (b"one\n", "none.gz is damaged"),
    }
    for name, (content, _) in files.items():
        (tmp_path / name).write_bytes(content)
    refused = {name: said for name, (_, said) in files.items()}
    refused |= {"nowhere": "nowhere cannot be read: No such file", ".": "Is a directory"}
    check_refusals(refused.items(), lambda name: read_lines(tmp_path / name))


def test_pairs_are_of_files_of_equal_length(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("a\nb\n")
    second.write_text("A\nB")
    assert list(pairs(first, second)) == [("a", "A"), ("b", "B")]
    second.write_text("A\nB\n\n")
    for one, other in ((first, second), (second, first)):
        found = pairs(one, other)
        assert [next(found), next(found)] in ([("a", "A"), ("b", "B")], [("A", "a"), ("B", "b")])
        with pytest.raises(UserError, match="first has 2 lines.*|second has 3 lines.*"):
            next(found)


def test_what_is_written_in_parallel_is_read_alike(tmp_path):
    paths = tmp_path / "a", tmp_path / "b"
    with ParallelWriter(*paths) as writer:
        for line in ODD:
            writer.write((line, line[::-1]))
    assert writer.count == len(ODD)
    assert list(pairs(*paths)) == [(line, line[::-1]) for line in ODD]


def marked(line: str, mark: str) -> str:
    if line == "bad":
        raise UserError("a bad line")
    return f"{mark} {line}"


def test_rewriting_is_the_same_for_any_number_of_workers(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "BLOCK", 3)
    source, out = tmp_path / "source", tmp_path / "out"
    text.write_lines(source, [*map(str, range(10)), INSIDE])
    for workers in (1, 2):
        rewrite(source, out, marked, ("-",), workers)
        assert list(lines(out)) == [f"- {line}" for line in lines(source)], workers
    text.write_lines(source, [*"abcdefg", "bad"])
    before = out.read_bytes()
    with pytest.raises(UserError, match="bad"):
        rewrite(source, out, marked, ("-",), 1)
    assert out.read_bytes() == before and {p.name for p in tmp_path.iterdir()} == {"source", "out"}
