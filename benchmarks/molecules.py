"""`cwnet train` next to chemprop and a random forest, all as they come; and `cwnet predict` on a million molecules.

    python benchmarks/molecules.py
    python benchmarks/molecules.py --parts predict
    python benchmarks/molecules.py --render

Three tables of molecules, split by chance into 80, 10 and 10 %, the same way for all. `chemprop train` and `cwnet
train` get a table with a column of splits and no other option. The forest (scikit-learn, 500 trees on Morgan
fingerprints) has no use for a validation part and trains on it too. OMP_NUM_THREADS says with how many threads; let
nothing else run meanwhile if seconds on the clock are to count. chemprop has an environment of its own, which is made
where it is missing.

Writes benchmarks/results/molecules.json; what is there already is measured again only with --again. Makes
docs/benchmarks/molecules.md of it and of molecules_defaults.json, which `_molecule_defaults.py` wrote.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from typing import Any

from _common import ROOT, describe_run, markdown_table, read_json, rounded, write_json, write_text
from _molecule_tables import CACHE, TABLES, million, table

RESULTS = ROOT / "benchmarks" / "results"
OUT, DEFAULTS = RESULTS / "molecules.json", RESULTS / "molecules_defaults.json"
PAGE = ROOT / "docs" / "benchmarks" / "molecules.md"
CHEMPROP = "chemprop==2.3.1"
METHODS = {"cwnet": "cwnet train", "chemprop": "chemprop train", "forest": "random forest"}
#: How many splits; chemprop takes long on the largest table.
SPLITS = {"freesolv": 5, "solubility": 5, "nci": 2}
WHAT = {
    "freesolv": "hydration free energy, kcal/mol",
    "solubility": "aqueous solubility, log mol/l",
    "nci": "penalised logP",
}
COUNTS = (100_000, 1_000_000)


# ------------------------------------------------------------------------------------------------ tables


def write_split(rows: list[tuple[str, float]], seed: int, path: Path) -> None:
    """The table with a column that says which part a molecule belongs to."""
    from cwnet.data import random_split

    split = random_split(len(rows), seed=seed)
    parts = {int(i): name for name in ("train", "val", "test") for i in getattr(split, name)}
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("smiles", "y", "split"))
        writer.writerows((smiles, y, parts[i]) for i, (smiles, y) in enumerate(rows))


# ------------------------------------------------------------------------------------------------ methods


def timed(command: list[str], log: Path) -> dict[str, float]:
    """Run a command: seconds it took, and seconds of all cores together."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with open(log, "w", encoding="utf-8") as file:
        code = subprocess.run(command, stdout=file, stderr=subprocess.STDOUT).returncode
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if code:
        raise SystemExit(f"{' '.join(command[:3])} failed:\n{log.read_text(errors='replace')[-2000:]}")
    return {"seconds": seconds, "cpu_seconds": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime}


def run_cwnet(data: Path, folder: Path) -> dict[str, float]:
    out = folder / "cwnet"
    program = [sys.executable, "-m", "cwnet", "train", str(data)]
    options = ["--target-columns", "y", "--split", "column:split", "--out", str(out), "--device", "cpu"]
    figures = timed([*program, *options], folder / "cwnet.log")
    rows = list(csv.DictReader((out / "predictions.csv").open()))
    return figures | errors([float(row["y"]) for row in rows], [float(row["y_predicted"]) for row in rows])


def run_chemprop(data: Path, folder: Path) -> dict[str, float]:
    out = folder / "chemprop"
    program = [str(chemprop()), "train", "--data-path", str(data), "--output-dir", str(out)]
    options = [
        "--smiles-columns",
        "smiles",
        "--target-columns",
        "y",
        "--splits-column",
        "split",
        "--accelerator",
        "cpu",
    ]
    figures = timed([*program, *options], folder / "chemprop.log")
    truth = [row for row in csv.DictReader(data.open()) if row["split"] == "test"]
    rows = list(csv.DictReader((out / "model_0" / "test_predictions.csv").open()))
    assert [row["smiles"] for row in rows] == [row["smiles"] for row in truth]
    return figures | errors([float(row["y"]) for row in truth], [float(row["y"]) for row in rows])


