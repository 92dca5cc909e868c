"""What a number was made with: code, software and hardware."""

from __future__ import annotations

import contextlib
import os
import platform
import subprocess
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2]

PACKAGES = (
    *("torch", "numpy", "ve-fairseq", "fairseq-fixed", "sacrebleu", "sacremoses"),
    *("sentencepiece", "subword-nmt", "eflomal"),
)


def code() -> dict:
    """The commit of this package's checkout, and whether files differ from it; else both None."""

    def git(*arguments: str) -> str | None:
        command = ["git", "-C", str(PACKAGE.parent), *arguments]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=30)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    if git("ls-files", "--error-unmatch", f"{PACKAGE.name}/__init__.py") is None:
        return {"commit": None, "modified": None}
    changed = git("status", "--porcelain", "--untracked-files=no", "--", PACKAGE.name)
    return {"commit": git("rev-parse", "HEAD"), "modified": bool(changed)}


def versions() -> dict[str, str]:
    return {"python": platform.python_version(), **installed(*PACKAGES)}


def installed(*packages: str) -> dict[str, str]:
    by_name = {}
    for package in packages:
        with contextlib.suppress(PackageNotFoundError):
            by_name[package] = version(package)
    return by_name


def hardware() -> dict:
    import torch

    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
    }


def trained_on(result: dict) -> str:
    """The devices of a result's training, how they computed, and what they are, for display."""
    devices, there = str(result.get("devices") or ""), result.get("hardware") or {}
    used = there.get("gpus") if "GPU" in devices else [there.get("processor")]
    return ", ".join(filter(None, dict.fromkeys([devices, *(used or ())])))


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def differences(records: Iterable[dict]) -> str:
    """What the code and versions of results differ in, as a part of a sentence; "" if in nothing.

    ``records`` are results: of each, ``code`` and ``versions`` count, if it has them.
    """
    made: dict[str, list[str]] = {}
    for record in records:
        code = record.get("code") or {}
        changed = " (modified)" * bool(code.get("modified"))
        commit = (code.get("commit") or "unknown")[:10] + changed
        for name, value in {"commit": commit, **record.get("versions", {})}.items():
            values = made.setdefault(name, [])
            if str(value) not in values:
                values.append(str(value))
    return "; ".join(f"{name} {', '.join(v)}" for name, v in made.items() if len(v) > 1)
