"""Load fairseq checkpoints without running code from them, and refuse damaged ones.

A checkpoint that someone else made can bring code in three ways.  Once ``models`` is imported,
fairseq's own commands close them as well:

- Its pickle.  Since version 2.6, torch unpickles only classes that it knows or has been told to
  trust, unless it is asked otherwise, as by fairseq's main branch.
  :func:`allow_fairseq_checkpoints` names the few harmless ones that fairseq stores.
- Its settings.  fairseq passes some thirty of them to ``eval``; all its modules that are loaded
  get :func:`plain_value` in its place.  :func:`check_contents` refuses such settings earlier.
- A format of text, ``fasta``, that fairseq reads by a command of the shell.

Not prevented: a checkpoint can name other files, which are then read by these rules; it can ask
for more memory or time than there is; and torch's readers may have faults of their own.
fairseq's ``examples``, and other packages that are imported, may run what they like.
"""

from __future__ import annotations

import argparse
import ast
import collections
import contextlib
import functools
import os
import re
import sys
import typing
import zipfile
from collections.abc import Callable, Iterator

import numpy
import omegaconf
import torch
from fairseq import checkpoint_utils
from fairseq.distributed.utils import _TensorPlaceholder
from fairseq.trainer import Trainer

from .errors import UserError, few
from .fairseq_check import COPIES
from .pruning import SETTINGS, check_pruning

#: Settings that fairseq passes to ``eval`` if they are strings.
EVALUATED = frozenset(
    """adafactor_eps adam_betas adamax_betas adaptive_input_cutoff adaptive_softmax_cutoff
    character_filters conv_aggregator_layers conv_feature_layers decoder_attention decoder_layers
    decoder_xformers_att_config downsample encoder_attention encoder_layers
    encoder_xformers_att_config feature_encoder_spec gated_attention lamb_betas left_pad_source
    left_pad_target override_encoder_layers pipeline_balance pipeline_decoder_balance
    pipeline_decoder_devices pipeline_devices pipeline_encoder_balance pipeline_encoder_devices
    pretrained project_input self_attention wer_args xformers_att_config""".split()
)
#: What such a setting may consist of: ``[(512, 3)] * 4 + [(512, 2)]``, ``1/3``, ``2**-11``.
_PLAIN = (
    *(ast.Expression, ast.Constant, ast.Tuple, ast.List, ast.Dict, ast.Load, ast.BinOp),
    *(ast.UnaryOp, ast.UAdd, ast.USub, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow),
)


def plain_value(text: str) -> object:
    """Return the value of a text of numbers, their arithmetic, strings, tuples, lists and
    dictionaries.

    Raises:
        TypeError: if it is no text, as ``eval`` does; fairseq relies on that.
        UserError: if it contains anything else, such as a name or a call.
    """
    if not isinstance(text, str):
        raise TypeError(f"a text is expected, not {text!r:.100}")
    wrong = (SyntaxError, ValueError, TypeError, ArithmeticError, RecursionError, MemoryError)
    with contextlib.suppress(*wrong):
        tree = ast.parse(text.strip(), mode="eval")
        if all(map(_is_plain, ast.walk(tree))):
            return eval(compile(tree, "<setting>", "eval"), {"__builtins__": {}})
    raise UserError(f"{text!r:.100} is not a plain value, and fairseq would run it as Python code")


def _is_plain(node: ast.AST) -> bool:
    """Whether a part is plain; of powers, only small ones of numbers: their digits multiply."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        exponent = node.right.operand if isinstance(node.right, ast.UnaryOp) else node.right
        if not (isinstance(node.left, ast.Constant) and isinstance(exponent, ast.Constant)):
            return False
        return isinstance(exponent.value, int | float) and exponent.value < 1000
    return isinstance(node, _PLAIN)


def guard_fairseq() -> None:
    """Make fairseq's own loading keep the rules of this file."""
    for name, module in list(sys.modules.items()):
        if name.startswith("fairseq."):
            module.eval = plain_value  # type: ignore[attr-defined]  # found before Python's own
    checkpoint_utils.torch = _SafeTorch()
    checkpoint_utils.load_checkpoint_to_cpu = _checked(checkpoint_utils.load_checkpoint_to_cpu)
    load_models = checkpoint_utils.load_model_ensemble_and_task
    checkpoint_utils.load_model_ensemble_and_task = _fitting(load_models)
    Trainer.load_checkpoint = _resuming(Trainer.load_checkpoint)


