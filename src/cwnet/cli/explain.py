"""`cwnet explain`: which atoms, bonds and rings a prediction comes from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from cwnet.cli._shared import (
    DeviceOption,
    HeaderOption,
    ModelAndMolecules,
    SmilesColumnOption,
    check_folder,
    choose_model,
    console,
    free_name,
    is_table,
    many,
    paragraphs,
)
from cwnet.errors import CwnetError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from cwnet.molecules import Explanation, MoleculeModel

__all__ = ["add_to"]

_PICTURES, _PAGES = (".svg", ".png", ".pdf"), (".html", ".htm")
#: Cells that the terminal lists.
_LISTED = 12
_BAR = 24


def explain(
    arguments: ModelAndMolecules,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The picture of one molecule (.svg .png .pdf) or the page of several (.html). [dim]By default a file "
            "in the working directory, named after the molecule or the table.[/dim]",
            show_default=False,
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The column to explain, or NAME=CLASS. [dim]By default the first, or the class predicted.[/dim]",
            show_default=False,
        ),
    ] = None,
    smiles_column: SmilesColumnOption = None,
    header: HeaderOption = True,
    most: Annotated[int, typer.Option(metavar="N", min=1, help="Explain the first N rows of a table.")] = 60,
    device: DeviceOption = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print all contributions as JSON.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="List all cells, not the largest only.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Write the file and print nothing.")] = False,
) -> None:
    """Show which atoms, bonds and rings a prediction comes from.

    One molecule becomes a picture, with its rings filled: blue pushes the prediction up, red pulls it down. Several,
    or a table, become a page of pictures.

    Contributions are integrated gradients. They start from the prediction for the skeleton, the saturated hydrocarbon
    with the same atoms and bonds, and add up to the prediction for the molecule; what they miss is shown. Classes are
    explained in log-odds. Of a model with trees, the network alone is explained. Atoms are numbered from 0, in the
    order of the SMILES.

    A model that was trained with descriptors has contributions of these too, which start from their means over the
    training molecules. If they are columns of a table, give a table that has them. Several molecules of a row are drawn
    side by side; atoms are numbered through.
    """
    from cwnet.molecules import draw_explanation
    from cwnet.molecules import explain as explained
    from cwnet.molecules._explain import check_explained
    from cwnet.molecules._gallery import write_gallery

    model, given = choose_model(arguments, device, quiet or as_json)
    check_explained(model)
    molecules = _read(model, given, smiles_column, header, most)
    if model.trees is not None:
        molecules.notes.append("What is explained is the network. The trees beside it are part of the prediction only.")
    path = _checked_output(output, given, molecules)
    with console(stderr=True).status(f"explaining {many(len(molecules.smiles), 'molecule')}"):
        found = explained(model, molecules.smiles, target, molecules.numbers)
        if path.suffix.lower() in _PAGES:
            title = f"{found[0].target} of {molecules.source}"
            write_gallery(path, found, title, captions=molecules.captions, notes=molecules.notes)
        else:
            draw_explanation(found[0], path)
    if as_json:
        typer.echo(json.dumps({"file": str(path), "molecules": [each.to_dict() for each in found]}))
    elif not quiet:
        _print(found, molecules, path, verbose)


@dataclass(frozen=True)
class _Molecules:
    """What is explained, where it is from, a few words on each, and what was left out."""

    smiles: list[str]
    source: str
    captions: list[str]
    notes: list[str]
    numbers: NDArray[np.float32] | None = None


def _read(model: MoleculeModel, given: list[str], smiles_column: str | None, header: bool, most: int) -> _Molecules:
    """SMILES as they are; of a table the first rows, without those that can not be read."""
    from cwnet.data import iterate_table
    from cwnet.molecules._inputs import Wanted, read_inputs
    from cwnet.molecules._predict import columns_of, smiles_column_of
    from cwnet.molecules._rows import rows_of, with_molecules

    if not (len(given) == 1 and is_table(given[0])):
        return _Molecules(given, many(len(given), "molecule"), [""] * len(given), [])
    column = smiles_column_of(model, smiles_column)
    pieces = iterate_table(given[0], column, (), chunk_rows=most, header=header)
    piece = with_molecules(next(pieces), columns_of(model))
    rows = rows_of(piece, model.wanted.columns)
    reasons = read_inputs(model.featuriser, rows, Wanted())[1]
    good = [i for i in range(len(piece)) if i not in reasons]
    unread = [(int(piece.rows[i]), reason) for i, reason in reasons.items()]
    unread = sorted([*unread, *((reject.row, reject.reason) for reject in piece.rejects)])
    if not good:
        raise CwnetError(f"{piece.path}: no row has a molecule; row {unread[0][0]}: {unread[0][1]}")
    notes = [f"Row {row} could not be read: {reason}" for row, reason in unread]
    if next(pieces, None) is not None:
        notes.append(f"These are the first {most:,} rows of the table; --most N explains more.")
    name = Path(given[0]).name
    captions = [f"row {piece.rows[i]}" for i in good]
    numbers = None if rows.given is None else rows.given[good]
    return _Molecules([piece.smiles[i] for i in good], name, captions, notes, numbers)


def _checked_output(output: Path | None, given: Sequence[str], molecules: _Molecules) -> Path:
    """The file to write: the one asked for, if it suits, or one named after what is explained."""
    one = len(molecules.smiles) == 1 and not is_table(given[0])
    if output is None:
        output = free_name(_formula(given[0]), ".svg") if one else free_name(f"{_stem(given)}-explained", ".html")
    known = (*_PICTURES, *_PAGES) if one else _PAGES
    if output.suffix.lower() not in known:
        what = "one molecule" if one else "several molecules"
        raise CwnetError(f"--output {output}: for {what} the name must end in one of {' '.join(known)}")
    check_folder(output)
    return output


def _formula(smiles: str) -> str:
    from rdkit.Chem.rdMolDescriptors import CalcMolFormula

    from cwnet.chem._read import parse

    return str(CalcMolFormula(parse(smiles.replace(",", "."))))


def _stem(given: Sequence[str]) -> str:
    return Path(given[0]).name.partition(".")[0] if is_table(given[0]) else "molecules"


# ------------------------------------------------------------------------------------------------ the terminal


def _print(found: Sequence[Explanation], molecules: _Molecules, path: Path, verbose: bool) -> None:
    out = console()
    if len(found) == 1:
        _print_sums(found[0])
        _print_cells(found[0], verbose)
    else:
        out.print(_table_of_many(found, molecules))
    for note in molecules.notes:
        console(stderr=True).print(f"note: {note}", soft_wrap=True)
    out.print(f"\nWrote {path}", soft_wrap=True)


def _print_sums(found: Explanation) -> None:
    """Skeleton and contributions above their sum, as one adds by hand."""
    out = console()
    unit = f" ({found.unit})" if found.unit else ""
    out.print(f"{found.target}{unit} of {found.smiles}\n", style="bold", soft_wrap=True)
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_row("saturated skeleton", f"{found.baseline:.4f}")
    for name, value in found.sums.items():
        table.add_row(many(found.counts[name], name.removesuffix("s")), f"{value:+.4f}")
    for name, value in found.by_part.items():
        table.add_row(f"of these cells in {name}", f"{value:+.4f}", style="dim")
    table.add_row("missed by the contributions", f"{found.missing:+.4f}", style="dim", end_section=True)
    table.add_row("prediction", f"{found.value:.4f}", style="bold")
    out.print(table)


def _print_cells(found: Explanation, verbose: bool) -> None:
    rows = found.rows()
    largest = max((abs(row["contribution"]) for row in rows), default=0.0) or 1.0
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("cell")
    table.add_column("atoms", overflow="fold")
    table.add_column("contribution", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for row in rows if verbose else rows[:_LISTED]:
        value = row["contribution"]
        bar = Text("█" * round(_BAR * abs(value) / largest), "blue" if value > 0 else "red")
        table.add_row(row["cell"], row["name"], f"{value:+.4f}", bar)
    out = console()
    out.print()
    out.print(table)
    if len(rows) > _LISTED and not verbose:
        out.print(f"and {many(len(rows) - _LISTED, 'smaller one')}; --verbose lists all", style="dim")


def _table_of_many(found: Sequence[Explanation], molecules: _Molecules) -> Table:
    numbered = any(molecules.captions)
    table = Table(box=None, pad_edge=False, header_style="bold")
    if numbered:
        table.add_column("")
    table.add_column("molecule", overflow="fold")
    for head in (found[0].target, "skeleton", *found[0].sums, "missed"):
        table.add_column(head, justify="right", no_wrap=True)
    for each, caption in zip(found, molecules.captions, strict=True):
        signed = [f"{value:+.3f}" for value in (*each.sums.values(), each.missing)]
        row = [each.smiles, f"{each.value:.3f}", f"{each.baseline:.3f}", *signed]
        table.add_row(*([caption] if numbered else []), *row)
    return table


def add_to(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command(
        "explain",
        help=paragraphs(explain.__doc__),
        epilog='For example: cwnet explain model "CC(=O)Oc1ccccc1C(=O)O" -o aspirin.svg\n\n'
        "A page of many: cwnet explain model data.csv --target logS -o gallery.html\n\n"
        'With the model that comes with cwnet: cwnet explain "Cn1cnc2c1c(=O)n(C)c(=O)n2C"',
        no_args_is_help=True,
    )(explain)
