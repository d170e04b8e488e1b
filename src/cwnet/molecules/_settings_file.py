"""Settings of a table's model as a file: what `cwnet tune` writes and ``cwnet train TABLE --recipe FILE`` takes.

A file holds options of `cwnet train` by the names they have there, and in ``[set]`` what `--set` takes:

    ensemble = 5
    rings = "rings:6"

    [set]
    "model.width" = 128
    "trees.count" = 500
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from cwnet.data._files import read_plain
from cwnet.errors import CwnetError
from cwnet.molecules._train import Settings
from cwnet.train._recipe import _parse, _toml

__all__ = ["read_settings", "settings_to_toml", "with_recipe"]

#: The keys of a file, what they hold, and the field of `Settings` that each is.
_KEYS: dict[str, tuple[type, str]] = {
    "ensemble": (int, "ensemble"),
    "epochs": (int, "epochs"),
    "rings": (str, "lifting"),
    "balance": (bool, "balance"),
    "no_trees": (bool, "trees"),
    "no_network": (bool, "network"),
}
_WORDS = {int: "a whole number", str: "a text", bool: "true or false"}
#: A file of settings has a few lines.
_LARGEST = 2**20


def settings_to_toml(settings: Settings) -> str:
    """Settings as a file. The split and the seed are not among them: they are the data's, not the model's."""
    lines = []
    for key, (_, field) in _KEYS.items():
        value = getattr(settings, field)
        value = not value if key.startswith("no_") else value
        if value not in (None, False):
            lines.append(f"{key} = {_toml(value)}")
    if settings.changes:
        lines += ["", "[set]"]
        pairs = dict(change.split("=", 1) for change in settings.changes)  # of two values the later one holds
        lines += [f"{_toml(key.strip())} = {_toml(_parse(text.strip()))}" for key, text in pairs.items()]
    return "\n".join(lines) + "\n"


def read_settings(path: str | Path) -> dict[str, Any]:
    """Fields of `Settings` that a file names.

    Raises:
        CwnetError: for a file that is not there, or a key or a value that is none of these.
    """
    try:
        table = tomllib.loads(read_plain(path, _LARGEST).decode())
    except OSError as error:
        raise CwnetError(f"--recipe {path}: {error.strerror}. Give the recipe.toml that cwnet tune wrote") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CwnetError(f"--recipe {path} is not TOML: {error}") from None
    found: dict[str, Any] = {}
    for key, value in table.items():
        if key == "set":
            found["changes"] = _changes(path, value)
            continue
        if key not in _KEYS:
            hint = "" if key not in ("data", "model", "train") else ": it is a recipe of a network, see cwnet train"
            raise CwnetError(f"--recipe {path}: there is no key {key!r} among {', '.join(_KEYS)} and [set]{hint}")
        kind, field = _KEYS[key]
        if type(value) is not kind:
            raise CwnetError(f"--recipe {path}: {key} = {value!r}: it must be {_WORDS[kind]}")
        found[field] = not value if key.startswith("no_") else value
    return found


def with_recipe(settings: Settings, path: str | Path, typed: Collection[str] = ()) -> Settings:
    """Settings with those of a file, except where something else is asked for already.

    Args:
        settings: what is asked for. Its changes come after those of the file, so they hold.
        path: of the file.
        typed: fields of `settings` that hold, also where they are as by default.
    """
    found = read_settings(path)
    changes = (*found.pop("changes", ()), *settings.changes)
    default = Settings()
    free = {k: v for k, v in found.items() if k not in typed and getattr(settings, k) == getattr(default, k)}
    return replace(settings, changes=changes, **free)


def _changes(path: str | Path, table: Any) -> tuple[str, ...]:
    """The section ``[set]`` as what one would type after `--set`."""
    if not isinstance(table, Mapping):
        raise CwnetError(f"--recipe {path}: set = {table!r}: it must be a section of values")
    for key, value in table.items():
        if not isinstance(value, (int, float, str)):
            raise CwnetError(
                f"--recipe {path}: {key} in [set] is {value!r}: it must be a number, a text, true or false. Quote the "
                'whole key, as in "model.width" = 64'
            )
    return tuple(f"{key}={value if isinstance(value, str) else _toml(value)}" for key, value in table.items())
