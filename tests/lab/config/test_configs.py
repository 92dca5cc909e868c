"""The configurations of the papers' tables agree with themselves and with the pages on them."""

import itertools
import re
from collections import Counter

import torch
import yaml
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import build_model
from models import task_of
from rows import CELLS, CONFIGS, RUNS, TABLES, build, flags, parsed, settings

from fairseq_hybrid_attn.lab.config.paper_tables import table_names
from fairseq_hybrid_attn.lab.config.settings import load_profile, load_raw
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
        words = flags(CELLS[name].settings(small))
        args = parsed(words)
        with torch.device("meta"):
            converted = build_model(convert_namespace_to_omegaconf(args).model, task_of(50))
        assert str(build(words)) == str(converted)  # the tests do without the conversion


def test_no_system_is_trained_twice():
    assert len({settings(name).digests[0] for name in RUNS}) == len(RUNS)
    assert str(CELLS["mma/table4/mma/de-en"].run_name) == "mma/table2/transformer_mma/de-en"


def items(mapping, before=()):
    """Keys and values of nested mappings: (("train", "lr"), "1")."""
    found = set()
    for key, value in mapping.items():
        nested = isinstance(value, dict)
        found |= items(value, (*before, key)) if nested else {((*before, key), str(value))}
    return found


def test_no_layer_repeats_what_lies_below_it():
    tables = [CONFIGS / f"{name}.yaml" for name in table_names(CONFIGS)]
    for path in [*tables, *(CONFIGS / "settings").glob("*.yaml")]:
        raw = load_raw(yaml.safe_load(path.read_text()), CONFIGS, str(path))
        assert not items(raw.shared) & items(raw.own), path


def test_every_setting_of_the_files_is_used():
    extended = {
        name
        for path in CONFIGS.rglob("*.yaml")
        if path.parent.name != "corpora"  # which extend each other
        for names in re.findall(r"\bextends: (\w+|\[[\w, ]+\])", path.read_text())
        for name in names.strip("[]").split(", ")
    }
    assert extended == {path.stem for path in (CONFIGS / "settings").glob("*.yaml")}


DOCS = CONFIGS.parent / "docs" / "papers"


def test_a_page_has_every_table_of_its_paper_with_its_number_of_runs():
    own = Counter(name.rsplit("/", 2)[0] for name in RUNS)
    told = {}
    for paper in {name.split("/")[0] for name in TABLES}:
        for line in (DOCS / f"{paper}.md").read_text().split("\n"):
            if line.startswith("| `"):
                first, _, runs = line.split("|")[1:4]
                # In "3 of 4", the former counts.
                count = sum(map(int, re.findall(r"(?<!of )\b\d+\b", runs)))
                for table in re.findall(r"(?:table|figure|pre_)\w+", first):
                    told[f"{paper}/{table}"] = count
    assert told == {name: own[name] for name in TABLES}


def test_commands_of_files_and_pages_name_tables_and_rows_that_exist():
    for name in TABLES:
        first = (CONFIGS / f"{name}.yaml").read_text().split("\n")[0]
        assert first == f"# fairseq-hybrid reproduce {name}", name
    commands = [
        line.split("#")[0].split()[2:]
        for page in [*DOCS.glob("*.md"), CONFIGS / "README.md"]
        for line in page.read_text().split("\n")
        if line.startswith("    fairseq-hybrid reproduce ")
    ]
    assert len(commands) > 8
    for table, *arguments in commands:
        for row in itertools.takewhile(lambda word: not word.startswith("--"), arguments):
            TABLES[table].row(row)
