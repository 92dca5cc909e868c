"""Probing: what a classifier can tell about a sentence from the states of a frozen encoder."""
