"""From a recipe to its data and its model."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cwnet.complexes import ComplexStore
from cwnet.data import Dataset, ShardedStore, Split, load, load_split, random_split
from cwnet.nn import CIN, CellEncoder, Module, cin, gin, sin
from cwnet.nn.encoders import Categories, Constant, FromVertices, Linear, Raw, Zeros
from cwnet.nn.models import CellMLP, ring_transfer
from cwnet.nn.readout import Head, Readout
from cwnet.train._objectives import LOSS_OF_TASK, METRICS, Metric, Objective
from cwnet.train._recipe import DataRecipe, ModelRecipe, Recipe, RecipeError

__all__ = ["build_model", "folds", "load_data", "make_metric", "make_objective", "resolve", "split_of"]

# ------------------------------------------------------------------------------------------------ data


def load_data(recipe: DataRecipe) -> Dataset:
    """The data of a recipe: a data set by name, or a saved store."""
    if Path(recipe.name, "manifest.json").is_file():
        return _saved(recipe)
    lifting = {} if recipe.lifting is None else {"lifting": recipe.lifting}
    try:
        return load(recipe.name, **lifting, **recipe.options)  # type: ignore[arg-type]
    except (ValueError, TypeError) as error:
        raise RecipeError(f"data: {error}") from None


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
    if not len(split.train):
        raise RecipeError(f"{dataset.name} has nothing to train on: it is there to be tested on")
    return split


# ------------------------------------------------------------------------------------------------ what is asked for


def resolve(recipe: Recipe, dataset: Dataset) -> Recipe:
    """The recipe with everything filled in that follows from the data."""
    if dataset.task not in LOSS_OF_TASK:
        raise RecipeError(f"{dataset.name} is not for training: its task is {dataset.task!r}")
    model, train = recipe.model, recipe.train
    of_train: dict[str, Any] = {
        "loss": train.loss or LOSS_OF_TASK[dataset.task],
        "metric": train.metric or dataset.metric,
        "batch_size": train.batch_size or (None if train.max_cells else 128),
    }
    of_model: dict[str, Any] = {
        "outputs": model.outputs or dataset.outputs,
        "dim": _dim(model, dataset.store),
        **_inputs(model, dataset.store),
    }
    for fold in folds(recipe.data, dataset):
        _check_validation(recipe, dataset, fold)
    return replace(recipe, model=replace(model, **of_model), train=replace(train, **of_train))


def _check_validation(recipe: Recipe, dataset: Dataset, fold: int) -> None:
    """What watches the validation part needs one."""
    if len(split_of(recipe.data, dataset, fold).val):
        return
    watchers = {
        "schedule.watch = 'val'": recipe.schedule.kind == "plateau" and recipe.schedule.watch == "val",
        "stop.patience": recipe.stop.patience is not None,
        "train.report = 'best'": recipe.train.report == "best",
    }
    for key, watches in watchers.items():
        if watches:
            raise RecipeError(
                f"{key} needs a validation part, and fold {fold} of {dataset.name} has none: set data.val = 'next', or "
                "schedule.watch = 'train' and train.report = 'stop'"
            )


def make_objective(recipe: Recipe, dataset: Dataset) -> Objective:
    """The loss of a resolved recipe, fit for the targets."""
    assert recipe.train.loss is not None
    dim = None
    if dataset.task == "cells":
        dim = next(d for d, y in enumerate(dataset.store.cell_y) if y is not None)
    objective = Objective(recipe.train.loss, dim)
    outputs = recipe.model.outputs or dataset.outputs
    objective.check(dataset.store, outputs)
    if recipe.train.class_weights == "balanced":
        return objective.balanced(dataset.store, outputs)
    return objective


def make_metric(recipe: Recipe) -> Metric:
    """The metric of a resolved recipe."""
    name = recipe.train.metric
    if name not in METRICS:
        raise RecipeError(f"train.metric = {name!r}: set one of {', '.join(METRICS)}")
    if (name in ("rocauc", "ap")) != (recipe.train.loss == "bce") and name != "accuracy":
        raise RecipeError(f"train.metric = {name!r} does not go with train.loss = {recipe.train.loss!r}")
    return METRICS[name]


# ------------------------------------------------------------------------------------------------ models

_GRAPH_KINDS = {"gin": 0, "gin-e": 1, "ring-transfer-gin": 0}


def _dim(model: ModelRecipe, store: ComplexStore) -> int:
    top = len(store.cell_ptr) - 1
    if model.kind in _GRAPH_KINDS:
        return _GRAPH_KINDS[model.kind]
    if model.dim is not None and model.dim > top:
        raise RecipeError(
            f"model.dim = {model.dim}: the complexes have cells up to dimension {top} only; lift them with data.lifting"
        )
    return top if model.dim is None else model.dim


def _inputs(model: ModelRecipe, store: ComplexStore) -> dict[str, Any]:
    """What vertices and edges start with, where the recipe leaves it to the data."""
    x = [*store.x, None, None]

    def fitting(d: int) -> str:
        features = x[d]
        assert features is not None
        return "linear" if features.is_floating_point() else "categories"

    vertices = model.vertices or ("constant" if x[0] is None else fitting(0))
    edges = model.edges or ("vertices" if x[1] is None else "features")
    atoms = model.atoms or (_sizes(store, 0) if vertices == "categories" else None)
    has_bonds = edges == "features" and len(store.x) > 1 and x[1] is not None and fitting(1) == "categories"
    bonds = model.bonds or (_sizes(store, 1) if has_bonds else None)
    return {"vertices": vertices, "edges": edges, "atoms": atoms, "bonds": bonds}


def _sizes(store: ComplexStore, d: int) -> tuple[int, ...]:
    """The number of categories of each column; OGB's own tables for its features, whatever of them this data uses."""
    from cwnet.chem._features import ATOM_SIZES, BOND_SIZES

    x = store.x[d]
    if x is None or x.is_floating_point():
        raise RecipeError(f"model.{'vertices' if d == 0 else 'edges'}: cells of dimension {d} have no categories")
    if isinstance(store, ShardedStore):
        found = tuple(int(n) + 1 for n in store.largest(d).tolist())
    else:
        found = tuple(int(n) + 1 for n in x.reshape(len(x), -1).amax(0).tolist()) if len(x) else (1,)
    known = {0: ATOM_SIZES, 1: BOND_SIZES}[d]
    if len(found) == len(known) and all(a <= b for a, b in zip(found, known, strict=True)):
        return known
    return found


