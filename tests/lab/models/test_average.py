"""``average``: against means taken by hand, and in fairseq's own commands."""

import argparse
import resource
from pathlib import Path

import pytest
import torch
from cli import binarise, generate, train, write_corpus
from refusals import check_command_refusals, check_refusals, files

from fairseq_hybrid_attn import UserError
from fairseq_hybrid_attn.lab.commands.command_line import main
from fairseq_hybrid_attn.lab.models.averaging import average_checkpoints


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def save(path, weights, *, updates=1, arch="transformer", **changes):
    """A checkpoint as fairseq writes it, with these weights; returns its path."""
    state = {
        "args": None,
        "cfg": {"model": {"_name": arch}},
        "model": weights,
        "optimizer_history": [{"num_updates": updates}],
        "extra_state": {"train_iterator": {"epoch": updates}},
        "last_optimizer_state": {"momentum": torch.zeros(1000)},
    }
    torch.save({**state, **changes}, path)
    return path


def average(*arguments):
    main(["average", "--output", "avg.pt", *map(str, arguments)])
    return torch.load("avg.pt", weights_only=True)


def mean_of(*models):
    """The averaged weights of models."""
    return average(*(save(f"{i}.pt", model) for i, model in enumerate(models)))["model"]


def test_the_mean_is_that_of_double_precision():
    cancelling = [torch.tensor([number]) for number in (1e8, 1.0, -1e8)]  # 0 in single precision
    for weights in (torch.randn(3, 3, 5), cancelling, torch.tensor([[0.1, 7.0]])):
        mean = mean_of(*({"w": weight} for weight in weights))["w"]
        assert mean.dtype == torch.float32
        assert mean.equal((sum(weight.double() for weight in weights) / len(weights)).float())


def test_models_that_do_other_things_with_their_weights_have_no_mean():
    """As after a second training into a folder that another one left."""
    weights = {"w": torch.ones(2)}
    one = {"_name": "transformer_mma", "head_patterns": "global,local", "dropout": 0.1}
    others = {"head_patterns": "backward"}, {"encoder_attention_heads": 8}
    one |= {"encoder_attention_heads": 4}
    save("one.pt", weights, cfg={"model": one})
    for number, other in enumerate(others):
        (name,) = other
        save(f"{number}.pt", weights, cfg={"model": {**one, **other}})
        with pytest.raises(UserError, match=f"{number}.pt is of another model .*: its {name} is"):
            average_checkpoints([Path("one.pt"), Path(f"{number}.pt")])
    reverse = {"model": one, "task": {"source_lang": "en", "target_lang": "de"}}
    save("reverse.pt", weights, cfg=reverse)
    with pytest.raises(UserError, match="reverse.pt is of another model .*: its source_lang is"):
        average_checkpoints([Path("one.pt"), Path("reverse.pt")])
    # What only training uses may differ.
    save("two.pt", {"w": torch.zeros(2)}, cfg={"model": {**one, "dropout": 0.3}})
    assert average_checkpoints([Path("one.pt"), Path("two.pt")])["model"]["w"].tolist() == [0.5] * 2


def test_dtypes():
    """1 and 1 + 1/1024 are float16 numbers, their mean is not; likewise for bfloat16."""
    kinds = {"half": torch.float16, "brain": torch.bfloat16, "double": torch.float64}
    steps = {"half": 2**-10, "brain": 2**-7, "double": 2**-52}
    models = []
    for i in range(2):
        weights = {k: torch.tensor([1 + 2 * i * steps[k]], dtype=kinds[k]) for k in kinds}
        weights["odd"] = torch.tensor([1 + i * steps["half"]], dtype=torch.float16)
        # Precisions may differ between inputs; the result has the higher one.
        weights["mixed"] = torch.tensor([3.0 + i], dtype=(torch.float16, torch.float32)[i])
        weights["count"] = torch.tensor([2**62 + 1])
        models.append(weights)
    mean = mean_of(*models)
    expected = {kind: 1 + step for kind, step in steps.items()}
    expected |= {"odd": 1 + 2**-11, "mixed": 3.5, "count": 2**62 + 1}
    assert {name: weight.item() for name, weight in mean.items()} == expected
    dtypes = dict.fromkeys(mean, torch.float32) | {"double": torch.float64, "count": torch.int64}
    assert {name: weight.dtype for name, weight in mean.items()} == dtypes


