"""Each test runs on a GPU, if there is one, and on a CPU, where it is slow and proves its code."""

import pytest
import torch
from cli import binarise, write_corpus

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")


@pytest.fixture(
    params=[pytest.param("cuda", marks=needs_gpu), pytest.param("cpu", marks=pytest.mark.slow)]
)
def device(request, monkeypatch):
    torch.compiler.reset()  # after some models, torch would compile no more of the same class
    if request.param == "cpu":  # whose own compiler takes minutes
        compile_it = torch.nn.Module.compile
        monkeypatch.setattr(
            "torch.nn.Module.compile",
            lambda module, **options: compile_it(module, **options, backend="eager"),
        )
    return request.param


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """The data of sequences and their reversal."""
    folder = tmp_path_factory.mktemp("corpus")
    write_corpus(folder, hard_cases=False)
    return binarise(folder)
