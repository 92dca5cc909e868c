"""The commands of the package, one module each.

A command module has ``HELP`` (one line), ``add_arguments(parser)`` and ``run(args)``; it is
listed in :mod:`fairseq_hybrid_attn.__main__`.
"""
