"""`cwnet train` next to chemprop and forests, all as they come; and `cwnet predict` on a million molecules.

    python benchmarks/molecules.py
    python benchmarks/molecules.py --parts predict
    python benchmarks/molecules.py --render

Ten tables of molecules, each split three times at random into 80, 10 and 10 %, the same way for all. `chemprop train`
and `cwnet train` get a table with a column of splits and no other option but chemprop's task and, in one column of the
page, its ensemble of 5. Forests (scikit-learn, 500 trees) have no use for a validation part and train on it too.
OMP_NUM_THREADS says with how many threads; seconds count as times on the clock where --quiet says that nothing else
runs. chemprop has an environment of its own, which is made where it is missing ($CHEMPROP_VENV names another).

Writes benchmarks/results/molecules.json; what is there already is measured again only with --again. Makes
docs/benchmarks/molecules.md of it and of molecules_defaults.json, which `_molecule_defaults.py` wrote.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _common import ROOT, describe_run, markdown_table, read_json, rounded, write_json, write_text
from _molecule_tables import CACHE, SPLITS, TABLES, million, split_table
from numpy.typing import NDArray

Array = NDArray[Any]

RESULTS = ROOT / "benchmarks" / "results"
OUT, DEFAULTS = RESULTS / "molecules.json", RESULTS / "molecules_defaults.json"
PAGE = ROOT / "docs" / "benchmarks" / "molecules.md"
CHEMPROP = "chemprop==2.3.1"
METHODS = {
    "cwnet": "cwnet train",
    "chemprop": "chemprop train",
    "chemprop5": "chemprop, ensemble of 5",
    "morgan": "Morgan forest",
    "descriptors": "descriptor forest",
}
WHAT = {
    "freesolv": "hydration free energy, kcal/mol",
    "solubility": "aqueous solubility, log mol/l",
    "dili": "liver injury",
    "herg": "blocks hERG",
    "clintox": "approved; toxic in trials",
    "nci": "penalised logP",
    "ames": "mutagenic",
    "ld50": "acute toxicity, log kg/mol",
    "malaria": "log EC50",
    "tox21": "twelve toxicity assays",
}
COUNTS = (100_000, 1_000_000)


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


def run_cwnet(data: Path, targets: list[str], folder: Path) -> dict[str, float]:
    out = folder / "cwnet"
    program = [sys.executable, "-m", "cwnet", "train", str(data)]
    options = ["--target-columns", ",".join(targets), "--split", "column:split", "--out", str(out), "--device", "cpu"]
    figures = timed([*program, *options], folder / "cwnet.log")
    rows = list(csv.DictReader((out / "predictions.csv").open()))
    return figures | scores(numbers(rows, targets), numbers(rows, [f"{name}_predicted" for name in targets]))


def run_chemprop(data: Path, targets: list[str], folder: Path, members: int = 1) -> dict[str, float]:
    out = folder / f"chemprop-{members}"
    program = [str(chemprop()), "train", "--data-path", str(data), "--output-dir", str(out)]
    options = ["--smiles-columns", "smiles", "--target-columns", *targets, "--splits-column", "split"]
    truth = [row for row in csv.DictReader(data.open()) if row["split"] == "test"]
    y = numbers(truth, targets)
    if classes(y):
        options += ["--task-type", "classification"]
    options += ["--ensemble-size", str(members), "--accelerator", "cpu"]
    figures = timed([*program, *options], folder / "chemprop.log")
    said = []
    for member in range(members):
        rows = list(csv.DictReader((out / f"model_{member}" / "test_predictions.csv").open()))
        assert [row["smiles"] for row in rows] == [row["smiles"] for row in truth]
        said.append(numbers(rows, targets))
    return figures | scores(y, np.mean(said, 0))


def run_forest(data: Path, targets: list[str], folder: Path, sees: str) -> dict[str, float]:
    out = folder / f"{sees}.json"
    figures = timed([sys.executable, __file__, "--forest", sees, str(data), str(out)], folder / "forest.log")
    return figures | json.loads(out.read_text())


def forest(sees: str, data: Path, out: Path) -> None:
    """Train and test a forest, in a process of its own."""
    from rdkit import Chem, RDLogger
    from rdkit.Chem import Descriptors, rdFingerprintGenerator
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    RDLogger.DisableLog("rdApp.*")
    rows = list(csv.DictReader(data.open()))
    molecules = [Chem.MolFromSmiles(row["smiles"]) for row in rows]
    if sees == "morgan":
        make = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
        x = np.array([make.GetCountFingerprintAsNumPy(each) for each in molecules]).astype(np.float32)
    else:
        x = np.array([[of(each) for _, of in Descriptors.descList] for each in molecules], dtype=np.float64)
        x = np.nan_to_num(x, nan=0, posinf=0, neginf=0).clip(-1e30, 1e30).astype(np.float32)
    y, test = numbers(rows, list(rows[0])[1:-1]), np.array([row["split"] == "test" for row in rows])
    said = np.empty_like(y[test])
    for i in range(y.shape[1]):
        train = ~test & ~np.isnan(y[:, i])
        if classes(y):
            trees = RandomForestClassifier(500, n_jobs=threads(), random_state=0).fit(x[train], y[train, i])
            said[:, i] = trees.predict_proba(x[test])[:, 1]
        else:
            trees = RandomForestRegressor(500, max_features=0.3, n_jobs=threads(), random_state=0)
            said[:, i] = trees.fit(x[train], y[train, i]).predict(x[test])
    out.write_text(json.dumps(scores(y[test], said)))


def threads() -> int:
    """Threads that each command uses."""
    return int(os.environ.get("OMP_NUM_THREADS") or len(os.sched_getaffinity(0)))


def numbers(rows: list[dict[str, str]], columns: list[str]) -> Array:
    """Columns of a table, [rows, columns], NaN where empty."""
    return np.array([[float(row[column] or "nan") for column in columns] for row in rows])


def classes(y: Array) -> bool:
    """Whether these are targets of two classes."""
    return bool(np.isin(y[~np.isnan(y)], (0, 1)).all())


def scores(y: Array, said: Array) -> dict[str, float]:
    """Errors of numbers; the area under the ROC curve of classes, averaged over the targets that have both."""
    from sklearn.metrics import roc_auc_score

    if not classes(y):
        gaps = np.abs(y - said)
        return {"mae": float(gaps.mean()), "rmse": float(np.sqrt((gaps**2).mean())), "test": len(y)}
    known = [~np.isnan(column) for column in y.T]
    both = [i for i, rows in enumerate(known) if len(set(y[rows, i])) == 2]
    areas = [roc_auc_score(y[known[i], i], said[known[i], i]) for i in both]
    return {"rocauc": float(np.mean(areas)), "test": len(y)}


def chemprop() -> Path:
    """The command of chemprop, in an environment of its own: it needs other packages than ours."""
    folder = Path(os.environ.get("CHEMPROP_VENV") or CACHE / "chemprop")
    program = folder / "bin" / "chemprop"
    if not program.exists():
        venv.create(folder, with_pip=True)
        pip = [str(folder / "bin" / "pip"), "install", "--quiet", "--constraint", str(ROOT / "constraints.txt")]
        subprocess.run([*pip, CHEMPROP, "torch"], check=True)
    return program


RUN: dict[str, Callable[..., dict[str, float]]] = {
    "cwnet": run_cwnet,
    "chemprop": run_chemprop,
    "chemprop5": partial(run_chemprop, members=5),
    "morgan": partial(run_forest, sees="morgan"),
    "descriptors": partial(run_forest, sees="descriptors"),
}


# ------------------------------------------------------------------------------------------------ accuracy


def measure_training(figures: dict[str, Any], options: argparse.Namespace) -> None:
    """All methods on all splits, in turns."""
    done = figures["training"] = [] if options.again else figures.get("training", [])
    known = {(row["set"], row["split"], row["method"]) for row in done}
    for name in options.sets.split(","):
        table = split_table(name)
        figures.setdefault("sets", {})[name] = len(table.smiles)
        for split in map(int, options.splits.split(",")):
            with tempfile.TemporaryDirectory() as folder:
                data = Path(folder, "table.csv")
                table.write(data, split)
                for method in options.methods.split(","):
                    if (name, split, method) in known:
                        continue
                    load = round(os.getloadavg()[0], 2)
                    found = RUN[method](data, table.targets, Path(folder))
                    row = {"set": name, "split": split, "method": method, "threads": threads(), "load_before": load}
                    done.append(row | {"quiet": options.quiet} | found)
                    print(done[-1], flush=True)
                    write_json(options.out, figures)


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
        return f"{values[0]:.3f} (1 split)"
    few = f" ({len(values)} splits)" if len(values) < SPLITS else ""
    return f"{statistics.fmean(values):.3f} ± {statistics.stdev(values):.3f}{few}"


def training_text(figures: dict[str, Any]) -> str:
    found = {
        (name, method): [row for row in figures["training"] if (row["set"], row["method"]) == (name, method)]
        for name in figures["sets"]
        for method in METHODS
    }
    accuracy, clock = [], []
    for name, count in figures["sets"].items():
        title = f"{name} ({count:,})"
        metric = "rmse" if any("rmse" in row for method in METHODS for row in found[name, method]) else "rocauc"
        means = {
            m: statistics.fmean(row[metric] for row in rows) for (n, m), rows in found.items() if n == name and rows
        }
        best = (min if metric == "rmse" else max)(means, key=lambda method: means[method])
        cells = []
        for method in METHODS:
            text = spread([row[metric] for row in found[name, method]]) if method in means else "not run"
            cells.append(f"**{text}**" if method == best and len(means) > 1 else text)
        accuracy.append([title, WHAT[name], "RMSE" if metric == "rmse" else "ROC-AUC", *cells])
        seconds = [[row["seconds"] for row in found[name, method] if row.get("quiet")] for method in METHODS]
        if any(seconds):
            clock.append([title, *(f"{statistics.fmean(each):.0f} s" if each else "not timed" for each in seconds)])
    heads = list(METHODS.values())
    return f"""## Next to chemprop and forests

