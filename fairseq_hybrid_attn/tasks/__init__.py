"""The tasks; importing this package registers them with fairseq."""

from . import gnmt, resumable  # noqa: F401
