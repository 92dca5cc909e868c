"""Translate a test set by fairseq-generate, and keep the translations beside the model.

The set is translated in parts of a few batches.  A part that is done is kept, so that an
interrupted translation resumes.  Parts divide fairseq-generate's batches among them: together they
are what it writes for the whole set.  Another model, set, dictionary or search makes them stale.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import math
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import fairseq
from fairseq import options
from fairseq_cli import generate
from tqdm import tqdm

from ...errors import UserError
from ..files.checksums import digest, sha256
from ..files.lock import locked
from ..files.stages import Stage, Stages
from ..files.writing import atomic_write
from ..look.model_arguments import note
from ..runs.fairseq_commands import USER_DIR, WHOLE_SET, flags
from .subjects import Subject

#: Sentences of a part.
PART = 250


def generate_command(subject: Subject, args: argparse.Namespace) -> list[str]:
    """The command that makes these translations at once."""
    return [
        *("fairseq-generate", str(subject.data)),
        *flags(user_dir=args.user_dir or USER_DIR, path=subject.model, gen_subset=subject.subset),
        *flags(source_lang=subject.source, target_lang=subject.target),
        *flags(WHOLE_SET, max_tokens=args.max_tokens, cpu=args.cpu),
        *flags(skip_invalid_size_inputs_valid_test=args.too_long == "skip"),
        *subject.generate,
    ]


def generated(subject: Subject, sentences: int, checksum: str, args: argparse.Namespace) -> Path:
    """The output of fairseq-generate for the set, kept or made; ``checksum`` is the model's."""
    folder = _folder(subject.model, args.output)
    with locked(folder / ".lock", note):
        return _in_folder(folder, subject, sentences, checksum, args)


def _in_folder(
    folder: Path, subject: Subject, sentences: int, checksum: str, args: argparse.Namespace
) -> Path:
    command = generate_command(subject, args)
    data = {
        file.name: sha256(file)
        for file in sorted(subject.data.iterdir())
        if file.name.startswith((f"{subject.subset}.", "dict."))
    }
    # Not where they lie: model and translations may be moved together.
    how = [word for word in command if word not in (str(subject.data), str(subject.model))]
    key = digest([how, checksum, data, fairseq.__version__])
    count = math.ceil(sentences / PART)
    name = f"generate-{subject.subset}.txt"

    def part(number: int) -> Stage:
        def make(partial: Path) -> None:
            places = flags(
                results_path=partial / place, distributed_world_size=count, distributed_rank=number
            )
            _run(subject, [*command, *places])

        place = f"{subject.subset}-{number + 1}-of-{count}"
        return Stage(place, "translating", (place,), key, make)

    def join(_: Path) -> None:
        with atomic_write(folder / name) as file:
            for one in parts:
                file.write((folder / one.makes[0] / name).read_bytes())

    parts = list(map(part, range(count)))
    whole = Stage(subject.subset, "translating", (name,), key, join, in_place=True)
    shop = Stages(folder, say=lambda _: None)
    shop.clear()
    if shop.is_outdated(whole):
        done = sum(not shop.is_outdated(one) for one in parts)
        resumed = f"; {done} of {count} parts are done" if done else ""
        note(f"translating {subject.subset} with {subject.name}, kept in {folder}{resumed}")
        try:
            with tqdm(total=sentences, unit=" sentences", file=sys.stderr) as bar:
                for one in parts:
                    shop.ensure(one)
                    bar.update(min(PART, sentences - bar.n))
        except KeyboardInterrupt:
            done = sum(not shop.is_outdated(one) for one in parts)
            kept = f"{done} of {count} parts are kept in {folder}"
            note(f"interrupted; {kept}: the same command resumes")
            raise
        shop.ensure(whole)
        for one in parts:
            shop.discard(one)
    return folder / name


def _folder(model: Path, output: Path) -> Path:
    """Where translations are kept: beside the model or, if that is not writable, the page."""
    beside = model.with_name(f"{model.stem}.report")
    apart = output.with_name(f"{output.stem}.{digest(str(model.resolve()))[:8]}.report")
    for folder in (beside, apart):
        with contextlib.suppress(OSError):
            folder.mkdir(exist_ok=True)
            if os.access(folder, os.W_OK | os.X_OK):
                return folder
        if folder is beside:
            note(f"{beside} cannot be written to; translations are kept in {apart}")
    raise UserError(f"neither {beside} nor {apart} can be written to; choose another --output")


def _run(subject: Subject, command: list[str]) -> None:
    """Run fairseq-generate in this process, which has imported all that it needs."""
    try:
        with _quiet():
            parser = options.get_generation_parser()
            # A worker would inherit the folder's lock, and could outlive us.
            ours = ["--no-progress-bar", "--num-workers", "0"]
            given = options.parse_args_and_arch(parser, [*command[1:], *ours])
            generate.main(given)
    except ZeroDivisionError:
        return  # in fairseq's statistics of a part without a batch, after all is written
    except (UserError, OSError):
        raise
    except Exception as error:  # of many kinds, from torch and fairseq
        said = (str(error).strip() or repr(error)).splitlines()[0]
        raise UserError(
            f"{subject.model}: fairseq-generate cannot translate {subject.subset}: {said}"
        ) from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without fairseq's log and warnings, and without the handler that it would leave behind."""
    root, silent = logging.getLogger(), logging.NullHandler()
    root.addHandler(silent)
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)
        root.removeHandler(silent)