Default settings of all, the same three random splits (80, 10 and 10 %) of ten tables; mean ± standard deviation over
the test parts. RMSE is better low, ROC-AUC (averaged over targets) high; the best mean of a row is bold. Where a method
was not run, or not on all splits, its cell says so. The forests are scikit-learn's, 500 trees on counted Morgan
fingerprints (radius 2, 2,048 columns) or on RDKit's descriptors; they are trained on the validation part as well.

{markdown_table(["table (molecules)", "target", "metric", *heads], accuracy, "lll" + "r" * len(heads))}

Seconds on the clock for the whole command, 2 threads each, where nothing else ran on its cores:

{markdown_table(["table (molecules)", *heads], clock, "l" + "r" * len(heads))}

{parts_text(figures)}
{coverage_text(figures)}"""


def parts_text(figures: dict[str, Any]) -> str:
    """What networks and trees give alone, on the test parts."""
    body = []
    for name, count in figures["sets"].items():
        mine = [row["parts"] for row in figures["training"] if (row["set"], row["method"]) == (name, "cwnet")]
        metric = "rmse" if "rmse" in mine[0]["model"] else "rocauc"
        means = [statistics.fmean(each[part][metric] for each in mine) for part in ("network", "trees", "model")]
        body.append([f"{name} ({count:,})", "RMSE" if metric == "rmse" else "ROC-AUC", *(f"{m:.3f}" for m in means)])
    head = ["table (molecules)", "metric", "three networks", "trees", "both"]
    return f"What each part of `cwnet train` gives:\n\n{markdown_table(head, body, 'llrrr')}\n"


def coverage_text(figures: dict[str, Any]) -> str:
    """How many test values lay in the intervals."""
    body, all_ = [], {level: [] for level in ("80%", "90%", "95%")}
    for name, count in figures["sets"].items():
        mine = [row["coverage"] for row in figures["training"] if row["set"] == name and "coverage" in row]
        if not mine:
            continue
        means = {level: statistics.fmean(each[level] for each in mine) for level in all_}
        for level, mean in means.items():
            all_[level].append(mean)
        body.append([f"{name} ({count:,})", *(f"{mean:.1%}" for mean in means.values())])
    body.append(["mean", *(f"{statistics.fmean(means):.1%}" for means in all_.values())])
    head = ["table (molecules)", *(f"in intervals of {level}" for level in all_)]
    return f"How many test values lay in the intervals of `cwnet train`:\n\n{markdown_table(head, body, 'lrrr')}\n"


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
    rows, base = tried["rows"], next(iter(tried["rows"].values()))
    names = list(base)
    body = [
        [
            candidate,
            *(f"{found[name]:.3f}" if name in found else "–" for name in names),
            f"{statistics.geometric_mean([found[name] / base[name] for name in names if name in found]):.3f}",
        ]
        for candidate, found in rows.items()
    ]
    return f"""## Why these defaults

