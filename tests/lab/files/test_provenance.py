"""What results say of the code and the software that made them."""

import subprocess

from fairseq_hybrid_attn.lab.files import provenance
from fairseq_hybrid_attn.lab.files.provenance import code


def test_the_commit_of_a_checkout_and_whether_it_was_changed(tmp_path, monkeypatch):
    package = tmp_path / "fairseq_hybrid_attn"
    package.mkdir()
    (package / "__init__.py").write_text("x = 1\n")
    monkeypatch.setattr(provenance, "PACKAGE", package)
    assert code() == {"commit": None, "modified": None}
    who = ("-c", "user.name=me", "-c", "user.email=me@here")
    for words in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "-m", "all"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    head = ["git", "rev-parse", "HEAD"]
    head = subprocess.run(head, cwd=tmp_path, check=True, capture_output=True, text=True)
    commit = head.stdout.strip()
    assert code() == {"commit": commit, "modified": False}
    (package / "__init__.py").write_text("x = 2\n")
    assert code() == {"commit": commit, "modified": True}
