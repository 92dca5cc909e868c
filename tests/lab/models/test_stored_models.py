"""The models in ``models/`` translate as their cards say, by the command and in Python."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from cli import USER_DIR, command, environment, run

import fairseq_hybrid_attn
from fairseq_hybrid_attn import UserError
from fairseq_hybrid_attn.lab.commands import translate
from fairseq_hybrid_attn.lab.commands.command_line import main
from fairseq_hybrid_attn.lab.corpora.definition import load_corpus
from fairseq_hybrid_attn.lab.corpora.words import split_words
from fairseq_hybrid_attn.lab.files.yaml_files import CONFIGS
from fairseq_hybrid_attn.lab.models.sentences import Sentences
from fairseq_hybrid_attn.lab.models.trained import corpus_like, find_model
from fairseq_hybrid_attn.lab.run.exporting import EXAMPLES_HEAD
from fairseq_hybrid_attn.lab.run.fairseq_commands import generate_command

MODELS = sorted(path for path in (Path(USER_DIR).parent / "models").iterdir() if path.is_dir())
FIRST, HYSAN = MODELS[1], MODELS[0]
LINE = "zwei hunde spielen im schnee ."


def examples(model: Path) -> dict[str, str]:
    """The translations on a model's card."""
    _, _, table = (model / "README.md").read_text().partition(EXAMPLES_HEAD)
    rows = [row.strip("| ").split(" | ") for row in table.split("\n\n")[0].split("\n")[2:]]
    return dict(rows)


@pytest.fixture(scope="module")
def translator():
    return fairseq_hybrid_attn.load(FIRST, device="cpu")


@pytest.mark.parametrize("model", MODELS, ids=lambda path: path.name)
def test_a_stored_model_translates_as_its_card_says(model):
    """A change of code that breaks old checkpoints is seen."""
    expected = examples(model)
    assert len(expected) == 3
    found = fairseq_hybrid_attn.load(model, device="cpu").translate(list(expected))
    assert [best.text for (best,) in found] == list(expected.values())
    assert (model / "model.pt").stat().st_size < 7e6
    cfg = torch.load(model / "model.pt", weights_only=True)["cfg"]
    assert "'/" not in str(cfg)  # no paths of where it was made


def test_lines_in_lines_out():
    lines = [*examples(FIRST), "", LINE]
    text = "\n".join(lines)  # the last line has no end
    flags = ("--nbest", "2", "--scores", "--alignments", "--device", "cpu")
    done = run("fairseq-hybrid", "translate", FIRST, *flags, cwd=Path.cwd(), stdin=text)
    rows = [row.split("\t") for row in done.stdout.split("\n")]
    assert len(rows) == 2 * len(lines) + 1 and rows[-1] == [""]
    assert rows[6:8] == [[""] * 5] * 2  # as many columns as the others
    best = [row[1] for row in rows[0:6:2]]
    assert best == list(examples(FIRST).values())
    for row, line in zip(rows[:6:2], lines, strict=False):
        _, translation, source, tokens, links = row
        assert (source, tokens) == (line, translation)  # this text is given in tokens
        pairs = [tuple(map(int, link.split("-"))) for link in links.split()]
        assert [target for _, target in pairs] == list(range(len(tokens.split())))
        assert {source for source, _ in pairs} <= set(range(len(line.split())))
    for first, second in zip(rows[:6:2], rows[1:6:2], strict=True):
        assert float(first[0]) >= float(second[0])


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Zwei Hunde spielen im Schnee.", "zwei hunde spielen im schnee ."),
        ('Ein "Hund", so groß & alt.', "ein &quot; hund &quot; , so groß &amp; alt ."),
    ],
)
def test_text_and_its_tokens_are_the_same_to_a_model_of_given_tokens(translator, text, tokens):
    assert translator.pieces(text) == translator.pieces(tokens)
    ((one,),) = translator.translate([text])
    assert " ".join(one.source) == tokens


def test_a_terminal_is_answered_line_by_line(monkeypatch, capsys):
    read, lines = [], [*examples(FIRST)][:2]

    def typed():
        for line in lines:
            read.append(capsys.readouterr().out)  # what is printed when the next line is asked for
            yield f"{line}\n".encode()
        read.append(capsys.readouterr().out)

    terminal = SimpleNamespace(isatty=lambda: True, buffer=typed())
    monkeypatch.setattr(sys, "stdin", terminal)
    main(["translate", str(FIRST), "--device", "cpu"])
    assert read[1:3] == [f"{translation}\n" for translation in [*examples(FIRST).values()][:2]]


