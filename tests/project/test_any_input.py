"""Files that others made, changed at random: every command ends soon, in a result or a sentence.

Whatever a configuration, a manifest, a result, links of words or the output of fairseq-generate
says: no traceback, no file written or deleted outside of the workspace, no loop.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import shutil
import signal
from pathlib import Path

import pytest
import yaml
from cli import changed_folder
from corpora_made import skip_preprocess
from made_runs import REFERENCES, MadeWorkspace, worse, write_lines
from workspaces import FILES, write_yaml

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.commands.command_line import main
from fairseq_hybrid_attn.lab.plan import scheduler

hypothesis = pytest.importorskip("hypothesis")
st = pytest.importorskip("hypothesis.strategies")

SECONDS = 60  # for one command, on a busy machine
#: A few seconds of fixed examples always, and many more among the slow tests.
EXAMPLES = pytest.mark.parametrize(
    "examples", [15, pytest.param(200, marks=pytest.mark.slow)], ids=["few", "many"]
)

NAMES = (
    ["", " ", ".", "..", "../../../victim", "/victim", "a/b", "-out", "~", "null", "toy", "bleu"]
    + ["bleu.x", "aer.head2", "source", "update", "\0", "\u2028", "\ud800", "ß", "{language}"]
    + ["9" * 5000, "x" * 300, "1e400", "toy/table1", "toy/table1/plain", "plain/bleu - same/bleu"]
)
TEXTS = st.sampled_from(NAMES) | st.text(max_size=6)
NUMBERS = st.sampled_from([-1, 0, 1, 2, 3, 2**70, 0.5, -0.0, float("nan"), float("inf")])
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def changed(draw, content: object) -> object:
    """Plain data with one to three of its values, or keys, replaced, added or removed."""
    content = copy.deepcopy(content)
    for _ in range(draw(st.integers(1, 3))):
        place = content
        while isinstance(place, (dict, list)) and place:
            keys = list(place) if isinstance(place, dict) else range(len(place))
            key = draw(st.sampled_from(keys))
            deeper = isinstance(place[key], (dict, list)) and place[key]
            if deeper and draw(st.integers(0, 3)):
                place = place[key]
                continue
            how = draw(st.sampled_from(["value", "value", "other key", "gone", "more"]))
            if how == "value" or isinstance(place, list):
                place[key] = draw(VALUES)
            elif how == "more":
                place[draw(TEXTS)] = draw(VALUES)
            else:
                value = place.pop(key)
                if how == "other key":
                    place[draw(TEXTS)] = value
            break
        else:
            return draw(VALUES)
    return content


def check(examples: int, strategy: st.SearchStrategy, run) -> None:
    """``run`` ends well for many examples of a strategy, the same ones each time."""
    fixed = hypothesis.settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        phases=[hypothesis.Phase.generate],  # the failing example is small as it is
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    fixed(hypothesis.given(strategy)(run))()


@contextlib.contextmanager
def soon():
    def stop(*_):
        raise AssertionError(f"not finished after {SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def ends_well(arguments: list[str], place: Path) -> None:
    """A command ends in this process, if not well then with a message and no other exception."""
    printed = io.StringIO()
    streams = contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed)
    with soon(), changed_folder(place), streams[0], streams[1]:
        try:
            main(arguments)
        except SystemExit as end:  # a UserError is one; the parser of arguments has printed its own
            assert isinstance(end.code, str) or end.code in (0, 2) and printed.getvalue()
    assert "Traceback" not in printed.getvalue()


class Surroundings:
    """A workspace in a folder, with other folders around it that must not change."""

    def __init__(self, made: MadeWorkspace, folder: Path):
        self.folder, self.place = folder, folder / "a/b/here"
        self.original = made.folder
        (folder / "a/b").mkdir(parents=True)
        for name in ("victim", "a/victim"):
            write_lines(folder / name / "file", ["precious"])
        self.before = self.outside()

    def outside(self) -> dict[Path, bytes]:
        return {
            path: path.read_bytes()
            for path in self.folder.rglob("*")
            if path.is_file() and self.place not in path.parents
        }

    @contextlib.contextmanager
    def fresh(self):
        """A copy of the workspace, after whose use nothing has changed around it."""
        shutil.rmtree(self.place, ignore_errors=True)
        shutil.copytree(self.original, self.place, symlinks=True)
        yield self.place
        assert self.outside() == self.before


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> MadeWorkspace:
    """Two finished runs, one of them stale."""
    made = MadeWorkspace(tmp_path_factory.mktemp("made"))
    made.finish(made.run("plain"), worse(REFERENCES, 0.3, 1))
    made.finish(made.run("mixed"), worse(REFERENCES, 0.2, 2), aer={"value": 1.0, "signature": ""})
    made.make_stale(made.run("mixed"))
    return made


@pytest.fixture
def around(made, tmp_path) -> Surroundings:
    return Surroundings(made, tmp_path)


WORKSPACE = "--configs configs --text text --output out".split()
OF_TABLES = [
    "table toy/table1",
    "show toy/table1/mixed",
    "show toy/table1/plain --settings",
    "runs",
    "reproduce toy/table1 --dry-run --device cpu",
    "reproduce toy/table1 --redo --device cpu",
]


@EXAMPLES
def test_configurations(around, monkeypatch, examples):
    skip_preprocess(monkeypatch)
    monkeypatch.setattr(scheduler, "execute_here", lambda *given: [])  # nothing is trained
    files = st.sampled_from(sorted(FILES)).flatmap(
        lambda name: st.tuples(st.just(name), changed(FILES[name]))
    )

    def run(file, command):
        name, content = file
        with around.fresh() as place:
            try:
                write_yaml(place / "configs" / name, content)
            except (yaml.YAMLError, UnicodeEncodeError):  # not every text can be written
                return
            ends_well([*command.split(), *WORKSPACE], place)

    check(examples, st.tuples(files, st.sampled_from(OF_TABLES)), lambda one: run(*one))


@EXAMPLES
def test_manifests_and_results(around, examples):
    own = sorted(
        path.relative_to(around.original) for path in (around.original / "out").rglob("*.json")
    )
    assert {path.name for path in own} >= {"manifest.json", "result.json", "begun.json"}
    files = st.sampled_from(own).flatmap(
        lambda path: st.tuples(
            st.just(path), changed(json.loads((around.original / path).read_text()))
        )
    )
    commands = OF_TABLES[:5]

    def run(file, command):
        path, content = file
        with around.fresh() as place:
            (place / path).write_text(json.dumps(content))
            ends_well([*command.split(), *WORKSPACE], place)

    check(examples, st.tuples(files, st.sampled_from(commands)), lambda one: run(*one))


LINKS = "0-0 1-1 1:2 2p1 1?1 0-1P 1-0/0 1-1-S 1 2 S P 1.0 0-99999999999 -1-0 ¹-² x".split()
OUTPUT = ["S-0", "H-0", "H-1", "H-01", "D-0", "T-0", f"H-{'9' * 5000}", "H-", "H--1", "-0.5", "ein"]
OUTPUT += ["Ha@@", "us", "\u2581Haus", "&apos;", "@-@", "\r", "nan", "H-²"]


def texts(words: list[str], between: str) -> st.SearchStrategy:
    """Up to five lines of these words, or others, and an odd end."""
    line = st.lists(st.sampled_from([*words, "9" * 5000]) | TEXTS, max_size=4).map(between.join)
    whole = st.lists(line, max_size=5).map("\n".join)
    ends = st.just(b"\n") | st.binary(max_size=8)
    return st.builds(lambda one, end: one.encode("utf-8", "surrogatepass") + end, whole, ends)


@EXAMPLES
def test_links_of_words_and_output_of_fairseq_generate(around, examples):
    sets = VALUES | changed({"test": 1, "news": 1})
    kinds = st.sampled_from(["subword-nmt moses", "sentencepiece none", "none given"])

    def run(links, gold, base, generated, sets, kind, missing):
        subwords, tokenizer = kind.split()
        with around.fresh() as place:
            for name, content in {"links": links, "gold": gold, "generated": generated}.items():
                (place / name).write_bytes(content)
            (place / "sets.json").write_text(json.dumps(sets))
            write_lines(place / "reference", ["Ein Haus.", "Noch ein Haus."])
            ends_well(["aer", "links", "--gold", "gold", "--gold-base", base], place)
            flags = ["--reference", "reference", "--target-lang", "de", "--subwords", subwords]
            flags += ["--tokenizer", tokenizer, "--missing", missing, "--test-sets", "sets.json"]
            ends_well(["score", "--generated", "generated", *flags], place)

    links, bases = texts(LINKS, " "), st.sampled_from(["0", "1"])
    missing = st.sampled_from(["empty", "error"])
    strategy = st.tuples(links, links, bases, texts(OUTPUT, "\t"), sets, kinds, missing)
    check(examples, strategy, lambda one: run(*one))


def test_a_path_that_cannot_be_used_is_told(tmp_path):
    with pytest.raises(UserError, match="runs: File name too long$"):
        main(["runs", "--output", str(tmp_path / ("x" * 300))])
