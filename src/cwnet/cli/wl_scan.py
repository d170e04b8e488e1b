"""``cwnet wl-scan``: which graphs of a file can a test not tell apart?"""

from __future__ import annotations

import csv
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import torch
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from cwnet.cli._shared import (
    LabelsOption,
    LiftingOption,
    SimplifyOption,
    check_folder,
    console,
    is_folklore,
    label_kind,
    many,
    paragraphs,
    read_lifting,
    read_tests,
    too_many_cells,
    unlabelled,
)
from cwnet.data import GraphFileError, NamedGraph, scan_graphs
from cwnet.data._files import whole_file
from cwnet.data._graph_files import count_lines
from cwnet.errors import CwnetError, LiftingBudgetExceeded
from cwnet.lifting import Graph, Lifting
from cwnet.wl import certificates, classes, share_not_told_apart

__all__ = ["add_to", "wl_scan"]

_EXAMPLES = """Examples

Are these graphs all told apart? cwnet wl-scan graphs.g6 --lifting rings:4

By another test: cwnet wl-scan graphs.g6 --test 2-fwl

Molecules that may be there twice: cwnet wl-scan molecules.smi.gz -o classes.csv"""

Initial = Literal["uniform", "features"]

_SHOWN_CLASSES = 20
_SHOWN_MEMBERS = 5
_SHOWN_ERRORS = 10
_CHUNK = 2_000
_NO_GRAPH = Graph(0, [])


def add_to(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command("wl-scan", help=paragraphs(wl_scan.__doc__), epilog=_EXAMPLES)(wl_scan)


def wl_scan(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="A file with graphs or SMILES; see cwnet wl --help.", show_default=False),
    ],
    lifting: LiftingOption = "rings:6",
    test: Annotated[
        str,
        typer.Option(help="One test: cwl, swl, wl, 2-fwl or 3-fwl. The last two have no certificates.", metavar="TEST"),
    ] = "cwl",
    labels: LabelsOption = None,
    simplify: SimplifyOption = False,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse a file with a line that can not be read.")] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write position, name, class and certificate as CSV.", metavar="FILE"),
    ] = None,
) -> None:
    """Sort the graphs of a file into classes that a test can not tell apart.

    Graphs in different classes are not isomorphic. Graphs in one class may be isomorphic or not; isomorphic ones
    always are in one class, so this finds duplicates.
    """
    cells, tests = read_lifting(lifting), read_tests(test)
    if len(tests) > 1:
        raise CwnetError(f"--test {test}: wl-scan runs one test at a time")
    check_folder(output)
    errors: list[GraphFileError] = []
    with _progress(file) as reached:
        graphs = _usable(file, labels, simplify, None if strict else errors, reached)
        first = next(graphs, None)
        initial: Initial = "features" if first is not None and any(label_kind(first.graph)) else "uniform"
        graphs = itertools.chain([] if first is None else [first], graphs)
        if is_folklore(tests[0]):
            scan = _compare(list(graphs), tests[0], initial)
        else:
            scan = _certify(graphs, file, cells, tests[0], initial, None if strict else errors)
    if not scan.members:
        raise CwnetError(f"no graph is left of {many(len(errors), 'graph')} in {file}. The first: {errors[0]}")
    _print_errors(console(stderr=True), errors)
    _print_classes(console(), scan, file, f"cwl on {cells!r}" if tests[0] == "cwl" else tests[0], initial)
    if output is not None:
        _write_csv(output, scan)
        typer.echo(f"\nWrote {output}.")


class Scan(NamedTuple):
    """The graphs of a file without their edges, the class of each, and its certificate if the test has any."""

    members: list[NamedGraph]
    class_of: torch.Tensor
    certificates: list[str]


# Going through the file


def _usable(
    file: Path,
    labels: bool | None,
    simplify: bool,
    errors: list[GraphFileError] | None,
    reached: Callable[[int | None], None],
) -> Iterator[NamedGraph]:
    """The graphs that can be read, with the labels that are asked for. The others go to `errors`, if it is given."""
    first = None
    for found in scan_graphs(file, simplify=simplify):
        reached(found.line)
        if isinstance(found, GraphFileError):
            if errors is None:
                raise found
            errors.append(found)
            continue
        first = first or found
        _check_labels(found, first, labels)
        yield replace(found, graph=unlabelled(found.graph)) if labels is False else found


def _check_labels(graph: NamedGraph, first: NamedGraph, labels: bool | None) -> None:
    if labels and not any(label_kind(graph.graph)):
        raise CwnetError(f"--labels can not be used: {graph.name} has none. Leave the option out")
    if labels is not False and label_kind(graph.graph) != label_kind(first.graph):
        raise CwnetError(f"{graph.name} and {first.name} do not have the same kinds of labels: pass --no-labels")


@contextmanager
def _progress(file: Path) -> Iterator[Callable[[int | None], None]]:
    """Show how many lines of the file have been reached, where someone is looking."""
    out = console(stderr=True)
    if not out.is_terminal or not file.is_file():
        yield lambda line: None
        return
    columns = (TextColumn(file.name), BarColumn(), MofNCompleteColumn(), TextColumn("lines"), TimeRemainingColumn())
    with Progress(*columns, console=out, transient=True) as progress:
        task = progress.add_task("", total=count_lines(file))
        yield lambda line: progress.update(task, completed=line or 0)


