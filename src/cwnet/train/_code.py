"""Code that a recipe names: a recipe is its author's own file, and may say which of their functions to use.

Nothing else may: checkpoints and model folders name parts that are known already, see `cwnet.nn.from_config`.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cwnet.nn import Module
from cwnet.train._recipe import RecipeError

__all__ = ["find", "import_parts", "is_code"]


def is_code(text: str) -> bool:
    """Whether a text names an object in a module, as in "mymodule:function"."""
    module, colon, name = text.partition(":")
    return bool(colon) and all(part.isidentifier() for part in (*module.split("."), *name.split(".")))


def find(name: str, folder: Path | None, key: str) -> Any:
    """The object that a recipe names.

    Args:
        name: as in "mymodule:function".
        folder: of the recipe, where the module may lie; it is looked for on the path first.
        key: of the recipe, for messages.
    """
    if not is_code(name):
        raise RecipeError(f'{key} = {name!r}: name a module and what is in it, as in "mymodule:make"')
    module, _, attribute = name.partition(":")
    where = f"on the path or in {folder}" if folder else "on the path"
    try:
        with _beside(folder):
            found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0] and error.name != module:
            raise
        raise RecipeError(f"{key} = {name!r}: there is no module {module!r} {where}") from None
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise RecipeError(f"{key} = {name!r}: {getattr(found, '__file__', module)} has no {attribute!r}")
        found = getattr(found, part)
    return found


def import_parts(tree: Any, folder: Path | None, key: str = "model") -> None:
    """Import the modules of the classes that a tree names, so that they are known."""
    if isinstance(tree, Mapping):
        name = tree.get("class")
        if isinstance(name, str) and ":" in name and name not in Module.registry:
            kind = find(name, folder, f"{key}.class")
            if not (isinstance(kind, type) and issubclass(kind, Module)):
                raise RecipeError(f"{key}.class = {name!r}: it must be a class that inherits from cwnet.nn.Module")
        for part, value in tree.items():
            import_parts(value, folder, f"{key}.{part}")
    elif isinstance(tree, (list, tuple)):
        for i, value in enumerate(tree):
            import_parts(value, folder, f"{key}[{i}]")


@contextmanager
def _beside(folder: Path | None) -> Iterator[None]:
    """Look into the folder of the recipe too, after all others."""
    place = None if folder is None else str(folder)
    if place is None or place in sys.path:
        yield
        return
    sys.path.append(place)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(place)