class _SafeTorch:
    """torch for fairseq's loading, some versions of which ask it to run code."""

    def __getattr__(self, name: str):
        return getattr(torch, name)

    @staticmethod
    def load(*args, **kwargs):
        return torch.load(*args, **{**kwargs, "weights_only": True})


def _checked(load: Callable) -> Callable:
    @functools.wraps(load)
    def load_checkpoint_to_cpu(path, arg_overrides=None, *args, **kwargs):
        # Of several processes that load one file, the first looks at all of it.
        whole = not (torch.distributed.is_initialized() and torch.distributed.get_rank())
        if whole:
            check_archive(path)
        if any((arg_overrides or {}).get(name) for name in SETTINGS.values()):
            with explained(path):
                state = load(path)
            trained = dict(_settings([state.get("args"), state.get("cfg")]))
            check_pruning(path, state, trained, arg_overrides)
        with explained(path):
            state = load(path, arg_overrides, *args, **kwargs)
        check_contents(path, state, weights=whole)
        cfg = state.get("cfg") or {}
        model, criterion = cfg.get("model"), cfg.get("criterion")
        for name in ("compile", "new_weights"):  # of its training, not of its use
            if model is not None and hasattr(model, "get") and name in model:
                model[name] = False
        if criterion is not None and "cpu_bf16" in criterion:  # as autocast_bf16 was called
            cfg["criterion"] = {
                {"cpu_bf16": "autocast_bf16"}.get(name, name): value
                for name, value in criterion.items()
            }
        return state

    return load_checkpoint_to_cpu


def _fitting(load: Callable) -> Callable:
    @functools.wraps(load)
    def load_model_ensemble_and_task(filenames, *args, **kwargs):
        try:
            return load(filenames, *args, **kwargs)
        except RuntimeError as error:
            if (unfit := misfit(error)) is None:
                raise
            raise UserError(f"{', '.join(map(str, filenames))} {unfit}") from error

    return load_model_ensemble_and_task


def _resuming(load: Callable) -> Callable:
    @functools.wraps(load)
    def load_checkpoint(self, filename, *args, **kwargs):
        try:
            return load(self, filename, *args, **kwargs)
        except UserError:
            raise
        except Exception as error:
            cause = error.__context__  # fairseq hides it
            if isinstance(cause, UserError):
                raise cause from None
            if (unfit := misfit(cause)) is not None:
                raise UserError(f"{filename} {unfit}") from error
            if not isinstance(error, (KeyError, ValueError)):
                raise
            raise UserError(
                f"{filename} cannot be resumed: its optimizer is missing, or another model's "
                f"({error}). --finetune-from-model {filename} begins with its weights alone"
            ) from error

    return load_checkpoint


def misfit(error: BaseException | None) -> str | None:
    """Say which weights torch found not to fit the model, and what to do; None: it was not that."""
    _, found, details = str(error).partition("Error(s) in loading state_dict for ")
    if not found:
        return None
    name, _, lines = details.partition(":")
    parts, advice = [], "Use the dictionaries and the flags (--arch, sizes) of its training"
    for kind, said in {"lacks": "Missing", "has beside them": "Unexpected"}.items():
        for names in re.findall(rf"{said} key\(s\) in state_dict: (.*)", lines):
            listed = re.findall('"(.*?)"', names)
            parts.append(f"it {kind} {few(listed)}")
            if said == "Missing" and all(map(is_new, listed)):
                advice = "With --new-weights, what it lacks keeps its first values"
    sizes = re.findall(r"size mismatch for ([^:]+)", lines)
    if sizes:
        parts.append(f"of another size are {few(sizes)}")
    return f"does not fit the model, a {name}: {'; '.join(parts)}. {advice}"


def is_new(weight: str) -> bool:
    """Whether a weight is of what a Transformer has not: a gate, another fusion, or a bias."""
    return bool(re.search(r"\.self_attn\.(fusion|bias)\.", weight))


#: What torch says where memory, not the file, is the fault.
_MEMORY = re.compile("out of memory|can't allocate memory|not enough memory", re.IGNORECASE)


