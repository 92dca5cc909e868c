"""Every architecture through the real command line, on text with awkward lines."""

import json
import math
import re
import subprocess
import sys
import zipfile

import numpy
import pytest
import torch
from cli import USER_DIR, binarise, environment, generate, run, train, write_corpus
from fairseq import checkpoint_utils

from fairseq_hybrid_attn.patterns import PAST, local

ARCHITECTURES = {
    "transformer_mma": [],
    "transformer_hysan": ["--squeeze-ratio", "4"],
    "transformer_hybrid_gate": [],
    "transformer_localness": [],
    "transformer_forward_encoding_mask": [],
    "transformer_backward_encoding_mask": [],
}
SKIP = "--skip-invalid-size-inputs-valid-test"


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    write_corpus(folder, hard_cases=True)
    return binarise(folder)


def paths_taken(done: subprocess.CompletedProcess) -> set[str]:
    (line,) = [li for li in done.stderr.splitlines() if "attention computed by path" in li]
    taken = line.split("by path: ")[1]
    return {count.split(" ")[0] for count in taken.split(", ")}


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_train_average_generate_score(arch, corpus, tmp_path):
    flags = [*ARCHITECTURES[arch], "--max-update", 4, "--save-interval-updates", 2]
    train(corpus, "model", arch, *flags, cwd=tmp_path)
    averaged = ["--last-updates", 2, "--output", "average.pt", "model"]
    run("fairseq-hybrid", "average", *averaged, cwd=tmp_path)

    # From the checkpoint alone: no architecture, no flag of the model.
    generated = generate(corpus, "average.pt", SKIP, cwd=tmp_path)
    translated = [line for line in generated.stdout.splitlines() if line.startswith("H-")]
    assert len(translated) == 19  # 20 sentences, one of them too long

    (tmp_path / "generated.txt").write_text(generated.stdout)
    reference = corpus.parent / "test.en"
    scored = run(
        "fairseq-hybrid",
        "score",
        *("--generated", "generated.txt", "--reference", reference, "--missing", "empty"),
        *("--subwords", "none", "--tokenizer", "none", "--target-lang", "en"),
        *("--json", "score.json"),
        cwd=tmp_path,
    )
    assert "BLEU" in scored.stdout and "nrefs:1|case:mixed" in scored.stdout
    assert json.loads((tmp_path / "score.json").read_text())["sentences"] == 20


def test_fast_paths_are_taken(corpus, tmp_path):
    arch, report = "transformer_hysan", {"FAIRSEQ_HYBRID_ATTN_REPORT": "1"}
    flags = [*ARCHITECTURES[arch], "--max-update", 2]
    trained = train(corpus, "model", arch, *flags, cwd=tmp_path, **report)
    assert paths_taken(trained) <= {"short", "grouped"}
    generated = generate(corpus, "model/checkpoint_last.pt", SKIP, cwd=tmp_path, **report)
    assert paths_taken(generated) <= {"short", "grouped", "step"}


@pytest.fixture(scope="session")
def hysan(corpus, tmp_path_factory):
    """A small HySAN checkpoint."""
    folder = tmp_path_factory.mktemp("hysan")
    train(corpus, "model", "transformer_hysan", "--max-update", 3, cwd=folder)
    return folder / "model" / "checkpoint_last.pt"


@pytest.fixture(scope="session")
def mma(corpus, tmp_path_factory):
    """A small MMA checkpoint, whose patterns are nowhere but in its settings."""
    folder = tmp_path_factory.mktemp("mma")
    flags = ["--head-patterns", "backward,local", "--local-window", 2]
    train(corpus, "model", "transformer_mma", *flags, "--max-update", 3, cwd=folder)
    return folder / "model" / "checkpoint_last.pt"


