"""What makes a result stale: any change in what its numbers come from."""

import shutil
import subprocess
import sys
from pathlib import Path

from cli import environment

from fairseq_hybrid_attn.lab.engine.provenance import NUMBERS_DEPEND_ON, PACKAGE, code_digest

#: Loaded by what makes numbers, but without influence on them, or with an influence that the
#: digests of corpus and settings show.
HARMLESS = set(
    "__init__.py command_line.py arguments figures corpora configuration lengths".split()
)
PROGRAM = """
import sys
import fairseq_hybrid_attn
from fairseq_hybrid_attn.lab.command_line import COMMANDS
from importlib import import_module
for name in ("aer", "align", "align-training", "average", "gates", "score"):
    import_module("fairseq_hybrid_attn.lab." + COMMANDS[name])
import fairseq_hybrid_attn.lab.runs.running
for name, module in list(sys.modules.items()):
    if name.partition(".")[0] == "fairseq_hybrid_attn":
        print(module.__file__)
"""


def test_every_module_behind_a_number_counts():
    printed = subprocess.check_output([sys.executable, "-c", PROGRAM], env=environment(), text=True)
    loaded = {Path(path).relative_to(PACKAGE).parts for path in printed.splitlines()}
    assert {("criterions.py",), ("lab", "alignment", "error_rate.py")} <= loaded
    rooms = {parts[1] for parts in loaded if parts[0] == "lab"}
    assert rooms - HARMLESS == set(NUMBERS_DEPEND_ON)


def test_what_python_reads_counts_and_what_it_does_not_read_does_not(tmp_path):
    """Comments, docstrings and layout make no result stale; a number does."""
    copied = tmp_path / "package"
    shutil.copytree(PACKAGE, copied)
    counted = copied / "lab/scoring/metrics.py"
    program = '"""A module."""\n\n\ndef f(x):\n    """Say."""\n    return x + 1\n'
    same = '"""Other words."""\ndef f(x):  # a comment\n    return (x+1)\n'

    def digest(path, text):
        path.write_text(text)
        code_digest.cache_clear()
        return code_digest(copied)

    before = digest(counted, program)
    assert digest(counted, same) == before
    assert digest(counted, program.replace("1", "2")) != before
    assert digest(counted, program.replace('"""Say."""\n    return', 'return """Say""",')) != before
    assert digest(counted, program) == before
    for harmless in ("lab/maps/measure.py", "lab/gates/figure.py"):
        assert digest(copied / harmless, "x = 1\n") == before
    assert digest(copied / "attention/mine.py", "x = 1\n") != before  # all of the plugin counts
    assert digest(copied / "lab/scoring/table.txt", "a\n") != before  # data counts by its bytes
    code_digest.cache_clear()
