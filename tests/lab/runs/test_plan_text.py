"""What a plan tells before anything is run."""

from rows import CONFIGS, FULL, TABLES

from fairseq_hybrid_attn.lab.runs.devices import Devices
from fairseq_hybrid_attn.lab.runs.dry_run import describe
from fairseq_hybrid_attn.lab.runs.plan import make_plan
from fairseq_hybrid_attn.lab.runs.workspace import OwnText, Workspace

TST2013 = "IWSLT15.TED.tst2013.de-en.de.xml, IWSLT15.TED.tst2013.de-en.en.xml"


def plan(table, place, own=None):
    made = make_plan(TABLES[table], Workspace(place, CONFIGS, FULL, own), [], [], (1,))
    return describe(made, [Devices("cpu")])


def test_what_cannot_be_downloaded_is_told_beforehand(tmp_path):
    for table, told in [
        ("hysan/table1", "Corpus iwslt14.de-en.hysan: to be prepared\n"),
        ("mma/figure2", f"Corpus iwslt14.de-en.mma: to be prepared; from you come {TST2013}\n"),
        ("hybrid_gate/table2", "licensed, its files come from you (the message says which)\n"),
    ]:
        assert told in plan(table, tmp_path), table


def test_of_ones_own_text_nothing_is_to_be_downloaded(tmp_path):
    for side in ("de", "en"):
        (tmp_path / f"train.{side}").write_text("Haus\n")
    told = plan("mma/figure2", tmp_path, OwnText(tmp_path, "de", "en"))
    assert ": to be prepared\n" in told and "from you" not in told
