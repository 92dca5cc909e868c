"""The configurations of the papers' tables say what the papers say, each thing once.

What the papers say is written down here a second time, from the papers, and compared with what
fairseq's command line makes of the files.
"""

import itertools
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
import yaml
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from rows import CELLS, CONFIGS, FULL, RUNS, TABLES, build, flags, parsed, settings

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.configuration.settings import KEYS, load_profile
from fairseq_hybrid_attn.lab.configuration.tables import load_table, table_names
from fairseq_hybrid_attn.lab.corpora.definition import load_corpus
from fairseq_hybrid_attn.lab.files.yaml_files import merge
from fairseq_hybrid_attn.lab.runs.command_lines import flags as flags_of

# --- settings -------------------------------------------------------------------------------


def peak(width, warmup, factor=1.0):
    """Of factor * width^-0.5 * min(step^-0.5, step * warmup^-1.5): its value at step = warmup."""
    return pytest.approx(factor * width**-0.5 * warmup**-0.5, rel=1e-5)


# Vaswani et al. 2017, which all follow: base size, optimiser, schedule, label smoothing.
VASWANI = {
    "layers": (6, 6),
    "width": (512, 512),
    "ffn": (2048, 2048),
    "heads": (8, 8),
    "dropout": (0.1, 0.0, 0.0),  # of residual connections, attention weights, activations
    "betas": (0.9, 0.98),
    "eps": 1e-9,
    "weight decay": 0.0,
    "clipping": 0.0,
    "schedule": "inverse_sqrt",
    "warm-up": 4000,
    "peak": peak(512, 4000),
    "loss": ("label_smoothed_cross_entropy", 0.1),
    "epochs": 0,
}
GNMT_06 = {"task": "translation_gnmt", "penalty": 0.6, "longest": (1, 49)}
HYSAN = VASWANI | GNMT_06 | {"beam": 4, "tied": "all", "evaluated": ("update", 1000, 5)}
SMALL = HYSAN | {
    "layers": (2, 2),
    "width": (256, 256),
    "ffn": (1024, 1024),
    "heads": (4, 4),
    "peak": peak(256, 4000),
    "tokens": 4096,
    "updates": 100_000,
    "corpus": "iwslt14.de-en.hysan",
    "score": "tokenised_bleu",
}
BASE = HYSAN | {
    "tokens": 8 * 4096,
    "updates": 100_000,
    "corpus": "wmt14.en-de.hysan",
    "score": "compound_split_bleu",
}
BIG = BASE | {
    "width": (1024, 1024),
    "ffn": (4096, 4096),
    "heads": (16, 16),
    "dropout": (0.3, 0.0, 0.0),
    "peak": peak(1024, 4000),
    "updates": 300_000,
    "evaluated": ("update", 1000, 20),
}
ZH_EN = BIG | {"tied": "decoder", "corpus": "wmt17.zh-en", "score": "bleu"}
XU = (
    VASWANI
    | GNMT_06
    | {
        "beam": 4,
        "tied": "none",
        "dropout": (0.1, 0.1, 0.1),
        "weight decay": 1e-7,
        "tokens": 25_000,
        "updates": 100_000,
        "evaluated": ("best bleu", 2000, 1),
        "corpus": "wmt14.en-de.hybrid_gate",
        "score": "nist_bleu",
    }
)
MMA = VASWANI | {
    "task": "translation",
    "penalty": 1,
    "longest": (0, 200),  # fairseq's default
    "beam": 5,
    "tokens": 4096,
    "updates": 0,
}
MMA_WAT = MMA | {
    "tied": "none",
    "epochs": 20,
    "evaluated": ("best loss", 5000, 1),
    "corpus": "wat17.ja-en.mma",
    "score": "wat_bleu",
}
MMA_IWSLT = MMA | {
    "tied": "decoder",
    "ffn": (1024, 1024),
    "heads": (4, 4),
    "dropout": (0.3, 0.0, 0.0),
    "weight decay": 1e-4,
    "epochs": 45,
    "evaluated": ("best loss", 1000, 1),
    "corpus": "iwslt14.de-en.mma",
    "score": "tokenised_bleu",
}
MA = VASWANI | {
    "task": "translation",
    "penalty": "none",
    "longest": (0, 200),
    "beam": 5,
    "tied": "none",
    "betas": (0.9, 0.998),
    "warm-up": 8000,
    "peak": peak(512, 8000, factor=2),
    "tokens": 8 * 4096,
    "updates": 50_000,
    "evaluated": ("best loss", 1000, 1),
    "corpus": "ldc.en-zh",
    "score": "bleu",
}
RNN = MA | {
    "layers": (2, 2),
    "ffn": (None, None),
    "heads": (None, None),
    "dropout": (0.3, None, None),
    "clipping": 5.0,
}

