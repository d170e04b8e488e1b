"""From a table of SMILES to a store, at any size: rates by stage, memory over time, and training from disk.

    pip download --no-deps molsets && unzip molsets-*.whl 'moses/dataset/data/train.csv.gz'
    python benchmarks/scale.py --table moses/dataset/data/train.csv.gz
    python benchmarks/scale.py --render

The table is that of the package molsets: 1,584,663 molecules. Measured are the stages on one core; the command
`cwnet lift` with two workers, its memory (all processes together) and rate sampled every second; finding duplicates;
and training from a store of 2 GB in a control group of 1 GB, next to training in memory. The last needs the right to
make control groups and is left out without it. Writes benchmarks/results/scale.json; --render makes docs/scale.md
of it. Let nothing else run meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from _common import ROOT, describe_run, read_json, relative, write_json, write_text
from _scale_page import draw, render

RESULTS = ROOT / "benchmarks" / "results" / "scale.json"
PAGE = ROOT / "docs" / "scale.md"
#: Molecules for the rates by stage.
SAMPLE = 50_000
GROUPS = Path("/sys/fs/cgroup/memory")
LIMIT = 2**30


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", type=Path, help="a table of SMILES, .csv.gz")
    parser.add_argument("--parts", default="stages,lift,dedup,predict,training", help="some of these")
    parser.add_argument("--folder", type=Path, help="where to work; what is lifted there already is not lifted again")
    parser.add_argument("--render", action="store_true")
    parser.add_argument("--epoch", nargs=2, metavar=("STORE", "HOW"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.epoch:
        print(json.dumps(epoch(Path(options.epoch[0]), options.epoch[1] == "disk")))
        return
    if options.render:
        figures = read_json(RESULTS)
        draw(figures, ROOT / "docs" / "images" / "scale.png")
        write_text(PAGE, render(figures))
        print(f"wrote {relative(PAGE)}")
        return
    if options.table is None:
        parser.error("--table is needed; see --help for where to get it")
    figures = read_json(RESULTS) if RESULTS.exists() else {}
    figures |= {
        "run": describe_run("python benchmarks/scale.py --table train.csv.gz", ["torch", "rdkit", "distributed"])
    }
    with tempfile.TemporaryDirectory() as folder:
        for part in options.parts.split(","):
            figures[part] = globals()[part](options.table, options.folder or Path(folder))
            print(part, {k: v for k, v in figures[part].items() if k != "samples"}, flush=True)
            write_json(RESULTS, figures)


# ------------------------------------------------------------------------------------------------ stages


def stages(table: Path, folder: Path) -> dict[str, Any]:
    """Molecules per second on one core, stage by stage."""
    import torch
    from rdkit import Chem, RDLogger

    from cwnet.chem import Featuriser
    from cwnet.data import iterate_table
    from cwnet.data._store_file import write_shard
    from cwnet.lifting import lift_many

    torch.set_num_threads(1)
    RDLogger.DisableLog("rdApp.*")
    pieces = iterate_table(table, None, (), chunk_rows=SAMPLE)
    next(pieces)  # what is done once
    start = time.perf_counter()
    piece = next(pieces)
    seconds = {"read": time.perf_counter() - start}

    def timed(name: str, call: Any) -> Any:
        start = time.perf_counter()
        found = call()
        seconds[name] = time.perf_counter() - start
        return found

    timed("parse alone (RDKit)", lambda: [Chem.MolFromSmiles(text) for text in piece.smiles])
    graphs = timed("parse and features", lambda: Featuriser().pack(piece.smiles))
    store = timed("lift", lambda: lift_many(graphs, "rings:18", 1))
    shard = timed("write", lambda: write_shard(folder / "x.arrow", store))
    return {
        "molecules": len(piece),
        "rates": {name: len(piece) / value for name, value in seconds.items()},
        "bytes": shard["bytes"] / len(store),
        "cells": [n / len(store) for n in store.num_cells],
    }


# ------------------------------------------------------------------------------------------------ the command


def lift(table: Path, folder: Path) -> dict[str, Any]:
    """`cwnet lift` on the whole table with two workers."""
    out = folder / "store"
    command = [sys.executable, "-m", "cwnet", "lift", str(table), "-o", str(out), "--workers", "2", "--json"]
    before = memory_of_interpreter()
    start = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    samples = watch(child.pid, out, start)
    said = json.loads(child.communicate()[0])
    return {
        **{key: said[key] for key in ("complexes", "rejected", "shards", "bytes", "seconds")},
        "workers": 2,
        "per_second": said["complexes"] / said["seconds"],
        "interpreter_mib": before,
        "peak_mib": max(sample["mib"] for sample in samples),
        "processes": max(sample["processes"] for sample in samples),
        "samples": samples,
    }


def watch(pid: int, out: Path, start: float) -> list[dict[str, float]]:
    """Memory of a process and all its children, and shards written, every second."""
    import psutil

    samples = []
    parent = psutil.Process(pid)
    while True:
        try:
            family = [parent, *parent.children(recursive=True)]
            mib = sum(unshared(process.pid) for process in family)
            ended = parent.status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            break
        if ended:
            break
        shards = len(list(out.glob("*.arrow"))) if out.exists() else 0
        now = time.perf_counter() - start
        samples.append({"seconds": now, "mib": mib, "shards": shards, "processes": len(family)})
        time.sleep(1)
    return samples


def unshared(pid: int) -> float:
    """Memory of a process in MiB, what it shares with others counted in part; none of one that has just ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def memory_of_interpreter() -> float:
    """What a process with the library loaded takes, in MiB."""
    text = "import os, cwnet.scale, cwnet.chem, rdkit.Chem; print(os.getpid(), flush=True); input()"
    child = subprocess.Popen([sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    child.stdout.readline()
    found = unshared(child.pid)
    child.communicate("\n")
    return found


def dedup(table: Path, folder: Path) -> dict[str, Any]:
    """Find duplicates in what was lifted."""
    command = [sys.executable, "-m", "cwnet", "dedup", str(folder / "store"), "--workers", "2", "--json"]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, env=env).stdout)
    return {**found, "per_second": found["complexes"] / found["seconds"]}


