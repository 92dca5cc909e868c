"""Probing: what a classifier can tell of a sentence from the states of a frozen encoder."""