def run_forest(data: Path, folder: Path) -> dict[str, float]:
    out = folder / "forest.json"
    figures = timed([sys.executable, __file__, "--forest", str(data), str(out)], folder / "forest.log")
    return figures | json.loads(out.read_text())


def forest(data: Path, out: Path) -> None:
    """Train and test the forest, in a process of its own."""
    import numpy as np
    from rdkit import Chem, RDLogger
    from rdkit.Chem import rdFingerprintGenerator
    from sklearn.ensemble import RandomForestRegressor

    RDLogger.DisableLog("rdApp.*")
    make = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    rows = list(csv.DictReader(data.open()))
    x = np.array([make.GetFingerprintAsNumPy(Chem.MolFromSmiles(row["smiles"])) for row in rows])
    y, test = np.array([float(row["y"]) for row in rows]), np.array([row["split"] == "test" for row in rows])
    model = RandomForestRegressor(500, n_jobs=threads(), random_state=0).fit(x[~test], y[~test])
    out.write_text(json.dumps(errors(y[test].tolist(), model.predict(x[test]).tolist())))


def threads() -> int:
    """Threads that each command uses."""
    return int(os.environ.get("OMP_NUM_THREADS") or len(os.sched_getaffinity(0)))


def errors(truth: list[float], found: list[float]) -> dict[str, float]:
    """Mean absolute error and root of the mean square."""
    gaps = [abs(a - b) for a, b in zip(truth, found, strict=True)]
    return {"mae": statistics.fmean(gaps), "rmse": math.sqrt(statistics.fmean(g * g for g in gaps)), "test": len(gaps)}


def chemprop() -> Path:
    """The command of chemprop, in an environment of its own: it needs other packages than ours."""
    folder = Path(os.environ.get("CHEMPROP_VENV") or CACHE / "chemprop")
    program = folder / "bin" / "chemprop"
    if not program.exists():
        venv.create(folder, with_pip=True)
        pip = [str(folder / "bin" / "pip"), "install", "--quiet", "--constraint", str(ROOT / "constraints.txt")]
        subprocess.run([*pip, CHEMPROP, "torch"], check=True)
    return program


RUN = {"cwnet": run_cwnet, "chemprop": run_chemprop, "forest": run_forest}


# ------------------------------------------------------------------------------------------------ accuracy


def measure_training(figures: dict[str, Any], options: argparse.Namespace) -> None:
    """All methods on all splits, in turns."""
    done = figures["training"] = [] if options.again else figures.get("training", [])
    known = {(row["set"], row["split"], row["method"]) for row in done}
    for name in options.sets.split(","):
        rows = table(name)
        figures.setdefault("sets", {})[name] = len(rows)
        for seed in range(SPLITS[name]) if options.splits is None else map(int, options.splits.split(",")):
            with tempfile.TemporaryDirectory() as folder:
                data = Path(folder, "table.csv")
                write_split(rows, seed, data)
                for method in options.methods.split(","):
                    if (name, seed, method) in known:
                        continue
                    load = round(os.getloadavg()[0], 2)
                    found = RUN[method](data, Path(folder))
                    row = {"set": name, "split": seed, "method": method, "threads": threads(), "load_before": load}
                    done.append(row | found)
                    print(done[-1], flush=True)
                    write_json(options.out, figures)


def measure_clock(names: list[str]) -> list[dict[str, Any]]:
    """Both networks on the first split of each table, one after the other."""
    found = []
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            data = Path(folder, "table.csv")
            write_split(table(name), 0, data)
            for method in ("cwnet", "chemprop"):
                row = {"set": name, "split": 0, "method": method, "threads": threads()}
                row["load_before"] = round(os.getloadavg()[0], 2)
                found.append(row | RUN[method](data, Path(folder)))
    return found


# ------------------------------------------------------------------------------------------------ a million

PARSE = """
import sys
from rdkit import Chem, RDLogger
RDLogger.DisableLog("rdApp.*")
import time
start, used = time.perf_counter(), time.process_time()
with open(sys.argv[1]) as lines:
    next(lines)
    count = sum(Chem.MolFromSmiles(line.strip()) is not None for line in lines)
print(count / (time.perf_counter() - start), count / (time.process_time() - used))
"""


