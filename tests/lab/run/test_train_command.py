"""One run: what is reported beforehand, and that several processes train what one does."""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from cli import command, environment, run
from made_runs import MadeWorkspace, manifest
from refusals import check_command_refusals
from workspaces import SETTINGS, TABLE, with_rows, write_configs, write_text

from fairseq_hybrid_attn import UserError
from fairseq_hybrid_attn.lab.commands import train
from fairseq_hybrid_attn.lab.commands.command_line import main
from fairseq_hybrid_attn.lab.commands.workspace_flags import seeds
from fairseq_hybrid_attn.lab.config.own_tables import flags_of, own_table, profile_of_text
from fairseq_hybrid_attn.lab.config.settings import FULL, Settings
from fairseq_hybrid_attn.lab.files.checkpoints import read_checkpoint, updates
from fairseq_hybrid_attn.lab.files.json_files import read_json
from fairseq_hybrid_attn.lab.files.yaml_files import CONFIGS
from fairseq_hybrid_attn.lab.models.trained import TrainedModel
from fairseq_hybrid_attn.lab.plan import launched
from fairseq_hybrid_attn.lab.run.fine_tuning import settings_from
from fairseq_hybrid_attn.lab.run.running import RunInProgress
from fairseq_hybrid_attn.lab.run.workspace import Run

#: Without dropout, whose masks depend on the process.
DRY = {
    "train": {"dropout": 0.0, "max-update": 20, "head-patterns": "global,local"},
    "checkpoints": {"every": 5, "average": 2},
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("place")
    write_text(folder / "text")
    table = with_rows(TABLE, plain=DRY)
    write_configs(folder / "configs", **{"toy/table1.yaml": table})
    where = ("--configs", "configs", "--text", "text", "--output", "out", "--device", "cpu")
    return folder, where


@pytest.mark.slow
def test_two_processes_train_what_one_does(place):
    folder, where = place
    row = ("toy/table1/plain", "--column", "bleu")
    where = (*where, "--keep-checkpoints")
    run("fairseq-hybrid", "train", *row, *where, cwd=folder)  # prepares the text first
    made = folder / "out/runs/full@text/toy/table1/plain/bleu/seed1"
    made.rename(folder / "alone")

    subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"),
            *("--master-port", str(29600 + os.getpid() % 1000), "--no-python"),
            *command("fairseq-hybrid", "train", *row, *where),
        ],
        cwd=folder,
        env=environment(),
        check=True,
        timeout=300,
    )
    states = [
        read_checkpoint(path / "checkpoints/checkpoint_last.pt")
        for path in (folder / "alone", made)
    ]
    assert [updates(state) for state in states] == [20, 20]
    alone, together = (state["model"] for state in states)
    torch.testing.assert_close(dict(together), dict(alone), atol=2e-4, rtol=0)
    assert max(weight.abs().max() for weight in together.values()) > 0.01

    # The first of them evaluates it; the checkpoints are kept, as asked.
    assert (made / "result.json").exists()
    done = run("fairseq-hybrid", "reproduce", "toy/table1", "plain", *where, cwd=folder)
    assert "done in" not in done.stdout


def test_show_prints_commands_that_a_shell_can_run(place):
    folder, where = place
    row = ("show", "toy/table1/mixed", "--column", "bleu")
    shown = run("fairseq-hybrid", *row, *where, cwd=folder).stdout
    echo = "fairseq-train() { printf '%s\\n' \"$@\"; }\n"
    program = echo + shown.split("fairseq-hybrid average")[0]
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
    words = done.stdout.split("\n")
    for flag, value in SETTINGS["train"].items():
        at = words.index(f"--{flag}")
        wanted = "global,local,forward,backward" if flag == "head-patterns" else str(value)
        assert value is True or words[at + 1] == wanted


