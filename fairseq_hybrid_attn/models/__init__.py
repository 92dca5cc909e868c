"""The models, a file for each paper; importing this package registers them with fairseq."""

from . import hybrid_gate, hysan, localness, mma

__all__ = ["hybrid_gate", "hysan", "localness", "mma"]
