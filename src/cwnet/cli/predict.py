"""`cwnet predict`: what a model says of molecules."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from cwnet.cli._shared import (
    DeviceOption,
    HeaderOption,
    ModelAndMolecules,
    SchedulerOption,
    SmilesColumnOption,
    WorkersOption,
    check_some,
    choose_model,
    chosen_pool,
    console,
    is_table,
    many,
    paragraphs,
)
from cwnet.errors import CwnetError

__all__ = ["add_to"]

#: The level of intervals, where a model can give them and none is asked for.
_LEVEL = 0.9


def predict(
    arguments: ModelAndMolecules,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE.csv",
            help="Where to write the table. [dim]By default to the terminal.[/dim]",
            show_default=False,
        ),
    ] = None,
    smiles_column: SmilesColumnOption = None,
    interval: Annotated[
        float | None,
        typer.Option(
            metavar="LEVEL",
            help="The probability with which intervals hold the value; 0 for no intervals. [dim]By default 0.9, where "
            "the model predicts numbers and had enough validation molecules.[/dim]",
            show_default=False,
        ),
    ] = None,
    header: HeaderOption = True,
    device: DeviceOption = "auto",
    workers: WorkersOption = None,
    scheduler: SchedulerOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: the predictions of SMILES, or counts.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but the predictions.")] = False,
) -> None:
    """Predict molecules with a model.

    A table of any size is read piece by piece. Its rows keep their order and their columns and get new ones: the
    prediction NAME_pred; NAME_std, how far networks and trees differ; for numbers NAME_low and NAME_high, an interval
    calibrated on the validation molecules, of the kind that train --uncertainty was given; for classes their
    probabilities, calibrated too. The column novelty says how unlike the training molecules a molecule is, from 0 to 1,
    and outside is yes where it is more so than 99 of 100 validation molecules: trust these less. Of a model of atoms or
    bonds, predictions are lists in the order of the SMILES, as train --target-level takes them. A row that can not be
    read says why in the column error.

    A model that was trained with --descriptor-columns needs a table with the same columns; a row without a number in
    one of them says so in the column error. A model of several molecules per row finds them in the columns it was
    trained on; typed in, they have commas between them, as in "CCO,O".
    """
    from cwnet.molecules import load_model

    loaded, molecules = choose_model(arguments, device, quiet, load_model)
    level = _level(loaded, interval)
    if all(map(is_table, molecules)):
        with chosen_pool(workers, scheduler) as pool:
            _predict_table(loaded, molecules, output, smiles_column, level, header, as_json, quiet, pool)
        return
    if output is not None:
        raise CwnetError(
            f"--output {output} goes with a table, and {molecules[0]!r} is a SMILES (or a table without suffix)"
        )
    _predict_smiles(loaded, molecules, level, as_json)


def _level(model: Any, wish: float | None) -> float | None:
    """The level of intervals; by default none where the model can not give them."""
    from cwnet.molecules import ModelError

    if wish is not None:
        return wish or None
    try:
        model.half_width(_LEVEL)
    except ModelError:
        return None
    return _LEVEL


def _predict_table(
    model: Any,
    source: list[str],
    output: Path | None,
    smiles_column: str | None,
    level: float | None,
    header: bool,
    as_json: bool,
    quiet: bool,
    pool: Any,
) -> None:
    from cwnet.molecules import predict_table

    if as_json and output is None:
        raise CwnetError("--json prints counts beside a table: name the table's file with --output")
    start = time.perf_counter()
    counts = predict_table(model, source, output, smiles_column=smiles_column, interval=level, header=header, pool=pool)
    seconds = time.perf_counter() - start
    if as_json:
        typer.echo(json.dumps({"predicted": counts.predicted, "unread": counts.unread, "seconds": round(seconds, 3)}))
    elif not quiet:
        unread = f", {many(counts.unread, 'row')} could not be read (see the column error)" if counts.unread else ""
        rate = counts.predicted / max(seconds, 1e-9)
        said = f"{many(counts.predicted, 'molecule')} predicted{unread}; {seconds:.1f} s, {rate:,.0f} per second"
        console(stderr=True).print(said, soft_wrap=True)
    check_some(counts.predicted)


def _predict_smiles(model: Any, smiles: list[str], level: float | None, as_json: bool) -> None:
    from cwnet.molecules._predict import describe, prediction_columns, shown

    columns = prediction_columns(model, level)
    rows = describe(model, model.predict(smiles), level)
    if as_json:
        found = [{"smiles": s, **dict(zip(columns, row, strict=True))} for s, row in zip(smiles, rows, strict=True)]
        typer.echo(json.dumps(found))
        return
    if model.level.dim is not None:  # lists, which no column of a table has room for
        for text, row in zip(smiles, rows, strict=True):
            typer.echo(text)
            for name, value in zip(columns, row, strict=True):
                typer.echo(f"  {name}  {shown(value)}")
        return
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(overflow="fold")
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    for text, row in zip(smiles, rows, strict=True):
        for i, (name, value) in enumerate(zip(columns, row, strict=True)):
            table.add_row("" if i else text, name, f"{value:.4f}" if isinstance(value, float) else str(value))
    console().print(table)


def add_to(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command(
        "predict",
        help=paragraphs(predict.__doc__),
        epilog="For example: cwnet predict model data.csv -o out.csv\n\n"
        'cwnet predict model "CCO" "c1ccccc1O" --json\n\n'
        'With the model that comes with cwnet: cwnet predict "c1ccccc1O"',
        no_args_is_help=True,
    )(predict)
