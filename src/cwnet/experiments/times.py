"""How long liftings and epochs take: the paper's tables of wall-clock times.

Lifting: ZINC, molhiv and ZINC-FULL with rings up to 18. The graphs lie in memory; a run ends when all complexes do too.

Epochs: one pass of training, and the evaluation of the training, validation and test part, predictions and metric, for
CIN and GIN. The paper's GINs have about as many parameters as its CINs, and so have these; they read bond types too.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch

from cwnet.complexes import ComplexStore
from cwnet.data import Dataset, Split, load
from cwnet.lifting import Rings, lift_many
from cwnet.lifting._lift import num_threads
from cwnet.train import Recipe, load_recipe
from cwnet.train._engine import best_steps
from cwnet.train._fit import _keep_memory
from cwnet.train._run import Run

__all__ = ["MODELS", "PAPER_EPOCHS", "PAPER_LIFTING", "PARTS", "TITLES", "run_epochs", "run_lifting"]

TITLES = {"zinc": "ZINC (12k)", "molhiv": "molhiv (41k)", "zinc-full": "ZINC-FULL (250k)"}

#: Seconds, mean and standard deviation over 5 runs, by data set and number of processes, on 64 vCPUs of a Xeon E5-2686.
PAPER_LIFTING: dict[str, dict[int, tuple[float, float]]] = {
    "zinc": {
        1: (320.27, 0.54), 2: (169.95, 0.32), 4: (84.90, 0.21), 8: (43.38, 0.07), 16: (23.17, 0.68), 32: (18.59, 0.68),
    },
    "molhiv": {
        1: (1178.98, 3.90), 2: (635.58, 0.83), 4: (319.01, 0.40), 8: (164.26, 0.52), 16: (86.92, 0.77),
        32: (60.62, 2.05),
    },
    "zinc-full": {
        1: (6805.35, 16.50), 2: (3549.16, 7.73), 4: (1782.41, 3.84), 8: (918.38, 3.46), 16: (492.77, 6.13),
        32: (383.92, 3.30),
    },
}  # fmt: skip

#: What is timed in an epoch.
PARTS = {"training": "training epoch", "train": "eval, train", "val": "eval, val", "test": "eval, test"}

#: Seconds, mean and standard deviation over 10 runs, by data set and model, in the order of `PARTS`, on a V100.
PAPER_EPOCHS: dict[str, dict[str, tuple[tuple[float, float], ...]]] = {
    "zinc": {
        "GIN": ((4.582, 0.012), (3.138, 0.071), (0.310, 0.002), (0.309, 0.001)),
        "GIN-small": ((3.737, 0.012), (3.070, 0.058), (0.304, 0.002), (0.303, 0.003)),
        "CIN": ((10.828, 0.059), (4.679, 0.051), (0.470, 0.002), (0.471, 0.003)),
        "CIN-small": ((7.082, 0.041), (3.682, 0.056), (0.365, 0.002), (0.373, 0.030)),
    },
    "zinc-full": {
        "GIN": ((106.268, 1.991), (73.051, 1.742), (7.874, 0.174), (1.618, 0.039)),
        "GIN-small": ((87.581, 2.343), (71.160, 1.865), (7.714, 0.206), (1.583, 0.037)),
        "CIN": ((249.334, 17.927), (107.510, 1.637), (11.759, 0.642), (2.398, 0.028)),
        "CIN-small": ((163.282, 8.016), (85.342, 2.637), (9.251, 0.431), (1.876, 0.044)),
    },
}

#: The recipe of each model and what is changed in it. The widths of GIN give it as many parameters as CIN, within 5 %.
MODELS: dict[str, tuple[str, tuple[str, ...]]] = {
    "GIN": ("zinc-gin-e", ("model.width=384",)),
    "GIN-small": ("zinc-gin-e", ("model.width=136", "model.layers=2")),
    "CIN": ("zinc-cin", ()),
    "CIN-small": ("zinc-cin-small", ()),
    "steady CIN": ("zinc-steady", ("train.precision=float32",)),  # not in the paper
}
#: Complexes of each part in the small form: a few batches.
_FEW = 512


# ----------------------------------------------------------------------------------------------------------- lifting


def run_lifting(
    data: Sequence[str] | None = None,
    runs: int = 5,
    small: bool = False,
    tick: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Time the lifting of whole data sets.

    Args:
        data: out of `TITLES`; all by default, and ZINC alone in the small form.
        runs: of each kind, after one that is not counted; kinds take turns.
        small: ZINC alone.
        tick: called after every data set.

    Returns:
        Per data set the cells there are and the seconds of every run: with one thread and with one per core from
        arrays, and with one thread from a list of Python objects, a pair of a number and an array for each graph.
    """
    rows = []
    for name in data or (["zinc"] if small else TITLES):
        store = load(name, None).store
        graphs = _as_list(store)
        kinds: dict[str, Callable[[], ComplexStore]] = {
            "one": lambda store=store: lift_many(store, Rings(18), 1),  # type: ignore[misc]
            "all": lambda store=store: lift_many(store, Rings(18)),  # type: ignore[misc]
            "list": lambda graphs=graphs: lift_many(graphs, Rings(18), 1),  # type: ignore[misc]
        }
        cells = kinds["one"]().num_cells
        seconds: dict[str, list[float]] = {kind: [] for kind in kinds}
        for number in range(runs + 1):
            for kind, lifting in kinds.items():
                start = time.perf_counter()
                lifting()
                if number:
                    seconds[kind].append(time.perf_counter() - start)
        rows.append({"dataset": name, "graphs": len(store), "cells": list(cells), "seconds": seconds})
        tick(f"{TITLES[name]}: {sum(seconds['one']) / runs:.3f} s")
    return {"small": small, "runs": runs, "threads": num_threads(None), "rows": rows}


