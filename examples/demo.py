"""Lift the molecules that come with RDKit, say what was found and how fast, and draw some of them."""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import torch
from rdkit.Chem.rdMolDescriptors import CalcMolFormula
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cwnet import ComplexStore, Rings, lift_many
from cwnet.chem import Molecules, draw_molecule, draw_molecules, nci_smiles, pack_molecules, read_smiles
from cwnet.errors import LiftingWarning

LIFTING = Rings(18)

# Nine ring systems of the set, picked by eye.
GALLERY = (
    "CC1=C2NC(=C1CCC(O)=O)C=C3N=C(C=C4NC(=CC5=NC(=C2)C(=C5C)C=C)C(=C4C)C=C)C(=C3CCC(O)=O)C",
    "S1C2=C(C3=CC=CC4=C3C2=CC=C4)C5=C1C6=C7C(=CC=C6)C=CC=C57",
    "C[C]1(O)CC[CH]2[CH]3CCC4=CC(=O)CC[C]4(C)[C]35O[CH]5C[C]12C",
    "CN[CH]1CCC2=CC(=C(OC)C(=C2C3=CC=C(OC)C(=O)C=C13)OC)OC",
    "C1CN2CN1CN3CCN(C2)C3",
    "O[CH]1[CH]2CO[CH](O2)[CH]3O[CH](O[CH]13)C4=CC=CC=C4",
    "C[Si]1(C)CCC(=O)CC[Si](C)(C)O[Si](C)(C)CCC(=O)CC[Si](C)(C)O1",
    "CC(C)C1=CC2=C(C)C=CC2=C(C)C=C1",
    "CC1(C)[CH]2CC[C](C)(O)[CH]1C2",
)

T = TypeVar("T")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder for the pictures (default: demo)")
    out: Path = parser.parse_args().out
    console = Console(width=None if sys.stdout.isatty() else 100, highlight=False)

    lines = nci_smiles()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LiftingWarning)  # the table says what was left out
        molecules, parsing = timed(lambda: read_smiles(lines, on_error="skip"))
    store, packing = timed(lambda: pack_molecules(molecules))
    cores = len(os.sched_getaffinity(0))
    complexes, lifting = repeated(lambda: lift_many(store, LIFTING, threads=1))
    _, lifting_on_all = repeated(lambda: lift_many(store, LIFTING, threads=cores))

    console.print(f"\n[bold]{len(lines):,} molecules as cell complexes[/bold], lifted with [bold]{LIFTING}[/bold]")
    console.print("Atoms are vertices, bonds are edges, and every chordless ring of at most 18 atoms is a 2-cell.\n")
    console.print(table_of_cells(complexes))
    console.print(table_of_rings(complexes))
    console.print(table_of_skipped(molecules, len(lines)))
    steps = {
        "parse SMILES with RDKit": parsing,
        "pack into arrays": packing,
        "lift, 1 thread": lifting,
        f"lift, {cores} threads": lifting_on_all,
    }
    console.print(table_of_speed(steps, len(molecules)))

    out.mkdir(parents=True, exist_ok=True)
    chosen = most_varied(molecules, complexes)
    draw_molecule(molecules[chosen], complexes[chosen], title=formula(molecules[chosen]), path=out / "molecule.png")
    gallery = read_smiles(GALLERY)
    draw_molecules(gallery, lifting=LIFTING, titles=[formula(mol) for mol in gallery], path=out / "gallery.png")
    console.print(f"Pictures: [bold]{out / 'molecule.png'}[/bold] and [bold]{out / 'gallery.png'}[/bold]")


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """What the work gives, and the seconds it took."""
    start = time.perf_counter()
    return work(), time.perf_counter() - start


def repeated(work: Callable[[], T], times: int = 21) -> tuple[T, float]:
    """The same, with the median of several runs."""
    runs = [timed(work) for _ in range(times)]
    return runs[0][0], statistics.median(seconds for _, seconds in runs)


def table(title: str, *columns: str, left: int = 1) -> Table:
    """An empty table; all columns but the first few hold numbers."""
    made = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0))
    for i, name in enumerate(columns):
        made.add_column(name, justify="left" if i < left else "right", no_wrap=True)
    return made


def table_of_cells(complexes: ComplexStore) -> Table:
    made = table("Cells", "", "total", "mean per molecule", "max")
    for name, ptr in zip(("vertices (atoms)", "edges (bonds)", "2-cells (rings)"), complexes.cell_ptr, strict=True):
        counts = ptr.diff()
        made.add_row(name, f"{counts.sum():,}", f"{counts.double().mean():.2f}", f"{counts.max():,}")
    return made


def table_of_rings(complexes: ComplexStore) -> Table:
    made = table("Rings", "size", "rings", "in molecules", "share", "")
    made.columns[-1].justify = "left"
    sizes = complexes.boundaries[1].sizes
    owners = torch.repeat_interleave(complexes.cell_ptr[2].diff())
    most = int(sizes.bincount().max())
    for size in sizes.unique().tolist():
        rings = int((sizes == size).sum())
        holders = owners[sizes == size].unique().numel()
        made.add_row(str(size), f"{rings:,}", f"{holders:,}", f"{holders / len(complexes):.2%}", bar(rings / most))
    return made


def bar(share: float, width: int = 40) -> str:
    """A bar of text, to an eighth of a letter; what is there at all shows."""
    eighths = max(1, round(8 * width * share))
    return "█" * (eighths // 8) + ("", *"▏▎▍▌▋▊▉")[eighths % 8]


def table_of_skipped(molecules: Molecules, lines: int) -> Table:
    made = table(
        f"{len(molecules):,} of {lines:,} molecules parsed, {len(molecules.skipped)} left out",
        "line", "SMILES", "why", left=3,
    )  # fmt: skip
    made.columns[0].min_width, made.columns[1].max_width = 4, 24
    for error in molecules.skipped:
        smiles, _, why = error.reason.removeprefix("SMILES ").partition(" does not parse: ")
        made.add_row(str(error.position), Text(smiles.strip("'")), why)
    return made


def table_of_speed(steps: dict[str, float], molecules: int) -> Table:
    made = table("Speed", "", "milliseconds", "molecules per second")
    for name, seconds in steps.items():
        made.add_row(name, f"{1000 * seconds:,.1f}", f"{molecules / seconds:,.0f}")
    return made


def most_varied(molecules: Molecules, complexes: ComplexStore, largest: int = 40) -> int:
    """The molecule with the most sizes of rings, then the most rings, among those that fit a picture."""

    def variety(i: int) -> tuple[int, int]:
        first, last = complexes.cell_ptr[2][i : i + 2].tolist()
        return sizes[first:last].unique().numel(), last - first

    sizes = complexes.boundaries[1].sizes
    fitting = [i for i, mol in enumerate(molecules) if mol.GetNumAtoms() <= largest and "." not in molecules.smiles[i]]
    return max(fitting, key=variety)


def formula(mol: object) -> str:
    """The molecular formula, with digits set low."""
    return str(CalcMolFormula(mol)).translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"))


if __name__ == "__main__":
    main()
