"""Put together a folder of text with hand-aligned sentences, as --text takes it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from texts import existing, new_folder, pairs_of

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.corpora.held_out import letters
from fairseq_hybrid_attn.lab.files.text import ParallelWriter, lines, write_lines


def put_together(arguments: argparse.Namespace) -> str:
    """Write text.LANGUAGE, gold.LANGUAGE, gold.align and gold.yaml; return what to display."""
    languages = arguments.languages
    gold = [existing(arguments.gold, language) for language in languages]
    aligned = {letters(line) for path in gold for line in lines(path)} - {""}
    left_out = 0
    every = (pair for prefix in arguments.text for pair in pairs_of(prefix, languages))
    with new_folder(arguments.folder, [*gold, arguments.links, *arguments.text]) as folder:
        with ParallelWriter(*(folder / f"text.{language}" for language in languages)) as writer:
            for pair in every:
                if aligned.intersection(map(letters, pair)):
                    left_out += 1
                else:
                    writer.write([line.lower() if arguments.lowercase else line for line in pair])
        for path, language in zip(gold, languages, strict=True):
            write_lines(folder / f"gold.{language}", lines(path))  # the original may be compressed
        write_lines(folder / "gold.align", lines(existing(arguments.links)))
        settings = f"base: {arguments.base}\nfirst: {arguments.first}\n"
        if arguments.sure_alone:
            settings += "sure-alone: true\n"
        if arguments.fewest_links:
            settings += f"fewest-links: {arguments.fewest_links}\n"
        (folder / "gold.yaml").write_text(settings)
    return f"   {writer.count:,} pairs; {left_out:,} left out, since they are hand-aligned as well"


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