def test_tied_weights_stay_tied_if_every_checkpoint_ties_them():
    for dtype in (torch.float32, torch.float64):
        tables = [torch.full((400, 100), float(i), dtype=dtype) for i in range(2)]
        mean = mean_of(*({"embed": table, "project": table} for table in tables))
        assert mean["embed"].data_ptr() == mean["project"].data_ptr()
        assert (mean["embed"] == 0.5).all()
        assert Path("avg.pt").stat().st_size < Path("0.pt").stat().st_size
    table = torch.ones(3)
    untied = save("untied.pt", {"embed": torch.zeros(3), "project": torch.full((3,), 5.0)})
    tied = save("tied.pt", {"embed": table, "project": table}, updates=2)  # the newest
    mean = average(untied, tied)["model"]
    assert (mean["embed"][0].item(), mean["project"][0].item()) == (0.5, 3.0)


def test_all_but_the_weights_comes_from_the_newest():
    paths = [save(f"{n}.pt", {"w": torch.zeros(1)}, updates=n) for n in (5, 20, 10)]
    state = average(*paths)
    assert state["optimizer_history"][-1]["num_updates"] == 20
    extra = {"train_iterator": {"epoch": 20}, "previous_training_time": 0}
    assert state["extra_state"] == {**extra, "averaged_checkpoints": paths}
    assert state["last_optimizer_state"] is None
    # With args, as fairseq wrote them before it had configurations.
    args = argparse.Namespace(arch="transformer_iwslt_de_en", dropout=0.3)
    paths = [save(f"{n}.pt", {"w": torch.zeros(1)}, cfg=None, args=args) for n in (1, 2)]
    assert average(*paths)["args"] == args
    other = save("other.pt", {"w": torch.zeros(1)}, cfg=None, args=argparse.Namespace(arch="x"))
    with pytest.raises(UserError, match="its architecture is x, not transformer_iwslt"):
        average(paths[0], other)


@pytest.fixture
def numbered(folder):
    """Checkpoints whose weight is their number of updates, 100 an epoch."""
    for epoch in (1, 2, 9, 10):
        names = {100 * epoch: epoch, 100 * epoch + 50: f"_{epoch + 1}_{100 * epoch + 50}"}
        for updates, name in names.items():
            save(f"checkpoint{name}.pt", {"w": torch.tensor([float(updates)])}, updates=updates)
    for name in ("best", "last"):
        save(f"checkpoint_{name}.pt", {"w": torch.tensor([0.0])})


def test_the_last_of_a_folder(numbered, capsys):
    for choice, expected in (
        ("--last-updates 2", (950, 1050)),
        ("--last-updates 4", (150, 250, 950, 1050)),
        ("--last-updates 2 --up-to 1000", (250, 950)),
        ("--last-updates 1 --up-to 950", (950,)),
        # By number: by name, epoch 10 would come before 2.
        ("--last-epochs 2", (900, 1000)),
        ("--last-epochs 2 --up-to 9", (200, 900)),
    ):
        mean = average(*choice.split(), ".")["model"]["w"].item()
        assert mean == sum(expected) / len(expected), choice
    printed = ["averaging 2 checkpoints:", "  checkpoint2.pt", "  checkpoint9.pt"]
    assert capsys.readouterr().out.splitlines()[-4:] == [*printed, "written to avg.pt"]


def test_wrong_choices(numbered):
    save("old.pt", {"w": torch.zeros(1)})
    check_command_refusals(
        [
            ("--last-updates 1 nowhere", "of one directory: give that"),
            ("--up-to 3 checkpoint1.pt checkpoint2.pt", "--up-to limits"),
            (".", "add --last-updates N or --last-epochs N"),
            ("--last-updates 3 --up-to 250 .", r"only 2 up to 250 \(checkpoint_2_150.pt, checkpoi"),
            ("old.pt checkpoint1.pt", "--output old.pt: old.pt is one of the inputs"),
        ],
        *("average", "--output", "old.pt"),
    )


