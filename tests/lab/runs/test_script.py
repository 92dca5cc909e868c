"""Runs as shell scripts: those of scripts/papers, and three for any training."""

import fcntl
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from cli import MODULES, environment, run, weights
from workspaces import RECIPE, TABLE, with_rows, write_configs, write_text

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.config.paper_tables import load_table, table_names
from fairseq_hybrid_attn.lab.config.settings import Batch, load_profile
from fairseq_hybrid_attn.lab.files.yaml_files import CONFIGS
from fairseq_hybrid_attn.lab.runs.devices import share_out
from fairseq_hybrid_attn.lab.runs.script import script as script_of
from fairseq_hybrid_attn.lab.runs.workspace import Workspace

ROOT = Path(__file__).parents[3]
PAPERS = sorted((ROOT / "scripts/papers").glob("*.sh"))
#: Stand-ins: a machine with eight GPUs, and programs that record how they are called.
PYTHON = f"""#!/bin/sh
case "$*" in
    *__path__*) echo "/the plugin" ;;
    *device_count*"< 9)"*) exit 1 ;;
    *device_count*) ;;
    *) exec {shlex.quote(sys.executable)} "$@" ;;
esac
"""
RECORD = """#!/bin/sh
for word in "${0##*/}" "$@"; do printf '%s\\n' "$word"; done >>"$RECORD"; echo >>"$RECORD"
for word in "$@"; do
    case "$before" in
        --results-path) mkdir -p "$word" && echo "$0" >"$word/generate-test.txt" ;;
        --output | --json) echo made >"$word" ;;
    esac
    before=$word
done
[ "${0##*/}" != "${FAILS:-}" ]
"""
PROGRAMS = ("fairseq-train", "fairseq-generate", "fairseq-hybrid", "torchrun", "srun")