def _as_list(store: ComplexStore) -> list[tuple[int, Any]]:
    """Graphs as pairs of a number of vertices and an array of edges [m, 2]."""
    edges = torch.split(store.boundaries[0].idx.reshape(-1, 2), store.cell_ptr[1].diff().tolist())
    return [(n, ends.numpy()) for n, ends in zip(store.cell_ptr[0].diff().tolist(), edges, strict=True)]


# ------------------------------------------------------------------------------------------------------------ epochs


def run_epochs(
    device: str = "cpu",
    data: Sequence[str] = ("zinc",),
    models: Sequence[str] | None = None,
    epochs: int = 10,
    small: bool = False,
    tick: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Time epochs of training and of evaluation.

    Args:
        device: "cpu" or "cuda"; on a GPU steps are recorded and replayed, as `cwnet.train.fit` does it.
        data: "zinc", "zinc-full" or both.
        models: out of `MODELS`; all by default.
        epochs: that are timed, after one that is not.
        small: a few batches of each part and two epochs; the figures are then carried to the whole part.
        tick: called after every model.

    Returns:
        Per data set and model its parameters, the seconds of every epoch and evaluation, and the bytes of a GPU that
        its run takes; all plain data.
    """
    place = torch.device("cuda", torch.cuda.current_device()) if device == "cuda" else torch.device(device)
    if place.type == "cpu":
        _keep_memory()
    epochs = min(epochs, 2) if small else epochs
    rows = []
    for name in data:
        loaded: dict[Any, Dataset] = {}
        for model in MODELS if models is None else models:
            recipe = _recipe(name, model)
            lifting = recipe.data.lifting
            if lifting not in loaded:
                dataset = load(name, lifting)
                if place.type == "cuda":
                    dataset = replace(dataset, store=dataset.store.to(place))
                loaded[lifting] = dataset
            row: dict[str, Any] = {"dataset": name, "model": model, "whole": _sizes(loaded[lifting])}
            row |= _time(recipe, _few(loaded[lifting]) if small else loaded[lifting], place, epochs)
            rows.append(row)
            tick(f"{model} on {TITLES[name]}: {min(row['seconds']['training']):.3f} s")
    used = torch.cuda.get_device_name(place) if place.type == "cuda" else None
    return {"small": small, "epochs": epochs, "device": device, "device_name": used, "rows": rows}


def _recipe(data: str, model: str) -> Recipe:
    source, changes = MODELS[model]
    return load_recipe(source, [f'data.name="{data}"', *changes])


def _few(dataset: Dataset) -> Dataset:
    """The first complexes of every part."""
    split = dataset.splits[0]
    few = Split(*(part[:_FEW] for part in (split.train, split.val, split.test)))
    return replace(dataset, splits=(few,))


def _time(recipe: Recipe, dataset: Dataset, place: torch.device, epochs: int) -> dict[str, Any]:
    if place.type == "cuda":
        gc.collect()  # graphs of the run before hold memory until then
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(place)  # to what is reserved now
        before = torch.cuda.max_memory_reserved(place)
    run = Run(recipe, dataset, device=place, steps=best_steps)
    index = {"train": run.split.train, "val": run.split.val, "test": run.split.test}
    targets = {part: dataset.store.y[numbers.to(place)].cpu() for part, numbers in index.items()}  # type: ignore[index]
    seconds: dict[str, list[float]] = {part: [] for part in PARTS}

    def train(epoch: int) -> None:
        _exhaust(run.steps.train(run.loader.batches(epoch)))
        run.steps.losses()  # waits for the device

    def evaluate(part: str) -> None:
        run.metric(run.steps.predict(index[part])(), targets[part])

    for epoch in range(epochs + 1):
        for part in PARTS:
            start = time.perf_counter()
            train(epoch) if part == "training" else evaluate(part)
            if epoch:  # the first one compiles, records or warms up
                seconds[part].append(time.perf_counter() - start)
    taken = {"bytes": torch.cuda.max_memory_reserved(place) - before} if place.type == "cuda" else {}
    return {"parameters": run.parameters, "complexes": _sizes(dataset), "seconds": seconds, **taken}


def _sizes(dataset: Dataset) -> dict[str, int]:
    """Complexes of each of `PARTS`."""
    split = dataset.splits[0]
    return {part: len(split.train if part == "training" else getattr(split, part)) for part in PARTS}


def _exhaust(steps: Iterable[int]) -> None:
    for _ in steps:
        pass
