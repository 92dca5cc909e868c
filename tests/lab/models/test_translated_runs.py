"""A run that is trained here: translated, handed on, and trained on with other text."""

import filecmp
import json
import shutil

import pytest
import torch
from cli import run
from made_runs import read_lines, write_lines
from workspaces import write_text

import fairseq_hybrid_attn
from fairseq_hybrid_attn import UserError
from fairseq_hybrid_attn.lab.models.loading import load_model
from fairseq_hybrid_attn.lab.models.trained import find_model
from fairseq_hybrid_attn.lab.run.fine_tuning import check_dictionaries, settings_from
from fairseq_hybrid_attn.lab.scores.metrics import build_metric

pytestmark = pytest.mark.slow

SIZES = (
    "--encoder-layers 1 --decoder-layers 1 --encoder-embed-dim 32 --encoder-ffn-embed-dim 64 "
    "--encoder-attention-heads 4 --decoder-attention-heads 4 --share-all-embeddings"
).split()
FLAGS = [*SIZES, "--lr", "1e-2", "--lr-scheduler", "fixed"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A run on made-up text, and other text of the same languages with letters of its own."""
    folder = tmp_path_factory.mktemp("translated")
    write_text(folder / "text")
    sizes = ("--tokens", 300, "--save-every", 30, "--average", 2, "--device", "cpu")
    flags = ("--max-update", 200, "--dropout", 0.05)
    sizes += ("--profile", "full")
    train = ("fairseq-hybrid", "train", "--text", "text", "transformer_mma", *sizes)
    run(*train, "--", *FLAGS, *flags, cwd=folder)
    (made,) = folder.glob("reproduction/runs/full@text/own/systems/*/bleu/seed1")
    (folder / "run").symlink_to(made)
    (folder / "other").mkdir()
    for path in (folder / "text").iterdir():
        write_lines(folder / "other" / path.name, [f"x {line}" for line in read_lines(path)[:20]])
    return folder


@pytest.fixture(scope="module")
def exported(place):
    run("fairseq-hybrid", "export", "run", "--output", "model", cwd=place)
    return place / "model"


def test_translations_are_those_of_fairseq_generate(place):
    """The run's hypotheses were made by it, with the run's beam and length penalty."""
    done = run("fairseq-hybrid", "translate", place / "run", "text/test.de", cwd=place)
    hypotheses = read_lines(place / "run/hypotheses.txt")
    assert done.stdout.splitlines() == hypotheses
    assert len(set(hypotheses)) > 3
    generated = (place / "run/translation/generate-test.txt").read_text().splitlines()
    scores = dict(line.split("\t")[:2] for line in generated if line.startswith("H-"))
    found = fairseq_hybrid_attn.load(place / "run").translate(read_lines(place / "text/test.de"))
    for number, (best,) in enumerate(found):
        assert best.score == pytest.approx(float(scores[f"H-{number}"]), abs=1e-4)


def test_a_model_that_is_handed_on_needs_nothing_else(place, exported, tmp_path):
    moved = shutil.copytree(exported, tmp_path / "moved")
    text = read_lines(place / "text/test.de")
    translations = [best.text for (best,) in fairseq_hybrid_attn.load(moved).translate(text)]
    score = build_metric("bleu", "en").score(translations, read_lines(place / "text/test.en"))
    card = (moved / "README.md").read_text()
    result = json.loads((place / "run/result.json").read_text())
    assert f"| bleu | {result['scores']['bleu']['value']:.2f} |" in card
    assert score.value == pytest.approx(result["scores"]["bleu"]["value"], abs=1)  # rounded
    assert f"| {text[0]} | {read_lines(place / 'run/hypotheses.txt')[0]} |" in card
    assert str(place) not in "".join(path.read_text() for path in moved.glob("*.[jm][sd]*"))


def test_text_is_prepared_like_that_of_a_model(place, exported):
    words = ("prepare", "--like", "model", "--text", "other", "--output", "prepared")
    run("fairseq-hybrid", *words, cwd=place)
    for name in ("bin/dict.de.txt", "bin/dict.en.txt", "subwords/subwords.codes"):
        assert filecmp.cmp(place / "prepared" / name, exported / name, shallow=False)
    prepare = fairseq_hybrid_attn.load(exported).pieces
    raw, pieces = (read_lines(place / f"prepared/{part}/test.de") for part in ("raw", "subwords"))
    assert [" ".join(prepare(line)) for line in raw] == pieces


def test_a_training_goes_on_from_a_model(place, exported):
    """At a rate of almost zero, its weights are the model's, and so its scores."""
    sizes = ("--save-every", 2, "--average", 1, "--device", "cpu", "--keep-checkpoints")
    words = ("train", "--text", "other", "--from", "model", *sizes)
    done = run("fairseq-hybrid", *words, "--", "--max-update", 4, "--lr", "1e-8", cwd=place)
    assert "spaces before full stops" not in done.stdout + done.stderr
    (made,) = place.glob("reproduction/runs/from-model@other/own/systems/tr*/bleu/seed1")
    before, after = (torch.load(path / "model.pt")["model"] for path in (exported, made))
    assert before.keys() == after.keys()
    for name in before:
        torch.testing.assert_close(after[name].float(), before[name].float(), atol=1e-6, rtol=0)
    start = json.loads((made.parents[2] / "start/bleu/seed1/result.json").read_text())
    assert "model, as it is" in done.stdout and start["updates"] == 0
    result = json.loads((made / "result.json").read_text())
    assert start["scores"]["chrf"] == result["scores"]["chrf"]
    assert start["parameters"] == result["parameters"]
    last = torch.load(made / "checkpoints/checkpoint_last.pt")
    assert last["optimizer_history"][-1]["num_updates"] == 4
    flags = result["settings"]["train"]
    assert flags["encoder-embed-dim"] == 32 and flags["max-update"] == 4


def test_other_dictionaries_are_refused(place, exported):
    shutil.copytree(exported / "bin", place / "more")
    with open(place / "more/dict.de.txt", "a") as words:
        words.write("new 1\n")
    with pytest.raises(UserError, match="words are not those"):
        check_dictionaries(exported / "model.pt", place / "more", ("de", "en"))
    check_dictionaries(exported / "model.pt", exported / "bin", ("de", "en"))
    first, second, *rest = read_lines(exported / "bin/dict.de.txt")
    write_lines(place / "more/dict.de.txt", [second, first, *rest])  # as many words
    with pytest.raises(UserError, match="words are not those"):
        check_dictionaries(exported / "model.pt", place / "more", ("de", "en"))
    with pytest.raises(UserError, match=r"dict\.de\.txt has other words"):
        load_model(find_model(exported / "model.pt", place / "more"))
    with pytest.raises(UserError, match="fairseq-hybrid export"):
        alone = shutil.copy(exported / "model.pt", place / "alone.pt")
        settings_from(fairseq_hybrid_attn.load(alone, data=exported).trained)
