"""Models with sentences: what each is, which of them it can read, and its attention to them."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn
from tqdm import tqdm

from ...errors import UserError
from ...models.transformer import PatternedTransformer
from ..corpora.words import SUBWORDS, join_subwords
from . import ENCODER
from .attentions import Attentions, SentenceAttention
from .loading import load_model
from .searching import pieces_of, search
from .sentences import Sentences, in_batches, read_sentences, some
from .trained import TrainedModel


@dataclass(frozen=True)
class Text:
    """What models are run on: a set of their data, two files in subwords, or typed sentences."""

    subset: str = "test"
    files: tuple[Path, Path] | None = None  # source and target
    typed: tuple[str, ...] = ()
    subwords: str | None = None  # one of ``SUBWORDS``; None: as the model's data say


def put_on_text(
    models: Mapping[str, TrainedModel], text: Text, device: str = "cpu", max_tokens: int = 4000
) -> Iterator[ModelOnText]:
    """Load models by their names, one after the other; refuse one whose text is another."""
    first: list[str] = []
    for name, trained in models.items():
        subwords = text.subwords or (trained.subwords.family if trained.manifest else None)
        if subwords is None:
            raise UserError(
                f"{trained.path}: {trained.binary} is not by `prepare`, and does not say how words "
                f"are split; give --subwords: {', '.join(SUBWORDS)}"
            )
        model, task = load_model(trained)
        if text.typed:
            sentences = _translated(trained, model, task, text.typed)
        else:
            files = text.files or trained.text("subwords", text.subset)  # binary data lose words
            sentences = read_sentences(
                *(task, text.subset, files, subwords),
                warn=not first and (text.files is not None or files is None),
            )
        words = joined(sentences.source, subwords)
        first = first or words
        if words != first:
            raise UserError(
                f"{name}: its {text.subset} set in {trained.binary} is not that of "
                f"{next(iter(models))}; models are compared on the same sentences, and --data "
                "names one folder for all"
            )
        yield ModelOnText(name, trained, model, task, sentences, subwords, device, max_tokens)


def joined(sentences: Sequence[Sequence[str]], subwords: str) -> list[str]:
    """The words of sentences, with spaces between."""
    return [join_subwords(" ".join(pieces), subwords) for pieces in sentences]


def _translated(trained: TrainedModel, model: nn.Module, task, text: Sequence[str]) -> Sentences:
    """Sentences as a user types them, with the model's own translations."""
    source = list(map(trained.preparation(trained.languages[0]), text))
    found = search(model, task, Sentences.of_text(task, source), trained.search)
    target = [" ".join(pieces_of(best[0], task)) if best else "" for best in found]
    return Sentences.of_text(task, source, target)


