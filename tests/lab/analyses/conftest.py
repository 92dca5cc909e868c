"""A separate folder for each test."""

import pytest


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Make a new folder the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
