"""The exact command lines that train, average, translate and score a run.

Commands are lists of words whose first is the program's name, as a user would type them.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from ...errors import UserError
from ..configuration.settings import Settings
from ..corpora.gold import BASE as GOLD_BASE
from ..gates.tags import TAGGERS
from ..text.test_sets import TEST_SETS
from .devices import Devices, share_out

USER_DIR = Path(__file__).resolve().parents[2]

#: Interval of epochs that never ends, where checkpoints go by updates.
NEVER = 1_000_000

#: In settings: the source language of the corpus.
SOURCE = "source"

#: Tokens of a batch in translation.
GENERATE_TOKENS = {"cpu": 4000, "cuda": 12000}


@dataclass(frozen=True)
class PreparedCorpus:
    """What commands must know of a prepared corpus.

    Attributes:
        folder: where it was prepared.
        subwords: ``subword-nmt``, ``sentencepiece`` or ``none``.
        tokenizer: of the target, as ``fairseq-hybrid score`` names it.
        lowercase: the model sees lower-cased text.
        scores: which scores are computed.
        gold: it has hand-aligned sentences.
        named_tests: its test text consists of several sets.
    """

    folder: Path
    source: str
    target: str
    subwords: str
    tokenizer: str
    lowercase: bool
    scores: tuple[str, ...]
    gold: bool = False
    named_tests: bool = False

    @property
    def binary(self) -> Path:
        """What fairseq-preprocess made."""
        return self.folder / "bin"

    @property
    def aligned(self) -> Path:
        """The same with word alignments of the training text."""
        return self.folder / "aligned"

    def gold_file(self, name: str) -> Path:
        """A file of the hand-aligned sentences (see ``corpora/gold.py``)."""
        return self.folder / "gold" / name

    def reference(self, subset: str = "test") -> Path:
        """The untouched translations of a set."""
        return self.folder / "raw" / f"{subset}.{self.target}"

    @property
    def source_words(self) -> Path:
        """The tokenised source sentences of the test set."""
        return self.folder / "tokenised" / f"test.{self.source}"

    @property
    def test_sets(self) -> Path | None:
        """What sets the test text consists of, if they have names."""
        return self.folder / "raw" / TEST_SETS if self.named_tests else None


@dataclass(frozen=True)
class RunFolder:
    """The files of a run."""

    path: Path

    checkpoints = property(lambda self: self.path / "checkpoints")
    tensorboard = property(lambda self: self.path / "tensorboard")
    trained = property(lambda self: self.path / "trained.json")
    model = property(lambda self: self.path / "model.pt")
    translation = property(lambda self: self.path / "translation")
    hypotheses = property(lambda self: self.path / "hypotheses.txt")
    score = property(lambda self: self.path / "score.json")
    alignment_score = property(lambda self: self.path / "alignment.json")
    alignment = property(lambda self: self.path / "gold.align")
    gates = property(lambda self: self.path / "gates.json")
    aligned_text = property(lambda self: self.path / "text")
    curve = property(lambda self: self.path / "curve.json")
    begun = property(lambda self: self.path / "begun.json")
    result = property(lambda self: self.path / "result.json")
    lock = property(lambda self: self.path / ".lock")

    def generated(self, subset: str = "test") -> Path:
        """The output of fairseq-generate."""
        return self.translation / f"generate-{subset}.txt"

    def point(self, updates: int) -> RunFolder:
        """Where a checkpoint of the curve is evaluated."""
        return RunFolder(self.path / "curve" / str(updates))

    def log(self, step: str) -> Path:
        """The log of a step."""
        return self.path / "logs" / f"{step}.log"


def train_command(
    settings: Settings, corpus: PreparedCorpus, folder: RunFolder, devices: Devices, seed: int
) -> list[str]:
    """fairseq-train for a run; run again, it resumes from its last checkpoint."""
    max_tokens, update_freq = share_out(settings.batch, devices.world)
    return [
        "fairseq-train",
        str(corpus.aligned if settings.needs_alignments else corpus.binary),
        *words("user-dir", USER_DIR),
        *words("task", "translation_resumable"),
        *words("source-lang", corpus.source),
        *words("target-lang", corpus.target),
        *(word for flag, value in settings.train.items() for word in words(flag, value)),
        *(_evaluation_of_bleu(corpus) if "eval-bleu" in settings.train else ()),
        *words("max-tokens", max_tokens),
        *words("update-freq", update_freq),
        *words("seed", seed),
        *_checkpoint_flags(settings),
        *words("save-dir", folder.checkpoints),
        *words("tensorboard-logdir", folder.tensorboard),
        *("--log-format", "json", "--log-interval", "50"),
        *_device_flags(devices),
    ]


def average_command(settings: Settings, folder: RunFolder) -> list[str]:
    """fairseq-hybrid average: the model that is evaluated, of the run's checkpoints."""
    checkpoints = settings.checkpoints
    if checkpoints.unit == "best":
        chosen = [str(folder.checkpoints / "checkpoint_best.pt")]
    else:
        flag = {"update": "last-updates", "epoch": "last-epochs"}[checkpoints.unit]
        chosen = [*words(flag, checkpoints.average), str(folder.checkpoints)]
    return ["fairseq-hybrid", "average", *words("output", folder.model), *chosen]


