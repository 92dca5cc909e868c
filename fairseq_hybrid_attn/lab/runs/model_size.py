"""The size of a run's model, before anything is trained."""

from __future__ import annotations

import logging
import warnings
from types import SimpleNamespace

from ..corpora import read_manifest
from ..files.text import count_lines
from .fairseq_commands import flags
from .workspace import Run


def parameter_count(run: Run) -> int:
    """The number of parameters, shared ones counted once."""
    import torch
    from fairseq import options
    from fairseq.data import Dictionary
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf
    from fairseq.models import build_model

    logging.getLogger("hydra").setLevel(logging.WARNING)
    with warnings.catch_warnings():  # hydra's, about how fairseq calls it
        warnings.simplefilter("ignore")
        args = options.parse_args_and_arch(
            options.get_training_parser(), ["data", *flags(run.settings.train)]
        )
        cfg = convert_namespace_to_omegaconf(args)
    source, target = (Dictionary() for _ in range(2))
    for dictionary, size in zip((source, target), _vocabulary(run), strict=True):
        for number in range(size - len(dictionary)):
            dictionary.add_symbol(f"word{number}")
    if run.recipe.subwords.one_dictionary:
        target = source
    task = SimpleNamespace(source_dictionary=source, target_dictionary=target)
    with torch.device("meta"):  # shapes only, no memory
        model = build_model(cfg.model, task)
    return sum(parameter.numel() for parameter in model.parameters())


def _vocabulary(run: Run) -> tuple[int, ...]:
    """The sizes of both vocabularies; those in the recipe if the corpus is not prepared."""
    if read_manifest(run.corpus_folder) is None:
        return (run.recipe.subwords.size,) * 2
    corpus = run.prepared_corpus
    return tuple(
        count_lines(corpus.binary / f"dict.{language}.txt") + 4
        for language in (corpus.source, corpus.target)
    )