@pytest.mark.parametrize("name", ["hysan", "mma"])
def test_a_new_process_computes_the_same_probabilities(name, corpus, tmp_path, request):
    """fairseq-generate in a process of its own scores the references as the trained model
    does here, and does so with our attention."""
    checkpoint = request.getfixturevalue(name)
    scored = generate(
        *(corpus, checkpoint, SKIP, "--score-reference"),
        cwd=tmp_path,
        FAIRSEQ_HYBRID_ATTN_REPORT="1",
    )
    assert paths_taken(scored) <= {"short", "grouped"}
    printed = {}
    for line in scored.stdout.splitlines():
        if line.startswith("P-"):
            number, scores = line[2:].split("\t")
            printed[int(number)] = [float(score) for score in scores.split()]

    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task([str(checkpoint)])
    if name == "mma":
        heads = (PAST, PAST, local(2), local(2))
        assert all(layer.self_attn.branches == (heads,) for layer in model.encoder.layers)
    model.eval()
    letters = [line.split() for line in (corpus.parent / "test.de").read_text().split("\n")[:-1]]
    words = task.source_dictionary
    assert len(printed) == 19
    for number, scores in printed.items():
        source = [words.index(letter) for letter in letters[number]] + [words.eos()]
        target = [words.index(letter) for letter in letters[number][::-1]] + [words.eos()]
        previous = [words.eos(), *target[:-1]]
        with torch.no_grad():
            logits = model(
                torch.tensor([source]), torch.tensor([len(source)]), torch.tensor([previous])
            )[0]
        # fairseq-generate prints logarithms to base 2.
        expected = logits.log_softmax(-1)[0, range(len(target)), target] / math.log(2)
        assert scores == pytest.approx(expected.tolist(), abs=2e-4)


def test_validate_and_interactive_from_the_checkpoint_alone(hysan, corpus, tmp_path):
    common = ["--user-dir", USER_DIR, "--path", hysan, "--cpu"]
    validated = run(
        "fairseq-validate",
        *(corpus, *common, "--max-tokens", 400, SKIP, "--task", "translation"),
        cwd=tmp_path,
    )
    assert "valid on 'valid' subset | loss" in validated.stdout + validated.stderr
    interactive = run(
        *("fairseq-interactive", corpus, *common, "--source-lang", "de", "--target-lang", "en"),
        cwd=tmp_path,
        stdin="a b c\n\nd\n",
    )
    assert [line[:3] for line in interactive.stdout.splitlines() if line[:2] == "H-"] == [
        "H-0",
        "H-1",
        "H-2",
    ]


def train_under_hydra(corpus, branches, *, cwd, expect=0):
    (cwd / "config").mkdir()
    model = f'{{_name: transformer_hysan_small, encoder_branches: "{branches}"}}'
    config = f"""
common: {{user_dir: {USER_DIR}, cpu: true}}
task: {{_name: translation, data: {corpus}, max_source_positions: 40, max_target_positions: 40}}
model: {model}
criterion: {{_name: cross_entropy}}
optimizer: {{_name: adam}}
lr_scheduler: {{_name: fixed}}
optimization: {{max_update: 1, lr: [0.001]}}
dataset: {{max_tokens: 400, skip_invalid_size_inputs_valid_test: true}}
checkpoint: {{save_dir: {cwd}/model}}
"""
    (cwd / "config" / "small.yaml").write_text(config)
    arguments = ["--config-dir", "config", "--config-name", "small"]
    return run("fairseq-hydra-train", *arguments, cwd=cwd, expect=expect)


def test_named_sizes_under_hydra(corpus, tmp_path):
    """fairseq-hydra-train builds the named size, and the checkpoint serves generation."""
    train_under_hydra(corpus, "bw,l3", cwd=tmp_path)
    checkpoint = tmp_path / "model" / "checkpoint_last.pt"
    (model,), cfg, _ = checkpoint_utils.load_model_ensemble_and_task([str(checkpoint)])
    assert len(model.encoder.layers) == 2
    assert model.encoder.embed_tokens.embedding_dim == 256
    assert len(model.encoder.layers[0].self_attn.branches) == 2
    generate(corpus, checkpoint, SKIP, "--beam", 2, cwd=tmp_path)


