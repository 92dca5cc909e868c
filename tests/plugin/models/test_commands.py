"""The real command lines, on text with awkward lines."""

import math
import re
import subprocess
import zipfile

import analysed
import numpy
import pytest
import torch
from cli import USER_DIR, generate, run, train
from fairseq import checkpoint_utils

from fairseq_hybrid_attn.patterns import PAST, local

SKIP = "--skip-invalid-size-inputs-valid-test"
HYPOTHESES = 19  # 20 sentences, one of them too long


def lines(done: subprocess.CompletedProcess, kind: str) -> dict[int, str]:
    """The last column of a kind of lines that fairseq prints (H, P), by sentence."""
    found = [line for line in done.stdout.splitlines() if line.startswith(f"{kind}-")]
    return {int(line[2 : line.index("\t")]): line.split("\t")[-1] for line in found}


<<<<<<< HEAD
def test_train_average_generate_score(trained, corpus, tmp_path):
    """From the checkpoint alone, without flags of the model."""
    settings = torch.load(trained.checkpoint, weights_only=True)["cfg"]["model"]
    assert settings["encoder_branches"] == "global,fw,bw,l5"  # it holds the defaults as well
    assert (settings["squeeze_ratio"], settings["encoder_embed_dim"]) == (4, 16)
    averaged = ["--last-updates", 2, "--output", "average.pt", trained.folder]
    run("fairseq-hybrid", "average", *averaged, cwd=tmp_path)
    generated = generate(corpus, "average.pt", SKIP, cwd=tmp_path)
    assert len(lines(generated, "H")) == HYPOTHESES

    (tmp_path / "generated.txt").write_text(generated.stdout)
    reference = corpus.parent / "test.en"
    flags = ["--generated", "generated.txt", "--reference", reference, "--missing", "empty"]
    flags += ["--subwords", "none", "--tokenizer", "none", "--target-lang", "en"]
    scored = run("fairseq-hybrid", "score", *flags, "--write", "score.json", cwd=tmp_path)
    assert "BLEU" in scored.stdout and "nrefs:1|case:mixed" in scored.stdout
    assert json.loads((tmp_path / "score.json").read_text())["sentences"] == 20


@pytest.mark.slow
@pytest.mark.parametrize(
    "arch, flags",
    {
        "transformer_hybrid_gate": [],
        "transformer_localness": [],
        "transformer_lstm_on_top": ["--encoder-lstm-layers", 1, "--decoder-lstm-layers", 2],
    }.items(),
)
def test_train_resume_generate(arch, flags, corpus, tmp_path):
    for updates in (2, 4):
        train(corpus, "model", arch, *flags, "--max-update", updates, cwd=tmp_path)
    checkpoint = tmp_path / "model" / "checkpoint_last.pt"
    state = torch.load(checkpoint, weights_only=True)
    assert state["optimizer_history"][-1]["num_updates"] == 4
    for flag, value in zip(flags[::2], flags[1::2], strict=True):
        assert state["cfg"]["model"][flag[2:].replace("-", "_")] == value
    generated = generate(corpus, checkpoint, SKIP, "--print-alignment", cwd=tmp_path)
    assert len(lines(generated, "H")) == HYPOTHESES


=======
>>>>>>> cutplugin
def test_a_new_process_computes_the_same_probabilities(trained, corpus, tmp_path, monkeypatch):
    """fairseq-generate scores the references as the model does here, from a checkpoint alone.

    The patterns of the second model are only in its settings.
    """
    settings = torch.load(trained, weights_only=True)["cfg"]["model"]
    assert settings["encoder_branches"] == "global,fw,bw,l5"  # it holds the defaults as well
    flags = [*analysed.TINY, "--head-patterns", "backward,local", "--local-window", "2"]
    monkeypatch.setitem(analysed.MODELS, "mma", ("transformer_mma", flags))
    analysed.save(corpus.parent, "mma")
    for checkpoint in (trained, corpus.parent / "mma.pt"):
        printed = lines(generate(corpus, checkpoint, SKIP, "--score-reference", cwd=tmp_path), "P")
        (model,), _, task = checkpoint_utils.load_model_ensemble_and_task([str(checkpoint)])
        model.eval()
        if checkpoint != trained:
            heads = (PAST, PAST, local(2), local(2))
            assert all(layer.self_attn.branches == (heads,) for layer in model.encoder.layers)
        text = (corpus.parent / "test.de").read_text().split("\n")
        words = task.source_dictionary
        assert len(printed) == HYPOTHESES
        for number, scores in printed.items():
            letters = [words.index(letter) for letter in text[number].split()]
            source, target = [*letters, words.eos()], [*letters[::-1], words.eos()]
            previous = torch.tensor([[words.eos(), *target[:-1]]])
            with torch.no_grad():
                logits = model(torch.tensor([source]), torch.tensor([len(source)]), previous)[0]
            # fairseq-generate prints logarithms to base 2.
            expected = logits.log_softmax(-1)[0, range(len(target)), target] / math.log(2)
            found = [float(score) for score in scores.split()]
            assert found == pytest.approx(expected.tolist(), abs=2e-4)


