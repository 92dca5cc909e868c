"""Training that, interrupted and resumed, ends where an undisturbed one does.

``--task translation_resumable``.  Under fairseq's task ``translation``, the batches of a training
are made once, from the seed and the epoch that it is started in; resumed in another epoch, it goes
on with other batches, and ends with other weights.  This task makes them anew in each epoch, from
seed and epoch alone.  A checkpoint of either task fits the other.

(fairseq reads the types of the fields, so this file cannot postpone annotations.)
"""

from argparse import SUPPRESS
from dataclasses import dataclass, field

from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask


@dataclass
class ResumableTranslationConfig(TranslationConfig):
    """Settings of :class:`ResumableTranslationTask`."""

    #: Not for users: fairseq would make a flag of it that turns it off.
    rebuild_batches: bool = field(default=True, metadata={"help": SUPPRESS})


@register_task("translation_resumable", dataclass=ResumableTranslationConfig)
class ResumableTranslationTask(TranslationTask):
    """Translation with batches that depend on seed and epoch alone.

    It is fairseq that heeds ``cfg.rebuild_batches``, in ``FairseqTask.get_batch_iterator``; its
    translation task has no such setting.
    """
