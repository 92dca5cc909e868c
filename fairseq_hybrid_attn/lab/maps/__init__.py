"""Attention maps: pages, figures and data."""