def predict(table: Path, folder: Path) -> dict[str, Any]:
    """Predictions per second of the model that comes with the package, on one core."""
    import torch

    from cwnet.data import iterate_table
    from cwnet.molecules import builtin_model

    torch.set_num_threads(1)
    model = builtin_model()
    smiles = next(iterate_table(table, None, (), chunk_rows=20_000)).smiles
    store, _ = model.featuriser.readable(smiles, threads=1)
    start = time.perf_counter()
    model.predict(store)
    return {"molecules": len(store), "per_second": len(store) / (time.perf_counter() - start)}


# ------------------------------------------------------------------------------------------------ training


def training(table: Path, folder: Path) -> dict[str, Any]:
    """A part of an epoch from a store of 2 GB: in memory, and from disk with 1 GB of memory."""
    if not os.access(GROUPS, os.W_OK):
        return {"left_out": "no right to make control groups here"}
    twice = double(folder)
    found: dict[str, Any] = {"bytes": sum(file.stat().st_size for file in twice.glob("*.arrow")), "limit": LIMIT}
    drop_caches()
    found["memory"] = measured(twice, "memory", None)
    drop_caches()
    found["disk"] = measured(twice, "disk", LIMIT)
    found["ratio"] = found["disk"]["seconds"] / found["memory"]["seconds"]
    return found


def double(folder: Path) -> Path:
    """The store again and again, until it has 2 GB."""
    from cwnet.data._store_file import publish, read_manifest

    out, store = folder / "twice", folder / "store"
    manifest = read_manifest(store)
    times = -(-2 * 10**9 // sum(shard["bytes"] for shard in manifest.shards))
    out.mkdir()
    shards = []
    for copy in range(times):
        for shard in manifest.shards:
            name = f"copy{copy}-{shard['file']}"
            shutil.copy(store / shard["file"], out / name)
            shards.append({**shard, "file": name})
    publish(out, shards, [manifest.num_cells] * times, manifest.lifting, None, {})
    return out


def drop_caches() -> None:
    """Forget what was read from disk before."""
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3\n")
    except OSError:
        print("what the system has read before can not be dropped here")


def measured(store: Path, how: str, limit: int | None) -> dict[str, Any]:
    group = GROUPS / f"cwnet-{os.getpid()}-{how}"
    command = [sys.executable, __file__, "--epoch", str(store), how]
    if limit is not None:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(limit))
        command = ["sh", "-c", f'echo $$ > "{group}/cgroup.procs"; exec "$0" "$@"', *command]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, env={**os.environ, "OMP_NUM_THREADS": "2"}
        )
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        if limit is not None:
            found["most_in_group"] = int((group / "memory.max_usage_in_bytes").read_text())
        return found
    finally:
        if limit is not None:
            group.rmdir()


def epoch(path: Path, on_disk: bool) -> dict[str, Any]:
    """A tenth of an epoch of a small CIN on random targets."""
    from dataclasses import replace

    import torch

    from cwnet.chem._features import ATOM_SIZES, BOND_SIZES
    from cwnet.data import ComplexLoader, open_sharded, open_store
    from cwnet.nn import cin
    from cwnet.nn.models import molecule_encoder
    from cwnet.train._objectives import Objective
    from cwnet.train._recipe import TrainRecipe
    from cwnet.train._steps import EagerSteps

    torch.manual_seed(0)
    start = time.perf_counter()
    store: Any = open_sharded(path) if on_disk else open_store(path, verify=False)
    opened = time.perf_counter() - start
    model = cin(molecule_encoder(16, ATOM_SIZES, BOND_SIZES), 16, 1)

    class Random(EagerSteps):
        def _gather(self, index: Any) -> Any:
            return replace(super()._gather(index), y=torch.zeros(len(index), 1))

    steps = Random(model, store, Objective("l1"), TrainRecipe(batch_size=128, loss="l1"))
    batches = ComplexLoader(store, 128, shuffle=True).batches(0)
    batches = batches[: len(batches) // 10]
    start = time.perf_counter()
    for _ in steps.train(batches):
        pass
    seconds = time.perf_counter() - start
    return {"complexes": len(store), "batches": len(batches), "seconds": seconds, "seconds_to_open": opened,
            "per_second": sum(map(len, batches)) / seconds}  # fmt: skip


if __name__ == "__main__":
    main()