def write_program(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def recorded(tmp_path):
    """Run a script with stand-ins; return what it did, and the commands it ran."""
    write_program(tmp_path / "bin/python", PYTHON)
    for name in PROGRAMS:
        write_program(tmp_path / "bin" / name, RECORD)
    (tmp_path / "prepared").mkdir()
    (tmp_path / "prepared/manifest.json").write_text("{}")
    record = tmp_path / "record"

    def run_script(script, *arguments, **variables):
        record.write_text("")
        path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
        given = {"PATH": path, "RECORD": str(record), "CORPUS": "prepared", "SAVE": "a model"}
        done = subprocess.run(
            [ROOT / "scripts" / script, *arguments],
            cwd=tmp_path,
            env={**os.environ, **given, **variables},
            capture_output=True,
            text=True,
        )
        called = [block.split("\n") for block in record.read_text().split("\n\n")[:-1]]
        return done, called

    return run_script


def value(command, flag):
    return command[command.index(flag) + 1]


@pytest.mark.parametrize("path", PAPERS, ids=lambda path: path.stem)
def test_scripts_are_those_of_the_configurations(path):
    text = path.read_text()
    made_by = re.search(r"# Made by: fairseq-hybrid (show .*?--script)", text.replace("\n#  ", ""))
    assert run("fairseq-hybrid", *shlex.split(made_by[1]), cwd=ROOT).stdout == text
    assert len(text.splitlines()) <= 60 and max(map(len, text.splitlines())) <= 120
    assert str(ROOT) not in text and os.access(path, os.X_OK)


def test_the_update_keeps_its_tokens_on_any_number_of_gpus(recorded):
    sizes = {"hysan_iwslt14_e1": (4096, 8192), "hysan_wmt14_e1": (32768, 4096)}
    for name, (tokens, at_once) in sizes.items():
        for gpus in (1, 2, 3, 4, 8):
            places = {"GPUS": str(gpus), "SAVE": f"{name}{gpus}", "SEED": "7"}
            done, (train, *_) = recorded(f"papers/{name}.sh", "--dropout", "0.2", **places)
            assert done.returncode == 0, done.stderr
            share = (int(value(train, "--max-tokens")), int(value(train, "--update-freq")))
            assert share == share_out(Batch(tokens, at_once), gpus)
            assert value(train, "--distributed-world-size") == str(gpus)
            assert value(train, "--seed") == "7" and "--fp16" in train
            assert train[-2:] == ["--dropout", "0.2"]
            starts = ["torchrun", "--standalone", "--nproc-per-node", str(gpus), "--no-python"]
            assert train[: train.index("fairseq-train")] == (starts if gpus > 1 else [])


def test_a_script_goes_on_where_it_stopped(recorded, tmp_path):
    script = "papers/mma_iwslt14.sh"
    done, called = recorded(script, FAILS="fairseq-train")
    assert done.returncode == 1 and [words[0] for words in called] == ["fairseq-train"]
    # What a kill has cut off is copied again from the newest whole checkpoint.
    checkpoints = tmp_path / "a model/checkpoints"
    torch.save({"updates": 900}, checkpoints / "checkpoint_9_900.pt")
    torch.save({"updates": 1000}, checkpoints / "checkpoint_10_1000.pt")
    (checkpoints / "checkpoint_last.pt").write_bytes(b"PK")
    done, called = recorded(script, FAILS="fairseq-generate")
    assert torch.load(checkpoints / "checkpoint_last.pt")["updates"] == 1000
    assert [words[0] for words in called] == ["fairseq-train", "fairseq-hybrid", "fairseq-generate"]
    assert not (tmp_path / "a model/translation").exists()
    done, called = recorded(script)
    assert [words[1] for words in called] == ["prepared/bin", "score"]
    done, called = recorded(script)
    assert [words[:2] for words in called] == [["fairseq-hybrid", "score"]]
    # Another start must not write beside this one.
    with (tmp_path / "a model/lock").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        done, called = recorded(script)
    assert done.returncode == 1 and not called and "at work there" in done.stderr


def test_a_training_goes_on_with_its_own_flags_alone(recorded, tmp_path):
    script = "papers/mma_iwslt14.sh"
    recorded(script, FAILS="fairseq-train")
    done, called = recorded(script, "--lr", "1", FAILS="fairseq-train")
    assert called[0][-2:] == ["--lr", "1"]  # there is no checkpoint yet
    torch.save({}, tmp_path / "a model/checkpoints/checkpoint_last.pt")
    for rate, variables in (("2", {}), ("1", {"GPUS": "2"}), ("1", {"SEED": "2"})):
        done, called = recorded(script, "--lr", rate, **variables)
        assert done.returncode == 1 and not called
        assert "begun otherwise; use another SAVE, or remove it" in done.stderr
    done, called = recorded(script, "--lr", "1")
    assert done.returncode == 0 and len(called) == 4
    # Nor is the model of one training scored as that of another.
    done, called = recorded(script, "--lr", "2")
    assert done.returncode == 1 and not called and "begun otherwise" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_training_too(recorded, tmp_path, number):
    write_program(tmp_path / "bin/fairseq-train", "#!/bin/sh\necho $$ >started\nexec sleep 60\n")
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    process = subprocess.Popen(
        [ROOT / "scripts/papers/mma_iwslt14.sh"],
        cwd=tmp_path,
        env={**os.environ, "PATH": path, "CORPUS": "prepared", "SAVE": "model"},
        stderr=subprocess.PIPE,
        text=True,
    )
    started = tmp_path / "started"
    while not (started.exists() and started.read_text().strip()):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(number)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 1 and said.splitlines()[-1] == "Stopped; run again, it goes on."
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)
    assert not (tmp_path / "model/trained").exists()


def test_every_row_has_a_short_script():
    place = Workspace(Path("out"), CONFIGS, load_profile("full", CONFIGS))
    for name in table_names(CONFIGS):
        for cell in load_table(name, CONFIGS).cells():
            made_by = f"fairseq-hybrid show {name}/{cell.row.name} --column {cell.column.name}"
            with suppress(UserError):  # it trains no model
                lines = script_of(place.run(cell, 1), [*made_by.split(), "--script"]).splitlines()
                assert len(lines) <= 60 and max(map(len, lines)) <= 120, made_by


