"""Training that, interrupted and resumed, ends where an undisturbed one does.

``--task translation_resumable``.  Under fairseq's task ``translation``, the batches of a training
are made once, from the seed and the epoch that it is started in; resumed in another epoch, it goes
on with other batches, and ends with other weights.  This task makes them anew in each epoch, from
seed and epoch alone.

It also writes every checkpoint that ``--save-interval-updates`` asks for.  Where an epoch ends,
fairseq writes none of that name, so that the last five need not be five intervals apart.

A checkpoint of either task fits the other.

(fairseq reads the types of the fields, so this file cannot postpone annotations.)
"""

import os
import re
import shutil
from argparse import SUPPRESS
from dataclasses import dataclass, field
from pathlib import Path

from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from omegaconf import II

_NUMBERED = re.compile(r"checkpoint_\d+_(\d+)\.pt")


@dataclass
class ResumableTranslationConfig(TranslationConfig):
    """Settings of :class:`ResumableTranslationTask`."""

    #: Not for users: fairseq would make a flag of it that turns it off.
    rebuild_batches: bool = field(default=True, metadata={"help": SUPPRESS})
    # Those of fairseq's own flags.
    save_interval_updates: int = II("checkpoint.save_interval_updates")
    keep_interval_updates: int = II("checkpoint.keep_interval_updates")
    keep_interval_updates_pattern: int = II("checkpoint.keep_interval_updates_pattern")


@register_task("translation_resumable", dataclass=ResumableTranslationConfig)
class ResumableTranslationTask(TranslationTask):
    """Translation with batches that depend on seed and epoch alone, and every checkpoint.

    It is fairseq that heeds ``cfg.rebuild_batches``, in ``FairseqTask.get_batch_iterator``; its
    translation task has no such setting.
    """

    def post_save(self, path: str, num_updates: int) -> None:
        """Called by fairseq-train when it has saved; add the numbered checkpoint if it lacks.

        Args:
            path: of one that was saved.
            num_updates: how many updates it has.
        """
        every, keep = self.cfg.save_interval_updates, self.cfg.keep_interval_updates
        folder = Path(path).parent
        if every < 1 or num_updates % every or num_updates in numbered_checkpoints(folder):
            return
        epoch = self.dataset_to_epoch_iter[self.dataset("train")].epoch
        complete = folder / f"checkpoint_{epoch}_{num_updates}.pt"
        partial = complete.with_suffix(".pt.tmp")
        shutil.copyfile(path, partial)
        os.replace(partial, complete)
        if keep > 0:
            numbered = numbered_checkpoints(folder)
            pattern = self.cfg.keep_interval_updates_pattern
            passing = [updates for updates in numbered if pattern < 1 or updates % pattern]
            for updates in sorted(passing)[:-keep]:
                numbered[updates].unlink()


def numbered_checkpoints(folder: Path) -> dict[int, Path]:
    """The checkpoints of ``--save-interval-updates``, by their updates."""
    matches = ((_NUMBERED.fullmatch(path.name), path) for path in folder.iterdir())
    return {int(match[1]): path for match, path in matches if match}
