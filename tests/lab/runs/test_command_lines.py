"""The commands of a run, word for word."""

from pathlib import Path

import pytest

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.configuration.settings import resolve
from fairseq_hybrid_attn.lab.runs.command_lines import PreparedCorpus, RunCommands, RunFolder
from fairseq_hybrid_attn.lab.runs.devices import Devices

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


def settings(**changed):
    return resolve({**RAW, **changed}, "here")


def prepared(**changed):
    fields = {
        "folder": Path("/corpus"),
        "source": "de",
        "target": "en",
        "subwords": "subword-nmt",
        "tokenizer": "moses",
        "lowercase": False,
        "scores": ("bleu", "tokenised_bleu"),
    }
    return PreparedCorpus(**{**fields, **changed})


def commands(devices=CPU, corpus=None, **changed):
    return RunCommands(settings(**changed), corpus or prepared(), FOLDER, devices)


def train(devices=CPU, corpus=None, seed=1, **changed):
    return " ".join(commands(devices, corpus, **changed).train(seed))


def test_average():
    for checkpoints, chosen in (
        (UPDATES, "--last-updates 5 /run/checkpoints"),
        ({"unit": "epoch", "every": 1, "average": 20}, "--last-epochs 20 /run/checkpoints"),
        ({"unit": "best", "every": 10}, "/run/checkpoints/checkpoint_best.pt"),
    ):
        command = commands(checkpoints=checkpoints).average()
        assert " ".join(command) == f"fairseq-hybrid average --output /run/model.pt {chosen}"
    found = {saved: commands(checkpoints=UPDATES).average(saved)[4:] for saved in (0, 3, 7)}
    assert found == {
        0: ["/run/checkpoints/checkpoint_last.pt"],
        3: ["--last-updates", "3", "/run/checkpoints"],
        7: ["--last-updates", "5", "/run/checkpoints"],
    }


def test_generate_by_gnmts_penalty():
    command = commands().generate(Path("/run/out"))
    assert " ".join(command[4:]) == (
        "--source-lang de --target-lang en --path /run/model.pt --gen-subset test "
        "--task translation_gnmt --beam 4 --gnmt-lenpen 0.6 --max-tokens 4000 "
        "--required-batch-size-multiple 1 --results-path /run/out --cpu"
    )


def test_generate_by_fairseqs_penalty():
    made = commands(Devices("cuda"), generate={"beam": 5, "lenpen": 1})
    command = made.generate(Path("/run/out"))
    assert "--beam 5 --lenpen 1 --max-tokens 12000" in " ".join(command)
    assert "--task" not in command and "--cpu" not in command


def test_score():
    for lowercase in (False, True):
        command = commands(corpus=prepared(lowercase=lowercase)).score()
        assert " ".join(command) == (
            "fairseq-hybrid score --generated /run/translation/generate-test.txt "
            "--reference /corpus/raw/test.en --target-lang en --subwords subword-nmt "
            f"--tokenizer moses --scores bleu,tokenised_bleu {'--lowercase ' * lowercase}"
            "--json /run/score.json --hypotheses-out /run/hypotheses.txt"
        )


def test_train_on_a_cpu():
    assert train(seed=7).endswith(
        "--arch transformer --max-update 100 --share-all-embeddings --max-tokens 4096 "
        "--update-freq 1 --seed 7 --save-interval-updates 10 --keep-interval-updates 5 "
        "--no-epoch-checkpoints --save-interval 1000000 --validate-interval 1000000 "
        "--save-dir /run/checkpoints --tensorboard-logdir /run/tensorboard --log-format json "
        "--log-interval 50 --distributed-world-size 1 --cpu --num-workers 0"
    )


def test_train_by_epochs_keeps_the_last():
    made = train(train={"max-epoch": 45}, checkpoints={"unit": "epoch", "every": 1, "average": 5})
    assert "--save-interval 1 --keep-last-epochs 5 --save-dir" in made
    # The best by updates, in a training of epochs: the end of the last counts as well.
    made = train(train={"max-epoch": 45}, checkpoints={"unit": "best", "every": 10})
    assert "--save-interval 45 --validate-interval 45" in made


