"""The page on scale: what was measured, and what follows from it for a billion molecules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from _common import markdown_table

BILLION = 1_000_000_000
HEAD = ["cluster", "cores", "lifting", "bound by", "with several clients", "store", "prediction"]
#: Clusters people have: name, cores, bytes per second of their shared disk. The last are assumptions.
CLUSTERS = (
    ("a laptop", 8, 1.5e9),
    ("a workstation", 64, 3e9),
    ("ten nodes of a cluster", 640, 5e9),
    ("a hundred nodes", 6400, 20e9),
)


def render(figures: dict[str, Any]) -> str:
    run, stage, whole = figures["run"], figures["stages"], figures["lift"]
    rates = stage["rates"]
    return f"""# Scale

How to lift, predict and train on more molecules than fit into memory, what it costs, and what it would cost for a
billion of them.

## The commands

<!-- not run: takes tables of yours; the tutorial about a billion molecules runs these -->
```sh
cwnet lift molecules.csv.gz -o store                                  # a file, a folder, or a pattern in quotes
cwnet lift 'parts/*.parquet' -o /shared/store --workers 16            # processes of this machine
cwnet lift 'parts/*.parquet' -o /shared/store --scheduler tcp://10.0.0.1:8786
cwnet dedup /shared/store -o duplicates.csv --write /shared/unique
cwnet predict model 'parts/*.csv' -o predicted.csv --workers 16
cwnet fingerprint --cwl 'parts/*.csv' -o counts.npz --workers 16
```

- A piece of the input becomes a shard of the store. Shards are tasks: one that was done is not done again, and one
  whose worker died is done by another. Whoever makes a store, on how many workers, its files are the same byte for
  byte.
- Interrupted, the same command goes on. A store has a manifest when it is complete, and no reader sees it before.
- Rows that can not be read, and molecules with more rings than `--max-cells`, go to `rejects.csv` with file, row and
  reason.
- To train on a store: a recipe with `data.name` set to its folder. What is larger than half of the free memory is read
  from disk as it is used (`data.on_disk`): shards come in random order, and 262,144 molecules at a time are mixed.

### On Slurm

