"""GNMT's length penalty, against all possible hypotheses and in fairseq's commands."""

import itertools
import math
import re
from argparse import Namespace

import pytest
from cli import generate
from fairseq.tasks import TASK_DATACLASS_REGISTRY
from models import EOS, PAD, build_tiny, dictionary, logits, pad

from fairseq_hybrid_attn import UserError
from fairseq_hybrid_attn.tasks.gnmt import TranslationGnmtTask
from fairseq_hybrid_attn.tasks.resumable import ResumableTranslationConfig, ResumableTranslationTask

SYMBOLS, ALLOWED = 70, (10, 11)
SOURCES = [(5, 6, 7, 8, EOS), (9, EOS)]
SKIP = "--skip-invalid-size-inputs-valid-test"


def task(alpha: float) -> TranslationGnmtTask:
    words = dictionary(SYMBOLS)
    config = TASK_DATACLASS_REGISTRY["translation_gnmt"](gnmt_lenpen=alpha)
    return TranslationGnmtTask(config, words, words)


def search(model, task, **settings):
    """All finished hypotheses of a beam search in which only ``ALLOWED`` words occur."""
    words = dictionary(SYMBOLS)
    others = [word for word in words.symbols if words.index(word) not in (1, 2, 3, *ALLOWED)]
    generator = task.build_generator(
        [model],
        Namespace(unkpen=math.inf, **settings),
        extra_gen_cls_kwargs={"tokens_to_suppress": others},
    )
    tokens = pad([list(source) for source in SOURCES], PAD, left=True)
    sample = {"net_input": {"src_tokens": tokens, "src_lengths": tokens.ne(PAD).sum(1)}}
    return generator.generate([model], sample)


def log_probability(model, source, target) -> float:
    """The log-probability of a target, fed to the model at once."""
    output = logits(model, [list(source)], [[EOS, *target[:-1]]])[0]
    return output.log_softmax(-1)[range(len(target)), list(target)].sum().item()


@pytest.mark.parametrize("name", ["mma", "hysan-gated", "lstm-on-top"])
def test_all_hypotheses_and_their_scores(name, double_softmax):
    """A wide beam finishes every target of up to four words.  They are listed here, scored by the
    model at once and ranked by the definition."""
    model = build_tiny(name, symbols=SYMBOLS).double()
    targets = [(*x, EOS) for n in range(1, 5) for x in itertools.product(ALLOWED, repeat=n)]
    exact = [{t: log_probability(model, source, t) for t in targets} for source in SOURCES]
    rankings = []
    for alpha in (0, 0.6, 2.5, 8):
        found = search(model, task(alpha), beam=60, max_len_a=0, max_len_b=4)
        for of_targets, hypotheses in zip(exact, found, strict=True):
            # The length counts the end symbol.
            expected = {t: p / ((5 + len(t)) / 6) ** alpha for t, p in of_targets.items()}
            rankings.append(sorted(expected, key=expected.get, reverse=True))
            assert [tuple(h["tokens"].tolist()) for h in hypotheses] == rankings[-1]
            for hypothesis in hypotheses:
                target = tuple(hypothesis["tokens"].tolist())
                assert hypothesis["score"].item() == pytest.approx(expected[target], abs=1e-5)
                total = hypothesis["positional_scores"].sum().item()
                assert total == pytest.approx(of_targets[target], abs=1e-5)
    assert len(rankings[0][0]) == 2 and len(rankings[-1][0]) == 5  # a high alpha prefers the long


def test_a_training_chooses_checkpoints_by_the_same_search():
    """With ``gnmt_lenpen`` in ``--eval-bleu-args``; a high one prefers long translations."""
    model, words = build_tiny("mma", symbols=SYMBOLS).double(), dictionary(SYMBOLS)
    training = ResumableTranslationTask(ResumableTranslationConfig(), words, words)
    limits = {"beam": 60, "max_len_a": 0, "max_len_b": 4}
    expected = search(model, task(8), **limits)
    for found, ranked in (({"gnmt_lenpen": 8}, True), ({}, False)):
        same = [
            [one["tokens"].tolist() for one in ours] == [one["tokens"].tolist() for one in theirs]
            for ours, theirs in zip(
                search(model, training, **limits, **found), expected, strict=True
            )
        ]
        assert all(same) is ranked


def test_source_and_fifty_more():
    """``--max-len-a 1 --max-len-b 49``: fairseq counts the end symbol of the longest source."""
    model, limits = build_tiny("mma", symbols=SYMBOLS), {"beam": 1, "max_len_a": 1, "max_len_b": 49}
    for (best,) in search(model, task(0.6), **limits, min_len=4 + 50):
        assert len(best["tokens"]) == 4 + 50 + 1 and best["tokens"][-1] == EOS
    with pytest.raises(AssertionError, match="min_len cannot be larger than max_len"):
        search(model, task(0.6), **limits, min_len=4 + 51)


def test_settings_that_do_not_fit():
    for alpha, settings, message in (
        (0.6, {"lenpen": 0.6}, "--lenpen 0.6 and --gnmt-lenpen 0.6"),
        (0.6, {"lenpen": 1, "unnormalized": True}, "--unnormalized: .* --gnmt-lenpen 0"),
        (-0.1, {}, "--gnmt-lenpen -0.1"),
        (math.nan, {}, "--gnmt-lenpen nan"),
    ):
        with pytest.raises(UserError, match=message):
            task(alpha).build_generator([build_tiny("mma")], Namespace(**settings))


def test_generate_with_prefix_and_alignment(trained, corpus, tmp_path):
    """The scores follow from the words' log-probabilities, which are printed to four digits."""
    flags = ("--task", "translation_gnmt", "--prefix-size", 2, "--print-alignment", "hard")
    flags += ("--gen-subset", "test1", "--beam", 3, "--nbest", 2)
    done = generate(corpus, trained, *flags, "--gnmt-lenpen", 1.7, cwd=tmp_path)
    targets = (corpus.parent / "easy.en").read_text().splitlines()
    found = {}
    printed = re.findall(r"^H-(\d+)\t(.*)\t(.*)\n(?:D-.*\n)?P-\1\t(.*)$", done.stdout, re.MULTILINE)
    for number, score, words, positional in printed:
        n, scores = len(words.split()) + 1, [float(p) for p in positional.split()]
        assert len(scores) == n and words[:3] == targets[int(number)][:3]  # two letters
        assert float(score) == pytest.approx(sum(scores) / ((5 + n) / 6) ** 1.7, abs=1e-4 * n)
        found.setdefault(number, []).append(float(score))
    assert len(found) == 4 and all(s == sorted(s, reverse=True) for s in found.values())
    assert len(re.findall("^A-", done.stdout, re.MULTILINE)) == 8
