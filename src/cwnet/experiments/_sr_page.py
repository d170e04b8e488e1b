"""The page and the picture of the SR experiment, from its figures alone."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from cwnet.experiments._report import markdown_table, write_page
from cwnet.experiments._times_page import about_run
from cwnet.experiments.sr import FAMILIES, family_title

__all__ = ["render"]

Row = dict[str, Any]
#: What is drawn: a title, the key of its shares, and a colour for each k.
_BARS = (
    ("CIN", "cin", ("#9cc4e4", "#4d94c9", "#1f5f94")),
    ("MLP", "mlp", ("#f3c78a", "#e9a24a", "#c97a1d")),
)
#: Vectors that differ by a smaller share of their length than this differ by rounding alone.
_ROUNDING = 1e-12


def render(figures: dict[str, Any], folder: Path) -> Path:
    """Write sr.md and sr.png into a folder, and give the path of the page."""
    folder.mkdir(parents=True, exist_ok=True)
    _draw(figures, folder / "sr.png")
    write_page(folder / "sr.md", _text(figures))
    return folder / "sr.md"


# -------------------------------------------------------------------------------------------------------------- text


def _percent(shares: Sequence[float]) -> str:
    """Mean and standard error in percent; a zero is an exact zero.

    >>> _percent([0.01, 0.02, 0.03]), _percent([0.0, 0.0]), _percent([0.25, 0.25])
    ('2 ± 0.58', '0', '25')
    """
    mean, error = (100 * value for value in _mean_and_error(shares))
    return f"{mean:.3g}" + (f" ± {error:.2g}" if error else "")


def _mean_and_error(shares: Sequence[float]) -> tuple[float, float]:
    if len(set(shares)) == 1:
        return shares[0], 0.0
    return statistics.fmean(shares), statistics.stdev(shares) / math.sqrt(len(shares))


def _families(figures: dict[str, Any]) -> dict[str, dict[int, Row]]:
    """Rows by family and k."""
    found: dict[str, dict[int, Row]] = {}
    for row in figures["rows"]:
        found.setdefault(row["family"], {})[row["k"]] = row
    return found


def _text(figures: dict[str, Any]) -> str:
    settings, sizes = figures["settings"], figures["settings"]["sizes"]
    head = ["family", "graphs", "3-WL"]
    for k in sizes:
        head += [f"MLP, k={k}", f"CIN, k={k}", f"CWL, k={k}"]
    body = []
    for name, of in _families(figures).items():
        first = of[sizes[0]]
        cells = [name, f"{first['graphs']:,}", _percent([first["3-wl"]])]
        for k in sizes:
            cells += [_percent(of[k]["mlp"]), _percent(of[k]["cin"]), _percent([of[k]["cwl"]])]
        body.append(cells)
    small = _small(settings)
    graphs = sum(of[sizes[0]]["graphs"] for of in _families(figures).values())
    return f"""# Strongly regular graphs and an untrained network

The share of pairs of graphs, in percent, that are **not** told apart: mean ± standard error over
{len(figures["seeds"])} seeds, which draw the weights. Zeros are exact. Rings of up to k vertices are attached.{small}

{markdown_table(head, body, "l" + "r" * (len(head) - 1))}

![Share of pairs not told apart, by family and k](sr.png)

## What the paper claims, and what came out

{_claims(figures)}

The paper shows its other shares in a picture alone, so they can not be set beside these.

## The experiment

All pairs within a family are alike to 3-WL. Here are {graphs:,} graphs of {len(_families(figures))} families. **CIN**
has {settings["layers"]} layers of width {settings["width"]}, ELU, no norm and sums, in double precision, and gives
{settings["outputs"]} numbers per graph. Vertices start with 1, edges with 2 and rings with their length. **MLP** is the
same without messages, of width {settings["baseline_width"]}: it sees how many rings there are of each length. Two
graphs are told apart when their vectors are more than {settings["threshold"]} apart; all pairs are compared. **CWL** is
the test that bounds CIN, run until nothing changes, without weights or a threshold.

{_remark(figures)}

## Relabelled copies

{_relabelled(figures)}

## The run

Device {figures["device"]}. {about_run(figures["run"])}
"""


def _small(settings: dict[str, Any]) -> str:
    """How this run differs from the paper's."""
    parts = []
    if settings["max_graphs"] is not None:
        parts.append(f"This is a small form: the first {settings['max_graphs']} graphs of each family.")
    left_out = [family_title(name) for name in FAMILIES if name not in settings["families"]]
    if left_out:
        parts.append(f"Left out: {', '.join(left_out)}.")
    return "\n\n" + " ".join([*parts, "The paper takes all."]) if parts else ""


def _claims(figures: dict[str, Any]) -> str:
    rows = figures["rows"]
    at_six = [row for row in rows if row["k"] == 6]
    missed = [row for row in at_six if max(row["cin"])]
    if not at_six:
        first = "k = 6 was not run."
    elif missed:
        first = f"**missed** in {_named(missed)}."
    else:
        first = f"met, in all {len(at_six)} families and with every seed."
    mean = {key: [statistics.fmean(row[key]) for row in rows] for key in ("cin", "mlp")}
    pairs = list(zip(mean["cin"], mean["mlp"], rows, strict=True))
    above = [row for cin, mlp, row in pairs if cin > mlp]
    level = [row for cin, mlp, row in pairs if cin == mlp > 0]
    below, both = sum(cin < mlp for cin, mlp, _ in pairs), sum(cin == mlp == 0 for cin, mlp, _ in pairs)
    second = f"lower in {below} of {len(rows)} cases, both at 0 in {both}"
    second += f", **as many** in {_named(level)}" if level else ""
    second += f", **more** in {_named(above)}." if above else ", never higher." if not level else "."
    return f"""- CIN with k = 6 tells all pairs of all families apart (0.0 %): {first}
- CIN leaves fewer pairs than its MLP baseline at every k: {second}
- 3-WL tells no pair apart (100 %): {"met." if all(row["3-wl"] == 1 for row in rows) else "**missed**."}"""


