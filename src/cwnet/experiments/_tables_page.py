"""The page of a table of trained networks, from the figures of its runs alone."""

from __future__ import annotations

import io
import json
import math
import re
import statistics
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cwnet.data._files import write_whole
from cwnet.errors import CwnetError
from cwnet.experiments._report import markdown_table, write_page
from cwnet.experiments._runs import read_runs
from cwnet.experiments.tables import RING_LENGTHS, TABLES, Figure, Row, Table, best_epoch
from cwnet.train import load_recipe

__all__ = ["compare", "render", "summary"]

Runs = Mapping[str, list[dict[str, Any]]]
_INK, _PALE, _PAPER = "#1f5f94", "#9cc4e4", "#c55a11"


def render(name: str, results: Path, folder: Path, small: bool = False) -> Path:
    """Write NAME.md and its pictures into a folder, and give the path of the page."""
    table, runs = TABLES[name], read_runs(results, name)
    if not runs:
        raise CwnetError(f"there are no figures of {name} in {results} yet: run it without --render first")
    folder.mkdir(parents=True, exist_ok=True)
    pictures = _ring_picture if name == "ring-transfer" else _draw
    pictures(table, runs, folder / f"{name}.png")
    parts = [
        f"# {table.title}",
        f"This is the small version: {table.small.note}. Its figures are not the experiment's." if small else "",
        f"The {table.measure}, mean ± standard deviation (least to most).",
        _ring_table(table, runs) if name == "ring-transfer" else _table(table, runs),
        _missing(table, runs) if not small else "",
        f"![Figures of all runs]({name}.png)",
        "## How",
        table.protocol,
        _NOISE if any(row.paper for row in table.rows.values()) else "",
        _remarks(table, runs),
        _probes(results / name / "probes.json"),
        "## The runs",
        _provenance(runs),
    ]
    path = folder / f"{name}.md"
    write_page(path, "\n\n".join(part for part in parts if part))
    return path


def _probes(file: Path) -> str:
    """Single runs that came before a search, where some are kept."""
    if not file.exists():
        return ""
    kept = json.loads(file.read_text("utf-8"))
    body = [
        [
            row["what"],
            f"{row['parameters']:,}",
            f"{row['mae']:.4f}",
            "–" if row["mae99"] is None else f"{row['mae99']:.4f}",
        ]
        for row in kept["rows"]
    ]
    head = ["", "parameters", "validation MAE", "without the largest hundredth of errors"]
    return f"## Before the search\n\n{kept['note']}\n\n{markdown_table(head, body, 'lrrr')}"


_NOISE = (
    "A difference is within noise if it is at most two standard errors, of ours and the paper's together. Where the "
    "paper gives no spread, it has to be nought."
)


def compare(table: Table, row: Row, figure: Figure) -> tuple[float, str] | None:
    """How far a figure is from the paper's, and what that means; None where the paper has none."""
    if row.paper is None:
        return None
    mean, std = row.paper
    apart = figure.mean - mean
    ours = (figure.std or 0.0) ** 2 / figure.n
    theirs = 0.0 if std is None else std**2 / table.paper_runs
    if abs(apart) <= 2 * math.sqrt(ours + theirs) + 1e-9:
        return apart, "within noise"
    return apart, "better" if (apart < 0) == table.lower else "worse"


def summary(name: str, runs: Runs) -> str:
    """A line on a table for the index."""
    table = TABLES[name]
    found = [compare(table, table.rows[key], _first(table, rows)) for key, rows in runs.items()]
    words = [word for pair in found if pair for word in [pair[1]]]
    counts = [f"{words.count(word)} {word}" for word in ("better", "within noise", "worse") if word in words]
    return f"{len(runs)} of {len(table.rows)} rows run" + (f": {', '.join(counts)}" if counts else "")


def _first(table: Table, runs: Sequence[dict[str, Any]]) -> Figure:
    return next(iter(table.figures(runs).values()))


# ------------------------------------------------------------------------------------------------ tables


def _number(table: Table, value: float) -> str:
    return f"{100 * value:.1f}" if table.percent else f"{value:.4f}"


def _figure(table: Table, figure: Figure) -> str:
    text = _number(table, figure.mean)
    if figure.std is not None:
        spread = f"{_number(table, figure.least)} to {_number(table, figure.most)}"
        text += f" ± {_number(table, figure.std)} ({spread})"
    return text


def _paper(table: Table, row: Row) -> str:
    if row.paper is None:
        return "–"
    mean, std = row.paper
    digits = 1 if table.percent else 3
    scale = 100 if table.percent else 1
    return f"{scale * mean:.{digits}f}" + ("" if std is None else f" ± {scale * std:.{digits}f}")


