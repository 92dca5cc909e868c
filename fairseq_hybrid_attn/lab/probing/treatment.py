"""The sentences of probing tasks, treated like the model's training text.

With tokens or subwords unlike those in training, a model would silently seem to know less.  So the
steps are those of ``fairseq-hybrid prepare``, by the same code: tokens, lower case, subwords.  The
published sentences are tokenised.  They are detokenised first, since a tokeniser changes tokens
(``don 't`` must become ``don &apos;t``).
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import UserError
from ..corpora.definition import Subwords
from ..corpora.manifest import NAME, read_manifest
from ..corpora.subwords import model_name, split
from ..corpora.tokenisers import detokeniser, tokenise_file
from ..files.checksums import sha256
from ..files.text import read_lines, write_lines

#: The sentences have the tokens of the training text.
AS_TRAINED = "as-trained"


@dataclass(frozen=True)
class SentenceTreatment:
    """The steps from a sentence of a task file to the model's input.

    Attributes:
        tokens: the tokeniser that made the sentences (one of ``KINDS``), or AS_TRAINED.
        tokenizer: that of the training text; not used with AS_TRAINED.
        subwords: subword-nmt or a kind of sentencepiece; None: words are not split.
        model: the file of the subwords.
    """

    language: str
    tokens: str
    tokenizer: str
    lowercase: bool
    subwords: str | None
    model: Path | None

    def apply(self, sentences: Sequence[str], workers: int = 1) -> list[str]:
        """Turn sentences in tokens into sentences in subwords, both separated by spaces."""
        with tempfile.TemporaryDirectory(prefix="probing-") as folder:
            text, tokens, subwords = (Path(folder) / name for name in ("text", "tok", "subwords"))
            if self.tokens == AS_TRAINED:
                write_lines(tokens, map(str.lower if self.lowercase else str, sentences))
            else:
                write_lines(text, map(detokeniser(self.tokens, self.language), sentences))
                tokenise_file(text, tokens, self.tokenizer, self.language, workers, self.lowercase)
            if self.subwords is None:
                return read_lines(tokens)
            split(tokens, subwords, self.subwords, self.model, workers)
            return read_lines(subwords)


def treatment_of(prepared: Path, data: Path, language: str, tokens: str) -> SentenceTreatment:
    """The treatment of a corpus that ``fairseq-hybrid prepare`` made, after checking it.

    The dictionaries of the model, in ``data``, must be its own; the model reads ``language``.
    """
    manifest = read_manifest(prepared)
    if manifest is None:
        raise UserError(
            f"--prepared {prepared}: there is no {NAME} of this program; name the folder that "
            "fairseq-hybrid prepare wrote, or say how the text was treated (--help)"
        )
    if language not in (manifest.source, manifest.target):
        raise UserError(
            f"--prepared {prepared} is {manifest.source} and {manifest.target}, but the model "
            f"reads {language}"
        )
    dictionary = f"dict.{language}.txt"
    if sha256(prepared / "bin" / dictionary) != sha256(data / dictionary):
        raise UserError(
            f"--prepared {prepared}: its {dictionary} differs from that in {data}; name the "
            "corpus that the model was trained on"
        )
    subwords = Subwords(**{key: manifest.subwords[key] for key in ("kind", "size", "joint")})
    name = f"subwords/{model_name(subwords, language)}"
    if sha256(prepared / name) != manifest.files.get(name):
        raise UserError(
            f"--prepared {prepared}: {name} has changed since it was made; prepare it again"
        )
    return SentenceTreatment(
        language=language,
        tokens=tokens,
        tokenizer=manifest.tokenizer[language],
        lowercase=manifest.lowercase,
        subwords=subwords.kind,
        model=prepared / name,
    )
