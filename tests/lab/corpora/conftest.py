"""A text that is prepared once, whole."""

import pytest
from corpora_made import recipe, sentences, write

from fairseq_hybrid_attn.lab.corpora import own_corpus, prepare


@pytest.fixture(scope="session")
def text(tmp_path_factory):
    """A pair of files; only to read."""
    return write(tmp_path_factory.mktemp("text"), "x", sentences(300))


@pytest.fixture(scope="session")
def prepared(text, tmp_path_factory):
    """The text prepared, fairseq's data included; only to read."""
    output = tmp_path_factory.mktemp("prepared") / "out"
    prepare(own_corpus(recipe(), text), output, workers=1)
    return output
