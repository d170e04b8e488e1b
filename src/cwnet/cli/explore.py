"""``cwnet explore``: a page to look at complexes, their colours, and what a model makes of molecules."""

from __future__ import annotations

import itertools
import os
import sys
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cwnet.cli._shared import SimplifyOption, check_folder, console, free_name, many, paragraphs
from cwnet.cli.wl import _as_path
from cwnet.data import GraphFileError, NamedGraph, scan_graphs
from cwnet.data._graph_files import from_smiles
from cwnet.errors import CwnetError, GraphError

if TYPE_CHECKING:
    from cwnet.explore import Exhibit, Pair
    from cwnet.molecules import MoleculeModel

__all__ = ["add_to"]

_EXAMPLES = """Examples

The gallery alone: cwnet explore

A molecule and the graphs of a file: cwnet explore "CC(=O)Oc1ccccc1C(=O)O" graphs.g6 -o page.html

With a place to type molecules: cwnet explore --serve --port 8765"""


def explore(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE | SMILES",
            help="Graphs and molecules to show beside the gallery: files, or SMILES in quotes. file.g6:3 is the fourth "
            "graph of a file.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The page to write (.html). [dim]By default explore.html in the working directory.[/dim]",
            show_default=False,
        ),
    ] = None,
    open_: Annotated[
        bool | None,
        typer.Option(
            "--open/--no-open",
            help="Open the page in a browser. [dim]By default where there is a screen.[/dim]",
            show_default=False,
        ),
    ] = None,
    serve: Annotated[
        bool,
        typer.Option("--serve", help="Write no file but serve the page to this machine, with a place to type SMILES."),
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where --serve listens; 0 takes any free port.")] = 8765,
    simplify: SimplifyOption = False,
) -> None:
    """Open a page that shows complexes: their cells, colour refinement step by step, and pairs side by side.

    The page is one file that works without a network. It has a gallery of molecules and graphs beside what you name.
    Choose which cells to attach, point at one to see its boundary, its coboundary and its neighbours, step through the
    rounds of the cellular WL test, and compare two. Molecules come with the prediction of the model that comes with
    cwnet, and with what each atom, bond and ring contributes.

    Files are graph6 (.g6), edge lists (.edges .txt .csv .tsv), GraphML (.graphml) or SMILES (.smi .smiles), plain or
    with .gz. Graphs of up to 300 vertices and 1,500 edges are drawn.
    """
    if serve and output is not None:
        raise CwnetError(f"--serve writes no file, so there is nothing to write to {output}: leave one of them out")
    path = None if serve else _checked(output)
    found = _read(arguments or [], simplify)
    if path is None:
        _serve(port, found, open_)
    else:
        _write(path, found, open_)


def _checked(output: Path | None) -> Path:
    path = free_name("explore", ".html") if output is None else output
    if path.suffix.lower() not in (".html", ".htm"):
        raise CwnetError(f"--output {path}: a page must end in .html")
    check_folder(path)
    return path


# What is shown


def _read(arguments: list[str], simplify: bool) -> list[NamedGraph]:
    """The graphs that the arguments name; all of them are found, and are small enough, before any is drawn."""
    from cwnet.explore import MAX_EXHIBITS
    from cwnet.explore._exhibit import check_drawable

    limit = MAX_EXHIBITS - 20  # the gallery takes its share
    found: list[NamedGraph] = []
    for text in arguments:
        for graph in _graphs(text, simplify):
            check_drawable(graph)
            found.append(graph)
            if len(found) > limit:
                raise CwnetError(
                    f"there are more than {limit} graphs up to {text}: a page takes up to {limit}. "
                    "Name single ones, as in graphs.g6:3"
                )
    return found


def _graphs(text: str, simplify: bool) -> Iterator[NamedGraph]:
    path, position = _as_path(text)
    if path is None:
        try:
            yield from_smiles(text, text)
        except GraphError as error:
            raise CwnetError(f"there is no file {text!r}, and as a molecule: {error.reason}") from None
        return
    graphs = scan_graphs(path, simplify=simplify)
    if position is not None:
        chosen = list(itertools.islice(graphs, position, position + 1))
        if not chosen:
            count = sum(1 for _ in scan_graphs(path, simplify=simplify))
            raise CwnetError(f"{path} has {many(count, 'graph')}, numbered from 0: there is no {text}")
        graphs = iter(chosen)
    for graph in graphs:
        if isinstance(graph, GraphFileError):
            raise graph
        yield graph


def _exhibits(found: list[NamedGraph]) -> tuple[list[Exhibit], list[Pair], MoleculeModel | None]:
    from cwnet.explore import exhibit, gallery

    with console(stderr=True).status("drawing"):
        model = _model()
        yours = [exhibit(graph, "yours", model=model) for graph in found]
        rest, pairs = gallery(model)
        return [*yours, *rest], pairs, model


def _model() -> MoleculeModel | None:
    """The model that comes with cwnet, unless RDKit or the model is not installed: then molecules go unexplained."""
    from importlib.util import find_spec

    if find_spec("rdkit") is None:
        console(stderr=True).print("note: without RDKit there are no molecules: pip install cwnet[chem]")
        return None
    from cwnet.molecules import builtin_model
    from cwnet.molecules._model import ModelError

    try:
        return builtin_model()
    except ModelError as error:
        console(stderr=True).print(f"note: {error}", soft_wrap=True)
        return None


# Where it goes


def _write(path: Path, found: list[NamedGraph], wanted: bool | None) -> None:
    from cwnet.data._files import write_whole
    from cwnet.explore import render_explorer

    shown, pairs, _ = _exhibits(found)
    write_whole(path, render_explorer(shown, pairs).encode())
    console().print(f"Wrote {path}", soft_wrap=True)
    _open(path.resolve().as_uri(), wanted)


def _serve(port: int, found: list[NamedGraph], wanted: bool | None) -> None:
    from cwnet.explore import ExploreServer

    with ExploreServer(port) as server:  # first of all, as the port may be taken
        server.show(*_exhibits(found))
        console().print(f"The page is at {server.address} for this machine alone. Ctrl-C ends it.", soft_wrap=True)
        _open(server.address, wanted)
        server.serve_forever()


def _open(address: str, wanted: bool | None) -> None:
    """Show the page. Without a screen, a browser for terminals would take over: only if asked for."""
    screen = sys.platform in ("darwin", "win32") or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
    wanted = screen and sys.stdout.isatty() if wanted is None else wanted
    if wanted and not webbrowser.open(address):
        console(stderr=True).print(f"note: no browser could be started: open {address} in one", soft_wrap=True)


def add_to(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command("explore", help=paragraphs(explore.__doc__), epilog=_EXAMPLES)(explore)
