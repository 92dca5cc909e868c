"""Runs: plans and states; from the settings of a row to commands, a model and a result file."""
