"""The code that a run uses: what its numbers depend on, besides its settings and its data."""

from __future__ import annotations

import re

from fairseq.criterions import CRITERION_REGISTRY
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from fairseq.tasks import TASK_REGISTRY

from ... import patterns
from ...attention import fusion
from ..config.settings import Settings
from ..files.provenance import PACKAGE, used_digest

LAB = f"{PACKAGE.name}.lab"


def modules_of(settings: Settings) -> list[str]:
    """The modules of a run's model, loss and tasks, and of the commands that it consists of."""
    train = settings.train
    registered = [
        *(
            registry.get(train.get("arch"))
            for registry in (ARCH_MODEL_REGISTRY, ARCH_CONFIG_REGISTRY)
        ),
        CRITERION_REGISTRY.get(train.get("criterion")),
        TASK_REGISTRY["translation_resumable"],
        TASK_REGISTRY["translation_gnmt"] if "gnmt-lenpen" in settings.generate else None,
    ]
    ours = {one.__module__ for one in registered if one} | _of_words(train)
    commands = ["cli.average_command", "scores.score_command"]
    if settings.aligner:
        ours = set()
        commands = ["alignment.align_training_command", "alignment.aer_command"]
    commands += ["alignment.align_command"] * bool(settings.align)
    commands += ["look.gates_command"] * bool(settings.gates)
    # What fairseq itself registers is not ours; its version is in the result.
    return [
        f"{PACKAGE.name}.fairseq_numpy",
        *sorted(name for name in ours if name.partition(".")[0] != "fairseq"),
        *(f"{LAB}.{command}" for command in ("runs.running", *commands)),
    ]


def _of_words(train: dict) -> set[str]:
    """The modules that register the words of flags for patterns and fusions (``--user-dir``).

    What a word stands for may be of another module, such as one of our patterns with its numbers.
    """
    words = {word.strip() for value in train.values() for word in str(value).split(",")}
    words |= {re.sub(r"\d+$", "K", word) for word in words}
    registered = patterns.REGISTERED_BY | fusion.REGISTERED_BY
    return {module for word, module in registered if word in words}


def digest_of(settings: Settings) -> str:
    return used_digest(modules_of(settings))
