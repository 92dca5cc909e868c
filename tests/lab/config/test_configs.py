"""The configurations of the papers' tables say what the papers say, each thing once.

Their training settings are in test_paper_rows.py.
"""

import itertools
import re
from collections import Counter

import pytest
import torch
import yaml
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import build_model
from models import task_of
from refusals import check_refusals
from rows import CELLS, CONFIGS, RUNS, TABLES, build, flags, parsed, settings
from workspaces import FILES, SETTINGS, write_configs

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.config.paper_tables import load_table, table_names
from fairseq_hybrid_attn.lab.config.settings import KEYS, load_profile, load_raw
from fairseq_hybrid_attn.lab.corpora.definition import load_corpus
from fairseq_hybrid_attn.lab.files.yaml_files import merge


def test_settings_of_a_run_agree_with_each_other_and_with_its_corpus():
    for name, cell in RUNS.items():
        chosen = settings(name)
        corpus = load_corpus(chosen.corpus, CONFIGS)
        assert cell.column.score in corpus.scores, name
        assert corpus.subwords.joint or "share-all-embeddings" not in chosen.train, name
        if name.startswith("hybrid_gate/"):  # checkpoints are chosen as they are evaluated
            said = {key.replace("-", "_"): value for key, value in chosen.generate.items()}
            said["lenpen"] = said.pop("gnmt_lenpen")
            assert yaml.safe_load(chosen.train["eval-bleu-args"]) == said, name


def test_every_architecture_can_be_built_small():
    small = load_profile("small", CONFIGS)
    for name in {settings(name).train["arch"]: name for name in RUNS}.values():
        words = flags(CELLS[name].settings(small))
        args = parsed(words)
        with torch.device("meta"):
            converted = build_model(convert_namespace_to_omegaconf(args).model, task_of(50))
        assert str(build(words)) == str(converted)  # the tests do without the conversion