def _certify(
    graphs: Iterator[NamedGraph],
    file: Path,
    lifting: Lifting,
    test: str,
    initial: Initial,
    errors: list[GraphFileError] | None,
) -> Scan:
    """Certificates a chunk at a time, so that the file may be larger than the memory."""
    members: list[NamedGraph] = []
    found: list[str] = []
    while chunk := list(itertools.islice(graphs, _CHUNK)):
        found += _certificates(chunk, file, lifting, test, initial, errors)
        members += [replace(g, graph=_NO_GRAPH) for g in chunk]
    number: dict[str, int] = {}
    class_of = [number.setdefault(text, len(number)) for text in found]
    return Scan(members, torch.tensor(class_of), found)


def _certificates(
    chunk: list[NamedGraph],
    file: Path,
    lifting: Lifting,
    test: str,
    initial: Initial,
    errors: list[GraphFileError] | None,
) -> list[str]:
    """The certificates of a chunk. Graphs with too many cells are taken out of it."""
    while chunk:
        try:
            return certificates([g.graph for g in chunk], lifting, test, initial=initial)
        except LiftingBudgetExceeded as error:
            graph = chunk.pop(error.position or 0)
            place = "" if graph.line is not None else f"{graph.name}: "
            problem = GraphFileError(f"{place}{too_many_cells(error)}", file, graph.line)
            if errors is None:
                raise problem from None
            errors.append(problem)
    return []


def _compare(graphs: list[NamedGraph], test: str, initial: Initial) -> Scan:
    """Folklore tests have no certificates: they compare the graphs with each other, all at once."""
    class_of = classes([g.graph for g in graphs], None, test, initial=initial)
    return Scan(graphs, class_of, [""] * len(graphs))


# Output


def _write_csv(path: Path, scan: Scan) -> None:
    with whole_file(path) as part, open(part, "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["position", "name", "class", "certificate"])
        for graph, number, text in zip(scan.members, scan.class_of.tolist(), scan.certificates, strict=True):
            table.writerow([graph.position, graph.name, number, text])


def _print_errors(out: Console, errors: list[GraphFileError]) -> None:
    if not errors:
        return
    out.print(f"{many(len(errors), 'graph')} left out:", style="yellow")
    for error in errors[:_SHOWN_ERRORS]:
        out.print(f"  {error}", soft_wrap=True)
    if len(errors) > _SHOWN_ERRORS:
        out.print(f"  and {len(errors) - _SHOWN_ERRORS:,} more")
    out.print()


def _print_classes(out: Console, scan: Scan, file: Path, test: str, initial: Initial) -> None:
    of_class: dict[int, list[NamedGraph]] = {}
    for graph, number in zip(scan.members, scan.class_of.tolist(), strict=True):
        of_class.setdefault(number, []).append(graph)
    shared = {number: graphs for number, graphs in of_class.items() if len(graphs) > 1}
    n, pairs = len(scan.members), sum(len(graphs) * (len(graphs) - 1) // 2 for graphs in shared.values())
    share = share_not_told_apart(scan.class_of)
    out.print(f"{many(n, 'graph')} in {file}, {many(len(of_class), 'class', 'classes')}", soft_wrap=True)
    out.print(f"Test: {test}, {'with' if initial == 'features' else 'without'} labels")
    out.print(f"Pairs not told apart: {pairs:,} of {n * (n - 1) // 2:,} ({100 * share:.3g} %)\n")
    if shared:
        _print_shared(out, shared)
    elif n > 1:
        out.print("Every graph has a class of its own: no two of them are isomorphic.")
    else:
        out.print("There is nothing to compare it with.")


def _print_shared(out: Console, shared: dict[int, list[NamedGraph]]) -> None:
    inside = sum(map(len, shared.values()))
    out.print(f"{many(len(shared), 'class', 'classes')} with more than one graph, {inside:,} graphs in all.")
    out.print("Graphs of one class are isomorphic, or the test is too weak to tell them apart.\n")
    table = Table(box=None, padding=(0, 3, 0, 0), header_style="bold")
    table.add_column("class", justify="right")
    table.add_column("graphs", justify="right")
    table.add_column("which")
    largest = sorted(shared, key=lambda number: -len(shared[number]))[:_SHOWN_CLASSES]
    for number in largest:
        table.add_row(str(number), f"{len(shared[number]):,}", _named(shared[number]))
    out.print(table)
    if len(shared) > len(largest):
        out.print(f"\nand {len(shared) - len(largest):,} more classes; -o FILE writes them all")


def _named(graphs: list[NamedGraph]) -> str:
    """The first few names, each with the lines that have it."""
    lines: dict[str, list[str]] = {}
    for graph in graphs[:_SHOWN_MEMBERS]:
        lines.setdefault(graph.name, []).extend([] if graph.line is None else [str(graph.line)])
    names = [f"{_short(name)} (line {', '.join(at)})" if at else _short(name) for name, at in lines.items()]
    more = len(graphs) - _SHOWN_MEMBERS
    return ", ".join(names) + (f" and {more:,} more" if more > 0 else "")


def _short(name: str) -> str:
    return name if len(name) <= 40 else f"{name[:39]}…"
