"""fairseq's dropout, which takes up to a seventh of a training step on CPUs, in less time.

Each process of a training drops other elements, which fairseq would seed alike.
"""

from __future__ import annotations

import torch
from fairseq.modules import FairseqDropout
from torch import Tensor, nn

from ..attention.dropout import dropout

#: Classes that fairseq calls otherwise.
_NAMES = {
    "TransformerEncoderBase": "TransformerEncoder",
    "TransformerDecoderBase": "TransformerDecoder",
}


class Dropout(FairseqDropout):
    """fairseq's module, faster on CPUs."""

    def forward(self, x: Tensor, inplace: bool = False) -> Tensor:
        """Return ``x``, or in training ``x`` with dropped elements."""
        active = self.p > 0 and (self.training or self.apply_during_inference)
        return dropout(x, self.p) if active else x


def use_fast_dropout(model: nn.Module) -> None:
    """Put :class:`Dropout` in the place of fairseq's module.

    ``--retain-dropout-modules`` knows it by the name of fairseq's class, not of our subclass.
    """
    for parent in list(model.modules()):
        for name, child in parent.named_children():
            if type(child) is FairseqDropout:
                ours = child.module_name == type(parent).__name__
                known = _fairseq_name(parent) if ours else child.module_name
                setattr(parent, name, Dropout(child.p, known))
    model.register_forward_pre_hook(_seed_by_rank)


def _seed_by_rank(model: nn.Module, given: tuple) -> None:
    """Make the random numbers of a training on CPUs depend on the process, if there are several.

    fairseq gives all processes one seed for an update, of which the rest follows: so a resumed
    training has the numbers of an undisturbed one.
    """
    distributed = torch.distributed
    if not (model.training and distributed.is_available() and distributed.is_initialized()):
        return
    if distributed.get_world_size() > 1 and distributed.get_backend() == "gloo":
        torch.manual_seed(int(torch.randint(2**62, ())) + distributed.get_rank())


def _fairseq_name(module: nn.Module) -> str:
    """The name by which fairseq knows a module: its class, or the one that it extends."""
    kinds = type(module).__mro__
    named = next((kind for kind in kinds if kind.__module__.startswith("fairseq.")), kinds[0])
    return _NAMES.get(named.__name__, named.__name__)
