"""What a model's folder needs, made of fairseq's parts: a checkpoint, data and the user's codes."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ...errors import UserError
from ..corpora.definition import Subwords, load_corpus
from ..corpora.manifest import Manifest, digest_of
from ..corpora.prepared import PreparedFolder
from ..corpora.subwords import splitter
from ..corpora.tokenisers import detokeniser
from ..corpora.words import MOSES_WORDS, join_subwords, looks_of
from ..files.checksums import sha256
from ..files.json_files import write_json
from ..files.yaml_files import CONFIGS
from ..models.trained import TrainedModel
from ..scores import standard_scores
from .fairseq_commands import flags

#: How many sentences of the data are prepared anew, and which share of them must come out as there.
_TRIED, _ALIKE = 200, 0.5
#: Settings that are written out also where they are fairseq's defaults.
_ALWAYS = ("criterion", "optimizer", "lr_scheduler", "lr", "warmup_updates")
#: Of a batch that was given in sentences.
_TOKENS = 4096


@dataclass(frozen=True)
class Parts:
    """How a text was prepared; of two of a kind, the first is the source's."""

    codes: Sequence[Path] = ()  # of subword-nmt or fastBPE
    sentencepiece: Sequence[Path] = ()
    tokenizer: Sequence[str] = ()
    lowercase: bool = False

    @property
    def given(self) -> bool:
        return bool(self.codes or self.sentencepiece or self.tokenizer or self.lowercase)

    def check(self, data: Path) -> None:
        unsaid = f"{data} does not say how its text was"
        if bool(self.codes) == bool(self.sentencepiece):
            raise UserError(f"{unsaid} split: give --codes or --sentencepiece")
        if not self.tokenizer:
            raise UserError(f"{unsaid} tokenised: give --tokenizer (moses, none, …)")
        for flag in ("codes", "sentencepiece", "tokenizer"):
            if len(getattr(self, flag)) > 2:
                raise UserError(f"--{flag}: give one, or the source's and the target's")


def write_preparation(trained: TrainedModel, parts: Parts, folder: Path) -> None:
    """Write dictionaries, subwords and a manifest, which says how text becomes numbers."""
    source, target = trained.languages
    given = list(parts.codes or parts.sentencepiece)
    one = len({path.read_bytes() for path in trained.dictionaries.values()}) == 1
    subwords = Subwords(
        "subword-nmt" if parts.codes else "sentencepiece-bpe",
        size=1,
        joint=len(given) == 1,
        joined_dictionary=one,
    )
    made = PreparedFolder(folder)
    for part in (made.binary, made.subwords):
        part.mkdir(parents=True)
    for path in trained.dictionaries.values():
        shutil.copyfile(path, made.binary / path.name)
    for path, language in zip(given, trained.languages, strict=False):
        if parts.sentencepiece:
            splitter(subwords.kind, path)
        _copy_codes(path, made.splitter(subwords, language))
    corpus = replace(
        load_corpus("own", CONFIGS),
        name=trained.binary.resolve().name,
        own=True,
        source=source,
        target=target,
        lowercase=parts.lowercase,
        scores=standard_scores(target),
        tokenizer={source: parts.tokenizer[0], target: parts.tokenizer[-1]},
        subwords=subwords,
    )
    files = {path.relative_to(folder).as_posix(): sha256(path) for path in folder.glob("*/*")}
    unknown: dict = {
        name: {} for name in ("counts", "tests", "expected", "differences", "dropped", "archives")
    }
    manifest = Manifest(
        corpus=corpus.name,
        own=True,
        source=source,
        target=target,
        subwords=asdict(subwords),
        tokenizer=corpus.tokenizer,
        lowercase=corpus.lowercase,
        files=files,
        versions={},
        recipe=corpus.resolved(),
        digest=digest_of(corpus, files),
        **unknown,
    )
    write_json(made.manifest, asdict(manifest), sort_keys=True)


