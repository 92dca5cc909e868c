"""Checkpoints that others made: none runs code, in fairseq's own loading as in ours."""

import argparse
import ast
import contextlib
import os
import pickle
import sys
from pathlib import Path

import fairseq
import pytest
import torch
from cli import generate, run
from fairseq import checkpoint_utils, options
from fairseq.criterions import CRITERION_DATACLASS_REGISTRY
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_NAME_REGISTRY, MODEL_DATACLASS_REGISTRY
from omegaconf import OmegaConf

from fairseq_hybrid_attn import UserError, checkpoints, models  # noqa: F401  which guards fairseq
from fairseq_hybrid_attn.checkpoints import EVALUATED, plain_value

MAKES_A_FILE = "__import__('pathlib').Path('ran').touch() or 1"


class RunsCode:
    """When unpickled, it makes a file."""

    def __reduce__(self):
        return open, ("ran", "w")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A new folder with dictionaries."""
    monkeypatch.chdir(tmp_path)
    words = Dictionary()
    words.add_symbol("word")
    Path("data").mkdir()
    for name in ("dict.txt", "dict.de.txt", "dict.en.txt", "dict.ltr.txt"):
        words.save(f"data/{name}")


def flat(arch: str, task: str) -> dict:
    """All settings with their defaults, as ``args`` of an older checkpoint."""
    parser = options.get_training_parser(default_task=task)
    settings = vars(options.parse_args_and_arch(parser, ["data", "--task", task, "--arch", arch]))
    plain = (str, int, float, bool, list, type(None))
    return {name: x if type(x) in plain else str(x) for name, x in settings.items()}


def checkpoint(**settings) -> dict:
    history = [{"num_updates": 1, "optimizer_name": "adam", "lr_scheduler_state": {}}]
    state = {"model": {"w": torch.zeros(1)}, "optimizer_history": history}
    return {**state, "extra_state": {"train_iterator": {"epoch": 1}}, **settings}


#: Settings that reach ``eval`` under another name.
INDIRECT = {"encoder_xformers_att_config", "decoder_xformers_att_config"}
#: By architecture: a setting that fairseq evaluates, and a task.
ISSUES = {
    "lstm": ("decoder_attention", "translation"),
    "fconv": ("encoder_layers", "translation"),
    "fconv_lm": ("decoder_layers", "language_modeling"),
    "transformer": ("adaptive_softmax_cutoff", "translation"),
    "multilingual_transformer": ("left_pad_source", "multilingual_translation"),
}


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("arch", ISSUES)
def test_an_evaluated_setting_is_not_run(arch, known, monkeypatch):
    """By its name, which the message has, and by what takes the place of ``eval``."""
    name, task = ISSUES[arch]
    if not known:
        monkeypatch.setattr(checkpoints, "EVALUATED", frozenset())
    settings = flat(arch, task) | {name: MAKES_A_FILE, "lang_pairs": "de-en"}
    settings |= {"source_lang": "de", "target_lang": "en"}
    torch.save(checkpoint(args=argparse.Namespace(**settings), cfg=None), "model.pt")
    with pytest.raises(UserError, match="is not a plain value") as refused, torch.device("meta"):
        checkpoint_utils.load_model_ensemble_and_task(["model.pt"])
    assert not Path("ran").exists()
    assert (f"model.pt is refused, in its setting {name}" in str(refused.value)) is known


def test_a_pickle_is_not_run():
    torch.save(checkpoint(surprise=RunsCode()), "pickle.pt")
    named = f"{open.__module__}.open"  # io or _io, by the version of Python
    with pytest.raises(UserError, match=f"it refers to {named}, which might run code"):
        checkpoint_utils.load_checkpoint_to_cpu("pickle.pt")
    assert not Path("ran").exists()


def test_fairseq_cannot_ask_torch_to_run_a_pickle():
    """As its main branch does in its loading."""
    torch.save(RunsCode(), "pickle.pt")
    with pytest.raises(pickle.UnpicklingError):
        checkpoint_utils.torch.load("pickle.pt", weights_only=False)
    assert not Path("ran").exists() and checkpoint_utils.torch.zeros is torch.zeros


def test_no_command_runs_a_setting(trained, corpus, tmp_path):
    state = torch.load(trained, weights_only=True)
    state["cfg"]["model"]["adaptive_softmax_cutoff"] = f"[{MAKES_A_FILE}]"
    torch.save(state, "bad.pt")
    told = "bad.pt is refused, in its setting adaptive_softmax_cutoff"
    done = generate(corpus, "bad.pt", cwd=tmp_path, expect=1)
    assert told in done.stderr and "Traceback" not in done.stderr
    for command in (
        ("average", "--output", "average.pt", "bad.pt", trained),
        ("heads", "bad.pt", "--data", corpus, "--subwords", "none", "--write", "o.json"),
    ):
        done = run("fairseq-hybrid", *command, cwd=tmp_path, expect=1)
        assert told in done.stderr
    assert not any(Path(name).exists() for name in ("ran", "average.pt", "o.json"))


def test_text_that_fairseq_reads_by_a_shell_is_refused():
    """The name of the file, which holds the checkpoint's languages, is part of a command."""
    cfg = {"model": {}, "task": {}, "dataset": {"dataset_impl": "fasta"}}
    torch.save(checkpoint(args=None, cfg=cfg), "model.pt")
    with pytest.raises(UserError, match="model.pt is refused: .* dataset_impl=fasta"):
        checkpoint_utils.load_checkpoint_to_cpu("model.pt")


