"""GNMT's length penalty, against all possible hypotheses and in fairseq's commands."""

import itertools
import math
import re
from argparse import Namespace

import pytest
import torch
from cli import USER_DIR, generate, run
from fairseq.models import FairseqEncoder, FairseqEncoderDecoderModel, FairseqIncrementalDecoder
from fairseq.tasks import TASK_DATACLASS_REGISTRY
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from models import EOS, PAD, build_tiny, dictionary, logits, pad

from fairseq_hybrid_attn import UserError
from fairseq_hybrid_attn.tasks.gnmt import TranslationGnmtTask, length_penalty

SKIP = "--skip-invalid-size-inputs-valid-test"


def task(symbols: int, alpha: float) -> TranslationGnmtTask:
    words = dictionary(symbols)
    config = TASK_DATACLASS_REGISTRY["translation_gnmt"](gnmt_lenpen=alpha)
    return TranslationGnmtTask(config, words, words)


def search(model, words, alpha, *, allowed, sources=((5, 6, 7, EOS),), beam=60, **settings):
    """All finished hypotheses of a beam search in which only ``allowed`` words occur."""
    generation = Namespace(beam=beam, unkpen=math.inf, **settings)
    suppressed = [word for word in words.symbols if words.index(word) not in (1, 2, 3, *allowed)]
    generator = task(len(words) - 4, alpha).build_generator(
        [model], generation, extra_gen_cls_kwargs={"tokens_to_suppress": suppressed}
    )
    tokens = pad([list(source) for source in sources], PAD, left=True)
    sample = {"net_input": {"src_tokens": tokens, "src_lengths": tokens.ne(PAD).sum(1)}}
    return generator.generate([model], sample)


def log_probability(model, source, target) -> float:
    """The log-probability of a target that the model is fed at once."""
    output = logits(model, [list(source)], [[EOS, *target[:-1]]])[0]
    return output.log_softmax(-1)[range(len(target)), list(target)].sum().item()


def test_the_formula():
    for length, alpha, penalty in (
        *((1, 0.6, 1), (7, 1, 2), (7, 0.5, math.sqrt(2)), (19, 2, 16), (123, 0, 1)),
    ):
        assert length_penalty(length, alpha) == pytest.approx(penalty)


def test_all_hypotheses_and_their_scores(double_softmax):
    """A wide beam finishes every target of up to four words.  They are listed here, scored by the
    model at once and ranked by the definition."""
    model, words, allowed = build_tiny("mma", symbols=70).double(), dictionary(70), (10, 11)
    sources = [(5, 6, 7, 8, EOS), (9, EOS)]
    targets = [
        (*target, EOS) for n in range(1, 5) for target in itertools.product(allowed, repeat=n)
    ]
    assert len(targets) == 2 + 4 + 8 + 16
    exact = [{t: log_probability(model, source, t) for t in targets} for source in sources]
    limits = {"allowed": allowed, "sources": sources, "max_len_a": 0, "max_len_b": 4}
    for alpha in (0, 0.6, 2.5):
        found = search(model, words, alpha, **limits)
        for of_targets, hypotheses in zip(exact, found, strict=True):
            # The length counts the end symbol.
            expected = {t: p / ((5 + len(t)) / 6) ** alpha for t, p in of_targets.items()}
            best = sorted(expected, key=expected.get, reverse=True)
            assert [tuple(h["tokens"].tolist()) for h in hypotheses] == best
            for hypothesis in hypotheses:
                target = tuple(hypothesis["tokens"].tolist())
                assert hypothesis["score"].item() == pytest.approx(expected[target], abs=1e-5)
                total = hypothesis["positional_scores"].sum().item()
                assert total == pytest.approx(of_targets[target], abs=1e-5)


# -- A model whose probabilities are known -----------------------------------------------------


class NoEncoder(FairseqEncoder):
    def forward(self, src_tokens, src_lengths=None):
        return {"encoder_out": [src_tokens]}

    def reorder_encoder_out(self, encoder_out, new_order):
        return encoder_out