@contextlib.contextmanager
def explained(path: str | os.PathLike) -> Iterator[None]:
    """Say of which file it is that torch or fairseq cannot make sense.

    Their errors are of many kinds.  Those of the machine or of the code keep their names: a file
    that is missing, memory that is too small, a module that is not installed.
    """
    try:
        yield
    except (UserError, MemoryError, ImportError):
        raise
    except Exception as error:
        if (isinstance(error, OSError) and error.filename) or _MEMORY.search(str(error)):
            raise
        untrusted = re.search(r"GLOBAL (\S+)", str(error))  # in the message of weights_only
        if untrusted:
            problem = f"it refers to {untrusted[1]}, which might run code"
        else:
            # Without torch's advice to load it unsafely.
            said = str(error).rpartition("WeightsUnpickler error: ")[2].strip() or "-"
            said = said.splitlines()[0]
            kind = type(error).__name__
            problem = f"the file is damaged or of another kind ({kind}: {said:.200})"
        raise UserError(f"{path} cannot be loaded as a checkpoint: {problem}") from error


def check_archive(path: str | os.PathLike) -> None:
    """Compare a checkpoint's contents with the checksums in it, which torch does not.

    Checkpoints of torch before 1.6 have none.
    """
    if not zipfile.is_zipfile(path):
        return
    with explained(path), zipfile.ZipFile(path) as archive:
        if not any(member.CRC for member in archive.infolist()):  # torch can leave them out
            return
        damaged = archive.testzip()
    if damaged is not None:
        raise UserError(f"{path} is damaged: {damaged} in it does not have its checksum")


#: Copies of an encoder layer's weights, by which fairseq 0.12.2 goes a faster way.
_COPIES = re.compile(rf"(.*\.)?layers\.\d+\.({'|'.join(COPIES)})")


def check_contents(path: str | os.PathLike, state: dict, *, weights: bool = True) -> None:
    """Refuse settings that fairseq would run as code, and ``weights`` that are inf or NaN.

    Second copies of weights, which fairseq 0.12.2 stores, are dropped, and with them the state of
    an optimizer that had them among its parameters.
    """
    try:
        settings = list(_settings([state.get("args"), state.get("cfg")]))
    except RecursionError:
        raise UserError(f"{path} is not a fairseq checkpoint: its settings have no end") from None
    for name, value in settings:
        if name in EVALUATED and value:
            try:
                plain_value(value)
            except UserError as error:
                raise UserError(f"{path} is refused, in its setting {name}: {error}") from None
        if name == "dataset_impl" and value == "fasta":
            raise UserError(f"{path} is refused: fairseq reads {name}={value} through a shell")
    model = state.get("model")
    named = model if isinstance(model, dict) else {}
    copies = [name for name in named if _COPIES.fullmatch(str(name))]
    for name in copies:
        del named[name]
    if copies and state.get("last_optimizer_state"):
        state["last_optimizer_state"] = {}
    for name, weight in named.items() if weights else ():
        dense = isinstance(weight, torch.Tensor) and weight.layout == torch.strided
        numbers = dense and weight.is_floating_point()
        if not (numbers and weight.numel()):
            continue
        low, high = weight.aminmax()  # of NaN, both are
        # A mask among the weights has -inf, and zeros beside it.
        if not high < torch.inf or (low == -torch.inf and weight[weight > low].any()):
            raise UserError(
                f"{path}: its weight {name} has numbers that are infinite or NaN; the file is "
                "damaged, or the training diverged"
            )


def _settings(node: object, name: str = "") -> Iterator[tuple[str, str]]:
    """All strings among nested settings, with the name of the innermost that holds them."""
    if omegaconf.OmegaConf.is_config(node):
        node = omegaconf.OmegaConf.to_container(node, resolve=False)
    if isinstance(node, argparse.Namespace):
        node = vars(node)
    if isinstance(node, dict):
        for key, value in node.items():
            yield from _settings(value, key)
    elif isinstance(node, (list, tuple)):
        for value in node:
            yield from _settings(value, name)
    elif isinstance(node, str):
        yield name, node


def allow_fairseq_checkpoints() -> None:
    """Make torch trust the classes that fairseq stores in its checkpoints."""
    reconstruct = numpy.zeros(0).__reduce__()[0]
    scalar = numpy.float64(0).__reduce__()[0]
    settings_and_meters: list[typing.Any] = [
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
    sent_between_processes: list[typing.Any] = [
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