def measure_prediction(figures: dict[str, Any]) -> None:
    """`cwnet predict` with the model that comes with the package, and RDKit's parse alone."""
    model = ROOT / "src" / "cwnet" / "molecules" / "models" / "zinc"
    cores = len(os.sched_getaffinity(0))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for count in COUNTS:
            data, out = Path(folder, f"{count}.csv"), Path(folder, f"{count}-out.csv")
            with open(data, "w", encoding="utf-8") as file:
                file.write("smiles\n")
                file.writelines(f"{smiles}\n" for smiles in million(count))
            load = round(os.getloadavg()[0], 2)
            program = [sys.executable, "-m", "cwnet", "predict", str(model), str(data), "--device", "cpu"]
            found = watched([*program, "--output", str(out), "--json"], Path(folder, "log"))
            rows.append({"molecules": count, "load_before": load, **found})
            print(rows[-1], flush=True)
        data = Path(folder, f"{COUNTS[0]}.csv")
        figures["prediction"] = {"cores": cores, "rows": rows, "parse": parse_rates(data, cores)}
    print(figures["prediction"]["parse"], flush=True)


def watched(command: list[str], log: Path) -> dict[str, Any]:
    """Run a command; its seconds, what it printed, and the most memory that it and its children held at once."""
    start, peak = time.perf_counter(), 0
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(log, "w", encoding="utf-8") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
        while process.poll() is None:
            peak = max(peak, memory(process.pid))
            time.sleep(0.5)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode:
        raise SystemExit(f"{' '.join(command[:4])} failed:\n{log.read_text()[-2000:]}")
    counts = json.loads(log.read_text().splitlines()[-1])
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    seconds = time.perf_counter() - start
    return {
        **counts,
        "seconds": seconds,
        "cpu_seconds": used,
        "per_second": counts["predicted"] / seconds,
        "peak": peak,
    }


def memory(pid: int) -> int:
    """Bytes that a process and its descendants hold (RSS; pages they share count for each of them)."""
    total, waiting = 0, [pid]
    while waiting:
        each = waiting.pop()
        try:
            status = Path(f"/proc/{each}/statm").read_text().split()
            total += int(status[1]) * os.sysconf("SC_PAGE_SIZE")
            for task in Path(f"/proc/{each}/task").iterdir():
                waiting += [int(child) for child in (task / "children").read_text().split()]
        except OSError:  # it has ended
            continue
    return total


def parse_rates(data: Path, cores: int) -> dict[str, float]:
    """Molecules per second that RDKit parses: in one process, and in as many at once as there are cores."""

    def together(many: int) -> tuple[float, float]:
        command = [sys.executable, "-c", PARSE, str(data)]
        running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(many)]
        rates = [process.communicate()[0].split() for process in running]
        return sum(float(rate) for rate, _ in rates), statistics.fmean(float(rate) for _, rate in rates)

    (one, per_core), (every, _) = together(1), together(cores)
    return {"one": one, "all": every, "per_core": per_core}


# ------------------------------------------------------------------------------------------------ the page


def render(figures: dict[str, Any]) -> str:
    run = figures["run"]
    machine, versions = run["machine"], run["versions"]
    named = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    parts = [
        "# Models of molecules: how good, how fast\n",
        training_text(figures),
        prediction_text(figures) if "prediction" in figures else "",
        defaults_text(read_json(DEFAULTS)) if DEFAULTS.exists() else "",
        f"Made by `{run['command']}` on {machine['cpu']}, {machine['cores']} cores, {run['date']}. Versions: {named}. "
        "All figures: benchmarks/results/molecules.json and molecules_defaults.json.\n",
        figures.get("note", ""),
    ]
    return "\n".join(part for part in parts if part)


def spread(values: list[float]) -> str:
    if len(values) < 2:
        return f"{values[0]:.3f}"
    return f"{statistics.fmean(values):.3f} ± {statistics.stdev(values):.3f}"


