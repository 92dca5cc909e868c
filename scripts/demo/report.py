"""Show a few translations of the test set and the score of a run."""

from __future__ import annotations

import argparse
from itertools import islice
from pathlib import Path

from fairseq_hybrid_attn.lab.files.json_files import read_json
from fairseq_hybrid_attn.lab.files.text import read_lines

EXAMPLES = 6
#: Examples are the first test strings with this many words; their order is already random.
LENGTHS = range(6, 19)


def report(score: dict, source: list[str], translation: list[str], reference: list[str]) -> str:
    """Return the text to show; the three lists are parallel."""
    ((scores,),) = score["systems"].values()
    bleu = scores["bleu"]
    blocks = (
        f"  German     {lines[0]}\n  ours       {lines[1]}\n  reference  {lines[2]}"
        for lines in zip(source, translation, reference, strict=True)
        if len(lines[0].split()) in LENGTHS
    )
    return "\n\n".join(
        [
            "A few of the held-out strings:",
            *islice(blocks, EXAMPLES),
            f"BLEU {bleu['value']:.1f} on {score['sentences']:,} strings\n"
            f"  sacrebleu signature {bleu['signature']}",
        ]
    )


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, required=True, help="folder of a finished run")
    parser.add_argument("--text", type=Path, required=True, help="has test.de and test.en")
    args = parser.parse_args()
    paths = (args.text / "test.de", args.run / "hypotheses.txt", args.text / "test.en")
    print(report(read_json(args.run / "score.json"), *map(read_lines, paths)))


if __name__ == "__main__":
    main()
