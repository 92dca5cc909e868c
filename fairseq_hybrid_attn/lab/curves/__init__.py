"""Learning curves, and the training logs they are read from."""