def test_a_broken_pipe_ends_quietly(tmp_path):
    (tmp_path / "text").write_text(f"{LINE}\n" * 200)
    words = command("fairseq-hybrid", "translate", FIRST, tmp_path / "text", "--device", "cpu")
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_a_line_that_is_too_long_costs_no_other(tmp_path, capsys, translator):
    lines = [LINE, "hund " * 1100, "", "zwei hunde ."]
    (tmp_path / "text").write_text("\n".join(lines))
    with pytest.raises(UserError, match="1 of 4 lines"):
        main(["translate", str(FIRST), str(tmp_path / "text"), "--device", "cpu"])
    printed = capsys.readouterr()
    (one,), (two,) = translator.translate([lines[0], lines[3]])
    assert printed.out == f"{one.text}\n\n\n{two.text}\n"
    assert "line 2 has 1,100 subwords, and the model takes 1,023" in printed.err
    with pytest.raises(UserError, match="line 2 has 1,100 subwords"):
        translator.translate(lines)


def test_attention_of_a_head(translator):
    pieces = translator.pieces(LINE)
    ((best,),) = translator.translate([LINE])
    for kind in ("encoder", "cross", "decoder"):
        found = translator.attention(LINE, kind=kind, layer=2, head=3)
        forced = translator.attention(LINE, best.text, kind=kind, layer=2, head=3)
        np.testing.assert_allclose(found, forced, atol=1e-5)  # its own translation, by default
        np.testing.assert_allclose(found.sum(-1), 1, atol=1e-4)
        queries = len(pieces) + 1 if kind == "encoder" else len(found)
        keys = queries if kind == "decoder" else len(pieces) + 1
        assert found.shape == (queries, keys)
    hysan = fairseq_hybrid_attn.load(HYSAN, device="cpu")
    by_name, by_number, another = (
        hysan.attention(LINE, kind="encoder", branch=branch) for branch in ("l5", 4, 3)
    )
    assert (by_name == by_number).all() and (by_name != another).any()
    with pytest.raises(UserError, match=r"branch l5, .*the branches 1 \(global\)$"):
        hysan.attention(LINE, kind="cross", branch="l5")
    for wrong in ({"layer": 9}, {"head": 9}, {"branch": 2}, {"kind": "own"}):
        with pytest.raises(UserError, match=next(iter(wrong))):
            translator.attention(LINE, **wrong)


def test_lines_with_unknown_words_are_named(tmp_path, capsys):
    (tmp_path / "text").write_text("\n".join([LINE, LINE, "猫 .", LINE]))
    main(["translate", str(FIRST), str(tmp_path / "text"), "--device", "cpu"])
    assert "1 of 4 lines have subwords" in (told := capsys.readouterr().err) and ": 3\n" in told
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(translate, "MANY", {"cpu": 2})
        main(["translate", str(FIRST), str(tmp_path / "text"), "--device", "cpu"])
    assert "1 of 2 lines have subwords" in (told := capsys.readouterr().err) and ": 3\n" in told


def test_the_search_is_that_of_the_flags(translator):
    for search in ({}, {"beam": 2}):  # the beam is no smaller
        (wide,) = translator.translate([LINE], nbest=6, **search)
        assert len(wide) == 6 and len({one.text for one in wide}) > 1
    assert [one.score for one in wide] == sorted((one.score for one in wide), reverse=True)
    ((plain,),) = translator.translate([LINE], beam=1, lenpen=0)
    ((gnmt,),) = translator.translate([LINE], beam=1, gnmt_lenpen=1)
    length = len(translator.pieces(plain.text, target=True)) + 1
    assert gnmt.text == plain.text  # a beam of one has nothing to rank
    assert gnmt.score == pytest.approx(plain.score / ((5 + length) / 6), abs=1e-4)
    for wrong in ({"nbest": 0}, {"lenpen": 1.0, "gnmt_lenpen": 1.0}, {"lenpen": float("nan")}):
        with pytest.raises(UserError):
            translator.translate([LINE], **wrong)


