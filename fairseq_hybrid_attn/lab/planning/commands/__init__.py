"""The commands for single runs."""
