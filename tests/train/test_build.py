"""Every setting of the paper's experiments can be said in a recipe, and gives the model of the paper."""

from dataclasses import replace

import networkx as nx
import pytest
import torch

import cwnet
from cwnet.data import Dataset, Split
from cwnet.train import Recipe, RecipeError
from cwnet.train._build import build_model, resolve
from cwnet.train._data import split_of

PLATEAU = {"kind": "plateau", "factor": 0.5}
STEP = {"kind": "step", "factor": 0.5, "every": 20}
TU = {"norm": "batch", "jumping": True, "vertices": "raw", "edges": "vertices"}

#: The rows of the paper's tables: sections of a recipe, columns of vertex and edge features (negative: real numbers,
#: None: none), task, outputs, and the number of parameters where it was published, less an M that no data reaches.
ROWS = {
    "zinc": (
        {"model": {"width": 128, "layers": 4, "atoms": [28], "bonds": [4]}, "schedule": {**PLATEAU, "patience": 20},
         "stop": {"min_lr": 1e-5}, "train": {"epochs": 1000, "lr": 1e-3}},
        (1, 1), "regression", 1, 1_700_865 - 131_584,
    ),
    "zinc without edge features": (
        {"model": {"width": 128, "layers": 4, "edges": "vertices"}}, (1, 1), "regression", 1, None,
    ),
    "zinc-full small": (
        {"model": {"width": 48, "layers": 2}, "schedule": {**PLATEAU, "patience": 5}, "train": {"seeds": [0, 1, 2, 3]}},
        (1, 1), "regression", 1, None,
    ),
    "molhiv": (
        {"model": {"width": 64, "layers": 2, "pool": "mean", "dropout": 0.5, "head_dropout": 0.5,
                   "atoms": [119, 4, 12, 12, 10, 6, 6, 2, 2]}, "train": {"lr": 1e-4, "report": "best", "epochs": 150}},
        (9, 3), "binary", 1, 239_745 - 2 * (2 * 64 * 64 + 64),
    ),
    "molhiv with counts of colours": (
        {"model": {"width": 64, "layers": 2, "pool": "mean", "counts": 512, "rounds": 1,
                   "atoms": [119, 4, 12, 12, 10, 6, 6, 2, 2]}},
        (9, 3), "binary", 1, 239_745 - 2 * (2 * 64 * 64 + 64) + 513 * 128,
    ),
    "csl": (
        {"model": {"width": 160, "layers": 3, "norm": "layer", "pool": "mean", "edges": "constant"},
         "train": {"lr": 5e-4, "batch_size": 12, "epochs": 300}, "schedule": {**PLATEAU, "patience": 20},
         "stop": {"min_lr": 1e-6}},
        (None, None), "multiclass", 10, 2_024_330 - 3 * (2 * 160 * 160 + 160),
    ),
    "sr": (
        {"model": {"width": 16, "layers": 3, "norm": "none", "act": "elu", "vertices": "ones", "edges": "vertices",
                   "outputs": 16}, "train": {"epochs": 0, "precision": "float64", "seeds": [0, 1, 2, 3, 4]}},
        (None, None), "regression", 16, None,
    ),
    "sr baseline": (
        {"model": {"kind": "mlp", "width": 256, "layers": 2, "norm": "none", "act": "elu", "vertices": "ones",
                   "edges": "vertices"}}, (None, None), "regression", 16, None,
    ),
    "ring-transfer": (
        {"model": {"kind": "ring-transfer", "width": 64, "layers": 3}, "stop": {"min_lr": 1e-5},
         "schedule": {**PLATEAU, "patience": 5}}, (-5, None), "cells", 5, None,
    ),
    "ring-transfer, gin": (
        {"model": {"kind": "ring-transfer-gin", "width": 64, "layers": 5}}, (-5, None), "cells", 5, None,
    ),
    "mutag": (
        {"data": {"val": "next"}, "model": {**TU, "width": 64, "layers": 4, "shared": False, "cell_dropout": 0.5},
         "train": {"lr": 0.01, "batch_size": 32, "epochs": 350}, "schedule": STEP},
        (-7, None), "multiclass", 2, None,
    ),
    "nci1": (
        {"model": {**TU, "width": 16, "layers": 4, "init": "mean", "head_dropout": 0.5}, "schedule": STEP},
        (-37, None), "multiclass", 2, None,
    ),
    "reddit-b": (
        {"model": {**TU, "width": 64, "layers": 4, "norm": "none", "pool": "mean", "shared": False, "init": "mean"},
         "schedule": {**STEP, "every": 50}}, (-1, None), "multiclass", 2, None,
    ),
    "gin-e on zinc": ({"model": {"kind": "gin-e", "width": 128, "layers": 4}}, (1, 1), "regression", 1, None),
    "sin": ({"model": {"kind": "sin", "width": 16, "layers": 2}}, (-3, None), "multiclass", 2, None),
    "cin++": ({"model": {"kind": "cin++", "width": 16, "layers": 2}}, (1, 1), "regression", 1, None),
}  # fmt: skip


