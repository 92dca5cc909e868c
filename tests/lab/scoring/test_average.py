"""Averaging checkpoints: against means taken by hand, and in fairseq's own commands."""

import argparse
import os
import resource
import signal
import subprocess
import time
from pathlib import Path

import numpy
import pytest
import torch
from cli import binarise, command, environment, generate, run, train, write_corpus

from fairseq_hybrid_attn import UserError
from fairseq_hybrid_attn.lab.command_line import main
from fairseq_hybrid_attn.lab.files.writing import atomic_write


def save(path: Path, weights: dict, *, updates=1, arch="transformer", **changes) -> Path:
    """A checkpoint as fairseq writes it, with these weights."""
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


def average(*paths: Path, output: Path) -> dict:
    main(["average", "--output", str(output), *map(str, paths)])
    return torch.load(output, weights_only=True)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_the_mean_is_that_of_double_precision(tmp_path):
    numbers = numpy.random.default_rng()
    arrays = [numbers.normal(size=(3, 5)).astype("float32") for _ in range(3)]
    paths = [save(tmp_path / f"{i}.pt", {"w": torch.from_numpy(a)}) for i, a in enumerate(arrays)]
    expected = sum(a.astype("float64") for a in arrays) / 3
    mean = average(*paths, output=tmp_path / "avg.pt")["model"]["w"]
    assert mean.dtype == torch.float32
    assert mean.numpy().tolist() == expected.astype("float32").tolist()


def test_small_weights_do_not_drown_in_large_ones(tmp_path):
    """1e8 + 1 - 1e8 is 0 in single precision."""
    paths = [
        save(tmp_path / f"{i}.pt", {"w": torch.tensor([value])})
        for i, value in enumerate([1e8, 1.0, -1e8])
    ]
    mean = average(*paths, output=tmp_path / "avg.pt")["model"]["w"]
    assert mean.item() == numpy.float32(1 / 3)


def test_one_file_is_its_own_mean(tmp_path):
    path = save(tmp_path / "a.pt", {"w": torch.tensor([0.1, 7.0])})
    assert average(path, output=tmp_path / "avg.pt")["model"]["w"].tolist() == (
        torch.tensor([0.1, 7.0]).tolist()
    )


def test_dtypes(tmp_path):
    """1 and 1 + 1/1024 are float16 numbers, their mean is not; likewise for bfloat16."""
    kinds = {"half": torch.float16, "brain": torch.bfloat16, "double": torch.float64}
    steps = {"half": 2**-10, "brain": 2**-7, "double": 2**-52}
    paths = []
    for i in range(2):
        weights = {k: torch.tensor([1 + 2 * i * steps[k]], dtype=kinds[k]) for k in kinds}
        weights["odd"] = torch.tensor([1 + i * steps["half"]], dtype=torch.float16)
        # Precisions may differ between inputs; the result has the higher one.
        weights["mixed"] = torch.tensor([3.0 + i], dtype=(torch.float16, torch.float32)[i])
        weights["count"] = torch.tensor([2**62 + 1])
        paths.append(save(tmp_path / f"{i}.pt", weights))
    mean = average(*paths, output=tmp_path / "avg.pt")["model"]
    for kind, step in steps.items():
        assert mean[kind].item() == 1 + step
    assert mean["odd"].item() == 1 + 2**-11
    assert mean["mixed"].item() == 3.5
    assert {name: weight.dtype for name, weight in mean.items()} == {
        "half": torch.float32,
        "brain": torch.float32,
        "double": torch.float64,
        "odd": torch.float32,
        "mixed": torch.float32,
        "count": torch.int64,
    }
    assert mean["count"].item() == 2**62 + 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tied_weights_stay_tied(dtype, tmp_path):
    paths = []
    for i in range(2):
        table = torch.full((400, 100), float(i), dtype=dtype)
        paths.append(save(tmp_path / f"{i}.pt", {"embed": table, "project": table}))
    mean = average(*paths, output=tmp_path / "avg.pt")["model"]
    assert mean["embed"].data_ptr() == mean["project"].data_ptr()
    assert (mean["embed"] == 0.5).all()
    assert (tmp_path / "avg.pt").stat().st_size < paths[0].stat().st_size


