"""How long it takes to gather a random mini-batch out of a store, on the CPU and on a GPU, beside PyG's collate.

    CWNET_DATA=/path/to/data python benchmarks/gather.py

Writes benchmarks/results/gather.json. Batches gathered on the GPU are compared with those of the CPU first.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import torch
from _common import ROOT, describe_run, write_json

import cwnet

SIZES = (32, 128, 1024)
REPEATS = 200


def zinc() -> cwnet.ComplexStore:
    arrays = dict(np.load(Path(os.environ["CWNET_DATA"]) / "ZINC" / "zinc12k_train.npz", allow_pickle=False))
    graphs = cwnet.ComplexStore.from_graphs(
        arrays["num_nodes"], arrays["num_edges"], arrays["edge"], x=arrays["atom"], edge_x=arrays["bond"], y=arrays["y"]
    )
    return cwnet.lift_many(graphs, cwnet.Rings(18))


def milliseconds(call, device: str) -> float:
    samples = []
    for repeat in range(REPEATS + 20):
        start = time.perf_counter()
        call()
        if device == "cuda":
            torch.cuda.synchronize()
        if repeat >= 20:
            samples.append(time.perf_counter() - start)
    return 1000 * statistics.median(samples)


def main() -> int:
    store = zinc()
    figures: dict[str, object] = {"store": repr(store), "milliseconds_per_batch": {}}
    devices = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    for device in devices:
        there = store.to(device)
        for size in SIZES:
            wanted = torch.randperm(len(store))[:size]
            here = there.batch(wanted.to(device))
            assert list(here.to("cpu")) == list(store.batch(wanted)), "a batch gathered on the GPU differs"
            index = wanted.to(device)
            figures["milliseconds_per_batch"][f"{device}, {size}"] = milliseconds(
                lambda i=index, s=there: s.batch(i), device
            )
    try:
        from torch_geometric.data import Batch

        for size in SIZES:
            data = [c.to_pyg() for c in store.batch(torch.randperm(len(store))[:size])]
            figures["milliseconds_per_batch"][f"PyG collate on the cpu, {size}"] = milliseconds(
                lambda d=data: Batch.from_data_list(d), "cpu"
            )
    except ImportError:
        pass
    run = describe_run("python benchmarks/gather.py", ["torch", "numpy", "torch-geometric"])
    run["machine"]["gpu"] = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    name = "gather_gpu.json" if torch.cuda.is_available() else "gather.json"
    write_json(Path(os.environ.get("OUT", ROOT / "benchmarks" / "results")) / name, {"run": run, **figures})
    for key, value in figures["milliseconds_per_batch"].items():
        print(f"{key:32} {value:8.3f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