With [dask-jobqueue](https://jobqueue.dask.org), in a script that stays where jobs can be submitted:

<!-- not run: needs Slurm -->
```python
from dask_jobqueue import SLURMCluster
cluster = SLURMCluster(cores=32, processes=32, memory="64GB", walltime="02:00:00")
cluster.adapt(maximum_jobs=20)
print(cluster.scheduler_address)      # for --scheduler
input()
```

Workers need the same cwnet and must see the output folder under the same path.

### On Kubernetes

With the [Dask operator](https://kubernetes.dask.org): a `DaskCluster` whose image has `cwnet[chem,scale]`, a volume for
the store mounted in scheduler, workers and client alike, and `--scheduler tcp://NAME-scheduler:8786`.

## Measured

One core of {run["machine"]["cpu"]}, {stage["molecules"]:,} molecules of the package molsets
({stage["cells"][0]:.1f} atoms, {stage["cells"][1]:.1f} bonds, {stage["cells"][2]:.2f} rings each), rings up to 18:

{markdown_table(["stage", "molecules/s"], [[name, f"{rate:,.0f}"] for name, rate in rates.items()], "lr")}

A molecule takes {stage["bytes"]:.0f} bytes in the store. Lifting and writing are {lost(rates):.1f} % of the time of a
molecule; RDKit's parse alone is {100 * own(rates):.0f} % of it.

`cwnet lift train.csv.gz --workers 2`: {whole["complexes"]:,} molecules in {whole["seconds"]:.0f} s,
{whole["per_second"]:,.0f} per second with {whole["workers"]} workers, {whole["shards"]} shards,
{whole["bytes"] / 1e9:.2f} GB, {whole["rejected"]} rows rejected. Memory of all {whole["processes"]} processes together
was {whole["peak_mib"]:,.0f} MiB at most; one that has only loaded the library takes
{whole["interpreter_mib"]:,.0f} MiB.

![Memory and rate over time](images/scale.png)

{duplicates(figures)}

{disk(figures)}

## A billion molecules

Extrapolated, not measured: the rates above per core times the cores, the bytes above times a billion. The client reads
and hands out rows at {rates["read"]:,.0f} per second, and that is what saturates first once the workers are
{rates["read"] / per_core(rates):,.0f} or more: then run one client for each part of the input. The speed of disks is
assumed.

{markdown_table(HEAD, clusters(figures), "lrrlrrr")}

A core makes {per_core(rates):,.0f} molecules per second from SMILES to shard, and predicts
{figures["predict"]["per_second"]:,.0f} of those in a store with the small model that comes with the package.

---

Made by `{run["command"]}` on {run["machine"]["cores"]} cores of {run["machine"]["cpu"]}, {run["date"]}, load
{run["machine"]["load_before"]} before. Versions: {", ".join(f"{k} {v}" for k, v in run["versions"].items())}.
"""


def per_core(rates: dict[str, float]) -> float:
    """From SMILES to shard, per second."""
    return 1 / sum(1 / rates[name] for name in ("parse and features", "lift", "write"))


def own(rates: dict[str, float]) -> float:
    """The share of RDKit's parse in all."""
    return per_core(rates) / rates["parse alone (RDKit)"]


def lost(rates: dict[str, float]) -> float:
    return 100 * per_core(rates) * sum(1 / rates[name] for name in ("lift", "write"))


def duplicates(figures: dict[str, Any]) -> str:
    found = figures["dedup"]
    return (
        f"`cwnet dedup` found {found['duplicates']:,} duplicates among them in {found['seconds']:.0f} s, "
        f"{found['per_second']:,.0f} molecules per second with two workers."
    )


def disk(figures: dict[str, Any]) -> str:
    found = figures["training"]
    if "left_out" in found:
        return f"Training from disk was left out: {found['left_out']}."
    memory, there = found["memory"], found["disk"]
    return (
        f"Training from a store of {found['bytes'] / 1e9:.1f} GB ({memory['complexes']:,} molecules; the one above "
        f"several times over), a tenth of an epoch of a small CIN: in memory {memory['seconds']:.0f} s, from disk in a "
        f"control group of {found['limit'] / 2**30:.0f} GiB {there['seconds']:.0f} s, {found['ratio']:.2f} times as "
        "long. Nothing of it had been read before. "
        f"Opening took {memory['seconds_to_open']:.1f} s and {there['seconds_to_open']:.1f} s."
    )


def clusters(figures: dict[str, Any]) -> list[list[Any]]:
    rates, size = figures["stages"]["rates"], figures["stages"]["bytes"]
    rows = []
    for name, cores, bandwidth in CLUSTERS:
        limits = {"cores": cores * per_core(rates), "the client": rates["read"], "the disk": bandwidth / size}
        bound = min(limits, key=lambda key: limits[key])
        several = min(limits["cores"], limits["the disk"])
        predicted = cores * figures["predict"]["per_second"]
        rows.append([name, f"{cores:,}", hours(BILLION / limits[bound]), bound, hours(BILLION / several),
                     f"{BILLION * size / 1e12:.2f} TB", hours(BILLION / predicted)])  # fmt: skip
    return rows


def hours(seconds: float) -> str:
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 100 * 3600 else f"{seconds / 86400:.0f} d"


def draw(figures: dict[str, Any], path: Path) -> None:
    """Memory and rate while the whole table is lifted."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    whole = figures["lift"]
    samples = whole["samples"]
    seconds = [s["seconds"] for s in samples]
    each = whole["complexes"] / whole["shards"]
    figure = Figure(figsize=(9, 3.6), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    left.plot(seconds, [s["mib"] for s in samples], color="#1f5f94")
    left.set_ylabel("memory of all processes, MiB")
    left.set_ylim(0)
    window = max(len(samples) // 12, 5)
    rate = [
        each * (samples[i]["shards"] - samples[i - window]["shards"]) / (seconds[i] - seconds[i - window])
        for i in range(window, len(samples))
    ]
    right.plot(seconds[window:], rate, color="#c55a11")
    right.set_ylabel(f"molecules per second, over {seconds[window] - seconds[0]:.0f} s")
    right.set_ylim(0)
    for axes in (left, right):
        axes.set_xlabel("seconds")
        axes.grid(alpha=0.25, linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=120)