SUPERVISED = {"loss": ("label_smoothed_cross_entropy_with_supervised_attention", 0.1)}

#: Of tables, of rows or of columns; the most exact name counts.
PAPERS = {
    "hysan/table1": SMALL,
    "hysan/table2a": SMALL,
    "hysan/table2b": BASE,
    "hysan/table2c": BIG,
    "hysan/table3/transformer_base": BASE,
    "hysan/table3/hysan_base": BASE,
    "hysan/table3/transformer_big": BIG,
    "hysan/table3/hysan_big": BIG,
    "hysan/table4": ZH_EN,
    "hysan/figure4": SMALL,
    "hysan/figure5": SMALL,
    "hybrid_gate": XU,
    "hybrid_gate/table2": XU | {"corpus": "wat17.ja-en.hybrid_gate"},
    "mma/table1/en-ja": MMA_WAT | {"corpus": "wat17.en-ja.mma"},
    "mma/table1/ja-en": MMA_WAT,
    "mma/table2": MMA_IWSLT,
    "mma/table3/de-en": MMA_IWSLT,
    "mma/table3/ja-en": MMA_WAT,
    "mma/table4": MMA_IWSLT,
    "mma/table5": MMA_IWSLT,
    "mma/figure2": MMA_IWSLT,
    "mma/figure3": MMA_WAT,
    "alignment": MA,
    "alignment/table1/rnn_nmt": RNN,
    "alignment/table4/rnn_nmt_supervised": RNN | SUPERVISED,
    "alignment/table4/transformer_supervised": MA | SUPERVISED,
    "alignment/figure1/rnn_nmt": RNN,
    "alignment/figure2/rnn_nmt": RNN,
    **{f"alignment/table3/heads{h}_last": MA | {"heads": (h, h)} for h in (1, 2, 4, 16)},
}


def said_in_paper(name):
    paper, table, row, column = name.split("/")
    for key in (row, column, None):
        key = f"{paper}/{table}" + (f"/{key}" if key else "")
        if key in PAPERS:
            return PAPERS[key]
    return PAPERS[paper]


@cache
def decoding(words):
    parser = options.get_generation_parser()
    args = options.parse_args_and_arch(parser, ["data", "--path", "model.pt", *words])
    return convert_namespace_to_omegaconf(args)


