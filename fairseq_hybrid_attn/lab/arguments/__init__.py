"""Command-line arguments that several commands share."""
