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
    from cwnet.molecules import Trained

__all__ = ["TABLES", "TableOptions", "train_molecules"]

#: How names of tables end.
TABLES = r"\.(csv|tsv|tab|txt|smi|smiles|parquet|pq)(\.gz)?$"


@dataclass(frozen=True)
class TableOptions:
    """Options that go with a table; None, or False, where they were not given."""

    smiles_column: str | None
    target_columns: str | None
    task: str | None
    split: str | None
    ensemble: int | None
    epochs: int | None
    rings: str | None
    balance: bool

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
    from cwnet.molecules import Settings, train_table
    from cwnet.train._errors import Interrupted

    given = {
        "split": options.split,
        "ensemble": options.ensemble,
        "epochs": options.epochs,
        "lifting": options.rings,
        "changes": tuple(changes),
    }
    settings = Settings(
        seed=seed, balance=options.balance, **cast("Any", {k: v for k, v in given.items() if v is not None})
    )
    table = _read(source, options, folder, resume)
    if not quiet:
        columns = ", ".join(table.targets)
        console(stderr=True).print(f"{table.path}: {len(table):,} rows, to learn {columns or 'nothing'}")
    try:
        trained = train_table(table, folder, settings, device=device, resume=resume, progress=not quiet)
    except Interrupted as stopped:
        typer.echo(str(stopped).replace(str(folder / "training"), str(folder)), err=True)
        raise typer.Exit(128 + stopped.signal) from None
    if as_json:
        typer.echo(json.dumps(_summary(trained)))
    else:
        _print(trained)


def _read(source: str | None, options: TableOptions, folder: Path, resume: bool) -> MoleculeTable:
    from cwnet.data import read_table
    from cwnet.molecules import nci_table

    if options.task not in (None, "regression", "classification"):
        raise CwnetError(f"--task {options.task}: write regression or classification")
    if source is None:
        if options.smiles_column or options.target_columns or options.task:
            raise CwnetError("--smiles-column, --target-columns and --task go with a table: name one")
        own = folder / "nci.csv"
        return read_table(own, "smiles", "penalised_logp") if resume and own.is_file() else nci_table(own)
    targets = None
    if options.target_columns is not None:
        targets = [name.strip() for name in options.target_columns.split(",") if name.strip()]
    return read_table(source, options.smiles_column, targets, task=cast("Any", options.task))


def _summary(trained: Trained) -> dict[str, Any]:
    about = trained.model.about
    return {
        "model": str(trained.folder),
        "task": trained.model.targets.task,
        "test": trained.metrics,
        "split": about["split"],
        "epochs": about["epochs"],
        "seconds": round(trained.seconds, 2),
        "notes": list(trained.prepared.notes),
    }


def _print(trained: Trained) -> None:
    out = console()
    for note in trained.prepared.notes:
        out.print(f"note: {note}", soft_wrap=True)
    split = trained.model.about["split"]
    out.print(f"{split['train']:,} molecules to train on, {split['val']:,} to choose by, {split['test']:,} to test on")
    if trained.metrics:
        shown = dict(trained.metrics)
        if len(shown) == 2:
            del shown["mean"]
        names = list(dict.fromkeys(metric for found in shown.values() for metric in found))
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("test")
        for name in names:
            table.add_column(name, justify="right")
        for target, found in shown.items():
            table.add_row(target, *(f"{found[name]:.4f}" if name in found else "–" for name in names))
        out.print(table)
    out.print(f"{trained.seconds:,.0f} s. The model is {trained.folder}", soft_wrap=True)
