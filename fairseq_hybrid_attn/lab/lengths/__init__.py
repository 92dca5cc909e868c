"""BLEU by the length of the source sentence."""