def test_a_run_on_your_text_is_shown_where_it_is_now(tmp_path, capsys):
    made = MadeWorkspace(tmp_path)
    run = made.run("mixed")
    begun = {"settings": run.settings.as_dict()}
    begun["workspace"] = {"own": made.workspace.own.as_record()}
    folder = made.workspace.runs / "full@text/own/mine/mixed/bleu/seed3"
    folder.mkdir(parents=True)
    (folder / "begun.json").write_text(json.dumps({"identity": {}, **begun}))
    (tmp_path / "out").rename(tmp_path / "moved")
    moved = tmp_path / "moved" / folder.relative_to(tmp_path / "out")
    configs = ("--configs", f"{tmp_path}/configs")
    main(["show", str(moved), "--device", "cpu", *configs])
    shown = capsys.readouterr().out
    assert f"--save-dir {moved}/checkpoints" in shown and str(tmp_path / "out") not in shown
    moved_to = ("--output", f"{tmp_path}/moved", *configs)
    main(["show", "own/mine/mixed", "--seed", "3", "--script", *moved_to])
    script = capsys.readouterr().out
    assert "--head-patterns global,local,forward,backward" in script and "SEED:-3" in script
    assert f"TEXT=${{TEXT:-{tmp_path}/text}}" in script
    subprocess.run(["bash", "-n", "-c", script], check=True)
    with pytest.raises(UserError, match="own/mine/mixed, seed 1: .* none in"):
        main(["show", "own/mine/mixed", *moved_to])


def test_a_row_that_is_not_one_run_is_refused(place, monkeypatch):
    folder, where = place
    monkeypatch.chdir(folder)
    toys = " ".join(where)
    check_command_refusals(
        [
            (f"toy/table1/others {toys}", "cited by the paper"),
            ("hysan/table1/e1", r"which --column\? bleu, nopos"),
            (f"toy/table1/mixed --column aer {toys}", "in these columns"),
        ],
        "show",
    )


@pytest.mark.slow
def test_your_own_text_and_flags(place):
    """No row: the settings are the flags, and what was begun with others is not resumed."""
    folder, _ = place
    where = ("--text", "text", "--output", "mine", "--device", "cpu", "--keep-checkpoints")
    sizes = ("--tokens", 300, "--save-every", 5, "--average", 2)
    flags = "--max-update 20 --encoder-layers 1 --decoder-layers 1 --encoder-embed-dim=32"
    flags += " --decoder-embed-dim 32 --lr 5e-4 --dropout"
    words = (*where, *sizes, "transformer_hysan")
    train = ("fairseq-hybrid", "train", *words, "--", *flags.split())
    run(*train, 0.3, cwd=folder)
    made = folder / "mine/runs/few@text/own/systems/transformer_hysan/bleu/seed1"
    saved = read_checkpoint(made / "checkpoints/checkpoint_last.pt")
    assert updates(saved) == 20
    wanted = {"encoder_embed_dim": 32, "dropout": 0.3, "share_all_embeddings": True}
    model, optimization = saved["cfg"]["model"], saved["cfg"]["optimization"]
    assert {k: model[k] for k in wanted} == wanted
    assert optimization["lr"] == [5e-4] and saved["cfg"]["task"]["_name"].endswith("able")
    bleu = read_json(made / "result.json")["scores"]["bleu"]["value"]
    done = run(*train, 0.3, cwd=folder).stdout
    assert "done in" not in done and re.search(f"transformer_hysan +{bleu:.2f} ", done)
    refused = run(*train, 0.2, cwd=folder, expect=1).stderr
    assert "stale (configuration changed: train: dropout)" in refused
    shown = run("fairseq-hybrid", "runs", "--output", "mine", cwd=folder).stdout
    assert re.search("own/systems/transformer_hysan/bleu/seed1 .* done", shown)
    # The comparison takes what was trained, and adds a system.
    more = ("transformer --dropout 0.1", "--write", "table.json", "--write", "page.html")
    compare = ("fairseq-hybrid", "compare", *words, *more, "--", *flags.split(), 0.3)
    done = run(*compare, cwd=folder).stdout
    assert done.count("train: done in") == 1 and "BLEU below 5" in done
    numbers = read_json(folder / "table.json")["numbers"]
    first, second = (number for number in numbers if number["score"] == "bleu")
    assert first["ours"]["by_seed"]["1"] == pytest.approx(bleu, abs=0.005)
    difference = second["difference"]
    assert set(difference["by_seed"]) == {"1"} and 0 < difference["p"] <= 1
    assert "own/systems/transformer+dropout=0.1/bleu/seed1" in done
    assert read_json(folder / "page.numbers.json") == read_json(folder / "table.json")
    page = (folder / "page.html").read_text()
    assert "dropout=0.1" in page and "Of one seed, ±" in page