def test_escapes_of_given_tokens_are_undone(translator):
    words = translator.task.target_dictionary
    tokens = torch.tensor([words.index(piece) for piece in ("a", "&quot;", "dog")] + [words.eos()])
    assert words.unk() not in tokens
    one = translator._translation(["ein"], {"tokens": tokens, "score": 0.0, "attention": None})
    assert (one.text, one.tokens) == ('a " dog', ("a", "&quot;", "dog"))


def test_lines_in_any_batch_are_translated_as_alone(translator, monkeypatch):
    """Also where memory is too small for a batch, as on a GPU that is half full."""
    lines = [*examples(FIRST), LINE, "hund", "", "zwei männer in roten jacken ."]
    alone = [translator.translate([line], nbest=3) for line in lines]
    infer, sizes = translator.task.inference_step, []

    def small(generator, models, sample):
        sizes.append(len(sample["id"]))
        if sizes[-1] > 2:
            raise torch.OutOfMemoryError
        return infer(generator, models, sample)

    for step in (infer, small):
        monkeypatch.setattr(translator.task, "inference_step", step)
        together = translator.translate(lines, nbest=3)
        for (one,), other in zip(alone, together, strict=True):
            assert [best.text for best in one] == [best.text for best in other]
            scores = [best.score for best in other]
            assert [best.score for best in one] == pytest.approx(scores, abs=1e-4)
    assert max(sizes) > 2 and sizes[-1] <= 2


def test_a_text_is_not_a_list_of_lines(translator):
    with pytest.raises(TypeError, match="a list of lines"):
        translator.translate(LINE)


def test_lines_of_white_space_are_empty(translator):
    """Whatever the white space; fairseq's own search makes words of it."""
    lines = ["", "  ", "\t", "\u00a0", "\u3000 \u2028", "\x1f"]
    assert translator.translate([*lines, LINE])[:-1] == [[]] * len(lines)
    sentences = Sentences.of_text(translator.task, lines, lines)  # as of a file in subwords
    assert sentences.source == sentences.target == [[]] * len(lines)
    assert split_words("a \u3000 b") == ["a", "\u3000", "b"]  # beside others it is a word


def test_what_is_no_model_or_another(tmp_path):
    load = fairseq_hybrid_attn.load
    with pytest.raises(UserError, match="no such file or folder"):
        load(tmp_path / "none")
    with pytest.raises(UserError, match=r"has no model\.pt"):
        load(tmp_path)
    with pytest.raises(UserError, match="--data DIR"):
        load(shutil.copy(FIRST / "model.pt", tmp_path))
    assert load(tmp_path / "model.pt", data=FIRST, device="cpu").translate([LINE])
    other = Path(shutil.copytree(FIRST, tmp_path / "other"))
    words = (other / "bin/dict.de.txt").read_text().split("\n")
    words[:2] = reversed(words[:2])  # as many words, in another order
    (other / "bin/dict.de.txt").write_text("\n".join(words))
    with pytest.raises(UserError, match="manifest.json"):
        load(other)


def test_paths_that_fairseq_would_split_are_refused(tmp_path):
    place = shutil.copytree(FIRST, tmp_path / "10:30")
    for path, data in ((place, None), (FIRST / "model.pt", place)):
        with pytest.raises(UserError, match="10:30"):
            fairseq_hybrid_attn.load(path, data=data)
    with pytest.raises(UserError, match="10:30"):
        generate_command(FIRST / "bin", place / "model.pt", "test", tmp_path, on_cpu=True)


def test_text_for_a_model_of_tokens_is_noted(tmp_path, capsys):
    for name in ("x.de", "x.en"):
        (tmp_path / name).write_text("hund .\n")
    like = corpus_like(find_model(FIRST), load_corpus("own", CONFIGS), tmp_path)
    assert like.tokenizer == {"de": "given", "en": "given"}
    assert capsys.readouterr().err


def test_maps_of_a_typed_sentence(tmp_path, translator, capsys):
    written = ["--write", str(tmp_path / "maps.json"), "--write", str(tmp_path / "maps.html")]
    main(["maps", str(FIRST), "--sentence", LINE, *written, "--device", "cpu"])
    assert str(tmp_path / "maps.html") in capsys.readouterr().out
    (model,) = json.loads((tmp_path / "maps.json").read_text())["models"]
    (sentence,) = model["sentences"]
    ((best,),) = translator.translate([LINE])
    assert (model["name"], sentence["source"]) == (FIRST.name, LINE.split())
    assert sentence["target"] == list(best.tokens)
