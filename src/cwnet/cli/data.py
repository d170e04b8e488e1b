"""`cwnet data`: which data sets there are, what is in them, and preparing them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.table import Table

from cwnet.cli._shared import console, many, paragraphs, read_lifting, visible
from cwnet.complexes import ComplexStore
from cwnet.errors import CwnetError

__all__ = ["add_to"]

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="A data set: see [b]cwnet data list[/b].", show_default=False)
]
LiftingOption = Annotated[
    str | None,
    typer.Option(
        "--lifting",
        metavar="KIND:SIZE",
        help="Which cells to attach, as in rings:18 or 'cliques:4|rings:6'. By default what the paper uses.",
        show_default=False,
    ),
]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="An option of the data set, as in family=sr251256.", show_default=False
    ),
]
_BAR = 40


def list_sets() -> None:
    """List all data sets, and where their files were found."""
    from cwnet.data import info, names

    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in ("name", "what", "task", "metric", "files", "prepared"):
        table.add_column(head)
    for name in names():
        known = info(name)
        table.add_row(
            name,
            known.title,
            known.task,
            known.metric,
            _where(known),
            str(len(known.prepared)) if known.prepared else "–",
        )
    out = console()
    out.print(table)
    out.print("\nFiles are looked for in $CWNET_DATA, then in the cache, then downloaded from their home.")


def show(name: Name, lifting: LiftingOption = None, options: Options = None) -> None:
    """Show what is in a data set: sizes, targets, cells per dimension, ring sizes. Prepares it if need be."""
    from cwnet.data import info, load

    given = _as_options(options)
    with _mistakes():
        known = info(name, **given)
    out = console()
    out.print(known.title, style="bold", highlight=False)
    for line in (known.notes, f"Home: {known.home}", f"Cite: {known.citation}", f"Files: {_where(known)}"):
        if line.strip():
            out.print(line, highlight=False, soft_wrap=True)
    start = time.perf_counter()
    with _mistakes():
        dataset = load(name, **_lifted(lifting), **given)
    seconds = time.perf_counter() - start
    store = dataset.store
    out.print(f"\n{len(store):,} complexes under {store.lifting}, loaded in {seconds:.2f} s", highlight=False)
    out.print(f"Task: {dataset.task}, {dataset.outputs} output(s), measured by {dataset.metric}", highlight=False)
    sizes = [(len(s.train), len(s.val), len(s.test)) for s in dataset.splits]
    if sizes:
        many = f"{len(sizes)} folds; the first has" if len(sizes) > 1 else "Split:"
        out.print(
            f"{many} {sizes[0][0]:,} to train, {sizes[0][1]:,} to validate, {sizes[0][2]:,} to test", highlight=False
        )
    _print_targets(out, dataset.task, store)
    out.print()
    out.print(_cells_table(store))
    if len(store.boundaries) > 1:
        out.print()
        out.print(_sizes_table(store))


def prepare_set(
    name: Name,
    lifting: LiftingOption = None,
    options: Options = None,
    rebuild: Annotated[bool, typer.Option(help="Make it again even if it is there.")] = False,
    threads: Annotated[
        int | None, typer.Option(help="Worker threads; all cores by default.", show_default=False)
    ] = None,
) -> None:
    """Read, lift and keep a data set, so that it opens at once from then on."""
    from cwnet.data import prepare

    start = time.perf_counter()
    with console(stderr=True).status(f"preparing {name}"), _mistakes():
        prepare(name, **_lifted(lifting), rebuild=rebuild, threads=threads, **_as_options(options))
    typer.echo(f"{name}: ready in {time.perf_counter() - start:.2f} s")


def verify(
    store: Annotated[
        Path,
        typer.Argument(metavar="STORE", help="The folder that cwnet lift wrote.", show_default=False),
    ],
) -> None:
    """Read a store from end to end: every byte against its hash, and every number.

    The exit code is 0 if all is well and 1 if not.
    """
    from cwnet.data import read_manifest, verify_store

    manifest = read_manifest(store)
    start, done = time.perf_counter(), [0]
    with console(stderr=True).status(f"verifying {store}") as status:

        def tick(file: str) -> None:
            done[0] += 1
            status.update(f"verifying {store}: {done[0]:,} of {len(manifest.shards):,} shards")

        problems = verify_store(store, tick)
    for problem in problems:
        typer.echo(visible(problem), err=True)
    size = sum(shard["bytes"] for shard in manifest.shards)
    what = f"{len(problems)} of {many(len(manifest.shards), 'shard')} can not be used" if problems else "whole"
    typer.echo(f"{store}: {what}; {manifest.count:,} complexes, {size:,} bytes, {time.perf_counter() - start:.1f} s")
    raise typer.Exit(1 if problems else 0)


@contextmanager
def _mistakes() -> Iterator[None]:
    """A name or an option that is not there is the user's mistake."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise error if isinstance(error, CwnetError) else CwnetError(str(error)) from None


