"""The criteria; importing this package registers them with fairseq."""

from . import cross_entropy, supervised_attention  # noqa: F401
