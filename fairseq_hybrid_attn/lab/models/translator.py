"""A trained model that translates text: ``fairseq_hybrid_attn.load``."""

from __future__ import annotations

import html
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...errors import UserError, few
from ..corpora.tokenisers import detokeniser
from ..corpora.words import join_subwords, split_words, text_of, word_attention, words_of
from . import CROSS, KINDS
from .attentions import Attentions
from .loading import device_of, load_model
from .searching import PRECISIONS, batch_tokens, pieces_of, prepare_for_search, search
from .sentences import Sentences, in_batches, limits_of
from .trained import TrainedModel, find_model


@dataclass(frozen=True)
class Translation:
    """A translation of a line, and how it came about."""

    text: str
    #: log2 P with the length penalty, as in the H- lines of fairseq-generate
    score: float
    source: tuple[str, ...]  #: the tokens of the line
    tokens: tuple[str, ...]  #: those of the translation
    #: Links (source token, token), from 0: the source token to which the last decoder layer attends
    #: most (the mean of its heads) when it predicts the token.
    alignment: tuple[tuple[int, int], ...]


def load(
    path: str | Path,
    *,
    data: str | Path | None = None,
    device: str = "auto",
    precision: str = "auto",
) -> Translator:
    """Load a trained model, with what prepares text for it.

    Args:
        path: the folder of a run, of a model such as ``models/mma``, or a checkpoint.
        data: the output of ``fairseq-hybrid prepare``, if it is neither the run's nor beside it.
        device: ``cpu``, ``cuda``, or ``auto`` for a GPU if there is one.
        precision: ``fp32``, ``fp16`` (on a GPU), ``bf16``, or ``auto``: fp16 on a GPU, else fp32.
    """
    return Translator(find_model(Path(path), Path(data) if data else None), device, precision)


def _refuse(line: int, fault: str) -> None:
    raise UserError(f"line {line + 1:,} {fault}")


