"""Whatever the files of configurations hold: a message that names the file, and no waiting."""

import copy
import time

import pytest
import yaml
from workspaces import FILES, write_configs

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.config.paper_tables import load_table
from fairseq_hybrid_attn.lab.config.settings import load_profile
from fairseq_hybrid_attn.lab.corpora.definition import load_corpus

EVIL = (5, -1, 1.5, float("nan"), True, None, "", "text", "../../x", [], ["a"], [1], {}, {"a": 1})
#: Beside the small configurations: keys that they do not have.
MORE = {
    "settings/toy.yaml": {"pairs": 5, "align": {"layer": 1}, "aligner": None, "extends": []},
    "toy/table1.yaml": {"notes": "n", "transposed": False},
    "corpora/toy.yaml": {
        "archives": [{"file": "a.tgz", "urls": ["https://a"]}],
        "clean": {"max-ratio": 1.5},
        "options": {"files": {"train": ["a", "b"]}, "test": 5},
        "replace-in-test": {"a": "b"},
        "expect": {"test": 1},
        "valid-every": 2,
        "gold": {
            "text": {"de": "a.tgz", "en": "a.tgz"},
            "links": "a.tgz",
            "base": 0,
            "first": "de",
        },
    },
}


def read_all(configs):
    full = load_profile("full", configs)
    for cell in load_table("toy/table1", configs).cells():
        cell.settings(full)
        cell.planned  # noqa: B018
        load_corpus("toy", configs).digest  # noqa: B018


def places(content, path=()):
    """Every key and item below a mapping or a list."""
    for key, value in content.items() if isinstance(content, dict) else enumerate(content):
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from places(value, (*path, key))


def test_a_value_of_a_wrong_type_is_named_with_its_file(tmp_path):
    files = {name: {**copy.deepcopy(FILES[name]), **MORE.get(name, {})} for name in FILES}
    write_configs(tmp_path, **files)
    read_all(tmp_path)
    refused = 0
    for name, content in files.items():
        for number, (*above, key) in enumerate(places(content)):
            for value in (EVIL * 2)[number % len(EVIL) :][:3]:  # all of them would take a minute
                changed = holder = copy.deepcopy(content)
                for step in above:
                    holder = holder[step]
                holder[key] = value
                (tmp_path / name).write_text(yaml.safe_dump(changed))
                try:
                    read_all(tmp_path)
                except UserError as error:
                    refused += 1
                    said = str(error)
                    assert ".yaml" in said or "no recipe" in said or "toy/" in said, (above, key)
        write_configs(tmp_path, **files)
    assert refused > 100


@pytest.mark.parametrize(
    "change, told",
    [
        ({"train": 5}, "toy.yaml: train: 5: use a mapping from keys to values"),
        ({"train": ["a"]}, r"toy.yaml: train: \['a'\]: use a mapping"),
        ({"train": {"max-update": "many"}}, "toy.yaml: train: .*max-update: many: use a whole"),
        ({"batch": {"per-device": "8k"}}, "toy.yaml: batch: per-device: 8k: use a whole number"),
        ({"corpus": "../toy"}, "toy.yaml: corpus: ../toy: use a name without slashes"),
        ({"extends": ["../settings/toy"]}, "toy.yaml: extends: no. 1: .*without slashes"),
        ({"extends": "toy"}, "toy.yaml: extends toy, which extends this file in turn"),
        ({"extends": "a"}, "b.yaml: extends toy, which extends this file in turn"),
    ],
)
def test_settings(change, told, tmp_path):
    more = {"settings/a.yaml": {"extends": "b"}, "settings/b.yaml": {"extends": "toy"}}
    write_configs(
        tmp_path, **{"settings/toy.yaml": {**FILES["settings/toy.yaml"], **change}}, **more
    )
    with pytest.raises(UserError, match=told):
        read_all(tmp_path)


def test_files_that_extend_the_same_files_again_and_again_are_read_once(tmp_path):
    """Else 60 files would be read 2 ** 30 times."""
    for level in range(30):
        both = [f"{side}{level + 1}" for side in "ab"]
        content = {"extends": both} if level < 29 else FILES["settings/toy.yaml"]
        write_configs(tmp_path, **{f"settings/{side}{level}.yaml": content for side in "ab"})
    write_configs(tmp_path, **{"toy/table1.yaml": {**FILES["toy/table1.yaml"], "extends": "a0"}})
    read_all(tmp_path)


@pytest.mark.parametrize(
    "rows, told",
    [
        ({"a": {"run": "toy/table1/a"}}, r"table1.yaml: rows: a: run: goes in a circle"),
        ({"a": {"run": "toy/table1/b"}, "b": {"run": "toy/table1/a"}}, "rows: a: .*circle"),
        ({"a": {"run": "toy/table1/b"}, "b": {"run": "toy/table2/c"}}, "rows: b: .*such table"),
        ({"A": {}, "a": {}}, "rows: names must differ by more than capitals"),
        ({"../../victim": {}}, "rows: ../../victim: use a name without slashes"),
        ({"-rf": {}}, "rows: -rf: use a name"),
        ({5: {}}, "rows: 5: use a text, in quotes"),
    ],
)
def test_rows(rows, told, tmp_path):
    write_configs(tmp_path, **{"toy/table1.yaml": {**FILES["toy/table1.yaml"], "rows": rows}})
    (tmp_path / "toy/table1.yaml").write_text(
        (tmp_path / "toy/table1.yaml").read_text().replace("baseline: plain\n", "")
    )
    with pytest.raises(UserError, match=told):
        read_all(tmp_path)


def test_columns_and_baselines_in_circles(tmp_path):
    table = FILES["toy/table1.yaml"]
    columns = {"bleu": {"run": "aer"}, "aer": {"run": "bleu"}}
    write_configs(tmp_path, **{"toy/table1.yaml": {**table, "columns": columns}})
    with pytest.raises(UserError, match=r"table1\.yaml: rows: plain: run: goes in a circle"):
        read_all(tmp_path)
    others = {
        f"toy/table{n}.yaml": {**table, "baseline": f"toy/table{3 - n}/plain"} for n in (1, 2)
    }
    write_configs(tmp_path, **others)
    read_all(tmp_path)  # neither is measured to measure the other


@pytest.mark.parametrize(
    "text, told",
    [
        ("x: " + "[" * 500, "not YAML"),
        ("x: !!int a", "not YAML"),
        ("x: !!bool a", "not YAML"),
        ("x: !!timestamp a", "not YAML"),
        ("x: 2001-99-99", "not YAML"),
        ("x: " + "1" * 9999, "not YAML"),
        ("x: !!python/object/apply:os.system [touch victim]", "not YAML"),
        ("? [a, b]\n: c", "not YAML"),
        ("x: \0", "not YAML"),
        ("[1, 2]", "must be a mapping"),
        ("? 5\n: c", "(unknown 5|5: use a text)"),
    ],
)
def test_text_that_is_not_a_mapping(text, told, tmp_path):
    write_configs(tmp_path)
    started = time.monotonic()
    for name in ("settings/toy.yaml", "toy/table1.yaml", "profiles/full.yaml", "corpora/toy.yaml"):
        before = (tmp_path / name).read_text()
        (tmp_path / name).write_text(text)
        with pytest.raises(UserError, match=rf"(?s){name}.*{told}"):
            read_all(tmp_path)
        (tmp_path / name).write_text(before)
    assert time.monotonic() - started < 30 and not list(tmp_path.rglob("victim"))