def seen_by_fairseq(cell):
    chosen = cell.settings(FULL)
    cfg = parsed(flags(chosen))
    generate = dict(chosen.generate)
    task = "translation_gnmt" if "gnmt-lenpen" in generate else "translation"
    generating = decoding(tuple(flags_of({"task": task} | generate)))

    def both(name):
        """Of encoder and decoder; the decoder's size follows the encoder's if it has none."""
        encoder = getattr(cfg.model, f"encoder_{name}", None)
        decoder = getattr(cfg.model, f"decoder_{name}", None)
        return encoder, encoder if decoder is None else decoder

    def dropout(name):
        return getattr(cfg.model, name, None)

    shared = getattr(cfg.model, "share_all_embeddings", False)
    decoder_shared = getattr(cfg.model, "share_decoder_input_output_embed", False)
    best = chosen.checkpoints.unit == "best"
    if best and cfg.checkpoint.best_checkpoint_metric == "bleu":
        assert cfg.checkpoint.maximize_best_checkpoint_metric and cfg.task.eval_bleu
    else:
        assert not cfg.checkpoint.maximize_best_checkpoint_metric and not cfg.task.eval_bleu
    unit = f"best {cfg.checkpoint.best_checkpoint_metric}" if best else chosen.checkpoints.unit
    penalty = generating.generation.lenpen
    if task == "translation_gnmt":
        penalty = generating.task.gnmt_lenpen
    elif generating.generation.unnormalized:
        penalty = "none"
    (lr,) = cfg.optimization.lr
    assert cfg.optimizer._name == "adam" and not cfg.optimizer.use_old_adam
    assert cfg.lr_scheduler.warmup_init_lr < 0  # from 0
    return {
        "layers": both("layers"),
        "width": both("embed_dim"),
        "ffn": both("ffn_embed_dim"),
        "heads": both("attention_heads"),
        "dropout": tuple(map(dropout, ("dropout", "attention_dropout", "activation_dropout"))),
        "tied": "all" if shared else "decoder" if decoder_shared else "none",
        "betas": tuple(map(float, cfg.optimizer.adam_betas.strip("()").split(","))),
        "eps": cfg.optimizer.adam_eps,
        "weight decay": cfg.optimizer.weight_decay,
        "clipping": cfg.optimization.clip_norm,
        "schedule": cfg.lr_scheduler._name,
        "warm-up": cfg.lr_scheduler.warmup_updates,
        "peak": lr,
        "loss": (cfg.criterion._name, cfg.criterion.label_smoothing),
        "epochs": cfg.optimization.max_epoch,
        "updates": cfg.optimization.max_update,
        "tokens": chosen.batch.tokens,
        "evaluated": (unit, chosen.checkpoints.every, chosen.checkpoints.average),
        "corpus": chosen.corpus,
        "score": cell.owner.column.score,
        "task": generating.task._name,
        "beam": generating.generation.beam,
        "penalty": penalty,
        "longest": (generating.generation.max_len_a, generating.generation.max_len_b),
    }


def test_settings_are_the_papers():
    for name, cell in CELLS.items():
        if not cell.row.cited:
            assert {"cell": name, **seen_by_fairseq(cell)} == {"cell": name, **said_in_paper(name)}


def test_checkpoints_are_chosen_with_the_beam_and_limit_of_decoding():
    for name in [name for name in RUNS if name.startswith("hybrid_gate/")]:
        gnmt = settings(name).generate
        chosen = yaml.safe_load(settings(name).train["eval-bleu-args"])
        assert chosen == {
            "beam": gnmt["beam"],
            "lenpen": gnmt["gnmt-lenpen"],
            "max_len_a": gnmt["max-len-a"],
            "max_len_b": gnmt["max-len-b"],
        }


def test_scores_are_those_that_the_recipes_compute():
    for name, cell in RUNS.items():
        corpus = load_corpus(settings(name).corpus, CONFIGS)
        assert cell.column.score in corpus.scores, name


def test_embeddings_are_shared_between_languages_only_where_the_vocabulary_is():
    for name in RUNS:
        if "share-all-embeddings" in settings(name).train:
            assert load_corpus(settings(name).corpus, CONFIGS).subwords.joint, name


ARCHITECTURES = {settings(name).train["arch"]: name for name in RUNS}


def test_every_architecture_can_be_built_small():
    for arch in ARCHITECTURES:
        build(flags(CELLS[ARCHITECTURES[arch]].settings(load_profile("small", CONFIGS))))


# --- the papers' numbers ----------------------------------------------------------------------