Candidates, on molecules that belong to no test part: the network and the trees learn from seven eighths of a training
part, the other eighth chooses epochs and weights, and the validation part judges. RMSE, or one minus ROC-AUC: low is
better. The last column is the geometric mean of the ratios to the first row, which was the default before.

{markdown_table(["candidate", *names, "ratio"], body, "l" + "r" * (len(names) + 1))}

{tried["note"]}
"""


# ------------------------------------------------------------------------------------------------ all of it


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default="training,predict", help="training, predict, or both")
    parser.add_argument("--sets", default=",".join(TABLES), help="the tables to train on")
    parser.add_argument("--splits", default=",".join(map(str, range(SPLITS))), help="their numbers")
    parser.add_argument("--methods", default=",".join(METHODS), help="the methods to train")
    parser.add_argument("--quiet", action="store_true", help="say that nothing else runs: seconds count")
    parser.add_argument("--again", action="store_true", help="measure anew what is there")
    parser.add_argument("--render", action="store_true", help="only write the page anew from the stored figures")
    parser.add_argument("--out", type=Path, default=OUT, help="the file of figures")
    parser.add_argument("--forest", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.forest:
        forest(options.forest[0], *map(Path, options.forest[1:]))
        return 0
    figures = read_json(options.out) if options.out.exists() else {}
    if not options.render:
        packages = ["torch", "rdkit", "scikit-learn"]
        command = f"OMP_NUM_THREADS={threads()} python benchmarks/molecules.py --sets {options.sets}"
        figures["run"] = describe_run(command, packages)
        figures["run"]["versions"]["chemprop"] = CHEMPROP.partition("==")[2]
        if "training" in options.parts:
            measure_training(figures, options)
        if "predict" in options.parts:
            measure_prediction(figures)
        write_json(options.out, figures)
    text = render(figures)
    write_text(PAGE, text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