def test_wrong_settings_under_hydra_end_with_a_message(corpus, tmp_path):
    done = train_under_hydra(corpus, "gobal,l0", cwd=tmp_path, expect=1)
    assert "'gobal' is not a pattern" in done.stderr and "'l0' has width 0" in done.stderr
    assert "Traceback" not in done.stderr + done.stdout


class RunsCode:
    """Pickled, it would make a file wherever it is loaded."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return open, (self.path, "w")


def test_a_checkpoint_that_would_run_code_is_not_loaded(hysan, corpus, tmp_path):
    state = torch.load(hysan, weights_only=True)
    torch.save({**state, "surprise": RunsCode(tmp_path / "ran")}, tmp_path / "bad.pt")
    done = generate(corpus, "bad.pt", SKIP, cwd=tmp_path, expect=1)
    assert "weights_only" in done.stderr.lower()
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("core", ["numpy.core", "numpy._core"])
def test_checkpoints_pass_between_numpy_1_and_2(core, tmp_path):
    """Each names the function that makes an array after its own module."""
    changed = tmp_path / "other-numpy.pt"
    array = {"array": numpy.arange(3), "number": numpy.float64(0.5)}
    torch.save(array, tmp_path / "this-numpy.pt")
    with zipfile.ZipFile(tmp_path / "this-numpy.pt") as old, zipfile.ZipFile(changed, "w") as new:
        for entry in old.infolist():
            content = old.read(entry)
            new.writestr(entry.filename, re.sub(rb"numpy\._?core", core.encode(), content))
    loaded = torch.load(changed, weights_only=True)
    assert loaded["array"].tolist() == [0, 1, 2] and loaded["number"] == 0.5


def test_a_checkpoint_holds_every_setting_of_a_named_size(hysan):
    """So that a later change of a default cannot change a trained model."""
    settings = torch.load(hysan, weights_only=True)["cfg"]["model"]
    assert settings["encoder_branches"] == "global,fw,bw,l5"
    assert settings["squeeze_ratio"] == 16
    assert settings["encoder_embed_dim"] == 16


@pytest.mark.parametrize("precision", ["--fp16", "--bf16"])
def test_half_precision_generation(precision, hysan, corpus, tmp_path):
    generated = generate(corpus, hysan, SKIP, precision, cwd=tmp_path)
    assert "nan" not in generated.stdout
    assert sum(line.startswith("H-") for line in generated.stdout.splitlines()) == 19


def test_wrong_flags_end_training_with_a_message(corpus, tmp_path):
    model = tmp_path / "model"
    model.mkdir()
    (model / "checkpoint_last.pt").write_text("kept")
    done = train(
        *(corpus, "model", "transformer_hysan"),
        *("--encoder-branches", "gobal", "--decoder-branches", "bw", "--squeeze-ratio", "7"),
        cwd=tmp_path,
        expect=1,
    )
    for flag in ("--encoder-branches gobal", "--decoder-branches bw", "--squeeze-ratio 7"):
        assert flag in done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    assert [p.name for p in model.iterdir()] == ["checkpoint_last.pt"]
    assert (model / "checkpoint_last.pt").read_text() == "kept"


@pytest.mark.parametrize(
    "source, said",
    [
        ("raise ImportError('No module named fairseq')", "cannot be imported"),
        ("raise ValueError('mutable default')", "mutable default"),
        (
            "class TransformerEncoderLayerBase:\n"
            "    def forward(self, x):\n"
            "        return self.fast(x) if self.can_use_fastpath else x\n",
            "bypasses custom attention",
        ),
    ],
)
def test_an_unfit_fairseq_is_refused_with_the_supported_versions(source, said, tmp_path):
    """The official 0.12.2 decides in its encoder layer whether to bypass ``self_attn``."""
    package = tmp_path / "fairseq" / "modules"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "transformer_layer.py").write_text(source)
    done = subprocess.run(
        [sys.executable, "-c", "import fairseq_hybrid_attn"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert said in done.stderr
    assert "ve-fairseq 0.12.3" in done.stderr
    assert "Traceback" not in done.stderr
