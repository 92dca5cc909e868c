"""The command line, and flags that several commands share."""