def generate_command(
    settings: Settings,
    corpus: PreparedCorpus,
    folder: RunFolder,
    devices: Devices,
    results: Path,
    subset: str = "test",
) -> list[str]:
    """fairseq-generate of a set, into the folder ``results``."""
    flags = dict(settings.generate)
    if "gnmt-lenpen" in flags:
        flags = {"task": "translation_gnmt", **flags}
    return [
        "fairseq-generate",
        str(corpus.binary),
        *words("user-dir", USER_DIR),
        *words("source-lang", corpus.source),
        *words("target-lang", corpus.target),
        *words("path", folder.model),
        *words("gen-subset", subset),
        *(word for flag, value in flags.items() for word in words(flag, value)),
        *words("max-tokens", GENERATE_TOKENS[devices.kind]),
        # Any other size makes fairseq leave out the last batch, that of the longest sentences.
        *words("required-batch-size-multiple", 1),
        *words("results-path", results),
        *(("--cpu",) if devices.kind == "cpu" else ()),
    ]


def score_command(corpus: PreparedCorpus, folder: RunFolder, subset: str = "test") -> list[str]:
    """fairseq-hybrid score of the translation against the untouched reference."""
    sets = corpus.test_sets if subset == "test" else None
    return [
        "fairseq-hybrid",
        "score",
        *words("generated", folder.generated(subset)),
        *words("reference", corpus.reference(subset)),
        *words("target-lang", corpus.target),
        *words("subwords", corpus.subwords),
        *words("tokenizer", corpus.tokenizer),
        *words("scores", ",".join(corpus.scores)),
        *(words("test-sets", sets) if sets else ()),
        *(("--lowercase",) if corpus.lowercase else ()),
        *words("json", folder.score),
        *words("hypotheses-out", folder.hypotheses),
    ]


def align_command(
    settings: Settings, corpus: PreparedCorpus, folder: RunFolder, devices: Devices
) -> list[str]:
    """fairseq-hybrid align of the hand-aligned sentences, with error rates of all heads."""
    return [
        "fairseq-hybrid",
        "align",
        str(corpus.binary),
        *words("path", folder.model),
        *words("source", corpus.gold_file(f"subwords.{corpus.source}")),
        *words("target", corpus.gold_file(f"subwords.{corpus.target}")),
        *words("subwords", corpus.subwords),
        *(word for flag, value in settings.align.items() for word in words(flag, value)),
        *_gold_flags(corpus),
        "--table",
        *words("output", folder.alignment),
        *words("json", folder.alignment_score),
        "--by-sentence",
        *words("max-tokens", GENERATE_TOKENS[devices.kind]),
        *(("--cpu",) if devices.kind == "cpu" else ()),
    ]


def gates_command(
    settings: Settings, corpus: PreparedCorpus, folder: RunFolder, devices: Devices
) -> list[str]:
    """fairseq-hybrid gates: their means, by part of speech where there is a tagger."""
    flags = dict(settings.gates)
    if flags.get("tagger") == SOURCE:
        flags["tagger"] = corpus.source if corpus.source in TAGGERS else None
    return [
        "fairseq-hybrid",
        "gates",
        str(corpus.binary),
        *words("path", folder.model),
        *words("subwords", corpus.subwords),
        *(
            word
            for flag, value in flags.items()
            if value is not None
            for word in words(flag, value)
        ),
        *words("json", folder.gates),
        *words("max-tokens", GENERATE_TOKENS[devices.kind]),
        *(("--cpu",) if devices.kind == "cpu" else ()),
    ]


