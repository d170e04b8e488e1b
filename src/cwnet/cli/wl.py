"""``cwnet wl``: can a test tell two graphs apart?"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from cwnet.cli._shared import (
    LabelsOption,
    LiftingOption,
    SimplifyOption,
    check_folder,
    console,
    is_folklore,
    label_kind,
    looks_like_file,
    many,
    paragraphs,
    read_lifting,
    read_tests,
    too_many_cells,
    unlabelled,
)
from cwnet.complexes import CellComplex, ComplexStore
from cwnet.data import GraphFileError, NamedGraph, read_graphs, scan_graphs
from cwnet.data._files import write_whole
from cwnet.data._graph_files import from_smiles
from cwnet.errors import CwnetError, GraphError, LiftingBudgetExceeded
from cwnet.lifting import Lifting
from cwnet.wl import Refinement, Verdict, distinguish, refine
from cwnet.wl._tests import complexes_for

__all__ = ["add_to", "wl"]

_EXAMPLES = """Examples

Decalin and bicyclopentyl: cwnet wl C1CCC2CCCCC2C1 'C1CCC(C1)C1CCCC1' --test cwl,swl,wl

What 3-WL can not see: cwnet wl rook.g6 shrikhande.g6 --lifting rings:4 --test cwl,2-fwl

The first and the fourth graph of a file: cwnet wl graphs.g6:0 graphs.g6:3

