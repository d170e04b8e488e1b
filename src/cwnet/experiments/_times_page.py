"""The pages and pictures of the times, from their figures alone."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cwnet.experiments._report import markdown_table, write_page
from cwnet.experiments.times import MODELS, PAPER_EPOCHS, PAPER_LIFTING, PARTS, TITLES

__all__ = ["about_run", "render_epochs", "render_lifting"]

_COLOURS = {"zinc": "#1f5f94", "molhiv": "#c97a1d", "zinc-full": "#3b7d4f"}


def about_run(run: dict[str, Any]) -> str:
    """When and where figures were made."""
    machine = run["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
    load = f", load {machine['load_before']} before the run" if machine.get("load_before") is not None else ""
    return (
        f"Made by `{run['command']}` on {machine['cores']} cores of {machine['cpu']} ({machine['system']}{load}) in "
        f"{run['seconds']:.0f} s, {run['date']}. Versions: {versions}."
    )


def _busy(run: dict[str, Any]) -> str:
    """A warning where other work took its share of the cores."""
    machine = run["machine"]
    if (machine.get("load_before") or 0) < 0.5 * machine["cores"]:
        return ""
    return "The machine was busy with other work, so times are too long, those of several threads above all. "


def _seconds(values: Sequence[float], times: float = 1.0) -> str:
    """Mean and standard deviation, to three digits of the mean."""
    mean = times * statistics.fmean(values)
    digits = 1 if mean >= 100 else 2 if mean >= 1 else 3 if mean >= 0.1 else 4
    spread = f" ± {times * statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{mean:,.{digits}f}{spread}"


def _figure(width: float, height: float) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def _plain(axes: Any) -> None:
    from matplotlib.ticker import FuncFormatter

    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, place: f"{value:g}"))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25)
    axes.set_axisbelow(True)


# ----------------------------------------------------------------------------------------------------------- lifting


def render_lifting(figures: dict[str, Any], folder: Path) -> Path:
    """Write lifting-times.md and lifting-times.png into a folder, and give the path of the page."""
    folder.mkdir(parents=True, exist_ok=True)
    _draw_lifting(figures, folder / "lifting-times.png")
    write_page(folder / "lifting-times.md", _lifting_text(figures))
    return folder / "lifting-times.md"


def _lifting_text(figures: dict[str, Any]) -> str:
    threads, runs = figures["threads"], figures["runs"]
    ours, paper = [], []
    for row in figures["rows"]:
        kinds, table = row["seconds"], PAPER_LIFTING[row["dataset"]]
        ours.append(
            [TITLES[row["dataset"]], f"{row['graphs']:,}", f"{row['cells'][2]:,}",
             *(_seconds(kinds[kind]) for kind in ("one", "all", "list")),
             f"{table[1][0] / statistics.fmean(kinds['one']):,.0f}",
             f"{table[1][0] / statistics.fmean(kinds['list']):,.0f}"]
        )  # fmt: skip
        paper.append([TITLES[row["dataset"]], *(f"{mean:,.2f} ± {spread:.2f}" for mean, spread in table.values())])
    head = ["data set", "graphs", "rings", "1 thread", f"{threads} threads", "1 thread, from a list",
            "paper / 1 thread", "paper / from a list"]  # fmt: skip
    small = "\n\nThis is the small form: ZINC alone." if figures["small"] else ""
    busy = _busy(figures["run"])
    processes = [f"{n} process" + "es" * (n > 1) for n in PAPER_LIFTING["zinc"]]
    return f"""# Times of lifting

Seconds to lift a whole data set with rings of up to 18 vertices, mean ± standard deviation over {runs} runs.{small}

{markdown_table(head, ours, "lrrrrrrr")}

The paper's, on 64 vCPUs of an Intel Xeon E5-2686 v4:

{markdown_table(["data set", *processes], paper, "l" + "r" * len(processes))}

![Seconds by number of threads or processes](lifting-times.png)

The graphs lie in memory at the start and the complexes at the end; nothing is read or written. The graphs are those of
all parts of a data set, in flat arrays, as `load` keeps them. "From a list" starts with a Python object for each graph,
as the paper's code does, and the time to pack them counts. The last two columns say how many times as long the paper's
code took in one process. The machines differ, so this is no comparison of code alone; it matches cycles as subgraphs
with a general algorithm and says itself that listing rings would be faster.

## The run

