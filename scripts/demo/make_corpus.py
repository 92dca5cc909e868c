"""Make German-English text from wheels: train, valid and test, one string a line."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from catalogues import CorpusError, Pair, read_wheel
from cleaning import CleanPair, clean
from splitting import Split, deduplicate, split

from fairseq_hybrid_attn.lab.files.tabular import Grid
from fairseq_hybrid_attn.lab.files.text import write_lines

VALID_SIZE = 700
TEST_SIZE = 1000


def make_corpus(wheels: Path, output: Path) -> str:
    """Write ``train|valid|test.de|en`` to ``output``; return a table of counts.

    Raises:
        CorpusError: if the wheels cannot be read or hold too little text.
    """
    raw = {path.name: read_wheel(path) for path in sorted(wheels.glob("*.whl"))}
    if not raw:
        raise CorpusError(f"{wheels} holds no wheels")
    cleaned = {name: clean_all(pairs) for name, pairs in raw.items()}
    try:
        parts = split([pair for pairs in cleaned.values() for pair in pairs], VALID_SIZE, TEST_SIZE)
    except ValueError as error:
        raise CorpusError(f"{wheels}: {error}") from None
    for part, pairs in vars(parts).items():
        write_lines(output / f"{part}.de", (pair.german for pair in pairs))
        write_lines(output / f"{part}.en", (pair.english for pair in pairs))
    return counts(raw, cleaned, parts)


def clean_all(pairs: list[Pair]) -> list[CleanPair]:
    """Clean all pairs of a wheel, and keep each once."""
    return deduplicate(
        clean_pair for german, english in pairs for clean_pair in clean(german, english)
    )


def counts(raw: dict[str, list], cleaned: dict[str, list[CleanPair]], parts: Split) -> str:
    """Return a table of what each wheel gave, and the sizes of the parts."""
    rows = [
        (name.removesuffix(".whl"), f"{len(raw[name]):,}", f"{len(cleaned[name]):,}")
        for name in raw
    ]
    unique = deduplicate(pair for pairs in cleaned.values() for pair in pairs)
    rows.append(("all, each pair once", "", f"{len(unique):,}"))
    words = sum(len(pair.english.split()) for pair in parts.train)
    return "\n".join(
        [
            Grid(["wheel", "messages", "clean pairs"], rows, left=1).terminal(),
            f"train {len(parts.train):,} pairs ({words:,} English words), "
            f"valid {len(parts.valid):,}, test {len(parts.test):,}; "
            "no sentence of one is in another",
        ]
    )


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheels", type=Path, required=True, help="folder with *.whl")
    parser.add_argument("--output", type=Path, required=True, help="existing folder for the text")
    arguments = parser.parse_args()
    try:
        print(make_corpus(arguments.wheels, arguments.output))
    except CorpusError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