@dataclass(frozen=True)
class ModelOnText:
    """A model in evaluation mode, its task, and the sentences in its numbers."""

    name: str
    trained: TrainedModel
    model: nn.Module
    task: Any
    sentences: Sentences
    subwords: str
    device: str = "cpu"
    max_tokens: int = 4000  #: of a batch

    @property
    def description(self) -> str:
        """Architecture, patterns of its encoder if it is ours, and positional embeddings."""
        cfg = getattr(self.model, "cfg", None)
        arch = getattr(cfg, "_name", None) or type(self.model).__name__
        return "; ".join(filter(None, (arch, encoder(self.model), positions(self.model))))

    @property
    def shown(self) -> list[Callable[[str], str]]:
        """The functions that show a word of the source, and of the target."""
        return [self.trained.shown(language) for language in self.trained.languages]

    def attentions(self, kinds: Sequence[str], *, full_context: bool = False) -> Attentions:
        """The attentions of the model; notes say why it does not have some of these kinds."""
        try:
            attentions = Attentions(self.model, kinds, full_context=full_context)
        except UserError as error:
            raise UserError(f"{self.trained.path}: {error}") from None
        for kind, reason in attentions.missing().items():
            note(f"{self.name}: no {kind} attention: {reason}")
        if not attentions.layers:
            raise UserError(f"{self.trained.path}: there is no attention of {' or '.join(kinds)}")
        return attentions

    def usable(self, listed: str | Sequence[int], *, skip_long: bool = False) -> list[int]:
        """Those of these sentences that can be looked at; notes say which are left out.

        They are listed as for ``--sentences``, or by their numbers (from 0).
        """
        numbers = self.chosen("--sentences", listed) if isinstance(listed, str) else listed
        source, target = self.sentences.source, self.sentences.translations
        long = set(self.sentences.too_long(self.model, self.task)).intersection(numbers)
        empty = {n for n in numbers if not (source[n] and target[n])}
        if long and not skip_long:
            fault = f"{len(long):,} sentences are longer than the model takes: {some(sorted(long))}"
            raise UserError(f"{self.trained.path}: {fault}; name others, or --too-long skip")
        for reason, left_out in (("longer than the model takes", long), ("empty on a side", empty)):
            if left_out:
                count, which = len(left_out), some(sorted(left_out))
                note(f"{self.name}: {count:,} sentences are {reason} and are left out: {which}")
        left = sorted(set(numbers) - long - empty)
        if not left:
            raise UserError(f"{self.trained.path}: none of the sentences can be analysed")
        return left

    def chosen(self, flag: str, value: str) -> list[int]:
        """The numbers (from 0, in order) of a list such as ``1,5-7`` (from 1), or of ``all``."""
        count = len(self.sentences)
        if value == "all":
            return list(range(count))
        numbers: set[int] = set()
        for part in value.split(","):
            match = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", part)
            if not match:
                raise UserError(f"{flag} {value}: use numbers and ranges such as 1,5-7, or all")
            first, last = int(match[1]), int(match[2] or match[1])
            if not 1 <= first <= last <= count:
                raise UserError(f"{flag} {value}: {part.strip()} is not within 1 to {count:,}")
            numbers.update(range(first - 1, last))
        return sorted(numbers)

    def observe(
        self,
        attentions: Attentions,
        numbers: Iterable[int],
        use: Callable[[int, SentenceAttention], object],
        needed: bool = True,
    ) -> list:
        """What ``use`` returns for these sentences (from 0) and their attention, in order.

        A model without any attention is refused, if that is ``needed``.
        """
        attentions.model.to(self.device).eval()
        count, wanted = len(self.sentences), set(numbers)

        def compute(sample: dict) -> Iterable:
            observed = attentions.observe(sample)
            if needed and not any(observed):
                raise UserError(
                    f"{self.trained.path}: its {type(self.model.decoder).__name__} has no "
                    "attention modules, and returns no attention"
                )
            return map(use, sample["id"].tolist(), observed)

        with tqdm(total=count, unit=" sentences", file=sys.stderr, mininterval=1.0) as bar:
            results = in_batches(
                self.sentences,
                compute,
                max_tokens=self.max_tokens,
                device=self.device,
                skip=[number for number in range(count) if number not in wanted],
                progress=bar.update,
            )
            return [result for number, result in enumerate(results) if number in wanted]


def note(message: str) -> None:
    print(f"note: {message}", file=sys.stderr)


def encoder(model: nn.Module) -> str:
    """The words for all patterns of the encoder of one of our models; empty for others."""
    if not isinstance(model, PatternedTransformer):
        return ""
    layers = Attentions(model, [ENCODER]).layers.get(ENCODER, ())
    words = dict.fromkeys(w for layer in layers for branch in layer.heads for w in branch)
    return f"encoder {', '.join(words)}" if words else ""


def positions(model: nn.Module) -> str:
    """Which sides have no positional embedding, and what instead; empty if none could have one."""
    sides: dict[str, nn.Module] = {
        name: side
        for name, side in model.named_children()
        if name in ("encoder", "decoder") and hasattr(side, "embed_positions")
    }
    without: dict[str, list[str]] = {}
    for name, side in sides.items():
        if side.embed_positions is None:
            kinds = (getattr(module, "relative_positions", None) for module in side.modules())
            without.setdefault(next(filter(None, kinds), "no"), []).append(name)
    if not sides:
        return ""
    words = [f"{kind} positions in the {' and '.join(names)}" for kind, names in without.items()]
    return ", ".join(words) or "with positions"