#: For each table: how many rows it has, how many of them the paper cites, how many numbers,
#: and their sum; and the baselines and best rows, copied from the papers.
NUMBERS = yaml.safe_load("""
hysan/table1: {all: [19, 0, 38, 1097.01],
  base: {bleu: 31.27, nopos: 15.56}, b3: {bleu: 31.92, nopos: 27.67},
  c5: {bleu: 32.16, nopos: 30.68}, d4: {bleu: 31.49, nopos: 15.70},
  e1: {bleu: 32.28, nopos: 30.69}, e2: {bleu: 32.29, nopos: 30.72}}
hysan/table2a: {all: [4, 0, 4, 127.75], baseline: {bleu: 31.27}, gated_sum: {bleu: 32.28}}
hysan/table2b: {all: [4, 0, 4, 110.30], baseline: {bleu: 27.3}, gated_sum: {bleu: 27.9}}
hysan/table2c: {all: [4, 0, 4, 114.10],
  baseline: {bleu: 28.4}, sum: {bleu: 28.2}, gated_sum: {bleu: 28.8}}
hysan/table3: {all: [10, 6, 10, 264.60],
  cited: bytenet gnmt_rl convs2s moe gnmt_rl_ensemble convs2s_ensemble,
  convs2s_ensemble: {bleu: 26.36}, hysan_big: {bleu: 28.8}}
hysan/table4: {all: [5, 3, 5, 122.87], cited: sogou_nmt xmu_nmt uedin_nmt,
  transformer_big: {bleu: 24.20}, hysan_big: {bleu: 25.27}, sogou_nmt: {bleu: 26.40}}
hybrid_gate/table1: {all: [7, 0, 7, 196.30], transformer: {bleu: 27.67}, hybrid_gate: {bleu: 28.31}}
hybrid_gate/table2: {all: [3, 0, 3, 84.99], transformer: {bleu: 28.10}, hybrid_gate: {bleu: 28.66}}
hybrid_gate/table3: {all: [3, 0, 9, 651.18],
  local_pattern: {surface: 77.15, syntactic: 66.00, semantic: 74.74}}
hybrid_gate/table4: {all: [3, 0, 30, 2173.00],
  hybrid_gate: {SeLn: 89.9, WC: 62.6, TDep: 44.9, ToCo: 78.4, BShif: 73.5, Tense: 88.5,
    SubN: 87.0, ObjN: 85.4, SoMo: 52.1, CoIn: 62.8}}
mma/table1: {all: [2, 0, 4, 115.37],
  transformer: {en-ja: 33.58, ja-en: 23.24}, transformer_mma: {en-ja: 34.39, ja-en: 24.16}}
mma/table2: {all: [7, 5, 7, 242.95], cited: variational_attention
  pervasive_attention multi_hop_attention dynamic_convolution rnmt_fine_tuned,
  transformer: {de-en: 34.46}, transformer_mma: {de-en: 35.41}}
mma/table3: {all: [2, 0, 4, 87.84], transformer_nopos: {de-en: 16.55, ja-en: 12.83},
  transformer_mma_nopos: {de-en: 34.66, ja-en: 23.80}}
mma/table4: {all: [5, 0, 5, 174.88], mma: {de-en: 35.41}}
mma/table5: {all: [4, 0, 4, 141.29], w1: {de-en: 35.41}}
alignment/table1: {all: [2, 0, 6, 134.10],
  rnn_nmt: {aer: 18.9, nist02_words: 22.11, thu_words: 11.21},
  transformer: {aer: 28.2, nist02_words: 25.50, thu_words: 28.18}}
alignment/table2: {all: [8, 0, 8, 248.10], head7: {aer: 28.2}}
alignment/table3: {all: [6, 0, 18, 496.18],
  heads1_last: {aer: 31.3, nist02_words: 23.35, thu_words: 28.30},
  heads8_average: {aer: 32.3, nist02_words: 25.50, thu_words: 28.18}}
alignment/table4: {all: [3, 0, 7, 141.02], giza: {aer: 19.3},
  rnn_nmt_supervised: {aer: 17.1, nist02_words: 22.21, thu_words: 11.72}}
alignment/table5: {all: [2, 0, 6, 158.65],
  forward_encoding_mask: {aer: 25.1, nist02_words: 26.66, thu_words: 27.49}}
alignment/table6: {all: [5, 0, 15, 404.13],
  decoder_lstm2: {aer: 25.2, nist02_words: 26.33, thu_words: 28.00}}
""")


def test_numbers_are_the_papers():
    found = {}
    for name, table in TABLES.items():
        papers = {
            row.name: {column: n for column, n in row.paper.items() if n is not None}
            for row in table.rows
        }
        numbers = [number for paper in papers.values() for number in paper.values()]
        cited = [row.name for row in table.rows if row.cited]
        counted = [len(table.rows), len(cited), len(numbers), round(sum(numbers), 2)]
        rows = {row: paper for row, paper in papers.items() if row in NUMBERS.get(name, ())}
        if numbers:
            found[name] = {"all": counted, **rows, **({"cited": " ".join(cited)} if cited else {})}
    assert found == NUMBERS


def test_what_this_version_cannot_measure_is_planned_by_name():
    maps = "pictures, which `fairseq-hybrid maps` makes of the run's model"
    probing = "`fairseq-hybrid probe` measures it on the run's model, given files of SentEval"
    assert {
        (name.rsplit("/", 2)[0], cell.planned)
        for name, cell in CELLS.items()
        if not cell.row.cited and cell.planned
    } == {
        *((table, maps) for table in ("hysan/figure5", "mma/figure3", "alignment/figure1")),
        *((table, probing) for table in ("hybrid_gate/table3", "hybrid_gate/table4")),
        ("hybrid_gate/figure2", "BLEU of the development set, a mean over the best 5 checkpoints"),
    }