def _table(table: Table, runs: Runs) -> str:
    names = list(table.figures(next(iter(runs.values()))))
    compared = any(row.paper is not None for row in table.rows.values())
    head = ["", *["paper"] * compared, *names, "runs", *["difference", ""] * compared]
    head += ["parameters", "epochs", "s/epoch", "minutes"]
    body = []
    for key, found in runs.items():
        figures = table.figures(found)
        apart = compare(table, table.rows[key], next(iter(figures.values())))
        away = "–" if apart is None else f"{100 * apart[0]:+.1f}" if table.percent else f"{apart[0]:+.4f}"
        body.append(
            [
                table.rows[key].label,
                *[_paper(table, table.rows[key])] * compared,
                *(_figure(table, figures[name]) if name in figures else "–" for name in names),
                len(found),
                *[away, "" if apart is None else apart[1]] * compared,
                f"{found[0]['parameters']:,}",
                f"{statistics.fmean(run['epochs'] for run in found):.0f}",
                f"{statistics.median(run['seconds_per_epoch'] for run in found):.3g}",
                f"{max(run['seconds'] for run in found) / 60:.1f}",
            ]
        )
    align = "l" + "r" * (compared + len(names) + 1) + "rl" * compared + "rrrr"
    return (
        markdown_table(head, body, align)
        + "\n\nSeconds per epoch and minutes are those of a run among all that ran beside it on the same device."
    )


def _ring_table(table: Table, runs: Runs) -> str:
    def cell(key: str) -> str:
        return _figure(table, _first(table, runs[key])) if key in runs else "–"

    body = [[k, cell(f"cin-{k}"), cell(f"gin-{k}")] for k in RING_LENGTHS if f"cin-{k}" in runs or f"gin-{k}" in runs]
    ends = [run["test_at_stop"] == 1 for key, found in runs.items() if key.startswith("cin") for run in found]
    note = (
        f"{sum(ends)} of {len(ends)} runs of CIN end at 100 %. The paper's figure shows CIN near 100 % on average for "
        "all k, with bars from least to most, and GIN failing from k = 24 on."
    )
    return markdown_table(["k", "CIN, 3 layers", "GIN, ⌊k/2⌋ layers"], body, "rrr") + f"\n\n{note}"


def _missing(table: Table, runs: Runs) -> str:
    absent = [row.label for key, row in table.rows.items() if key not in runs]
    recipes = {key: load_recipe(table.rows[key].recipe, table.rows[key].changes) for key in runs}
    whole = {key: table.folds * len(recipe.train.seeds) for key, recipe in recipes.items()}
    begun = [
        f"{table.rows[key].label} ({len(found)} of {whole[key]} runs)"
        for key, found in runs.items()
        if len(found) < whole[key]
    ]
    words = [f"Not run yet: {', '.join(absent)}."] if absent else []
    if begun:
        words.append(f"Not whole yet: {', '.join(begun)}. Runs that stop early come first, so these figures will move.")
    return " ".join(words)


def _remarks(table: Table, runs: Runs) -> str:
    lines = [f"- {table.rows[key].label}: {table.rows[key].remark}" for key in runs if table.rows[key].remark]
    return "\n".join(lines)


def _provenance(runs: Runs) -> str:
    """Each command with its machine, how many runs it made, and when the first began; shares are one command."""
    dates: dict[tuple[str, ...], list[str]] = {}
    for run in (run for found in runs.values() for run in found):
        about, machine = run["run"], run["run"]["hardware"]
        place = machine.get("gpu") or f"{machine['cores']} cores of {machine['processor']}"
        command = re.sub(r"--share \d+/", "--share I/", about["command"])
        key = (command, place, (about["commit"] or "unknown")[:10], about["versions"]["torch"])
        dates.setdefault(key, []).append(about["date"])
    return "\n".join(
        f"- `{command}`: {len(found)} run{'s' if len(found) > 1 else ''} on {place}, {min(found)}, commit {commit}, "
        f"torch {torch}"
        for (command, place, commit, torch), found in dates.items()
    )


# ------------------------------------------------------------------------------------------------ pictures


def _save(figure: Any, path: Path) -> None:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=130)
    write_whole(path, buffer.getvalue())


