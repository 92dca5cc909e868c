"""Check the alignments that supervised attention is trained on.

fairseq silently trains without alignments if there are none, and silently drops those that do not
fit their sentence.  Here both are errors.
"""

from __future__ import annotations

import torch
from fairseq.data import LanguagePairDataset

from ..errors import UserError

#: The maximum number of wrong links in a message.
_SHOWN = 5
#: The number of sentences checked at a time.
_TOGETHER = 10_000


def check_what_is_loaded(task) -> None:
    """Make a translation task check the alignments of every data set that it loads from now on.

    fairseq loads data after it has built the criterion, and through the task alone.

    Raises:
        UserError: if the task changes the lengths of sentences.
    """
    load = task.load_dataset
    # With either flag, fairseq reports wrong sentence lengths and silently drops alignments.
    for flag in ("truncate_source", "num_batch_buckets"):
        if getattr(getattr(task, "cfg", None), flag, False):
            raise UserError(
                f"--{flag.replace('_', '-')} cannot be used with supervised attention: alignments "
                "count the tokens of whole sentences"
            )

    def load_and_check(split, *args, **kwargs):
        load(split, *args, **kwargs)
        dataset = task.datasets[split]
        if not isinstance(dataset, LanguagePairDataset):
            raise UserError(f"{split}: supervised attention needs a translation task")
        if dataset.align_dataset is not None:
            check_alignments(dataset, split)
        elif split == task.cfg.train_subset:
            raise UserError(
                f"{split} has no alignments: give --load-alignments, and make the data with "
                "fairseq-preprocess --align-suffix (fairseq-hybrid align-training aligns text)"
            )

    task.load_dataset = load_and_check


def check_alignments(dataset: LanguagePairDataset, name: str) -> None:
    """Check that alignments fit their text.

    Args:
        dataset: text and alignments; each sentence of the text has its end symbol.
        name: of the data set, for messages.

    Raises:
        UserError: if the numbers of lines and sentence pairs differ, if links are outside their
            sentences (naming line, link and lengths), or if there are no links at all.
    """
    alignments, pairs = dataset.align_dataset, len(dataset.src)
    if len(alignments) != pairs:
        raise UserError(
            f"{name}: {len(alignments):,} lines of alignments, but {pairs:,} sentence pairs; "
            "each pair needs its line, empty if it has no links"
        )
    wrong: list[str] = []
    total = beyond = 0
    for start in range(0, pairs, _TOGETHER):
        lines = range(start, min(start + _TOGETHER, pairs))
        links = [alignments[line] for line in lines]
        counts = torch.tensor([len(line) // 2 for line in links])
        line = torch.arange(lines.start, lines.stop).repeat_interleave(counts)
        link = torch.cat(links).view(-1, 2).long()
        lengths = torch.tensor(
            [(dataset.src_sizes[line], dataset.tgt_sizes[line]) for line in lines]
        )
        words = lengths[line - start] - 1  # without the end symbol
        bad = ((link < 0) | (link >= words)).any(dim=1)
        total += len(link)
        beyond += int(bad.sum())
        wrong += [
            f"line {number + 1}: {s}-{t}, but the source has {n} tokens and the target {m}"
            for number, (s, t), (n, m) in zip(
                line[bad].tolist(), link[bad].tolist(), words[bad].tolist(), strict=True
            )
        ][: _SHOWN - len(wrong)]
    if beyond:
        more = [f"and {beyond - len(wrong):,} more"] if beyond > len(wrong) else []
        raise UserError(
            "\n  ".join(
                [
                    f"{name}: links of the alignments are outside their sentences; tokens "
                    "count from 0, as the model sees them (subwords):",
                    *wrong,
                    *more,
                ]
            )
        )
    if not total:
        raise UserError(f"{name}: the alignments have no links")
