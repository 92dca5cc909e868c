"""What importing the package, or a part of it, does to fairseq."""

import subprocess
import sys
from pathlib import Path

import numpy
import pytest
import torch
from cli import environment

from fairseq_hybrid_attn import UserError
from fairseq_hybrid_attn.fairseq_check import COPIES, check_fairseq, leave_fast_path

ROOT = Path(__file__).parents[2]

USE = """
import torch
from fairseq_hybrid_attn import record_attention, register_fusion, register_pattern
from fairseq_hybrid_attn.attention import AttentionPlan, PatternedAttention
from fairseq_hybrid_attn.patterns import GLOBAL, PAST, local

attention = PatternedAttention(8, 2, AttentionPlan.of_heads((PAST, local(1)), 2), batch_first=True)
with record_attention(attention) as records:
    y, _ = attention(torch.randn(2, 5, 8))
allowed = torch.stack([pattern.mask(5, 5) for pattern in (PAST, local(1))])
assert y.shape == (2, 5, 8) and records[""][0].weights[0].gt(0).equal(allowed.expand(2, 2, 5, 5))
"""
#: As where only torch is installed.
TORCH_ALONE = """
import importlib.abc, sys

HIDDEN = ("fairseq", "hydra", "omegaconf", "numpy", "sacrebleu", "yaml")

class Hidden(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"No module named {name!r}")

sys.meta_path.insert(0, Hidden())
"""
#: Numbers that stock fairseq gives under numpy 1, worked out by hand: the lower of two
#: neighbours at each third of the sorted lengths, and each sentence as a block of its own.
ASKED = {
    "get_buckets(numpy.array([9, 1, 5, 2, 7, 3, 8]), 3)": "[3 7 9]",
    "TokenBlockDataset([[7, 2], [5, 6, 2]], [2, 3], None, 1, 2, 'eos').sizes": "[2 3]",
}
NUMPY = f"""
import numpy
from fairseq.data import TokenBlockDataset
from fairseq.data.data_utils import get_buckets
for asked in {list(ASKED)}:
    try:
        print(eval(asked))
    except Exception as error:
        print(type(error))
"""
#: A program that ends while fairseq reads batches ahead, a few of them or many.
READING = """
import fairseq_hybrid_attn.models
import torch
from fairseq.data.iterators import BufferedIterator

class Batches:
    def __len__(self):
        return 1000
    def __iter__(self):
        for number in range(len(self)):
            batch = torch.rand(300, 300)
            for _ in range(20):
                batch = (batch @ batch).softmax(-1)
            yield number

readers = [BufferedIterator(size, Batches()) for size in (1, 8)]
print(*map(next, readers))
"""


def python(code: str, folder: Path = ROOT) -> list[str]:
    """The lines that a program prints."""
    done = run(code, folder)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def run(code: str, folder: Path = ROOT) -> subprocess.CompletedProcess:
    command = [sys.executable, "-B", "-W", "ignore", "-c", code]
    settings = {"cwd": folder, "env": environment(), "capture_output": True, "text": True}
    return subprocess.run(command, **settings)


def test_attention_needs_torch_alone():
    python(TORCH_ALONE + USE)


def test_fairseq_is_told_and_guarded_whichever_is_imported_first():
    """Attention alone loads no fairseq, and neither does a look whether there is one."""
    alone = (
        "import sys, importlib.util as it; it.find_spec('fairseq'); print('fairseq' in sys.modules)"
    )
    asked = """
from fairseq import checkpoint_utils
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.models import MODEL_REGISTRY
from fairseq.tasks import TASK_REGISTRY
print("transformer_mma" in MODEL_REGISTRY, "translation_resumable" in TASK_REGISTRY)
print("fused_label_smoothed_cross_entropy" in CRITERION_REGISTRY)
try:
    checkpoint_utils.eval("print()")
except BaseException as error:
    print(type(error).__name__)
"""
    told = ["True True", "True", "UserError"]
    assert python(f"import fairseq, fairseq_hybrid_attn\n{asked}") == told
    attention = f"import fairseq_hybrid_attn.attention\n{alone}"
    assert python(f"{attention}\nimport fairseq\n{asked}") == ["False", *told]


