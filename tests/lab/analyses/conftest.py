"""A folder of its own for each test."""

import pytest


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A new folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
