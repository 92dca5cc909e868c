"""What the attention of trained models does: maps, gates, heads; and how probable text is."""

#: What the rows and columns of a map can be.
UNITS = ("words", "subwords")
