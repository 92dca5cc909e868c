"""Prepare a corpus, or your own text, as data that fairseq trains on.

:func:`load_corpus` reads a recipe, :func:`own_corpus` replaces its archives with your text,
:func:`read_manifest` reads what ``pipeline.prepare`` makes of it.
"""

from .definition import Corpus, load_corpus
from .manifest import Manifest, read_manifest
from .own import own_corpus

__all__ = ["Corpus", "Manifest", "load_corpus", "own_corpus", "read_manifest"]