Each kind of run took its turn {runs} times, after one that is not counted. {busy}{about_run(figures["run"])}
"""


def _draw_lifting(figures: dict[str, Any], path: Path) -> None:
    figure = _figure(8, 4.6)
    axes = figure.add_subplot()
    for row in figures["rows"]:
        name, table = row["dataset"], PAPER_LIFTING[row["dataset"]]
        colour, kinds = _COLOURS[name], row["seconds"]
        means = [mean for mean, _ in table.values()]
        axes.plot(list(table), means, "o--", color=colour, alpha=0.55, label=f"{TITLES[name]}, paper")
        both = [statistics.fmean(kinds[kind]) for kind in ("one", "all")]
        places = [1, figures["threads"]]
        axes.plot(places, both, "D-", color=colour, label=f"{TITLES[name]}, cwnet")
        axes.plot([1], [statistics.fmean(kinds["list"])], "D", color=colour, markerfacecolor="white",
                  label=f"{TITLES[name]}, cwnet, from a list")  # fmt: skip
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(list(PAPER_LIFTING["zinc"]), map(str, PAPER_LIFTING["zinc"]))
    axes.set_xlabel("threads (cwnet) or processes (paper)")
    axes.set_ylabel("seconds to lift a data set")
    _plain(axes)
    figure.legend(loc="outside right center", frameon=False, fontsize=9)
    figure.savefig(path, dpi=140)


# ------------------------------------------------------------------------------------------------------------ epochs


def render_epochs(figures: dict[str, Any], folder: Path) -> Path:
    """Write epoch-times.md and epoch-times.png into a folder, and give the path of the page."""
    folder.mkdir(parents=True, exist_ok=True)
    _draw_epochs(figures, folder / "epoch-times.png")
    write_page(folder / "epoch-times.md", _epochs_text(figures))
    return folder / "epoch-times.md"


def _whole(row: dict[str, Any], part: str) -> float:
    """By how much seconds are multiplied to stand for the whole part of the data set."""
    return float(row["whole"][part] / row["complexes"][part])


def _epochs_text(figures: dict[str, Any]) -> str:
    tables = []
    measured = any("bytes" in row for row in figures["rows"])
    for name in dict.fromkeys(row["dataset"] for row in figures["rows"]):
        body = []
        for row in (row for row in figures["rows"] if row["dataset"] == name):
            paper = PAPER_EPOCHS[name].get(row["model"])
            ours = [_seconds(row["seconds"][part], _whole(row, part)) for part in PARTS]
            training = statistics.fmean(row["seconds"]["training"]) * _whole(row, "training")
            taken = [f"{row['bytes'] / 2**30:.2f} GiB" if "bytes" in row else ""] if measured else []
            times = f"{paper[0][0] / training:.3g}" if paper else "–"
            body.append([row["model"], "ours", f"{row['parameters']:,}", *ours, times, *taken])
            if paper:
                theirs = [f"{mean:.3f} ± {spread:.3f}" for mean, spread in paper]
                body.append([row["model"], "paper", "", *theirs, "", *("" for _ in taken)])
        head = ["model", "", "parameters", *PARTS.values(), "paper / ours, training", *(["memory"] if measured else [])]
        tables.append(f"## {TITLES[name]}\n\n{markdown_table(head, body, 'll' + 'r' * (len(head) - 2))}")
    where = (
        figures["device_name"] or f"{figures['run']['machine']['cores']} cores of {figures['run']['machine']['cpu']}"
    )
    small = ""
    if figures["small"]:
        sizes = figures["rows"][0]["complexes"]
        small = (
            f"\n\nThis is the small form: {sizes['train']:,} molecules to train on, {sizes['val']:,} and "
            f"{sizes['test']:,} to evaluate on, and {figures['epochs']} epochs. Its times are multiplied to stand for "
            "the whole parts."
        )
    busy = "" if figures["device_name"] else _busy(figures["run"])
    memory = " Memory is what a run takes of a GPU\nbeside the data." if measured else ""
    newline = "\n\n"
    return f"""# Times of epochs

Seconds of an epoch of training and of an evaluation of each part, mean ± standard deviation over {figures["epochs"]}
epochs, here on {where}; the paper's are on a V100.{small}

{newline.join(tables)}

![Seconds of training epochs and evaluations](epoch-times.png)

CIN has the paper's sizes: 4 layers of width 128, small 2 of width 48, rings up to 18, batches of 128. GIN has about as
many parameters as CIN, as in the paper, and reads bond types: 4 layers of width 384, small 2 of width 136. Steady CIN,
where it was timed, is the network past the paper, 4 layers of width 64. Training counts drawing the order, gathering
the batches and all steps, one run alone; evaluation counts predictions and metric.{memory}

## The run

The first epoch, in which kernels are compiled and steps recorded, is not counted. {busy}{about_run(figures["run"])}
"""


def _draw_epochs(figures: dict[str, Any], path: Path) -> None:
    names = list(dict.fromkeys(row["dataset"] for row in figures["rows"]))
    figure = _figure(10.5, 3.8 * len(names))
    ours = figures["device_name"] or figures["run"]["machine"]["cpu"]
    for i, name in enumerate(names):
        axes = figure.add_subplot(len(names), 1, i + 1)
        rows = {row["model"]: row for row in figures["rows"] if row["dataset"] == name}
        models = [model for model in MODELS if model in rows]
        apart = 0.8 / len(models)
        for place, part in enumerate(PARTS):
            for j, model in enumerate(models):
                at = place + apart * (j - (len(models) - 1) / 2)
                row = rows[model]
                mine = [_whole(row, part) * s for s in row["seconds"][part]]
                bars = [(0.5, statistics.fmean(mine), "#1f5f94", f"cwnet, {ours}")]
                if model in PAPER_EPOCHS[name]:
                    bars.insert(0, (-0.5, PAPER_EPOCHS[name][model][place][0], "#c9ced6", "paper, V100"))
                for side, height, colour, label in bars:
                    where = at + 0.425 * apart * (side if len(bars) > 1 else 0)
                    axes.bar(where, height, 0.4 * apart, color=colour, label=label if not place + j else None)
                axes.annotate(model, (at, max(bar[1] for bar in bars)), xytext=(0, 3), rotation=60, fontsize=7,
                              textcoords="offset points", ha="left", va="bottom")  # fmt: skip
        axes.set_yscale("log")
        axes.set_xticks(range(len(PARTS)), list(PARTS.values()))
        axes.tick_params(axis="x", length=0)
        axes.set_ylabel("seconds")
        axes.set_title(TITLES[name], loc="left", fontsize=10)
        _plain(axes)
        axes.margins(y=0.25)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, ncols=2, loc="outside upper center", frameon=False)
    figure.savefig(path, dpi=140)
