"""Train the rows of a table, and keep the figures of every run as a small file of its own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import torch

from cwnet.errors import CwnetError
from cwnet.experiments._report import write_figures
from cwnet.experiments.tables import TABLES, Row, Table
from cwnet.train import Recipe, RunResult, fit_many, load_recipe
from cwnet.train._about import commit, hardware, versions

__all__ = ["read_runs", "run_table"]

_KEPT = (
    *("seed", "fold", "metric", "test", "best_epoch", "val_at_best", "test_at_best", "epochs", "val_at_stop"),
    *("test_at_stop", "stopped", "seconds", "seconds_per_epoch", "parameters"),
)
#: What may differ between two runs of one row.
_FREE = ("seeds", "checkpoint_every", "keep")


def run_table(
    name: str,
    *,
    rows: Sequence[str] = (),
    seeds: int | None = None,
    device: str | None = None,
    results: Path,
    work: Path,
    small: bool = False,
    share: tuple[int, int] = (1, 1),
    side_by_side: int | None = None,
    command: str = "",
    progress: bool = True,
) -> None:
    """Train what is missing of a table.

    Args:
        name: of the table.
        rows: their keys; all by default.
        seeds: how many, from 0; those of the recipes by default.
        device: where to train.
        results: folder of the figures: ``NAME/ROW/fold-F-seed-S.json`` for each run. Those that are there are not run
            again.
        work: folder for checkpoints, from which runs that were interrupted go on.
        small: whether to run the version for two cores.
        share: ``(2, 8)`` for the second of eight equal shares of the runs. Processes and machines that each take
            another share of a table write to the same folders, and need not know of each other.
        side_by_side: as in `cwnet.train.fit`, over all rows.
        command: what the user typed, to be kept with the figures.
        progress: whether to show how far it is.

    Raises:
        CwnetError: for a row that is not there, or figures in the way that were made with other settings.
    """
    table = TABLES[name]
    recipes = {key: _recipe(table, table.rows[key], seeds, small) for key in _chosen(name, table, rows, small)}
    for key, recipe in recipes.items():
        _claim(results / name / key, recipe)
    about: dict[str, Any] = {
        "command": command,
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": commit(),
        "versions": versions(),
    }

    def file(key: str, fold: int, seed: int) -> Path:
        return results / name / key / f"fold-{fold}-seed-{seed}.json"

    def keep(key: str, result: RunResult) -> None:
        kept = [field for field in _KEPT if not (table.blind and field.startswith("test"))]
        body: dict[str, Any] = {field: getattr(result, field) for field in kept}
        if table.curves:
            seen = ("val",) if table.blind else ("val", "test")
            parts = [part for part in seen if result.history[-1][part] is not None]
            body["curve"] = {part: [row[part] for row in result.history] for part in parts}
        place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        body["run"] = {**about, "hardware": hardware(place)}
        write_figures(file(key, result.fold, result.seed), body)

    number, shares = share
    turn = count()
    fit_many(
        recipes,
        out=work / name,
        device=device,
        resume=True,
        side_by_side=side_by_side,
        progress=progress,
        plots=False,
        wanted=lambda key, fold, seed: next(turn) % shares == number - 1 and not file(key, fold, seed).exists(),
        on_end=keep,
    )


def read_runs(results: Path, name: str) -> dict[str, list[dict[str, Any]]]:
    """The figures of all runs of a table that are kept, by row in the order of the table."""
    found = {}
    for key in TABLES[name].rows:
        runs = [json.loads(file.read_text("utf-8")) for file in (results / name / key).glob("fold-*.json")]
        if runs:
            found[key] = sorted(runs, key=lambda run: (run["fold"], run["seed"]))
    return found


def _chosen(name: str, table: Table, rows: Sequence[str], small: bool) -> Sequence[str]:
    for key in rows:
        if key not in table.rows:
            raise CwnetError(f"--rows {key}: {name} has the rows {', '.join(table.rows)}")
    if small:
        return [key for key in table.small.rows if not rows or key in rows]
    return rows or list(table.rows)


def _recipe(table: Table, row: Row, seeds: int | None, small: bool) -> Recipe:
    changes: Iterable[str] = (*row.changes, *(table.small.changes if small else ()))
    recipe = load_recipe(row.recipe, changes)
    many = table.small.seeds if small and seeds is None else seeds
    return recipe if many is None else recipe.with_seeds(range(many))


def _claim(folder: Path, recipe: Recipe) -> None:
    """Keep the recipe of a row beside its figures; figures of another recipe are not mixed with."""
    settings, file = _settings(recipe), folder / "recipe.json"
    if file.exists():
        before = _settings(Recipe.from_dict(json.loads(file.read_text("utf-8"))))  # what is new since has its default
        differ = [
            f"{section}.{key}"
            for section in ("data", "model", "train", "schedule", "stop")
            for key in {**before.get(section, {}), **settings.get(section, {})}
            if before.get(section, {}).get(key) != settings.get(section, {}).get(key)
        ]
        if differ:
            raise CwnetError(
                f"{folder} holds figures made with another {', '.join(differ)}: move them away, or choose another "
                "folder with --results"
            )
    else:
        write_figures(file, settings)


def _settings(recipe: Recipe) -> dict[str, Any]:
    """All of a recipe that decides its figures."""
    settings = recipe.to_dict()
    for free in _FREE:
        settings["train"].pop(free, None)
    settings.pop("notes", None)
    return settings
