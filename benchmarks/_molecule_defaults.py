"""Settle the defaults of ``cwnet train TABLE`` on ten tables, without their test parts.

    python benchmarks/_molecule_defaults.py prepare FOLDER
    python benchmarks/_molecule_defaults.py networks FOLDER --device cuda --jobs 7
    python benchmarks/_molecule_defaults.py trees FOLDER --jobs 9
    python benchmarks/_molecule_defaults.py judge FOLDER

The first lifts the tables and computes what trees see; the next two need no RDKit and keep what is done, so they may be
stopped and called again. A split's training part is cut once more: an eighth of it is held back, chooses the epoch and
the weights, and the split's validation part judges. Five small tables have three splits, five large ones their first.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

SMALL = ("freesolv", "solubility", "dili", "herg", "clintox")
LARGE = ("nci", "ames", "ld50", "malaria", "tox21")
#: The splits of each table, and how many networks are trained on each.
PLAN = {**dict.fromkeys(SMALL, ((0, 1, 2), 3)), **dict.fromkeys(LARGE, ((0,), 2))}
#: Their metric is the root mean square error; that of the others one minus ROC-AUC, averaged over targets.
NUMBERS = {"freesolv", "solubility", "nci", "ld50", "malaria"}

STEADY = {"model.preset": "cin", "model.norm": "capped", "model.pool": "both"}
#: Changes of the recipe; "epochs" is a factor.
NETWORKS: dict[str, dict[str, Any]] = {
    "layer norm, sums": {"model.norm": "layer", "model.pool": "sum"},
    "steady": STEADY,
    "steady, squared error": STEADY | {"train.loss": "mse"},
    "steady, rate 1e-3": STEADY | {"train.lr": 1e-3},
    "steady, dropout 0.1": STEADY | {"model.dropout": 0.1},
    "steady, twice the epochs": STEADY | {"epochs": 2},
}
#: What trees see: 300 extremely randomised ones, three tenths of the columns tried at each branch for numbers.
TREES: dict[str, tuple[str, ...]] = {
    "Morgan and descriptors": ("morgan", "descriptors"),
    "Morgan, CWL and descriptors": ("morgan", "cwl", "descriptors"),
    "CWL and descriptors": ("cwl", "descriptors"),
}


# ------------------------------------------------------------------------------------------------ the tables


def prepare(folder: Path) -> None:
    """Lift the tables and compute what trees see."""
    from dataclasses import replace

    import torch
    from _molecule_tables import split_table
    from rdkit import Chem, RDLogger
    from rdkit.Chem import Descriptors, rdFingerprintGenerator

    from cwnet.chem import Featuriser
    from cwnet.data import save_store
    from cwnet.molecules import CWLFingerprint

    RDLogger.DisableLog("rdApp.*")
    morgan = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    for name in PLAN:
        table = split_table(name)
        store = Featuriser()(table.smiles)
        assert len(store) == len(table.smiles)
        save_store(replace(store, y=torch.tensor(table.y, dtype=torch.float32)), folder / name)
        molecules = [Chem.MolFromSmiles(smiles) for smiles in table.smiles]
        described = np.array([[of(each) for _, of in Descriptors.descList] for each in molecules], dtype=np.float64)
        np.savez_compressed(
            folder / f"{name}.npz",
            y=table.y,
            part=np.array(table.parts),
            morgan=np.minimum([morgan.GetCountFingerprintAsNumPy(each) for each in molecules], 255).astype(np.uint8),
            cwl=np.minimum(CWLFingerprint(2048, 2).fit_transform(table.smiles).toarray(), 255).astype(np.uint8),
            descriptors=np.nan_to_num(described, nan=0, posinf=0, neginf=0).clip(-1e6, 1e6).astype(np.float32),
        )


def cut(folder: Path, name: str, split: int) -> tuple[Array, Array, Array, Array]:
    """Targets, and which molecules train, choose and judge."""
    table = np.load(folder / f"{name}.npz")
    train, judge = (np.flatnonzero(table["part"][split] == part) for part in ("train", "val"))
    order = np.random.default_rng(split).permutation(len(train))
    held = len(train) // 8
    return table["y"], np.sort(train[order[held:]]), np.sort(train[order[:held]]), judge


# ------------------------------------------------------------------------------------------------ what is tried


def train_networks(folder: Path, candidate: str, name: str, split: int, device: str) -> Array:
    """What each network says of the molecules that choose and of those that judge, [networks, molecules, targets]."""
    from dataclasses import replace

    import torch

    from cwnet.data import Dataset, Split, open_store
    from cwnet.molecules._targets import Targets
    from cwnet.molecules._train import Settings, default_recipe
    from cwnet.train import fit

    torch.set_num_threads(1)
    changes = dict(NETWORKS[candidate])
    longer = changes.pop("epochs", 1)
    _, train, choose, judge = cut(folder, name, split)
    store = open_store(folder / name)
    assert store.y is not None
    names = tuple(f"target {i}" for i in range(store.y.shape[1]))
    if name in NUMBERS:
        targets = Targets("regression", names).scaled_by(store.y[train])
    else:
        targets = Targets("binary" if len(names) == 1 else "multilabel", names, (("0", "1"),) * len(names))
    recipe = default_recipe(targets, len(train), Settings(ensemble=PLAN[name][1]), name)
    epochs = recipe.train.epochs * longer
    changes |= {"train.epochs": epochs, "stop.patience": max(epochs // 3, 10)}
    recipe = recipe.changed([f"{key}={value}" for key, value in changes.items()])
    parts = Split(*(torch.from_numpy(part) for part in (train, choose, np.concatenate([choose, judge]))))
    whole = replace(store, y=targets.encode(store.y))
    dataset = Dataset(name, whole, (parts,), targets.task, targets.outputs, targets.metric, {})
    results = fit(recipe, dataset=dataset, device=device, progress=False)
    return np.stack([targets.decode(r.predictions.reshape(-1, len(names))).numpy() for r in results])


def train_trees(folder: Path, candidate: str, name: str, split: int, jobs: int) -> Array:
    """The same for trees; they are one member."""
    from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

    table = np.load(folder / f"{name}.npz")
    x = np.concatenate([table[kind].astype(np.float32) for kind in TREES[candidate]], 1)
    y, train, choose, judge = cut(folder, name, split)
    asked = x[np.concatenate([choose, judge])]
    said = []
    for i in range(y.shape[1]):
        rows = train[~np.isnan(y[train, i])]
        if name in NUMBERS:
            trees = ExtraTreesRegressor(300, max_features=0.3, n_jobs=jobs, random_state=0)
            said.append(trees.fit(x[rows], y[rows, i]).predict(asked))
        else:
            trees = ExtraTreesClassifier(300, n_jobs=jobs, random_state=0)
            said.append(trees.fit(x[rows], y[rows, i]).predict_proba(asked)[:, 1])
    return np.stack(said, 1)[None]


def run(folder: Path, kind: str, device: str, jobs: int) -> None:
    """All that is not done yet; networks several at a time, trees with several threads."""
    out = folder / kind
    out.mkdir(exist_ok=True)
    todo = [(c, n, s) for c in (NETWORKS if kind == "networks" else TREES) for n in PLAN for s in PLAN[n][0]]
    todo = [(c, n, s) for c, n, s in todo if not (kind == "networks" and n not in NUMBERS and "squared" in c)]
    todo = [each for each in todo if not _file(out, *each).exists()]
    if kind == "trees":
        for each in todo:
            _keep(_file(out, *each), train_trees(folder, *each, jobs))
        return
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        waiting = {pool.submit(train_networks, folder, *each, device): each for each in todo}
        for future in as_completed(waiting):
            _keep(_file(out, *waiting[future]), future.result())


def _file(out: Path, candidate: str, name: str, split: int) -> Path:
    return out / f"{candidate}, {name}, {split}.npy"


def _keep(path: Path, said: Array) -> None:
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        np.save(file, said)
    os.replace(part, path)
    print(path.stem, flush=True)


# ------------------------------------------------------------------------------------------------ judging


def score(name: str, y: Array, said: Array) -> float:
    """Lower is better."""
    from sklearn.metrics import roc_auc_score

    if name in NUMBERS:
        return float(np.sqrt(np.mean((y - said) ** 2)))
    known = [~np.isnan(column) for column in y.T]
    both = [i for i, rows in enumerate(known) if len(set(y[rows, i])) == 2]
    return 1 - float(np.mean([roc_auc_score(y[known[i], i], said[known[i], i]) for i in both]))


Predict = Callable[[str, int], Iterable[Array]]


def judge(folder: Path) -> dict[str, dict[str, float]]:
    """The score of every candidate on every table, averaged over splits (and networks, where one is meant)."""
    rows: dict[str, Predict] = {}

    def said(kind: str, candidate: str, name: str, split: int) -> tuple[Array, Array]:
        both = np.load(_file(folder / kind, candidate, name, split))
        held = len(cut(folder, name, split)[2])
        return both[:, :held], both[:, held:]

    def blended(network: str, trees: str, members: bool, shrink: float | None) -> Predict:
        import torch

        from cwnet.molecules._blend import blend
        from cwnet.molecules._targets import Targets

        def predict(name: str, split: int) -> Iterable[Array]:
            (held, asked), (tree_held, tree_asked) = (
                said("networks", network, name, split),
                said("trees", trees, name, split),
            )
            y, _, choose, _ = cut(folder, name, split)
            task = "regression" if name in NUMBERS else "multilabel"
            targets = Targets(task, tuple(map(str, range(y.shape[1]))))  # type: ignore[arg-type]
            for i in [slice(None)] if members else [slice(i, i + 1) for i in range(len(held))]:
                parts = [torch.from_numpy(part) for part in (y[choose], held[i].mean(0), tree_held[0])]
                w = np.array(blend(targets, *parts, shrink))
                yield w * asked[i].mean(0) + (1 - w) * tree_asked[0]

        return predict

    for candidate in NETWORKS:
        rows[f"network: {candidate}"] = lambda n, s, c=candidate: said("networks", c, n, s)[1]  # type: ignore[misc]
    rows["networks: steady, mean"] = lambda n, s: [said("networks", "steady", n, s)[1].mean(0)]
    for candidate in TREES:
        rows[f"trees: {candidate}"] = lambda n, s, c=candidate: said("trees", c, n, s)[1]  # type: ignore[misc]
    first = next(iter(TREES))
    rows["steady and trees, half each"] = blended("steady", first, False, None)
    rows["steady and trees, weighed"] = blended("steady", first, False, 100)
    for shrink in (None, 0, 50, 100, 200, 400, 1000):
        rows[f"steady (mean) and trees, shrink {shrink}"] = blended("steady", first, True, shrink)
    figures: dict[str, dict[str, float]] = {}
    for title, predict in rows.items():
        figures[title] = {}
        for name, (splits, _) in PLAN.items():
            try:
                each = [
                    np.mean(
                        [score(name, cut(folder, name, s)[0][cut(folder, name, s)[3]], p) for p in predict(name, s)]
                    )
                    for s in splits
                ]
            except FileNotFoundError:  # this candidate was not run on this table
                continue
            figures[title][name] = float(np.mean(each))
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["prepare", "networks", "trees", "judge"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    if options.what == "prepare":
        prepare(options.folder)
    elif options.what == "judge":
        print(json.dumps(judge(options.folder), indent=1))
    else:
        run(options.folder, options.what, options.device, options.jobs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
