"""A run reads the scores that its steps have written, whichever command wrote them."""

import json

import pytest

from fairseq_hybrid_attn import UserError
from fairseq_hybrid_attn.lab.run.run_scores import read_scores
from fairseq_hybrid_attn.lab.scores.counts import Score, scores_as_dict

SCORES = {"bleu": Score(30.0, "nrefs:1"), "gate.encoder.1": Score(0.5, "share|branch:local")}


@pytest.mark.parametrize(
    "wrap",
    [
        lambda content: content,
        lambda content: {"systems": {"gold.align": content}},
        lambda content: {"tags": None, "models": [content]},
    ],
    ids=["score", "aer", "gates"],
)
def test_scores_are_read_as_they_were(tmp_path, wrap):
    (tmp_path / "x.json").write_text(json.dumps(wrap({"scores": scores_as_dict(SCORES)})))
    assert read_scores(tmp_path / "x.json") == SCORES


def test_gates_without_scores_are_not_taken_for_none(tmp_path):
    (tmp_path / "gates.json").write_text('{"tags": null, "models": [{"rows": [], "share": 0.5}]}')
    with pytest.raises(UserError, match=r"gates\.json.*delete it"):
        read_scores(tmp_path / "gates.json")
    assert read_scores(tmp_path / "none.json") == {}
