"""What the tests of fairseq's commands share: a corpus, and a checkpoint trained on it."""

import pytest
from cli import binarise, train, write_corpus


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """The data of sequences and their reversal, with awkward lines and with alignments.

    ``test1`` has no awkward lines: fairseq's ``--prefix-size`` needs longer ones.
    """
    folder = tmp_path_factory.mktemp("corpus")
    write_corpus(folder, hard_cases=True)
    for split in ("train", "valid"):
        lengths = [len(line.split()) for line in (folder / f"{split}.de").read_text().split("\n")]
        links = [" ".join(f"{i}-{n - 1 - i}" for i in range(n)) for n in lengths[:-1]]
        (folder / f"{split}.align").write_text("".join(f"{line}\n" for line in links))
    for language, order in (("de", 1), ("en", -1)):
        lines = [" ".join(word[::order]) + "\n" for word in ("abcd", "jig", "cafe", "bib")]
        (folder / f"easy.{language}").write_text("".join(lines))
    return binarise(folder, "--align-suffix", "align", "--testpref", "test,easy")


@pytest.fixture(scope="session")
def trained(corpus, tmp_path_factory):
    """The checkpoint of a small HySAN."""
    folder = tmp_path_factory.mktemp("trained")
    flags = ["--squeeze-ratio", 4, "--max-update", 4]
    train(corpus, "model", "transformer_hysan", *flags, cwd=folder)
    return folder / "model/checkpoint_last.pt"
