"""Runs as shell scripts, which scripts/papers has of the main rows."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from cli import MODULES, environment, run, weights
from workspaces import TABLE, with_rows, write_configs, write_text
from written import scores_in

ROOT = Path(__file__).parents[3]
PAPERS = sorted((ROOT / "scripts/papers").glob("*.sh"))
#: A stand-in for the programs, which records how it is called and writes what it is asked for.
RECORD = """#!/bin/sh
for word in "${0##*/}" "$@"; do printf '%s\\n' "$word"; done >>"$RECORD"; echo >>"$RECORD"
for word in "$@"; do
    case "$before" in --output) mkdir -p "${word%/*}" && echo made >"$word" ;; esac
    before=$word
done
[ "${0##*/}" != "${FAILS:-}" ]
"""


def write_program(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def recorded(tmp_path):
    """Run a script with stand-ins; return what it did, and the commands it ran."""
    write_program(tmp_path / "bin/python", "#!/bin/sh\necho '/the plugin'\n")
    for name in ("fairseq-train", "fairseq-generate", "fairseq-hybrid"):
        write_program(tmp_path / "bin" / name, RECORD)
    record = tmp_path / "record"

    def run_script(name, *arguments, **variables):
        record.write_text("")
        path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
        done = subprocess.run(
            [ROOT / f"scripts/papers/{name}.sh", *arguments],
            cwd=tmp_path,
            env={**os.environ, "PATH": path, "RECORD": str(record), **variables},
            capture_output=True,
            text=True,
        )
        return done, [block.split("\n") for block in record.read_text().split("\n\n")[:-1]]

    return run_script


def value(command, flag):
    return command[command.index(flag) + 1]


@pytest.mark.parametrize("path", PAPERS, ids=lambda path: path.stem)
def test_scripts_are_those_of_the_configurations(path):
    text = path.read_text()
    made_by = re.search(r"# Made by: fairseq-hybrid (show .*?--script)", text.replace("\n#  ", ""))
    assert run("fairseq-hybrid", *shlex.split(made_by[1]), cwd=ROOT).stdout == text
    assert len(text.splitlines()) <= 30 and max(map(len, text.splitlines())) <= 120
    assert str(ROOT) not in text and os.access(path, os.X_OK)


def test_the_update_keeps_its_tokens_on_any_number_of_gpus(recorded):
    for name, tokens, numbers in (
        ("hysan_iwslt14_e1", 4096, "1"),
        ("hysan_wmt14_e1", 8 * 4096, "1248"),
        ("hybrid_gate_wmt14", 25000, "124"),
    ):
        for gpus in numbers:
            done, (_, train, *_) = recorded(name, "--dropout", "0.2", GPUS=gpus, SEED=gpus)
            assert done.returncode == 0, done.stderr
            factors = ("--max-tokens", "--update-freq", "--distributed-world-size")
            at_once, times, world = (int(value(train, flag)) for flag in factors)
            assert at_once * times * world == tokens and world == int(gpus)
            assert value(train, "--seed") == gpus and train[-3:] == ["--fp16", "--dropout", "0.2"]
    done, called = recorded("hysan_wmt14_e1", GPUS="3")
    assert done.returncode == 1 and not called and "use a divisor of 8" in done.stderr


def test_a_step_is_done_once(recorded, tmp_path):
    def steps(**variables):
        done, called = recorded("mma_iwslt14", **variables)
        return done.returncode, [command[0].partition("-")[2] + command[1] for command in called]

    prepare, train, average, generate, score = (
        "hybridprepare",
        "traindata/iwslt14.de-en.mma/bin",
        "hybridaverage",
        "generatedata/iwslt14.de-en.mma/bin",
        "hybridscore",
    )
    assert steps(FAILS="fairseq-train") == (1, [prepare, train])
    (tmp_path / "data/iwslt14.de-en.mma").unlink()  # the stand-in has written a file
    (tmp_path / "data/iwslt14.de-en.mma").mkdir()
    (tmp_path / "data/iwslt14.de-en.mma/manifest.json").touch()
    assert steps(FAILS="fairseq-generate") == (1, [train, average, generate])
    assert steps() == (0, [generate, score])
    assert steps() == (0, [score])


@pytest.mark.slow
def test_a_script_gives_what_reproduce_gives(tmp_path):
    """The same weights and translations."""
    write_text(tmp_path / "text")
    dry = {"train": {"dropout": 0.0, "max-update": 75, "head-patterns": "global,local"}}
    write_configs(tmp_path / "configs", **{"toy/table1.yaml": with_rows(TABLE, plain=dry)})
    where = ("--column", "bleu", "--configs", "configs", "--text", "text")
    shown = run("fairseq-hybrid", "show", "toy/table1/plain", *where, "--script", cwd=tmp_path)
    cpu = ("--device", "cpu", "--precision", "fp32", "--output", "out")
    run("fairseq-hybrid", "reproduce", "toy/table1", "plain", *where[2:], *cpu, cwd=tmp_path)
    made = tmp_path / "out/runs/full@text/toy/table1/plain/bleu/seed1"
    for name, module in MODULES.items():
        program = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m {module} "$@"\n'
        write_program(tmp_path / "programs" / name, program)
    places = (tmp_path / "programs", Path(sys.executable).parent, os.environ["PATH"])
    variables = {"PATH": ":".join(map(str, places)), "DEVICE": "--cpu", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        ["bash", "-c", shown.stdout],
        cwd=tmp_path,
        env=environment(**variables),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "checkpoints/toy.table1.plain.bleu.seed1"
    model = weights(folder / "model.pt")
    assert all(map(torch.equal, weights(made / "model.pt").values(), model.values()))
    assert (folder / "test.txt").read_text() == (made / "hypotheses.txt").read_text()
    bleu = scores_in(made / "score.json")["bleu"]["value"]
    assert f"BLEU = {bleu:.2f}" in done.stdout
