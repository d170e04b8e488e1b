"""From a recipe to its model, loss and metric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cwnet.complexes import ComplexStore
from cwnet.data import Dataset, ShardedStore
from cwnet.nn import CellEncoder, Module, from_config
from cwnet.nn.encoders import Categories, Constant, FromVertices, Linear, Raw, Zeros
from cwnet.nn.models import PRESETS, Options
from cwnet.train._code import find, import_parts
from cwnet.train._data import folds, split_of
from cwnet.train._heads import heads_of
from cwnet.train._objectives import LOSS_OF_TASK, METRICS, Loss, Metric, Objective
from cwnet.train._recipe import FactoryRecipe, ModelRecipe, ModelSection, Recipe, RecipeError, TreeRecipe

__all__ = ["build_model", "cells_of", "make_metric", "make_objective", "outputs_of", "resolve"]


def resolve(recipe: Recipe, dataset: Dataset) -> Recipe:
    """The recipe with everything filled in that follows from the data."""
    if dataset.task not in LOSS_OF_TASK:
        raise RecipeError(f"{dataset.name} is not for training: its task is {dataset.task!r}")
    train = recipe.train
    of_train: dict[str, Any] = {
        "loss": train.loss or LOSS_OF_TASK[dataset.task],
        "metric": train.metric or dataset.metric,
        "batch_size": train.batch_size or (None if train.max_cells else 128),
    }
    for fold in folds(recipe.data, dataset):
        _check_validation(recipe, dataset, fold)
    wide = replace(dataset, outputs=dataset.outputs * heads_of(of_train["loss"]))
    return replace(recipe, model=_resolved(recipe.model, wide), train=replace(train, **of_train))


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


def make_objective(recipe: Recipe, dataset: Dataset, own: Loss | None = None) -> Objective:
    """The loss of a resolved recipe, or one's own, fit for the targets."""
    loss = own or recipe.train.loss
    assert loss is not None
    if dataset.weighted and (callable(loss) or cells_of(dataset) is not None):
        raise RecipeError(
            f"{dataset.name} has weights of targets, which go with targets of complexes and a loss by name"
        )
    objective = Objective(loss, cells_of(dataset), weighted=dataset.weighted)
    outputs = outputs_of(recipe, dataset)
    objective.check(dataset.store, outputs)
    if recipe.train.class_weights == "balanced":
        return objective.balanced(dataset.store, outputs)
    return objective


def make_metric(recipe: Recipe) -> Metric:
    """The metric of a resolved recipe."""
    name = recipe.train.metric
    if name not in METRICS:
        raise RecipeError(f"train.metric = {name!r}: set one of {', '.join(METRICS)}")
    fits = name == "accuracy" or (name in ("rocauc", "ap")) == (recipe.train.loss == "bce")
    if recipe.train.loss is not None and not fits:
        raise RecipeError(f"train.metric = {name!r} does not go with train.loss = {recipe.train.loss!r}")
    return METRICS[name]


def outputs_of(recipe: Recipe, dataset: Dataset) -> int:
    """How many numbers the model is to give."""
    return getattr(recipe.model, "outputs", None) or dataset.outputs * heads_of(recipe.train.loss)


def cells_of(dataset: Dataset) -> int | None:
    """The dimension whose cells have the targets; None where complexes have them."""
    if dataset.task != "cells":
        return None
    return next(d for d, y in enumerate(dataset.store.cell_y) if y is not None)


# ------------------------------------------------------------------------------------------------ what the data decides


def _resolved(model: ModelSection, dataset: Dataset) -> ModelSection:
    """The section ``[model]`` with what the data decides."""
    if isinstance(model, ModelRecipe):
        store, cells = dataset.store, cells_of(dataset)
        if model.cells is not None and model.cells != cells:
            there = "of complexes" if cells is None else f"of cells of dimension {cells}"
            raise RecipeError(f"model.cells = {model.cells} does not fit targets like those of {dataset.name}: {there}")
        known: dict[str, Any] = {"outputs": model.outputs or dataset.outputs, "dim": _dim(model, store), "cells": cells}
        return replace(model, **known, **_inputs(model, store))
    if isinstance(model, TreeRecipe):
        return TreeRecipe(_filled(model.tree, dataset))
    return model


def _dim(model: ModelRecipe, store: ComplexStore) -> int:
    top, known = len(store.cell_ptr) - 1, PRESETS[model.preset].top
    if known is not None:
        return known
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
    has_bonds = edges == "features" and x[1] is not None and fitting(1) == "categories"
    bonds = model.bonds or (_sizes(store, 1) if has_bonds else None)
    width: Any = {"raw": "raw", "ones": 1}.get(vertices, model.width_in)
    width_in = _width(store, 0) if width == "raw" else width
    return {"vertices": vertices, "edges": edges, "atoms": atoms, "bonds": bonds, "width_in": width_in}