def features(rows, columns):
    if columns is None:
        return None
    return torch.rand(rows, -columns) if columns < 0 else torch.zeros(rows, columns, dtype=torch.uint8)


def fake(columns, task, outputs):
    """Rings and cliques with the features and targets of a benchmark."""
    graphs = [nx.cycle_graph(5), nx.complete_graph(4), nx.path_graph(3)] * 4
    store = cwnet.lift_many(graphs, cwnet.Rings(6))
    n = store.num_cells
    y = (
        torch.zeros(len(store), dtype=torch.int64)
        if task in ("multiclass", "cells")
        else torch.zeros(len(store), outputs)
    )
    store = replace(store, x=(features(n[0], columns[0]), features(n[1], columns[1]), None), y=y)
    if task == "cells":
        store = replace(store, cell_y=(torch.zeros(n[0], dtype=torch.int64), None, None))
    splits = tuple(Split([i for i in range(12) if i % 3 != k], [], range(k, 12, 3)) for k in range(3))
    return Dataset("fake", store, splits, task, outputs, {"regression": "mae"}.get(task, "accuracy"), {})


@pytest.mark.parametrize("row", ROWS)
def test_rows_of_the_tables(row):
    sections, columns, task, outputs, parameters = ROWS[row]
    dataset = fake(columns, task, outputs)
    data = {"name": "fake", "val": "next", **sections.get("data", {})}
    recipe = resolve(Recipe.from_dict({**sections, "data": data}), dataset)
    model = build_model(recipe.model, dataset)
    rows = dataset.store.num_cells[0] if task == "cells" else len(dataset.store)
    assert model(dataset.store.batch()).shape == (rows, outputs)
    if parameters:
        assert model.num_parameters() == parameters
    # What is filled in is written down, and changes nothing when it is read.
    assert resolve(Recipe.from_dict(recipe.to_dict()), dataset) == recipe


def test_sizes_of_categories_are_the_data_sets_own():
    """OGB's columns have OGB's tables, others as many categories as were seen."""
    recipe = Recipe.from_dict({"data": {"name": "fake", "val": "next"}})
    ogb = resolve(recipe, fake((9, 3), "regression", 1)).model
    assert (ogb.atoms, ogb.bonds) == ((119, 5, 12, 12, 10, 6, 6, 2, 2), (5, 6, 2))
    other = fake((2, 1), "regression", 1)
    other.store.x[0][3] = torch.tensor([4, 7], dtype=torch.uint8)
    found = resolve(recipe, other).model
    assert (found.atoms, found.bonds) == ((5, 8), (1,))


def test_the_next_fold_validates():
    dataset = fake((1, 1), "regression", 1)
    split = split_of(Recipe.from_dict({"data": {"name": "fake", "val": "next"}}).data, dataset, 2)
    assert split.val.tolist() == [0, 3, 6, 9]
    assert split.train.tolist() == [1, 4, 7, 10]


@pytest.mark.parametrize(
    ("columns", "kind", "message"),
    [((1, 1), "gin", "counts no colours"), ((-5, None), "cin", "colours are made of whole numbers")],
)
def test_counts_that_can_not_be(columns, kind, message):
    dataset = fake(columns, "regression", 1)
    recipe = Recipe.from_dict({"data": {"name": "fake", "val": "next"}, "model": {"kind": kind, "counts": 8}})
    with pytest.raises(RecipeError, match=message):
        build_model(resolve(recipe, dataset).model, dataset)
