"""Attention over patterns: scores once, a masked softmax per branch or head, fusion.

``problem.py`` says what is computed, ``reference.py`` is its definition, ``paths.py``
holds the ways of computing it, ``fusion.py`` and ``gaussian.py`` the learned parts,
``multihead.py`` the module that puts them together as a ``plan.py`` says.
"""

from .multihead import AttentionRecord, PatternedSelfAttention
from .plan import AttentionPlan
from .recording import record_attention

__all__ = ["AttentionPlan", "AttentionRecord", "PatternedSelfAttention", "record_attention"]