def _new(width: float, height: float) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    figure = Canvas(figsize=(width, height), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def _draw(table: Table, runs: Runs, path: Path) -> None:
    """Every run as a dot beside the paper's mean and spread, and the curves where they were kept."""
    curves = any("val" in run.get("curve", {}) for found in runs.values() for run in found)
    figure = _new(11.5 if curves else 7.5, 1.4 + 0.55 * len(runs) if not curves else max(3.6, 1.4 + 0.55 * len(runs)))
    left, *right = figure.subplots(1, 2 if curves else 1, squeeze=False)[0]
    _dots(left, table, runs)
    if right:
        _curves(right[0], table, runs)
    for axes in (left, *right):
        axes.grid(alpha=0.25, linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    _save(figure, path)


def _values(table: Table, runs: Sequence[dict[str, Any]]) -> list[float]:
    """The figure of every run, at the same epoch as the one compared with the paper."""
    if table.blind:
        return [float(run["val_at_stop"]) for run in runs]
    if "curve" in runs[0] and "val" not in runs[0]["curve"]:  # folds: the epoch that is best over all of them
        curves = [run["curve"]["test"] for run in runs]
        best = best_epoch(curves)
        return [float(curve[best]) for curve in curves]
    return [float(run["test"]) for run in runs]


def _wrapped(label: str) -> str:
    return "\n".join(textwrap.wrap(label, 48))


def _dots(axes: Any, table: Table, runs: Runs) -> None:
    scale = 100 if table.percent else 1
    for place, (key, found) in enumerate(runs.items()):
        values = [scale * value for value in _values(table, found)]
        jitter = [place + 0.16 * math.sin(2.4 * i) for i in range(len(values))]
        axes.plot(values, jitter, "o", color=_PALE, markersize=4.5, zorder=2, label="runs" if not place else None)
        mean = scale * _first(table, found).mean
        axes.plot(
            [mean], [place], "|", color=_INK, markersize=18, markeredgewidth=2.5, zorder=3, label=_once("mean", place)
        )
        if table.rows[key].paper is not None:
            middle, spread = table.rows[key].paper  # type: ignore[misc]
            axes.errorbar(
                [scale * middle], [place - 0.32], xerr=[scale * (spread or 0)], fmt="D", color=_PAPER, markersize=5,
                capsize=3, zorder=3, label=_once("paper", place),
            )  # fmt: skip
    axes.set_yticks(range(len(runs)), [table.rows[key].label for key in runs])
    axes.invert_yaxis()
    axes.set_xlabel(_wrapped(table.measure))
    axes.legend(frameon=False, fontsize=9, loc="best")


def _once(label: str, place: int) -> str | None:
    return label if place == 0 else None


def _curves(axes: Any, table: Table, runs: Runs) -> None:
    colours = ("#1f5f94", "#c55a11", "#548235", "#7b4fa0", "#888888", "#000000")
    scale = 100 if table.percent else 1
    for (key, found), colour in zip(runs.items(), colours, strict=False):
        for i, run in enumerate(found):
            values = [scale * value for value in run["curve"]["val"]]
            label = table.rows[key].label if i == 0 else None
            axes.plot(range(1, len(values) + 1), values, color=colour, linewidth=0.7, alpha=0.6, label=label)
    if not table.percent:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("{x:g}")
        axes.tick_params(axis="y", which="minor", labelsize=7)
    axes.set_xlabel("epoch")
    axes.set_ylabel(_wrapped(table.measure if table.blind else f"validation, {table.measure}"))
    legend = axes.legend(frameon=False, fontsize=9)
    for line in legend.get_lines():
        line.set_linewidth(2.5)


def _ring_picture(table: Table, runs: Runs, path: Path) -> None:
    """As in the paper: mean accuracy over the length of the ring, with bars from least to most."""
    figure = _new(7.5, 4.2)
    axes = figure.subplots()
    for kind, label, colour, mark in (("cin", "CIN, 3 layers", _INK, "o"), ("gin", "GIN, ⌊k/2⌋ layers", _PAPER, "s")):
        lengths = [k for k in RING_LENGTHS if f"{kind}-{k}" in runs]
        if not lengths:
            continue
        found = [_first(table, runs[f"{kind}-{k}"]) for k in lengths]
        means = [f.mean for f in found]
        bars = [[m - f.least for m, f in zip(means, found, strict=True)], [f.most - f.mean for f in found]]
        axes.errorbar(lengths, means, yerr=bars, color=colour, marker=mark, capsize=3, label=label)
    axes.axhline(0.2, color="#888888", linewidth=0.9, linestyle=":", label="guessing")
    axes.set_ylim(0, 1.05)
    axes.set_xlabel("vertices of the ring")
    axes.set_ylabel("accuracy")
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 0.22))
    _save(figure, path)
