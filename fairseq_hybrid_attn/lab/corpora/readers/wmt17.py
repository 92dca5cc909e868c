"""WMT17 Chinese-English: News Commentary v12, UN corpus v1, CWMT; newsdev2017, newstest2017.

The training text is large and noisy: pairs that are not Chinese with English, or are repeated, are
left out.  Rules on the number of tokens are left to the recipe's ``clean``.
"""

from __future__ import annotations

import re
from collections import Counter
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from ....errors import UserError
from ...files.deleting import delete
from ...files.text import pairs
from .. import formats
from ..definition import Corpus
from ..tokenisers import detokeniser

LANGUAGES = ("zh", "en")


class TrainingText(NamedTuple):
    archive: str
    members: tuple[tuple[str, str], ...]  # pairs of names, Chinese first
    segmented: bool = False  # the Chinese has spaces between words, wholly or partly


_NEWS = "news-commentary-v12.zh-en"
#: Those whose archives the recipe has are read.
TRAIN = (
    TrainingText("wmt17/training-parallel-nc-v12.tgz", ((f"{_NEWS}.zh", f"{_NEWS}.en"),)),
    TrainingText("un/UNv1.0.en-zh.tar.gz", (("UNv1.0.en-zh.zh", "UNv1.0.en-zh.en"),)),
    TrainingText("cwmt/casia2015.zip", (("casia2015_ch.txt", "casia2015_en.txt"),)),
    TrainingText(
        "cwmt/casict2011.zip",
        tuple((f"casict-{half}_ch.txt", f"casict-{half}_en.txt") for half in "AB"),
    ),
    TrainingText("cwmt/casict2015.zip", (("casict2015_ch.txt", "casict2015_en.txt"),)),
    TrainingText("cwmt/datum2015.zip", (("datum_ch.txt", "datum_en.txt"),)),
    TrainingText(
        "cwmt/datum2017.zip",
        tuple((f"Book{number}_cn.txt", f"Book{number}_en.txt") for number in range(1, 21)),
        segmented=True,
    ),
    TrainingText("cwmt/neu2017.zip", (("NEU_cn.txt", "NEU_en.txt"),)),
)
VALID = ("wmt17/dev.tgz", "newsdev2017-zhen")
TEST = ("wmt17/test.tgz", "newstest2017-zhen")

_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_LATIN = re.compile("[A-Za-z]")


def takes(corpus: Corpus, file: str) -> bool:
    return file in (VALID[0], TEST[0], *(text.archive for text in TRAIN))


def read(corpus: Corpus, archives: dict[str, Path], destination: Path) -> dict:
    """Write the three parts; return how many pairs were left out, by reason."""
    if corpus.languages != LANGUAGES:
        raise UserError(f"the reader wmt17 has zh to en, not {' to '.join(corpus.languages)}")
    for part, (file, name) in {"valid": VALID, "test": TEST}.items():
        with formats.part_writer(destination, part, LANGUAGES) as writer:
            names = (f"{name}-src.zh.sgm", f"{name}-ref.en.sgm")
            formats.append_segments(writer, formats.archive_of(archives, file), names)
    dropped: Counter[str] = Counter()
    seen: set[int] = set()
    join = detokeniser("jieba", "zh")
    with formats.part_writer(destination, "train", LANGUAGES) as train:
        for text in (text for text in TRAIN if text.archive in archives):
            for members in text.members:
                with formats.part_writer(destination, "all", LANGUAGES) as everything:
                    formats.append_lines(everything, archives[text.archive], members)
                for zh, en in pairs(*everything.paths):
                    zh = join(zh) if text.segmented else zh
                    reason = implausible(zh, en)
                    if not reason:
                        key = fingerprint(zh, en)
                        reason = "repeated" if key in seen else None
                        seen.add(key)
                    if reason:
                        dropped[reason] += 1
                    else:
                        train.write((zh, en))
    for language in LANGUAGES:
        delete(destination / f"all.{language}", destination)
    return {"dropped": {"train": dict(dropped)}}


def implausible(zh: str, en: str) -> str | None:
    """Return why a pair is not a Chinese sentence with its English translation, if so."""
    if not zh.strip() or not en.strip():
        return "empty"
    if not _HAN.search(zh):
        return "no Chinese character in the Chinese"
    if _HAN.search(en):
        return "Chinese characters in the English"
    if not _LATIN.search(en):
        return "no letter in the English"
    return None


def fingerprint(zh: str, en: str) -> int:
    """Hash a pair to 64 bits; 25 million pairs have a collision with a chance of 1 in 60,000."""
    digest = blake2b(f"{zh.strip()}\n{en.strip()}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")