def test_weights_tied_in_one_checkpoint_only_are_averaged_apart(tmp_path):
    table = torch.ones(3)
    paths = [
        save(tmp_path / "untied.pt", {"a": torch.zeros(3), "b": torch.full((3,), 5.0)}, updates=1),
        save(tmp_path / "tied.pt", {"a": table, "b": table}, updates=2),
    ]
    mean = average(*paths, output=tmp_path / "avg.pt")["model"]
    assert (mean["a"][0].item(), mean["b"][0].item()) == (0.5, 3.0)


def test_all_but_the_weights_is_of_the_newest(tmp_path):
    paths = [
        save(tmp_path / f"{updates}.pt", {"w": torch.zeros(1)}, updates=updates)
        for updates in (5, 20, 10)
    ]
    state = average(*paths, output=tmp_path / "avg.pt")
    assert state["optimizer_history"][-1]["num_updates"] == 20
    assert state["extra_state"] == {
        "train_iterator": {"epoch": 20},
        "averaged_checkpoints": [str(path) for path in paths],
    }
    assert state["last_optimizer_state"] is None


def test_checkpoints_with_args(tmp_path):
    """As fairseq wrote them before it had configurations."""
    args = argparse.Namespace(arch="transformer_iwslt_de_en", dropout=0.3)
    other = argparse.Namespace(arch="transformer")
    a = save(tmp_path / "a.pt", {"w": torch.tensor([1.0])}, cfg=None, args=args)
    b = save(tmp_path / "b.pt", {"w": torch.tensor([2.0])}, cfg=None, args=args)
    c = save(tmp_path / "c.pt", {"w": torch.tensor([2.0])}, cfg=None, args=other)
    state = average(a, b, output=tmp_path / "avg.pt")
    assert state["args"] == args and state["model"]["w"].item() == 1.5
    with pytest.raises(UserError, match=r"\(transformer\) .*\(transformer_iwslt_de_en\)"):
        average(a, c, output=tmp_path / "other.pt")


@pytest.fixture
def numbered(tmp_path):
    """A folder of checkpoints whose weight is their number of updates, 100 an epoch."""
    for updates in (100, 200, 900, 1000):
        weights = {"w": torch.tensor([float(updates)])}
        save(tmp_path / f"checkpoint{updates // 100}.pt", weights, updates=updates)
        weights = {"w": torch.tensor([updates + 50.0])}
        name = f"checkpoint_{updates // 100 + 1}_{updates + 50}.pt"
        save(tmp_path / name, weights, updates=updates + 50)
    save(tmp_path / "checkpoint_best.pt", {"w": torch.tensor([0.0])})
    save(tmp_path / "checkpoint_last.pt", {"w": torch.tensor([0.0])})
    return tmp_path


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (["--last-updates", "2"], (950 + 1050) / 2),
        (["--last-updates", "4"], (150 + 250 + 950 + 1050) / 4),
        (["--last-updates", "2", "--up-to", "1000"], (250 + 950) / 2),
        (["--last-updates", "1", "--up-to", "950"], 950),
        # By number: by name, epoch 10 would come before 2.
        (["--last-epochs", "2"], (900 + 1000) / 2),
        (["--last-epochs", "2", "--up-to", "9"], (200 + 900) / 2),
    ],
)
def test_the_last_of_a_folder(choice, expected, numbered):
    main(["average", "--output", str(numbered / "avg.pt"), *choice, str(numbered)])
    assert torch.load(numbered / "avg.pt")["model"]["w"].item() == expected


