"""Scores of finished translations: the metrics by their names, and whether two systems differ."""
