"""The command line, flags that several commands share, and the average of checkpoints."""
