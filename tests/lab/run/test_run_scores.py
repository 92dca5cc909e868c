"""A run reads the scores that its steps have written, whichever command wrote them."""

import json

import pytest

from fairseq_hybrid_attn import UserError
from fairseq_hybrid_attn.lab.run.run_scores import read_scores
from fairseq_hybrid_attn.lab.scores.counts import Score, scores_as_dict

SCORES = {"bleu": Score(30.0, "nrefs:1"), "gate.encoder.1": Score(0.5, "share|branch:local")}


def test_scores_are_read_as_they_were(tmp_path):
    content = {"systems": {"x": [scores_as_dict(SCORES)]}, "sentences": 4}
    (tmp_path / "x.json").write_text(json.dumps(content))
    assert read_scores(tmp_path / "x.json") == SCORES
    assert read_scores(tmp_path / "none.json") == {}


def test_a_file_of_another_version_is_not_taken_for_none(tmp_path):
    (tmp_path / "gates.json").write_text('{"tags": null, "models": [{"rows": [], "share": 0.5}]}')
    with pytest.raises(UserError, match=r"gates\.json.*delete it"):
        read_scores(tmp_path / "gates.json")
