"""The commands about single runs."""
