"""Settle the defaults of ``cwnet train TABLE``: candidates on small tables, judged by molecules that no test part has.

    python benchmarks/_molecule_defaults.py prepare FOLDER
    python benchmarks/_molecule_defaults.py run FOLDER OUT.json --jobs 2

The first lifts the tables; the second trains, in one process with one thread per run, and needs no RDKit. A split is
the one that benchmarks/molecules.py compares on. Its test part is not touched: an eighth of its training part is held
back and judges, the validation part chooses the epoch as ever.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np
import torch

#: Each is the defaults as they were, with these changes. "rings" is the lifting, "seed" that of the network.
CANDIDATES: dict[str, dict[str, str]] = {"as it was": {}}
LIFTINGS = ("rings:18", "rings:6")


def prepare(folder: Path) -> None:
    """Lift the tables."""
    from _molecule_tables import TABLES, table

    from cwnet.chem import Featuriser
    from cwnet.data import save_store

    for name in TABLES:
        rows = table(name)
        y = torch.tensor([value for _, value in rows])[:, None]
        for lifting in LIFTINGS:
            store = Featuriser(lifting)([smiles for smiles, _ in rows])
            assert len(store) == len(rows)
            save_store(_with(store, y), folder / f"{name}-{lifting.replace(':', '')}")


def _with(store: Any, y: torch.Tensor) -> Any:
    from dataclasses import replace

    return replace(store, y=y)


def judged(n: int, fold: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Molecules to train on, to choose by, and to judge by."""
    from cwnet.data import random_split

    split = random_split(n, seed=fold)
    order = torch.randperm(len(split.train), generator=torch.Generator().manual_seed(fold))
    held = len(order) // 8
    return split.train[order[held:]], split.val, split.train[order[:held]]


def train(folder: Path, name: str, fold: int, changes: dict[str, str]) -> dict[str, Any]:
    """One run."""
    torch.set_num_threads(1)
    from dataclasses import replace

    from cwnet.data import Dataset, Split, open_store
    from cwnet.molecules._targets import Targets
    from cwnet.molecules._train import Settings, default_recipe
    from cwnet.train import fit

    changes = dict(changes)
    lifting, seed = changes.pop("rings", "rings:18"), int(changes.pop("seed", 0))
    scale = float(changes.pop("epochs", 1))
    rings = changes.pop("ring features", None)
    store = open_store(folder / f"{name}-{lifting.replace(':', '')}")
    if rings:
        store = _ring_features(store)
    learnt, chosen, judges = judged(len(store), fold)
    targets = Targets("regression", ("y",)).scaled_by(store.y[learnt])
    recipe = default_recipe(targets, len(learnt), Settings(seed=seed), name)
    epochs = round(recipe.train.epochs * scale)
    recipe = recipe.changed([f"train.epochs={epochs}", f"stop.patience={max(epochs // 3, 10)}"])
    recipe = recipe.changed([f"{k}={v}" for k, v in changes.items()])
    dataset = Dataset(
        name, replace(store, y=targets.encode(store.y)), (Split(learnt, chosen, judges),), "regression", 1, "mae", {}
    )
    start = time.perf_counter()
    (result,) = fit(recipe, dataset=dataset, device="cpu", progress=False)
    found = targets.decode(result.predictions.reshape(-1, 1))[:, 0]
    error = found - store.y[judges][:, 0].double()
    return {
        "seconds": time.perf_counter() - start,
        "epochs": result.epochs,
        "best_epoch": result.best_epoch,
        "val": float(result.val_at_best) * targets.std[0],
        "mae": float(error.abs().mean()),
        "rmse": float(error.square().mean().sqrt()),
        "parameters": result.parameters,
        "errors": [round(float(e), 5) for e in error],
    }


def _ring_features(store: Any) -> Any:
    """Sizes of rings and whether they are aromatic as features of 2-cells, with an encoder that adds them."""
    from dataclasses import replace

    import cwnet.train._build as build
    from cwnet.nn._module import Module
    from cwnet.nn.encoders import Categories, FromVertices

    sizes = store.boundaries[1].ptr.diff()
    starts = torch.repeat_interleave(store.cell_ptr[1][:-1], store.cell_ptr[2].diff())
    edges = store.boundaries[1].idx.long() + torch.repeat_interleave(starts, sizes)
    ring = torch.repeat_interleave(torch.arange(len(sizes)), sizes)
    single = torch.zeros(len(sizes)).index_add_(0, ring, (store.x[1][edges, 0] != 3).float())
    x = torch.stack([sizes.clamp(max=19), (single == 0).long()], 1).to(torch.uint8)

    class Rings(Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.own, self.sum = Categories((20, 2), width), FromVertices()

        def forward(self, x: Any, vertices: Any, cells: Any, d: int) -> Any:
            return self.own(x, vertices, cells, d) + self.sum(x, vertices, cells, d)

    plain = build._encoder

    def encoder(recipe: Any, store: Any) -> Any:
        made, width = plain(recipe, store)
        made.encoders[2] = Rings(width)
        return made, width

    build._encoder = encoder
    return replace(store, x=(store.x[0], store.x[1], x))


def run(folder: Path, out: Path, jobs: int, wanted: list[tuple[str, dict[str, str]]], plan: dict[str, int]) -> None:
    """Run all candidates on all splits; what is done is kept as it comes."""
    import multiprocessing

    done: list[dict[str, Any]] = json.loads(out.read_text()) if out.exists() else []
    known = {(d["candidate"], d["set"], d["fold"]) for d in done}
    todo = [(c, ch, s, f) for s, folds in plan.items() for c, ch in wanted for f in range(folds)]
    todo = [t for t in todo if (t[0], t[2], t[3]) not in known]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, max_tasks_per_child=1) as pool:
        waiting = {pool.submit(train, folder, s, f, ch): (c, ch, s, f) for c, ch, s, f in todo}
        for future in as_completed(waiting):
            candidate, changes, name, fold = waiting[future]
            try:
                figures = future.result()
            except Exception as error:
                print(candidate, name, fold, "failed:", repr(error)[:300], flush=True)
                continue
            done.append({"candidate": candidate, "changes": changes, "set": name, "fold": fold, **figures})
            shown = {k: round(v, 4) for k, v in figures.items() if k != "errors"}
            print(candidate, name, fold, shown, flush=True)
            out.write_text(json.dumps(done))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["prepare", "run"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument(
        "--candidates", type=Path, help="a JSON file of names and changes, instead of those listed here"
    )
    parser.add_argument("--plan", default="nci=1,solubility=5,freesolv=5")
    options = parser.parse_args()
    if options.what == "prepare":
        prepare(options.folder)
        return 0
    wanted = json.loads(options.candidates.read_text()) if options.candidates else CANDIDATES
    plan = {k: int(v) for k, v in (pair.split("=") for pair in options.plan.split(","))}
    run(options.folder, options.out, options.jobs, list(wanted.items()), plan)
    return 0


if __name__ == "__main__":
    sys.exit(main())
