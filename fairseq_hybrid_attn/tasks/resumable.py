"""Training that gives the same weights whether or not it is interrupted and resumed.

With ``--fp16`` it gives nearly the same: fairseq goes on from weights rounded to float16, and
begins anew to count when the scale of the loss may grow.  On a GPU, the order of additions differs
from run to run anyway.  ``--curriculum`` and ``--update-ordered-indices-seed`` are not covered.

``--task translation_resumable``.  Under fairseq's task ``translation``, training makes its batches
once, from the seed and the epoch in which it starts.  If it is resumed in another epoch, it
continues with different batches and ends with different weights.  This task makes the batches anew
in every epoch, from seed and epoch alone.

With ``gnmt_lenpen`` in ``--eval-bleu-args``, checkpoints are chosen by GNMT's length penalty.

The task saves a checksum of each dictionary, and refuses a model of another.

The task saves for how many validations ``--patience`` has waited, which fairseq forgets.

With ``--validate-interval-updates``, that alone decides when it validates, and so how long
``--patience`` is; fairseq also validates at every checkpoint of ``--save-interval-updates``.

It also writes every checkpoint of ``--save-interval-updates`` that ends an epoch.  fairseq skips
those, so its last five checkpoints may span more than five intervals.

Both tasks can read each other's checkpoints.

(fairseq reads the types of the fields, so this file cannot postpone annotations.)
"""

import functools
import hashlib
import math
import os
import re
import shutil
import sys
from argparse import SUPPRESS
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from omegaconf import II

from ..errors import UserError
from .gnmt import GnmtSequenceGenerator

#: The key, in a checkpoint's state of the task, of each dictionary's checksum.
DICTIONARIES = "dictionaries"
_NUMBERED = re.compile(r"checkpoint_\d+_(\d+)\.pt")


@dataclass
class ResumableTranslationConfig(TranslationConfig):
    """Settings of :class:`ResumableTranslationTask`."""

    #: Hidden from users: fairseq would make it a flag that turns it off.
    rebuild_batches: bool = field(default=True, metadata={"help": SUPPRESS})
    # Copies of fairseq's own settings.
    save_interval_updates: int = II("checkpoint.save_interval_updates")
    keep_interval_updates: int = II("checkpoint.keep_interval_updates")
    keep_interval_updates_pattern: int = II("checkpoint.keep_interval_updates_pattern")
    checkpoint_suffix: str = II("checkpoint.checkpoint_suffix")