def training_text(figures: dict[str, Any]) -> str:
    rows, body, words = figures["training"], [], []
    for name in [each for each in TABLES if each in figures["sets"]]:
        means: dict[str, dict[str, float]] = {}
        both = set.intersection(*(splits_done(rows, name, method) for method in METHODS))
        for method, shown in METHODS.items():
            mine = [row for row in rows if (row["set"], row["method"]) == (name, method) and row["split"] in both]
            if not mine:
                continue
            keys = ("mae", "rmse", "cpu_seconds")
            means[method] = {key: statistics.fmean(row[key] for row in mine) for key in keys}
            body.append(
                [
                    f"{name} ({figures['sets'][name]:,})",
                    shown,
                    len(mine),
                    spread([row["mae"] for row in mine]),
                    spread([row["rmse"] for row in mine]),
                    f"{means[method]['cpu_seconds']:.0f} s",
                ]
            )
        words.append(verdict(name, means, rows))
    head = ["table (molecules)", "method", "splits", "test MAE", "test RMSE", "processor"]
    about = "; ".join(f"{name}: {WHAT[name]}" for name in TABLES if name in figures["sets"])
    loads, used = [row["load_before"] for row in rows], {row["threads"] for row in rows}
    cores = figures["run"]["machine"]["cores"]
    said = "\n".join(f"- {word}" for word in words if word)
    return f"""## Next to chemprop and a forest

Default settings of all, the same random splits (80, 10 and 10 %), mean ± standard deviation over them.
{about[0].upper() + about[1:]}. The last column has the seconds of processor that the whole command used, from its
start to its end, with {many("thread", used)}. Other work ran on the machine meanwhile (load {min(loads)} to
{max(loads)} before a run, on {cores} cores): seconds on the clock would not compare, and are in the figures only.

{markdown_table(head, body, "llrrrr")}

{said}
{clock_text(figures.get("clock", []))}"""


def clock_text(rows: list[dict[str, Any]]) -> str:
    """Seconds on the clock of runs while little else ran."""
    if not rows:
        return ""
    said = "; ".join(
        f"{row['set']}, {METHODS[row['method']]}: {row['seconds']:.0f} s (load {row['load_before']} before)"
        for row in rows
    )
    return f"\nOn the clock, split 0 once, with {many('thread', {row['threads'] for row in rows})} each: {said}.\n"


def splits_done(rows: list[dict[str, Any]], name: str, method: str) -> set[int]:
    return {row["split"] for row in rows if (row["set"], row["method"]) == (name, method)}


def many(what: str, counts: set[int]) -> str:
    """Such as "1 thread" or "1 to 2 threads"."""
    low, high = min(counts), max(counts)
    return f"{high} {what}{'s' * (high > 1)}" if low == high else f"{low} to {high} {what}s"


def verdict(name: str, means: dict[str, dict[str, float]], rows: list[dict[str, Any]]) -> str:
    """In words: who is ahead, by how much, and on how many of the splits."""
    if "cwnet" not in means or "chemprop" not in means:
        return ""
    ours, theirs = means["cwnet"], means["chemprop"]

    def compared(key: str) -> str:
        gap = ours[key] / theirs[key] - 1
        return f"{abs(gap):.0%} {'below' if gap < 0 else 'above'}"

    pairs = {
        row["split"]: {r["method"]: r["mae"] for r in rows if (r["set"], r["split"]) == (name, row["split"])}
        for row in rows
        if row["set"] == name
    }
    both = [pair for pair in pairs.values() if "cwnet" in pair and "chemprop" in pair]
    wins = sum(pair["cwnet"] < pair["chemprop"] for pair in both)
    faster = theirs["cpu_seconds"] / ours["cpu_seconds"]
    speed = f"{faster:.1f} times less" if faster >= 1 else f"{1 / faster:.1f} times more"
    return (
        f"{name}: the mean MAE of cwnet is {compared('mae')} that of chemprop, its RMSE {compared('rmse')}; its MAE is "
        f"the lower one on {wins} of {len(both)} splits. It takes {speed} time of the processor."
    )


def prediction_text(figures: dict[str, Any]) -> str:
    found = figures["prediction"]
    body = [
        [
            f"{row['molecules']:,}",
            f"{row['seconds']:,.0f} s",
            f"{rounded(row['per_second'])} /s",
            f"{rounded(row['predicted'] / row['cpu_seconds'])} /s",
            f"{row['peak'] / 2**20:,.0f} MiB",
            row["unread"],
            row["load_before"],
        ]
        for row in found["rows"]
    ]
    head = ["molecules", "time", "rate", "rate per core in use", "most memory", "not read", "load before"]
    one, all_, core = (rounded(found["parse"][key]) for key in ("one", "all", "per_core"))
    return f"""## A million molecules

`cwnet predict` with the model that comes with cwnet, from SMILES to a CSV file with intervals, on molecules of MOSES,
with {found["cores"]} cores. Memory is that of all processes together.

{markdown_table(head, body, "rrrrrrr")}

RDKit's parse alone, of the same molecules: {one} /s in one process, {all_} /s in {found["cores"]} at once; {core} /s
per core in use. Where other work ran on the machine (see the load), rates are too low.
"""


