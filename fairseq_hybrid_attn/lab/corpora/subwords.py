"""Learn subwords on the training text and split all text into them.

Models are learned by one process in one thread: with several, sentencepiece sums in varying order.
A text with fewer subwords than the recipe wants gets fewer, with a warning.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import math
import re
import shutil
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

from ...errors import UserError
from ..files.processes import in_child
from ..files.text import count_lines, lines, rewrite, writing
from .definition import PARTS, Corpus, Subwords
from .words import has_spaces


def split_into_subwords(
    corpus: Corpus, tokenised: Path, output: Path, workers: int, warn: Callable[[str], None]
) -> dict:
    """Learn subword models and write all ``PART.LANGUAGE`` of ``tokenised`` in subwords.

    The models are copied if the corpus is prepared like that of a trained model.  Return ``sizes``
    of those that are learned, by file name.
    """
    sizes = {}
    sides = [corpus.languages] if corpus.subwords.joint else [(lang,) for lang in corpus.languages]
    for languages in sides:
        model = output / model_name(corpus.subwords, languages[0])
        if corpus.like:
            shutil.copyfile(given(corpus, f"subwords/{model.name}"), model)
        else:
            sizes[model.name] = _learn(corpus, languages, tokenised, model, warn)
        for language in languages:
            for part in PARTS:
                name = f"{part}.{language}"
                split(tokenised / name, output / name, corpus.subwords.kind, model, workers)
    return {"sizes": sizes}


def given(corpus: Corpus, name: str) -> Path:
    """A file of the trained model like whose text this is prepared."""
    return next(item.path for item in corpus.like if item.path and item.file == name)


def _learn(
    corpus: Corpus, languages: tuple[str, ...], tokenised: Path, model: Path, warn: Callable
) -> int:
    texts = [tokenised / f"train.{language}" for language in languages]
    # Share of characters to keep; sentencepiece recommends this for languages with many.
    coverage = 1.0 if all(map(has_spaces, languages)) else 0.9995
    size = in_child(learn, texts, model, corpus.subwords, coverage)
    if size < corpus.subwords.size:
        what = "merges" if corpus.subwords.kind == "subword-nmt" else "subwords"
        text = f"the training text ({' and '.join(languages)})"
        warn(f"{text} has only {size:,} {what}, not {corpus.subwords.size:,}")
    return size


def model_name(subwords: Subwords, language: str) -> str:
    side = "" if subwords.joint else f".{language}"
    suffix = "codes" if subwords.kind == "subword-nmt" else "model"
    return f"subwords{side}.{suffix}"


def learn(texts: list[Path], model: Path, subwords: Subwords, coverage: float) -> int:
    """Learn a model on texts and write it; return how many merges, or subwords, it has."""
    text = itertools.chain.from_iterable(sampled(path, subwords.sample) for path in texts)
    if subwords.kind == "subword-nmt":
        return _learn_merges(text, model, subwords.size)
    return _learn_pieces(text, model, subwords, coverage)


def sampled(path: Path, most: int | None) -> Iterator[str]:
    """Yield at most ``most`` lines of a file, spread evenly over it; all if None."""
    step = math.ceil(count_lines(path) / most) if most else 1
    return itertools.islice(lines(path), 0, None, max(1, step))


def _learn_merges(text: Iterator[str], model: Path, size: int) -> int:
    from subword_nmt.learn_bpe import learn_bpe

    merges = io.StringIO()
    # Hide its progress bars.
    with contextlib.redirect_stderr(io.StringIO()):
        try:
            learn_bpe(text, merges, size)
        except ValueError:  # all words are single characters: only the format's version is there
            if merges.getvalue().count("\n") != 1:
                raise
    with writing(model) as file:
        file.write(merges.getvalue())
    return merges.getvalue().count("\n") - 1


def _learn_pieces(text: Iterator[str], model: Path, subwords: Subwords, coverage: float) -> int:
    import sentencepiece

    written = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=text,
            model_writer=written,
            model_type=subwords.kind.removeprefix("sentencepiece-"),
            vocab_size=subwords.size,
            character_coverage=coverage,
            hard_vocab_limit=False,  # take fewer if there are no more; the user is warned
            num_threads=1,
            minloglevel=2,
        )
    except RuntimeError as error:
        least = re.search(r"required_chars?.*?\d+ vs (\d+)", str(error))
        if not least:
            message = " ".join(str(error).split())
            problem = f"sentencepiece cannot learn {subwords.size} subwords: {message}"
            raise UserError(problem) from error
        raise UserError(
            f"subwords, size {subwords.size}: the text has more characters than that; use more "
            f"than {least[1]}"
        ) from error
    model.write_bytes(written.getvalue())
    return sentencepiece.SentencePieceProcessor(model_proto=written.getvalue()).get_piece_size()


def split(text: Path, output: Path, kind: str, model: Path, workers: int) -> None:
    _splitter.cache_clear()  # the file may have another model by now
    _splitter(kind, model)  # before other processes need it: it may be of another kind
    rewrite(text, output, _split_line, (kind, model), workers)


def _split_line(line: str, kind: str, model: Path) -> str:
    return _splitter(kind, model)(line)


#: fairseq's own symbols, as pieces.
_SYMBOL = re.compile(r"(?<!\S)<(s>|pad>|/s>|unk>)(?!\S)")


def splitter(kind: str, model: Path) -> Callable[[str], str]:
    """Load the function that splits a line of words into subwords with spaces between.

    Where a piece is one of fairseq's symbols, it becomes two: fairseq would end the sentence there.
    """
    try:
        if kind == "subword-nmt":
            from subword_nmt.apply_bpe import BPE

            with open(model, encoding="utf-8", newline="\n") as codes:
                bpe = BPE(codes, merges=-1 if sum(1 for _ in codes) > 1 else 0)
            return lambda line: _SYMBOL.sub(r"<@@ \1", bpe.process_line(line))
        import sentencepiece

        processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    except (OSError, RuntimeError, UnicodeDecodeError, SystemExit):  # those of the two libraries
        raise UserError(f"{model}: this is no model of {kind}") from None
    return lambda line: _SYMBOL.sub(r"< \1", " ".join(processor.encode(line, out_type=str)))


_splitter = lru_cache(maxsize=2)(splitter)  # once in each process
