"""What a number was made with: code, software and hardware."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2]
LAB, MODELS = f"{PACKAGE.name}.lab.", f"{PACKAGE.name}.models"

#: The rooms and modules of the laboratory that numbers depend on, besides the plugin.  The others
#: plan, start, print and draw, or prepare data, which has a digest of its own.
NUMBERS_DEPEND_ON = (
    *("alignment", "runs", "scores", "cli.average_command", "cli.averaging"),
    *("corpora.link_files", "corpora.moses", "corpora.rewriting", "corpora.test_sets"),
    *("corpora.tokenisers", "corpora.training_links", "corpora.words"),
    *("files.checkpoints", "files.checksums", "files.deleting", "files.json_files", "files.names"),
    *("files.tabular", "files.text", "files.typed", "files.writing", "files.yaml_files"),
    *("look.attentions", "look.gates_command", "look.gates_measure", "look.loading", "look.means"),
    *("look.model_arguments", "look.pattern_names", "look.sentences", "look.tags"),
)
#: The prefix of digests of what a run uses.  Those of earlier versions were of all of the plugin.
USED = "used:"

PACKAGES = (
    *("torch", "numpy", "ve-fairseq", "fairseq-fixed", "sacrebleu", "sacremoses"),
    *("sentencepiece", "subword-nmt", "eflomal"),
)


@cache
def code_digest() -> str:
    """Return a sha256 of all of this package: what Python reads of programs, and data."""
    return _digest(PACKAGE.parent, (path for path in PACKAGE.rglob("*") if path.is_file()))


def used_digest(modules: Iterable[str], package: Path = PACKAGE) -> str:
    """Return a sha256 of the code that modules use: comments, docstrings and layout do not count.

    ``package`` is where our own modules are read from.
    """
    return USED + _digest(package.parent, used_files(modules, package))


def used_files(modules: Iterable[str], package: Path = PACKAGE) -> frozenset[Path]:
    """The files of modules, and of all that they import, wherever, of their packages and ours.

    Of the laboratory, only :data:`NUMBERS_DEPEND_ON`; and its modules, which know every model, do
    not make a run depend on models that it does not have.
    """
    modules = tuple(modules)
    loaded = {name: getattr(sys.modules.get(name), "__file__", None) for name in _tops(modules)}
    folders = {name: str(Path(path).parent) for name, path in loaded.items() if path}
    folders[PACKAGE.name] = str(package)
    return _found_from(modules, tuple(sorted(folders.items())))


@cache  # a table asks for each of its runs, several times
def _found_from(modules: tuple[str, ...], places: tuple[tuple[str, str], ...]) -> frozenset[Path]:
    waiting, folders = list(modules), {name: Path(folder) for name, folder in places}
    found: dict[str, Path] = {}
    while waiting:
        name = waiting.pop()
        path = _file(name, folders)
        if path and name not in found and _counts(name):
            found[name] = path
            for base, names in _imports(name, path):
                if not (name.startswith(LAB) and base.startswith(MODELS)):
                    waiting += [_defining(base, one, folders) for one in names or [""]]
    return frozenset(found.values())


def _tops(modules: Iterable[str]) -> set[str]:
    return {module.partition(".")[0] for module in modules}


def _counts(module: str) -> bool:
    name = module.removeprefix(LAB)
    measures = name in NUMBERS_DEPEND_ON or name.partition(".")[0] in NUMBERS_DEPEND_ON
    return measures or not module.startswith(LAB)


def _file(module: str, folders: Mapping[str, Path]) -> Path | None:
    """The file of a module; None if it is of another package, or not a module."""
    top, *names = module.split(".")
    if top not in folders:
        return None
    path = folders[top].joinpath(*names)
    files = (path / "__init__.py", path.with_suffix(".py") if names else path)
    return next((file for file in files if file.is_file()), None)


def _defining(base: str, name: str, folders: Mapping[str, Path]) -> str:
    """The module that ``from base import name`` uses: not a package that only passes it on."""
    if not name or _file(f"{base}.{name}", folders):
        return f"{base}.{name}".removesuffix(".")
    path = _file(base, folders)
    if path and path.name == "__init__.py":
        for other, names in _imports(base, path):
            if name in names:
                return _defining(other, name, folders)
    return base


@cache
def _imports(module: str, path: Path) -> list[tuple[str, list[str]]]:
    """Each import of a file, wherever in it: the module, and the names that are taken from it."""
    inside = module.split(".") + [""] * (path.name == "__init__.py")
    found: list[tuple[str, list[str]]] = []
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            found += [(alias.name, []) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = inside[: -node.level] if node.level else []
            base += node.module.split(".") if node.module else []
            found.append((".".join(base), [alias.name for alias in node.names]))
    return found


def _digest(root: Path, files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    named = {os.path.relpath(path, root): path for path in files}
    for name, path in sorted(named.items()):
        if path.parent.name != "__pycache__":
            digest.update(f"{name}\0{_read(path)}\0".encode())
    return digest.hexdigest()


@cache
def _read(path: Path) -> str:
    """What Python reads of a file, or the checksum of other files."""
    data = path.read_bytes()
    return _syntax(ast.parse(data)) if path.suffix == ".py" else hashlib.sha256(data).hexdigest()


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
