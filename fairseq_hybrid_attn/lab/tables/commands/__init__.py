"""The commands about tables."""
