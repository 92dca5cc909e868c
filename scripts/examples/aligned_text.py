"""Put together a folder of text with hand-aligned sentences, as --data takes it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from texts import existing, letters, pairs_of

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.files.text import lines, writing


def put_together(arguments: argparse.Namespace) -> str:
    """Write text.LANGUAGE, gold.LANGUAGE, gold.align and gold.yaml.

    Returns:
        what was done, for people.

    Raises:
        UserError: if a file is missing, or files do not fit together.
    """
    languages, folder = arguments.languages, arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    gold = [existing(arguments.gold, language) for language in languages]
    aligned = {letters(line) for path in gold for line in lines(path)} - {""}
    kept = left_out = 0
    every = (pair for prefix in arguments.text for pair in pairs_of(prefix, languages))
    with (
        writing(folder / f"text.{languages[0]}") as source,
        writing(folder / f"text.{languages[1]}") as target,
    ):
        for pair in every:
            if aligned.intersection(map(letters, pair)):
                left_out += 1
                continue
            kept += 1
            for file, line in zip((source, target), pair, strict=True):
                file.write(f"{line.lower() if arguments.lowercase else line}\n")
    for path, language in zip(gold, languages, strict=True):
        copy(path, folder / f"gold.{language}")
    copy(existing(arguments.links), folder / "gold.align")
    settings = f"base: {arguments.base}\nfirst: {arguments.first}\n"
    if arguments.sure_alone:
        settings += "sure-alone: true\n"
    if arguments.fewest_links:
        settings += f"fewest-links: {arguments.fewest_links}\n"
    (folder / "gold.yaml").write_text(settings)
    return f"   {kept:,} pairs; {left_out:,} left out, since they are hand-aligned as well"


def copy(path: Path, place: Path) -> None:
    """Copy a text, which may be compressed."""
    with writing(place) as file:
        file.writelines(f"{line}\n" for line in lines(path))


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--languages", nargs=2, required=True)
    parser.add_argument("--text", type=Path, action="append", required=True)
    parser.add_argument("--gold", type=Path, required=True)
    parser.add_argument("--links", type=Path, required=True)
    parser.add_argument("--base", type=int, choices=(0, 1), required=True)
    parser.add_argument("--first", required=True)
    parser.add_argument("--sure-alone", action="store_true")
    parser.add_argument("--fewest-links", type=int, default=0)
    parser.add_argument("--lowercase", action="store_true")
    try:
        print(put_together(parser.parse_args()))
    except UserError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
