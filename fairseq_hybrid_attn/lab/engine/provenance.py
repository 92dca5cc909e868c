"""What a number was made with: code, software and hardware."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2]

#: The code that numbers depend on.  What only plans, prints or draws is left out, so that
#: mending it does not make results stale; so is preparing data, since the data has a digest.
NUMBERS_DEPEND_ON = (
    *("patterns.py", "criterions.py", "alignment_data.py", "checkpoints.py"),
    *("attention", "models", "tasks"),
    *("lab/files", "lab/engine", "lab/text", "lab/inference", "lab/averaging", "lab/scoring"),
    *("lab/alignment", "lab/gates", "lab/runs"),
)

PACKAGES = (
    "torch",
    "numpy",
    "ve-fairseq",
    "fairseq-fixed",
    "sacrebleu",
    "sacremoses",
    "sentencepiece",
    "subword-nmt",
    "eflomal",
)


@cache
def code_digest(package: Path = PACKAGE) -> str:
    """A sha256 of the code that numbers depend on."""
    digest = hashlib.sha256()
    for name in NUMBERS_DEPEND_ON:
        path = package / name
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(f"{file.relative_to(package)}\0".encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()


def code() -> dict:
    """The code's digest, and its git commit where it is a checkout."""
    return {"digest": code_digest(), **_git(PACKAGE.parent)}


def _git(folder: Path) -> dict:
    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=30
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    if git("ls-files", "--error-unmatch", "fairseq_hybrid_attn/__init__.py") is None:
        return {"commit": None, "modified": None}
    changed = git("status", "--porcelain", "--untracked-files=no", "--", "fairseq_hybrid_attn")
    return {"commit": git("rev-parse", "HEAD"), "modified": bool(changed)}


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that numbers depend on."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def hardware() -> dict:
    """Processor, cores and GPUs of this machine."""
    import torch

    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
    }


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
