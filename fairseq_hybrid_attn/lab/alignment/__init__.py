"""Word alignments: read from attention, scored against gold, made by an aligner to train on.

The alignment of a sentence is a ``frozenset[tuple[int, int]]``, the links between its words:
pairs (source word, target word), both counted from 0.
"""

#: A layer or a head: its number from 1, counted from the end if negative, or the mean of all.
Choice = int | str
AVERAGE = "average"