def _lifted(text: str | None) -> dict[str, Any]:
    return {} if text is None else {"lifting": read_lifting(text)}


def _as_options(pairs: list[str] | None) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for pair in pairs or []:
        key, equals, value = pair.partition("=")
        if not equals:
            raise CwnetError(f"--set takes KEY=VALUE, not {pair!r}")
        value = value.strip()
        given[key.strip()] = int(value) if value.lstrip("-").isdigit() else value
    return given


def _where(known: Any) -> str:
    if known.missing and not known.files:
        return "not here"
    return f"{len(known.files)} found" if known.files else "made here"


def _print_targets(out: Any, task: str, store: ComplexStore) -> None:
    if store.y is None:
        return
    y = store.y.double().flatten(1) if store.y.dim() > 1 else store.y.double()[:, None]
    there = y[~torch.isnan(y)]
    if task == "regression":
        out.print(
            f"Targets: mean {there.mean():.3f}, standard deviation {there.std():.3f}, "
            f"{there.min():.3f} to {there.max():.3f}",
            highlight=False,
        )
    elif task in ("binary", "multiclass"):
        values, counts = torch.unique(there.long(), return_counts=True)
        parts = [f"class {v}: {n:,}" for v, n in zip(values.tolist(), counts.tolist(), strict=True)]
        out.print("Targets: " + ", ".join(parts), highlight=False)
    else:
        out.print(f"Targets: {y.shape[1]} per complex, {int((there > 0).sum()):,} positive", highlight=False)


def _cells_table(store: ComplexStore) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in ("cells", "total", "mean", "max", "features"):
        table.add_column(head, justify="left" if head in ("cells", "features") else "right")
    names = ["vertices", "edges", *(f"{d}-cells" for d in range(2, len(store.cell_ptr)))]
    for d, name in enumerate(names):
        counts = store.cell_ptr[d].diff().double()
        x = store.x[d]
        features = "–" if x is None else f"{tuple(x.shape[1:]) or 'scalar'} {str(x.dtype).removeprefix('torch.')}"
        biggest = int(counts.max()) if len(counts) else 0
        table.add_row(name, f"{int(counts.sum()):,}", f"{counts.mean():.2f}", f"{biggest:,}", features)
    return table


def _sizes_table(store: ComplexStore) -> Table:
    sizes, counts = torch.unique(store.boundaries[1].sizes, return_counts=True)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("2-cells of size", justify="right")
    table.add_column("how many", justify="right")
    table.add_column("")
    most = int(counts.max()) if len(counts) else 1
    for size, count in zip(sizes.tolist(), counts.tolist(), strict=True):
        table.add_row(str(size), f"{count:,}", "█" * max(1, round(_BAR * count / most)))
    return table


def add_to(app: typer.Typer) -> None:
    """Add the verb and its sub-verbs to the command."""
    data = typer.Typer(
        no_args_is_help=True,
        help="List, show and prepare data sets; verify stores.",
        epilog="For example: cwnet data info zinc --lifting rings:18",
        rich_markup_mode="rich",
    )
    data.command("list")(list_sets)
    data.command("info")(show)
    data.command("prepare")(prepare_set)
    data.command("verify", help=paragraphs(verify.__doc__))(verify)
    app.add_typer(data, name="data")
