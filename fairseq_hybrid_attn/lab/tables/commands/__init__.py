"""The commands for tables."""
