"""Scores of finished translations: the metrics by their names, and whether two systems differ."""

from .metrics import METRICS, Metric, Score, build_metric, default_scores
from .significance import Comparison, confidence_interval, paired_bootstrap

__all__ = [
    "METRICS",
    "Comparison",
    "Metric",
    "Score",
    "build_metric",
    "confidence_interval",
    "default_scores",
    "paired_bootstrap",
]
