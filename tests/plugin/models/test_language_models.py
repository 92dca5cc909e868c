"""``transformer_lm_hysan`` and ``transformer_lm_mma``: fairseq's commands, fairseq's model."""

import math
import re

import pytest
import torch
from cli import TRAINING_FLAGS, USER_DIR, run, write_corpus
from fairseq import checkpoint_utils
from models import LANGUAGE_MODELS, PREFIXES, assert_all_close, build_language_model, gradients, pad

from fairseq_hybrid_attn.models import MMA
from fairseq_hybrid_attn.patterns import PAST, local_past

#: Settings with which a model is fairseq's ``transformer_lm``.
GLOBAL = {
    "transformer_lm_hysan": {"decoder_branches": "fw"},
    "transformer_lm_mma": {"head_patterns": "backward"},
}
TASK = ("--task", "language_modeling", "--sample-break-mode", "eos")
SIZE = (
    "--decoder-embed-dim 16 --decoder-ffn-embed-dim 32 --decoder-attention-heads 4 "
    "--decoder-layers 2 --tokens-per-sample 40"
).split()
FLAGS = (
    "--arch transformer_lm_mma --head-patterns local,backward --local-window 2 "
    "--share-decoder-input-output-embed"
).split()
PATTERNS = ((local_past(2), local_past(2), PAST, PAST),)


def common(folder):
    return ("--user-dir", USER_DIR, "--cpu", "--path", folder / "checkpoint_last.pt")


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """Sequences of letters, binarised for language modelling."""
    folder = tmp_path_factory.mktemp("text")
    write_corpus(folder, hard_cases=False)
    splits = [f"--{split}pref={split}.de" for split in ("train", "valid", "test")]
    run("fairseq-preprocess", "--only-source", *splits, "--destdir", "bin", cwd=folder)
    return folder


@pytest.fixture(scope="module")
def trained(text, tmp_path_factory):
    """A model of few updates, in another folder than that of its training."""
    folder = tmp_path_factory.mktemp("trained")
    flags = [*TASK, *SIZE, *TRAINING_FLAGS, *FLAGS, "--max-update", 30, "--lr", 0.02]
    flags += ["--user-dir", USER_DIR, "--save-dir", "model", "--no-epoch-checkpoints"]
    run("fairseq-train", text / "bin", *flags, cwd=folder)
    return (folder / "model").rename(folder / "moved")


def perplexity(printed: str) -> float:
    (found,) = re.findall(r"Perplexity: ([\d.]+)", printed)
    return float(found)


def test_perplexity_is_that_of_the_words_one_by_one(trained, text, tmp_path):
    """fairseq-eval-lm, from the checkpoint alone, against the model."""
    flags = [*TASK, "--gen-subset", "test", "--max-tokens", 200]
    done = run("fairseq-eval-lm", text / "bin", *common(trained), *flags, cwd=tmp_path)
    paths = [str(trained / "checkpoint_last.pt")]
    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task(
        paths, {"data": str(text / "bin")}
    )
    assert all(layer.self_attn.branches == PATTERNS for layer in model.eval().decoder.layers)
    words, logs = task.dictionary, []
    for line in (text / "test.de").read_text().splitlines():
        target = [words.index(word) for word in line.split()] + [words.eos()]
        logits = model(torch.tensor([[words.eos(), *target[:-1]]]))[0]
        logs += logits.log_softmax(-1)[0, range(len(target)), target].tolist()
    expected = math.exp(-sum(logs) / len(logs))
    assert perplexity(done.stdout + done.stderr) == pytest.approx(expected, abs=0.02)


def test_prompts_are_continued(trained, text, tmp_path):
    """By fairseq-interactive as by fairseq-generate, whose prompts are the first words of the
    test set; also by two models together, and with sampling."""
    lines = (text / "test.de").read_text().splitlines()[:4]
    task, limits = TASK[:2], ["--beam", 3, "--max-len-b", 30]
    done = run(
        *("fairseq-interactive", text / "bin", *common(trained), *task, *limits),
        cwd=tmp_path,
        stdin="".join(f"{line}\n" for line in lines),
    )
    hypotheses = re.findall(r"^H-\d+\t\S+\t(.*)$", done.stdout, re.MULTILINE)
    assert len(hypotheses) == 4
    assert all(found.startswith(line) for found, line in zip(hypotheses, lines, strict=True))
    path = trained / "checkpoint_last.pt"
    both = [*common(trained)[:-1], f"{path}:{path}"]
    flags = [*TASK, *limits, "--max-tokens", 200, "--required-batch-size-multiple", 1]
    again = run("fairseq-generate", text / "bin", *both, *flags, cwd=tmp_path)
    found = dict(re.findall(r"^H-(\d+)\t\S+\t(.*)$", again.stdout, re.MULTILINE))
    assert len(found) == 20 and [found[str(number)] for number in range(4)] == hypotheses


@pytest.mark.parametrize("arch", LANGUAGE_MODELS)
def test_the_past_alone_is_fairseqs_language_model(arch, double_softmax):
    """Outputs and gradients with its weights, whatever its embeddings."""
    cutoffs = {"adaptive_softmax_cutoff": "6,10", "adaptive_input_cutoff": "6,10"}
    for settings in (
        {},
        {"decoder_normalize_before": True, "share_decoder_input_output_embed": True},
        {"decoder_input_dim": 8, "decoder_learned_pos": True, "layernorm_embedding": True},
        {"adaptive_input": True, "tie_adaptive_weights": True, **cutoffs},
        {"character_embeddings": True, "no_token_positional_embeddings": True},
        {"max_target_positions": None},
    ):
        stock = build_language_model("transformer_lm", **settings)
        ours = build_language_model(arch, **settings, **GLOBAL[arch])
        ours.load_state_dict(stock.state_dict())
        results = []
        for model in (stock.double(), ours.double()):
            output = model.extract_features(pad(PREFIXES, 1, left=False), encoder_out=None)[0]
            torch.tanh(output).pow(2).sum().backward()
            results.append({"output": output, **gradients(model)})
            assert model.max_positions() == 64
        none = {name for name, gradient in results[0].items() if gradient is None}
        assert none == {name for name, gradient in results[1].items() if gradient is None}
        kept = [{k: v for k, v in result.items() if k not in none} for result in results]
        assert_all_close(kept[1], kept[0], rtol=0, atol=1e-10)


def test_any_class_loads_it(trained, text):
    loaded = MMA.from_pretrained(trained, "checkpoint_last.pt", str(text / "bin"))
    assert loaded.sample("a b c", max_len_b=20).startswith("a b c")
    assert 1 < 2 ** -loaded.score("a b c")["positional_scores"].mean() < 10**6
