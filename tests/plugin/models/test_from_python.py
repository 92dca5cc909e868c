"""Models in a Python program, by ``from_pretrained`` of fairseq's hub; test_docs.py translates."""

import analysed

from fairseq_hybrid_attn.models import MMA, HybridGate, HySAN


def test_any_class_loads_every_model(tmp_path):
    analysed.make_data(tmp_path, ("hysan", "gate1"))
    for name, kind in (("hysan", HySAN), ("gate1", HybridGate)):
        translator = MMA.from_pretrained(str(tmp_path), f"{name}.pt", "./bin")
        assert type(translator.models[0]) is kind
        assert len(translator.translate("Da@@ s Haus", max_len_b=4).split()) <= 5
