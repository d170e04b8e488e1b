"""The test part in a picture: predicted against true values, ROC curves, or a table of confusions."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from cwnet.data._files import write_whole
from cwnet.molecules._targets import Targets

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["BLUE", "GREY", "INK", "RED", "figure_of_test", "plain_text", "plot_test"]

INK, BLUE, GREY, RED = "#1C1F24", "#1f4e79", "#888888", "#C0392B"
#: Columns beyond these are left to the table.
_MOST = 9


def plot_test(folder: Path, targets: Targets, values: Tensor, predicted: Tensor) -> Path:
    """Draw the test part: ``parity.png``, ``roc.png`` or ``confusion.png``."""
    buffer = io.BytesIO()
    with plain_text():
        figure_of_test(targets, values, predicted).savefig(buffer, format="png")
    path = folder / f"{_kinds()[targets.task][0]}.png"
    write_whole(path, buffer.getvalue())
    return path


@contextmanager
def plain_text() -> Iterator[None]:
    """Names of columns and classes are text in here: a dollar sign in them begins no formula."""
    from matplotlib import rc_context

    settings: Any = {"text.parse_math": False, "text.usetex": False, "svg.fonttype": "none"}
    with rc_context(settings), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of signs that the font lacks
        yield


def _shortened(targets: Targets) -> Targets:
    """The same with names that fit into a picture."""

    def short(text: str) -> str:
        return text if len(text) <= 40 else f"{text[:40]}…"

    classes = tuple(tuple(map(short, labels)) for labels in targets.classes)
    return replace(targets, names=tuple(map(short, targets.names)), classes=classes)


def _kinds() -> dict[str, tuple[str, Any]]:
    return {
        "regression": ("parity", _parity),
        "binary": ("roc", _roc),
        "multilabel": ("roc", _roc),
        "multiclass": ("confusion", _confusion),
    }


def figure_of_test(targets: Targets, values: Tensor, predicted: Tensor) -> Figure:
    """The test part as a figure, to be made and written under `plain_text`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    targets = _shortened(targets)
    paint = _kinds()[targets.task][1]
    count = 1 if targets.task == "multiclass" else min(len(targets.names), _MOST)
    across = math.ceil(math.sqrt(count))
    down = math.ceil(count / across)
    figure = Figure(figsize=(4.4 * across, 4.2 * down), layout="constrained", dpi=120)
    FigureCanvasAgg(figure)
    for i in range(count):
        axes = figure.add_subplot(down, across, i + 1)
        paint(axes, targets, i, values.double().numpy(), predicted.numpy())
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def _parity(axes: Any, targets: Targets, i: int, values: Any, predicted: Any) -> None:
    there = ~np.isnan(values[:, i])
    y, p = values[there, i], predicted[there, i]
    axes.set_title(targets.names[i], fontsize=11, color=INK, loc="left")
    axes.set_xlabel("measured")
    axes.set_ylabel("predicted")
    if not len(y):
        return
    low, high = _range(np.concatenate([y, p]))
    outside = (np.minimum(y, p) < low) | (np.maximum(y, p) > high)
    axes.plot([low, high], [low, high], color=GREY, linewidth=0.8)
    axes.scatter(y[~outside], p[~outside], s=14, color=BLUE, alpha=0.45, linewidths=0)
    at = np.clip(np.stack([y, p])[:, outside], low, high)
    axes.scatter(*at, s=22, marker="D", facecolors="none", edgecolors=RED, linewidths=1, clip_on=False, zorder=3)
    axes.set(xlim=(low, high), ylim=(low, high), aspect="equal")
    error = np.abs(y - p)
    text = f"{len(y):,} {targets.level}s\nMAE {error.mean():.3g}\nRMSE {np.sqrt((error**2).mean()):.3g}"
    text += f"\nmedian error {np.median(error):.3g}"
    axes.text(0.04, 0.96, text, transform=axes.transAxes, va="top", fontsize=9, color=INK)
    if outside.any():
        said = f"beyond the axes: {outside.sum():,}"
        axes.text(0.97, 0.04, said, transform=axes.transAxes, ha="right", fontsize=9, color=RED)


def _range(values: Any) -> tuple[float, float]:
    """Axes for nearly all values: a few that lie far away do not press the others into a corner."""
    low, high = np.quantile(values, [0.005, 0.995])
    margin = 0.25 * (high - low) or 1.0
    low, high = max(values.min(), low - margin), min(values.max(), high + margin)
    return float(low - 0.1 * margin), float(high + 0.1 * margin)


def _roc(axes: Any, targets: Targets, i: int, values: Any, predicted: Any) -> None:
    from sklearn.metrics import roc_auc_score, roc_curve

    there = ~np.isnan(values[:, i])
    y, p = values[there, i], predicted[there, i]
    axes.set_title(targets.names[i], fontsize=11, color=INK, loc="left")
    axes.set_xlabel("false positive rate")
    axes.set_ylabel("true positive rate")
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=0.8)
    axes.set_aspect("equal")
    if len(np.unique(y)) < 2:
        axes.text(0.5, 0.5, "one class only in the test part", ha="center", fontsize=9, color=INK)
        return
    false, true, _ = roc_curve(y, p)
    axes.plot(false, true, color=BLUE, linewidth=1.6)
    text = (
        f"AUC {roc_auc_score(y, p):.3f}\n{len(y):,} {targets.level}s, {int(y.sum()):,} of class {targets.classes[i][1]}"
    )
    axes.text(0.96, 0.06, text, ha="right", fontsize=9, color=INK)


def _confusion(axes: Any, targets: Targets, i: int, values: Any, predicted: Any) -> None:
    labels = targets.classes[0]
    there = ~np.isnan(values[:, 0])
    table = np.zeros((len(labels), len(labels)), dtype=np.int64)
    np.add.at(table, (values[there, 0].astype(np.int64), predicted[there].argmax(1)), 1)
    axes.imshow(table, cmap="Blues")
    axes.set_title(targets.names[0], fontsize=11, color=INK, loc="left")
    axes.set_xlabel("predicted")
    axes.set_ylabel("true")
    axes.set_xticks(range(len(labels)), labels, rotation=90 if len(labels) > 6 else 0)
    axes.set_yticks(range(len(labels)), labels)
    if len(labels) <= 20:
        for a, b in np.ndindex(*table.shape):
            dark = table[a, b] > table.max() / 2
            axes.text(b, a, str(table[a, b]), ha="center", va="center", fontsize=9, color="white" if dark else INK)