def _copy_codes(path: Path, copy: Path) -> None:
    """Copy a model of subwords; the codes of fastBPE become those of subword-nmt."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    if re.match(rb"\S+ \S+ \d+\n", content):
        merges = (line.rpartition(b" ")[0] for line in content.splitlines())
        content = b"\n".join([b"#version: 0.2", *merges, b""])
    copy.write_bytes(content)


def check_fit(made: TrainedModel, data: Path, sides: Sequence[Sequence[Sequence[str]]]) -> None:
    """Refuse parts by which the sentences of ``data``, source and target, would come out others."""
    about = made.treatment
    for language, sentences in zip(made.languages, sides, strict=True):
        prepare, tokenizer = made.preparation(language), about.tokenizer[language]
        undo = detokeniser(tokenizer, language)
        lines = [" ".join(pieces) for pieces in sentences if pieces and "<unk>" not in pieces]
        texts = [undo(join_subwords(line, made.subwords.family)) for line in lines[:_TRIED]]
        pairs = [(line, prepare(text)) for line, text in zip(lines, texts, strict=False)]
        others = [pair for pair in pairs if pair[0] != pair[1]]
        same = f"{len(pairs) - len(others)} of {len(pairs)} {language} sentences of {data}"
        print(f"{same} come out as they are there")
        if 0 < len(others) <= (1 - _ALIKE) * len(pairs):
            there, here = others[0]
            print(f"   such as {there!r}, which comes out as {here!r}: are all parts right?")
        if not pairs:
            raise UserError(f"{data}: each of its {language} sentences tried has an unknown word")
        if len(others) > (1 - _ALIKE) * len(pairs):
            there, here = others[0]
            raise UserError(
                f"{data}: its {language} text was not made by these --codes or --sentencepiece, "
                f"--tokenizer and --lowercase: {there!r} there comes out as {here!r}"
            )
        if tokenizer == "none" and MOSES_WORDS in looks_of(texts):
            raise UserError(f"{data}: its {language} text has Moses' marks: give --tokenizer moses")
        alike = "".join(texts)
        if alike.lower() == alike != alike.upper() and tokenizer != "given" and not about.lowercase:
            raise UserError(f"{data}: its {language} text has no capitals: give --lowercase")


def settings_of(checkpoint: Path) -> dict:
    """The settings of a checkpoint's training as a run has them: what its user chose."""
    from fairseq import checkpoint_utils, options
    from omegaconf import OmegaConf

    state = checkpoint_utils.load_checkpoint_to_cpu(str(checkpoint))
    cfg = OmegaConf.to_container(state["cfg"], enum_to_str=True)
    values = {key: cfg["optimization"].get(key) for key in ("clip_norm", "max_update", "max_epoch")}
    chosen = {*values, *_ALWAYS}
    for part in _ALWAYS[:3]:
        chosen |= cfg[part].keys() - {"tpu"}
        values |= cfg[part] | {part: cfg[part]["_name"]}
    model = cfg["model"] if isinstance(cfg["model"], dict) else vars(cfg["model"])
    values = {**model, **values}
    train: dict[str, object] = {"arch": model.get("arch") or model["_name"]}
    named = {"arch": train["arch"], **{part: values[part] for part in _ALWAYS[:3]}}
    parser = options.get_training_parser()
    usual = vars(options.parse_args_and_arch(parser, ["data", *flags(**named)]))
    (of_model,) = (g for g in parser._action_groups if g.title == "Model-specific configuration")
    chosen |= {action.dest for action in of_model._group_actions}
    for action in parser._actions:
        value, default = (_plain(of.get(action.dest)) for of in (values, usual))
        changed = value not in (None, default) or (action.dest in _ALWAYS and value is not None)
        if action.dest in chosen and changed:
            train[max(action.option_strings, key=len).removeprefix("--")] = value
    updates = (state["optimizer_history"] or [{}])[-1].get("num_updates", 0)
    if not (train.get("max-update") or train.get("max-epoch")):
        train["max-update"] = updates
    tokens = cfg["dataset"].get("max_tokens") or _TOKENS
    devices = cfg["distributed_training"].get("distributed_world_size") or 1
    several = cfg["optimization"]["update_freq"][0] * devices
    every = cfg["checkpoint"].get("save_interval_updates") or max(1, updates // 10)
    return {
        **{"corpus": "own", "train": train, "generate": {}},
        "batch": {"tokens": tokens * several, "per_device": tokens},
        "checkpoints": {"unit": "update", "every": every, "average": 1},
    }


def _plain(value: object) -> object:
    """A value as a flag has it: lists as text."""
    if isinstance(value, (list, tuple)):
        return value[0] if len(value) == 1 else str(tuple(value))
    return value
