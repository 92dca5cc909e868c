"""Attention over patterns: scores once, a masked softmax per branch or head, fusion.

It needs torch alone.  Read these files in this order:

====================  ===========================================================================
``problem.py``        what one computation is given and returns; the shape letters of all files
``reference.py``      its definition
``plan.py``           what a layer does: patterns, fusion, bias; models make plans
``fusion.py``         how branches become one (sum, concatenation, gates)
``gaussian.py``       learned biases on the scores (the localness baselines)
``multihead.py``      the module, in the place of ``nn.MultiheadAttention``
``recording.py``      record weights, branches and gates of a whole model
====================  ===========================================================================

Two ways of computing a problem are faster than its definition, and ``compute.py`` chooses:
``sdpa.py``, by PyTorch's attention, on GPUs and over long sentences; ``cpu.py`` for the rest.
``masks.py`` makes the masks of all three; ``autograd.py`` and ``dropout.py`` help ``cpu.py``.
"""

from .multihead import AttentionRecord, KeyValueCache, PatternedAttention
from .plan import AttentionPlan
from .recording import record_attention

__all__ = [
    "AttentionPlan",
    "AttentionRecord",
    "KeyValueCache",
    "PatternedAttention",
    "record_attention",
]
