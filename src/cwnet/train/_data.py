"""From a recipe to its data."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import torch

from cwnet.complexes import ComplexStore
from cwnet.data import Dataset, Split, load, load_split, random_split
from cwnet.lifting import Custom, Lifting
from cwnet.train._code import find, is_code
from cwnet.train._recipe import DataRecipe, RecipeError

__all__ = ["folds", "load_data", "split_of"]


def load_data(recipe: DataRecipe, folder: Path | None = None) -> Dataset:
    """The data of a recipe: a data set by name, or a saved store. Code that it names may lie in `folder`."""
    if Path(recipe.name, "manifest.json").is_file():
        return _saved(recipe)
    lifting = {} if recipe.lifting is None else {"lifting": _lifting(recipe.lifting, folder)}
    try:
        return load(recipe.name, **lifting, **recipe.options)  # type: ignore[arg-type]
    except (ValueError, TypeError) as error:
        raise RecipeError(f"data: {error}") from None


def _lifting(name: str, folder: Path | None) -> str | Lifting:
    """A lifting by name, or a function of one's own."""
    if not is_code(name):
        return name
    found = find(name, folder, "data.lifting")
    return found if isinstance(found, Lifting) else Custom(found, name=name)


def _saved(recipe: DataRecipe) -> Dataset:
    """A data set made of a store that `save_store` wrote."""
    for key in ("lifting", "options"):
        if getattr(recipe, key):
            raise RecipeError(f"data.{key} does nothing: {recipe.name} is a store that is lifted already")
    store = _opened(recipe)
    default = Path(recipe.name, "split.json")
    if recipe.split is not None or default.is_file():
        split = load_split(recipe.split or default, count=len(store))
    else:
        split = random_split(len(store))
    task, outputs = _task_of(store, recipe)
    metrics = {"regression": "mae", "binary": "rocauc", "multilabel": "ap"}
    return Dataset(recipe.name, store, (split,), task, outputs, metrics.get(task, "accuracy"), {})


def _opened(recipe: DataRecipe) -> ComplexStore:
    """A saved store: in memory, or read as it is used."""
    from cwnet.data import open_sharded, open_store, read_manifest

    size = sum(shard["bytes"] for shard in read_manifest(recipe.name).shards)
    on_disk = recipe.on_disk if recipe.on_disk is not None else size > _free_memory() / 2
    return open_sharded(recipe.name) if on_disk else open_store(recipe.name)


def _free_memory() -> int:
    """Bytes that can be had, as far as that is known."""
    known = os.sysconf_names if hasattr(os, "sysconf") else {}
    if "SC_AVPHYS_PAGES" not in known:
        return 2**62
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _task_of(store: ComplexStore, recipe: DataRecipe) -> tuple[str, int]:
    cells = [d for d, y in enumerate(store.cell_y) if y is not None]
    if store.y is None and not cells:
        raise RecipeError(f"data.name = {recipe.name!r}: this store has no targets, neither y nor cell_y")
    y = store.y if store.y is not None else store.cell_y[cells[0]]
    assert y is not None
    whole = not y.is_floating_point()
    task = "cells" if store.y is None else recipe.task or ("multiclass" if whole else "regression")
    if task in ("multiclass", "cells"):
        return task, int(y.max()) + 1 if y.numel() else 1
    return task, int(np.prod(y.shape[1:]))


def folds(recipe: DataRecipe, dataset: Dataset) -> list[int]:
    """The folds that the recipe asks for."""
    count = len(dataset.splits)
    if recipe.fold == "all":
        return list(range(count))
    if recipe.fold >= count:
        raise RecipeError(f"data.fold = {recipe.fold}: {dataset.name} has {count} fold(s), counted from 0")
    return [recipe.fold]


def split_of(recipe: DataRecipe, dataset: Dataset, fold: int) -> Split:
    """What one run trains, validates and tests on."""
    split = dataset.splits[fold]
    if recipe.val == "next":
        if len(dataset.splits) < 3:
            raise RecipeError(f"data.val = 'next' needs three folds or more; {dataset.name} has {len(dataset.splits)}")
        val = dataset.splits[(fold + 1) % len(dataset.splits)].test
        split = Split(split.train[~torch.isin(split.train, val)], val, split.test)
    if recipe.limit is not None:
        split = Split(*(part[: recipe.limit] for part in (split.train, split.val, split.test)))
    if not len(split.train):
        raise RecipeError(f"{dataset.name} has nothing to train on: it is there to be tested on")
    return split