# Rows, numbers that the paper reports in them, and the sum of these.
COUNTS = {
    "hysan/table1": (19, 38, 1097.01),
    "hysan/table2a": (4, 4, 127.75),
    "hysan/table2b": (4, 4, 110.30),
    "hysan/table2c": (4, 4, 114.10),
    "hysan/table3": (10, 10, 264.60),
    "hysan/table4": (5, 5, 122.87),
    "hysan/figure4": (2, 0, 0),
    "hysan/figure5": (1, 0, 0),
    "hybrid_gate/table1": (7, 7, 196.30),
    "hybrid_gate/table2": (3, 3, 84.99),
    "hybrid_gate/table3": (3, 9, 651.18),
    "hybrid_gate/table4": (3, 30, 2173.00),
    "hybrid_gate/figure2": (5, 0, 0),
    "hybrid_gate/figure3": (1, 0, 0),
    "hybrid_gate/figure4": (1, 0, 0),
    "mma/table1": (2, 4, 115.37),
    "mma/table2": (7, 7, 242.95),
    "mma/table3": (2, 4, 87.84),
    "mma/table4": (5, 5, 174.88),
    "mma/table5": (4, 4, 141.29),
    "mma/figure2": (2, 0, 0),
    "mma/figure3": (1, 0, 0),
    "alignment/table1": (2, 6, 134.10),
    "alignment/table2": (8, 8, 248.10),
    "alignment/table3": (6, 18, 496.18),
    "alignment/table4": (3, 7, 141.02),
    "alignment/table5": (2, 6, 158.65),
    "alignment/table6": (5, 15, 404.13),
    "alignment/figure1": (2, 0, 0),
    "alignment/figure2": (2, 0, 0),
}

# Baselines and best rows, copied from the papers.
REPORTED = {
    "hysan/table1/base": {"bleu": 31.27, "nopos": 15.56},
    "hysan/table1/b3": {"bleu": 31.92, "nopos": 27.67},
    "hysan/table1/c5": {"bleu": 32.16, "nopos": 30.68},
    "hysan/table1/d4": {"bleu": 31.49, "nopos": 15.70},
    "hysan/table1/e1": {"bleu": 32.28, "nopos": 30.69},
    "hysan/table1/e2": {"bleu": 32.29, "nopos": 30.72},
    "hysan/table2a/baseline": {"bleu": 31.27},
    "hysan/table2a/gated_sum": {"bleu": 32.28},
    "hysan/table2b/baseline": {"bleu": 27.3},
    "hysan/table2b/gated_sum": {"bleu": 27.9},
    "hysan/table2c/baseline": {"bleu": 28.4},
    "hysan/table2c/sum": {"bleu": 28.2},
    "hysan/table2c/gated_sum": {"bleu": 28.8},
    "hysan/table3/convs2s_ensemble": {"bleu": 26.36},
    "hysan/table3/hysan_big": {"bleu": 28.8},
    "hysan/table4/transformer_big": {"bleu": 24.20},
    "hysan/table4/hysan_big": {"bleu": 25.27},
    "hysan/table4/sogou_nmt": {"bleu": 26.40},
    "hybrid_gate/table1/transformer": {"bleu": 27.67},
    "hybrid_gate/table1/hybrid_gate": {"bleu": 28.31},
    "hybrid_gate/table2/transformer": {"bleu": 28.10},
    "hybrid_gate/table2/hybrid_gate": {"bleu": 28.66},
    "hybrid_gate/table3/local_pattern": {"surface": 77.15, "syntactic": 66.00, "semantic": 74.74},
    "hybrid_gate/table4/hybrid_gate": {
        "SeLn": 89.9,
        "WC": 62.6,
        "TDep": 44.9,
        "ToCo": 78.4,
        "BShif": 73.5,
        "Tense": 88.5,
        "SubN": 87.0,
        "ObjN": 85.4,
        "SoMo": 52.1,
        "CoIn": 62.8,
    },
    "mma/table1/transformer": {"en-ja": 33.58, "ja-en": 23.24},
    "mma/table1/transformer_mma": {"en-ja": 34.39, "ja-en": 24.16},
    "mma/table2/transformer": {"de-en": 34.46},
    "mma/table2/transformer_mma": {"de-en": 35.41},
    "mma/table3/transformer_nopos": {"de-en": 16.55, "ja-en": 12.83},
    "mma/table3/transformer_mma_nopos": {"de-en": 34.66, "ja-en": 23.80},
    "mma/table4/mma": {"de-en": 35.41},
    "mma/table5/w1": {"de-en": 35.41},
    "alignment/table1/rnn_nmt": {"aer": 18.9, "nist02": 22.11, "thu": 11.21},
    "alignment/table1/transformer": {"aer": 28.2, "nist02": 25.50, "thu": 28.18},
    "alignment/table2/head7": {"aer": 28.2},
    "alignment/table3/heads1_last": {"aer": 31.3, "nist02": 23.35, "thu": 28.30},
    "alignment/table3/heads8_average": {"aer": 32.3, "nist02": 25.50, "thu": 28.18},
    "alignment/table4/rnn_nmt_supervised": {"aer": 17.1, "nist02": 22.21, "thu": 11.72},
    "alignment/table4/giza": {"aer": 19.3},
    "alignment/table5/forward_encoding_mask": {"aer": 25.1, "nist02": 26.66, "thu": 27.49},
    "alignment/table6/decoder_lstm2": {"aer": 25.2, "nist02": 26.33, "thu": 28.00},
}


