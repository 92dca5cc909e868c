"""``average``: against means taken by hand, and in fairseq's own commands."""

import argparse
import os
import resource
import signal
import struct
from pathlib import Path

import pytest
import torch
from cli import binarise, generate, train, write_corpus
from fairseq import checkpoint_utils
from refusals import check_command_refusals, files

from fairseq_hybrid_attn import UserError
from fairseq_hybrid_attn.lab.commands.command_line import main
from fairseq_hybrid_attn.lab.files.checkpoints import read_checkpoint
from fairseq_hybrid_attn.lab.files.writing import atomic_write
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
            ("--last-updates 1 . checkpoint1.pt", "of one directory: give that"),
            ("--last-updates 1 nowhere", "of one directory: give that"),
            ("--up-to 3 checkpoint1.pt checkpoint2.pt", "--up-to limits"),
            (".", "add --last-updates N or --last-epochs N"),
            ("--last-updates 3 --up-to 250 .", r"only 2 up to 250 \(checkpoint_2_150.pt, checkpoi"),
            ("--last-epochs 5 .", r"only 4 \(checkpoint1.pt, checkpoint2.pt, checkpoint9.pt, che"),
            ("--last-epochs 1 --up-to 0 .", r"only 0 up to 0 \(none"),
            ("checkpoint1.pt one.pt two.pt", "one.pt cannot be read: No such file"),
            ("old.pt checkpoint1.pt", "--output old.pt: old.pt is one of the inputs"),
        ],
        *("average", "--output", "old.pt"),
    )


class Payload:
    def __reduce__(self):
        return os.mkdir, ("payload",)  # if it were unpickled


def test_files_that_cannot_be_averaged():
    weights = {f"w{i}": torch.ones(2) for i in range(6)}
    count = {"count": torch.tensor([1])}
    save("good.pt", {**weights, **count})
    content = {"text": b"no checkpoint\n", "empty": b"", "cut": Path("good.pt").read_bytes()[:-100]}
    for name, start in content.items():
        Path(f"{name}.pt").write_bytes(start)
    torch.save([1, 2], "list.pt")
    torch.save({"epoch": 1}, "other.pt")
    save("strings.pt", {"w": "heavy"})
    save("code.pt", weights, payload=Payload())
    save("fewer.pt", {"w0": torch.ones(2), **count})
    save("more.pt", {**weights, **count, "bias": torch.ones(2)})
    save("shapes.pt", {**weights, **count, "w4": torch.ones(2, 3)})
    save("arch.pt", weights, arch="transformer_mma")
    for name, cfg in {"nothing": {}, "word": "transformer"}.items():
        save(f"{name}.pt", weights, cfg=cfg)
    circle = {}
    circle["x"] = circle
    odd = {
        "circle": {"cfg": circle},
        "history": {"optimizer_history": [5]},
        "updates": {"optimizer_history": [{"num_updates": "many"}]},
        "extra": {"extra_state": 5},
        "sparse": {"model": {**weights, **count, "w1": torch.ones(2).to_sparse()}},
    }
    for name, change in odd.items():
        save(f"{name}.pt", {**weights, **count}, **change)
    save("names.pt", {**weights, **count, 5: torch.ones(2)})
    save("counts.pt", {**weights, "count": torch.tensor([2])})
    save("floats.pt", {**weights, "count": torch.tensor([1.0])})
    Path("old.pt").write_text("kept")
    check_command_refusals(
        [
            *((f"{n}.pt", f"{n}.pt cannot be loaded as a checkpoint") for n in content),
            *((f"{n}.pt", f"{n}.pt is not a fairseq checkpoint") for n in odd),
            ("names.pt", "names.pt is not a fairseq checkpoint: .* tensors with names"),
            ("list.pt", "list.pt is not a fairseq checkpoint"),
            ("other.pt", "other.pt is not a fairseq checkpoint"),
            ("strings.pt", "not all its weights are dense tensors"),
            ("code.pt", "refers to posix.mkdir, which might run code"),
            ("fewer.pt", r"than good.pt: its w1 is missing, not of shape \[2\], .*, …"),
            ("more.pt", r"its bias is of shape \[2\], not missing"),
            ("shapes.pt", r"its w4 is of shape \[2, 3\], not of shape \[2\]"),
            ("arch.pt", "its architecture is transformer_mma, not transformer"),
            *((f"{name}.pt", "its architecture is None") for name in ("nothing", "word")),
            ("counts.pt", r"its count is torch.int64 \[2\], not torch.int64 \[1\]"),
            ("floats.pt", r"its count is of shape \[1\], not torch.int64"),
        ],
        *("average", "--output", "old.pt", "good.pt"),
    )
    assert not Path("payload").exists()


