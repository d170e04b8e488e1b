"""Preparing, opening and batching the paper's molecular data sets, beside PyG's InMemoryDataset and DataLoader.

    CWNET_DATA=/path/to/data python benchmarks/data.py

Writes benchmarks/results/data.json and docs/results/data.md. Every store is made in a fresh cache. PyG gets the lifted
graphs ready made, as `CellData`, and only collates, saves, loads and batches them.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from _common import ROOT, describe_run, markdown_table, read_json, rounded, write_json, write_text

OUT = ROOT / "benchmarks" / "results" / "data.json"
SETS = {"zinc": 320, "molhiv": 1179, "zinc-full": 6805}  # and the paper's seconds of sequential lifting
TARGETS = {"zinc": 1, "molhiv": 5, "zinc-full": 15}
BATCH = 128

PREPARE = """
import sys, time
import cwnet.data
start = time.perf_counter()
cwnet.data.prepare(sys.argv[1])
print(time.perf_counter() - start)
"""


def seconds(call, repeats: int) -> float:
    samples = []
    for repeat in range(repeats + 3):
        start = time.perf_counter()
        call()
        if repeat >= 3:
            samples.append(time.perf_counter() - start)
    return statistics.median(samples)


def measure_set(name: str, cache: Path) -> dict[str, Any]:
    from cwnet.data import ComplexLoader, open_store

    run = subprocess.run([sys.executable, "-c", PREPARE, name], capture_output=True, text=True, check=True)
    (path,) = (cache / "stores").glob(f"{name}--*")
    store = open_store(path)
    loader = ComplexLoader(store, BATCH, shuffle=True)
    batches = iter(loader.batches(0) * 10)
    return {
        "set": name,
        "complexes": len(store),
        "prepare_s": float(run.stdout),
        "target_s": TARGETS[name],
        "paper_lifting_s": SETS[name],
        "open_ms": 1000 * seconds(lambda: open_store(path), 20),
        "batch_ms": 1000 * seconds(lambda: store.batch(next(batches)), 100),
        "bytes": sum(file.stat().st_size for file in path.iterdir()),
    }


def measure_pyg(name: str, cache: Path, folder: Path) -> dict[str, Any]:
    from torch_geometric.data import InMemoryDataset
    from torch_geometric.loader import DataLoader

    from cwnet.data import open_store

    (path,) = (cache / "stores").glob(f"{name}--*")
    data = [c.to_pyg() for c in open_store(path)]
    file = folder / f"{name}.pt"

    start = time.perf_counter()
    InMemoryDataset.save(data, str(file))
    save_s = time.perf_counter() - start

    class Loaded(InMemoryDataset):
        def __init__(self) -> None:
            super().__init__()
            self.load(str(file))

    start = time.perf_counter()
    loaded = Loaded()
    open_ms = 1000 * (time.perf_counter() - start)
    batches = iter(DataLoader(loaded, batch_size=BATCH, shuffle=True))
    return {
        "set": name,
        "save_s": save_s,
        "open_ms": open_ms,
        "batch_ms": 1000 * seconds(lambda: next(batches), min(40, len(data) // BATCH - 5)),
        "bytes": file.stat().st_size,
    }


def render(figures: dict[str, Any]) -> None:
    pyg = {row["set"]: row for row in figures["pyg"]}
    head = [
        "data set",
        "complexes",
        "prepare",
        "target",
        "paper: lifting alone",
        "open",
        f"batch of {BATCH}",
        "on disk",
    ]
    head += ["PyG: save", "PyG: open", f"PyG: batch of {BATCH}", "PyG: on disk"]
    body = []
    for row in figures["cwnet"]:
        peer = pyg.get(row["set"])
        body.append(
            [
                row["set"],
                f"{row['complexes']:,}",
                f"{row['prepare_s']:.2f} s",
                f"< {row['target_s']} s",
                f"{row['paper_lifting_s']:,} s",
                f"{row['open_ms']:.0f} ms",
                f"{row['batch_ms']:.2f} ms",
                f"{row['bytes'] / 1e6:.1f} MB",
                *(
                    [
                        f"{peer['save_s']:.1f} s",
                        f"{peer['open_ms']:.0f} ms",
                        f"{rounded(peer['batch_ms'])} ms",
                        f"{peer['bytes'] / 1e6:.1f} MB",
                    ]
                    if peer
                    else ["–"] * 4
                ),
            ]
        )
    machine = figures["run"]["machine"]
    text = f"""# Data sets: preparing, opening, batching

Preparing is reading the raw files, lifting (Rings(18) for ZINC, Rings(6) for molhiv) and writing the store, in a fresh
process and cache, import of the package not counted. Opening maps the file and checks its hash and numbers. A batch
is {BATCH} random complexes, gathered on the CPU. PyG gets the lifted graphs ready made: saving is its collate and
`torch.save` alone, and a batch is what its DataLoader takes.

{markdown_table(head, body, "l" + "r" * 11)}

Made by `{figures["run"]["command"]}` on {machine["cpu"]}, {machine["cores"]} cores, {figures["run"]["date"]}.
"""
    write_text(ROOT / "docs" / "results" / "data.md", text)
    print(text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--render", action="store_true", help="only write the page anew from the stored figures")
    if not parser.parse_args().render:
        run = describe_run("python benchmarks/data.py", ["torch", "numpy", "pyarrow", "torch-geometric"])
        with tempfile.TemporaryDirectory() as folder:
            os.environ["CWNET_CACHE"] = folder
            ours = [measure_set(name, Path(folder)) for name in SETS]
            # ZINC-FULL as a list of PyG objects takes minutes and gigabytes to make, so PyG is spared it.
            peers = [measure_pyg(name, Path(folder), Path(folder)) for name in ("zinc",)]
        write_json(OUT, {"run": run, "threads": torch.get_num_threads(), "cwnet": ours, "pyg": peers})
    render(read_json(OUT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