class TableDecoder(FairseqIncrementalDecoder):
    """The probability of the next word, by the words so far."""

    def __init__(self, words, table):
        super().__init__(words)
        self.table = table

    def forward(self, prev_output_tokens, encoder_out=None, incremental_state=None, **kwargs):
        rows = [self._row(tuple(prefix[1:])) for prefix in prev_output_tokens.tolist()]
        return torch.stack(rows).unsqueeze(1), None

    def _row(self, prefix):
        row = torch.full((len(self.dictionary),), 1e-12)
        for word, probability in self.table(prefix).items():
            row[word] = probability
        return row.log()

    def get_normalized_probs(self, net_output, log_probs, sample=None):
        return net_output[0]

    def max_positions(self):
        return 1000


def table_model(table):
    words = dictionary(70)
    return FairseqEncoderDecoderModel(NoEncoder(words), TableDecoder(words, table)).eval(), words


def two_targets(prefix):
    """ "10" with probability 0.14, "11 11 11" with 0.08."""
    return {
        (): {10: 0.2, 11: 0.1, 12: 0.7},
        (10,): {EOS: 0.7, 12: 0.3},
        (11,): {11: 1.0},
        (11, 11): {11: 1.0},
        (11, 11, 11): {EOS: 0.8, 12: 0.2},
    }.get(prefix, {12: 1.0})


def test_where_fairseqs_penalty_ranks_otherwise():
    model, words = table_model(two_targets)
    short, long = math.log(0.14), math.log(0.08)
    fairseq = [short / 2**0.6, long / 4**0.6]  # -1.297, -1.099: the long one
    gnmt = [short / (7 / 6) ** 0.6, long / (9 / 6) ** 0.6]  # -1.792, -1.980: the short one
    assert fairseq[0] < fairseq[1] and gnmt[0] > gnmt[1]

    limits = {"allowed": (10, 11), "max_len_a": 0, "max_len_b": 3}
    (found,) = search(model, words, 0.6, **limits)
    assert [hypothesis["tokens"].tolist() for hypothesis in found[:2]] == [
        [10, EOS],
        [11, 11, 11, EOS],
    ]
    assert [found[i]["score"].item() for i in (0, 1)] == pytest.approx(gnmt, abs=1e-5)

    plain = TranslationTask(TranslationConfig(), words, words)
    suppressed = [word for word in words.symbols if words.index(word) not in (1, 2, 3, 10, 11)]
    generator = plain.build_generator(
        [model],
        Namespace(beam=60, unkpen=math.inf, lenpen=0.6, max_len_a=0, max_len_b=3),
        extra_gen_cls_kwargs={"tokens_to_suppress": suppressed},
    )
    tokens = torch.tensor([[5, 6, 7, EOS]])
    (found,) = generator.generate([model], {"net_input": {"src_tokens": tokens}})
    assert [hypothesis["tokens"].tolist() for hypothesis in found[:2]] == [
        [11, 11, 11, EOS],
        [10, EOS],
    ]


def test_a_high_alpha_prefers_the_long():
    model, words = table_model(two_targets)
    # ln 0.14 (6/7)^2 = -1.444; ln 0.08 (6/9)^2 = -1.123
    (found,) = search(model, words, 2.0, allowed=(10, 11), max_len_a=0, max_len_b=3)
    assert found[0]["tokens"].tolist() == [11, 11, 11, EOS]
    assert found[0]["score"].item() == pytest.approx(-1.12254, abs=1e-4)


def test_source_and_fifty_more():
    """``--max-len-a 1 --max-len-b 49``: fairseq counts the end symbol of the source."""
    model, words = table_model(lambda prefix: {10: 1.0})  # never ends by itself
    sources = [(5, 6, 7, EOS), (8, EOS)]
    found = search(
        *(model, words, 0.6), allowed=(10,), sources=sources, beam=1, max_len_a=1, max_len_b=49
    )
    # Three words and 50; the shorter one is allowed as many in the same batch.
    for (best,) in found:
        assert best["tokens"].tolist() == [10] * 53 + [EOS]


# -- What is refused --------------------------------------------------------------------------