def test_models_load_nothing_but_fairseq_and_leave_logging_alone():
    before = "import fairseq.tasks, fairseq.models, logging, sys; before = set(sys.modules)\n"
    printed = "print(*{m.split('.')[0] for m in set(sys.modules) - before})"
    loaded = python(f"{before}import fairseq_hybrid_attn; {printed}")[-1]
    others = set(loaded.split()) - set(sys.stdlib_module_names)
    assert others <= {"fairseq", "fairseq_hybrid_attn"}
    shown = "import logging; root = logging.getLogger(); print(root.level, root.handlers)"
    loading = "import fairseq_hybrid_attn as it; it.load('models/mma')"
    assert python(f"{loading}; {shown}")[-1] == "30 []"


def test_warnings_may_be_errors():
    """fairseq's decorators are outdated, which is no reason to install another one."""
    strict = "import warnings; warnings.simplefilter('error')"
    assert python(f"{strict}; import fairseq_hybrid_attn.models; print('known')") == ["known"]


def test_numpy_2():
    """What stock fairseq cannot do there works once the models are imported."""
    found = python(f"import fairseq_hybrid_attn.models\n{NUMPY}")
    assert found[-len(ASKED) :] == list(ASKED.values())
    if int(numpy.__version__[0]) > 1:
        failed = [one.startswith("<class") for one in python(NUMPY)[-len(ASKED) :]]
        assert failed == [True] * len(ASKED), "fairseq has been mended: delete this part of ours"


def test_a_program_ends_while_batches_are_read():
    """Of fairseq alone, it aborts: torch's C++ cannot be left by a thread that Python ends."""
    assert python(READING) == ["0 0"]


class FastLayer(torch.nn.Module):
    """An encoder layer like that of fairseq 0.12.2, which may bypass its own parts."""

    def __init__(self):
        super().__init__()
        self.can_use_fastpath = True
        for name in COPIES:
            setattr(self, name, torch.nn.Parameter(torch.zeros(1)))
        self.fc1 = torch.nn.Linear(1, 1)

    def _load_from_state_dict(self, state_dict, prefix, *args):
        state_dict[prefix + "in_proj_weight"] = torch.zeros(1)
        super()._load_from_state_dict(state_dict, prefix, *args)

    def forward(self, x):
        return self.in_proj_weight if self.can_use_fastpath else self.fc1(x)


def test_the_fast_path_of_fairseq_0_12_2_is_left():
    leave_fast_path(FastLayer)
    layer = FastLayer()
    assert layer.state_dict().keys() == {"fc1.weight", "fc1.bias"}
    layer.load_state_dict({"fc1.weight": torch.ones(1, 1), "fc1.bias": torch.ones(1)})
    assert layer(torch.ones(1)) == 2


def test_an_older_torch_is_refused(monkeypatch):
    monkeypatch.setattr(torch, "__version__", "2.5.1+cpu")
    with pytest.raises(UserError, match=r"torch 2.5.1.* needs 2.6"):
        check_fairseq()


def test_an_unsuitable_fairseq_is_refused_with_the_supported_versions(tmp_path):
    package = tmp_path / "fairseq" / "modules"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").touch()
    (package / "__init__.py").touch()
    for source, said in (
        ("raise ImportError('No module named fairseq')", "cannot be imported"),
        ("raise ValueError('mutable default')", "mutable default"),
    ):
        (package / "transformer_layer.py").write_text(source)
        done = run("import fairseq_hybrid_attn.models", tmp_path)
        assert done.returncode == 1 and "Traceback" not in done.stderr
        assert said in done.stderr and "pip install ve-fairseq==0.12.3" in done.stderr
