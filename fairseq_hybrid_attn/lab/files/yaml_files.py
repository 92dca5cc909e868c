"""Reading the YAML files of ``configs/``; messages name file and key."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from pathlib import Path

import yaml

from ...errors import UserError

#: Our configurations: a part of the package; in a checkout, a link to its ``configs/``.
CONFIGS = (Path(__file__).parents[2] / "configs").resolve()


def config_file(name: str, configs: Path) -> Path:
    """A file of configurations, such as settings/hysan.yaml; ours if yours lack it."""
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


@cache  # PyYAML is slow, and tables name each other's rows
def _parsed(text: str) -> object:
    return yaml.load(text, _Loader)


def read_mapping(path: Path) -> dict:
    """Read a file that holds one mapping."""
    try:
        content = deepcopy(_parsed(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    except Exception as error:  # PyYAML's own, and what Python says of values such as !!int x
        raise UserError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    content = {} if content is None else content
    if not isinstance(content, dict):
        raise UserError(f"{path}: must be a mapping from keys to values")
    return content


def merge(base: dict, over: dict) -> dict:
    """Return ``base`` with ``over`` on top: mappings are merged by key, other values replaced."""
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = merge(merged[key], value) if both else value
    return merged
