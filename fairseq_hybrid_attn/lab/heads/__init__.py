"""Heads: how far they look, how peaked they are, how much they differ."""
