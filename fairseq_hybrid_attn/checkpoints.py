"""Load fairseq checkpoints without letting them run code.

Since version 2.6, torch unpickles only classes that it knows or has been told to trust.  A fairseq
checkpoint holds a few harmless classes besides tensors.  They are named here, so that
``weights_only=True`` can stay.
"""

from __future__ import annotations

import argparse
import collections
import typing

import numpy
import omegaconf
import torch
from fairseq.distributed.utils import _TensorPlaceholder


def allow_fairseq_checkpoints() -> None:
    """Make torch trust the classes that fairseq stores in its checkpoints."""
    reconstruct = numpy.zeros(0).__reduce__()[0]
    scalar = numpy.float64(0).__reduce__()[0]
    settings_and_meters = [
        argparse.Namespace,
        numpy.ndarray,
        numpy.dtype,
        numpy.dtypes.Int64DType,
        numpy.dtypes.Float64DType,
        # Both names, so that checkpoints pass between numpy 1 and 2.
        *(
            (reconstruct, f"{core}.multiarray._reconstruct")
            for core in ("numpy.core", "numpy._core")
        ),
        *((scalar, f"{core}.multiarray.scalar") for core in ("numpy.core", "numpy._core")),
    ]
    # When several processes resume, the first sends its checkpoint to the others as it is in
    # memory: settings are omegaconf objects, and placeholders stand for the tensors.
    sent_between_processes = [
        dict,
        int,
        list,
        collections.defaultdict,
        typing.Any,
        omegaconf.DictConfig,
        omegaconf.ListConfig,
        omegaconf.base.ContainerMetadata,
        omegaconf.base.Metadata,
        omegaconf.nodes.AnyNode,
        _TensorPlaceholder,
    ]
    torch.serialization.add_safe_globals(settings_and_meters + sent_between_processes)
