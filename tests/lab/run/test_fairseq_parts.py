"""From what a user of fairseq has to a model's folder: checkpoint, data-bin, codes, tokeniser."""

import json
import random
import shutil

import pytest
import sentencepiece
from cli import TINY, TRAINING_FLAGS, generate, run, subword_nmt
from made_runs import read_lines, write_lines
from refusals import check_refusals

import fairseq_hybrid_attn
from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.commands.command_line import main
from fairseq_hybrid_attn.lab.models.trained import find_model
from fairseq_hybrid_attn.lab.run.fairseq_parts import check_fit, settings_of
from fairseq_hybrid_attn.lab.run.fine_tuning import settings_from

WORDS = {"hund": "dog", "katze": "cat", "haus": "house", "baum": "tree", "rot": "red", "alt": "old"}
STOCK = "--share-decoder-input-output-embed --clip-norm 0.1 --max-update 30".split()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A text of lower case, its codes, separate dictionaries, and fairseq's own Transformer."""
    folder = tmp_path_factory.mktemp("fairseq")
    choose = random.Random(0)
    (folder / "text").mkdir()
    for name, size in (("train", 200), ("valid", 20), ("test", 20)):
        lines = [choose.choices(list(WORDS), k=choose.randint(2, 6)) for _ in range(size)]
        write_lines(folder / f"text/{name}.de", [f"{' '.join(line)}." for line in lines])
        theirs = [" ".join(map(WORDS.get, line)) for line in lines]
        write_lines(folder / f"text/{name}.en", [f"{line}." for line in theirs])
    text = b"".join((folder / f"text/train.{side}").read_bytes() for side in ("de", "en"))
    (folder / "codes").write_bytes(subword_nmt("learn_bpe", "-s", 20, text=text))
    for path in (folder / "text").iterdir():
        words = path.read_bytes().replace(b".", b" .")
        split = subword_nmt("apply_bpe", "-c", folder / "codes", text=words)
        (folder / f"bpe.{path.name}").write_bytes(split)
    flags = ("--trainpref", "bpe.train", "--validpref", "bpe.valid", "--testpref", "bpe.test")
    pair = ("-s", "de", "-t", "en", "--destdir", "data-bin")
    run("fairseq-preprocess", *pair, *flags, cwd=folder)
    training = [word.replace("fused_", "") for word in (*TINY, *TRAINING_FLAGS, *STOCK)]
    model = ("--arch", "transformer_iwslt_de_en", "--save-dir", "stock")
    run("fairseq-train", "data-bin", *model, *training, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def exported(place):
    run("fairseq-hybrid", *export("--codes codes"), "--output", "baseline", cwd=place)
    return place / "baseline"


def export(flags: str, tokenizer="--tokenizer moses --lowercase") -> list[str]:
    command = f"export stock/checkpoint_best.pt --data data-bin {flags} {tokenizer}"
    return command.split()


def test_the_folder_translates_as_fairseq_does(place, exported):
    translator = fairseq_hybrid_attn.load(exported, device="cpu")
    found = translator.translate(read_lines(place / "text/test.de"))
    done = generate("data-bin", exported / "model.pt", "--beam", 5, cwd=place)
    lines = [line.split("\t") for line in done.stdout.splitlines() if line.startswith("H-")]
    theirs = dict((int(number[2:]), float(score)) for number, score, _ in lines)
    assert [one.score for (one,) in found] == pytest.approx([theirs[n] for n in sorted(theirs)])


def test_all_commands_take_the_folder(place, exported, monkeypatch):
    monkeypatch.chdir(place)
    main("maps baseline --sentence Hund. --write maps.html --device cpu".split())
    assert (place / "maps.html").is_file()
    main("prepare --like baseline --text text --output prepared".split())
    ours = read_lines(place / "prepared/subwords/train.de")
    assert ours == read_lines(place / "bpe.train.de")
    before = settings_from(find_model(exported))["train"]
    assert (before["clip-norm"], before["encoder-embed-dim"], before["lr"]) == (0.1, 16, 1e-4)
    main("train --text text --from baseline --dry-run --device cpu".split())


def test_other_kinds_of_codes(place, tmp_path, monkeypatch):
    """fastBPE's, those of each side, and sentencepiece."""
    monkeypatch.chdir(place)
    merges = read_lines(place / "codes")[1:]
    write_lines(place / "fast", [f"{merge} 9" for merge in merges])
    for name, flags in {"fast": "--codes fast", "two": "--codes codes codes"}.items():
        main([*export(flags), "--output", str(tmp_path / name)])
        split = find_model(tmp_path / name).preparation("en")
        assert list(map(split, read_lines(place / "text/test.en"))) == read_lines(
            place / "bpe.test.en"
        )
    flags = {"input": "text/train.de", "model_prefix": "piece", "vocab_size": 30}
    sentencepiece.SentencePieceTrainer.train(**flags, minloglevel=2, hard_vocab_limit=False)
    mistakes = {
        "--sentencepiece piece.model": "was not made by these",
        "--sentencepiece codes": "codes: this is no model of sentencepiece",
        "": "--codes or --sentencepiece",
    }
    output = ["--output", str(tmp_path / "new")]
    check_refusals(mistakes.items(), lambda flags: main([*export(flags), *output]))
    with pytest.raises(UserError, match="no capitals: give --lowercase"):
        main([*export("--codes codes", "--tokenizer moses"), *output])
    assert not (tmp_path / "new").exists() and not (tmp_path / "new.part").exists()


def test_given_rows_stand_beside_those_that_are_trained(place, exported):
    """Translations and a model; those of a run itself are scored as the run is."""
    compare = "compare --text text transformer_mma --seeds 2 --tokens 400 --save-every 2"
    train = ["fairseq-hybrid", *compare.split(), "--average", 2, "--device", "cpu"]
    flags = ["--", *TINY, "--decoder-embed-dim", 16, "--max-update", 4]
    run(*train, *flags, cwd=place)
    rows = place.glob("reproduction/runs/*/own/systems/*/bleu/seed*")
    own = sorted(str(row.relative_to(place) / "hypotheses.txt") for row in rows)
    given = ["--given", f"own={own[0]}", "--given", f"own={own[1]}", "--given", "stock=baseline"]
    given += ["--given", f"run={(place / own[0]).parent}"]
    more = ["--pairs", "--baseline", "stock", "--write", "table.json"]
    done = run(*train, *given, *more, *flags, cwd=place)
    assert "own (given)" in done.stdout and "BLEU - stock" in done.stdout
    table = json.loads((place / "table.json").read_text())
    numbers = {(one["row"], one["score"]): one for one in table["numbers"]}
    for score in ("bleu", "chrf", "ter"):
        trained, ours = numbers["transformer_mma", score], numbers["own", score]
        assert ours["state"] == "given" and trained["ours"] == ours["ours"]
        assert trained["difference"] == ours["difference"] is not None
    again, first = (numbers[row, "bleu"]["ours"]["by_seed"]["1"] for row in ("run", "own"))
    assert again == first
    pair = next(one for one in table["pairs"] if one["row"] == "own - transformer_mma")
    assert pair["difference"]["value"] == 0 and pair["difference"]["p"] == 1
    files = [f"--hypotheses=a={path}" for path in own]
    flags = "--reference text/test.en --target-lang en --write scores.json".split()
    run("fairseq-hybrid", "score", *files, *flags, cwd=place)
    scored = json.loads((place / "scores.json").read_text())["numbers"]
    assert [one["ours"] for one in scored] == [
        numbers["transformer_mma", one["score"]]["ours"] for one in scored
    ]


def test_another_architecture_begins_with_the_model(place, exported, monkeypatch, capsys):
    """It brings its own patterns and the model's sizes; what it lacks is named before the work."""
    monkeypatch.chdir(place)
    train = "train --text text --from baseline --output other --dry-run --device cpu".split()
    main([*train, "transformer_mma"])
    out = capsys.readouterr().out
    assert "head-patterns global,local,forward,backward (the model: none)" in out
    main(train)
    assert "head-patterns" not in capsys.readouterr().out
    mistakes = {
        "transformer_hybrid_gate": "layers.0.self_attn.fusion.gate.weight.*--new-weights",
        "transformer_mma -- --encoder-layers 3": "lacks encoder.layers.2",
        "transformer_hysan -- --branch-fusion concat --new-weights": "of another size .*out_proj",
    }
    check_refusals(mistakes.items(), lambda words: main([*train, *words.split()]))
    main([*train, "transformer_hybrid_gate", "--", "--new-weights"])


def test_what_cannot_be_given_is_refused_before_the_work(place, exported, monkeypatch):
    monkeypatch.chdir(place)
    (place / "short").write_text("dog .\n")
    shutil.copytree(exported, place / "broken")
    (place / "broken/model.pt").write_bytes((exported / "model.pt").read_bytes()[:3000])
    mistakes = {
        "--given a=short": "1 lines, but the test set has 20",
        "--given a=stock/checkpoint_best.pt": "fairseq-hybrid export stock/checkpoint_best.pt",
        "--given transformer_mma=text/test.en": "a system has this name",
        "--given a=text/test.en --baseline b": "--baseline b: there is no such row",
        "--given a=text/test.en --given a=text/test.en": "given twice",
        "--given a=broken": "broken/model.pt",
    }
    compare = "compare --text text transformer_mma --output other --dry-run --device cpu".split()
    check_refusals(mistakes.items(), lambda words: main([*compare, *words.split()]))
    assert not (place / "other/corpora").exists()


def test_a_checkpoint_alone_names_the_command(place, monkeypatch):
    monkeypatch.chdir(place)
    refused = {
        "translate stock/checkpoint_best.pt text/test.de": "fairseq-hybrid export stock",
        "train --text text --from stock/checkpoint_best.pt": "fairseq-hybrid export stock",
        "export stock/checkpoint_best.pt --output x": "--data",
        "translate stock text/test.de": "stock/checkpoint",
    }
    check_refusals(refused.items(), lambda words: main(words.split()))


def test_moses_words_are_not_taken_for_text(exported, tmp_path):
    shutil.copytree(exported, tmp_path / "copy")
    manifest = tmp_path / "copy/manifest.json"
    manifest.write_text(manifest.read_text().replace('"moses"', '"none"'))
    made = find_model(tmp_path / "copy")
    sides = [[made.preparation(side)("hund &apos;s .").split()] for side in made.languages]
    with pytest.raises(UserError, match="--tokenizer moses"):
        check_fit(made, tmp_path, sides)


def test_settings_are_those_that_were_chosen(place):
    found = settings_of(place / "stock/checkpoint_best.pt")
    chosen = found["train"]
    assert chosen["arch"] == "transformer_iwslt_de_en"
    assert "dropout" not in chosen and chosen["share-decoder-input-output-embed"] is True
    assert chosen["max-update"] == 30 and found["batch"]["tokens"] == 400
    shutil.rmtree(place / "reproduction", ignore_errors=True)