def test_a_row_or_text_and_flags(place, monkeypatch):
    folder, where = place
    monkeypatch.chdir(folder)
    mine = "--text text --output no --device cpu"
    check_command_refusals(
        [
            ("--text text", "text and a system: --text DIR transformer"),
            ("--text text transformer_mma -- lr 3", "lr: use --FLAG VALUE"),
            (f"{mine} transformer_mma -- --max-updat 3", "unrecognized arguments"),
            (f"toy/table1/plain {' '.join(where)} -- --lr 3", "has its own flags"),
            (f"toy/table1/plain {' '.join(where)} --write a.md", "leave out --write"),
            (f"{mine} --write a.md --prepare-only transformer_mma", "--prepare-only"),
            (f"{mine} transformer_mma -- --lr=", "--lr=: the value is missing"),
            (f"{mine} transformer_hysan -- --branch-fusion sun", "sun: use one of gated-sum"),
            (f"{mine} transformer_mma -- --lr -0.001", "lr: -0.001: use a rate above 0"),
            (f"{mine} transformer_mma -- --warmup-update 3", "did you mean --warmup-updates"),
            (f"{mine} transformer -- --no-encoder-positions", "--no-token-positional-embeddings"),
            (f"{mine} transformer -- --relative-positions alibi", "--head-patterns global, a Tran"),
            (f"{mine} transformer_mma -- --fp16", "fp16 follows from --precision"),
            (f"{mine} transformer_mma -- --warmup-updates 20 --max-update 20", "-updates 2$"),
            (f"{mine} transformer_mma -- --max-tokens 20", "or --tokens"),
            (f"{mine} --write table.txt transformer_mma", "ends in .md, .csv, .json, .html"),
        ],
        "train",
    )
    check_command_refusals(
        [
            ("transformer", "name your text: --text DIR"),
            (f"{mine} transformer transformer", "there twice"),
            (f"{mine} transformer --seeds 2 -- --arch transformer", "name the systems themselves"),
            (f"{mine} transformer transformer_mam", "did you mean transformer_mma"),
        ],
        "compare",
    )
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    page = [(f"{mine} --write page.html transformer", "figures need matplotlib")]
    check_command_refusals(page, "compare")
    assert not Path("no/corpora").exists()  # before the text is prepared


@pytest.mark.parametrize("typed", ["--redo", "--write table.md --compile --seeds 5,7"])
def test_the_hint_to_compare_is_the_same_training_and_deletes_nothing(
    typed, place, monkeypatch, capsys
):
    monkeypatch.chdir(place[0])
    monkeypatch.setattr(train, "compare", lambda *_: None)
    mine = f"--text text --output no --device cpu --name transformer {typed}"
    main(["train", *mine.split(), "transformer", "--", "--max-update", "30"])
    hint = shlex.split(capsys.readouterr().out.partition(": ")[2])
    assert hint[:2] == ["fairseq-hybrid", "compare"] and not {"--redo", "table.md"} & {*hint}
    assert ("--compile" in hint) == ("--compile" in typed)
    words = [word.replace("ANOTHER", "transformer_mma") for word in hint[1:]]
    words.insert(words.index("--"), "--dry-run")
    main(words)
    printed = capsys.readouterr().out
    for seed in (5, 7) if "5,7" in typed else (1,):
        for system in ("transformer", "transformer_mma"):
            assert f"own/transformer/{system}/bleu/seed{seed}: not begun; at most 30 " in printed


def test_flags_of_fairseq_follow_after_dashes(capsys):
    for flag, told in {
        "--lr": "--lr (flags of fairseq-train follow after --)",  # though it is like --slurm
        "--tokenss": "did you mean --tokens?",
        "-- --tokens": "write it before --",
    }.items():
        with pytest.raises(SystemExit):
            main(["compare", "--text", "text", "transformer", *flag.split(), "20"])
        assert told in capsys.readouterr().err


