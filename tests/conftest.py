"""What holds for all tests: one thread, Ctrl-C, seeds, long files first, and two fixtures."""

import os
import random
import signal

# Before torch is imported: small models are slower with more threads than one.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest
import torch
import torch.nn.functional as F

# A shell's background jobs, and all that they start, ignore Ctrl-C; the tests send it.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def seeds():
    """Let a test draw the same numbers in every run, alone or after others."""
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


@pytest.fixture
def double_softmax(monkeypatch):
    """Let fairseq's own attention keep double precision.

    It takes its softmax in single precision even in a double-precision model, which would
    drown what the tests in double precision look for.
    """
    monkeypatch.setattr("fairseq.utils.softmax", lambda x, dim, onnx_trace=False: F.softmax(x, dim))


@pytest.fixture
def no_preprocess(monkeypatch):
    """Prepare corpora without fairseq-preprocess, which takes seconds to start."""
    from corpora_made import skip_preprocess  # here, since few tests need it

    skip_preprocess(monkeypatch)


#: Files of minutes, the longest first, so that no worker is left alone with one at the end.
LONG = "slurm extending compiled reproduce train_command learning check_gpu script".split()
LONG += "trained_tables attention prepare_again training cluster_jobs benchmarks".split()


def pytest_collection_modifyitems(items):
    rank = {name: number for number, name in enumerate(LONG)}
    items.sort(key=lambda item: rank.get(item.path.stem.removeprefix("test_"), len(LONG)))
