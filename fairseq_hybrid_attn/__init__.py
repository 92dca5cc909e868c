"""Attention-pattern Transformers for fairseq: HySAN, hybrid gate, mixed multi-head attention.

Give this folder to a fairseq command as ``--user-dir``, or import it in a program; either
registers the architectures, the tasks and the criterion, and makes fairseq's checkpoints loadable.
"""

from .fairseq_check import check_fairseq

check_fairseq()

from . import criterions, models, tasks  # noqa: E402, F401
from .attention import record_attention  # noqa: E402
from .checkpoints import allow_fairseq_checkpoints  # noqa: E402
from .errors import UserError  # noqa: E402

allow_fairseq_checkpoints()

__version__ = "0.1.0"
__all__ = ["UserError", "record_attention"]
