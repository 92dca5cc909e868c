"""The commands of a run, word for word."""

from dataclasses import replace
from pathlib import Path

import pytest

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.config.settings import resolve
from fairseq_hybrid_attn.lab.corpora.definition import Corpus, Subwords
from fairseq_hybrid_attn.lab.corpora.prepared import PreparedFolder
from fairseq_hybrid_attn.lab.run.devices import Devices
from fairseq_hybrid_attn.lab.run.fairseq_commands import RunCommands, generate_command
from fairseq_hybrid_attn.lab.run.folder import RunFolder

UPDATES = {"unit": "update", "every": 10, "average": 5}
RAW = {
    "corpus": "toy",
    "train": {"arch": "transformer", "max-update": 100, "share-all-embeddings": True},
    "batch": {"tokens": 4096},
    "checkpoints": UPDATES,
    "generate": {"beam": 4, "gnmt-lenpen": 0.6},
}
FOLDER = RunFolder(Path("/run"))
CPU = Devices("cpu")


RECIPE = Corpus(
    *("toy", "de", "en", "own", {"de": "moses", "en": "moses"}),
    subwords=Subwords("subword-nmt", size=100),
)
CORPUS = PreparedFolder(Path("/corpus"))


def commands(devices=CPU, recipe=RECIPE, **changed):
    return RunCommands(resolve({**RAW, **changed}, "here"), recipe, CORPUS, FOLDER, devices)


def train(devices=CPU, recipe=RECIPE, **changed):
    return " ".join(commands(devices, recipe, **changed).train(seed=7))


def test_a_users_folder_takes_the_place_of_ours():
    made = replace(commands(gates={"gen-subset": "valid"}), user_dir=Path("/home/mine"))
    for command in (made.train(seed=1), made.generate(), made.gates(), made.align()):
        assert command[command.index("--user-dir") + 1] == "/home/mine"
    assert "--user-dir" not in commands().gates() + commands().align() + made.average()


def test_train():
    """The words are compared with those of scripts/papers, in test_script.py."""
    made = train(Devices("cuda", 4, precision="fp16"))
    assert "--max-tokens 1024 --update-freq 1" in made
    assert "--distributed-world-size 4 --fp16 --load-checkpoint-on-all-dp-ranks" in made
    assert "--cpu" in train() and "--cpu" not in made
    assert "--autocast-bf16" in train(Devices("cuda", precision="bf16"))
    aligned = train(train={**RAW["train"], "load-alignments": True})
    assert aligned.startswith("fairseq-train /corpus/aligned ")


def test_checkpoints_that_the_evaluation_needs_are_kept():
    made = train(train={"max-epoch": 45}, checkpoints={"unit": "epoch", "every": 1, "average": 5})
    assert "--save-interval 1 --keep-last-epochs 5 --save-dir" in made
    # The best by updates, in a training of epochs: the end of the last counts as well.
    made = train(train={"max-epoch": 45}, checkpoints={"unit": "best", "every": 10})
    assert "--save-interval 45 --validate-interval 45" in made
    for unit in ({"unit": "update", "average": 2}, {"unit": "best"}):
        made = train(checkpoints={**unit, "every": 10, "curve": 5})
        assert "--keep-interval-updates-pattern 20 " in made
        assert "pattern" not in train(checkpoints={**unit, "every": 10})


@pytest.mark.parametrize("words", [["--gnmt-lenpen", "0.6"], ["--gnmt-lenpen=0.6"]])
def test_gnmts_penalty_has_its_task_however_it_is_given(words):
    made = generate_command(
        Path("bin"), Path("model.pt"), "test", Path("out"), search=words, on_cpu=True
    )
    assert "--task translation_gnmt" in " ".join(made)


def test_bleu_during_training_undoes_tokens_and_subwords():
    by_bleu = {"train": {"max-update": 100, "eval-bleu": True}}
    assert "--eval-bleu-detok moses --eval-bleu-remove-bpe @@ " in train(**by_bleu)
    pieces = Subwords("sentencepiece-bpe", size=100)
    made = train(recipe=replace(RECIPE, subwords=pieces, tokenizer={"en": "none"}), **by_bleu)
    assert "--eval-bleu-remove-bpe sentencepiece" in made and "--eval-bleu-detok" not in made
    with pytest.raises(UserError, match="mecab"):
        train(recipe=replace(RECIPE, tokenizer={"en": "mecab"}), **by_bleu)


def test_settings_cannot_give_what_the_commands_derive():
    """Else theirs or ours would be ignored; a file of settings would not say what was done."""
    by_epochs = commands(checkpoints={"unit": "epoch", "every": 1}, train={"max-epoch": 9})
    derived = {
        "train": commands().train(1) + by_epochs.train(1) + ["--restore-file"],
        "generate": commands().generate(),
    }
    free = {*RAW["train"], *RAW["generate"], "max-epoch", "num-workers"}
    for program, words in derived.items():
        for flag in {word[2:] for word in words if word.startswith("--")} - free:
            if (program, flag) != ("generate", "task"):
                with pytest.raises(UserError, match=f"{program}: .*{flag} "):
                    commands(**{program: {**RAW[program], flag: 1}})
