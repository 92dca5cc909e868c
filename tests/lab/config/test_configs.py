"""The configurations of the papers' tables agree with themselves and with the pages on them."""

import yaml
from rows import CELLS, CONFIGS, RUNS, build, flags, settings

from fairseq_hybrid_attn.lab.config.settings import load_profile
from fairseq_hybrid_attn.lab.corpora.definition import load_corpus


def test_settings_of_a_run_agree_with_each_other_and_with_its_corpus():
    for name, cell in RUNS.items():
        chosen = settings(name)
        corpus = load_corpus(chosen.corpus, CONFIGS)
        assert cell.column.score in corpus.scores, name
        assert corpus.subwords.joint or "share-all-embeddings" not in chosen.train, name
        if name.startswith("hybrid_gate/"):  # checkpoints are chosen as they are evaluated
            said = {key.replace("-", "_"): value for key, value in chosen.generate.items()}
            assert yaml.safe_load(chosen.train["eval-bleu-args"]) == said, name


def test_every_architecture_can_be_built_small():
    small = load_profile("small", CONFIGS)
    for name in {settings(name).train["arch"]: name for name in RUNS}.values():
        assert build(flags(CELLS[name].settings(small))).encoder, name


def test_no_system_is_trained_twice():
    assert len({settings(name).digests[0] for name in RUNS}) == len(RUNS)
    assert str(CELLS["mma/table4/mma/de-en"].run_name) == "mma/table2/transformer_mma/de-en"