def test_all_numbers_are_there():
    counted = {}
    for name, table in TABLES.items():
        numbers = [number for row in table.rows for number in row.paper.values()]
        counted[name] = (len(table.rows), len(numbers), round(sum(numbers), 2))
    assert counted == COUNTS
    assert sum(numbers for _, numbers, _ in COUNTS.values()) == 198


def test_reported_numbers():
    for name in REPORTED:
        table, _, row = name.rpartition("/")
        assert TABLES[table].row(row).paper == REPORTED[name], name


def test_cited_systems():
    cited = {
        f"{name}/{row.name}" for name, table in TABLES.items() for row in table.rows if row.cited
    }
    assert cited == {
        *(f"hysan/table3/{r}" for r in "bytenet gnmt_rl convs2s moe".split()),
        *(f"hysan/table3/{r}_ensemble" for r in "gnmt_rl convs2s".split()),
        *(f"hysan/table4/{r}_nmt" for r in "sogou xmu uedin".split()),
        *(f"mma/table2/{kind}_attention" for kind in ("variational", "pervasive", "multi_hop")),
        "mma/table2/dynamic_convolution",
        "mma/table2/rnmt_fine_tuned",
    }


# --- what is planned --------------------------------------------------------------------------


def test_what_this_version_cannot_measure_is_planned_by_name():
    planned = {}
    for name, cell in CELLS.items():
        if not cell.row.cited and cell.planned:
            planned.setdefault("/".join(name.split("/")[:2]), set()).add(cell.planned)
    maps = {"pictures, which `fairseq-hybrid maps` makes of the run's model"}
    probing = {"`fairseq-hybrid probe` measures it on the run's model, given files of SentEval"}
    assert planned == {
        "hysan/figure5": maps,
        "hybrid_gate/table3": probing,
        "hybrid_gate/table4": probing,
        "hybrid_gate/figure2": {"BLEU of the development set, a mean over the best 5 checkpoints"},
        "mma/figure3": maps,
        "alignment/figure1": maps,
    }


# --- each thing once --------------------------------------------------------------------------