@pytest.mark.parametrize(
    "error",
    [MemoryError(), torch.OutOfMemoryError("CUDA out of memory"), ModuleNotFoundError("theirs")],
    ids=repr,
)
def test_what_is_not_the_files_fault_keeps_its_name(error, monkeypatch):
    def fail(*given, **settings):
        raise error

    path = save("good.pt", {"w": torch.ones(2)})
    monkeypatch.setattr(torch, "load", fail)
    for load in (read_checkpoint, checkpoint_utils.load_checkpoint_to_cpu):
        with pytest.raises(type(error)) as raised:
            load(Path(path))
        assert raised.value is error


def test_damage_that_torch_does_not_notice():
    """One bit of the second weight's exponent: 0.25 is read as 8.5e37."""
    weights = {"count": torch.tensor([3]), "w": torch.full((8,), 0.25), "tied": torch.ones(2)}
    weights["v"] = weights["tied"]
    good = save("good.pt", weights)
    content = bytearray(Path(good).read_bytes())
    content[content.index(struct.pack("8f", *8 * [0.25])) + 3] ^= 64
    Path("bit.pt").write_bytes(content)
    assert torch.load("bit.pt", weights_only=True)["model"]["w"][0] > 8e37  # torch does not notice
    for name, number in {"nan": torch.nan, "infinite": -torch.inf}.items():
        save(f"{name}.pt", {**weights, "tied": torch.tensor([1.0, number], dtype=torch.float16)})
    not_finite = "its weight tied has numbers that are infinite or NaN"
    check_command_refusals(
        [
            ("bit.pt", "bit.pt is damaged: "),
            ("nan.pt", f"nan.pt: {not_finite}"),
            ("infinite.pt", f"infinite.pt: {not_finite}"),
        ],
        *("average", "--output", "avg.pt", "good.pt"),
    )
    # Checkpoints without checksums, in torch's older format and on request, are read.
    state = torch.load("good.pt", weights_only=True)
    torch.save(state, "old.pt", _use_new_zipfile_serialization=False)
    torch.serialization.set_crc32_options(False)
    try:
        torch.save(state, "without.pt")
    finally:
        torch.serialization.set_crc32_options(True)
    assert average("good.pt", "old.pt", "without.pt")["model"]["w"].equal(weights["w"])


def test_an_incomplete_write_leaves_the_old_file_unchanged():
    save("a.pt", {"w": torch.ones(1_000_000)})
    Path("avg.pt").write_text("kept")
    before = files()
    with pytest.raises(KeyboardInterrupt), atomic_write(Path("avg.pt")) as file:
        file.write(b"half of the new")
        signal.raise_signal(signal.SIGINT)  # as Ctrl-C does
    assert files() == before
    # A link stays a link, and a device (here a pipe) is not replaced.
    Path("link.pt").symlink_to("avg.pt")
    with atomic_write(Path("link.pt")) as file:
        file.write(b"kept")
    assert Path("link.pt").is_symlink() and files() == {**before, "link.pt": b"kept"}
    Path("link.pt").unlink()
    os.mkfifo("pipe.pt")
    with pytest.raises(UserError, match="not a regular file"), atomic_write(Path("pipe.pt")):
        pass
    check_command_refusals([("--output pipe.pt a.pt", "not a regular file")], "average")
    # A limit on the size of files, a quarter of the result's, stands in for a full disk.
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


def test_what_never_ends_is_refused():
    os.mkfifo("pipe")
    for path in ("pipe", "/dev/zero"):
        with pytest.raises(UserError, match=f"{path} is not a regular file"):
            average(path)


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