#: Systems that are in several tables: where they are trained, and where else they appear.
SAME = yaml.safe_load("""
hysan/table1/base: table2a/baseline figure4/transformer
hysan/table1/e1: table2a/gated_sum figure4/hysan figure5/hysan
hysan/table2b/baseline: table3/transformer_base
hysan/table2b/gated_sum: table3/hysan_base
hysan/table2c/baseline: table3/transformer_big
hysan/table2c/gated_sum: table3/hysan_big
hybrid_gate/table1/transformer: table3/transformer table4/transformer
hybrid_gate/table1/local_pattern: table3/local_pattern table4/local_pattern
hybrid_gate/table1/hybrid_gate:
  table3/hybrid_gate table4/hybrid_gate figure2/window3 figure4/hybrid_gate
mma/table1/transformer_mma: figure3/transformer_mma
mma/table2/transformer: table4/transformer figure2/transformer
mma/table2/transformer_mma: table4/mma table5/w1 figure2/transformer_mma
alignment/table1/rnn_nmt: figure1/rnn_nmt figure2/rnn_nmt
alignment/table1/transformer: table2/head0 table2/head1 table2/head2 table2/head3 table2/head4
  table2/head5 table2/head6 table2/head7 table3/heads8_last table3/heads8_average
  figure1/transformer figure2/transformer
""")


def test_a_system_of_several_tables_is_trained_once():
    trained = {
        f"{system.split('/')[0]}/{row}": system for system in SAME for row in SAME[system].split()
    }
    assert trained == {
        f"{name}/{r.name}": r.run for name, table in TABLES.items() for r in table.rows if r.run
    }
    for name, cell in CELLS.items():
        row = name.rpartition("/")[0]
        assert cell.run_name.rpartition("/")[0] == trained.get(row, row)
    # Maps without positions are of the model that was trained without them.
    assert CELLS["hysan/figure5/hysan/nopos_maps"].run_name == "hysan/table1/e1/nopos"
    assert CELLS["hysan/figure5/hysan/maps"].run_name == "hysan/table1/e1/bleu"
    assert len({settings(name).digest for name in RUNS}) == len(RUNS) == 100


def items(mapping, before=()):
    """Keys and values of nested mappings: (("train", "lr"), "1")."""
    found = set()
    for key, value in mapping.items():
        nested = isinstance(value, dict)
        found |= items(value, (*before, key)) if nested else {((*before, key), str(value))}
    return found


def test_the_files_say_nothing_that_their_table_could_say():
    for name in TABLES:
        said = yaml.safe_load((CONFIGS / f"{name}.yaml").read_text())["rows"].values()
        said = [items({k: row[k] for k in ("extends", *KEYS) if k in row}) for row in said]
        assert len(said) == 1 or not set.intersection(*said), name


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


def rows(**rows):
    return {"toy/table1.yaml": {"rows": rows}}


def table(**content):
    return {"toy/table1.yaml": content}


def base(**content):
    return {"settings/toy.yaml": content}


def bare(**content):
    """Settings of which a key is replaced, not merged."""
    return {**table(extends="bare"), "settings/bare.yaml": {**SETTINGS, **content}}


