"""What makes a result stale: whatever its numbers come from."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cli import environment

from fairseq_hybrid_attn.lab.engine.provenance import NUMBERS_DEPEND_ON, PACKAGE, code_digest

#: Loaded by what makes numbers, and without influence on them, or with one that the digest of the
#: corpus shows.
HARMLESS = {
    "__init__.py": "registers",
    "__main__.py": "the command line",
    "errors.py": "messages",
    "yaml_files.py": "reads settings, which have a digest",
    "fairseq_check.py": "refuses other versions of fairseq",
    "analysis/__init__.py": "says what is there",
    "analysis/figures/": "draws",
    "commands/outputs.py": "writes figures and tables of what was measured",
    "commands/__init__.py": "says what commands are",
    "corpora/": "what it makes has a digest; but for the tokenisers, which scoring uses",
}
PROGRAM = """
import sys
import fairseq_hybrid_attn
from fairseq_hybrid_attn.commands import aer, align, align_training, average, gates, score
from fairseq_hybrid_attn.corpora.tokenisers import detokeniser
for name, module in list(sys.modules.items()):
    if name.partition(".")[0] == "fairseq_hybrid_attn":
        print(module.__file__)
"""


def test_every_module_behind_a_number_counts():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {str(Path(path).relative_to(PACKAGE)) for path in done.stdout.split()}
    assert {"criterions.py", "alignment/aer.py", "attention/short.py"} <= loaded
    counted = tuple(f"{name}/" if not name.endswith(".py") else name for name in NUMBERS_DEPEND_ON)
    assert not {name for name in loaded if not name.startswith((*counted, *HARMLESS))}


def test_what_is_listed_exists():
    assert all((PACKAGE / name).exists() for name in NUMBERS_DEPEND_ON)


@pytest.mark.parametrize(
    "name, counts",
    [
        ("criterions.py", True),
        ("alignment/words.py", True),
        ("commands/align.py", True),
        ("attention/fused_cuda/kernels/forward.py", True),
        ("experiments/printing.py", False),
        ("commands/table.py", False),
    ],
)
def test_a_changed_file_counts_or_not(name, counts, tmp_path):
    copied = tmp_path / "package"
    shutil.copytree(PACKAGE, copied)
    with open(copied / name, "a") as file:
        file.write("# changed\n")
    assert (code_digest(copied) != code_digest()) == counts
