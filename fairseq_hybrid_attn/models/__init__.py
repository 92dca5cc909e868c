"""The models, a file for each paper, and ``lm.py``; importing this package registers them.

Read ``transformer.py`` (what all models share) and then ``mma.py`` (the shortest model).  Each
class loads a checkpoint of any architecture with ``from_pretrained``, as fairseq's
``TransformerModel`` does.
"""

from .hybrid_gate import HybridGate
from .hysan import HySAN
from .lm import HySANLanguageModel, MMALanguageModel
from .localness import Localness
from .lstm_on_top import LSTMOnTop
from .mma import MMA

__all__ = [
    "MMA",
    "HySAN",
    "HySANLanguageModel",
    "HybridGate",
    "LSTMOnTop",
    "Localness",
    "MMALanguageModel",
]
