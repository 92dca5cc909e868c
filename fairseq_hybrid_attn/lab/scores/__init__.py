"""Scores of finished translations: metrics, whether two systems differ, BLEU by length."""
