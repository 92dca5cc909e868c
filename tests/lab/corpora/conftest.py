"""A text that is prepared once, completely."""

import pytest
from corpora_made import recipe, sentences, write

from fairseq_hybrid_attn.lab.corpora import own_corpus
from fairseq_hybrid_attn.lab.corpora.pipeline import prepare


@pytest.fixture(scope="session")
def text(tmp_path_factory):
    """A pair of files; do not change it."""
    return write(tmp_path_factory.mktemp("text"), "x", sentences(300))


@pytest.fixture(scope="session")
def prepared(text, tmp_path_factory):
    """The prepared text, fairseq's data included; do not change it."""
    output = tmp_path_factory.mktemp("prepared") / "out"
    prepare(own_corpus(recipe(), text), output, workers=1)
    return output
