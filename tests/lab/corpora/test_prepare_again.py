"""Preparing again: what is remade, and interrupted runs; more in tests/lab/files/test_stages.py."""

import contextlib
import os
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest
from cli import command, environment
from corpora_made import CONFIGS, pairs_of, recipe, remade, sentences, state, write

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.corpora import own_corpus, read_manifest
from fairseq_hybrid_attn.lab.corpora.definition import with_options
from fairseq_hybrid_attn.lab.corpora.pipeline import prepare

EVERYTHING = ["reading", "tokenising", "cleaning", "subwords", "binarising"]


def test_only_what_depends_on_a_change_is_made_again(no_preprocess, tmp_path):
    output, folder = tmp_path / "out", write(tmp_path / "text", "x", sentences(100))
    corpus = own_corpus(recipe(), folder)
    assert remade(corpus, output) == EVERYTHING
    before = state(output)
    assert remade(corpus, output) == []
    assert state(output) == before
    assert remade(replace(corpus, notes="other", scores=("bleu",)), output) == []
    assert remade(with_options(corpus, subword_size=20), output) == EVERYTHING[3:]
    assert remade(with_options(corpus, pairs=50), output) == EVERYTHING
    first = read_manifest(output)
    (output / "manifest.json").write_text("{")
    assert remade(with_options(corpus, pairs=50), output) == []
    assert read_manifest(output) == first
    write(folder, "x", sentences(100, seed=1))
    assert remade(replace(corpus, lowercase=True), output) == EVERYTHING
    assert read_manifest(output).digest != first.digest
    assert set(pairs_of(output, "train")) < set(sentences(100, seed=1))


def test_foreign_folder_is_left_alone(text, tmp_path):
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/precious").write_text("x")
    with pytest.raises(UserError, match="not made here"):
        prepare(own_corpus(recipe(), text), tmp_path, workers=1)
    assert state(tmp_path).keys() == {Path("raw/precious")}


def arguments(text, output):
    path = output.parent / "own.yaml"
    content = (CONFIGS / "corpora/own.yaml").read_text()
    path.write_text(content.replace("size: 10000", "size: 30"))
    flags = ("--text", text, "--output", output, "--workers", 2)
    return command("fairseq-hybrid", "prepare", path, *flags)


def processes_of(output):
    """The processes with this folder in their command lines (on Linux)."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if os.fsencode(output) in path.read_bytes():
                found.append(path.parent.name)
    return found


def stopped(text, output, number, stage):
    """The exit status of a run that gets a signal in a stage, and what it printed."""
    run = subprocess.Popen(
        arguments(text, output),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in run.stdout:
        if f": {stage}" in line:
            run.send_signal(number)
            break
    _, errors = run.communicate(timeout=100)
    assert read_manifest(output) is None
    deadline = time.monotonic() + 10
    while processes_of(output):  # those that it started
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return run.returncode, errors


@pytest.mark.slow
def test_run_that_was_stopped_is_resumed(text, prepared, tmp_path):
    output = tmp_path / "out"
    for number, stage, status in (
        (signal.SIGTERM, "tokenising", 130),
        (signal.SIGKILL, "binarising", -9),
    ):
        found, errors = stopped(text, output, number, stage)
        assert found == status
        assert "Traceback" not in errors
        assert number == signal.SIGKILL or not list(output.glob(".partial-*"))
    prepare(own_corpus(recipe(), text), output, workers=1)
    assert read_manifest(output) == read_manifest(prepared)
    assert not list(output.glob(".partial-*"))
