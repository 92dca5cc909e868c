"""--user-dir: a user's folder is imported if the user names it, and by no other way."""

import json
import os

import pytest
import torch

from fairseq_hybrid_attn import UserError
from fairseq_hybrid_attn.lab.commands.command_line import COMMANDS, main

#: A model with a pattern, a fusion and an architecture of its own.
CODE = """
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from fairseq_hybrid_attn import register_fusion, register_pattern
from fairseq_hybrid_attn.attention.fusion import HiddenGate, QueryGate
from fairseq_hybrid_attn.models.hybrid_gate import HybridGate, HybridGateConfig
from fairseq_hybrid_attn.models.transformer import register_size
from fairseq_hybrid_attn.patterns import Band, Pattern, local

Path(__file__).with_name("imported").touch()

@dataclass(frozen=True)
class Every(Pattern):
    step: int
    def allows(self, offset):
        return offset % self.step == 0

class MyGate(HiddenGate):
    pass

register_pattern("encoder", "everyK", Every)
register_pattern("encoder", "near", Band(behind=1, ahead=1))
register_pattern("decoder", "aroundK", local)
register_fusion("my-gate", MyGate)
register_fusion("our-gate", partial(QueryGate))
register_size("transformer_of_a_user", HybridGate, HybridGateConfig, hybrid_fusion="my-gate")
"""


@pytest.fixture(scope="module")
def theirs(data, tmp_path_factory):
    """A user's folder, and in the folder of data the checkpoint of its model, which names it."""
    folder = tmp_path_factory.mktemp("home") / "folder_of_a_user"
    folder.mkdir()
    (folder / "__init__.py").write_text(CODE)
    state = torch.load(data / "gate1.pt", weights_only=True)
    state["cfg"]["model"] |= {"_name": "transformer_of_a_user", "hybrid_fusion": "my-gate"}
    state["cfg"]["common"]["user_dir"] = str(folder)
    torch.save(state, data / "theirs.pt")
    return folder


def test_every_command_takes_it(capsys):
    for command in COMMANDS:
        with pytest.raises(SystemExit, match="0"):
            main([command, "--help"])
        assert "--user-dir DIR" in capsys.readouterr().out, command


def test_only_the_folder_that_the_user_names_is_imported(theirs, analyse, capsys, tmp_path):
    with pytest.raises(UserError, match="give --user-dir DIR") as refused:
        analyse("heads", "theirs.pt")
    assert f"trained with '{theirs}'" in str(refused.value)
    assert not (theirs / "imported").exists()
    analyse("heads", "theirs.pt", "--user-dir", theirs)
    assert (theirs / "imported").exists()
    # Once more, from elsewhere and with a slash: it is imported already.
    path = os.path.relpath(theirs)
    capsys.readouterr()
    analyse("gates", "theirs.pt", "--write", tmp_path / "g.json", "--user-dir", f"{path}/")
    (model,) = json.loads((tmp_path / "g.json").read_text())["models"]
    assert {row["gate"] for row in model["rows"]} == {"share"} and model["window"] == 3
    analyse("maps", "theirs.pt", "--sentences", "1", "--write", tmp_path / "m.json")
    analyse("align", "theirs.pt", "--output", tmp_path / "align")


def test_folders_that_cannot_be_imported(analyse, tmp_path):
    for name in ("json", "my.code"):
        (tmp_path / name).mkdir()
    for folder, said in (
        ("nowhere", "no such folder"),
        ("json", "imported another json; rename"),
        ("my.code", "cannot import"),
    ):
        with pytest.raises(UserError, match=said):
            analyse("heads", "mma.pt", "--user-dir", tmp_path / folder)
