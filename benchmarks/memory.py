"""What training takes of memory, beside its data: the paper's models and steady CIN, on a CPU.

    CWNET_DATA=/path/to/data python benchmarks/memory.py
    python benchmarks/memory.py --render

Each model trains a few steps on batches of 128 molecules of ZINC in a process of its own. Two figures: what the forward
pass keeps for the gradient, counted through PyTorch's hooks for saved tensors, and how much the process grows from
before the model is made to the end of the last step.

Writes benchmarks/results/memory.json, and docs/benchmarks/memory.md of it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from typing import Any

import torch
from _common import ROOT, describe_run, markdown_table, measured, peak_memory, write_text

from cwnet.data import DatasetNotFoundError
from cwnet.experiments.times import MODELS
from cwnet.train import load_recipe
from cwnet.train._build import load_data
from cwnet.train._run import Run

OUT = ROOT / "benchmarks" / "results" / "memory.json"
PAGE = ROOT / "docs" / "benchmarks" / "memory.md"
STEPS = 12


def kept_for_gradient(run: Run, index: torch.Tensor) -> int:
    """Bytes of all tensors that a forward pass saves for the backward pass, parameters left aside."""
    own = {p.untyped_storage().data_ptr() for p in run.steps.model.parameters()}
    kept: dict[int, int] = {}

    def note(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    run.steps.model.train()
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        out = run.steps.model(run.dataset.store.batch(index))
    del out
    return sum(kept.values())


def measure(model: str) -> dict[str, Any]:
    """In this process: the figures of one model."""
    source, changes = MODELS[model]
    recipe = load_recipe(source, list(changes))
    dataset = load_data(recipe.data)
    before = peak_memory()
    run = Run(recipe, dataset)
    batches = run.loader.batches(0)[: STEPS + 1]
    for _ in run.steps.train(batches[:STEPS]):
        pass
    grown = peak_memory() - before
    return {"parameters": run.parameters, "grown": grown, "kept": kept_for_gradient(run, batches[STEPS])}


def measure_all() -> dict[str, Any]:
    run = describe_run("python benchmarks/memory.py", ["cwnet", "torch"])
    found = {}
    for name in MODELS:
        command = [sys.executable, __file__, "--one", name]
        found[name] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
        print(name, found[name])
    return {"run": run, "models": found}


def page(figures: dict[str, Any]) -> str:
    rows = [
        [name, f"{row['parameters']:,}", f"{row['kept'] / 2**20:.0f}", f"{row['grown'] / 2**20:.0f}"]
        for name, row in figures["models"].items()
    ]
    run = figures["run"]
    return f"""# Memory of training

Batches of 128 molecules of ZINC, on a CPU, in float32; each model in a process of its own. The third column is what a
forward pass keeps for the gradient, parameters left aside. The last is how much the process grows from before the model
is made to the end of {STEPS} steps: parameters, averages of Adam, what is kept and what is needed on the way.

{markdown_table(["model", "parameters", "kept for the gradient, MiB", "growth of the process, MiB"], rows, "lrrr")}

The models are those of the [times of epochs](../results/epoch-times.md).

`{run["command"]}`, {run["date"]}, {run["machine"]["cpu"]}, torch {run["versions"]["torch"]}.
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--render", action="store_true", help="only write the page anew")
    parser.add_argument("--one", choices=MODELS, help="measure one model in this process, and print its figures")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one)))
        return 0
    write_text(PAGE, page(measured(OUT, measure_all, options.render, DatasetNotFoundError)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
