"""Averaging the weights of checkpoints."""
