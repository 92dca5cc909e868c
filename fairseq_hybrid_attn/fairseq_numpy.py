"""Let fairseq's ``--sample-break-mode eos`` and ``--num-batch-buckets`` run under numpy 2.

fairseq uses two names that numpy 2 has removed.  Its modules get a numpy that still has them; other
packages' numpy stays as it is.  ``tests/plugin/test_registration.py`` fails when this can go.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy
from fairseq.data import data_utils, language_pair_dataset, token_block_dataset


class _FormerNumpy:
    compat = SimpleNamespace(long=int)

    def __getattr__(self, name: str):
        return getattr(numpy, name)

    def percentile(self, numbers, shares, interpolation: Any = "linear"):
        return numpy.percentile(numbers, shares, method=interpolation)


def mend_fairseq() -> None:
    for module in (data_utils, language_pair_dataset, token_block_dataset):
        module.np = _FormerNumpy()