def test_seeds_are_counted_or_named():
    assert [seeds(text) for text in ("3", "5,7", "5,")] == [(1, 2, 3), (5, 7), (5,)]
    for text in ("2000", "0", "5,5", "1,4294967296", "x"):
        with pytest.raises(argparse.ArgumentTypeError):
            seeds(text)


def test_values_are_numbers_as_fairseq_reads_them():
    flags = flags_of("--a 010 --b 1:30 --c 1e-9 --d=-2 --e 0.30 --f --g 1,000 --h=false".split())
    wanted = ["010", "1:30", "1e-9", -2, 0.3, True, "1,000", False]
    assert list(flags.values()) == wanted and "".join(flags) == "abcdefgh"


def settings_of(system: str, pairs: int, *shared: str, **given: dict) -> Settings:
    profile = profile_of_text(pairs, CONFIGS)
    table = own_table(
        "systems", [system], shared=shared, given=given, profile=profile, configs=CONFIGS
    )
    return table.cells()[0].settings(profile)


def test_flags_win_over_a_profile_which_wins_over_defaults():
    sizes = {"batch": {"tokens": 300}}
    few = settings_of("transformer_mma --dropout 0.4", 5000, "--encoder-layers=1", **sizes)
    wanted = {"dropout": 0.4, "encoder-layers": 1, "decoder-layers": 4, "max-update": 4000}
    assert {name: few.train[name] for name in wanted} == wanted
    assert (few.batch.tokens, few.batch.per_device, few.checkpoints.every) == (300, 2048, 100)
    epochs = settings_of("transformer --max-epoch 3", 10**6, "--share-all-embeddings=false")
    assert epochs.train["max-epoch"] == 3
    assert not {"max-update", "share-all-embeddings"} & epochs.train.keys()


def test_warm_up_follows_fewer_updates():
    """``few`` has 4,000 updates, 1,000 of them to warm up."""
    for length, expected in {200: 50, 9000: 1000}.items():
        settings = settings_of("transformer_mma", 5000, "--max-update", str(length))
        assert settings.train["warmup-updates"] == expected
    named = settings_of("transformer_mma --max-update 3 --warmup-updates 2", 5000)
    assert named.train["warmup-updates"] == 2


@pytest.mark.parametrize(
    "updates, given, every, average, validated",
    [
        (4000, {}, 100, 5, None),
        (400, {}, 10, 5, 80),
        (40, {}, 1, 5, 8),
        (4, {}, 1, 1, None),
        (8000, {}, 200, 5, 100),
        (400, {"average": 2}, 25, 2, 80),
        (400, {"every": 5}, 5, 10, 80),
        (400, {"every": 200}, 200, 1, 80),
        (4000, {"average": 10}, 50, 10, 100),
        (400, {"every": 80, "average": 5}, 80, 5, None),
    ],
)
def test_the_averaged_share_of_the_updates_is_the_profiles(
    updates, given, every, average, validated
):
    """That of ``few`` is an eighth: five checkpoints, 100 updates apart, of 4,000."""
    flags = ["--max-update", str(updates)]
    settings = settings_of("transformer_mma", 5000, *flags, checkpoints=given)
    assert (settings.checkpoints.every, settings.checkpoints.average) == (every, average)
    assert settings.train.get("validate-interval-updates") == validated


def test_a_training_that_ends_early_averages_the_same_share():
    few = settings_of("transformer_mma", 5000)
    assert [few.averaged(done) for done in (4000, 2400, 900, 30)] == [5, 3, 1, 1]
    published = [few.averaged(done, by_share=False) for done in (4000, 900, 250, 30)]
    assert published == [5, 5, 2, 1]  # as many as the table says, or all that there are
    by_epochs = settings_of("transformer_mma --max-epoch 9", 5000)
    assert [by_epochs.averaged(done) for done in (99_000, 2400, 30)] == [5, 3, 1]
    named = settings_of(
        "transformer_mma --max-epoch 9", 5000, checkpoints={"every": 100, "average": 5}
    )
    assert [named.averaged(done) for done in (99_000, 300)] == [5, 3]
    denser = settings_of("transformer_mma --max-epoch 9", 5000, checkpoints={"every": 50})
    assert denser.train["validate-interval-updates"] == 100  # as often as without


