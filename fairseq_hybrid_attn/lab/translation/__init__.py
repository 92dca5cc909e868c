"""Translate text with a trained model: the command, the same in Python, and models to hand on."""
