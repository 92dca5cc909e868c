"""sacrebleu's own command, to compare with."""

import json
import subprocess
import sys


def sacrebleu_command(*arguments: object) -> dict | list:
    """What it reports, in full precision; its score and its signature."""
    command = [sys.executable, "-m", "sacrebleu", *map(str, arguments), "-w", "12"]
    done = subprocess.run(
        [*command, "--format", "json"], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)
