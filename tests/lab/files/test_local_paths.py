"""What is handed on names no folders of this machine."""

from argparse import Namespace

from fairseq_hybrid_attn.lab.files.local_paths import without_folders


def test_folders_are_left_out_and_known_ones_named():
    content = {
        "data": "/home/me/my text/bin",
        "command": [
            "--path=/home/me/model.pt",
            "/data/mine/runs/full/seed1",
            "1/2",
            "http://a.org/b",
        ],
        "args": Namespace(save_dir="/tmp/checkpoints", lr=[0.1]),
    }
    found = without_folders(content, {"/data/mine": "reproduction"})
    assert found == {
        "data": "bin",
        "command": ["--path=model.pt", "reproduction/runs/full/seed1", "1/2", "http://a.org/b"],
        "args": Namespace(save_dir="checkpoints", lr=[0.1]),
    }
