"""Beam search with the length penalty of GNMT: ``--task translation_gnmt --gnmt-lenpen 0.6``.

fairseq ranks finished hypotheses by log P / n^lenpen.  GNMT (Wu et al. 2016, Eq. 14),
tensor2tensor and THUMT rank them by log P / ((5 + n) / 6)^alpha.  No lenpen gives the same ranking,
so a paper's alpha is not a value for ``--lenpen``.  n counts the end symbol, as in fairseq and
tensor2tensor.  There is no coverage term.

The search is fairseq's: it ends when the number of finished hypotheses reaches the beam size.
Use this task for generation, with checkpoints trained under the task ``translation``.

Lengths: ``--max-len-a A --max-len-b B`` allows A s + B tokens before the end symbol.  Here s
is the length of the longest source in the batch, with its end symbol.  The limit of tensor2tensor,
the length of the source plus 50, is therefore ``--max-len-a 1 --max-len-b 49``.

(fairseq reads the types of the fields, so this file cannot postpone annotations.)
"""

import math
from dataclasses import dataclass, field

from fairseq.sequence_generator import SequenceGenerator, SequenceGeneratorWithAlignment
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from ..errors import UserError


def length_penalty(length: int, alpha: float) -> float:
    """Return GNMT's divisor of the log-probability; ``length`` counts the end symbol."""
    return ((5 + length) / 6) ** alpha


class GnmtSequenceGenerator(SequenceGenerator):
    """fairseq's beam search, with finished hypotheses scored and ranked by GNMT's rule.

    fairseq uses the penalised score only for the final ranking: which hypotheses finish
    depends on log-probabilities alone.  So it is enough to replace the ranking at the end.
    """

    def __init__(self, models, tgt_dict, *, gnmt_lenpen: float, **settings):
        super().__init__(models, tgt_dict, **{**settings, "normalize_scores": False})
        self.gnmt_lenpen = gnmt_lenpen

    def _generate(self, *args, **kwargs):
        finalized = super()._generate(*args, **kwargs)
        for hypotheses in finalized:
            for hypothesis in hypotheses:
                penalty = length_penalty(len(hypothesis["tokens"]), self.gnmt_lenpen)
                hypothesis["score"] = hypothesis["score"] / penalty
            hypotheses.sort(key=lambda hypothesis: float(hypothesis["score"]), reverse=True)
        return finalized


class GnmtSequenceGeneratorWithAlignment(SequenceGeneratorWithAlignment, GnmtSequenceGenerator):
    """The same search for ``--print-alignment``."""


@dataclass
class TranslationGnmtConfig(TranslationConfig):
    """Settings of :class:`TranslationGnmtTask`."""

    gnmt_lenpen: float = field(
        default=0.6,
        metadata={
            "help": "length penalty of GNMT: log-probabilities are divided by ((5 + n) / 6)^ALPHA, "
            "n tokens with the end symbol; 0: no normalisation; use it instead of --lenpen",
        },
    )


@register_task("translation_gnmt", dataclass=TranslationGnmtConfig)
class TranslationGnmtTask(TranslationTask):
    """fairseq's translation task, generating with GNMT's length penalty."""

    cfg: TranslationGnmtConfig

    def build_generator(self, models, args, seq_gen_cls=None, extra_gen_cls_kwargs=None, **kwargs):
        """Build fairseq's generator with GNMT's ranking.

        Raises:
            UserError: if the penalty is negative or not finite, or fairseq's is set as well.
        """
        if getattr(args, "score_reference", False):  # no beam search, and no penalty
            return super().build_generator(
                models, args, seq_gen_cls, extra_gen_cls_kwargs, **kwargs
            )
        self._check(args)
        extra = {**(extra_gen_cls_kwargs or {}), "gnmt_lenpen": self.cfg.gnmt_lenpen}
        if seq_gen_cls is None:
            seq_gen_cls = GnmtSequenceGenerator
            if alignment := getattr(args, "print_alignment", None):
                seq_gen_cls = GnmtSequenceGeneratorWithAlignment
                extra["print_alignment"] = alignment
        return super().build_generator(models, args, seq_gen_cls, extra, **kwargs)

    def _check(self, args) -> None:
        alpha = self.cfg.gnmt_lenpen
        if not (math.isfinite(alpha) and alpha >= 0):
            raise UserError(f"--gnmt-lenpen {alpha}: use 0 or more, such as 0.6")
        if getattr(args, "lenpen", 1) != 1:
            raise UserError(
                f"--lenpen {args.lenpen} and --gnmt-lenpen {alpha}: a hypothesis has one length "
                "penalty; omit --lenpen, or use --task translation"
            )
        if getattr(args, "unnormalized", False):
            raise UserError(
                "--unnormalized: --task translation_gnmt normalises; use --gnmt-lenpen 0, or "
                "--task translation"
            )
