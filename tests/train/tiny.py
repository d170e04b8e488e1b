"""Small data and small recipes: runs of a second."""

import random

import torch

import cwnet
from cwnet.data import Dataset, Split
from cwnet.train import Recipe

TRAIN, VAL, TEST = range(41), range(41, 50), range(50, 60)


def graphs(count=60, seed=0, y=lambda k, tail: [k + 0.3 * tail]):
    """A ring and a tail each, with categories on vertices and edges; the target tells their sizes."""
    rng = random.Random(seed)
    out = []
    for _ in range(count):
        k, tail = rng.randint(3, 6), rng.randint(0, 3)
        edges = [(i, (i + 1) % k) for i in range(k)] + [(rng.randrange(k), k + i) for i in range(tail)]
        x = [[rng.randrange(4)] for _ in range(k + tail)]
        out.append(cwnet.Graph(k + tail, edges, x=x, edge_x=[[rng.randrange(3)] for _ in edges], y=y(k, tail)))
    return out


def split():
    return Split(TRAIN, VAL, TEST)


def dataset(task="regression", outputs=1, metric="mae", y=None, splits=None, **options):
    store = cwnet.lift_many(graphs(**options), cwnet.Rings(6))
    if y is not None:
        store = with_targets(store, y)
    return Dataset("tiny", store, (split(),) if splits is None else splits, task, outputs, metric, {})


def with_targets(store, y):
    from dataclasses import replace

    return replace(store, y=torch.as_tensor(y))


def recipe(name="tiny", **changes):
    """A recipe of four epochs; sections are given as keywords, and add to what is here."""
    tables = {
        "data": {"name": str(name)},
        "model": {"width": 8, "layers": 1},
        "train": {"batch_size": 4, "epochs": 4, "lr": 0.01, "checkpoint_every": 1},
        "schedule": {"kind": "plateau", "patience": 1},
    }
    for section, values in changes.items():
        tables.setdefault(section, {}).update(values)
    if "max_cells" in tables["train"]:
        del tables["train"]["batch_size"]
    return Recipe.from_dict(tables)


def without_times(history):
    return [{k: v for k, v in row.items() if k != "seconds"} for row in history]


def same_weights(a, b):
    """Bitwise."""
    a, b = a.state_dict(), b.state_dict()
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)