#: Rows that are a system of another table.
SAME = {
    "hysan/table2a/baseline": "hysan/table1/base",
    "hysan/table2a/gated_sum": "hysan/table1/e1",
    "hysan/table3/transformer_base": "hysan/table2b/baseline",
    "hysan/table3/hysan_base": "hysan/table2b/gated_sum",
    "hysan/table3/transformer_big": "hysan/table2c/baseline",
    "hysan/table3/hysan_big": "hysan/table2c/gated_sum",
    "hysan/figure4/transformer": "hysan/table1/base",
    "hysan/figure4/hysan": "hysan/table1/e1",
    "hysan/figure5/hysan": "hysan/table1/e1",
    **{
        f"hybrid_gate/{table}/{row}": f"hybrid_gate/table1/{row}"
        for table in ("table3", "table4")
        for row in ("transformer", "local_pattern", "hybrid_gate")
    },
    "hybrid_gate/figure2/window3": "hybrid_gate/table1/hybrid_gate",
    "hybrid_gate/figure4/hybrid_gate": "hybrid_gate/table1/hybrid_gate",
    "mma/table4/transformer": "mma/table2/transformer",
    "mma/table4/mma": "mma/table2/transformer_mma",
    "mma/table5/w1": "mma/table2/transformer_mma",
    "mma/figure2/transformer": "mma/table2/transformer",
    "mma/figure2/transformer_mma": "mma/table2/transformer_mma",
    "mma/figure3/transformer_mma": "mma/table1/transformer_mma",
    **{f"alignment/table2/head{h}": "alignment/table1/transformer" for h in range(8)},
    "alignment/table3/heads8_last": "alignment/table1/transformer",
    "alignment/table3/heads8_average": "alignment/table1/transformer",
    **{
        f"alignment/{figure}/{row}": f"alignment/table1/{row}"
        for figure in ("figure1", "figure2")
        for row in ("rnn_nmt", "transformer")
    },
}


def test_rows_of_other_tables():
    same = {
        f"{name}/{r.name}": r.run for name, table in TABLES.items() for r in table.rows if r.run
    }
    assert same == SAME
    for name, cell in CELLS.items():
        row = name.rpartition("/")[0]
        assert cell.run_name.rpartition("/")[0] == SAME.get(row, row)


def test_nopos_attention_maps_are_of_the_model_without_positions():
    assert CELLS["hysan/figure5/hysan/nopos_maps"].run_name == "hysan/table1/e1/nopos"
    assert CELLS["hysan/figure5/hysan/maps"].run_name == "hysan/table1/e1/bleu"


def test_nothing_is_trained_twice():
    digests = Counter(settings(name).digest for name in RUNS)
    assert len(digests) == len(RUNS) == 96


def test_the_files_say_nothing_that_their_table_could_say():
    for name in TABLES:
        said = yaml.safe_load((CONFIGS / f"{name}.yaml").read_text())["rows"].values()
        said = [dict(items({k: row[k] for k in ("extends", *KEYS) if k in row})) for row in said]
        if len(said) > 1:
            common = set.intersection(*(set(row.items()) for row in said))
            assert not common, f"{name}: {common}"


def test_no_layer_repeats_what_lies_below_it():
    for path in sorted(CONFIGS / f"{name}.yaml" for name in table_names(CONFIGS)):
        content = yaml.safe_load(path.read_text())
        below = inherited(content)
        repeated = set(items(below)) & set(items(content)) - {("extends", content.get("extends"))}
        assert not repeated, f"{path}: {repeated}"
    for path in sorted((CONFIGS / "settings").glob("*.yaml")):
        content = yaml.safe_load(path.read_text())
        repeated = set(items(inherited(content))) & set(items(content))
        assert not repeated, f"{path}: {repeated}"


def items(mapping, before=()):
    """Keys and values of nested mappings: (("train", "lr"), "1")."""
    for key, value in mapping.items():
        if isinstance(value, dict):
            yield from items(value, (*before, key))
        elif key in (*KEYS, "extends") or before:
            yield (*before, key), str(value)


def inherited(content):
    """What the files that ``extends`` names say together."""
    if "extends" not in content:
        return {}
    base = yaml.safe_load((CONFIGS / "settings" / f"{content['extends']}.yaml").read_text())
    base = merge(inherited(base), base)
    base.pop("extends", None)
    return base


def test_every_setting_of_the_files_is_used():
    extended = set()
    for path in CONFIGS.rglob("*.yaml"):
        if path.parent.name != "corpora":
            extended |= set(names_extended(yaml.safe_load(path.read_text()) or {}))
    assert extended == {path.stem for path in (CONFIGS / "settings").glob("*.yaml")}


