"""The exact command lines that train, average, translate and score a run.

Commands are lists of words whose first is the program's name, as a user would type them.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import UserError
from ..config.settings import Settings
from ..corpora.definition import GOLD_BASE, Corpus
from ..corpora.prepared import PreparedFolder
from ..corpora.words import base_language
from ..files.writing import check_for_fairseq
from ..scores import standard_scores
from .devices import Devices, share_out
from .folder import RunFolder

USER_DIR = Path(__file__).resolve().parents[2]

#: Flags of fairseq-train that its task needs in translation as well: how long sentences may be.
OF_TASK = ("max-source-positions", "max-target-positions")

#: An interval of epochs that is never reached, for checkpoints by updates.
NEVER = 1_000_000

#: A value in settings that stands for the source language of the corpus.
SOURCE = "source"

#: Flags of training; fairseq-train takes --bf16 for one of a TPU's.
_PRECISIONS = {"fp32": [], "fp16": ["--fp16"], "bf16": ["--autocast-bf16"]}

#: Tokens of a batch in translation.
GENERATE_TOKENS = {"cpu": 4000, "cuda": 12000}
#: With any other multiple, fairseq-generate leaves out the last batch, that of the longest
#: sentences.
WHOLE_SET = {"required-batch-size-multiple": 1}


@dataclass(frozen=True)
class RunCommands:
    """The command lines that make a run, or evaluate a checkpoint, in a folder."""

    settings: Settings
    recipe: Corpus
    corpus: PreparedFolder
    folder: RunFolder
    devices: Devices
    user_dir: Path | None = None  # a folder of the user's, which imports this package
    by_share: bool = False  # average the same share of a training that ends early

    def by_step(self, seed: int, done: int | None = None) -> dict[str, list[str]]:
        """All steps, after ``done`` updates if the training has ended."""
        if self.settings.aligner:
            return {"align": self.align_training(), "error rate": self.aer()}
        return {
            "train": self.train(seed),
            "average": self.average(done),
            "generate": self.generate(),
            "score": self.score(),
            **({"align": self.align()} if self.settings.align and self.recipe.gold else {}),
            **({"gates": self.gates()} if self.settings.gates else {}),
        }

    def train(self, seed: int) -> list[str]:
        """fairseq-train; a second run resumes from its last checkpoint."""
        settings, recipe, folder = self.settings, self.recipe, self.folder
        max_tokens, update_freq = share_out(settings.batch, self.devices.world)
        data = self.corpus.aligned if settings.needs_alignments else self.corpus.binary
        return [
            *("fairseq-train", str(data)),
            *flags(user_dir=self.user_dir or USER_DIR, task="translation_resumable"),
            *flags(source_lang=recipe.source, target_lang=recipe.target),
            *flags(settings.train),
            *(_evaluation_of_bleu(recipe) if "eval-bleu" in settings.train else ()),
            *flags(max_tokens=max_tokens, update_freq=update_freq, seed=seed),
            *_checkpoint_flags(settings),
            *flags(save_dir=folder.checkpoints, tensorboard_logdir=folder.tensorboard),
            *flags(log_format="json", log_interval=50),
            *_device_flags(self.devices),
        ]

    def average(self, done: int | None = None) -> list[str]:
        """fairseq-hybrid average of the last checkpoints, of a training of ``done`` updates."""
        checkpoints, folder = self.settings.checkpoints, self.folder.checkpoints
        count = self.settings.averaged(done, self.by_share)
        if checkpoints.unit == "best":
            chosen = [str(folder / "checkpoint_best.pt")]
        elif count == 1:
            chosen = [str(folder / "checkpoint_last.pt")]
        else:
            flag = {"update": "last-updates", "epoch": "last-epochs"}[checkpoints.unit]
            chosen = [*flags({flag: count}), str(folder)]
        return ["fairseq-hybrid", "average", *flags(output=self.folder.model), *chosen]

    def generate(self, results: Path | None = None, subset: str = "test") -> list[str]:
        """fairseq-generate of a set, into the folder ``results``."""
        train = self.settings.train
        of_task = {flag: train[flag] for flag in (*OF_TASK, "truncate-source") if flag in train}
        return generate_command(
            *(self.corpus.binary, self.folder.model, subset, results or self.folder.translation),
            languages=self.recipe.languages,
            search=flags(of_task | self.settings.generate),
            on_cpu=self.on_cpu,
            user_dir=self.user_dir,
        )

    def score(self, subset: str = "test", scores: Sequence[str] = ()) -> list[str]:
        """fairseq-hybrid score of the translation against the untouched reference.

        ``scores``: by default, all of the recipe.
        """
        recipe, corpus, folder = self.recipe, self.corpus, self.folder
        reference = corpus.text("raw", subset, recipe.target)
        named = subset == "test" and recipe.has_named_tests
        return [
            *("fairseq-hybrid", "score"),
            *flags(generated=folder.generated(subset), reference=reference),
            *flags(target_lang=recipe.target, subwords=recipe.subwords.family),
            *flags(tokenizer=recipe.tokenizer[recipe.target]),
            *flags(scores=",".join(scores or all_scores(recipe))),
            *flags(test_sets=corpus.test_sets if named else None),
            *flags(lowercase=recipe.lowercase),
            *flags(write=folder.score, hypotheses_out=folder.hypotheses),
        ]

    def align(self) -> list[str]:
        """fairseq-hybrid align of the hand-aligned sentences, with error rates of all heads."""
        recipe, folder, gold_file = self.recipe, self.folder, self.corpus.gold_file
        return [
            *("fairseq-hybrid", "align", str(folder.model), *flags(user_dir=self.user_dir)),
            *flags(data=self.corpus.path, source=gold_file(f"subwords.{recipe.source}")),
            *flags(target=gold_file(f"subwords.{recipe.target}")),
            *flags(self.settings.align),
            *self._gold_flags(),
            *flags(table=True, output=folder.alignment, write=folder.alignment_score),
            *flags(max_tokens=GENERATE_TOKENS[self.devices.kind]),
            *flags(device="cpu" if self.on_cpu else None),
        ]

    def gates(self) -> list[str]:
        """fairseq-hybrid gates: their means, by part of speech if there is a tagger."""
        from ..analysis.tags import TAGGERS  # here: no other command needs it

        asked = dict(self.settings.gates)
        if asked.get("tagger") == SOURCE:
            source = base_language(self.recipe.source)
            asked["tagger"] = source if source in TAGGERS else None
        return [
            *("fairseq-hybrid", "gates", str(self.folder.model), *flags(user_dir=self.user_dir)),
            *flags(data=self.corpus.path),
            *flags(asked),
            *flags(write=self.folder.gates, max_tokens=GENERATE_TOKENS[self.devices.kind]),
            *flags(device="cpu" if self.on_cpu else None),
        ]

    def align_training(self) -> list[str]:
        """fairseq-hybrid align-training of the training text and the hand-aligned sentences."""
        recipe, text = self.recipe, self.folder.aligned_text
        return [
            *("fairseq-hybrid", "align-training"),
            *flags(source_lang=recipe.source, target_lang=recipe.target),
            *flags(subwords=recipe.subwords.family),
            *flags(trainpref=text / "train", testpref=text / "gold", word_suffix="words"),
        ]

    def aer(self) -> list[str]:
        """fairseq-hybrid aer of what the aligner found in the hand-aligned sentences."""
        recipe, folder, gold_file = self.recipe, self.folder, self.corpus.gold_file
        return [
            *("fairseq-hybrid", "aer", str(folder.aligned_text / "gold.words")),
            *self._gold_flags(),
            *flags(source=gold_file(f"words.{recipe.source}")),
            *flags(target=gold_file(f"words.{recipe.target}"), write=folder.alignment_score),
        ]

    @property
    def on_cpu(self) -> bool:
        """Whether its programs must not use GPUs."""
        return self.devices.kind == "cpu"

    def _gold_flags(self) -> list[str]:
        return flags(gold=self.corpus.gold_file("links"), gold_base=GOLD_BASE)


def all_scores(recipe: Corpus) -> tuple[str, ...]:
    """The scores of a corpus, and the standard ones of its target language."""
    return tuple(dict.fromkeys((*recipe.scores, *standard_scores(recipe.target))))


def generate_command(
    data: Path,
    model: Path,
    subset: str,
    results: Path,
    *,
    languages: tuple[str, str] | None = None,
    search: Sequence[str] = (),
    on_cpu: bool,
    user_dir: Path | None = None,
) -> list[str]:
    """fairseq-generate of a set into the folder ``results``, with these flags of its search.

    ``languages`` are those of the checkpoint or the data, unless given.
    """
    source, target = languages or (None, None)
    for path in (data, model):
        check_for_fairseq(path)
    gnmt = any(word.partition("=")[0] == "--gnmt-lenpen" for word in search)
    return [
        *("fairseq-generate", str(data), *flags(user_dir=user_dir or USER_DIR)),
        *flags(source_lang=source, target_lang=target, path=model, gen_subset=subset),
        *(flags(task="translation_gnmt") if gnmt else ()),
        *search,
        *flags(max_tokens=GENERATE_TOKENS["cpu" if on_cpu else "cuda"]),
        *flags(WHOLE_SET, results_path=results),
        *flags(cpu=on_cpu),
    ]


def flags(given: Mapping[str, object] | None = None, **more: object) -> list[str]:
    """Words of a command line; True makes a bare flag, False and None make none."""
    named = {name.replace("_", "-"): value for name, value in more.items()}
    words = []
    for flag, value in {**(given or {}), **named}.items():
        if value is not None and value is not False:
            words += [f"--{flag}"] if value is True else [f"--{flag}", str(value)]
    return words


def by_flag(command: Iterable[str], quote: Callable[[str], str] = shlex.quote) -> list[str]:
    """A command for a shell: the program, and each flag with its values."""
    parts: list[str] = []
    for word in command:
        if word.startswith("--") or not parts:
            parts.append(quote(word))
        else:
            parts[-1] += f" {quote(word)}"
    return parts


def _checkpoint_flags(settings: Settings) -> list[str]:
    """Save what the evaluation needs, and checkpoint_last.pt to resume from."""
    checkpoints = settings.checkpoints
    if checkpoints.unit == "epoch":
        return flags(save_interval=checkpoints.every, keep_last_epochs=checkpoints.average)
    # By epochs only at the end of the training, so that its last updates count as well.
    epochs = settings.train.get("max-epoch", NEVER)
    return flags(
        save_interval_updates=checkpoints.every,
        keep_interval_updates=checkpoints.average,
        # Beside the last ones, keep those at multiples of this number of updates.
        keep_interval_updates_pattern=settings.curve_interval or None,
        no_epoch_checkpoints=True,
        save_interval=epochs,
        validate_interval=epochs,
    )


def _evaluation_of_bleu(recipe: Corpus) -> list[str]:
    """What ``--eval-bleu`` must know about the text."""
    tokenizer = recipe.tokenizer[recipe.target]
    if tokenizer not in ("moses", "none", "given"):
        raise UserError(f"--eval-bleu: fairseq cannot undo {tokenizer}'s tokens during training")
    marks = {"subword-nmt": "@@ ", "sentencepiece": "sentencepiece"}
    return flags(
        eval_bleu_detok="moses" if tokenizer == "moses" else None,
        eval_bleu_remove_bpe=marks[recipe.subwords.family],
    )


def _device_flags(devices: Devices) -> list[str]:
    several, on_cpu = devices.world > 1, devices.kind == "cpu"
    gloo = flags(distributed_backend="gloo", ddp_backend="legacy_ddp")
    return [
        *flags(distributed_world_size=devices.world),
        *_PRECISIONS[devices.precision],
        *flags(compile=devices.compile),
        # Otherwise fairseq would send the pickled checkpoint to the other processes.
        *flags(load_checkpoint_on_all_dp_ranks=several),
        *(flags(cpu=True, num_workers=0) if on_cpu else []),
        *(gloo if on_cpu and several else []),
    ]
