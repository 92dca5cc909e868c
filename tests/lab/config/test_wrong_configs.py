"""Whatever the files of configurations hold: a message that names file and key."""

import pytest
from refusals import check_refusals
from workspaces import FILES, SETTINGS, write_configs

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.config.paper_tables import load_table, table_names
from fairseq_hybrid_attn.lab.config.settings import load_profile
from fairseq_hybrid_attn.lab.corpora.definition import load_corpus
from fairseq_hybrid_attn.lab.files.yaml_files import merge, read_mapping


def rows(**rows):
    return {"toy/table1.yaml": {"rows": rows}}


def table(**content):
    return {"toy/table1.yaml": content}


def base(**content):
    return {"settings/toy.yaml": content}


def bare(**content):
    """Settings of which a key is replaced, not merged."""
    return {**table(extends="bare"), "settings/bare.yaml": {**SETTINGS, **content}}


#: What each mistake changes in small configurations, and what its message has, in this order.
WRONG = [
    (rows(mixed={"batch": {"token": 5}}), "rows: mixed: batch: unknown token"),
    (table(extends="no"), "toy/table1.yaml.*no.yaml"),
    (base(extends="toy"), "toy.yaml: extends toy, which extends this file in turn"),
    (rows(same={"run": "toy/other/a"}), "toy/table1.yaml: rows: same: .*toy/other"),
    (rows(same={"run": "toy/table1/same"}), "table1.yaml: rows: same: run: goes in a circle"),
    (table(columns={"bleu": {"run": "aer"}}), "table1.yaml: rows: plain: run: goes in a circle"),
    (table(baseline="c"), "toy/table1.*no row c"),
    (table(columns={"bleu": {"run": "ter"}}), "toy/table1.*no column ter"),
    (rows(mixed={"run": "toy/table1/plain"}), "rows: mixed.*toy/table1/plain"),
    (rows(plain={"paper": {"ter": 1.0}}), "toy/table1.yaml: rows: plain.*ter"),
    (rows(mixed={"train": {"seed": 1}}), "rows: mixed: train.*seed.*--seeds"),
    (base(train={"max-tokens": 9}), "settings/toy.yaml: train.*max-tokens.*batch"),
    (base(train={"user-dir": "x"}), "settings/toy.yaml: train.*user-dir runs a program"),
    (base(generate={"user-dir": "x"}), "settings/toy.yaml: generate.*user-dir runs a program"),
    (base(train={"user-dir=x": True}), "settings/toy.yaml: train.*user-dir=x: use the name of a"),
    (base(generate={"nbest": "--user-dir=x"}), "generate.*would be read as another flag"),
    (base(train={"max-update": "many"}), "toy.yaml: train: .*max-update: many: use a whole"),
    (base(train={"max-update": None}), "toy/table1.yaml: rows: plain.*max-update"),
    (rows(**{"../../victim": {}}), "rows: ../../victim: use a name without slashes"),
    (rows(A={}, a={}), "rows: names must differ by more than capitals"),
    (bare(batch={}), "toy/table1.yaml: rows: plain.*batch: no tokens"),
    (bare(checkpoints={"every": 5}), "rows: plain.*checkpoints: no unit"),
    (base(checkpoints={"average": 7}), "rows: plain.*more than there will be by 150"),
    (base(checkpoints={"curve": 4}), "rows: plain.*not among"),  # 150 / 4
    (base(checkpoints={"unit": "epoch", "curve": 2}), "rows: plain.*curve needs updates"),
]


def resolve_all(configs):
    full = load_profile("full", configs)
    load_corpus("toy", configs).digest  # noqa: B018
    return {
        f"{name}/{cell.row.name}/{cell.column.name}": cell.settings(full)
        for name in table_names(configs)
        for cell in load_table(name, configs).cells()
    }


def test_mistakes_are_reported_by_file_and_key(tmp_path):
    for number, (changes, told) in enumerate(WRONG):
        write_configs(tmp_path / str(number), **merge(FILES, changes))
        check_refusals([(str(number), told)], lambda name: resolve_all(tmp_path / name))


def test_a_row_adds_to_its_tables_settings_and_removes_some(tmp_path):
    """Null and false remove a flag, and zero does not."""
    changed = {"arch": None, "share-all-embeddings": False, "dropout": 0, "clip-norm": 1}
    write_configs(tmp_path, **merge(FILES, rows(mixed={"train": changed})))
    train = {"head-patterns": "global,local,forward,backward", "dropout": 0, "clip-norm": 1}
    train = {**SETTINGS["train"], **train}
    del train["arch"], train["share-all-embeddings"]
    resolved = resolve_all(tmp_path)
    assert resolved["toy/table1/plain/bleu"].train == SETTINGS["train"]
    assert resolved["toy/table1/mixed/bleu"].train == train


def test_baselines_in_circles_are_none(tmp_path):
    """Neither is measured to measure the other."""
    plain = FILES["toy/table1.yaml"]
    tables = {n: {**plain, "baseline": f"toy/table{3 - n}/plain"} for n in (1, 2)}
    write_configs(tmp_path, **{f"toy/table{n}.yaml": content for n, content in tables.items()})
    resolve_all(tmp_path)


def test_files_that_extend_the_same_files_again_and_again_are_read_once(tmp_path):
    """Else 60 files would be read 2 ** 30 times."""
    for level in range(30):
        both = [f"{side}{level + 1}" for side in "ab"]
        content = {"extends": both} if level < 29 else FILES["settings/toy.yaml"]
        write_configs(tmp_path, **{f"settings/{side}{level}.yaml": content for side in "ab"})
    write_configs(tmp_path, **{"toy/table1.yaml": {**FILES["toy/table1.yaml"], "extends": "a0"}})
    resolve_all(tmp_path)


@pytest.mark.parametrize(
    "text, told",
    [
        ("x: [unclosed", "not YAML"),
        ("x: 1\nx: 2", "not YAML: duplicate key x"),
        ("x: " + "[" * 500, "not YAML"),
        ("x: 2001-99-99", "not YAML"),
        ("x: !!python/object/apply:os.system [touch victim]", "not YAML"),
        ("? [a, b]\n: c", "not YAML"),
        ("x: \0", "not YAML"),
        ("[1, 2]", "must be a mapping"),
    ],
)
def test_text_that_is_not_a_mapping(text, told, tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=rf"(?s)x.yaml.*{told}"):
        read_mapping(path)
    assert list(tmp_path.iterdir()) == [path]