def test_a_plan_warns_of_a_wide_average(place, monkeypatch, capsys):
    monkeypatch.chdir(place[0])
    plan = "train --text text --output no --device cpu --dry-run --average 5".split()
    for given, share, warned in (([], "12.5 %", False), (["--save-every", "50"], "62.5 %", True)):
        main([*plan, *given, "transformer_mma", "--", "--max-update", "400"])
        printed = capsys.readouterr().out
        assert share in printed and ("warning: transformer_mma:" in printed) == warned


def test_a_fine_tuning_goes_on_at_the_last_rate_of_its_model(tmp_path):
    usual = settings_of("transformer_mma", 10**6)  # 100,000 updates, the rate as 1 / √updates
    trained = TrainedModel(tmp_path, tmp_path / "model.pt", tmp_path, tmp_path, ("de", "en"))
    base = settings_from(replace(trained, settings=usual.as_dict()))
    assert base["train"]["lr"] == pytest.approx(6.98771e-4 * (4000 / 100_000) ** 0.5, rel=0.01)
    how = {"profile": FULL, "configs": CONFIGS, "base": base, "start": "start"}
    table = own_table("x", ["transformer_mma"], **how)
    start, tuned = (cell.settings(FULL) for cell in table.cells()[:: len(table.columns)])
    assert start.updates == 0 and table.baseline == "start"
    assert (tuned.updates, tuned.train["warmup-updates"]) == (10_000, 1000)
    table = own_table("x", ["transformer_mma"], shared=["--max-update=30000"], **how)
    assert table.cells()[-1].settings(FULL).train["warmup-updates"] == 3000


def test_sizes_follow_the_text_but_not_of_an_architecture_of_one_size():
    small, large = (settings_of("transformer_mma", pairs) for pairs in (9_999, 50_000))
    assert small.train["encoder-embed-dim"] < large.train["encoder-embed-dim"]
    assert "encoder-embed-dim" not in settings_of("transformer_iwslt_de_en", 20_000).train


def test_a_system_has_one_name_however_its_flags_are_given():
    def name(system: str) -> str:
        return own_table("systems", [system], profile=FULL, configs=CONFIGS).rows[0].name

    assert name("transformer --dropout 0.30 --lr=1e-3") == "transformer+dropout=0.3+lr=1e-3"
    assert name("transformer --lr 1e-3 --dropout 0.3") == "transformer+dropout=0.3+lr=1e-3"
    for letter in "aä":
        long = [name(f"transformer_mma --head-patterns {letter * 200}{end}") for end in "ab"]
        assert len(set(long)) == 2 and max(len(one.encode()) for one in long) <= 100


def test_launched_processes_train_on_the_text_as_it_is(tmp_path, monkeypatch):
    """They cannot prepare it; an earlier text's data would be recorded as this one's."""
    made = MadeWorkspace(tmp_path)
    run = made.run("plain")
    run.corpus_folder.mkdir(parents=True)
    manifest().write(run.corpus_folder)
    assert run.has_corpus
    for name, value in {"RANK": "1", "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "text/train.de").write_text("another\n")
    with pytest.raises(UserError, match="not prepared in .* --prepare-only"):
        made.hybrid("train", "toy/table1/plain", "--column", "bleu", "--device", "cpu")


def test_no_process_waits_for_a_training_that_is_over(tmp_path, monkeypatch):
    """All updates were made, and a kill came before that was recorded."""
    made = MadeWorkspace(tmp_path)
    monkeypatch.setattr(Run, "has_corpus", True)
    monkeypatch.setattr(launched, "stop_at_signals", lambda: None)
    for name, value in {"RANK": "1", "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    started = []
    monkeypatch.setattr(RunInProgress, "train_here", lambda work, log: started.append(log))
    for over in (False, True):
        monkeypatch.setattr(RunInProgress, "is_trained", lambda work, over=over: over)
        made.hybrid("train", "toy/table1/plain", "--column", "bleu", "--device", "cpu")
        assert started == ["train-rank1"]
