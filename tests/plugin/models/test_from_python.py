"""Models in a Python program, by ``from_pretrained``, the interface of fairseq's hub."""

import re
from argparse import Namespace

import analysed
import torch
from cli import USER_DIR, run
from fairseq.data import encoders
from subword_nmt.learn_bpe import learn_bpe

from fairseq_hybrid_attn.models import MMA, HybridGate, HySAN

TEXT = {
    "de": ["Das Haus ist rot .", "Der Baum ist groß .", "Ein Hund geht in das Haus ."],
    "en": ["The house is red .", "The tree is big .", "A dog walks into the house ."],
}
LIMITS = {"beam": 3, "min_len": 5, "max_len_a": 0, "max_len_b": 8}
SENTENCES = ["Das Haus ist groß.", "Ein Baum geht; der Hund ist rot."]


def test_translates_plain_text_as_fairseq_interactive_does(tmp_path):
    with open(tmp_path / "codes", "w") as codes:
        learn_bpe([line for lines in TEXT.values() for line in lines], codes, 12)
    settings = {"tokenizer": "moses", "moses_no_dash_splits": True}
    settings |= {"bpe": "subword_nmt", "bpe_codes": str(tmp_path / "codes")}
    settings |= {"source_lang": "de", "target_lang": "en"}
    (tmp_path / "bin").mkdir()
    bpe = encoders.build_bpe(Namespace(**settings))
    for language, lines in TEXT.items():
        pieces = dict.fromkeys(piece for line in lines for piece in bpe.encode(line).split())
        (tmp_path / f"bin/dict.{language}.txt").write_text("".join(f"{p} 1\n" for p in pieces))
    analysed.save(tmp_path, "mma")
    generator = torch.Generator().manual_seed(0)
    state = torch.load(tmp_path / "mma.pt")
    for weight in state["model"].values():  # a new model gives the same output for any input
        if weight.dim() > 1:
            weight.normal_(generator=generator)
    torch.save(state, tmp_path / "mma.pt")
    translator = MMA.from_pretrained(tmp_path, "mma.pt", str(tmp_path / "bin"), **settings)
    found = translator.translate(SENTENCES, **LIMITS)
    assert len(set(found)) == 2 and all(re.search(r"\w", line) for line in found), found
    assert translator.translate(SENTENCES[0], **LIMITS) == found[0]

    flags = [
        f"--{name.replace('_', '-')}" + ("" if value is True else f"={value}")
        for name, value in settings.items()
    ]
    limits = [f"--{name.replace('_', '-')}={value}" for name, value in LIMITS.items()]
    done = run(
        *("fairseq-interactive", tmp_path / "bin", "--user-dir", USER_DIR, "--cpu"),
        *("--path", tmp_path / "mma.pt", *flags, *limits),
        cwd=tmp_path,
        stdin="".join(f"{line}\n" for line in SENTENCES),
    )
    assert re.findall(r"^D-.*\t(.*)$", done.stdout, re.MULTILINE) == found


def test_any_class_loads_every_model(tmp_path):
    analysed.make_data(tmp_path, ("hysan", "gate1"))
    for name, kind in (("hysan", HySAN), ("gate1", HybridGate)):
        translator = MMA.from_pretrained(str(tmp_path), f"{name}.pt", "./bin")
        assert type(translator.models[0]) is kind
        assert len(translator.translate("Da@@ s Haus", max_len_b=4).split()) <= 5
