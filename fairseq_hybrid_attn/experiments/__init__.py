"""From a row of a paper's table to its settings, commands, run, result and printed table.

``configs`` -> :mod:`settings` and :mod:`tables` (what is asked for) -> :mod:`command_lines` (how
fairseq is told) -> :mod:`running` (doing it) -> :mod:`results` (what came out).
"""