def test_checkpoints_of_other_weights_have_no_mean():
    weights, count = {f"w{i}": torch.ones(2) for i in range(6)}, {"count": torch.tensor([1])}
    good = save("good.pt", {**weights, **count})
    save("fewer.pt", {"w0": torch.ones(2), **count})
    save("more.pt", {**weights, **count, "bias": torch.ones(2)})
    save("shapes.pt", {**weights, **count, "w4": torch.ones(2, 3)})
    save("arch.pt", weights, arch="transformer_mma")
    save("nothing.pt", weights, cfg={})
    save("counts.pt", {**weights, "count": torch.tensor([2])})
    save("floats.pt", {**weights, "count": torch.tensor([1.0])})
    refused = {
        "fewer.pt": r"than good.pt: its w1 is missing, not of shape \[2\], .*, …",
        "more.pt": r"its bias is of shape \[2\], not missing",
        "shapes.pt": r"its w4 is of shape \[2, 3\], not of shape \[2\]",
        "arch.pt": "its architecture is transformer_mma, not transformer",
        "nothing.pt": "its architecture is None",
        "counts.pt": r"its count is torch.int64 \[2\], not torch.int64 \[1\]",
        "floats.pt": r"its count is of shape \[1\], not torch.int64",
    }
    check_refusals(refused.items(), lambda name: average_checkpoints([Path(good), Path(name)]))


def test_a_full_disk_leaves_the_old_file_unchanged():
    """A limit on the size of files, a quarter of the result's, stands in for it."""
    save("a.pt", {"w": torch.ones(1_000_000)})
    Path("avg.pt").write_text("kept")
    before = files()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, limits[1]))
    try:
        with pytest.raises(UserError, match="avg.pt cannot be written: File too large"):
            average("a.pt")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert files() == before


@pytest.mark.slow
def test_fairseq_translates_and_trains_with_the_average(folder):
    write_corpus(folder, hard_cases=False)
    binarise(folder)
    flags = ["--max-update", 6, "--save-interval-updates", 2, "--max-tokens", 100]
    train("bin", "model", "transformer_mma", *flags, "--disable-validation", cwd=folder)
    result = average("--last-updates", 3, "model")
    states = [torch.load(f"model/checkpoint_1_{updates}.pt") for updates in (2, 4, 6)]
    assert list(result["model"]) == list(states[0]["model"])
    for name, weight in result["model"].items():
        expected = sum(state["model"][name].double() for state in states) / 3
        assert (weight - expected).abs().max() <= 1e-7 * expected.abs().max(), name
    assert result["cfg"] == states[2]["cfg"]
    assert result["optimizer_history"][-1]["num_updates"] == 6

    lines = generate("bin", "avg.pt", cwd=folder).stdout.split("\n")
    assert sum(line.startswith("H-") for line in lines) == 20

    # The learning rate is zero, so the weights after an update are those it began with.
    tuned = ["--finetune-from-model", "avg.pt", "--max-update", 1, "--lr", 0]
    train("bin", "tuned", "transformer_mma", *tuned, "--disable-validation", cwd=folder)
    after = torch.load("tuned/checkpoint_last.pt")
    assert after["optimizer_history"][-1]["num_updates"] == 1
    for name, weight in result["model"].items():
        assert after["model"][name].equal(weight), name


def test_gaps_and_doubles_are_told(capsys):
    """An update that ends an epoch has no numbered checkpoint of fairseq's."""
    paths = {n: save(f"{n}.pt", {"w": torch.zeros(1)}, updates=n) for n in (18, 36, 54, 72, 90)}
    again = save("checkpoint_last.pt", {"w": torch.zeros(1)}, updates=90)
    average(paths[54], paths[72], paths[90])
    assert "warning" not in capsys.readouterr().err
    average(paths[18], paths[54], paths[90], paths[36])
    assert "not evenly spaced: 18, 36, 54, 90" in capsys.readouterr().err
    average(paths[72], paths[90], again)
    assert "are of one update: 72, 90, 90" in capsys.readouterr().err


def test_the_end_of_an_epoch_without_numbered_file_is_told(capsys):
    """fairseq writes update 72 as checkpoint2.pt alone; 95 ends the training."""
    names = {"_1_18": 18, "1": 36, "_2_54": 54, "2": 72, "_3_90": 90, "3": 95, "_last": 95}
    for name, updates in names.items():
        save(f"checkpoint{name}.pt", {"w": torch.zeros(1)}, updates=updates)
    average("--last-updates", 2, ".")
    told = capsys.readouterr().err
    assert told.count("warning") == 1 and "checkpoint2.pt is of update 72" in told
    save("checkpoint_2_72.pt", {"w": torch.zeros(1)}, updates=72)
    average("--last-updates", 2, ".")
    assert "warning" not in capsys.readouterr().err
