"""Learning curves: logs as fairseq writes them, resumed and diverged ones, scores, figures."""

import json
import logging
import math

import pytest
from fairseq.logging import progress_bar
from refusals import check_command_refusals

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.commands.command_line import main
from fairseq_hybrid_attn.lab.run.training_log import last_record, parameters, read_log
from fairseq_hybrid_attn.lab.tables.curves import Curve, CurvePanel, curves_of_log, draw

NAN = math.nan
FAIRSEQ = "%(asctime)s | %(levelname)s | %(name)s | %(message)s"
HYDRA = "[%(asctime)s][%(name)s][%(levelname)s] - %(message)s"
TIME = "2024-01-02 03:04:05 | INFO |"
BEGUN = f"{TIME} fairseq.trainer | No existing checkpoint found m/x.pt"


def inner(updates, loss):
    values = json.dumps({"epoch": 1, "loss": str(loss), "ppl": "3", "num_updates": str(updates)})
    return f"{TIME} train_inner | {values}"


def valid(updates, loss, name="valid", **more):
    values = {"loss": loss, "num_updates": updates, **more}
    values = json.dumps({f"{name}_{key}": str(value) for key, value in values.items()})
    return f"{TIME} {name} | {values}"


def resumed(updates):
    text = f"Loaded checkpoint m/checkpoint_last.pt (epoch 3 @ {updates} updates)"
    return f"{TIME} fairseq.trainer | {text}"


def log(folder, *lines, name="train.log"):
    text = "".join(f"{line}\n" for line in lines)
    (folder / name).write_text(text, errors="surrogateescape")
    return folder / name


def losses(records):
    return {updates: values["loss"] for updates, values in records.items()}


@pytest.mark.parametrize(("form", "layout"), [("json", FAIRSEQ), ("simple", HYDRA)])
def test_logs_are_read_as_fairseq_writes_them(folder, form, layout):
    handler = logging.FileHandler("train.log")
    handler.setFormatter(logging.Formatter(layout))
    logger = logging.getLogger("fairseq.logging.progress_bar")
    before, logger.level = logger.level, logging.INFO
    logger.addHandler(handler)
    try:
        bar = progress_bar.progress_bar(range(30), form, log_interval=10, epoch=1)
        for number, _ in enumerate(bar):
            updates = number + 1
            stats = {"loss": 9 - updates / 10, "nll_loss": 5, "num_updates": updates, "lr": 1e-3}
            bar.log(stats, tag="train_inner", step=updates)
        for subset, loss in (("valid", 4.25), ("valid1", 3.5)):
            prefix = f"valid on '{subset}' subset"
            bar = progress_bar.progress_bar(range(2), form, 10, epoch=1, prefix=prefix)
            stats = {"loss": loss, "bleu": 12.5, "num_updates": 30}
            bar.print(stats, tag=subset, step=30)
        bar = progress_bar.progress_bar(range(2), form, 10, epoch=1)
        bar.print({"loss": 1, "num_updates": 30}, tag="train", step=30)
    finally:
        logger.removeHandler(handler)
        logger.level = before
        handler.close()
    found = read_log(folder / "train.log")
    assert losses(found.training) == {10: 8.0, 20: 7.0, 30: 6.0}
    assert found.training[20]["lr"] == 1e-3
    validation = {name: losses(records) for name, records in found.validation.items()}
    assert validation == {"valid": {30: 4.25}, "valid1": {30: 3.5}}
    assert found.validation["valid"][30]["bleu"] == 12.5