def _filled(tree: Any, dataset: Dataset, d: int = 0) -> Any:
    """A tree with the arguments that were left to the data; `d` is the dimension whose encoder it is, if it is one."""
    if isinstance(tree, Mapping):
        inner = {
            key: [_filled(item, dataset, i) for i, item in enumerate(value)]
            if isinstance(value, (list, tuple))
            else _filled(value, dataset, d)
            for key, value in tree.items()
        }
        left = _LEFT_TO_DATA.get(str(tree.get("class")), {})
        return inner | {key: value(dataset, d) for key, value in left.items() if key not in tree}
    return tree


#: By class and argument: what a tree may leave to the data set, given it and the dimension of an encoder.
_LEFT_TO_DATA: dict[str, dict[str, Any]] = {
    "Categories": {"sizes": lambda dataset, d: list(_sizes(dataset.store, d))},
    "Linear": {"width_in": lambda dataset, d: _width(dataset.store, d)},
    "Head": {"outputs": lambda dataset, d: dataset.outputs},
    "CellHead": {"outputs": lambda dataset, d: dataset.outputs, "dim": lambda dataset, d: cells_of(dataset) or 0},
}


def _sizes(store: ComplexStore, d: int) -> tuple[int, ...]:
    """The number of categories of each column; OGB's own tables for its features, whatever of them this data uses."""
    from cwnet.chem._features import ATOM_SIZES, BOND_SIZES

    x = store.x[d] if d < len(store.x) else None
    if x is None or x.is_floating_point():
        raise RecipeError(f"model.{'vertices' if d == 0 else 'edges'}: cells of dimension {d} have no categories")
    if isinstance(store, ShardedStore):
        found = tuple(int(n) + 1 for n in store.largest(d).tolist())
    else:
        found = tuple(int(n) + 1 for n in x.reshape(len(x), -1).amax(0).tolist()) if len(x) else (1,)
    known = {0: ATOM_SIZES, 1: BOND_SIZES}.get(d, ())
    if len(found) == len(known) and all(a <= b for a, b in zip(found, known, strict=True)):
        return known
    return found


def _width(store: ComplexStore, d: int) -> int:
    """The number of columns of real features."""
    x = store.x[d] if d < len(store.x) else None
    if x is None:
        raise RecipeError(f"model: cells of dimension {d} have no features; set model.vertices = 'constant'")
    return int(np.prod(x.shape[1:]))


# ------------------------------------------------------------------------------------------------ models


def build_model(model: ModelSection, dataset: Dataset, folder: Path | None = None) -> torch.nn.Module:
    """The model of a resolved recipe, with fresh weights. Code that it names may lie in `folder`."""
    try:
        if isinstance(model, ModelRecipe):
            return _preset(model, dataset.store)
        if isinstance(model, FactoryRecipe):
            made: torch.nn.Module = find(model.factory, folder, "model.factory")(dataset, **model.arguments)
            return made
        import_parts(model.tree, folder)
        built: torch.nn.Module = from_config(dict(model.tree))
        return built
    except (ValueError, TypeError) as error:
        if isinstance(error, RecipeError) or isinstance(model, FactoryRecipe):
            raise
        raise RecipeError(f"model: {error}") from error


def _preset(model: ModelRecipe, store: ComplexStore) -> torch.nn.Module:
    assert model.dim is not None, "resolve the recipe first"
    if model.counts and any(x is not None and x.is_floating_point() for x in store.x):
        raise RecipeError(f"model.counts = {model.counts}: colours are made of whole numbers, and cells carry others")
    preset = PRESETS[model.preset]
    options = {f.name: getattr(model, f.name) for f in fields(Options)}
    if preset.top is None:
        options["dim"] = model.dim
    return preset.make(_encoder(model, store), model.width, model.layers, model.outputs, **options)


def _encoder(model: ModelRecipe, store: ComplexStore) -> CellEncoder:
    """One encoder per dimension."""
    assert model.dim is not None
    assert not isinstance(model.width_in, str)
    width = model.width_in or model.width
    encoders: list[Module] = [_vertex_encoder(model, store, width)]
    if model.dim >= 1:
        encoders.append(_edge_encoder(model, store, width))
    return CellEncoder([*encoders, *(_higher(model.init) for _ in range(2, model.dim + 1))])


def _vertex_encoder(model: ModelRecipe, store: ComplexStore, width: int) -> Module:
    if model.vertices == "categories":
        return Categories(model.atoms or (), width)
    if model.vertices == "linear":
        return Linear(_width(store, 0), width)
    return Raw() if model.vertices == "raw" else Constant(width, learnt=model.vertices != "ones")


def _edge_encoder(model: ModelRecipe, store: ComplexStore, width: int) -> Module:
    if model.edges == "features":
        if store.x[1] is None:
            raise RecipeError("model.edges = 'features': the edges have none; set model.edges = 'vertices'")
        return Categories(model.bonds, width) if model.bonds else Linear(_width(store, 1), width)
    if model.edges == "constant":
        return Constant(width)
    return Zeros() if model.edges == "zeros" else _higher(model.init)


def _higher(init: str) -> Module:
    return Zeros() if init == "zeros" else FromVertices(init)
