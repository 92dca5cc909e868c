"""Attention over patterns: scores once, a masked softmax per branch or head, fusion.

It needs torch alone.
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
