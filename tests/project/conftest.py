"""The package as its wheel installs it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def installed(tmp_path_factory):
    """A folder for PYTHONPATH, without tests; the wheel is that of the repository a/b on GitHub."""
    folder = tmp_path_factory.mktemp("installed")
    source = folder / "source"
    shutil.copytree(ROOT / "fairseq_hybrid_attn", source / "fairseq_hybrid_attn")
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    build = "from setuptools import build_meta; build_meta.build_wheel('..')"
    environment = {**os.environ, "GITHUB_REPOSITORY": "a/b"}
    command = [sys.executable, "-c", build]
    subprocess.run(command, cwd=source, env=environment, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    shutil.unpack_archive(wheel, folder / "site", "zip")
    shutil.rmtree(source)
    return folder / "site"