def test_fairseq_names_a_damaged_file(trained):
    good = Path(trained).read_bytes()
    state = torch.load(trained, weights_only=True)
    name = "encoder.layers.0.fc1.weight"
    weight = state["model"][name]
    at = good.index(weight.numpy().tobytes())
    Path("bit.pt").write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
    Path("cut.pt").write_bytes(good[:1000])
    Path("pickle.pt").write_bytes(pickle.dumps(os.getcwd))  # torch advises to load it unsafely
    weight.fill_(torch.nan)
    torch.save(state, "nan.pt")
    for file, told in {
        "bit.pt": "bit.pt is damaged: .* does not have its checksum",
        "cut.pt": "cut.pt cannot be loaded as a checkpoint: the file is damaged or of another",
        "pickle.pt": r"of another kind \(UnpicklingError: Unsupported operand \d+\)$",
        "nan.pt": f"nan.pt: its weight {name} has numbers that are infinite or NaN",
    }.items():
        with pytest.raises(UserError, match=told):
            checkpoint_utils.load_checkpoint_to_cpu(file)
    with pytest.raises(FileNotFoundError):
        checkpoint_utils.load_checkpoint_to_cpu("missing.pt")


NEVER_CALLED = ("exec", "__import__", "builtins.eval", "os.system", "os.popen")


def test_every_eval_of_fairseq_is_replaced():
    """In every module outside its examples; and all that they evaluate are known settings.

    Nor does any load a pickle by other rules than torch's, or use a shell but for fasta.
    """
    evaluating = ("eval", "eval_str_list", "eval_str_dict", "eval_bool")
    evaluated = set()
    root = Path(fairseq.__file__).parent
    for file in set(root.rglob("*.py")) - set(root.glob("examples/**/*.py")):
        name = ".".join(("fairseq", *file.relative_to(root).with_suffix("").parts))
        tree = ast.parse(file.read_text())
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            called, given = ast.unparse(call.func), {keyword.arg for keyword in call.keywords}
            assert called not in NEVER_CALLED, (name, call.lineno)
            safe = name == "fairseq.checkpoint_utils"  # which has our torch, see the next test
            assert safe or "weights_only" not in given, (name, call.lineno)
            assert "shell" not in given or "fasta" in name, (name, call.lineno)
            if called == "eval":
                assert sys.modules[name].eval is plain_value, (name, call.lineno)
            if called.removeprefix("utils.").removeprefix("options.") in evaluating:
                evaluated.add(ast.unparse(call.args[0]).rpartition(".")[2])
    # Arguments of the functions themselves and of a flag, and a line of a data file.
    assert evaluated - {"x", "uf", "strip()"} == EVALUATED - INDIRECT


def test_every_default_that_fairseq_evaluates_is_accepted():
    """With the value that Python gives it."""
    defaults = {name: set() for name in EVALUATED}
    for arch in ARCH_MODEL_NAME_REGISTRY:
        args = argparse.Namespace()
        with contextlib.suppress(Exception):
            ARCH_CONFIG_REGISTRY[arch](args)
        for name, value in vars(args).items():
            defaults.get(name, set()).add(str(value))
    for dataclass in (*MODEL_DATACLASS_REGISTRY.values(), *CRITERION_DATACLASS_REGISTRY.values()):
        settings = OmegaConf.to_container(OmegaConf.structured(dataclass or {}))
        for name, value in settings.items():
            if isinstance(value, str) and value and "${" not in value:
                defaults.get(name, set()).add(value)
    texts = set().union(*defaults.values()) - {""}
    assert len(texts) > 20
    for text in texts:
        assert plain_value(text) == eval(text), text


def test_arithmetic_of_a_user_is_accepted():
    """In the flags of fairseq's own models and optimizers."""
    for text in ("1/3", "+1e-3", "10**-4*3", "(0.9, 1 - 2**-9)", "[2**10]*2", "-2**4"):
        assert plain_value(text) == eval(text), text
    assert options.eval_str_list("2**-11, 1/3") == [2**-11, 1 / 3]


def test_minus_infinity_is_a_mask():
    mask = torch.zeros(3, 3).masked_fill(torch.ones(3, 3).triu(1).bool(), -torch.inf)
    torch.save(checkpoint(model={"mask": mask}), "mask.pt")
    assert checkpoint_utils.load_checkpoint_to_cpu("mask.pt")["model"]["mask"].equal(mask)
    for number in (torch.inf, torch.nan):
        mask[0, 1] = number
        torch.save(checkpoint(model={"mask": mask}), "mask.pt")
        with pytest.raises(UserError, match="weight mask has numbers that are infinite or NaN"):
            checkpoint_utils.load_checkpoint_to_cpu("mask.pt")


def test_what_is_no_plain_value():
    for text in (
        *(MAKES_A_FILE, "open('ran', 'w')", "().__class__", "x", "[x for x in (1,)]", "lambda: 1"),
        *("f'{open}'", "(x := 1)", "1 if open else 2", "{**open}", "[*'a']", "9 ** 9 ** 9", "1 <"),
        *("(9 ** 999) ** 999", "9 ** 9999", "9 ** -(-9999)", "1 / 0", "1 + 'a'", "2 ** 'a'"),
        *("", "(" * 1000, "\0", "${model.x}", "'%s' % open", "await x", "1 << 9999999", "print"),
    ):
        with pytest.raises(UserError, match="is not a plain value"):
            plain_value(text)
    for other in (None, 1, True, compile("open('ran', 'w')", "", "eval")):
        with pytest.raises(TypeError):  # as eval does
            plain_value(other)
    assert not Path("ran").exists()
