"""Reading checkpoints: damage is noticed, and nothing in them runs."""

import os
import struct
from pathlib import Path

import pytest
import torch
from fairseq import checkpoint_utils
from refusals import check_refusals

from fairseq_hybrid_attn.lab.files.checkpoints import read_checkpoint

WEIGHTS = {"count": torch.tensor([3]), "w": torch.full((8,), 0.25), "tied": torch.ones(2)}
WEIGHTS["v"] = WEIGHTS["tied"]
STATE = {"cfg": {"model": {"_name": "transformer"}}, "model": WEIGHTS}


class Payload:
    def __reduce__(self):
        return os.mkdir, ("payload",)  # if it were unpickled


def weights(**changes):
    return {"model": {**WEIGHTS, **changes}}


def test_files_that_are_no_checkpoints(folder):
    circle = {}
    circle["x"] = circle
    not_one = {
        "list": [1, 2],
        "other": {"epoch": 1},
        "words": {"model": {"w": "heavy"}},
        "names": {"model": {**WEIGHTS, 5: torch.ones(2)}},
        "circle": {**STATE, "cfg": circle},
        "history": {**STATE, "optimizer_history": [5]},
        "updates": {**STATE, "optimizer_history": [{"num_updates": "many"}]},
        "extra": {**STATE, "extra_state": 5},
        "sparse": {**STATE, **weights(w=torch.ones(8).to_sparse())},
    }
    for name, state in not_one.items():
        torch.save(state, name)
    torch.save({**STATE, "payload": Payload()}, "code")
    torch.save(STATE, "good")
    broken = {"text": b"no checkpoint\n", "empty": b"", "cut": Path("good").read_bytes()[:-100]}
    for name, content in broken.items():
        Path(name).write_bytes(content)
    os.mkfifo("pipe")
    refused = {name: f"{name} is not a fairseq checkpoint" for name in not_one}
    refused |= {name: f"{name} cannot be loaded as a checkpoint" for name in broken}
    refused |= dict.fromkeys(("pipe", "/dev/zero"), "is not a regular file")  # which never end
    refused |= {"code": "posix.mkdir, which might run code", "nowhere": "nowhere cannot be read"}
    check_refusals(refused.items(), lambda name: read_checkpoint(Path(name)))
    assert not Path("payload").exists()


def test_damage_that_torch_does_not_notice(folder):
    """One bit of a weight's exponent: 0.25 is read as 8.5e37."""
    torch.save(STATE, "good")
    content = bytearray(Path("good").read_bytes())
    content[content.index(struct.pack("8f", *8 * [0.25])) + 3] ^= 64
    Path("bit").write_bytes(content)
    assert torch.load("bit", weights_only=True)["model"]["w"][0] > 8e37
    for name, number in {"nan": torch.nan, "infinite": -torch.inf}.items():
        tied = torch.tensor([1.0, number], dtype=torch.float16)
        torch.save({**STATE, **weights(tied=tied)}, name)
    refused = {"bit": "bit is damaged: ", "nan": "nan: .* tied", "infinite": "infinite: .* tied"}
    check_refusals(refused.items(), lambda name: read_checkpoint(Path(name)))


def test_checkpoints_without_checksums_are_read(folder):
    """In torch's older format, and on request."""
    torch.save(STATE, "old", _use_new_zipfile_serialization=False)
    torch.serialization.set_crc32_options(False)
    try:
        torch.save(STATE, "without")
    finally:
        torch.serialization.set_crc32_options(True)
    for name in ("old", "without"):
        assert read_checkpoint(Path(name))["model"]["w"].equal(WEIGHTS["w"])


@pytest.mark.parametrize(
    "error",
    [MemoryError(), torch.OutOfMemoryError("CUDA out of memory"), ModuleNotFoundError("theirs")],
    ids=repr,
)
def test_what_is_not_the_files_fault_keeps_its_name(error, folder, monkeypatch):
    def fail(*given, **settings):
        raise error

    torch.save(STATE, "good")
    monkeypatch.setattr(torch, "load", fail)
    for load in (read_checkpoint, checkpoint_utils.load_checkpoint_to_cpu):
        with pytest.raises(type(error)) as raised:
            load(Path("good"))
        assert raised.value is error
