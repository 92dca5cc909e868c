"""The configurations of the papers' tables agree with themselves and with the pages on them."""

import yaml
from rows import CELLS, CONFIGS, RUNS, build, flags, settings
from workspaces import SETTINGS, TABLE, with_rows, write_configs

from fairseq_hybrid_attn.lab.config.paper_tables import load_table
from fairseq_hybrid_attn.lab.config.settings import FULL, load_profile
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


def test_an_inherited_flag_without_effect_is_left_out(tmp_path):
    """A row changes the fusion of many; its own flag stays, to be refused."""
    train = {**SETTINGS["train"], "arch": "transformer_hysan", "squeeze-ratio": 8}
    del train["head-patterns"]
    own = {
        "plain": {},
        "gated": {"branch-fusion": "gated-sum"},
        "sum": {"branch-fusion": "sum"},
        "both": {"branch-fusion": "sum", "squeeze-ratio": 4},
    }
    table = with_rows(TABLE, **{name: {"train": flags} for name, flags in own.items()})
    shared = {**SETTINGS, "train": train}
    configs = write_configs(tmp_path, **{"settings/toy.yaml": shared, "toy/table1.yaml": table})
    cells = {cell.row.name: cell for cell in load_table("toy/table1", configs).cells()}
    found = {name: cells[name].settings(FULL).train.get("squeeze-ratio") for name in own}
    assert found == {"plain": 8, "gated": 8, "sum": None, "both": 4}
