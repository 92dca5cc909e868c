"""Small parallel texts, recipes for them, and what preparing them makes."""

import io
import random
import tarfile
from dataclasses import replace
from pathlib import Path

from fairseq_hybrid_attn.lab.corpora import load_corpus, pipeline
from fairseq_hybrid_attn.lab.corpora.definition import Subwords
from fairseq_hybrid_attn.lab.corpora.pipeline import prepare

CONFIGS = Path(__file__).parents[2] / "configs"
WORDS = {
    "de": "Haus Baum Hund Katze Vogel Wasser Feuer Garten Schule Straße".split(),
    "en": "house tree dog cat bird water fire garden school street".split(),
}


def sentences(count, seed=0):
    """Pairs of sentences, word for word; no two alike."""
    choose = random.Random(seed)
    pairs = {}
    while len(pairs) < count:
        words = [choose.randrange(10) for _ in range(choose.randint(3, 7))]
        de, en = (" ".join(side[word] for word in words) + "." for side in WORDS.values())
        pairs[de] = en
    return list(pairs.items())


def write(folder, stem, pairs, languages=("de", "en")):
    """Write a parallel text to ``folder/STEM.LANGUAGE``; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for side, language in enumerate(languages):
        text = "".join(f"{pair[side]}\n" for pair in pairs)
        (folder / f"{stem}.{language}").write_bytes(text.encode())
    return folder


def parts(folder, **changes):
    """Write all three parts of a text; return the folder."""
    pairs = sentences(60)
    texts = {"train": pairs[:40], "valid": pairs[40:50], "test": pairs[50:], **changes}
    for part, part_pairs in texts.items():
        write(folder, part, part_pairs)
    return folder


def tar(files, compression="gz"):
    """The content of an archive of files and a folder."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode=f"w:{compression}") as archive:
        folder = tarfile.TarInfo("folder")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name, content in files.items():
            content = content.encode() if isinstance(content, str) else content
            item = tarfile.TarInfo(name)
            item.size = len(content)
            archive.addfile(item, io.BytesIO(content))
    return written.getvalue()


def lines(path):
    r"""The lines of a file, which end at ``\n`` alone."""
    return path.read_bytes().decode().split("\n")[:-1]


def pairs_of(output, part, kind="raw"):
    """The pairs of a part of a prepared corpus."""
    return list(zip(*(lines(output / kind / f"{part}.{la}") for la in ("de", "en")), strict=True))


def recipe(name="own", kind="subword-nmt", size=30, joint=True):
    """A recipe with few subwords, as for such a small text."""
    return replace(load_corpus(name, CONFIGS), subwords=Subwords(kind, size, joint))


def remade(corpus, output, downloads=None):
    """The first words of the stages that preparing a corpus runs."""
    said = []
    prepare(corpus, output, downloads, workers=1, say=said.append)
    return [line.split(" ")[0].rstrip(":,") for line in said]


def state(folder):
    """Every file with its content and its time."""
    return {
        path.relative_to(folder): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


def skip_preprocess(patch):
    """Prepare corpora without fairseq-preprocess, which takes seconds to start."""

    def binarise(corpus, subwords, output, workers):
        for language in corpus.languages:
            text = (subwords / f"train.{language}").read_bytes()
            (output / f"dict.{language}.txt").write_bytes(text)
        return {"dictionary": dict.fromkeys(corpus.languages, 0), "longest": {}}

    patch.setattr(pipeline, "binarise", binarise)