def defaults_text(tried: dict[str, Any]) -> str:
    names = [name for name in TABLES if any(row["set"] == name for row in tried["rows"])]
    body = []
    for candidate in dict.fromkeys(row["candidate"] for row in tried["rows"]):
        cells = [candidate]
        for name in names:
            mine = {row["fold"]: row for row in tried["rows"] if (row["candidate"], row["set"]) == (candidate, name)}
            base = {row["fold"]: row for row in tried["rows"] if (row["candidate"], row["set"]) == ("base", name)}
            shared = sorted(set(mine) & set(base))
            if not shared:
                cells.append("–")
                continue
            own, its = (statistics.fmean(each[fold]["mae"] for fold in shared) for each in (mine, base))
            rmse = statistics.fmean(mine[fold]["rmse"] for fold in shared)
            cells.append(f"{own:.3f} / {rmse:.3f} ({own / its - 1:+.0%}, {len(shared)})")
        body.append(cells)
    return f"""## Why these defaults

Candidates, each the defaults as they were with one change, and how far they were off, MAE / RMSE, on molecules that
belong to no test part: an eighth of the training part was held back for it. In brackets the MAE next to that of the
base on the same splits, and how many splits. Differences of a few per cent are within chance.

{markdown_table(["candidate", *names], body, "l" + "r" * len(names))}

{decided(tried["rows"])} {tried["note"]}
"""


def decided(rows: list[dict[str, Any]]) -> str:
    """Which candidates were better on every table that they were tried on, of two or more."""

    def mean(candidate: str, name: str, folds: set[int]) -> float:
        mine = [r["mae"] for r in rows if (r["candidate"], r["set"]) == (candidate, name) and r["fold"] in folds]
        return statistics.fmean(mine)

    def folds(candidate: str, name: str) -> set[int]:
        return {r["fold"] for r in rows if (r["candidate"], r["set"]) == (candidate, name)}

    better = []
    for candidate in dict.fromkeys(r["candidate"] for r in rows):
        shared = {name: folds(candidate, name) & folds("base", name) for name in TABLES}
        ratios = [mean(candidate, n, both) / mean("base", n, both) for n, both in shared.items() if both]
        if len(ratios) > 1 and max(ratios) < 0.95:
            better.append(candidate)
    if better:
        return f"Better by more than 5 % on every table they were tried on, of two or more: {', '.join(better)}."
    return "None was better by more than 5 % on every table it was tried on, of two or more: the base is the default."


# ------------------------------------------------------------------------------------------------ all of it


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default="training,predict", help="training, predict, or both")
    parser.add_argument("--sets", default=",".join(TABLES), help="the tables to train on")
    parser.add_argument(
        "--clock", action="store_true", help="time cwnet and chemprop once more, while nothing else runs"
    )
    parser.add_argument("--splits", help="their numbers; by default as many as the table gets")
    parser.add_argument("--methods", default=",".join(METHODS), help="the methods to train")
    parser.add_argument("--again", action="store_true", help="measure anew what is there")
    parser.add_argument("--render", action="store_true", help="only write the page anew from the stored figures")
    parser.add_argument("--out", type=Path, default=OUT, help="the file of figures")
    parser.add_argument("--forest", nargs=2, type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.forest:
        forest(*options.forest)
        return 0
    figures = read_json(options.out) if options.out.exists() else {}
    if not options.render:
        packages = ["torch", "rdkit", "scikit-learn"]
        command = f"OMP_NUM_THREADS={threads()} python benchmarks/molecules.py --sets {options.sets}"
        figures["run"] = describe_run(command, packages)
        figures["run"]["versions"]["chemprop"] = CHEMPROP.partition("==")[2]
        if options.clock:
            figures["clock"] = measure_clock(options.sets.split(","))
        elif "training" in options.parts:
            measure_training(figures, options)
        if "predict" in options.parts and not options.clock:
            measure_prediction(figures)
        write_json(options.out, figures)
    text = render(figures)
    write_text(PAGE, text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
