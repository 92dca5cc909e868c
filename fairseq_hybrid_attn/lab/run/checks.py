"""Checks of a run before it starts: what fairseq, its model, devices or text would refuse later."""

from __future__ import annotations

import contextlib
import io
import logging
import math
import textwrap
import warnings
from argparse import Namespace
from dataclasses import fields
from functools import cache
from pathlib import Path
from types import SimpleNamespace

from ...errors import UserError, did_you_mean
from ..config.settings import WEIGHTS_OF
from ..files.checkpoints import read_checkpoint
from .devices import Devices, share_out
from .fairseq_commands import GENERATE_TOKENS, OF_TASK, flags
from .workspace import Run

#: Flags of this package's models that somebody may try with fairseq's own.
POSITIONS = ("--no-encoder-positions", "--no-decoder-positions", "--relative-positions")


def check_run(run: Run, devices: Devices) -> None:
    """Refuse a run that would fail, in a sentence with what to write instead."""
    settings = run.settings
    if settings.aligner:
        return
    training = parsed("fairseq-train", *flags(settings.train))
    task = ["--task", "translation_gnmt"] if "gnmt-lenpen" in settings.generate else []
    parsed("fairseq-generate", "--path", "model.pt", *task, *flags(settings.generate))
    words, weights = tuple(flags(settings.train)), settings.train.get(WEIGHTS_OF)
    _check_model(words, run.recipe.subwords.one_dictionary, weights and Path(str(weights)))
    if settings.updates != 0:
        _check_schedule(training)
    for flag in ("memory-efficient-fp16", "memory-efficient-bf16"):
        if devices.kind == "cpu" and getattr(training, flag.replace("-", "_")):
            raise UserError(f"train: {flag}: this needs a GPU; leave it out")
    _check_lengths(run, training, devices)


@cache
def parsed(program: str, *words: str) -> Namespace:
    """The flags of a program of fairseq, with its defaults."""
    from fairseq import options

    from ... import models  # noqa: F401  (fairseq gets to know them)

    logging.getLogger("fairseq.utils").setLevel(logging.WARNING)
    training = program == "fairseq-train"
    parser = options.get_training_parser() if training else options.get_generation_parser()
    part = "train" if training else "generate"
    printed = io.StringIO()
    try:
        with contextlib.redirect_stderr(printed):
            return options.parse_args_and_arch(parser, ["data", *words])
    except UserError as error:  # our models say what is wrong
        raise UserError(f"{part}: {error}") from None
    except SystemExit:
        message = printed.getvalue().strip().rpartition("error: ")[2]
    except Exception as error:  # fairseq evaluates some values
        message = f"{type(error).__name__}: {error}"
    _, unknown, rest = message.partition("unrecognized arguments: ")
    if unknown and (flag := rest.split()[0]) in POSITIONS:
        message = (
            f"{flag} is of this package's models, such as transformer_mma --head-patterns global, "
            "a Transformer"
        )
        if flag != "--relative-positions":
            message += "; fairseq's own have --no-token-positional-embeddings"
    elif unknown:
        message += did_you_mean(rest.split()[0], parser._option_string_actions)
    raise UserError(f"{part}: {program}: {textwrap.shorten(message, 200)}")


@cache
def _check_model(words: tuple[str, ...], one_dictionary: bool, weights: Path | None) -> None:
    """Build the model, without memory, on dictionaries of no words; or on as many as ``weights``
    have, which must fit it.
    """
    import torch
    from fairseq.data import Dictionary
    from fairseq.models import MODEL_DATACLASS_REGISTRY, build_model
    from omegaconf import OmegaConf

    from ...checkpoints import misfit

    cfg = args = parsed("fairseq-train", *words)
    if kind := MODEL_DATACLASS_REGISTRY.get(args.arch):
        # fairseq's own conversion takes most of a second.
        names = [field.name for field in fields(kind) if field.name in args]
        values = {name: getattr(args, name) for name in names}
        cfg = OmegaConf.merge(OmegaConf.structured(kind()), values, {"_name": args.arch})
    state = read_checkpoint(weights)["model"] if weights else {}
    first, second = Dictionary(), Dictionary()
    for side, dictionary in (("encoder", first), ("decoder", second)):
        rows = len(state.get(f"{side}.embed_tokens.weight", ()))
        for number in range(len(dictionary), rows):
            dictionary.add_symbol(str(number))
    if one_dictionary:
        second = first
    task = SimpleNamespace(source_dictionary=first, target_dictionary=second)
    try:
        with torch.device("meta"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # nothing is copied
            model = build_model(cfg, task)
            if weights:
                model.load_state_dict(state)
    except UserError as error:  # our models say what is wrong
        raise UserError(f"train: {error}") from None
    except RuntimeError as error:
        if unfit := misfit(error):
            raise UserError(f"train: {weights} {unfit}") from None
    except ValueError as error:
        raise UserError(f"train: fairseq: {textwrap.shorten(str(error), 200)}") from None
    except Exception:  # perhaps only of what the task has in training
        return


def _check_schedule(args: Namespace) -> None:
    for rate in args.lr if isinstance(args.lr, list) else [args.lr]:
        if not 0 < float(rate) < math.inf:
            raise UserError(f"train: lr: {rate}: use a rate above 0")
    warm_up = getattr(args, "warmup_updates", 0) or 0
    ends = {"max-update": args.max_update}
    ends["total-num-update"] = getattr(args, "total_num_update", None)
    for flag, end in ends.items():
        if end and 0 < float(end) <= warm_up:
            raise UserError(
                f"train: warmup-updates: {warm_up}: the rate would still rise when the training "
                f"ends ({flag}: {end:g}); use --warmup-updates {max(1, int(end) // 10)}"
            )


def _check_lengths(run: Run, args: Namespace, devices: Devices) -> None:
    """Refuse text that fairseq would refuse when it comes to it, if it is prepared."""
    if (manifest := run.manifest) is None:
        return
    languages = (manifest.source, manifest.target)
    positions = (args.max_source_positions, args.max_target_positions)
    batch = share_out(run.settings.batch, devices.world)[0]
    batches = {
        "train": batch,
        "valid": args.max_tokens_valid or batch,
        "test": GENERATE_TOKENS[devices.kind],
    }
    for part, most in batches.items():
        for side, language, limit in zip(OF_TASK, languages, positions, strict=True):
            if f"{part}.{language}" not in manifest.longest:
                continue
            tokens, line = manifest.longest[f"{part}.{language}"]
            left_out = part == "train" or (side == OF_TASK[0] and args.truncate_source)
            left_out |= part == "valid" and args.skip_invalid_size_inputs_valid_test
            longest = f"{run.corpus_folder}/raw/{part}.{language}, line {line}: {tokens:,} tokens"
            if tokens > limit and not left_out:
                raise UserError(
                    f"{longest}, and the model takes {limit:,}; shorten the line in your text, or "
                    f"write --{side} {tokens} after --"
                )
            if min(tokens, limit) == tokens > most:
                flag = f", or use --tokens-per-device {tokens}" if part != "test" else ""
                raise UserError(f"{longest}, and a batch has {most:,}; shorten the line{flag}")