class Translator:
    def __init__(self, trained: TrainedModel, device: str = "auto", precision: str = "auto"):
        if device not in ("auto", "cpu", "cuda") or precision not in PRECISIONS:
            raise UserError(f"there is no device {device!r} or no precision {precision!r}")
        about, (_, target) = trained.treatment, trained.languages
        self.device = device_of(device)
        model, self.task = load_model(trained)
        self.trained = trained
        self.model = prepare_for_search(model, self.device, precision)
        self.subwords = trained.subwords.family
        self._max_tokens = batch_tokens(self.device)
        self._prepare = {lang: trained.preparation(lang) for lang in trained.languages}
        self._detokenise = detokeniser(about.tokenizer[target], target)
        if about.tokenizer[target] == "given":  # tokens of Moses, as a rule
            self._detokenise = html.unescape

    def pieces(self, line: str, *, target: bool = False) -> list[str]:
        """The subwords of a line of the source language, or of the ``target`` language."""
        return split_words(self._prepare[self.trained.languages[target]](line))

    def translate(
        self,
        lines: Sequence[str],
        *,
        nbest: int = 1,
        beam: int | None = None,
        lenpen: float | None = None,
        gnmt_lenpen: float | None = None,
        first: int = 1,
        progress: Callable[[int], object] = lambda done: None,
        refused: Callable[[int, str], object] = _refuse,
    ) -> list[list[Translation]]:
        """Return the ``nbest`` translations of each line, the best first; none of an empty line.

        What is None is as in the model's run, or else fairseq's default; but the beam holds
        ``nbest`` at least.  ``first`` is the number of the first line, for a warning.
        ``progress`` is called with the number of lines just done.

        A line that is too long for the model is refused before any is translated.  If ``refused``
        is given, it is called instead with the line's number (from 0) and what is wrong with it;
        the line then has no translations.
        """
        if isinstance(lines, str):  # whose letters would be taken for lines
            raise TypeError("translate takes a list of lines, not a text")
        sentences = self._sentences(lines, refused, first)
        given = {"beam": beam, "lenpen": lenpen, "gnmt-lenpen": gnmt_lenpen, "nbest": nbest}
        found = self._search(sentences, given, progress)
        return [
            [self._translation(pieces, hypothesis) for hypothesis in hypotheses[:nbest]]
            for pieces, hypotheses in zip(sentences.source, found, strict=True)
        ]

    def attention(
        self,
        line: str,
        translation: str | None = None,
        *,
        kind: str = CROSS,
        layer: int = 1,
        head: int = 1,
        branch: int | str = 1,
    ) -> np.ndarray:
        """Return the attention of a head to a line, ``[queries, keys]``; a row sums to 1.

        The model is forced to decode the ``translation``, by default its own.  Queries and keys
        are subwords (:meth:`pieces`) and, last, the end symbol; in the decoder's self-attention
        they begin with it instead.  ``kind`` is ``encoder``, ``decoder`` or ``cross``.  Layers,
        the lowest first, heads and branches count from 1; a branch may be named, as ``l5``.
        """
        if kind not in KINDS:
            raise UserError(f"kind {kind!r}: use {', '.join(KINDS)}")
        sentences = self._sentences([line])
        if translation is not None:
            target = self.pieces(translation, target=True)
        else:
            hypotheses = next(self._search(sentences, {}))
            target = pieces_of(hypotheses[0], self.task) if hypotheses else []
        source = sentences.source[0]
        if not (source and target):
            raise UserError("a line or its translation is empty: there is no attention to it")
        forced = Sentences.of_text(self.task, [" ".join(source)], [" ".join(target)])
        attentions = Attentions(self.model, [kind])
        layers = next(in_batches(forced, attentions.observe, device=self.device)).get(kind, [])
        if not 1 <= layer <= len(layers):
            raise UserError(f"layer {layer}: the model has {len(layers)} of {kind} attention")
        names = attentions.layers[kind][layer - 1].branches
        if branch in names:
            branch = names.index(branch) + 1
        weights = layers[layer - 1].weights
        heads = weights.shape[1]
        if isinstance(branch, str) or not (1 <= branch <= len(names) and 1 <= head <= heads):
            raise UserError(
                f"branch {branch}, head {head}: this layer has {heads} heads in each branch, and "
                f"the branches {', '.join(f'{n} ({name})' for n, name in enumerate(names, 1))}"
            )
        return weights[branch - 1, head - 1].numpy()

    def _sentences(
        self, lines: Sequence[str], refused: Callable[[int, str], object] = _refuse, first: int = 1
    ) -> Sentences:
        """The lines in the model's numbers; what is too long is refused, or left empty."""
        prepare = self._prepare[self.trained.languages[0]]
        most = limits_of(self.model, self.task)[0] - 1  # without the end symbol
        text = list(map(prepare, lines))
        for number, line in enumerate(text):
            if (length := len(split_words(line))) > most:
                refused(number, f"has {length:,} subwords, and the model takes {most:,}")
                text[number] = ""
        sentences = Sentences.of_text(self.task, text)
        if unknown := sentences.with_unknown():
            message = (
                f"{len(unknown):,} of {len(lines):,} lines have subwords that the model does not "
            )
            message += f"know: {few([f'{first + number:,}' for number in unknown])}"
            print(f"warning: {message}", file=sys.stderr)
        return sentences

    def _search(
        self,
        sentences: Sentences,
        given: Mapping[str, object],
        progress: Callable[[int], object] = lambda done: None,
    ) -> Iterator[list[dict]]:
        """Search with the settings of the run, but for those given that are not None."""
        given = {flag: value for flag, value in given.items() if value is not None}
        penalties = {"lenpen", "gnmt-lenpen"}
        if penalties <= given.keys():
            raise UserError("a hypothesis has one length penalty: lenpen or gnmt-lenpen, not both")
        of_run = self.trained.search
        if penalties & given.keys():
            of_run = {flag: value for flag, value in of_run.items() if flag not in penalties}
        settings = {"beam": 5, "nbest": 1, **of_run, **given}
        if settings["nbest"] < 1:
            raise UserError(f"nbest {settings['nbest']}: use 1 or more")
        settings["beam"] = max(settings["beam"], settings["nbest"])
        if not all(0 <= float(settings.get(name, 0)) < math.inf for name in penalties):
            raise UserError("lenpen and gnmt-lenpen: use 0 or more")
        return search(
            *(self.model, self.task, sentences, settings),
            device=self.device,
            max_tokens=self._max_tokens,
            progress=progress,
        )

    def _translation(self, source: list[str], hypothesis: dict) -> Translation:
        target = pieces_of(hypothesis, self.task)
        places = [words_of(pieces, self.subwords) for pieces in (source, target)]
        words = [
            tuple(text_of(word, pieces, self.subwords) for word in of_side)
            for of_side, pieces in zip(places, (source, target), strict=True)
        ]
        links: tuple[tuple[int, int], ...] = ()
        attention = hypothesis["attention"]  # [source pieces, target pieces]
        if attention is not None and attention.numel() and all(words):
            between = word_attention(attention.T.float().cpu().numpy(), *places)
            links = tuple((int(i), j) for j, i in enumerate(between.argmax(-1)))
        return Translation(
            text=self._detokenise(join_subwords(" ".join(target), self.subwords)),
            score=float(hypothesis["score"]) / math.log(2),
            source=words[0],
            tokens=words[1],
            alignment=links,
        )
