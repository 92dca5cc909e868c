"""The settings of a model: fairseq's transformer settings in a flat dataclass, and the paper's own.

fairseq keeps its transformer settings in nested dataclasses, which ``fairseq-train --arch`` cannot
fill.  ``fairseq-hydra-train`` cannot fill the flat, untyped settings of older models.  A flat
dataclass works with both.

(fairseq reads the types of the fields, so the files that define such dataclasses cannot
postpone annotations with ``from __future__ import annotations``.)
"""

from argparse import Namespace
from dataclasses import dataclass, field, fields, make_dataclass
from typing import Any, Optional

from fairseq.dataclass import FairseqDataclass
from fairseq.models.transformer import TransformerConfig
from omegaconf import II, DictConfig, OmegaConf

#: Settings that are nested in fairseq's dataclass, by the prefix of their flat names.
_NESTED = ("encoder", "decoder", "quant_noise")

#: Where the flat setting differs from fairseq's.  A decoder size that is not given follows the
#: encoder (or the decoder), as in fairseq's ``--arch transformer``.  Limits come from the task.
#: Lists of layers are text, which fairseq's model builder expects.
_OVERRIDES = {
    "decoder_embed_dim": (Optional[int], None, "decoder embedding dimension; as the encoder's"),
    "decoder_ffn_embed_dim": (Optional[int], None, "decoder FFN dimension; as the encoder's"),
    "decoder_input_dim": (Optional[int], None, "decoder input dimension; as --decoder-embed-dim"),
    "decoder_output_dim": (
        Optional[int],
        None,
        "decoder output dimension; as --decoder-embed-dim",
    ),
    "encoder_layers_to_keep": (Optional[str], None, "comma list of encoder layers to keep"),
    "decoder_layers_to_keep": (Optional[str], None, "comma list of decoder layers to keep"),
    "max_source_positions": (int, II("task.max_source_positions"), None),
    "max_target_positions": (int, II("task.max_target_positions"), None),
}


def _flat_fields():
    for outer in fields(TransformerConfig):
        if outer.name.startswith("_"):
            continue
        nested = outer.name in _NESTED
        kind: Any = outer.type
        for inner in fields(kind) if nested else (outer,):
            if inner.name.startswith("_"):
                continue
            name = f"{outer.name}_{inner.name}" if nested else inner.name
            if name in _OVERRIDES:
                kind, default, text = _OVERRIDES[name]
                yield name, kind, field(default=default, metadata={"help": text} if text else {})
            else:
                metadata = dict(inner.metadata)
                if nested and "help" in metadata:
                    metadata["help"] = f"{outer.name.replace('_', ' ')}: {metadata['help']}"
                yield name, inner.type, field(default=inner.default, metadata=metadata)


FlatTransformerConfig = make_dataclass(
    "FlatTransformerConfig", list(_flat_fields()), bases=(FairseqDataclass,)
)


@dataclass
class OurSettings(FairseqDataclass):
    """The settings that all models of this package share."""

    compile: bool = field(
        default=False,
        metadata={
            "help": "compile the layers: on a GPU, training needs less time, but some minutes more "
            "at its start; a checkpoint does not ask for it"
        },
    )

    relative_positions: Optional[str] = field(
        default=None,
        metadata={
            "help": "rotary or alibi: positions within the self-attention, in place of positional "
            "embeddings, on each side that has positions"
        },
    )
    new_weights: bool = field(
        default=False,
        metadata={
            "help": "with --finetune-from-model: gates, fusions and biases that the model lacks "
            "keep their first values"
        },
    )

    def _get_help(self, name):
        """End the help of a flag with the words that it takes now, the user's included."""
        text, vocabulary = super()._get_help(name), self._get_meta(name, "vocabulary")
        return f"{text}: {', '.join(vocabulary())}" if vocabulary else text


@dataclass
class PatternedTransformerConfig(OurSettings, FlatTransformerConfig):  # type: ignore[valid-type, misc]
    """The settings of the models that translate."""

    no_encoder_positions: bool = field(
        default=False, metadata={"help": "no positional embedding in the encoder"}
    )
    no_decoder_positions: bool = field(
        default=False, metadata={"help": "no positional embedding in the decoder"}
    )


def with_defaults(config: type, name: str, **defaults) -> type:
    """Return a dataclass like ``config`` with other default values: a named size of a model.

    Raises:
        TypeError: if ``config`` does not have a field of ``defaults``.
    """
    by_name = {f.name: f for f in fields(config)}
    unknown = set(defaults) - set(by_name)
    if unknown:
        raise TypeError(f"{config.__name__} has no {', '.join(sorted(unknown))}")
    changed = [
        (key, by_name[key].type, field(default=value, metadata=by_name[key].metadata))
        for key, value in defaults.items()
    ]
    return make_dataclass(name, changed, bases=(config,), namespace={"__doc__": config.__doc__})


def nested_config(cfg: DictConfig) -> TransformerConfig:
    """Build fairseq's nested transformer settings from our flat ones.

    Settings that fairseq does not know become attributes of the result as well.
    """
    flat = OmegaConf.to_container(cfg, resolve=True, enum_to_str=True)
    for ours, theirs in (
        ("decoder_embed_dim", "encoder_embed_dim"),
        ("decoder_ffn_embed_dim", "encoder_ffn_embed_dim"),
        ("decoder_input_dim", "decoder_embed_dim"),
        ("decoder_output_dim", "decoder_embed_dim"),
    ):
        if flat[ours] is None:
            flat[ours] = flat[theirs]
    return TransformerConfig.from_namespace(Namespace(**flat))