def build_model(recipe: ModelRecipe, dataset: Dataset) -> CIN:
    """The model of a resolved recipe, with fresh weights."""
    assert recipe.dim is not None, "resolve the recipe first"
    assert recipe.outputs is not None
    store = dataset.store
    if (dataset.task == "cells") != recipe.kind.startswith("ring-transfer"):
        fitting = (
            "ring-transfer or ring-transfer-gin" if dataset.task == "cells" else "cin, cin++, gin, gin-e, sin or mlp"
        )
        raise RecipeError(
            f"model.kind = {recipe.kind!r} does not fit targets like those of {dataset.name}: set {fitting}"
        )
    if recipe.kind.startswith("ring-transfer"):
        graph = recipe.kind == "ring-transfer-gin"
        return ring_transfer(_width(store, 0), recipe.width, recipe.outputs, recipe.layers, graph=graph)
    _check_counts(recipe, store)
    encoder, width_in = _encoder(recipe, store)
    same = {"act": recipe.act, "norm": recipe.norm, "pool": recipe.pool, "jumping": recipe.jumping}
    if recipe.kind in ("gin", "gin-e"):
        return gin(
            encoder, recipe.width, recipe.layers, recipe.outputs, width_in=width_in, edges=recipe.kind == "gin-e",
            dropout=recipe.dropout, head_dropout=recipe.head_dropout, **same,  # type: ignore[arg-type]
        )  # fmt: skip
    if recipe.kind == "mlp":
        return _perceptron(recipe, encoder, width_in)
    make = sin if recipe.kind == "sin" else cin
    options = same | {
        "shared": recipe.shared,
        "plus": recipe.kind == "cin++",
        "dropout": recipe.dropout,
        "cell_dropout": recipe.cell_dropout,
        "head_dropout": recipe.head_dropout,
        "counts": recipe.counts,
        "rounds": recipe.rounds,
    }
    return make(
        encoder, recipe.width, recipe.layers, recipe.outputs, width_in=width_in, dim=recipe.dim, **options  # type: ignore[arg-type]
    )  # fmt: skip


