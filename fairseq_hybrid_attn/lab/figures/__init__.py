"""Figures: the style of all, and what commands write beside their tables."""