def test_interactive_from_the_checkpoint_alone(trained, corpus, tmp_path):
    """It translates each sentence alone as fairseq-generate does in batches."""
    beam = ("--beam", 3, "--max-len-a", 0, "--max-len-b", 12)
    expected = lines(generate(corpus, trained, SKIP, *beam, cwd=tmp_path), "H")
    numbers = [n for n in expected if n < 8]  # an empty line among them
    sources = (corpus.parent / "test.de").read_text().split("\n")
    interactive = run(
        *("fairseq-interactive", corpus, "--user-dir", USER_DIR, "--path", trained),
        *("--cpu", *beam, "-s", "de", "-t", "en"),
        cwd=tmp_path,
        stdin="".join(f"{sources[n]}\n" for n in numbers),
    )
    found = lines(interactive, "H")
    assert [found[i] for i in range(len(numbers))] == [expected[n] for n in numbers]


@pytest.mark.slow
def test_named_sizes_under_hydra(corpus, tmp_path):
    """fairseq-hydra-train builds the named size, and fairseq-generate reads its checkpoint; a
    setting without effect is refused."""
    (tmp_path / "small.yaml").write_text(f"""
common: {{user_dir: {USER_DIR}, cpu: true}}
task: {{_name: translation, data: {corpus}, max_source_positions: 40, max_target_positions: 40}}
model: {{_name: transformer_hysan_small, encoder_branches: "bw,l3"}}
criterion: {{_name: cross_entropy}}
optimizer: {{_name: adam}}
lr_scheduler: {{_name: fixed}}
optimization: {{max_update: 1, lr: [0.001]}}
dataset: {{max_tokens: 400, skip_invalid_size_inputs_valid_test: true}}
checkpoint: {{save_dir: {tmp_path}/model}}
""")
    flags = ["--config-dir", tmp_path, "--config-name", "small"]
    run("fairseq-hydra-train", *flags, cwd=tmp_path)
    checkpoint = tmp_path / "model" / "checkpoint_last.pt"
    (model,), cfg, _ = checkpoint_utils.load_model_ensemble_and_task([str(checkpoint)])
    assert len(model.encoder.layers) == 2
    assert model.encoder.embed_tokens.embedding_dim == 256
    assert len(model.encoder.layers[0].self_attn.branches) == 2
    generate(corpus, checkpoint, SKIP, "--beam", 2, cwd=tmp_path)
    typed = ("+model.branch_fusion=sum", "+model.squeeze_ratio=4")
    done = run("fairseq-hydra-train", *flags, *typed, cwd=tmp_path, expect=1)
    assert "--branch-fusion gated-sum" in done.stderr and "Traceback" not in done.stderr


def test_checkpoints_pass_between_numpy_1_and_2(tmp_path):
    """Each version names the function that makes an array after its own module."""
    array = {"array": numpy.arange(3), "number": numpy.float64(0.5)}
    torch.save(array, tmp_path / "this.pt")
    for core in ("numpy.core", "numpy._core"):
        other = tmp_path / f"{core}.pt"
        with zipfile.ZipFile(tmp_path / "this.pt") as old, zipfile.ZipFile(other, "w") as new:
            for entry in old.infolist():
                content = old.read(entry)
                new.writestr(entry.filename, re.sub(rb"numpy\._?core", core.encode(), content))
        loaded = torch.load(other, weights_only=True)
        assert loaded["array"].tolist() == [0, 1, 2] and loaded["number"] == 0.5


def test_wrong_flags_end_training_with_a_message(corpus, tmp_path):
    model = tmp_path / "model"
    model.mkdir()
    (model / "checkpoint_last.pt").write_text("kept")
    done = train(
        *(corpus, "model", "transformer_hysan"),
        *("--encoder-branches", "gobal,fw", "--decoder-branches", "bw"),
        cwd=tmp_path,
        expect=1,
    )
    for flag in ("--encoder-branches gobal,fw", "--decoder-branches bw"):
        assert flag in done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    assert [p.name for p in model.iterdir()] == ["checkpoint_last.pt"]
    assert (model / "checkpoint_last.pt").read_text() == "kept"
