"""What a number was made with: code, software and hardware."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import os
import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2]

#: The subpackages of the laboratory that numbers depend on, besides the plugin.  The others plan,
#: print and draw, or prepare data, which has a digest of its own.
NUMBERS_DEPEND_ON = (
    *("files", "engine", "text", "inference", "averaging", "scoring"),
    *("alignment", "gates", "runs"),
)
#: In every subpackage, the file that draws what it measures; no number depends on it.
FIGURE = "figure.py"
#: The prefix of digests of what Python reads.  Earlier versions took digests of the files' bytes.
SYNTAX = "syntax:"

PACKAGES = (
    *("torch", "numpy", "ve-fairseq", "fairseq-fixed", "sacrebleu", "sacremoses"),
    *("sentencepiece", "subword-nmt", "eflomal"),
)


@cache
def code_digest(package: Path = PACKAGE) -> str:
    """Return a sha256 of the code that numbers depend on.

    Comments, docstrings and layout do not count; files of plain data do, byte by byte.
    """
    digest = hashlib.sha256()
    for path in sorted(path for path in package.rglob("*") if path.is_file()):
        room, *rest = path.relative_to(package).parts
        if room == "lab" and (rest[0] not in NUMBERS_DEPEND_ON or path.name == FIGURE):
            continue
        if path.parent.name != "__pycache__":
            data = path.read_bytes()
            data = _syntax(ast.parse(data)).encode() if path.suffix == ".py" else data
            digest.update(f"{path.relative_to(package)}\0{len(data)}\0".encode() + data)
    return SYNTAX + digest.hexdigest()


def _syntax(node: object) -> str:
    """Return what Python reads of a program, as text that is the same in every Python version."""
    if isinstance(node, list):
        return f"[{' '.join(map(_syntax, node))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = {name: value for name, value in ast.iter_fields(node) if value not in (None, [])}
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    if isinstance(node, documented) and ast.get_docstring(node) is not None:
        fields["body"] = fields["body"][1:]
    return f"({type(node).__name__} {' '.join(f'{k}={_syntax(v)}' for k, v in fields.items())})"


def code() -> dict:
    """Return the code's digest, and its git commit where it is a checkout."""
    return {"digest": code_digest(), **_git(PACKAGE.parent)}


def _git(folder: Path) -> dict:
    def git(*arguments: str) -> str | None:
        command = ["git", "-C", str(folder), *arguments]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=30)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    if git("ls-files", "--error-unmatch", "fairseq_hybrid_attn/__init__.py") is None:
        return {"commit": None, "modified": None}
    changed = git("status", "--porcelain", "--untracked-files=no", "--", "fairseq_hybrid_attn")
    return {"commit": git("rev-parse", "HEAD"), "modified": bool(changed)}


def versions() -> dict[str, str]:
    """Return versions of Python and of the packages that numbers depend on."""
    return {"python": platform.python_version(), **installed(*PACKAGES)}


def installed(*packages: str) -> dict[str, str]:
    """Return the versions of packages, where they are installed."""
    found = {}
    for package in packages:
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def hardware() -> dict:
    """Return the processor, cores and GPUs of this machine."""
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
