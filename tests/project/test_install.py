"""A wheel works without a checkout; the command starts fast and tells what is installed."""

import os
import subprocess
import sys
from importlib.metadata import version

import pytest

from fairseq_hybrid_attn.lab.commands.command_line import COMMANDS, main


@pytest.mark.slow
def test_a_wheel_needs_no_checkout(installed, tmp_path):
    (metadata,) = installed.glob("*.dist-info/METADATA")
    about = metadata.read_text()
    assert "](https://github.com/a/b/blob/HEAD/docs/install.md)" in about
    assert '="https://github.com/a/b/raw/HEAD/docs/pictures/patterns-light.svg"' in about
    assert "](docs/" not in about and '="docs/' not in about

    def run(*words):
        command = [sys.executable, "-m", "fairseq_hybrid_attn", *words]
        environment = {**os.environ, "PYTHONPATH": str(installed)}
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert not done.returncode, done.stderr
        return done.stdout

    assert "reproduce" in run("--help")
    assert "--arch transformer" in run("show", "hysan/table1/base", "--column", "bleu")
    assert "base" in run("reproduce", "hysan/table1", "base", "--dry-run", "--device", "cpu")


def test_help_is_fast():
    """torch and fairseq take seconds to import."""
    program = (
        "import sys\nfrom fairseq_hybrid_attn.lab.commands.command_line import main\n"
        f"for words in [], *([name] for name in {[*COMMANDS]}):\n"
        "    try: main([*words, '--help'])\n"
        "    except SystemExit: pass\n"
        "print('loaded', {'torch', 'fairseq', 'scipy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.endswith("loaded set()\n"), done.stdout[-200:] + done.stderr


def test_version_suggestion_and_completion(capsys):
    for words in ("--version", "--print-completion bash"):
        with pytest.raises(SystemExit) as end:
            main(words.split())
        assert not end.value.code
    printed = capsys.readouterr().out
    assert f"torch {version('torch')}" in printed.split("\n")[0]
    subprocess.run(["bash", "-n"], input=printed.partition("\n")[2], text=True, check=True)
    assert "--subword-size" in printed
    with pytest.raises(SystemExit) as end:
        main(["reprodcue"])
    assert end.value.code == 2 and "did you mean reproduce?" in capsys.readouterr().err
