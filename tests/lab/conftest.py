"""Fixtures that the tests of several rooms share."""

import pytest
from analysed import make_data
from refusals import changed, check_refusals, files

from fairseq_hybrid_attn.lab.commands.command_line import main


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    return make_data(tmp_path_factory.mktemp("looking"))


@pytest.fixture
def in_data(data, monkeypatch):
    monkeypatch.chdir(data)
    return data


@pytest.fixture
def analyse(in_data):
    """Run a command on models in ``in_data`` and their text."""
    text = "--data bin --source text.de --target text.en --subwords subword-nmt --device cpu"
    return lambda command, *flags: main(changed([command, *text.split()], list(map(str, flags))))


@pytest.fixture
def refuses(analyse):
    """Check that a command refuses models and flags, and that no file changes."""

    def check(command, mistakes):
        before = files()
        check_refusals(mistakes.items(), lambda flags: analyse(command, *flags.split()))
        assert files() == before

    return check


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Make a new folder the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