def test_mistakes_are_a_sentence_before_anything_is_made(recorded, tmp_path):
    for script, variables, said in (
        ("mma_iwslt14", {"GPUS": "0"}, "GPUS=0: use a number"),
        ("mma_iwslt14", {"GPUS": "many"}, "GPUS=many: use a number"),
        ("mma_iwslt14", {"FP16": "yes"}, "FP16=yes CPU=0: 0 or 1"),
        ("hysan_wmt14_e1", {"GPUS": "9"}, "GPUS=9: too many; use CPU=1"),
        ("mma_iwslt14", {"GPUS": "2", "CPU": "1"}, "on the CPU it is one process"),
        ("mma_iwslt14", {"PATH": "/usr/bin:/bin"}, "activate the environment that has"),
        ("mma_wat17_ja-en", {"PATH": "/usr/bin:/bin"}, "activate the environment that has"),
    ):
        done, called = recorded(f"papers/{script}.sh", **variables)
        assert done.returncode == 1 and not called and said in done.stderr, variables
        assert len(done.stderr.splitlines()) == 1 and not (tmp_path / "a model").exists()


def test_scripts_for_any_training_print_what_they_run(recorded, tmp_path):
    for script in "train.sh", "average.sh", "evaluate.sh":
        done, called = recorded(script, "--help")
        assert done.stdout.startswith(f"scripts/{script}: ") and not called
    done, called = recorded("train.sh", "mma/table2/transformer_mma", "--seed", "2", GPUS="4")
    train = ["fairseq-hybrid", "train", "--gpus", "4", "mma/table2/transformer_mma", "--seed", "2"]
    assert called == [train] and done.stdout.split() == [f"{tmp_path}/bin/{train[0]}", *train[1:]]
    words = ("--text", "my text", "--", "--arch", "transformer_mma")
    done, called = recorded("train.sh", *words, SLURM_NTASKS="8")
    assert called == [["srun", str(tmp_path / "bin/fairseq-hybrid"), "train", *words]]
    assert "my\\ text" in done.stdout
    done, called = recorded("train.sh", *words, DRY_RUN="1")
    assert done.stdout and not called

    (tmp_path / "model/checkpoints").mkdir(parents=True)
    (tmp_path / "model/checkpoints/checkpoint_1_25.pt").touch()
    made, where = "--output model/average.pt", "model/checkpoints"
    _, called = recorded("average.sh", "model")
    assert called == [f"fairseq-hybrid average {made} --last-updates 5 {where}".split()]
    (tmp_path / "model/checkpoints/checkpoint_1_25.pt").rename(tmp_path / "model/checkpoints/c.pt")
    _, called = recorded("average.sh", "model", "2")
    assert called == [f"fairseq-hybrid average {made} --last-epochs 2 {where}".split()]

    subwords = {"kind": "sentencepiece-bpe"}
    manifest = {**RECIPE, "subwords": subwords, "lowercase": True, "recipe": RECIPE}
    (tmp_path / "prepared/manifest.json").write_text(json.dumps(manifest))
    (tmp_path / "model/average.pt").touch()
    done, called = recorded("evaluate.sh", "model/average.pt", "prepared", "--beam", "8")
    assert [words[0] for words in called] == ["fairseq-generate", "fairseq-hybrid"]
    generate, score = map(" ".join, called)
    assert "--source-lang de --target-lang en --path model/average.pt" in generate
    assert generate.endswith("--required-batch-size-multiple 1 --beam 8")
    assert "--generated model/average.generated.txt --reference prepared/raw/test.en" in score
    assert (
        "--subwords sentencepiece --tokenizer moses --scores bleu,tokenised_bleu,chrf,ter" in score
    )
    assert score.endswith("--lowercase") and len(done.stdout.splitlines()) == 2
    done, called = recorded("evaluate.sh", "model/average.pt", "prepared", FAILS="fairseq-generate")
    assert done.returncode == 1 and [words[0] for words in called] == ["fairseq-generate"]
    for command in (
        "train.sh mma/table2/transformer_mma",
        "average.sh model",
        "evaluate.sh model/average.pt prepared",
    ):
        done, called = recorded(*command.split(), PATH="/usr/bin:/bin")
        assert done.returncode == 1 and done.stderr.startswith("activate the environment that has")
    for mistake in (
        "average.sh nowhere",
        "average.sh model 0",
        "evaluate.sh model/average.pt nowhere",
    ):
        done, called = recorded(*mistake.split())
        assert done.returncode == 1 and not called and ": name a" in done.stderr