def align_training_command(corpus: PreparedCorpus, folder: RunFolder) -> list[str]:
    """fairseq-hybrid align-training of the training text and the hand-aligned sentences."""
    text = folder.aligned_text
    return [
        "fairseq-hybrid",
        "align-training",
        *words("source-lang", corpus.source),
        *words("target-lang", corpus.target),
        *words("subwords", corpus.subwords),
        *words("trainpref", text / "train"),
        *words("testpref", text / "gold"),
        *words("word-suffix", "words"),
    ]


def aer_command(corpus: PreparedCorpus, folder: RunFolder) -> list[str]:
    """fairseq-hybrid aer of what the aligner found in the hand-aligned sentences."""
    return [
        "fairseq-hybrid",
        "aer",
        str(folder.aligned_text / "gold.words"),
        *_gold_flags(corpus),
        *words("source", corpus.gold_file(f"words.{corpus.source}")),
        *words("target", corpus.gold_file(f"words.{corpus.target}")),
        *words("json", folder.alignment_score),
    ]


def _gold_flags(corpus: PreparedCorpus) -> list[str]:
    return [*words("gold", corpus.gold_file("links")), *words("gold-base", GOLD_BASE)]


def words(flag: str, value: object) -> list[str]:
    """A flag as words of a command line; a value of True makes a bare flag."""
    return [f"--{flag}"] if value is True else [f"--{flag}", str(value)]


def shell(command: list[str]) -> str:
    """A command for a shell, a flag a line."""
    lines: list[str] = []
    for word in map(shlex.quote, command):
        if word.startswith("--") or not lines:
            lines.append(word)
        else:
            lines[-1] += f" {word}"
    return " \\\n    ".join(lines)


def _checkpoint_flags(settings: Settings) -> list[str]:
    """Save what the evaluation needs, and checkpoint_last.pt to resume from."""
    checkpoints = settings.checkpoints
    if checkpoints.unit == "epoch":
        return [
            *words("save-interval", checkpoints.every),
            *words("keep-last-epochs", checkpoints.average),
        ]
    # By epochs at the end alone, so that the last updates count as well.
    epochs = settings.train.get("max-epoch", NEVER)
    interval = settings.curve_interval
    return [
        *words("save-interval-updates", checkpoints.every),
        *words("keep-interval-updates", checkpoints.average),
        # Beside the last ones, those whose number of updates is a multiple.
        *(words("keep-interval-updates-pattern", interval) if interval else ()),
        "--no-epoch-checkpoints",
        *words("save-interval", epochs),
        *words("validate-interval", epochs),
    ]


def _evaluation_of_bleu(corpus: PreparedCorpus) -> list[str]:
    """What ``--eval-bleu`` must know of the text."""
    if corpus.tokenizer not in ("moses", "none"):
        raise UserError(
            f"--eval-bleu: fairseq cannot undo {corpus.tokenizer}'s tokens during training"
        )
    flags = words("eval-bleu-detok", "moses") if corpus.tokenizer == "moses" else []
    if corpus.subwords != "none":
        mark = {"subword-nmt": "@@ ", "sentencepiece": "sentencepiece"}[corpus.subwords]
        flags += words("eval-bleu-remove-bpe", mark)
    return flags


def _device_flags(devices: Devices) -> list[str]:
    flags = words("distributed-world-size", devices.world)
    if devices.precision != "fp32":
        flags.append(f"--{devices.precision}")
    if devices.world > 1:
        # Otherwise the other processes would be sent the checkpoint pickled.
        flags.append("--load-checkpoint-on-all-dp-ranks")
    if devices.kind == "cpu":
        flags += ["--cpu", *words("num-workers", 0)]
        if devices.world > 1:
            flags += [
                *words("distributed-backend", "gloo"),
                *words("ddp-backend", "legacy_ddp"),
            ]
    return flags