@register_task("translation_resumable", dataclass=ResumableTranslationConfig)
class ResumableTranslationTask(TranslationTask):
    """Translation with batches that depend on seed and epoch alone, and with every checkpoint.

    ``FairseqTask.get_batch_iterator`` reads ``cfg.rebuild_batches``, a setting that fairseq's
    translation task does not have.
    """

    def get_batch_iterator(self, dataset, *args, **kwargs):
        """Return fairseq's iterator, which makes batches anew for the training data alone.

        fairseq would count each validation as an epoch of its data, and make other batches.  They
        leave up to seven of the longest sentences out (``--required-batch-size-multiple``), which
        would be others each time if several are of one length.  Of fewer sentences than that,
        none is left out.
        """
        self.cfg.rebuild_batches = dataset is self.datasets.get(self.cfg.train_subset)
        if len(dataset) < kwargs.get("required_batch_size_multiple", 1):
            kwargs["required_batch_size_multiple"] = 1
        try:
            return super().get_batch_iterator(dataset, *args, **kwargs)
        finally:
            self.cfg.rebuild_batches = True

    def build_generator(
        self, models, args, seq_gen_cls=None, extra_gen_cls_kwargs=None, **settings
    ):
        """Build fairseq's generator; with GNMT's ranking if ``--eval-bleu-args`` says so."""
        if (alpha := getattr(args, "gnmt_lenpen", None)) is not None:
            seq_gen_cls = GnmtSequenceGenerator
            extra_gen_cls_kwargs = {**(extra_gen_cls_kwargs or {}), "gnmt_lenpen": alpha}
        return super().build_generator(models, args, seq_gen_cls, extra_gen_cls_kwargs, **settings)

    def state_dict(self) -> dict:
        """Return what a checkpoint keeps: also which words its numbers stand for."""
        return {**super().state_dict(), DICTIONARIES: self._checksums()}

    def load_state_dict(self, state: dict) -> None:
        """Refuse a model of other dictionaries, also of the same size.

        Raises:
            UserError: if a dictionary is not the model's.
        """
        known = state.get(DICTIONARIES, {})
        for language, checksum in self._checksums().items():
            if known.get(language, checksum) != checksum:
                raise UserError(
                    f"the dictionary dict.{language}.txt has other words, or the same in another "
                    "order, than that with which the model was trained"
                )
        super().load_state_dict({key: state[key] for key in state if key != DICTIONARIES})

    def _checksums(self) -> dict[str, str]:
        cfg = self.cfg
        sides = ((cfg.source_lang, self.src_dict), (cfg.target_lang, self.tgt_dict))
        return {language: checksum_of_words(words.symbols) for language, words in sides}

    def begin_epoch(self, epoch: int, model) -> None:
        """Note the epoch, for the names of checkpoints."""
        super().begin_epoch(epoch, model)
        self._epoch = epoch
        _validate_at_its_interval()

    def get_checkpoint_dict(self) -> dict[str, dict]:
        """Return what a checkpoint keeps of this task: the state of ``--patience``."""
        return {type(self).__name__: dict(_early_stopping())}

    def set_checkpoint_dict(self, state: dict) -> None:
        """Go on with what a checkpoint kept."""
        _early_stopping().update(state)

    def post_save(self, path: str, num_updates: int) -> None:
        """Add the numbered checkpoint if it is missing; fairseq-train calls this after saving.

        Args:
            path: a checkpoint that was just saved.
            num_updates: the number of updates so far.
        """
        every, keep = self.cfg.save_interval_updates, self.cfg.keep_interval_updates
        folder = Path(path).parent
        if every < 1 or num_updates % every or num_updates in numbered_checkpoints(folder):
            return
        if self.cfg.checkpoint_suffix:  # of a part of a model, whose other parts are elsewhere
            return
        complete = folder / f"checkpoint_{self._epoch}_{num_updates}.pt"
        partial = complete.with_suffix(".pt.tmp")
        shutil.copyfile(path, partial)
        os.replace(partial, complete)
        if keep > 0:
            numbered = numbered_checkpoints(folder)
            pattern = self.cfg.keep_interval_updates_pattern
            passing = [updates for updates in numbered if pattern < 1 or updates % pattern]
            for updates in sorted(passing)[:-keep]:
                numbered[updates].unlink()


def checksum_of_words(symbols: list[str]) -> str:
    """Return a checksum of a dictionary's words in their order, fairseq's own symbols included."""
    return hashlib.sha256("\n".join(symbols).encode()).hexdigest()


def _early_stopping() -> dict:
    """Return the state of ``--patience``: attributes of a function of fairseq-train."""
    program = _fairseq_train()
    return vars(program.should_stop_early) if program else {}


def _validate_at_its_interval() -> None:
    """Make fairseq-train skip validations that ``--validate-interval-updates`` does not ask for."""
    program = _fairseq_train()
    if program is None:
        return
    names = program.validate_and_save.__globals__  # in a spawned process, not those of the module
    of_fairseq = names["validate"]
    if hasattr(of_fairseq, "__wrapped__"):
        return

    @functools.wraps(of_fairseq)
    def validate(cfg, trainer, task, epoch_itr, subsets):
        every, updates = cfg.dataset.validate_interval_updates, trainer.get_num_updates()
        ends = updates >= (cfg.optimization.max_update or math.inf) or epoch_itr.end_of_epoch()
        if every < 1 or updates % every == 0 or ends:
            return of_fairseq(cfg, trainer, task, epoch_itr, subsets)
        return [None]

    names["validate"] = validate


def _fairseq_train() -> ModuleType | None:
    """Return the program that runs, if it is fairseq-train."""
    modules = (sys.modules.get(name) for name in ("__main__", "fairseq_cli.train"))
    return next((module for module in modules if hasattr(module, "should_stop_early")), None)


def numbered_checkpoints(folder: Path) -> dict[int, Path]:
    """Return the checkpoints of ``--save-interval-updates`` by their number of updates."""
    matches = ((_NUMBERED.fullmatch(path.name), path) for path in folder.iterdir())
    return {int(match[1]): path for match, path in matches if match}
