"""Plots of what the analyses found.  ``style`` is how all of them look; matplotlib is wanted."""
