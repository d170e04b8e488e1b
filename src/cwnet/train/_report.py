"""What a run leaves behind: its recipe, curves, predictions and figures."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cwnet.data._files import write_whole
from cwnet.train._about import commit, hardware, versions
from cwnet.train._errors import TrainingError
from cwnet.train._recipe import Recipe
from cwnet.train._run import Run, RunResult

__all__ = ["Board", "plot_curves", "write_curves", "write_recipe", "write_run", "write_summary"]

#: What is too large, or not plain data, for `run.json`.
_ELSEWHERE = ("history", "predictions", "model", "out")


def write_recipe(out: Path, recipe: Recipe) -> None:
    """``recipe.toml``, with everything filled in."""
    write_whole(out / "recipe.toml", recipe.to_toml().encode())


def write_run(run: Run, result: RunResult, plots: bool = True) -> None:
    """All files of a run that has ended."""
    assert run.out is not None
    write_recipe(run.out, run.recipe.with_seeds([run.seed]))
    write_curves(run.out, result.history)
    _write_predictions(run, result)
    if plots:
        plot_curves(run.out / "curves.png", result, run.recipe.train.loss or "loss")
    body = {
        **{f.name: getattr(result, f.name) for f in fields(result) if f.name not in _ELSEWHERE},
        "report": run.recipe.train.report,
        "loss_at_stop": result.history[-1]["loss"],
        "split": {part: len(getattr(run.split, part)) for part in ("train", "val", "test")},
        "hardware": hardware(run.device),
        "engine": run.steps.describe(),
        "own": run.own.names(),
        "model": run.config,
        "versions": versions(),
        "commit": commit(),
        "recipe": run.recipe.to_dict(),
        "history": result.history,
    }
    _write_json(run.out / "run.json", body)


def write_summary(out: Path, recipe: Recipe, results: Sequence[RunResult]) -> None:
    """``summary.json``: mean and standard deviation over the runs."""
    body: dict[str, Any] = {"name": recipe.name, "metric": results[0].metric, "report": recipe.train.report}
    for key in ("test", "test_at_best", "test_at_stop", "val_at_best", "val_at_stop", "epochs", "seconds_per_epoch"):
        values = [value for r in results if (value := getattr(r, key)) is not None]
        if values:
            body[key] = {
                "mean": statistics.fmean(values),
                "std": statistics.stdev(values) if len(values) > 1 else None,
                "min": min(values),
                "max": max(values),
                "n": len(values),
            }
    body["runs"] = [{"fold": r.fold, "seed": r.seed, "test": r.test, "epochs": r.epochs} for r in results]
    _write_json(out / "summary.json", body)


def _write_json(path: Path, body: Any) -> None:
    write_whole(path, (json.dumps(body, indent=2, allow_nan=False) + "\n").encode())


def write_curves(out: Path, history: Sequence[dict[str, Any]]) -> None:
    """``curves.csv``: a row per epoch."""
    _write_csv(out / "curves.csv", list(history[0]), [list(row.values()) for row in history])


def _write_csv(path: Path, head: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    write_whole(path, buffer.getvalue().encode())


def _write_predictions(run: Run, result: RunResult) -> None:
    """``predictions.csv``: the test part, a row per complex, or per cell that has a target."""
    if not len(run.split.test):
        return
    prediction, target = result.predictions.float(), run.targets("test")
    counts = run.objective.rows(run.dataset.store, run.split.test)
    owner = torch.repeat_interleave(run.split.test, counts)
    columns: list[tuple[str, Tensor]] = [("complex", owner)]
    if run.objective.dim is not None:
        first = torch.repeat_interleave(counts.cumsum(0) - counts, counts)
        columns.append(("cell", torch.arange(len(owner)) - first))
    columns += _columns("target", target) + _columns("prediction", prediction)
    rows = zip(*(values.tolist() for _, values in columns), strict=True)
    _write_csv(run.out / "predictions.csv", [name for name, _ in columns], list(rows))  # type: ignore[operator]


def _columns(name: str, values: Tensor) -> list[tuple[str, Tensor]]:
    table = values.reshape(len(values), -1)
    if table.shape[1] == 1:
        return [(name, table[:, 0])]
    return [(f"{name}_{i}", table[:, i]) for i in range(table.shape[1])]


# ------------------------------------------------------------------------------------------------ pictures


def plot_curves(path: Path, result: RunResult, loss: str) -> None:
    """The training loss with the learning rate, and the metric, over the epochs."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained", dpi=120)
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    where = f"fold {result.fold}, seed {result.seed}" if result.fold else f"seed {result.seed}"
    # A name is text: one with dollar signs in it is no formula.
    figure.suptitle(f"{result.name}, {where}", fontsize=11, x=0.01, ha="left", parse_math=False)
    _plot_loss(left, result.history, loss)
    _plot_metric(right, result)
    for axes in (left, right):
        axes.set_xlabel("epoch")
        axes.grid(alpha=0.25, linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        axes.margins(x=0.02)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    write_whole(path, buffer.getvalue())


def _plot_loss(axes: Any, history: Sequence[dict[str, Any]], loss: str) -> None:
    epochs, losses, rates = _column(history, "epoch"), _column(history, "loss"), _column(history, "lr")
    other = axes.twinx()
    (step,) = other.step(epochs, rates, where="mid", color=_GREY, linewidth=1.0, label="learning rate")
    _use_logarithm(other, rates)
    other.set_ylabel("learning rate", color=_GREY)
    other.tick_params(axis="y", which="both", colors=_GREY)
    other.spines[["top", "left"]].set_visible(False)
    other.spines["right"].set_color(_GREY)
    (line,) = axes.plot(epochs, losses, color="#1f4e79", linewidth=1.6, label=f"training loss ({loss})")
    _use_logarithm(axes, losses)
    axes.set_ylabel(f"training loss ({loss})")
    axes.set_zorder(other.get_zorder() + 1)
    axes.patch.set_visible(False)
    axes.legend(handles=[line, step], frameon=False, fontsize=9, loc="upper right")


def _plot_metric(axes: Any, result: RunResult) -> None:
    epochs = _column(result.history, "epoch")
    shown: list[float] = []
    for key, name, colour, width in (("test", "test", "#548235", 1.0), ("val", "validation", _ORANGE, 1.6)):
        values = _column(result.history, key)
        if not all(map(math.isnan, values)):
            axes.plot(epochs, values, color=colour, linewidth=width, label=name)
            shown += values
    if result.best_epoch is not None:
        label = f"best: {result.val_at_best:.4g} in epoch {result.best_epoch}"
        axes.plot([result.best_epoch], [result.val_at_best], "o", color=_ORANGE, markersize=5, label=label)
        axes.axvline(result.best_epoch, color=_GREY, linewidth=0.8, linestyle=":")
    if result.metric in ("mae", "mae99", "rmse"):
        _use_logarithm(axes, shown)
    axes.set_ylabel({"rocauc": "ROC-AUC", "r2": "R²", "accuracy": "accuracy"}.get(result.metric, result.metric.upper()))
    axes.legend(frameon=False, fontsize=9)


_GREY, _ORANGE = "#888888", "#c55a11"


def _column(history: Sequence[dict[str, Any]], key: str) -> list[float]:
    return [math.nan if row[key] is None else row[key] for row in history]


def _use_logarithm(axes: Any, values: Sequence[float]) -> None:
    """A logarithmic axis with plain numbers, where all values allow one."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    if values and all(value > 0 for value in values):
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())


# ------------------------------------------------------------------------------------------------ TensorBoard


class Board:
    """Curves for TensorBoard, written while they grow; nothing where it is not wanted."""

    def __init__(self, wanted: bool) -> None:
        if wanted and importlib.util.find_spec("tensorboard") is None:
            raise TrainingError("TensorBoard is not installed: pip install cwnet[tensorboard]")
        self.wanted = wanted
        self._writers: dict[int, Any] = {}
        self._seen: dict[int, int] = {}

    def update(self, run: Run) -> None:
        """Write the epochs of a run that are new."""
        if not self.wanted or run.out is None:
            return
        if id(run) not in self._writers:
            from torch.utils.tensorboard import SummaryWriter

            self._writers[id(run)] = SummaryWriter(str(run.out / "tensorboard"))
        writer = self._writers[id(run)]
        for row in run.history[self._seen.get(id(run), 0) :]:
            for key in ("loss", "val", "test", "lr"):
                if row[key] is not None:
                    writer.add_scalar(key, row[key], row["epoch"])
        self._seen[id(run)] = len(run.history)
        if run.stopped is not None:
            writer.close()
