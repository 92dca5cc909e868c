"""Standard streams that are closed, or that nobody reads."""

import contextlib
import errno
import os
import subprocess
import sys
from unittest import mock

import pytest
from cli import USER_DIR, environment

from fairseq_hybrid_attn import UserError
from fairseq_hybrid_attn.lab.commands import command_line
from fairseq_hybrid_attn.lab.commands.command_line import main

TEXT = "--data bin --source text.de --target text.en --subwords subword-nmt --device cpu"
#: Commands that write a file and print.
WRITING = {
    "heads.json": f"heads hysan.pt {TEXT} --write",
    "gates.json": f"gates hysan.pt {TEXT} --write",
    "maps.json": f"maps hysan.pt {TEXT} --write maps.html --write",
    "links.json": f"align hysan.pt {TEXT} --gold gold --gold-base 0 --write",
    "rates.json": "aer links --gold gold --gold-base 0 --write",
    "average.pt": "average hysan.pt --output",
}


def run_into(stream, *words: object) -> SystemExit:
    """Run a command that prints into a stream; return how it ends."""
    own = mock.patch("os.dup2")  # the tests' own output stays
    with own, contextlib.redirect_stdout(stream), pytest.raises(SystemExit) as end:
        main([*map(str, words)])
    with contextlib.suppress(OSError):
        stream.close()
    return end.value


def unread():
    """A pipe whose reader has ended."""
    reader, writer = os.pipe()
    os.close(reader)
    return open(writer, "w")


@pytest.mark.parametrize("made", WRITING)
def test_files_are_written_though_nobody_reads_the_output(made, in_data, tmp_path):
    for name in ("gold", "links"):
        (in_data / name).write_text("0-0\n0-0\n\n0-0\n")
    end = run_into(unread(), *WRITING[made].split(), tmp_path / made)
    assert end.code == 141 and (tmp_path / made).stat().st_size


def test_a_full_disk_is_told(folder, monkeypatch):
    """That of the output, and the one to which a file is copied."""
    (folder / "links").write_text("0-0\n")
    words = "aer links --gold links --gold-base 0".split()
    with open("/dev/full", "w") as stream:
        assert "No space left" in str(run_into(stream, *words))
    full = OSError(errno.ENOSPC, "No space left on device", "from", None, "to")
    monkeypatch.setattr(command_line, "_run", mock.Mock(side_effect=full))
    with pytest.raises(UserError, match="^to: No space"):
        main(["export"])


def test_a_mistake_is_told_though_nobody_reads_the_output(in_data):
    end = run_into(unread(), "average", "hysan.pt", "text.de", "--output", "average.pt")
    assert isinstance(end, UserError) and "text.de" in str(end)


def test_closed_streams(in_data, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    main([*WRITING["heads.json"].split(), str(tmp_path / "heads.json")])
    assert (tmp_path / "heads.json").exists()
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(UserError, match="standard input is closed"):
        main(["translate", f"{USER_DIR}/../models/mma", "--device", "cpu"])


def test_no_file_takes_the_place_of_a_closed_stream(tmp_path):
    code = (
        "import sys; from fairseq_hybrid_attn.lab.commands import command_line\n"
        "command_line._run = lambda words: print(open('file', 'w').fileno(), sys.stderr.fileno())\n"
        "command_line.main([])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        **{"cwd": tmp_path, "env": environment(), "stdout": subprocess.PIPE, "text": True},
        preexec_fn=lambda: [os.close(stream) for stream in (0, 2)],
    )
    file, err = map(int, done.stdout.split())
    assert file > 2 and err == 2