def test_what_was_averaged_is_printed(numbered, capsys):
    main(["average", "--output", str(numbered / "a.pt"), "--last-epochs", "2", str(numbered)])
    assert capsys.readouterr().out.split("\n") == [
        "averaging 2 checkpoints:",
        f"  {numbered}/checkpoint9.pt",
        f"  {numbered}/checkpoint10.pt",
        f"written to {numbered}/a.pt",
        "",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--last-updates 1 --last-epochs 1 .", "exclude each other"),
        ("--last-updates 1 checkpoint1.pt", "give one directory"),
        ("--last-updates 1 . checkpoint1.pt", "give one directory"),
        ("--last-updates 1 nowhere", "nowhere is not a directory"),
        ("--up-to 3 checkpoint1.pt checkpoint2.pt", "--up-to limits"),
        (".", "add --last-updates N or --last-epochs N"),
        ("--last-updates 0 .", "--last-updates 0: use 1 or more"),
        ("--last-epochs -1 .", "--last-epochs -1: use 1 or more"),
        ("--last-updates 3 --up-to 250 .", "only 2 up to 250 .checkpoint_2_150.pt, checkpoint_3_"),
        ("--last-epochs 5 .", "only 4 .checkpoint1.pt, checkpoint2.pt, checkpoint9.pt, check"),
        ("--last-epochs 1 --up-to 0 .", "only 0 up to 0 .none"),
        ("checkpoint1.pt one.pt two.pt", "no such file: one.pt, two.pt"),
        ("checkpoint1.pt ./checkpoint1.pt", "are the same file"),
        ("checkpoint1.pt link.pt", "are the same file"),
        ("old.pt checkpoint1.pt", "--output old.pt: old.pt is one of the inputs"),
        ("--output nowhere/a.pt checkpoint1.pt", "there is no directory nowhere"),
        ("--output folder checkpoint1.pt", "--output folder is a directory"),
    ],
)
def test_wrong_choices(arguments, message, numbered, monkeypatch):
    monkeypatch.chdir(numbered)
    save(Path("old.pt"), {"w": torch.zeros(1)})
    Path("link.pt").symlink_to("checkpoint1.pt")
    Path("folder").mkdir()
    before = files(numbered)
    with pytest.raises(UserError, match=message):
        main(["average", "--output", "old.pt", *arguments.split()])
    assert files(numbered) == before


class Payload:
    """Would make a file if it were unpickled."""

    def __reduce__(self):
        return os.mkdir, ("payload",)


