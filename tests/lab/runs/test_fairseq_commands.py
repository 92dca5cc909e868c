"""The commands of a run, word for word."""

from dataclasses import replace
from pathlib import Path

import pytest

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.config.settings import resolve
from fairseq_hybrid_attn.lab.runs.devices import Devices
from fairseq_hybrid_attn.lab.runs.fairseq_commands import (
    USER_DIR,
    PreparedCorpus,
    RunCommands,
    RunFolder,
)

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


CORPUS = PreparedCorpus(
    *(Path("/corpus"), "de", "en", "subword-nmt", "moses"),
    lowercase=False,
    scores=("bleu", "tokenised_bleu"),
)


def commands(devices=CPU, corpus=CORPUS, **changed):
    return RunCommands(resolve({**RAW, **changed}, "here"), corpus, FOLDER, devices)


def train(devices=CPU, corpus=CORPUS, **changed):
    return " ".join(commands(devices, corpus, **changed).train(seed=7))


def test_a_users_folder_takes_the_place_of_ours():
    made = replace(commands(gates={"gen-subset": "valid"}), user_dir=Path("/home/mine"))
    for command in (made.train(seed=1), made.generate(), made.gates(), made.align()):
        assert command[command.index("--user-dir") + 1] == "/home/mine"
    assert "--user-dir" not in commands().gates() + commands().align() + made.average()


def test_train():
    assert train() == (
        f"fairseq-train /corpus/bin --user-dir {USER_DIR} --task translation_resumable "
        "--source-lang de --target-lang en "
        "--arch transformer --max-update 100 --share-all-embeddings --max-tokens 4096 "
        "--update-freq 1 --seed 7 --save-interval-updates 10 --keep-interval-updates 5 "
        "--no-epoch-checkpoints --save-interval 1000000 --validate-interval 1000000 "
        "--save-dir /run/checkpoints --tensorboard-logdir /run/tensorboard --log-format json "
        "--log-interval 50 --distributed-world-size 1 --cpu --num-workers 0"
    )
    made = train(Devices("cuda", 4, precision="fp16"))
    assert "--max-tokens 1024 --update-freq 1" in made
    assert "--distributed-world-size 4 --fp16 --load-checkpoint-on-all-dp-ranks" in made
    assert "--cpu" not in made
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


def test_bleu_during_training_undoes_tokens_and_subwords():
    by_bleu = {"train": {"max-update": 100, "eval-bleu": True}}
    assert "--eval-bleu-detok moses --eval-bleu-remove-bpe @@ " in train(**by_bleu)
    pieces = replace(CORPUS, subwords="sentencepiece", tokenizer="none")
    made = train(corpus=pieces, **by_bleu)
    assert "--eval-bleu-remove-bpe sentencepiece" in made and "--eval-bleu-detok" not in made
    with pytest.raises(UserError, match="mecab"):
        train(corpus=replace(CORPUS, tokenizer="mecab"), **by_bleu)


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


def test_average():
    for checkpoints, saved, chosen in (
        (UPDATES, None, "--last-updates 5 /run/checkpoints"),
        (UPDATES, 7, "--last-updates 5 /run/checkpoints"),
        (UPDATES, 3, "--last-updates 3 /run/checkpoints"),
        (UPDATES, 0, "/run/checkpoints/checkpoint_last.pt"),
        ({"unit": "epoch", "every": 1, "average": 20}, None, "--last-epochs 20 /run/checkpoints"),
        ({"unit": "best", "every": 10}, None, "/run/checkpoints/checkpoint_best.pt"),
    ):
        command = commands(checkpoints=checkpoints).average(saved)
        assert " ".join(command) == f"fairseq-hybrid average --output /run/model.pt {chosen}"


def test_generate():
    assert " ".join(commands().generate(Path("/run/out"))) == (
        f"fairseq-generate /corpus/bin --user-dir {USER_DIR} "
        "--source-lang de --target-lang en --path /run/model.pt --gen-subset test "
        "--task translation_gnmt --beam 4 --gnmt-lenpen 0.6 --max-tokens 4000 "
        "--required-batch-size-multiple 1 --results-path /run/out --cpu"
    )
    command = commands(Devices("cuda"), generate={"beam": 5, "lenpen": 1}).generate()
    assert "--beam 5 --lenpen 1 --max-tokens 12000" in " ".join(command)
    assert "--task" not in command and "--cpu" not in command


def test_score():
    for lowercase in (False, True):
        command = commands(corpus=replace(CORPUS, lowercase=lowercase)).score()
        assert " ".join(command) == (
            "fairseq-hybrid score --generated /run/translation/generate-test.txt "
            "--reference /corpus/raw/test.en --target-lang en --subwords subword-nmt "
            f"--tokenizer moses --scores bleu,tokenised_bleu {'--lowercase ' * lowercase}"
            "--json /run/score.json --hypotheses-out /run/hypotheses.txt"
        )


def test_alignments_by_the_model_and_by_an_aligner():
    gold = "--gold /corpus/gold/links --gold-base 0 "
    asked = {"layer": "last", "head": 3}
    assert " ".join(commands(align=asked).align()) == (
        "fairseq-hybrid align /run/model.pt --data /corpus "
        "--source /corpus/gold/subwords.de --target /corpus/gold/subwords.en "
        f"--layer last --head 3 {gold}--table --output /run/gold.align "
        "--json /run/alignment.json --max-tokens 4000 --device cpu"
    )
    on_gpu = commands(Devices("cuda"), align=asked).align()
    assert on_gpu[-2:] == ["--max-tokens", "12000"]
    assert " ".join(commands().align_training()) == (
        "fairseq-hybrid align-training --source-lang de --target-lang en --subwords subword-nmt "
        "--trainpref /run/text/train --testpref /run/text/gold --word-suffix words"
    )
    assert " ".join(commands().aer()) == (
        f"fairseq-hybrid aer /run/text/gold.words {gold}--source /corpus/gold/words.de "
        "--target /corpus/gold/words.en --json /run/alignment.json"
    )