def _check_counts(recipe: ModelRecipe, store: ComplexStore) -> None:
    if recipe.counts and recipe.kind not in ("cin", "cin++", "sin"):
        raise RecipeError(f"model.counts = {recipe.counts}: a model of kind {recipe.kind!r} counts no colours of cells")
    if recipe.counts and any(x is not None and x.is_floating_point() for x in store.x):
        raise RecipeError(f"model.counts = {recipe.counts}: colours are made of whole numbers, and cells carry others")


def _perceptron(recipe: ModelRecipe, encoder: CellEncoder, width_in: int) -> CIN:
    """The baseline without messages: `cwnet.nn.models.mlp_baseline` on any features."""
    assert recipe.dim is not None
    assert recipe.outputs is not None
    dims = list(range(recipe.dim + 1))
    layer = CellMLP(width_in, recipe.width, recipe.dim, recipe.layers, recipe.act, recipe.norm)
    readout = Readout(recipe.width, recipe.width, dims, recipe.pool, recipe.act, dropout=recipe.cell_dropout)
    return CIN(encoder, [layer], readout, Head(recipe.width, recipe.outputs, recipe.head_dropout), recipe.dropout)


def _encoder(recipe: ModelRecipe, store: ComplexStore) -> tuple[CellEncoder, int]:
    """One encoder per dimension, and how many features they give."""
    assert recipe.dim is not None
    width = recipe.width
    if recipe.vertices in ("raw", "ones"):
        width = _width(store, 0) if recipe.vertices == "raw" else 1
    makers: dict[str, Callable[[], Module]] = {
        "categories": lambda: Categories(recipe.atoms or (), width),
        "linear": lambda: Linear(_width(store, 0), width),
        "raw": lambda: Raw(),
        "constant": lambda: Constant(width),
        "ones": lambda: Constant(1, learnt=False),
    }
    encoders = [makers[recipe.vertices or "constant"]()]
    if recipe.dim >= 1:
        encoders.append(_edge_encoder(recipe, store, width))
    encoders += [_higher(recipe.init) for _ in range(2, recipe.dim + 1)]
    return CellEncoder(encoders), width


def _edge_encoder(recipe: ModelRecipe, store: ComplexStore, width: int) -> Module:
    if recipe.edges == "features":
        if store.x[1] is None:
            raise RecipeError("model.edges = 'features': the edges have none; set model.edges = 'vertices'")
        return Categories(recipe.bonds, width) if recipe.bonds else Linear(_width(store, 1), width)
    if recipe.edges == "constant":
        return Constant(width)
    return Zeros() if recipe.edges == "zeros" else _higher(recipe.init)


def _higher(init: str) -> Module:
    return Zeros() if init == "zeros" else FromVertices(init)


def _width(store: ComplexStore, d: int) -> int:
    """The number of columns of real features."""
    x = store.x[d]
    if x is None:
        raise RecipeError(f"model: cells of dimension {d} have no features; set model.vertices = 'constant'")
    return int(np.prod(x.shape[1:]))