#: Lines of a log, and the losses in training and validation that count.
LOGS = {
    # The interrupted training's last checkpoint was that of update 100.
    "later records of a resumed training": (
        [BEGUN, inner(50, 9), inner(100, 8), valid(100, 7.5), inner(140, 7), inner(180, 6)]
        + [resumed(100), inner(150, 5), inner(200, 4), valid(200, 3.5)],
        ({50: 9, 100: 8, 150: 5, 200: 4}, {100: 7.5, 200: 3.5}),
    ),
    "a training that goes back without saying so": (
        [inner(50, 9), inner(100, 8), valid(100, 7.5), inner(150, 7), valid(150, 6)]
        + [inner(100, 4), valid(100, 3.5)],
        ({50: 9, 100: 4}, {100: 3.5}),
    ),
    "a training started over": (
        [inner(50, 9), inner(500, 9), valid(500, 8), BEGUN, inner(100, 7)],
        ({100: 7}, {}),
    ),
    "a second validation at the same update": (
        [inner(100, 8), valid(100, 7), inner(150, 6), valid(100, 5)],
        ({100: 8, 150: 6}, {100: 5}),
    ),
    "other lines, and lines cut off": (
        [inner(50, 9), inner(100, 8)[:-20], "Traceback …", '{"loss": 1}', "| train_inner | x"],
        ({50: 9}, {}),
    ),
    "a training that was killed within a character, and resumed": (
        [inner(50, 9), inner(100, 8), f"{TIME} x | hypothesis: \udce7\udc8c2024 | INFO | x"]
        + [resumed(50), inner(100, 7)],
        ({50: 9, 100: 7}, {}),
    ),
}


def test_the_records_that_count(folder):
    for what, (lines, expected) in LOGS.items():
        found = read_log(log(folder, *lines))
        validation = found.validation.get("valid", {})
        assert (losses(found.training), losses(validation)) == expected, what


def test_parameters_and_the_last_record(folder):
    """They are of the last start; an incomplete record does not count."""
    shared = f"{TIME} fairseq_cli.train | num. shared model params: "
    found = read_log(log(folder, inner("nan", 9), inner(60, 8)))
    assert losses(found.training) == {60: 8}
    lines = [f"{shared}1,000 (num. trained: 1,000)", inner(50, 9), f"{shared}12,345,678 (num. …)"]
    path = log(folder, *lines, inner(100, 8))
    assert parameters(path) == 12_345_678
    assert last_record(path)["num_updates"] == "100"
    path.write_bytes(path.read_bytes() + inner(150, 7)[:-9].encode())
    assert last_record(path)["num_updates"] == "100"
    path.write_text("".join(f"{inner(n, 5)}\n" for n in range(2000)))  # longer than what is read
    assert last_record(path)["num_updates"] == "1999"
    assert last_record(log(folder, BEGUN)) is None and last_record(folder / "none") is None
    with pytest.raises(UserError, match="train.log"):
        parameters(folder / "train.log")


def test_a_run_without_numbers_to_the_end_has_diverged(folder):
    def curves_of(*lines):
        return curves_of_log("a", read_log(log(folder, *lines)))

    lines = [inner(10, 5), inner(20, "inf"), inner(30, 4), valid(30, 3)]
    training, validation = curves_of(*lines, inner(40, "nan"), inner(50, "inf"), valid(50, "nan"))
    assert training.diverged == 40 and validation.diverged == 50
    assert training.best == (30, 4)
    assert training.as_dict()["values"] == [5, None, 4, None, None]
    (whole,) = curves_of(inner(10, 5), inner(20, "nan"), inner(30, 4))
    assert whole.diverged is None
    (lost,) = curves_of(inner(0, "nan"), inner(20, "nan"))
    assert lost.diverged == 0 and lost.best is None


def test_best_is_the_lowest_loss_and_error_rate_and_the_highest_score():
    for names, best in {
        "ter ter.news loss nll_loss valid_loss aer aer.head1": (1, 5),
        "bleu tokenised_bleu bleu.aerospace": (2, 9),
    }.items():
        for what in names.split():
            curve = Curve("a", what, "checkpoints", "", (1, 2, 3), (5.0, 9.0, 5.0))
            assert curve.best == best, what


def scores(folder, name, points, subset="valid"):
    curve = [
        {"updates": at, "scores": {n: {"value": v, "signature": f"{n}|x"} for n, v in of.items()}}
        for at, of in points.items()
    ]
    (folder / name).write_text(json.dumps({"curve": curve, "curve_set": subset}))