def test_train_on_several_gpus():
    made = train(Devices("cuda", 4, precision="bf16"))
    assert "--max-tokens 1024 --update-freq 1" in made
    assert "--distributed-world-size 4 --bf16 --load-checkpoint-on-all-dp-ranks" in made
    assert "--cpu" not in made


def test_bleu_during_training_undoes_tokens_and_subwords():
    flags = {"train": {"max-update": 100, "eval-bleu": True}}
    assert "--eval-bleu-detok moses --eval-bleu-remove-bpe @@ " in train(**flags)
    pieces = prepared(subwords="sentencepiece", tokenizer="none")
    made = train(corpus=pieces, **flags)
    assert "--eval-bleu-remove-bpe sentencepiece" in made and "--eval-bleu-detok" not in made
    with pytest.raises(UserError, match="mecab"):
        train(corpus=prepared(tokenizer="mecab"), **flags)


GOLD = "--gold /corpus/gold/links --gold-base 0 "


def test_align():
    asked, corpus = {"layer": "last", "head": 3}, prepared(gold=True)
    assert " ".join(commands(corpus=corpus, align=asked).align()) == (
        "fairseq-hybrid align /corpus/bin --path /run/model.pt "
        "--source /corpus/gold/subwords.de --target /corpus/gold/subwords.en "
        f"--subwords subword-nmt --layer last --head 3 {GOLD}--table --output /run/gold.align "
        "--json /run/alignment.json --by-sentence --max-tokens 4000 --cpu"
    )
    on_gpu = commands(Devices("cuda"), corpus, align=asked).align()
    assert on_gpu[-2:] == ["--max-tokens", "12000"]


def test_a_statistical_aligner():
    assert " ".join(commands().align_training()) == (
        "fairseq-hybrid align-training --source-lang de --target-lang en --subwords subword-nmt "
        "--trainpref /run/text/train --testpref /run/text/gold --word-suffix words"
    )
    assert " ".join(commands().aer()) == (
        f"fairseq-hybrid aer /run/text/gold.words {GOLD}--source /corpus/gold/words.de "
        "--target /corpus/gold/words.en --json /run/alignment.json"
    )
    assert settings(aligner="eflomal").aligner == "eflomal"
    with pytest.raises(UserError, match="aligner: giza; use eflomal"):
        settings(aligner="giza")


def test_training_alignments_are_beside_the_data():
    flags = {**RAW["train"], "load-alignments": True}
    assert train(train=flags).startswith("fairseq-train /corpus/aligned ")
    assert train().startswith("fairseq-train /corpus/bin ")


def test_checkpoints_of_a_curve_are_kept():
    for unit in ({"unit": "update", "average": 2}, {"unit": "best"}):
        made = train(checkpoints={**unit, "every": 10, "curve": 5})
        assert "--keep-interval-updates-pattern 20 " in made
        assert "pattern" not in train(checkpoints={**unit, "every": 10})


def test_a_curve_of_checkpoints_that_are_not_saved_is_refused():
    for changed, said in (
        ({"unit": "best", "every": 10, "curve": 3}, "not among"),  # 100 / 3
        ({"unit": "best", "every": 20, "curve": 10}, "not among"),  # each 10
        ({"unit": "epoch", "every": 1, "curve": 5}, "curve wants updates"),
        ({"unit": "best", "every": 10, "curve": 0}, "not a whole number above 0"),
    ):
        with pytest.raises(UserError, match=said):
            settings(checkpoints=changed)


def test_more_checkpoints_than_there_will_be_are_refused():
    with pytest.raises(UserError, match="more than there will be by 100"):
        settings(checkpoints={"unit": "update", "every": 30, "average": 4})
