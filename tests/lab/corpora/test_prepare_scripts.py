"""The scripts of scripts/prepare, with stand-ins for Python and the virtual environment."""

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]
NAMES = sorted(path.name for path in (REPOSITORY / "scripts/prepare").glob("*.sh"))
SETTINGS = ("DATA", "DOWNLOADS", "WORKERS", "PYTHON")

PYTHON = """#!/bin/sh
# Suits choose_python, and prints the stamp of the virtual environment.
[ "$1" = - ] && echo fresh
exit 0
"""
HYBRID = """#!/bin/sh
printf '%s\\n' "$@" > "$RECORD"
echo "threads $OMP_NUM_THREADS"
exit "${STATUS:-0}"
"""


@pytest.fixture
def checkout(tmp_path):
    """A copy of the scripts, whose environment seems to be there."""
    root = tmp_path / "check out"
    shutil.copytree(REPOSITORY / "scripts", root / "scripts")
    (root / ".venv/bin").mkdir(parents=True)
    (root / ".venv/fairseq-hybrid-attn.stamp").write_text("fresh\n")
    for path, text in ((root / "python", PYTHON), (root / ".venv/bin/fairseq-hybrid", HYBRID)):
        path.write_text(text)
        path.chmod(0o755)
    return root


def run(checkout, script, *arguments, **variables):
    """Run a script; ``given`` is what it passes to fairseq-hybrid, None if nothing."""
    record = checkout / "record"
    inherited = {k: v for k, v in os.environ.items() if k not in (*SETTINGS, "RECIPE")}
    settings = {"PYTHON": str(checkout / "python"), "RECORD": str(record), **variables}
    command = [checkout / "scripts/prepare" / script, *arguments]
    done = subprocess.run(
        command, cwd=checkout, env=inherited | settings, capture_output=True, text=True, timeout=60
    )
    done.given = record.read_text().splitlines() if record.exists() else None
    return done


def test_help_does_nothing_else(checkout):
    assert len(NAMES) >= 5
    for script in NAMES:
        done = run(checkout, script, "--help")
        assert done.returncode == 0 and done.stdout.startswith(f"scripts/prepare/{script}: ")
        assert all(f"\n  {name} " in done.stdout for name in SETTINGS)
        assert done.given is None and not (checkout / "build").exists()


def test_recipe_and_settings(checkout):
    for words, recipe in (
        ("iwslt14_de-en.sh", "iwslt14.de-en.fairseq"),
        ("iwslt14_de-en.sh hysan", "iwslt14.de-en.hysan"),
        ("iwslt14_de-en.sh mma", "iwslt14.de-en.mma"),
        ("multi30k.sh", "multi30k.en-de"),
        ("multi30k.sh de-en.cased", "multi30k.de-en.cased"),
        ("wmt14_en-de.sh", "wmt14.en-de.hysan"),
        ("wmt14_en-de.sh hybrid_gate", "wmt14.en-de.hybrid_gate"),
        ("wmt17_zh-en.sh", "wmt17.zh-en"),
        ("aspec_ja-en.sh", "wat17.ja-en.hybrid_gate"),
        ("aspec_ja-en.sh mma", "wat17.ja-en.mma"),
        ("aspec_ja-en.sh mma_en-ja", "wat17.en-ja.mma"),
    ):
        assert (REPOSITORY / f"configs/corpora/{recipe}.yaml").is_file()
        done = run(checkout, *words.split(), "--pairs", "9")
        assert done.returncode == 0, done.stderr
        output, downloads = checkout / "data" / recipe, checkout / "data/downloads"
        folders = ["--output", str(output), "--downloads", str(downloads)]
        assert done.given == ["prepare", recipe, *folders, "--pairs", "9"]
        assert "threads 1" in done.stdout
    places = {"DATA": "/my data", "DOWNLOADS": "/arch ives", "WORKERS": "3"}
    done = run(checkout, "iwslt14_de-en.sh", **places)
    folders = ["--output", "/my data/iwslt14.de-en.fairseq", "--downloads", "/arch ives"]
    assert done.given == ["prepare", "iwslt14.de-en.fairseq", *folders, "--workers", "3"]
    done = run(checkout, "wmt17_zh-en.sh", STATUS="3")
    assert done.returncode == 3  # the failure is passed on
    assert "done in" not in done.stdout.split("wmt17.zh-en, to")[1]


def test_own_folder_and_files(checkout):
    (checkout / "my text").mkdir()
    done = run(checkout, "own.sh", "my text", "--source-lang", "de")
    assert done.returncode == 0, done.stderr
    assert done.given[:4] == ["prepare", "own", "--output", str(checkout / "data/own/my text")]
    assert done.given[6:] == ["--own", "my text", "--source-lang", "de"]
    for language in ("de", "en"):
        (checkout / f"my text/x.2019.{language}.gz").write_text("")
    files = ["my text/x.2019.de.gz", "my text/x.2019.en.gz"]
    done = run(checkout, "own.sh", *files, RECIPE="iwslt14.de-en.mma")
    folder = str(checkout / "data/own/x.2019")
    assert done.given[:4] == ["prepare", "iwslt14.de-en.mma", "--output", folder]
    assert done.given[6:] == ["--own", *files]
    done = run(checkout, "own.sh", ".")
    assert done.given[3] == str(checkout / "data/own" / checkout.name)


def test_an_environment_in_use_is_not_made_again(checkout):
    (checkout / ".venv/fairseq-hybrid-attn.stamp").write_text("old\n")
    with (checkout / ".venv.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        done = run(checkout, "multi30k.sh")
    assert done.returncode == 1 and "another script uses it" in done.stderr
    assert (checkout / ".venv/bin/fairseq-hybrid").exists() and done.given is None


def test_mistakes_are_refused_before_anything_is_made(checkout):
    for words, variables, said in (
        ("iwslt14_de-en.sh fairsek", {}, "fairsek: use one of fairseq hysan mma"),
        ("iwslt14_de-en.sh", {"WORKERS": "many"}, "WORKERS=many"),
        ("iwslt14_de-en.sh", {"WORKERS": "0"}, "WORKERS=0"),
        ("own.sh", {}, "name a folder or two files"),
        ("own.sh missing", {}, "missing does not exist"),
        ("own.sh a b c", {}, "name a folder or two files"),
    ):
        done = run(checkout, *words.split(), **variables)
        assert done.returncode == 1 and said in done.stderr
        assert done.given is None and not (checkout / "build").exists()