def test_a_licensed_corpus_is_asked_for(tmp_path):
    done = run_for_real(tmp_path, ROOT / "scripts/papers/mma_wat17_ja-en.sh", FP16="0")
    assert done.returncode == 1 and "apply for it at" in done.stderr
    assert not (tmp_path / "data/wat17.ja-en.mma/manifest.json").exists()


@pytest.mark.slow
def test_a_script_gives_what_reproduce_gives(tmp_path):
    """The same weights, translations and scores; averaged and evaluated by scripts, too."""
    write_text(tmp_path / "text")
    dry = {"train": {"dropout": 0.0, "max-update": 75, "head-patterns": "global,local"}}
    table = with_rows(TABLE, plain=dry)
    write_configs(tmp_path / "configs", **{"toy/table1.yaml": table})
    where = ("--column", "bleu", "--configs", "configs", "--text", "text")
    shown = run("fairseq-hybrid", "show", "toy/table1/plain", *where, "--script", cwd=tmp_path)
    (tmp_path / "plain.sh").write_text(shown.stdout)
    cpu = ("--device", "cpu", "--precision", "fp32", "--output", "out")
    run("fairseq-hybrid", "reproduce", "toy/table1", "plain", *where[2:], *cpu, cwd=tmp_path)
    made = tmp_path / "out/runs/full@text/toy/table1/plain/bleu/seed1"
    done = run_for_real(tmp_path, tmp_path / "plain.sh", FP16="0", SAVE="model")
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "model"
    model = weights(folder / "model.pt")
    assert all(map(torch.equal, weights(made / "model.pt").values(), model.values()))
    assert (folder / "hypotheses.txt").read_text() == (made / "hypotheses.txt").read_text()
    scores = [json.loads((path / "score.json").read_text())["scores"] for path in (made, folder)]
    assert scores[0] == scores[1]
    assert run_for_real(tmp_path, ROOT / "scripts/average.sh", "model", "3").returncode == 0
    assert all(map(torch.equal, weights(folder / "average.pt").values(), model.values()))
    flags = "--task translation_gnmt --beam 2 --gnmt-lenpen 0.6 --max-len-a 1 --max-len-b 5".split()
    script, corpus = ROOT / "scripts/evaluate.sh", "data/full@text/toy"
    evaluated = run_for_real(tmp_path, script, "model/average.pt", corpus, *flags)
    printed, again = done.stdout.splitlines(), evaluated.stdout.splitlines()  # of BLEU alone
    at = next(number for number, line in enumerate(again) if line.startswith("BLEU = "))
    assert again[at : at + 3] == printed[printed.index(again[at]) :][:3]


def run_for_real(folder, script, *arguments, **variables):
    """Run a script with the programs of this checkout, on the CPU."""
    for name, module in MODULES.items():
        program = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m {module} "$@"\n'
        write_program(folder / "programs" / name, program)
    places = (folder / "programs", Path(sys.executable).parent, os.environ["PATH"])
    variables = environment(**{"PATH": ":".join(map(str, places)), "CPU": "1", **variables})
    return subprocess.run(
        ["bash", script, *arguments], cwd=folder, env=variables, capture_output=True, text=True
    )
