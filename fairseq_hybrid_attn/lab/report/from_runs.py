"""What finished runs of `reproduce` know, in place of a report's flags."""

from __future__ import annotations

import argparse

from ...errors import UserError
from ..arguments import flags
from ..arguments import models as model_args
from ..lengths.systems import System
from ..runs.finished_run import FinishedRun
from . import translations


def take_from_runs(args: argparse.Namespace, runs: list[FinishedRun]) -> None:
    """Set data, models, texts, translations and logs from the runs of ``--run``."""
    known = {
        "DATA": args.data,
        "--path": args.path,
        "--gen-subset": args.gen_subset,
        "--source": args.source,
        "--target": args.target,
        "--subwords": args.subwords,
        "--source-lang": args.source_lang,
        "--target-lang": args.target_lang,
        **translations.given(args),
        "--log": args.logs,
    }
    flags.refuse(known, "--run knows that; leave out {}")
    corpus = runs[0].corpus
    for path, one in zip(args.runs, runs, strict=True):
        if one.corpus.folder != corpus.folder:
            raise UserError(
                f"--run {path} is of the corpus {one.corpus.folder}, the first of "
                f"{corpus.folder}; models are compared on one test set"
            )
    if args.names and len(args.names) != len(runs):
        raise UserError(f"--names gives {len(args.names)} names for {len(runs)} runs")
    args.names = args.names or model_args.names_of(args.runs)
    args.data, args.path = corpus.binary, [one.folder.model for one in runs]
    # Text, not the binarised set, which has lost unknown subwords.
    text = corpus.folder / "subwords"
    args.source, args.target = (text / f"test.{code}" for code in (corpus.source, corpus.target))
    args.source_lang, args.target_lang = corpus.source, corpus.target
    args.subwords, args.lowercase = corpus.subwords, corpus.lowercase
    args.reference, args.source_words = corpus.reference(), corpus.source_words
    args.test_sets = corpus.test_sets
    named = list(zip(args.names, runs, strict=True))
    args.systems = [System(name, one.folder.hypotheses, False) for name, one in named]
    args.logs = [(name, one.folder.path) for name, one in named if one.has_curves]
