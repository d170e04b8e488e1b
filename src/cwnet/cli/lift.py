"""`cwnet lift` and `cwnet dedup`: tables of any size to stores on disk, on one machine or a cluster."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from cwnet.cli._shared import (
    HeaderOption,
    SchedulerOption,
    SmilesColumnOption,
    WorkersOption,
    console,
    many,
    paragraphs,
)
from cwnet.errors import CwnetError
from cwnet.lifting._lift import num_threads

__all__ = ["add_to"]

#: Rows for which it pays to start more processes.
_MANY = 100_000

QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")]


def lift(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT...",
            help="Tables of molecules: files (.csv .tsv .smi .parquet, also .gz), folders, or patterns in quotes.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="STORE", help="The folder to write.", show_default=False)
    ],
    lifting: Annotated[str, typer.Option("--lifting", metavar="KIND:SIZE", help="Which rings are cells.")] = "rings:18",
    smiles_column: SmilesColumnOption = None,
    target_columns: Annotated[
        str | None, typer.Option(metavar="A,B", help="Columns of numbers to keep as targets.", show_default=False)
    ] = None,
    header: HeaderOption = True,
    shard_rows: Annotated[int, typer.Option(metavar="N", min=1, max=10**9, help="Rows of a shard.")] = 32_768,
    max_cells: Annotated[
        int, typer.Option(metavar="N", min=1, max=10**9, help="Molecules with more rings than this are left out.")
    ] = 10_000,
    workers: WorkersOption = None,
    scheduler: SchedulerOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Lift molecules of any number into a store on disk.

    The rows are read piece by piece, and every piece becomes a shard of the store, so memory does not grow. The store
    is complete when its manifest is there. If it is interrupted, the same command does the shards that are missing.
    Rows that can not be read or lifted are listed in rejects.csv in the store's folder, with the reason.

    With --workers or --scheduler, shards are made by the processes of a Dask cluster, which all must see the folder. If
    a worker dies, another does its shard again. The store is the same in all cases.
    """
    from cwnet.scale import find_tables, lift_files, open_pool
    from cwnet.scale._inputs import count_rows

    files = find_tables(inputs)
    rows = sum(map(count_rows, files))
    targets = tuple(name.strip() for name in target_columns.split(",")) if target_columns else ()
    start = time.perf_counter()
    with (
        open_pool(_workers(workers, scheduler, rows), scheduler) as pool,
        _bar(rows, "molecules", quiet or as_json) as tick,
    ):
        made = lift_files(
            inputs, output, lifting=lifting, smiles_column=smiles_column, target_columns=targets, header=header,
            shard_rows=shard_rows, max_cells=max_cells, pool=pool, tick=lambda done, rejected: tick(done),
        )  # fmt: skip
    seconds = time.perf_counter() - start
    if as_json:
        body = {"store": str(made.path), "complexes": made.complexes, "rejected": made.rejected, "shards": made.shards}
        typer.echo(json.dumps({**body, "reused": made.reused, "bytes": made.bytes, "seconds": round(seconds, 3)}))
        return
    said = f"{many(made.complexes, 'molecule')} in {many(made.shards, 'shard')} at {made.path}"
    if made.rejected:
        said += f"; {many(made.rejected, 'row')} left out, see {made.path / 'rejects.csv'}"
    if made.reused:
        said += f"; {many(made.reused, 'shard')} had been there"
    console().print(said, soft_wrap=True)
    if not quiet:
        said = f"{seconds:.1f} s, {made.bytes / made.complexes:,.0f} bytes each"
        if not made.reused:
            said += f", {made.complexes / max(seconds, 1e-9):,.0f} per second"
        console(stderr=True).print(said, soft_wrap=True)


def dedup(
    store: Annotated[
        Path, typer.Argument(metavar="STORE", help="The folder that cwnet lift wrote.", show_default=False)
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE.csv", help="Where to list them: complex, first.", show_default=False
        ),
    ] = None,
    write: Annotated[
        Path | None,
        typer.Option(metavar="NEW", help="Write a store without them into this folder.", show_default=False),
    ] = None,
    workers: WorkersOption = None,
    scheduler: SchedulerOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Find the molecules that are in a store more than once.

    Molecules are compared by their certificates: hashes of the stable colours of the cellular WL test, started from the
    features of atoms and bonds. They do not depend on how a SMILES is written. Those with the same certificate are the
    same if their canonical SMILES are, isotopes and stereochemistry included.
    """
    from cwnet.data import read_manifest
    from cwnet.scale import find_duplicates, open_pool
    from cwnet.scale._duplicates import without_duplicates

    manifest = read_manifest(store)
    start = time.perf_counter()
    work = store.with_name(f".{store.name}-certificates-{secrets.token_hex(4)}")
    with (
        open_pool(_workers(workers, scheduler, manifest.count), scheduler) as pool,
        _bar(len(manifest.shards), "shards", quiet or as_json) as tick,
    ):
        found = find_duplicates(store, work, pool=pool, tick=lambda text: tick(int(text.startswith("certificates"))))
        left = without_duplicates(store, write, found, pool=pool) if write is not None else None
    if output is not None:
        try:
            found.write(output)
        except OSError as error:
            raise CwnetError(f"{output} can not be written: {error.strerror}. Choose another --output") from None
    seconds = time.perf_counter() - start
    if as_json:
        body = {"complexes": found.count, "duplicates": len(found.again), "seconds": round(seconds, 3)}
        typer.echo(json.dumps(body))
        return
    again = f"{many(len(found.again), 'molecule')} of {found.count:,}"
    console().print(f"{again} had been there before; {seconds:.1f} s")
    if left is not None:
        console().print(f"{left:,} are left in {write}", soft_wrap=True)
    if output is not None:
        console().print(f"Wrote {output}", soft_wrap=True)


def _workers(wish: int | None, scheduler: str | None, rows: int) -> int | None:
    """Processes to start: those asked for, or, if it pays and they can be had, one for each core."""
    from importlib.util import find_spec

    if wish is None and scheduler is None and rows > _MANY and find_spec("distributed") is not None:
        return num_threads(None)
    return wish


@contextmanager
def _bar(total: int, unit: str, quiet: bool) -> Iterator[Callable[[int], None]]:
    """A bar with a rate and the time left, where someone is looking; a line now and then elsewhere."""
    out = console(stderr=True)
    columns = (
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.completed:,.0f} " + unit),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    start, told = time.monotonic(), [time.monotonic()]
    with Progress(*columns, console=out, transient=True, disable=quiet or not out.is_terminal) as progress:
        task = progress.add_task("", total=total or None, rate="")
        done = [0]

        def tick(count: int) -> None:
            done[0] += count
            now = time.monotonic()
            rate = f"{done[0] / max(now - start, 1e-9):,.0f}/s"
            progress.update(task, completed=done[0], rate=rate)
            if not quiet and not out.is_terminal and now - told[0] > 30:
                told[0] = now
                out.print(f"{done[0]:,} of about {total:,} {unit}, {rate}")

        yield tick


def add_to(app: typer.Typer) -> None:
    """Add the verbs to the command."""
    app.command(
        "lift",
        help=paragraphs(lift.__doc__),
        epilog="For example: cwnet lift molecules.csv.gz -o store --lifting rings:18\n\n"
        "On a cluster: cwnet lift 'parts/*.parquet' -o /shared/store --scheduler tcp://10.0.0.1:8786",
        no_args_is_help=True,
    )(lift)
    app.command(
        "dedup",
        help=paragraphs(dedup.__doc__),
        epilog="For example: cwnet dedup store -o duplicates.csv --write unique",
        no_args_is_help=True,
    )(dedup)
