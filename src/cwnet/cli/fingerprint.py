"""`cwnet fingerprint`: molecules as vectors."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cwnet.cli._shared import (
    DeviceOption,
    HeaderOption,
    SchedulerOption,
    SmilesColumnOption,
    WorkersOption,
    check_folder,
    check_some,
    choose_model,
    chosen_pool,
    console,
    free_name,
    is_table,
    many,
    paragraphs,
)
from cwnet.errors import CwnetError

if TYPE_CHECKING:
    from cwnet.molecules._fingerprints import Fingerprint

__all__ = ["add_to"]


def fingerprint(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="[MODEL] TABLE",
            help="The folder that cwnet train wrote, then a table of molecules. Without a folder, the model zinc that "
            "comes with cwnet is used.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The file to write: .npz .csv or .parquet. [dim]By default TABLE-fingerprints.npz in the working "
            "directory.[/dim]",
            show_default=False,
        ),
    ] = None,
    cwl: Annotated[
        bool, typer.Option("--cwl", help="Count the colours of the cellular WL test, which takes no model.")
    ] = False,
    size: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="With --cwl: columns. [dim]By default 2048.[/dim]")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="With --cwl: rounds. [dim]By default 2.[/dim]")
    ] = None,
    rings: Annotated[
        str | None,
        typer.Option(
            metavar="KIND:SIZE",
            help="With --cwl: which rings are cells, as in rings:6. [dim]By default rings:18.[/dim]",
        ),
    ] = None,
    smiles_column: SmilesColumnOption = None,
    header: HeaderOption = True,
    device: DeviceOption = "auto",
    workers: WorkersOption = None,
    scheduler: SchedulerOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print counts as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False,
) -> None:
    """Write a row of numbers for every molecule of a table, for other programs to learn from.

    By default these are the vectors that a model makes of molecules before it predicts. With --cwl they are counts of
    the colours that atoms, bonds and rings have in the cellular WL test: no model, no training, and columns that mean
    the same in every file.

    A table of any size is read piece by piece, and its rows keep their order. A .npz file has row numbers, a mask
    called readable, and fingerprints; or, with --cwl, a sparse matrix that scipy.sparse.load_npz reads. A .csv or
    .parquet file has the columns of the table, fp_0, fp_1, ..., and the column error, which says why a row could not be
    read.
    """
    from cwnet.molecules import fingerprint_table

    made, source = _choose(arguments, cwl, {"size": size, "rounds": rounds, "lifting": rings}, device, quiet or as_json)
    if output is None:
        output = free_name(f"{Path(source[0]).name.partition('.')[0]}-fingerprints", ".npz")
    check_folder(output)
    start = time.perf_counter()
    with chosen_pool(workers, scheduler) as pool:
        counts = fingerprint_table(made, source, output, smiles_column=smiles_column, header=header, pool=pool)
    seconds = time.perf_counter() - start
    if as_json:
        body = {"file": str(output), "width": made.width, "written": counts.predicted, "unread": counts.unread}
        typer.echo(json.dumps({**body, "seconds": round(seconds, 3)}))
    elif not quiet:
        unread = f", {many(counts.unread, 'row')} could not be read" if counts.unread else ""
        said = f"{many(counts.predicted, 'molecule')}, {many(made.width, 'number')} each{unread}; {seconds:.1f} s"
        console(stderr=True).print(said, soft_wrap=True)
        console().print(f"Wrote {output}", soft_wrap=True)
    check_some(counts.predicted)


def _choose(
    arguments: list[str], cwl: bool, wishes: dict[str, int | str | None], device: str, quiet: bool
) -> tuple[Fingerprint, list[str]]:
    """The kind of fingerprint, and the tables."""
    from cwnet.molecules import CINFingerprint, CWLFingerprint

    if not is_table(arguments[-1]):
        raise CwnetError(f"{arguments[-1]} is not a table: give a file that ends in .csv .tsv .smi or .parquet")
    given = {name: value for name, value in wishes.items() if value is not None}
    if cwl:
        if not is_table(arguments[0]):
            raise CwnetError(f"--cwl takes no model, and {arguments[0]} was given: name the table alone")
        return CWLFingerprint(**given), arguments
    if given:
        option = next(iter(given)).replace("lifting", "rings")
        raise CwnetError(f"--{option} goes with --cwl; a model has its own")
    model, rest = choose_model(arguments, device, quiet)
    return CINFingerprint(model, model.device.type), rest


def add_to(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command(
        "fingerprint",
        help=paragraphs(fingerprint.__doc__),
        epilog="For example: cwnet fingerprint model data.csv -o vectors.npz\n\n"
        "Without a model: cwnet fingerprint --cwl data.csv --size 4096 -o counts.npz",
        no_args_is_help=True,
    )(fingerprint)
