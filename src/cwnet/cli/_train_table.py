"""`cwnet train` on a table of molecules."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import typer
from rich.table import Table

from cwnet.cli._shared import console
from cwnet.errors import CwnetError

if TYPE_CHECKING:
    from cwnet.data import MoleculeTable
    from cwnet.molecules import Replicates, Trained

__all__ = ["TableOptions", "train_molecules"]


@dataclass(frozen=True)
class TableOptions:
    """Options that go with a table; None, or False, where they were not given."""

    smiles_column: str | None
    target_columns: str | None
    task: str | None
    split: str | None
    ensemble: int | None
    replicates: int | None
    epochs: int | None
    rings: str | None
    balance: bool
    no_trees: bool
    no_network: bool
    uncertainty: str | None
    target_level: str | None

    def refuse(self, recipe: str) -> None:
        """Recipes have keys for what tables have options for."""
        for field in fields(self):
            if getattr(self, field.name):
                name = field.name.replace("_", "-")
                raise CwnetError(
                    f"--{name} goes with a table of molecules, and {recipe} is a recipe: use --set KEY=VALUE"
                )


def train_molecules(
    source: str | None,
    options: TableOptions,
    folder: Path,
    *,
    seed: int,
    changes: Sequence[str],
    device: str,
    resume: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Read the table, train, and print what came of it."""
    from cwnet.molecules import Settings, train_replicates, train_table
    from cwnet.molecules._targets import Targets
    from cwnet.train._errors import Interrupted

    given = {
        "split": options.split,
        "ensemble": options.ensemble,
        "epochs": options.epochs,
        "lifting": options.rings,
        "uncertainty": options.uncertainty,
        "level": options.target_level,
        "changes": tuple(changes),
    }
    settings = Settings(
        seed=seed,
        balance=options.balance,
        trees=not options.no_trees,
        network=not options.no_network,
        **cast("Any", {k: v for k, v in given.items() if v is not None}),
    )
    table = _read(source, options, folder, resume)
    if not quiet:
        columns = ", ".join(table.targets)
        console(stderr=True).print(f"{table.path}: {len(table):,} rows, to learn {columns or 'nothing'}")
        if (
            table.y is not None
            and Targets.of(table.targets, table.y, table.classes, str(table.path)).task == "regression"
        ):
            console(stderr=True).print("until the test, errors are in standard deviations of a column")
    how: dict[str, Any] = {"device": device, "resume": resume, "progress": not quiet}
    try:
        if options.replicates is not None:
            _print_replicates(train_replicates(table, folder, settings, options.replicates, **how), as_json)
        else:
            _print(train_table(table, folder, settings, **how), as_json)
    except Interrupted as stopped:
        typer.echo(f"{str(stopped).partition(';')[0]}; {folder} goes on with --resume", err=True)
        raise typer.Exit(128 + stopped.signal) from None


def _read(source: str | None, options: TableOptions, folder: Path, resume: bool) -> MoleculeTable:
    from cwnet.data import read_table
    from cwnet.data._cell_lists import read_cell_table
    from cwnet.molecules import nci_table

    if options.task not in (None, "regression", "classification"):
        raise CwnetError(f"--task {options.task}: write regression or classification")
    if source is None:
        if options.smiles_column or options.target_columns or options.task or options.target_level:
            raise CwnetError("--smiles-column, --target-columns, --target-level and --task go with a table: name one")
        own = folder / "nci.csv"
        return read_table(own, "smiles", "penalised_logp") if resume and own.is_file() else nci_table(own)
    targets: list[str] | None = None
    if options.target_columns is not None:
        targets = [name.strip() for name in options.target_columns.split(",") if name.strip()]
    if options.target_level in ("atom", "bond"):
        if options.task is not None:
            raise CwnetError(f"--task {options.task} is for molecules: lists of 0 and 1 are classes, others numbers")
        return read_cell_table(source, options.smiles_column, targets)
    return read_table(source, options.smiles_column, targets, task=cast("Any", options.task))


def _summary(trained: Trained) -> dict[str, Any]:
    about = trained.model.about
    return {
        "model": str(trained.folder),
        "task": trained.model.targets.task,
        "test": trained.metrics,
        "split": about["split"],
        "parts": about["parts"],
        "coverage": about["coverage"],
        "epochs": about.get("epochs", []),
        "seconds": round(trained.seconds, 2),
        "notes": list(trained.prepared.notes),
    }


def _print(trained: Trained, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(_summary(trained)))
        return
    out = console()
    for note in trained.prepared.notes:
        out.print(f"note: {note}", soft_wrap=True)
    split = trained.model.about["split"]
    out.print(f"{split['train']:,} molecules to train on, {split['val']:,} to choose by, {split['test']:,} to test on")
    if trained.metrics:
        out.print(_table({t: {m: f"{v:.4f}" for m, v in found.items()} for t, found in trained.metrics.items()}))
        _print_parts(trained.model.about["parts"]["test"])
        for level, held in trained.model.about["coverage"].items():
            share = sum(each["held"] for each in held.values()) / len(held)
            out.print(f"intervals of {level} held {share:.1%} of the test values", style="dim")
    out.print(f"{trained.seconds:,.0f} s. The model is {trained.folder}; report.html there shows it", soft_wrap=True)


def _print_parts(figures: dict[str, dict[str, dict[str, float]]]) -> None:
    """What each part of the model gives alone, in one line each."""
    for name, found in figures.items():
        if name != "model":
            said = ", ".join(f"{metric} {value:.4f}" for metric, value in found["mean"].items())
            console().print(f"the {name} alone: {said}", style="dim", soft_wrap=True)


def _print_replicates(found: Replicates, as_json: bool) -> None:
    if as_json:
        folders = [str(each.folder) for each in found.trained]
        typer.echo(json.dumps({"models": folders, "test": found.metrics, "seconds": round(found.seconds, 2)}))
        return
    shown = {
        target: {metric: f"{v['mean']:.4f} ± {v['std'] or 0:.4f}" for metric, v in figures.items()}
        for target, figures in found.metrics.items()
    }
    out = console()
    if shown:
        out.print(_table(shown))
    said = (
        f"Mean ± standard deviation of {len(found.trained)} models, {found.seconds:,.0f} s. They are in {found.folder}"
    )
    out.print(said, soft_wrap=True)


def _table(figures: dict[str, dict[str, str]]) -> Table:
    """A row per column of the data; their mean where there are several."""
    shown = {target: found for target, found in figures.items() if target != "mean" or len(figures) > 2}
    names = list(dict.fromkeys(metric for found in shown.values() for metric in found))
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("test")
    for name in names:
        table.add_column(name, justify="right")
    for target, found in shown.items():
        table.add_row(target, *(found.get(name, "–") for name in names))
    return table