def _named(rows: Iterable[Row]) -> str:
    return ", ".join(f"{row['family']} (k = {row['k']})" for row in rows)


def _remark(figures: dict[str, Any]) -> str:
    """How close the calls are, and where CIN does not reach its bound."""
    rows, limit = figures["rows"], figures["settings"]["threshold"]
    last = [min(row["cin_nearest"]) for row in rows if row["k"] == 6 and None not in row["cin_nearest"]]
    parts = []
    if last:
        parts.append(f"At k = 6 the two nearest vectors of all families and seeds are {min(last):.3g} apart.")
    lower = [row for row in rows if min(row["cin"]) < row["cwl"]]
    if lower:
        parts.append(f"**CIN is below its bound in {_named(lower)}: rounding is taken for a difference.**")
    missed = [row for row in rows if statistics.fmean(row["cin"]) > row["cwl"]]
    if missed:
        parts.append(
            f"CIN leaves more pairs than CWL in {_named(missed)}: most of these vectors differ, but not by {limit}."
        )
        blind = [row for row in missed if min(row["cin_nearest"]) < _ROUNDING * row["cin_length"]]
        if blind:
            parts.append(
                f"In {_named(blind)} some differ by rounding alone: CWL tells them apart in a later round than the "
                "network has layers."
            )
    return " ".join(parts)


def _relabelled(figures: dict[str, Any]) -> str:
    rows = [row for row in figures["rows"] if row["cin_relabelled"] is not None]
    if not rows:
        return "No copies were made."
    worst = max(rows, key=lambda row: float(row["cin_relabelled"]))
    of_mlp = max(row["mlp_relabelled"] for row in rows)
    limit = figures["settings"]["threshold"]
    verdict = "all do" if max(worst["cin_relabelled"], of_mlp) <= limit else "**not all do**"
    seeds = figures["settings"]["relabelled_seeds"]
    return (
        f"Every graph was renumbered at random, lifted anew for every k and embedded with the weights of {seeds} "
        f"seed{'s' * (seeds > 1)}. A copy must stay within {limit} of its graph: {verdict}. The largest distance is "
        f"{worst['cin_relabelled']:.2g} for CIN, in {_named([worst])}, where vectors are {worst['cin_length']:.2g} "
        f"long, and {of_mlp:.2g} for the MLP, which is computed from counts of cells. CWL tells "
        f"{sum(row['cwl_relabelled'] for row in rows) or 'no'} copies from their graphs."
    )


# ----------------------------------------------------------------------------------------------------------- picture


def _draw(figures: dict[str, Any], path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    families, sizes = _families(figures), figures["settings"]["sizes"]
    figure = Figure(figsize=(12, 4.8), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    shown = [
        share for row in figures["rows"] for share in (*map(statistics.fmean, (row["cin"], row["mlp"])), row["cwl"])
    ]
    floor = 10 ** math.floor(math.log10(100 * min((share for share in shown if share), default=0.01)) - 0.5)
    width = 0.84 / (len(_BARS) * len(sizes))
    bars = [(title, key, k, colours[i % 3]) for title, key, colours in _BARS for i, k in enumerate(sizes)]
    for i, (title, key, k, colour) in enumerate(bars):
        for place, of in enumerate(families.values()):
            at = place + (i - len(bars) / 2 + 0.5) * width
            label = f"{title} ({k})" if place == 0 else None
            mean, error = (100 * value for value in _mean_and_error(of[k][key]))
            axes.bar(at, mean, 0.92 * width, color=colour, label=label)
            if error:
                low = min(error, mean - floor)
                axes.errorbar(at, mean, [[low], [error]], color="#20242c", linewidth=1, capsize=2)
            if not mean:
                axes.text(at, 1.15 * floor, "0", color=colour, ha="center", va="bottom", fontsize=8, weight="bold")
            if key == "cin" and of[k]["cwl"]:
                half = 0.46 * width
                axes.plot([at - half, at + half], [100 * of[k]["cwl"]] * 2, color="#b3261e", linewidth=2)
    bound = axes.plot([], [], color="#b3261e", linewidth=2, label="CWL, the bound of CIN")
    every = axes.axhline(100, color="#20242c", linewidth=1, linestyle=(0, (4, 3)), label="3-WL (100 %)")
    axes.set_yscale("log")
    axes.set_ylim(floor, 250)
    axes.set_ylabel("pairs not told apart (%)")
    ticks = [10.0**e for e in range(math.ceil(math.log10(floor)), 3)]
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    names = [f"{name}\n{of[sizes[0]]['graphs']:,} graphs" for name, of in families.items()]
    axes.set_xticks(range(len(families)), names, fontsize=8)
    axes.tick_params(axis="x", length=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25)
    axes.set_axisbelow(True)
    drawn: list[Any] = [*axes.containers, *bound, every]
    handles = [each for each in drawn if not str(each.get_label()).startswith("_")]
    figure.legend(handles=handles, ncols=8, loc="outside upper center", frameon=False, fontsize=9)
    figure.savefig(path, dpi=140)
