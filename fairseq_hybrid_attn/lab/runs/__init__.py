"""Runs: from the settings of a row to command lines, a trained model and a result file."""