def names_extended(mapping):
    for key, value in mapping.items():
        if key == "extends":
            yield value
        elif isinstance(value, dict):
            yield from names_extended(value)


def test_a_table_begins_with_its_command():
    for name in TABLES:
        first = (CONFIGS / f"{name}.yaml").read_text().split("\n")[0]
        assert first == f"# scripts/reproduce.sh {name}", name


DOCS = CONFIGS.parent / "docs" / "papers"


def test_a_page_has_every_table_of_its_paper_with_its_number_of_runs():
    for paper in sorted({name.split("/")[0] for name in TABLES}):
        told = {}
        for line in (DOCS / f"{paper}.md").read_text().split("\n"):
            if re.match(r"\| `", line):
                first, _, runs = line.split("|")[1:4]
                names = re.findall(r"(?:table|figure)\w+", first)
                told.update(dict.fromkeys(names, numbers(runs)))
        own = Counter(name.split("/")[1] for name in RUNS if name.startswith(f"{paper}/"))
        assert told == {
            n.split("/")[1]: own[n.split("/")[1]] for n in TABLES if n.startswith(f"{paper}/")
        }


def numbers(text):
    """The sum of the numbers in a text, but for those of "3 of 4"."""
    return sum(map(int, re.findall(r"(?<!of )\b\d+\b", text)))


def test_commands_of_the_pages_name_tables_and_rows_that_exist():
    commands = [
        line.split("#")[0].split()[1:]
        for page in [*DOCS.glob("*.md"), CONFIGS / "README.md"]
        for line in page.read_text().split("\n")
        if line.startswith("    scripts/reproduce.sh ")
    ]
    assert len(commands) > 8
    for table, *arguments in commands:
        for row in itertools.takewhile(lambda word: not word.startswith("--"), arguments):
            TABLES[table].row(row)


def test_full_changes_nothing():
    assert FULL.is_full and FULL.summary


# --- mistakes ---------------------------------------------------------------------------------

GOOD = {
    "settings/base.yaml": {
        "corpus": "own",
        "train": {"arch": "transformer", "max-update": 10},
        "batch": {"tokens": 100},
        "checkpoints": {"unit": "update", "every": 5},
        "generate": {"beam": 4},
    },
    "p/t.yaml": {
        "title": "T",
        "extends": "base",
        "columns": {"bleu": {}},
        "rows": {"a": {"paper": {"bleu": 1.0}}, "b": {"train": {"dropout": 0.2}}},
    },
}


def rows(**rows):
    return {"p/t.yaml": {"rows": rows}}


def table(**content):
    return {"p/t.yaml": content}


def base(**content):
    return {"settings/base.yaml": content}


#: What each mistake changes, and what its message names.
WRONG = [
    (table(titel="T"), "p/t.yaml", "titel"),
    (rows(b={"trian": {}}), "p/t.yaml: rows: b", "trian"),
    (table(columns={"bleu": {"scor": "bleu"}}), "p/t.yaml: columns: bleu", "scor"),
    (base(tain={}), "base.yaml", "tain"),
    (rows(b={"batch": {"token": 5}}), "p/t/b", "batch", "token"),
    (table(extends="no"), "p/t.yaml", "no.yaml"),
    (rows(b={"extends": "no"}), "p/t.yaml: rows: b", "no.yaml"),
    (rows(a={"run": "p/other/a"}), "p/t.yaml: rows: a", "p/other"),
    (rows(a={"run": "p/t/c"}), "p/t", "no row c"),
    (table(baseline="c"), "p/t", "no row c"),
    (table(columns={"bleu": {"run": "aer"}}), "p/t", "no column aer"),
    (rows(b={"run": "p/t/a"}), "p/t.yaml: rows: b", "p/t/a"),
    (rows(a={"paper": {"ter": 1.0}}), "p/t.yaml: rows: a", "ter"),
    (rows(b={"train": {"seed": 1}}), "p/t/b", "seed", "--seeds"),
    (base(train={"max-tokens": 9}), "p/t/", "max-tokens", "batch"),
    (rows(b="a text"), "p/t.yaml: rows: b", "a mapping from keys"),
    (rows(b={"train": None}), "p/t.yaml: rows: b: train", "a mapping from keys"),
    (rows(b={"batch": 5}), "p/t.yaml: rows: b: batch", "a mapping from keys"),
    (rows(b={"paper": None}), "p/t.yaml: rows: b: paper", "a mapping from keys"),
    (rows(**{"..": {}}), "p/t.yaml: rows: ..", "use a name"),
    (rows(**{"b/c": {}}), "p/t.yaml: rows: b/c", "without a slash"),
    ({"p/t.yaml": {"rows": ["a", "b"]}}, "p/t.yaml: rows", "a mapping from names"),
    (base(train={"max-update": None}), "p/t/", "max-update"),
    (rows(b={"checkpoints": {"unit": "hour"}}), "p/t/b", "checkpoints", "unit"),
    (rows(b={"batch": {"tokens": 0}}), "p/t/b", "batch: tokens", "0"),
]


