"""The models, a file for each paper, and ``lm.py``.

Importing this package makes fairseq know them, the tasks and the criteria, and makes fairseq's
checkpoints loadable.  Each class loads a checkpoint of any architecture with ``from_pretrained``.
"""

import atexit

from ..fairseq_check import check_fairseq

check_fairseq()

from .. import criterions, tasks  # noqa: E402, F401
from ..checkpoints import allow_fairseq_checkpoints, guard_fairseq  # noqa: E402
from ..fairseq_numpy import mend_fairseq  # noqa: E402
from ..fairseq_readers import end_readers  # noqa: E402
from .hybrid_gate import HybridGate  # noqa: E402
from .hysan import HySAN  # noqa: E402
from .lm import HySANLanguageModel, MMALanguageModel  # noqa: E402
from .localness import Localness  # noqa: E402
from .lstm_on_top import LSTMOnTop  # noqa: E402
from .mma import MMA  # noqa: E402

allow_fairseq_checkpoints()
guard_fairseq()
mend_fairseq()
atexit.register(end_readers)

__all__ = [
    "MMA",
    "HySAN",
    "HySANLanguageModel",
    "HybridGate",
    "LSTMOnTop",
    "Localness",
    "MMALanguageModel",
]
