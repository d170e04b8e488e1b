"""What the verbs have in common: options read, graphs found, text put into words."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.console import Console

from cwnet.data import SUFFIXES
from cwnet.errors import CwnetError, LiftingBudgetExceeded
from cwnet.lifting import Graph, Lifting, as_lifting
from cwnet.wl._tests import parse_test

__all__ = [
    "DeviceOption",
    "LabelsOption",
    "LiftingOption",
    "SimplifyOption",
    "SmilesColumnOption",
    "check_folder",
    "console",
    "is_folklore",
    "label_kind",
    "looks_like_file",
    "many",
    "paragraphs",
    "read_lifting",
    "read_tests",
    "too_many_cells",
    "unlabelled",
]

LiftingOption = Annotated[
    str,
    typer.Option(
        help="Which cells to attach, for cwl: rings:6 (induced cycles of at most 6 vertices), cycles:8, cliques:4, "
        "none, or several in quotes: 'cliques:4|rings:6'.",
        metavar="KIND:SIZE",
    ),
]
LabelsOption = Annotated[
    bool | None,
    typer.Option(
        "--labels/--no-labels",
        help="Start from the elements and bond types of molecules, or the labels of a GraphML file; or from one colour "
        "for all cells. By default labels are used where there are any.",
        show_default=False,
    ),
]
SimplifyOption = Annotated[
    bool, typer.Option("--simplify", help="Drop self-loops and repeated edges, which are errors otherwise.")
]

DeviceOption = Annotated[str, typer.Option(metavar="auto|cpu|cuda", help="Where to compute.")]
SmilesColumnOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The column of SMILES. [dim]By default found by name.[/dim]", show_default=False),
]

T = TypeVar("T")


def console(stderr: bool = False) -> Console:
    """A console on the stream as it is now: tests and pipes put others in its place."""
    # SMILES are full of what rich would take for markup and emoji.
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False)


def read_lifting(text: str) -> Lifting:
    """The lifting a user typed."""
    return _or_error(as_lifting, text)


def read_tests(text: str) -> list[str]:
    """The tests a user typed, separated by commas, each once."""
    names = list(dict.fromkeys(name.strip().lower() for name in text.split(",") if name.strip()))
    if not names:
        raise CwnetError("--test is empty: name one or more of cwl, swl, wl, 2-fwl")
    for name in names:
        _or_error(parse_test, name)
    return names


def is_folklore(test: str) -> bool:
    """Whether a test colours tuples of vertices, not cells."""
    return parse_test(test)[0] == "fwl"


def _or_error(read: Callable[[str], T], text: str) -> T:
    try:
        return read(text)
    except ValueError as error:
        raise CwnetError(str(error)) from None


def looks_like_file(text: str) -> bool:
    """Whether a text ends as the names of files with graphs do."""
    return bool(re.search(rf"({'|'.join(map(re.escape, SUFFIXES))})(\.gz)?$", text, re.IGNORECASE))


def check_folder(file: Path | None) -> None:
    """Refuse a file that can not be written before the work is done, not after."""
    if file is not None and not file.parent.is_dir():
        raise CwnetError(f"{file} can not be written: there is no folder {file.parent}")


def label_kind(graph: Graph) -> tuple[bool, bool]:
    """Whether vertices and edges have labels."""
    return graph.x is not None, graph.edge_x is not None


def unlabelled(graph: Graph) -> Graph:
    """The graph alone."""
    return Graph(graph.num_nodes, graph.edges)


def many(count: int, one: str, more: str | None = None) -> str:
    """For example "1 graph" or "2 graphs"."""
    return f"{count:,} {one if count == 1 else more or one + 's'}"


def too_many_cells(error: LiftingBudgetExceeded) -> str:
    """The error for someone who types a lifting: they can choose a smaller one, and that is all."""
    return (
        f"{error.lifting} attaches too many cells: {error.cells:,} were found after {error.seconds:.1f} s, "
        f"and the budget is {error.budget}. Choose a smaller size"
    )


def paragraphs(doc: str | None) -> str:
    """A docstring for a terminal, which breaks lines where it likes."""
    return "\n\n".join(" ".join(part.split()) for part in (doc or "").split("\n\n"))
