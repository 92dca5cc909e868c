"""Archives that expand to far more than any text: refused in a sentence, within little memory.

Peak memory is that of a process of its own, which reads one archive.
"""

import json
import tarfile
import zipfile
import zlib

import pytest
from cli import run_forked

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.files import text

SIZE = 96 << 20  # bytes to which an archive here expands
ALLOWED = 60 << 20  # bytes by which memory may grow: LONGEST, in a few copies
NAMES = ("train.tags.de-en.de", "train.tags.de-en.en")


def header(name, size=0, kind=tarfile.REGTYPE):
    item = tarfile.TarInfo(name)
    item.size, item.type = size, kind
    return item.tobuf(tarfile.GNU_FORMAT)


def gzipped(path, *pieces):
    """Write pieces, each so many times, as one gzip file."""
    packer = zlib.compressobj(wbits=31)
    with open(path, "wb") as file:
        for piece, times in pieces:
            block = max(1, (1 << 20) // len(piece))
            for start in range(0, times, block):
                file.write(packer.compress(piece * min(block, times - start)))
        file.write(packer.flush())
    return path


def one_line(folder):
    return gzipped(folder / "a.tgz", (header(NAMES[0], SIZE), 1), (b"x" * 1024, SIZE >> 10))


def many_lines(folder):
    return gzipped(folder / "a.tgz", (header(NAMES[0], SIZE), 1), (b"x" * 1023 + b"\n", SIZE >> 10))


def not_asked_for(folder):
    return gzipped(folder / "a.tgz", (header("other", SIZE), 1), (b"x" * 1024, SIZE >> 10))


def after_the_end(folder):
    return gzipped(folder / "a.tgz", (bytes(1024), SIZE >> 10))


def many_members(folder):
    return gzipped(folder / "a.tgz", (header("a"), SIZE >> 9))


def long_name(folder):
    head = header("././@LongLink", SIZE, tarfile.GNUTYPE_LONGNAME)
    return gzipped(folder / "a.tgz", (head, 1), (b"x" * 1024, SIZE >> 10))


def hole(folder):
    """A sparse file, as GNU tar stores it: 512 bytes, of which most are left out."""
    head = bytearray(header(NAMES[0], 512, tarfile.GNUTYPE_SPARSE))
    head[386:410] = b"%011o\0%011o\0" % (SIZE, 512)
    head[483:495] = b"%011o\0" % (SIZE + 512)
    head[148:156] = b"        "
    head[148:156] = b"%06o\0 " % sum(head)
    path = folder / "a.tgz"
    return gzipped(path, (bytes(head), 1), (b"x" * 512, 1), (bytes(1024), 1))


def zipped(folder):
    path = folder / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in NAMES:
            with archive.open(name, "w") as file:
                for _ in range(SIZE >> 20):
                    file.write((b"x" * 1023 + b"\n") * 1024)
    return path


def plain_gz(folder):
    return gzipped(folder / f"{NAMES[0]}.gz", (b"x" * 1023 + b"\n", SIZE >> 10))


#: Each bomb, and what is said of it by the readers of lines, of segments and of IWSLT.
BOMBS = {
    one_line: ["line 1: longer than 16 MiB"] * 3,
    many_lines: ["expands to more than", "is longer than 16 MiB; no test set", "expands to more"],
    not_asked_for: ["a.tgz expands to more than 64 MiB"] * 3,
    after_the_end: ["a.tgz expands to more than 64 MiB"] * 3,
    many_members: ["has more than 10,000 files"] * 3,
    long_name: [f"a header of {SIZE:,} bytes"] * 3,
    hole: [f"has no {NAMES[0]}", f"has no {NAMES[0]}", f"no file like {NAMES[0]}"],
    zipped: ["expands to more than", "longer than 16 MiB"],  # IWSLT's archives are tar
    plain_gz: ["expands to more than"],
}
READ = """
import json, resource, sys
from pathlib import Path
from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.corpora import formats
from fairseq_hybrid_attn.lab.corpora.definition import Corpus
from fairseq_hybrid_attn.lab.corpora.readers import iwslt14
from fairseq_hybrid_attn.lab.files.text import lines

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10

def append(how, path, out):
    names = [f"train.tags.de-en.{language}" for language in ("de", "en")]
    with formats.part_writer(out, "train", ("de", "en")) as writer:
        how(writer, path, names)

def iwslt(path, out):
    corpus = Corpus("x", "de", "en", "iwslt14", {}, None, options={"test": []})
    iwslt14.read(corpus, {"a": path}, out)

out = Path(sys.argv[1])
for path in map(Path, sys.argv[2:]):
    ways = [
        lambda: append(formats.append_lines, path, out),
        lambda: append(formats.append_segments, path, out),
        lambda: iwslt(path, out),
    ]
    for read in [lambda: sum(1 for _ in lines(path))] if path.suffix == ".gz" else ways:
        before, said = peak(), None
        try:
            read()
        except UserError as error:
            said = str(error)
        print(json.dumps([said, peak() - before]))
"""


@pytest.mark.slow
def test_an_archive_expands_to_no_more_than_text_would(tmp_path):
    """Neither memory nor time grows with what an archive claims or unpacks to."""
    (tmp_path / "out").mkdir()
    (tmp_path / "read.py").write_text(READ)
    paths, expected = [], []
    for number, (make, said) in enumerate(BOMBS.items()):
        (tmp_path / str(number)).mkdir()
        paths.append(make(tmp_path / str(number)))
        assert paths[-1].stat().st_size < SIZE / 100
        expected += [(make.__name__, one) for one in said + [""] * (make is zipped)]
    done = run_forked(tmp_path / "read.py", [tmp_path / "out", *paths])
    assert not done.returncode, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    for (name, wanted), (said, memory) in zip(expected, found, strict=True):
        assert said and wanted in said, (name, said)
        assert memory < ALLOWED, (name, memory)
    assert list((tmp_path / "out").glob("*/")) == []  # nothing temporary is left


def test_text_that_compresses_well_is_read(tmp_path, monkeypatch):
    """The limits are of what is above them: ten times the archive's size is text."""
    line = b"ein Haus, ein Baum und noch ein Haus\n"
    monkeypatch.setattr(text, "SMALL", 1000)
    monkeypatch.setattr(text, "EXPANSION", 400)
    path = gzipped(tmp_path / "a.gz", (line, 2000))
    assert sum(1 for _ in text.lines(path)) == 2000
    monkeypatch.setattr(text, "EXPANSION", 2000 * len(line) // path.stat().st_size)
    with pytest.raises(UserError, match="a.gz expands to more than"):
        list(text.lines(path))
