"""What would fail later is said before the training; what can go well does."""

import json
from contextlib import nullcontext

import pytest
from cli import run
from corpora_made import parts, sentences, skip_preprocess
from made_runs import MadeWorkspace, manifest

from fairseq_hybrid_attn import UserError
from fairseq_hybrid_attn.lab.commands.command_line import main
from fairseq_hybrid_attn.lab.run.checks import check_run
from fairseq_hybrid_attn.lab.run.devices import Devices

CPU = Devices("cpu")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A model that takes 1,024 tokens, with batches of 150."""
    return MadeWorkspace(tmp_path_factory.mktemp("made"))


@pytest.mark.parametrize(
    "longest, told",
    [
        ({"test.de": (1025, 7)}, "raw/test.de, line 7: 1,025 tokens, and the model takes 1,024"),
        ({"test.en": (1025, 3)}, "raw/test.en, line 3: .* --max-target-positions"),
        ({"valid.en": (2000, 1)}, "raw/valid.en, line 1: 2,000 tokens, and the model"),
        ({"valid.en": (151, 1)}, "a batch has 150; .* --tokens-per-device 151"),
        ({"train.de": (1000, 4)}, "raw/train.de, line 4: 1,000 tokens, and a batch has 150"),
        ({"train.de": (1025, 4), "test.de": (1024, 1), "valid.de": (150, 1)}, None),
    ],
)
def test_a_sentence_that_is_too_long_is_named(longest, told, made):
    """fairseq leaves such pairs out of the training, and fails where it needs all."""
    run = made.run("plain")
    run.corpus_folder.mkdir(parents=True, exist_ok=True)
    manifest(longest=longest).write(run.corpus_folder)
    with pytest.raises(UserError, match=told) if told else nullcontext():
        check_run(run, CPU)


def text(folder, valid):
    pairs = sentences(140)
    return parts(folder, train=pairs[:120], valid=pairs[120 : 120 + valid], test=pairs[130:])


def test_two_texts_of_one_folder_name_are_two_corpora(tmp_path, monkeypatch):
    """Else the second would take dictionaries and subwords from under the models of the first."""
    skip_preprocess(monkeypatch)
    monkeypatch.chdir(tmp_path)
    text(tmp_path / "a/text", 8)
    parts(tmp_path / "b/text")
    for folder, more in (("a/text", ()), ("b/text", ()), ("a/text", ("--source-lang", "en"))):
        words = ("--text", folder, *more, "--device", "cpu", "--prepare-only")
        main(["train", *words, "transformer_mma"])
    found = [
        json.loads(path.read_text())
        for path in (tmp_path / "reproduction/corpora").glob("own-*/manifest.json")
    ]
    sizes = sorted((each["source"], each["counts"]["train"]) for each in found)
    assert sizes == [("de", 40), ("de", 120), ("en", 120)]


def test_a_plan_refuses_files_of_unequal_length(tmp_path):
    folder = parts(tmp_path / "text")
    with open(folder / "valid.en", "a") as file:
        file.write("one more\n")
    words = ("train", "--text", str(folder), "--dry-run", "--device", "cpu", "transformer")
    with pytest.raises(UserError, match="valid.en has 11 lines"):
        main([*words, "--output", str(tmp_path / "out")])


def test_a_plan_refuses_flags_without_effect(tmp_path):
    words = ("compare", "--text", str(parts(tmp_path / "text")), "--dry-run", "--device", "cpu")
    words += ("--output", str(tmp_path / "out"), "transformer", "transformer_hysan")
    with pytest.raises(UserError, match="--squeeze-ratio 8: .*--branch-fusion gated-sum"):
        main([*words, "--", "--branch-fusion", "sum", "--squeeze-ratio", "8"])


@pytest.mark.slow
def test_few_validation_pairs_train_and_a_run_translates_wherever_it_is(tmp_path):
    """fairseq leaves out what is no multiple of eight sentences: all of five."""
    text(tmp_path / "text", 5)
    where = ("--text", "text", "--output", "out", "--device", "cpu", "--tokens", 500)
    sizes = ("--encoder-layers", 1, "--decoder-layers", 1, "--max-update", 4)
    done = run(
        "fairseq-hybrid", "train", *where, "transformer_mma", "--", *sizes, cwd=tmp_path
    ).stdout
    assert "prepared from text, de-en: train 120, valid 5, test 10 pairs given" in done
    [made] = (tmp_path / "out").glob("runs/*/own/systems/*/bleu/seed1")
    log = (made / "logs/train.log").read_text()
    assert '"valid_num_updates": "4"' in log
    made.rename(tmp_path / "moved")
    (tmp_path / "out").rename(tmp_path / "gone")
    words = ("translate", "moved", "text/test.de")
    translated = run("fairseq-hybrid", *words, cwd=tmp_path).stdout
    assert translated.splitlines() == (tmp_path / "moved/hypotheses.txt").read_text().splitlines()
