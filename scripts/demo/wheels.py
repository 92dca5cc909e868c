"""Tell whether a folder holds the wheels that a requirements file pins by hash.

Exits with 0 if it does, else with 1.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
from pathlib import Path

HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def holds_all(requirements: Path, folder: Path) -> bool:
    """Whether the wheels in ``folder`` are exactly those of ``requirements``."""
    wanted = set(HASH.findall(requirements.read_text()))
    return wanted == {sha256(path) for path in folder.glob("*.whl")}


def sha256(path: Path) -> str:
    """The hash of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requirements", type=Path, required=True, help="pinned, one hash each")
    parser.add_argument("--folder", type=Path, required=True, help="may be missing")
    arguments = parser.parse_args()
    sys.exit(not holds_all(arguments.requirements, arguments.folder))


if __name__ == "__main__":
    main()
