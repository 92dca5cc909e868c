"""The models, a file for each paper; importing this package registers them with fairseq."""

from . import hybrid_gate, hysan, localness, lstm_on_top, mma

__all__ = ["hybrid_gate", "hysan", "localness", "lstm_on_top", "mma"]
