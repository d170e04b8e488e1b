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
    from cwnet.molecules import Folds, Replicates, Trained

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
    folds: int | None = None
    weight_column: str | None = None
    target_weights: str | None = None
    descriptor_columns: str | None = None
    descriptors: str | None = None
    smiles_columns: str | None = None
    reactions: bool = False
    recipe: Path | None = None
    uncertainty: str | None = None
    target_level: str | None = None

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
    from cwnet.molecules import Settings, train_folds, train_replicates, train_table
    from cwnet.molecules._rows import are_reactions
    from cwnet.molecules._settings_file import with_recipe
    from cwnet.molecules._targets import Targets
    from cwnet.molecules._weights import read_target_weights
    from cwnet.train._errors import Interrupted

    given = {
        "split": options.split,
        "ensemble": options.ensemble,
        "epochs": options.epochs,
        "lifting": options.rings,
        "uncertainty": options.uncertainty,
        "level": options.target_level,
        "changes": tuple(changes),
        "weight_column": options.weight_column,
        "target_weights": None if options.target_weights is None else read_target_weights(options.target_weights),
        "descriptor_columns": _names(options.descriptor_columns),
        "descriptors": options.descriptors,
        "smiles_columns": _names(options.smiles_columns),
    }
    if options.folds is not None and options.replicates is not None:
        raise CwnetError("--folds and --replicates are two ways to train several models: give one of them")
    table = _read(source, options, folder, resume)
    settings = Settings(
        reactions=options.reactions or (not options.smiles_columns and are_reactions(table)),
        seed=seed,
        balance=options.balance,
        trees=not options.no_trees,
        network=not options.no_network,
        **cast("Any", {k: v for k, v in given.items() if v is not None}),
    )
    if options.recipe is not None:
        settings = with_recipe(settings, options.recipe, [k for k, v in given.items() if v is not None])
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
        if options.folds is not None:
            _print_folds(train_folds(table, folder, settings, options.folds, **how), as_json)
        elif options.replicates is not None:
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
        for name in (
            "smiles_column", "smiles_columns", "reactions", "target_columns", "target_level", "descriptor_columns",
            "task",
        ):  # fmt: skip
            if getattr(options, name):
                raise CwnetError(f"--{name.replace('_', '-')} goes with a table: name one")
        own = folder / "nci.csv"
        return read_table(own, "smiles", "penalised_logp") if resume and own.is_file() else nci_table(own)
    targets = None if options.target_columns is None else _names(options.target_columns)
    several = _names(options.smiles_columns)
    if several and (options.smiles_column or len(several) < 2 or options.reactions):
        raise CwnetError(
            f"--smiles-columns {options.smiles_columns}: it names two columns or more, and goes with neither "
            "--smiles-column nor --reactions"
        )
    column = several[0] if several else options.smiles_column
    if options.target_level in ("atom", "bond"):
        if options.task is not None:
            raise CwnetError(f"--task {options.task} is for molecules: lists of 0 and 1 are classes, others numbers")
        return read_cell_table(source, column, targets)
    kind, _, time = (options.split or "").partition(":")
    others = [*several[1:], *_names(options.descriptor_columns), *_names(options.weight_column)]
    others += [time] if kind == "time" and time else []
    return read_table(source, column, targets, task=cast("Any", options.task), other_columns=others)


def _names(text: str | None) -> tuple[str, ...]:
    """Columns as they are typed, separated by commas."""
    return tuple(dict.fromkeys(name.strip() for name in (text or "").split(",") if name.strip()))


def _summary(trained: Trained) -> dict[str, Any]:
    about = trained.model.about
    return {
        "model": str(trained.folder),
        "task": trained.model.targets.task,
        "test": trained.metrics,
        "split": about["split"],
        "parts": about["parts"],
        "coverage": about["coverage"],
        "similarity": about["similarity"],
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
        median = trained.model.about["similarity"]["median"]
        out.print(f"median similarity of test molecules to the nearest training molecule: {median:.2f}", style="dim")
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
    _print_spread(found)
    said = (
        f"Mean ± standard deviation of {len(found.trained)} models, {found.seconds:,.0f} s. They are in {found.folder}"
    )
    console().print(said, soft_wrap=True)


def _print_spread(found: Replicates) -> None:
    """The mean of every figure over the models, and its standard deviation."""
    shown = {
        target: {metric: f"{v['mean']:.4f} ± {v['std'] or 0:.4f}" for metric, v in figures.items()}
        for target, figures in found.metrics.items()
    }
    if shown:
        console().print(_table(shown))


def _print_folds(found: Folds, as_json: bool) -> None:
    about, folders = found.model.about, [str(each.folder) for each in found.trained]
    medians = [fold["similarity"]["median"] for fold in about["folds"]]
    if as_json:
        body = {
            "model": str(found.folder), "models": folders, "test": found.metrics, "out_of_fold": found.out_of_fold,
            "similarity": medians, "seconds": round(found.seconds, 2), "notes": about["notes"],
        }  # fmt: skip
        typer.echo(json.dumps(body))
        return
    out = console()
    for note in about["notes"]:
        out.print(f"note: {note}", soft_wrap=True)
    _print_spread(found)
    whole = ", ".join(f"{metric} {value:.4f}" for metric, value in found.out_of_fold["mean"].items())
    out.print(f"all molecules together, each by the model that had not seen it: {whole}", style="dim", soft_wrap=True)
    near = f"from {min(medians):.2f} to {max(medians):.2f}"
    out.print(f"median similarity of a fold to the nearest training molecule: {near}", style="dim", soft_wrap=True)
    out.print(
        f"Mean ± standard deviation over {len(folders)} folds, {found.seconds:,.0f} s. The model of all folds is "
        f"{found.folder}",
        soft_wrap=True,
    )


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
