"""Attention-pattern Transformers for fairseq: HySAN, hybrid gate, mixed multi-head attention.

Pass this folder to a fairseq command as ``--user-dir``, or import it in a program.  Either way, it
registers the architectures, the tasks and the criterion, and makes fairseq's checkpoints loadable.

To read the plugin, start at the top:

=======================  ========================================================================
``patterns.py``          which key a query may attend to, and the papers' words for it
``attention/``           how attention over patterns is defined, computed and recorded
``models/``              the architectures, one file for each paper
``cross_entropy.py``     fairseq's loss in less time; bfloat16 on CPUs
``criterions.py``        supervised attention; ``alignment_data.py`` checks its training data
``tasks/``               GNMT's length penalty; training that resumes exactly
``checkpoints.py``       loading checkpoints without running code from them
``fairseq_check.py``     which fairseq is accepted; ``fairseq_numpy.py`` mends it for numpy 2
``errors.py``            messages to users
=======================  ========================================================================

``lab/`` is the laboratory, the command ``fairseq-hybrid``.  The plugin imports nothing from it.
"""

from .fairseq_check import check_fairseq

check_fairseq()

from . import criterions, cross_entropy, models, tasks  # noqa: E402, F401
from .attention import record_attention  # noqa: E402
from .attention.fusion import register_fusion  # noqa: E402
from .checkpoints import allow_fairseq_checkpoints, guard_fairseq  # noqa: E402
from .errors import UserError  # noqa: E402
from .fairseq_numpy import mend_fairseq  # noqa: E402
from .patterns import register_pattern  # noqa: E402

allow_fairseq_checkpoints()
guard_fairseq()
mend_fairseq()

__version__ = "0.1.0"
__all__ = ["UserError", "record_attention", "register_fusion", "register_pattern"]
