"""The contents of configs/: settings, tables, rows and columns."""
