"""Attention-pattern Transformers for fairseq: HySAN, hybrid gate, mixed multi-head attention.

Pass this folder to a fairseq command as ``--user-dir``, or import it in a program, before or after
fairseq: with both, ``models`` is imported, which makes fairseq know the architectures, tasks and
criteria.  Patterns and attention need torch alone.

To read the plugin, start at the top:

=======================  ========================================================================
``patterns.py``          which key a query may attend to
``attention/``           how attention over patterns is computed: ``problem.py``, ``reference.py``
                         (the definition), ``fusion.py``, ``plan.py``, ``multihead.py``; then the
                         choice of a way, ``compute.py``, and the other one, ``sdpa.py``
``devices.py``           what devices, precisions and compilers can do
``vocabulary.py``        the words for patterns and fusions that flags take
``models/``              the architectures: ``transformer.py`` is what all share, ``mma.py`` the
                         shortest of the papers
``criterions/``          fairseq's loss in less time, with bfloat16 on CPUs; supervised attention
``tasks/``               GNMT's length penalty; training that resumes exactly
``checkpoints.py``       loading checkpoints without running code from them; ``pruning.py``
``fairseq_check.py``     which fairseq is accepted; ``fairseq_numpy.py`` mends it for numpy 2,
                         ``fairseq_readers.py`` ends its threads
``errors.py``            messages to users; ``effects.py``, which flags would have no effect
=======================  ========================================================================

``lab/`` is the laboratory, the command ``fairseq-hybrid``.  Only :func:`load` uses it.
"""

import importlib
import sys
from importlib.abc import MetaPathFinder
from typing import TYPE_CHECKING, Any

from .errors import UserError

if TYPE_CHECKING:
    from .attention import PatternedAttention, record_attention
    from .vocabulary import register_fusion, register_pattern

__version__ = "0.1.0"
__all__ = [
    "PatternedAttention",
    "UserError",
    "load",
    "record_attention",
    "register_fusion",
    "register_pattern",
]

#: Where names are that need torch, which takes seconds to import: not for a command's help.
_MODULES = {
    "PatternedAttention": "attention",
    "record_attention": "attention",
    "register_fusion": "vocabulary",
    "register_pattern": "vocabulary",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_MODULES[name]}", __name__), name)


def load(path: Any, **settings: Any) -> Any:
    """Load a trained model that translates text; see ``lab/models/translator.py``.

    It is imported when this is called: the plugin needs nothing of the laboratory.
    """
    importlib.import_module(".models", __name__)  # first: it keeps fairseq from all logging
    translator = importlib.import_module(".lab.models.translator", __name__)
    return translator.load(path, **settings)


class _WithFairseq(MetaPathFinder):
    """Find fairseq as Python does, and import ``models`` after it."""

    def find_spec(self, name, path=None, target=None):
        if name != "fairseq":
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        spec = next(filter(None, (other.find_spec(name, path, target) for other in others)), None)
        if spec is not None and spec.loader is not None:
            load_fairseq = spec.loader.exec_module

            def load_both(module):
                load_fairseq(module)
                importlib.import_module(".models", __name__)

            spec.loader.exec_module = load_both  # type: ignore[method-assign]
        return spec


if sys.modules.get("fairseq"):
    from . import models  # noqa: F401
else:
    sys.meta_path.insert(0, _WithFairseq())
