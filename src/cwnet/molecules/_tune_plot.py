"""What mattered in a search, as a picture: the validation figure against each setting."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cwnet.data._files import write_whole
from cwnet.molecules._plots import BLUE, GREY, INK, RED, plain_text

if TYPE_CHECKING:
    from cwnet.molecules._tune import Knob, Tuned

__all__ = ["plot_trials"]

_ACROSS = 5


def plot_trials(path: Path, found: Tuned, values: Mapping[Knob, Sequence[Any]]) -> None:
    """A panel for each setting. All dots are of the first round, which every candidate was in, so they can be compared.

    Args:
        path: of the PNG file.
        found: the search.
        values: of each setting, what every candidate has; None where it has none.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    epochs = min(trial.epochs for trial in found.trials)
    first = {t.number: t.figure for t in found.trials if t.epochs == epochs and t.figure is not None}
    across = min(_ACROSS, max(len(values), 1))
    down = math.ceil(len(values) / across)
    with plain_text():
        figure = Figure(figsize=(2.5 * across, 2.3 * down + 0.7), layout="constrained", dpi=110)
        FigureCanvasAgg(figure)
        shared = None
        for place, (knob, each) in enumerate(values.items()):
            axes = shared = figure.add_subplot(down, across, place + 1, sharey=shared)
            _panel(axes, knob, each, first, found.winner.number)
            axes.set_ylabel(found.metric if place % across == 0 else "")
            axes.tick_params(labelleft=place % across == 0)
        figure.suptitle(_title(found, epochs), fontsize=10, color=INK)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png")
    write_whole(path, buffer.getvalue())


def _panel(axes: Any, knob: Knob, values: Sequence[Any], first: Mapping[int, float], winner: int) -> None:
    """Dots side by side over each value, and a line at their mean."""
    ticks = sorted(knob.values) if not isinstance(knob.values[0], str) else list(knob.values)
    for at, value in enumerate(ticks):
        there = [(number, y) for number, y in first.items() if values[number] == value]
        for place, (number, y) in enumerate(there):
            x = at + 0.5 * ((place + 1) / (len(there) + 1) - 0.5)
            colour, marker, size = (RED, "*", 90) if number == winner else (BLUE, "o", 20)
            if number == 0:
                marker, size = "D", 34
            axes.scatter(x, y, s=size, marker=marker, color=colour, alpha=0.75, linewidths=0, zorder=3)
        if there:
            mean = sum(y for _, y in there) / len(there)
            axes.plot([at - 0.32, at + 0.32], [mean, mean], color=GREY, linewidth=1.4)
    axes.set_title(knob.name, fontsize=10, color=INK, loc="left")
    axes.set_xticks(range(len(ticks)), [_shown(knob.name, value) for value in ticks], fontsize=8)
    axes.set_xlim(-0.6, len(ticks) - 0.4)
    axes.tick_params(axis="y", labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def _shown(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "sqrt" if name == "tries" and value == 0 else f"{value:g}" if isinstance(value, float) else str(value)


def _title(found: Tuned, epochs: int) -> str:
    won, default = found.winner.figure, found.default.figure
    figures = "" if won is None or default is None else f" With all epochs: default {default:.3f}, winner {won:.3f}."
    return (
        f"{found.metric} of {found.molecules:,} validation molecules after {epochs} epochs. Diamond: the default; "
        f"red: the winner; lines: means.{figures}"
    )
