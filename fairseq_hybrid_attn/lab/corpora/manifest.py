"""What was made of a corpus: counts, checksums, versions and the recipe, in manifest.json."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ... import __version__
from ...errors import UserError
from ..files import provenance
from ..files.checksums import digest
from ..files.json_files import read_json, write_json
from ..files.typed import read
from .definition import PARTS, Corpus

NAME = "manifest.json"


@dataclass(frozen=True)
class Manifest:
    """A prepared corpus.

    ``alignments`` is not part of ``digest``: a training without them does not depend on them.
    """

    corpus: str  # the recipe's name
    own: bool  # with the user's text in place of the recipe's
    source: str
    target: str
    subwords: dict  # of the recipe; the sizes learned, by file; dictionary entries, by language
    tokenizer: dict[str, str]
    lowercase: bool
    counts: dict[str, int]  # sentence pairs of train, valid and test
    tests: dict[str, int]  # of each test set in test, if they have names
    expected: dict[str, int]  # the counts that the recipe expects
    differences: dict[str, dict[str, int]]  # where the counts differ
    dropped: dict[str, dict[str, int]]  # dropped pairs, by part and reason
    archives: dict[str, str]  # the sha256 of every archive
    files: dict[str, str]  # the sha256 of every file that was made
    versions: dict[str, str]  # of the programs that made them
    recipe: dict  # as it was used
    gold: dict | None = None  # how many sentences are hand-aligned, and what was left out
    alignments: str | None = None  # digest of the training text's word alignments, if any
    # Tokens of the longest sentence of each file of text, end of sentence included, and its line.
    longest: dict[str, tuple[int, ...]] = field(default_factory=dict)
    digest: str = field(default="")  # of recipe, raw/, bin/ and gold/: equal digests, equal data

    @property
    def pairs(self) -> str:
        """How many pairs each part has, of those that were given; and by which rule others went."""
        parts = []
        for part in PARTS:
            kept, reasons = self.counts.get(part, 0), self.dropped.get(part, {})
            lost = ", ".join(f"{reason} {count:,}" for reason, count in reasons.items())
            of = f" of {kept + sum(reasons.values()):,} (left out: {lost})" if reasons else ""
            parts.append(f"{part} {kept:,}{of}")
        if self.tests:
            sets = ", ".join(f"{name} {count:,}" for name, count in self.tests.items())
            parts[-1] += f" ({sets})"
        return ", ".join(parts)

    def write(self, output: Path) -> None:
        if read_manifest(output) != self:
            write_json(output / NAME, asdict(self), sort_keys=True)

    @property
    def digests(self) -> tuple[str, str]:
        """Digests of the data of the training, and of the data that follows it."""
        test = re.compile(r"(raw|bin)/tests?\..*|gold/.*")
        followed = {name: sha for name, sha in self.files.items() if test.match(name)}
        decisive = of_folders(self.files, "bin").items() - followed.items()
        return digest(dict(decisive)), digest(followed)


def describe(corpus: Corpus, stamps: dict[str, dict]) -> Manifest:
    """Return the manifest of what the stages made, from their stamps."""
    facts = {key: value for stamp in stamps.values() for key, value in stamp["facts"].items()}
    versions = {k: v for stamp in stamps.values() for k, v in stamp["facts"]["versions"].items()}
    files = {
        name: about["sha256"] for stamp in stamps.values() for name, about in stamp["files"].items()
    }
    # Of several test sets, the one named "test" is expected.
    tests = dict(facts["tests"])
    counts = {**facts["counts"], **tests}
    return Manifest(
        corpus=corpus.name,
        own=corpus.own,
        source=corpus.source,
        target=corpus.target,
        subwords={
            "kind": corpus.subwords.kind,
            "size": corpus.subwords.size,
            "joint": corpus.subwords.joint,
            "learned": facts["sizes"],
            "dictionary": facts["dictionary"],
        },
        tokenizer={language: corpus.tokenizer[language] for language in corpus.languages},
        lowercase=corpus.lowercase,
        counts=facts["counts"],
        tests=tests,
        expected=dict(corpus.expect.items()),
        differences={
            part: {"expected": count, "found": counts[part]}
            for part, count in corpus.expect.items()
            if counts[part] != count
        },
        dropped=facts["dropped"],
        archives=facts["archives"],
        files=files,
        versions=versions,
        recipe=corpus.resolved(),
        gold=facts.get("gold"),
        longest={name: tuple(found) for name, found in facts["longest"].items()},
        alignments=digest(of_folders(files, "aligned")) if "align" in stamps else None,
        digest=digest_of(corpus, files),
    )


def digest_of(corpus: Corpus, files: dict[str, str]) -> str:
    decisive = of_folders(files, "raw", "bin", "gold")
    return digest({"recipe": corpus.treatment, "files": decisive})


def of_folders(files: dict[str, str], *folders: str) -> dict[str, str]:
    return {name: sha for name, sha in files.items() if name.partition("/")[0] in folders}


def read_manifest(output: Path) -> Manifest | None:
    """Read the manifest of a prepared corpus; None if it is missing or another program's."""
    try:
        data = read_json(output / NAME)
        return read(Manifest, data, NAME)
    except UserError:
        return None


def versions(*packages: str) -> dict[str, str]:
    """Return the versions of this package and of others, where they are installed."""
    return {"fairseq-hybrid-attn": __version__, **provenance.installed(*packages)}