@pytest.fixture
def runs(folder):
    """Two runs: one with scored checkpoints, one with BLEU in its log that diverged."""
    first = [inner(50, 9), inner(100, 8), valid(100, 7.5, bleu=3), inner(150, 6), valid(150, 5)]
    log(folder, *first, valid(150, 1, "valid1"), name="a.log")
    log(folder, inner(50, 8), valid(50, 7, bleu=2), inner(100, "nan"), name="b.log")
    scores(folder, "a.json", {150: {"bleu": 20.5, "aer": 40}, 100: {"bleu": 10, "aer": 30}})
    return folder


RUNS = ["a=a.log", "a=a.json", "b b=b.log"]


def curves(*arguments, runs=RUNS):
    main(["curves", *runs, "--write", "out.json", *arguments])
    with open("out.json") as file:
        found = json.load(file)["curves"]
    return {(c["run"], c["what"], c["source"], c["subset"]): c for c in found}


def test_files_of_a_name_are_one_run(runs, capsys):
    found = curves("--write", "out.png")
    assert (runs / "out.png").read_bytes().startswith(b"\x89PNG")
    logged = "loss training train, loss validation valid, bleu validation valid".split(", ")
    scored = "loss validation valid1, bleu checkpoints valid, aer checkpoints valid".split(", ")
    expected = {"a": logged + scored, "b b": logged}
    assert set(found) == {(run, *one.split()) for run, ones in expected.items() for one in ones}
    scored = found["a", "bleu", "checkpoints", "valid"]
    assert (scored["updates"], scored["values"]) == ([100, 150], [10, 20.5])
    assert scored["signature"] == "bleu|x"
    assert found["b b", "loss", "training", "train"]["values"] == [8, None]
    said = capsys.readouterr().out
    assert "diverged" in said and "20.500 at 150" in said
    assert "1.000 at 150" not in said  # of a second validation set


def test_other_names_and_places_of_files(runs):
    before = curves()
    (runs / "run/logs").mkdir(parents=True)
    (runs / "a.log").rename(runs / "run/logs/train.log")
    (runs / "a.json").rename(runs / "run/curve.json")
    assert curves(runs=["a=run", RUNS[2]]) == before
    (runs / "b.log").rename(runs / "b.json")  # a log may be called anything
    with (runs / "b.json").open("ab") as file:
        file.write(b"| hypothesis: \xe7")  # a part of a character
    assert curves(runs=["a=run", "b b=b.json"]) == before


def test_mistakes_are_reported(runs, capsys):
    for name, text in {
        **{"empty.log": "", "other.log": "some text\n"},
        "other.json": '{"scores": {}}',
        "broken.json": '{"curve": [{"updates": 3, "scores": {"bleu": 7}}]}',
    }.items():
        (runs / name).write_text(text)
    mistakes = {
        "a=a.log a=a.log": "twice",
        "a=empty.log": "empty.log",
        "a=other.log": "--log-format json",
        "a=other.json": "other.json",
        "a=broken.json": "broken.json",
        "a=.": "not a run's folder",
        "a=a.log --panels aer": "loss, bleu",
    }
    check_command_refusals(mistakes.items(), "curves")
    (runs / "dropout=0.3").mkdir()
    for arguments in ("a.log", "a=", "dropout=0.3"):
        with pytest.raises(SystemExit):
            main(["curves", arguments])
        assert f"{arguments!r}: use NAME=PATH" in capsys.readouterr().err


def test_figure_shows_curves_gaps_and_where_a_run_diverged():
    panels = [
        CurvePanel("BLEU", [Curve("a", "bleu", "checkpoints", "", (100, 200), (5.0, 10.0))]),
        CurvePanel(
            "loss",
            [
                Curve("a", "loss", "training", "", (50, 100, 150), (9.0, NAN, 7.0)),
                Curve("b", "loss", "validation", "", (100, 200), (8.0, NAN), diverged=200),
            ],
        ),
    ]
    bleu, loss = draw(panels, "dark").axes
    shown = [line for line in loss.lines if len(line.get_xdata())]
    assert [list(line.get_xdata()) for line in shown] == [[50, 100, 150], [100, 200], [100]]
    assert list(shown[2].get_ydata()) == [8.0]
    assert bleu.lines[0].get_color() == shown[0].get_color() != shown[1].get_color()
    names = [text.get_text() for text in bleu.get_legend().get_texts()]
    assert names == ["a", "b (diverged at update 200)"]
