"""Give any architecture of this package or fairseq a row in a copy of demo/architectures."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fairseq.models import ARCH_MODEL_REGISTRY

import fairseq_hybrid_attn

TABLE = "demo/architectures.yaml"


def add_row(arch: str, configs: Path, output: Path) -> None:
    """Write the folder of configurations ``output``: that table with a row more, links to the rest.

    Raises:
        ValueError: if there is no such architecture.
    """
    if arch not in ARCH_MODEL_REGISTRY:
        package = fairseq_hybrid_attn.__name__
        ours = (a for a, m in ARCH_MODEL_REGISTRY.items() if m.__module__.startswith(package))
        known = "\n  ".join([*sorted(ours), "transformer"])
        raise ValueError(f"ARCH={arch}: there is no such architecture. For example:\n  {known}")
    table = output / TABLE
    table.parent.mkdir(parents=True, exist_ok=True)
    for folder in ("corpora", "profiles", "settings"):
        link = output / folder
        link.unlink(missing_ok=True)
        link.symlink_to(configs.absolute() / folder, target_is_directory=True)
    rows = (configs / TABLE).read_text(encoding="utf-8")
    table.write_text(f"{rows}  {arch}: {{train: {{arch: {arch}}}}}\n", encoding="utf-8")


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arch", required=True, help="name of the architecture")
    parser.add_argument("--configs", type=Path, required=True, help="folder of configurations")
    parser.add_argument("--output", type=Path, required=True, help="folder for the copy")
    arguments = parser.parse_args()
    try:
        add_row(arguments.arch, arguments.configs, arguments.output)
    except ValueError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