def test_settings_that_do_not_fit():
    model, _ = table_model(two_targets)
    for alpha, settings, message in (
        (0.6, {"lenpen": 0.6}, r"--lenpen 0.6 and --gnmt-lenpen 0.6: a hypothesis has one"),
        (0.6, {"lenpen": 1, "unnormalized": True}, r"--unnormalized: .* use --gnmt-lenpen 0"),
        (-0.1, {}, r"--gnmt-lenpen -0.1: use a number from 0"),
        (math.nan, {}, r"--gnmt-lenpen nan: use a number from 0"),
    ):
        with pytest.raises(UserError, match=message):
            task(70, alpha).build_generator([model], Namespace(**settings))


# -- Through the commands ---------------------------------------------------------------------


def hypotheses(output: str) -> dict[int, list[tuple[str, float, list[float]]]]:
    """Per sentence its hypotheses: words, score, positional scores."""
    found = {}
    for line in output.splitlines():
        kind, _, rest = line.partition("-")
        if kind == "H":
            number, score, words = rest.split("\t")
            entry = (words, float(score))
        elif kind == "P":
            number, scores = rest.split("\t")
            positional = [float(score) for score in scores.split()]
            found.setdefault(int(number), []).append((*entry, positional))
    return found


def check_scores(found, alpha):
    """The scores follow from the words' probabilities, which are printed to four digits."""
    for several in found.values():
        for words, score, positional in several:
            n = len(words.split()) + 1
            assert len(positional) == n
            expected = sum(positional) / ((5 + n) / 6) ** alpha
            assert score == pytest.approx(expected, abs=1e-4 * n)
        scores = [score for _, score, _ in several]
        assert scores == sorted(scores, reverse=True)


def test_generate(trained, corpus, tmp_path):
    beam = ("--beam", 4, "--nbest", 4, "--max-len-a", 1, "--max-len-b", 3, SKIP)
    flags = (*beam, "--task", "translation_gnmt", "--gnmt-lenpen", 1.7)
    gnmt = hypotheses(generate(corpus, trained.checkpoint, *flags, cwd=tmp_path).stdout)
    plain = generate(corpus, trained.checkpoint, *beam, "--unnormalized", cwd=tmp_path)
    plain = hypotheses(plain.stdout)
    assert len(gnmt) == 19 and all(len(several) == 4 for several in gnmt.values())
    check_scores(gnmt, 1.7)
    check_scores(plain, 0)
    # The same search, ranked otherwise.
    assert gnmt.keys() == plain.keys()
    for number in gnmt:
        assert {h[0] for h in gnmt[number]} == {h[0] for h in plain[number]}
    assert any(gnmt[i][0][0] != plain[i][0][0] for i in gnmt)


def test_generate_with_prefix_and_alignment(trained, corpus, tmp_path):
    """With the default penalty, tensor2tensor's; a second penalty ends with a message."""
    flags = ("--task", "translation_gnmt", "--prefix-size", 2, "--print-alignment", "hard")
    flags += ("--gen-subset", "test1", "--beam", 3, "--nbest", 2)
    done = generate(corpus, trained.checkpoint, *flags, cwd=tmp_path)
    found = hypotheses(done.stdout)
    check_scores(found, 0.6)
    targets = (corpus.parent / "easy.en").read_text().splitlines()
    for number, several in found.items():
        for words, _, _ in several:
            assert words.split()[:2] == targets[number].split()[:2]
    assert len(found) == 4 and len(re.findall("^A-", done.stdout, re.MULTILINE)) == 8

    done = generate(corpus, trained.checkpoint, *flags, "--lenpen", 0.6, cwd=tmp_path, expect=1)
    assert "--lenpen 0.6 and --gnmt-lenpen 0.6: a hypothesis has one length" in done.stderr
    assert "Traceback" not in done.stderr


def test_interactive(trained, corpus, tmp_path):
    flags = ("--user-dir", USER_DIR, "--path", trained.checkpoint, "--cpu", "-s", "de", "-t", "en")
    flags += ("--task", "translation_gnmt", "--gnmt-lenpen", 0.3)
    done = run("fairseq-interactive", corpus, *flags, cwd=tmp_path, stdin="a b c\nd\n")
    found = hypotheses(done.stdout)
    assert len(found) == 2
    check_scores(found, 0.3)