#: What each mistake changes in small configurations, and what its message names.
WRONG = [
    (table(titel="T"), "toy/table1.yaml", "titel"),
    (rows(mixed={"trian": {}}), "toy/table1.yaml: rows: mixed", "trian"),
    (table(columns={"bleu": {"scor": "bleu"}}), "toy/table1.yaml: columns: bleu", "scor"),
    (base(tain={}), "settings/toy.yaml", "tain"),
    (rows(mixed={"batch": {"token": 5}}), "rows: mixed: batch: unknown token"),
    (table(extends="no"), "toy/table1.yaml", "no.yaml"),
    (rows(mixed={"extends": "no"}), "toy/table1.yaml: rows: mixed", "no.yaml"),
    (rows(same={"run": "toy/other/a"}), "toy/table1.yaml: rows: same", "toy/other"),
    (rows(same={"run": "toy/table1/c"}), "toy/table1", "no row c"),
    (table(baseline="c"), "toy/table1", "no row c"),
    (table(columns={"bleu": {"run": "ter"}}), "toy/table1", "no column ter"),
    (rows(mixed={"run": "toy/table1/plain"}), "rows: mixed", "toy/table1/plain"),
    (rows(plain={"paper": {"ter": 1.0}}), "toy/table1.yaml: rows: plain", "ter"),
    (rows(mixed={"train": {"seed": 1}}), "rows: mixed: train", "seed", "--seeds"),
    (base(train={"max-tokens": 9}), "settings/toy.yaml: train", "max-tokens", "batch"),
    (base(train={"user-dir": "x"}), "settings/toy.yaml: train", "user-dir runs a program"),
    (base(generate={"user-dir": "x"}), "settings/toy.yaml: generate", "user-dir runs a program"),
    (base(train={"user-dir=x": True}), "settings/toy.yaml: train", "user-dir=x: use the name of a"),
    (
        base(generate={"nbest": "--user-dir=x"}),
        "toy.yaml: generate",
        "would be read as another flag",
    ),
    (rows(mixed="a text"), "toy/table1.yaml: rows: mixed", "a mapping from keys"),
    (rows(mixed={"train": None}), "rows: mixed: train", "a mapping from keys"),
    (rows(mixed={"batch": 5}), "rows: mixed: batch", "a mapping from keys"),
    (rows(mixed={"paper": None}), "rows: mixed: paper", "a mapping from keys"),
    (rows(**{"..": {}}), "toy/table1.yaml: rows: ..", "use a name"),
    (rows(**{"b/c": {}}), "toy/table1.yaml: rows: b/c", "without slashes"),
    (table(rows=["a", "b"]), "toy/table1.yaml: rows", "a mapping from keys"),
    (base(train={"max-update": None}), "toy/table1.yaml: rows: plain", "max-update"),
    (rows(mixed={"checkpoints": {"unit": "hour"}}), "rows: mixed: checkpoints: unit: hour"),
    (rows(mixed={"batch": {"tokens": 0}}), "rows: mixed: batch: tokens: 0: use"),
    (bare(batch={}), "toy/table1.yaml: rows: plain", "batch: no tokens"),
    (bare(checkpoints={"every": 5}), "rows: plain", "checkpoints: no unit"),
    (bare(checkpoints={"unit": "update"}), "rows: plain", "checkpoints: no every"),
    (rows(mixed={"aligner": "giza"}), "rows: mixed: aligner: giza: use eflomal"),
    (base(checkpoints={"average": 7}), "rows: plain", "more than there will be by 150"),
    (base(checkpoints={"curve": 4}), "rows: plain", "not among"),  # 150 / 4
    (base(checkpoints={"curve": 10}), "rows: plain", "not among"),  # each 15, and saved each 25
    (base(checkpoints={"unit": "epoch", "curve": 2}), "rows: plain", "curve needs updates"),
    (
        base(checkpoints={"curve": 0}),
        "toy.yaml: checkpoints: curve: 0: use a whole number",
    ),
]


def resolve_all(configs):
    full = load_profile("full", configs)
    return {
        f"{name}/{cell.row.name}/{cell.column.name}": cell.settings(full)
        for name in table_names(configs)
        for cell in load_table(name, configs).cells()
    }


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


def test_mistakes_are_reported_by_file_and_key(tmp_path):
    for number, (changes, *told) in enumerate(WRONG):
        write_configs(tmp_path / str(number), **merge(FILES, changes))
        with pytest.raises(UserError) as error:
            resolve_all(tmp_path / str(number))
        for text in told:
            assert text in str(error.value), changes


def test_unknown_names_and_files_that_are_not_yaml_are_refused(tmp_path):
    write_configs(tmp_path)
    check_refusals([("toy/x", "toy/table1")], lambda name: load_table(name, tmp_path))
    check_refusals([("fool", "full")], lambda name: load_profile(name, tmp_path))
    path = tmp_path / "toy/table1.yaml"
    rows_last = path.read_text()
    check_refusals(
        [
            ("train: [unclosed\n", r"toy/table1\.yaml is not YAML"),
            (rows_last + "  plain: {}\n", r"toy/table1\.yaml .*duplicate key plain"),
        ],
        lambda text: path.write_text(text) and load_table("toy/table1", tmp_path),
    )
