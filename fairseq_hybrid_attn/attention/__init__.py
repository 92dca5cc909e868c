"""Attention over patterns: scores once, a masked softmax per branch or head, fusion.

Read these files first, in this order; the rest of the package uses nothing else:

====================  ===========================================================================
``problem.py``        what one computation is given and returns; the shape letters of all files
``reference.py``      its definition
``plan.py``           what a layer does: patterns, fusion, bias; models make plans
``fusion.py``         how branches become one (sum, concatenation, gates)
``gaussian.py``       learned biases on the scores (the localness baselines)
``multihead.py``      the module that computes a plan, in place of fairseq's attention
``recording.py``      record weights, branches and gates of a whole model
====================  ===========================================================================

Faster ways of computing a problem are *paths*; ``paths.py`` chooses one, in this order:

====================  ===========================================================================
``step.py``           a decoding step: one query
``fused_cuda/``       all branches in one kernel on a GPU, in Triton
``regions.py``        long sentences: regions of the score matrix, each computed once;
                      ``region_layout.py`` cuts them, ``banded.py`` cuts local ones further,
                      ``flash.py`` calls PyTorch's kernel for them
``short.py``          everything else
====================  ===========================================================================

``autograd.py`` has helpers for the gradients of paths, ``dropout.py`` the dropout of all layers.
"""

from .multihead import AttentionRecord, PatternedSelfAttention
from .plan import AttentionPlan
from .recording import record_attention

__all__ = ["AttentionPlan", "AttentionRecord", "PatternedSelfAttention", "record_attention"]