def write(folder: Path, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(content, sort_keys=False))
    (folder / "profiles").mkdir()
    (folder / "profiles" / "full.yaml").write_text("summary: all\n")


def resolve_all(configs):
    full = load_profile("full", configs)
    return {
        f"{name}/{cell.row.name}/{cell.column.name}": cell.settings(full)
        for name in table_names(configs)
        for cell in load_table(name, configs).cells()
    }


def test_the_example_without_mistakes(tmp_path):
    write(tmp_path, GOOD)
    resolved = resolve_all(tmp_path)
    assert sorted(resolved) == ["p/t/a/bleu", "p/t/b/bleu"]
    assert resolved["p/t/a/bleu"].train == {"arch": "transformer", "max-update": 10}
    assert resolved["p/t/b/bleu"].train["dropout"] == 0.2


def test_null_and_false_take_a_flag_away_and_zero_does_not(tmp_path):
    train = {"arch": None, "dropout": 0, "fp16": False, "max-update": 7}
    write(tmp_path, merge(GOOD, rows(b={"train": train})))
    assert resolve_all(tmp_path)["p/t/b/bleu"].train == {"dropout": 0, "max-update": 7}


def test_mistakes_are_told_by_file_and_key(tmp_path):
    for number, (changes, *told) in enumerate(WRONG):
        write(tmp_path / str(number), merge(GOOD, changes))
        with pytest.raises(UserError) as error:
            resolve_all(tmp_path / str(number))
        for text in told:
            assert text in str(error.value), changes


def test_files_that_are_not_yaml_and_names_that_stand_twice_are_told(tmp_path):
    write(tmp_path, GOOD)
    path = tmp_path / "p/t.yaml"
    whole = path.read_text()
    path.write_text("train: [unclosed\n")
    with pytest.raises(UserError, match=r"p/t\.yaml is not YAML"):
        resolve_all(tmp_path)
    path.write_text(whole + "  a: {}\n")  # rows come last
    with pytest.raises(UserError, match=r"p/t\.yaml .*a is there twice"):
        resolve_all(tmp_path)


def test_a_table_in_the_form_of_before_is_told_the_new_one(tmp_path):
    """Also where a row of yours has stayed behind, which would be ignored silently."""
    write(tmp_path, {**GOOD, "p/old/table.yaml": {}, "p/t/mine.yaml": {}})
    for name in ("old", "t"):
        with pytest.raises(UserError, match=rf"under rows: in .*p/{name}\.yaml"):
            load_table(f"p/{name}", tmp_path)


def test_unknown_profiles_and_tables_are_told_with_the_known_ones(tmp_path):
    write(tmp_path, GOOD)
    with pytest.raises(UserError, match="full"):
        load_profile("fool", tmp_path)
    with pytest.raises(UserError, match="p/t"):
        load_table("p/x", tmp_path)
