"""Reading the YAML files of ``configs/``; messages name file and key."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import yaml

from ...errors import UserError

#: The configurations of the checkout that this package is installed from (``pip install -e``).
CONFIGS = Path(__file__).resolve().parents[3] / "configs"


def config_file(name: str, configs: Path) -> Path:
    """A file of configurations, such as settings/hysan.yaml; the checkout's if yours lack it."""
    ours = CONFIGS / name
    return ours if ours.is_file() and not (configs / name).is_file() else configs / name


class _Loader(yaml.SafeLoader):
    """YAML in which a duplicate key is an error; YAML itself takes the last."""

    def compose_mapping_node(self, anchor):
        node = super().compose_mapping_node(anchor)
        keys = [key.value for key, _ in node.value]
        for number, key in enumerate(keys):
            if key in keys[:number]:
                mark = node.value[number][0].start_mark
                raise yaml.constructor.ConstructorError(None, None, f"duplicate key {key}", mark)
        return node


def read_mapping(path: Path, known: Iterable[str] | None = None) -> dict:
    """Read a file that holds one mapping, whose keys must be ``known``; None: any keys."""
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    content = {} if content is None else content
    if not isinstance(content, dict):
        raise UserError(f"{path}: must be a mapping from keys to values")
    if known is not None:
        check_keys(content, known, str(path))
    return content


def check_keys(mapping: dict, known: Iterable[str], where: str) -> None:
    """Refuse unknown keys, since a misspelt one would be ignored silently."""
    known = list(known)
    unknown = [str(key) for key in mapping if key not in known]
    if unknown:
        raise UserError(f"{where}: unknown {', '.join(unknown)}; known are {', '.join(known)}")


def check_mappings(mapping: dict, keys: Iterable[str], where: str) -> None:
    """Refuse values that are not mappings, such as that of an empty key, under these keys."""
    for key in keys:
        if not isinstance(mapping.get(key, {}), dict):
            raise UserError(f"{where}: {key}: use a mapping from keys to values")


def merge(base: dict, over: dict) -> dict:
    """Return ``base`` with ``over`` on top: mappings are merged by key, other values replaced."""
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = merge(merged[key], value) if both else value
    return merged