A page for the screen: cwnet wl one.edges other.graphml --html page.html"""

_SHOWN_CLASSES = 20


class Mode(StrEnum):
    """How colours are compared."""

    fast = "fast"
    exact = "exact"


def add_to(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command("wl", help=paragraphs(wl.__doc__), epilog=_EXAMPLES)(wl)


def wl(
    a: Annotated[str, typer.Argument(metavar="A", help="A file, or a SMILES in quotes.", show_default=False)],
    b: Annotated[
        str | None,
        typer.Argument(metavar="B", help="The other one. Not needed if A is a file with exactly two graphs."),
    ] = None,
    lifting: LiftingOption = "rings:6",
    test: Annotated[
        str,
        typer.Option(
            help="Tests, separated by commas: cwl (cellular), swl (simplicial, on all cliques), wl (on the graph), "
            "2-fwl (folklore, as strong as 3-WL), 3-fwl.",
            metavar="TESTS",
        ),
    ] = "cwl,wl",
    mode: Annotated[
        Mode, typer.Option(help="Hash colours to 128 bits, or compare them one by one. Folklore tests always compare.")
    ] = Mode.fast,
    labels: LabelsOption = None,
    simplify: SimplifyOption = False,
    html: Annotated[
        Path | None,
        typer.Option(help="Write a page that draws both complexes and steps through the rounds.", metavar="FILE"),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print a line per test and no more.")] = False,
) -> None:
    """Run Weisfeiler–Lehman tests on two graphs: can they be told apart?

    Files are graph6 (.g6), edge lists (.edges .txt .csv .tsv), GraphML (.graphml) or SMILES (.smi .smiles), plain or
    with .gz. Of a file with several graphs the first is taken; file.g6:3 takes the fourth.

    If a test tells two graphs apart, they are not isomorphic. If it does not, they may be isomorphic or not.
    """
    cells, tests = read_lifting(lifting), read_tests(test)
    coloured = [name for name in tests if not is_folklore(name)]
    if html is not None and not coloured:
        raise CwnetError(
            f"--html shows how cells are coloured, and {test} colours tuples: add cwl, swl or wl to --test"
        )
    check_folder(html)
    pair = _start(*_find_pair(a, b, simplify), labels)
    if html is not None:
        _check_drawable(pair)
    runs = [_run(pair, name, cells, mode.value) for name in tests]
    out = console()
    if quiet:
        for run in runs:
            typer.echo(f"{run.verdict.test}: {_outcome(run.verdict)}")
    else:
        _print_pair(out, pair)
        _print_verdicts(out, runs)
        for run in runs:
            if run.verdict:
                _print_difference(out, pair, run)
        _print_meaning(out, pair, runs, mode)
    if html is not None:
        write_whole(html, _page(pair, runs).encode())
        if not quiet:
            left_out = [name for name in tests if name not in coloured]
            without = (
                f" Not on it: {_listed(left_out)}, as folklore tests colour tuples, not cells." if left_out else ""
            )
            out.print(f"\nWrote {html}.{without}", soft_wrap=True)


# Which graphs


#: The most vertices a page draws.
MAX_DRAWN = 1000


class Pair(NamedTuple):
    """Two graphs, and the colours their cells start with."""

    a: NamedGraph
    b: NamedGraph
    initial: Literal["uniform", "features"]
    initial_words: str


def _find_pair(a: str, b: str | None, simplify: bool) -> tuple[NamedGraph, NamedGraph]:
    if b is not None:
        first, second = _find(a, simplify), _find(b, simplify)
        # Two files may use one name.
        return (replace(first, name=a), replace(second, name=b)) if first.name == second.name else (first, second)
    path, position = _as_path(a)
    if path is None or position is not None:
        raise CwnetError(f"there is only one graph, {a!r}: name another one to compare it with")
    graphs = read_graphs(path, simplify=simplify)
    if len(graphs) != 2:
        way = "name another file" if len(graphs) == 1 else f"name two of them, as in {a}:0 {a}:{len(graphs) - 1}"
        raise CwnetError(f"{a} has {many(len(graphs), 'graph')}, and it takes two to compare: {way}")
    return graphs[0], graphs[1]


def _find(text: str, simplify: bool) -> NamedGraph:
    path, position = _as_path(text)
    if path is None:
        try:
            return from_smiles(text, text)
        except GraphError as error:
            raise CwnetError(f"there is no file {text!r}, and as a molecule: {error.reason}") from None
    at = position or 0
    found = list(itertools.islice(scan_graphs(path, simplify=simplify), at + 2))
    if at >= len(found):
        raise CwnetError(f"{path} has {many(len(found), 'graph')}, numbered from 0: there is no {text}")
    if isinstance(graph := found[at], GraphFileError):
        raise graph
    several = position is None and len(found) > 1
    return replace(graph, name=f"{graph.name} (the first of several in {path.name})") if several else graph


def _as_path(text: str) -> tuple[Path | None, int | None]:
    """The file and the position that ``file`` or ``file:3`` means; (None, None) for a SMILES."""
    stem, _, number = text.rpartition(":")
    for name, position in ((text, None), (stem, int(number) if number.isdecimal() else -1)):
        if position != -1 and (os.path.isfile(name) or looks_like_file(name)):
            return Path(name), position
    return None, None


def _start(a: NamedGraph, b: NamedGraph, labels: bool | None) -> Pair:
    """Decide on the initial colours. Labels are of use only where both graphs have the same kind."""
    kinds = [(*label_kind(g.graph), g.smiles is not None) for g in (a, b)]
    agree = kinds[0] == kinds[1]
    some = any(any(kind[:2]) for kind in kinds)
    if labels and not (some and agree):
        why = "their labels are of different kinds" if some else "neither graph has any"
        raise CwnetError(f"--labels can not be used with {a.name} and {b.name}: {why}. Leave the option out")
    if labels is not False and some and agree:
        return Pair(a, b, "features", _label_words(a))
    why = ", because labels of different kinds can not be compared" if some and labels is None else ""
    a, b = (replace(g, graph=unlabelled(g.graph)) for g in (a, b))
    return Pair(a, b, "uniform", f"one for all cells{why}")


def _label_words(graph: NamedGraph) -> str:
    if graph.smiles is not None:
        return "the elements of atoms and the types of bonds"
    of = [name for name, has in zip(("vertices", "edges"), label_kind(graph.graph), strict=True) if has]
    return f"the labels of {' and '.join(of)}"


# Running the tests


class Run(NamedTuple):
    """A test, how it ended, and the complexes whose cells it coloured; None for tests that colour tuples."""

    verdict: Verdict
    store: ComplexStore | None


def _run(pair: Pair, test: str, lifting: Lifting, mode: Literal["fast", "exact"]) -> Run:
    graphs = (pair.a.graph, pair.b.graph)
    try:
        verdict = distinguish(*graphs, lifting, test, initial=pair.initial, mode=mode)
        return Run(verdict, None if is_folklore(test) else complexes_for(graphs, lifting, test)[0])
    except LiftingBudgetExceeded as error:
        name = pair.b.name if error.position else pair.a.name
        raise CwnetError(f"{name}: {too_many_cells(error)}") from None


# Words


def _outcome(verdict: Verdict) -> str:
    return "told apart" if verdict else "not told apart"


def _looked_at(verdict: Verdict) -> str:
    return "the graph" if verdict.lifting == "None" else verdict.lifting


def _print_pair(out: Console, pair: Pair) -> None:
    table = Table.grid(padding=(0, 2))
    for letter, graph in (("A", pair.a), ("B", pair.b)):
        size = f"{many(graph.graph.num_nodes, 'vertex', 'vertices')}, {many(len(graph.graph.edges), 'edge')}"
        table.add_row(Text(letter, style="bold"), graph.name, Text(size, style="dim"))
    out.print(table)
    out.print(f"Initial colours: {pair.initial_words}.\n")


def _print_verdicts(out: Console, runs: list[Run]) -> None:
    table = Table(box=None, padding=(0, 3, 0, 0), header_style="bold")
    for column in ("test", "looked at", "verdict", "round"):
        table.add_column(column)
    for verdict, _ in runs:
        style = "green" if verdict else "yellow"
        when = f"{verdict.rounds}" if verdict else f"stable after {verdict.rounds}"
        table.add_row(verdict.test, _looked_at(verdict), Text(_outcome(verdict), style=style), when)
    out.print(table)


def _print_difference(out: Console, pair: Pair, run: Run) -> None:
    verdict = run.verdict
    if run.store is None:
        out.print(f"\n{verdict.test} colours tuples of vertices, not cells: there is no histogram of cells to show.")
        return
    colours = refine(run.store, initial=pair.initial, mode="exact", max_rounds=verdict.rounds)
    classes = _differing_classes(pair, colours, verdict.rounds)
    shown = sorted(classes, key=lambda c: -abs(c.counts[0] - c.counts[1]))[:_SHOWN_CLASSES]
    when = "Before the first round" if verdict.rounds == 0 else f"After round {verdict.rounds}"
    which = "this class of cells has" if len(classes) == 1 else "these classes of cells have"
    out.print(f"\n{when} of {verdict.test}, {which} different sizes in A and B:\n")
    table = Table(box=None, padding=(0, 3, 0, 0), header_style="bold")
    table.add_column("class", justify="right")
    table.add_column("cells")
    table.add_column("A", justify="right")
    table.add_column("B", justify="right")
    for found in classes:
        if found in shown:
            for row in found.rows():
                table.add_row(*row)
    out.print(Padding(table, (0, 0, 0, 2)))
    if len(classes) > len(shown):
        out.print(f"\n  and {many(len(classes) - len(shown), 'more class', 'more classes')}, with smaller differences")


def _print_meaning(out: Console, pair: Pair, runs: list[Run], mode: Mode) -> None:
    told = [run.verdict.test for run in runs if run.verdict]
    silent = [run.verdict.test for run in runs if not run.verdict]
    if told:
        as_what = "" if pair.initial == "uniform" else ", as graphs with labels"
        out.print(f"\nTold apart by {_listed(told)}: this proves that A and B are not isomorphic{as_what}.")
    if not silent:
        return
    same = f"Not told apart by {_listed(silent)}: in every round, each colour is as frequent in A as in B."
    if told:
        out.print(f"{same} It takes a stronger test to see that they differ.")
        return
    out.print(
        f"\n{same} This does not prove that they are isomorphic: the test may be too weak to see how they differ. "
        "Try more cells (--lifting) or another test."
    )
    if mode is Mode.fast and not all(map(is_folklore, silent)):
        out.print("Colours were compared by their hashes, which err once in about 2^100; --mode exact never does.")


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


# What the cells of a class are


class Kind(NamedTuple):
    """Cells that look alike from outside: their dimension and, from dimension 2 on, their size."""

    dim: int
    size: int

    def __str__(self) -> str:
        if self.dim < 2:
            return ("vertices", "edges")[self.dim]
        return f"{self.dim}-cells of {self.size} {'edges' if self.dim == 2 else 'vertices'}"


@dataclass
class CellClass:
    """The cells of one colour in A and B: how many of each kind there are, and what those of a kind share."""

    colour: int
    kinds: dict[Kind, list[int]] = field(default_factory=dict)
    traits: dict[Kind, set[str]] = field(default_factory=dict)

    @property
    def counts(self) -> list[int]:
        return [sum(counts[i] for counts in self.kinds.values()) for i in (0, 1)]

    def rows(self) -> Iterator[tuple[str, str, str, str]]:
        """Rows of a table: the class and, where it has cells of several kinds, a row for each of them."""
        names = {k: f"{k}{next(iter(t)) if len(t) == 1 else ''}" for k, t in sorted(self.traits.items())}
        a, b = self.counts
        if len(names) == 1:
            yield str(self.colour), *names.values(), f"{a:,}", f"{b:,}"  # type: ignore[misc]
            return
        yield str(self.colour), "all of these:", f"{a:,}", f"{b:,}"
        for kind, name in names.items():
            a, b = self.kinds[kind]
            yield "", f"  {name}", f"{a:,}", f"{b:,}"


def _differing_classes(pair: Pair, found: Refinement, round_: int) -> list[CellClass]:
    """The classes that have not as many cells in A as in B, those with cells of low dimension first."""
    before, after = found.histogram(0, round_), found.histogram(1, round_)
    colours = {c for c in before | after if before.get(c) != after.get(c)}
    classes = {c: CellClass(c) for c in colours}
    for i, graph in enumerate((pair.a, pair.b)):
        labels = graph.labels if pair.initial == "features" else None
        described = _described_cells(found.store[i], labels)
        for colour, (kind, trait) in zip(itertools.chain(*found.of(i, round_)), described, strict=True):
            if colour in colours:
                classes[colour].kinds.setdefault(kind, [0, 0])[i] += 1
                classes[colour].traits.setdefault(kind, set()).add(trait)
    return sorted(classes.values(), key=lambda c: (min(c.kinds), c.colour))


def _described_cells(complex: CellComplex, labels: tuple[str, ...] | None) -> Iterator[tuple[Kind, str]]:
    """The kind of every cell, and what else can be seen of it, dimension by dimension."""
    edges = complex.cells(1)
    degree = Counter(itertools.chain(*edges))
    for v in range(complex.num_cells[0]):
        yield Kind(0, 0), f"{' ' + labels[v] if labels else ''} of degree {degree[v]}"
    sizes = complex.boundary(2).sizes.tolist()
    for (u, v), cofaces in zip(edges, complex.coboundary(1).tolist(), strict=True):
        ends = f" {'–'.join(sorted((labels[u], labels[v])))}" if labels else ""
        yield Kind(1, 0), f"{ends}{_on(sorted(sizes[c] for c in cofaces)) if sizes else ''}"
    for size in sizes:
        yield Kind(2, size), ""
    for d in range(3, len(complex.num_cells)):
        for size in complex.vertices(d).sizes.tolist():
            yield Kind(d, size), ""


def _on(sizes: list[int]) -> str:
    """For example " on two 2-cells, of 5 and 6 edges"."""
    if not sizes:
        return " on no 2-cell"
    if len(sizes) > 3:
        return f" on {len(sizes)} 2-cells"
    count = ("one 2-cell", "two 2-cells", "three 2-cells")[len(sizes) - 1]
    return f" on {count}, of {_listed([str(size) for size in sizes])} edges"


# The page


def _check_drawable(pair: Pair) -> None:
    """Placing vertices takes time cubic in their number, and a page of more than this shows nothing anyway."""
    largest = max(g.graph.num_nodes for g in (pair.a, pair.b))
    if largest > MAX_DRAWN:
        raise CwnetError(f"a page of {largest:,} vertices is too much to draw: --html takes up to {MAX_DRAWN:,}")


def _page(pair: Pair, runs: list[Run]) -> str:
    from cwnet.wl._page import Panel, TestRun, render_page

    def panel(graph: NamedGraph, i: int, found: Refinement) -> Panel:
        rounds = [found.of(i, t) for t in range(len(found.colours))]
        return Panel(graph.name, found.store[i], rounds, graph.labels, _positions(graph))

    shown = []
    for verdict, store in runs:
        if store is None:
            continue
        found = refine(store, initial=pair.initial, mode="exact")
        panels = (panel(pair.a, 0, found), panel(pair.b, 1, found))
        decided = verdict.rounds if verdict else None
        shown.append(TestRun(f"{verdict.test.upper()} on {_looked_at(verdict)}", panels, bool(verdict), decided))
    return render_page(shown, f"{pair.a.name} and {pair.b.name}")


def _positions(graph: NamedGraph) -> Any:
    """Where RDKit draws the atoms of a molecule."""
    if graph.smiles is None:
        return None
    from rdkit.Chem import rdDepictor

    from cwnet.chem._read import parse

    mol = parse(graph.smiles)
    rdDepictor.Compute2DCoords(mol)
    return mol.GetConformer().GetPositions()[:, :2]