def broken_checkpoints(folder: Path) -> None:
    weights = {f"w{i}": torch.ones(2) for i in range(6)}
    good = save(folder / "good.pt", {**weights, "count": torch.tensor([1])})
    (folder / "text.pt").write_text("no checkpoint\n")
    (folder / "empty.pt").write_bytes(b"")
    (folder / "cut.pt").write_bytes(good.read_bytes()[:-100])
    torch.save([1, 2], folder / "list.pt")
    torch.save({"epoch": 1}, folder / "other.pt")
    save(folder / "strings.pt", {"w": "heavy"})
    save(folder / "code.pt", weights, payload=Payload())
    save(folder / "fewer.pt", {"w0": torch.ones(2), "count": torch.tensor([1])})
    save(folder / "more.pt", {**weights, "count": torch.tensor([1]), "bias": torch.ones(2)})
    shapes = {**weights, "w4": torch.ones(2, 3), "count": torch.tensor([1])}
    save(folder / "shapes.pt", shapes)
    save(folder / "arch.pt", weights, arch="transformer_mma")
    save(folder / "counts.pt", {**weights, "count": torch.tensor([2])})
    save(folder / "floats.pt", {**weights, "count": torch.tensor([1.0])})


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("text", "text.pt cannot be loaded as a checkpoint"),
        ("empty", "empty.pt cannot be loaded as a checkpoint"),
        ("cut", "cut.pt cannot be loaded as a checkpoint"),
        ("list", "list.pt is not a fairseq checkpoint"),
        ("other", "other.pt is not a fairseq checkpoint"),
        ("strings", "not all its weights are tensors"),
        ("code", "refers to posix.mkdir, which might run code"),
        ("fewer", "missing w1, w2, w3 and 2 more; additional none"),
        ("more", "missing none; additional bias"),
        ("shapes", r"other shapes than good.pt: w4 \[2, 3\], not \[2\]"),
        ("arch", r"another architecture \(transformer_mma\) than good.pt \(transformer\)"),
        ("counts", "not floating-point and so has no mean: count"),
        ("floats", r"count \[1\], not \[1\] torch.int64"),
    ],
)
def test_files_that_cannot_be_averaged(name, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    broken_checkpoints(tmp_path)
    Path("old.pt").write_text("kept")
    before = files(tmp_path)
    with pytest.raises(UserError, match=message):
        main(["average", "--output", "old.pt", "good.pt", f"{name}.pt"])
    assert files(tmp_path) == before
    assert not Path("payload").exists()


def test_interrupted_writing_leaves_the_old_file_alone(tmp_path):
    target = tmp_path / "result"
    target.write_text("old")
    with pytest.raises(KeyboardInterrupt), atomic_write(target) as file:
        file.write(b"half of the new")
        os.kill(os.getpid(), signal.SIGINT)  # as Ctrl-C does
        time.sleep(10)
    assert files(tmp_path) == {"result": b"old"}


def test_a_full_disk_leaves_the_old_file_alone(tmp_path):
    """A limit on the size of files stands in for the end of the disk.

    On the command line, as any fault, it is a message and status 1."""
    save(tmp_path / "a.pt", {"w": torch.ones(1_000_000)})
    (tmp_path / "old.pt").write_text("kept")
    before = files(tmp_path)
    limit = 1_000_000  # bytes, a quarter of the result
    done = subprocess.run(
        command("fairseq-hybrid", "average", "--output", "old.pt", "a.pt"),
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert done.returncode == 1
    assert "old.pt cannot be written" in done.stderr
    assert "Traceback" not in done.stderr
    assert files(tmp_path) == before


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A tiny model trained for 6 updates, with its data."""
    folder = tmp_path_factory.mktemp("trained")
    write_corpus(folder, hard_cases=False)
    binarise(folder)
    flags = ["--max-update", 6, "--save-interval-updates", 2, "--max-tokens", 100]
    train("bin", "model", "transformer_mma", *flags, "--disable-validation", cwd=folder)
    return folder


def test_fairseq_translates_and_trains_with_the_average(trained):
    arguments = ["--output", "avg.pt", "--last-updates", 3, "model"]
    done = run("fairseq-hybrid", "average", *arguments, cwd=trained)
    names = [f"model/checkpoint_1_{updates}.pt" for updates in (2, 4, 6)]
    assert done.stdout == (
        "averaging 3 checkpoints:\n"
        + "".join(f"  {name}\n" for name in names)
        + "written to avg.pt\n"
    )

    states = [torch.load(trained / name) for name in names]
    result = torch.load(trained / "avg.pt")
    assert list(result["model"]) == list(states[0]["model"])
    for name, weight in result["model"].items():
        inputs = numpy.stack([state["model"][name].numpy() for state in states])
        expected = inputs.astype("float64").mean(0)
        assert numpy.abs(weight.numpy() - expected).max() <= 1e-7 * numpy.abs(expected).max()
    assert not torch.equal(
        result["model"]["encoder.embed_tokens.weight"],
        states[2]["model"]["encoder.embed_tokens.weight"],
    )
    assert result["cfg"] == states[2]["cfg"]
    assert result["optimizer_history"][-1]["num_updates"] == 6

    generated = generate("bin", "avg.pt", cwd=trained)
    lines = generated.stdout.split("\n")
    assert sum(line.startswith("H-") for line in lines) == 20

    # The learning rate is zero, so the weights after an update are those it began with.
    tuned = ["--finetune-from-model", "avg.pt", "--max-update", 1, "--lr", 0]
    train("bin", "tuned", "transformer_mma", *tuned, "--disable-validation", cwd=trained)
    after = torch.load(trained / "tuned" / "checkpoint_last.pt")
    assert after["optimizer_history"][-1]["num_updates"] == 1
    for name, weight in result["model"].items():
        assert torch.equal(after["model"][name], weight), name
