"""A tour on the molecules that come with RDKit: lift them, tell them apart, train a model, and ask it why."""

from __future__ import annotations

import argparse
import csv
import os
import shutil
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
from cwnet.chem._features import penalised_logp
from cwnet.errors import LiftingWarning
from cwnet.molecules import Settings, Trained, draw_explanation, explain, nci_table, train_table, write_gallery
from cwnet.wl import classes

LIFTING = Rings(18)

# What the model is asked about.
DRUGS = {
    "aspirin": "CC(=O)Oc1ccccc1C(=O)O",
    "caffeine": "Cn1cnc2c1c(=O)n(C)c(=O)n2C",
    "ibuprofen": "CC(C)Cc1ccc(cc1)C(C)C(=O)O",
    "nicotine": "CN1CCCC1c1cccnc1",
    "testosterone": "CC12CCC3C(C1CCC2O)CCC1=CC(=O)CCC13C",
    "diazepam": "CN1C(=O)CN=C(c2ccccc2)c2cc(Cl)ccc21",
}

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
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder for all that is made (default: demo)")
    parser.add_argument("--epochs", type=int, default=30, help="epochs of training (default: 30)")
    given = parser.parse_args()
    out: Path = given.out
    out.mkdir(parents=True, exist_ok=True)
    console = Console(width=None if sys.stdout.isatty() else 100, highlight=False)
    start = time.perf_counter()
    lift_and_draw(console, out)
    trained = train(console, out, given.epochs)
    ask_why(console, trained, out)
    console.print(f"\nAll of it took {time.perf_counter() - start:.0f} s. Look at:")
    for file, what in {
        "gallery.png": "nine molecules with their rings",
        "model/parity.png": "predicted against true values",
        "aspirin.svg": "why the model says what it says of aspirin",
        "explained.html": "the same for six molecules, on a page",
    }.items():
        console.print(f"  [bold]{out / file}[/bold]  {what}")
    console.print(f'\nAnd go on: [bold].venv/bin/cwnet explain {out / "model"} "c1ccc2ccccc2c1"[/bold]')


def lift_and_draw(console: Console, out: Path) -> None:
    """Molecules as cell complexes, what WL can not see in them, and pictures."""
    lines = nci_smiles()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LiftingWarning)  # the table says what was left out
        molecules, parsing = timed(lambda: read_smiles(lines, on_error="skip"))
    store, packing = timed(lambda: pack_molecules(molecules))
    cores = len(os.sched_getaffinity(0))
    complexes, lifting = repeated(lambda: lift_many(store, LIFTING, threads=1))
    _, lifting_on_all = repeated(lambda: lift_many(store, LIFTING, threads=cores))

    console.rule(f"[bold]{len(lines):,} molecules as cell complexes", align="left")
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
    tell_apart(console, molecules, store)
    chosen = most_varied(molecules, complexes)
    draw_molecule(molecules[chosen], complexes[chosen], title=formula(molecules[chosen]), path=out / "molecule.png")
    gallery = read_smiles(GALLERY)
    draw_molecules(gallery, lifting=LIFTING, titles=[formula(mol) for mol in gallery], path=out / "gallery.png")


def tell_apart(console: Console, molecules: Molecules, store: ComplexStore) -> None:
    """The skeletons that WL takes for one, and CWL does not."""
    console.rule("[bold]What the Weisfeiler–Lehman test can not see", align="left")
    wl, cwl = (classes(store, LIFTING, test=test).tolist() for test in ("wl", "cwl"))
    console.print(
        f"Without elements and bond types, WL finds {len(set(wl)):,} classes of molecules, CWL {len(set(cwl)):,}."
    )
    first: dict[int, int] = {}
    for i, number in enumerate(wl):
        if cwl[i] != cwl[first.setdefault(number, i)]:
            console.print("WL takes these for the same graph, and the cells tell them apart:")
            for j in (first[number], i):
                console.print(Text(f"  {molecules.smiles[j]}"))
            return


def train(console: Console, out: Path, epochs: int) -> Trained:
    """A model of penalised logP, from scratch."""
    console.print()
    console.rule("[bold]A model of penalised logP, trained from scratch", align="left")
    shutil.rmtree(out / "model", ignore_errors=True)  # that of the demo before this one
    trained = train_table(nci_table(out / "nci.csv"), out / "model", Settings(epochs=epochs), device="cpu")
    split, found = trained.model.about["split"], trained.metrics["penalised_logp"]
    with open(out / "model" / "predictions.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    errors = [abs(float(row["penalised_logp"]) - float(row["penalised_logp_predicted"])) for row in rows]
    true = [float(row["penalised_logp"]) for row in rows]
    mean = statistics.fmean(abs(y - statistics.median(true)) for y in true)
    console.print(
        f"\n{split['train']:,} molecules, {epochs} epochs, {trained.seconds:.0f} s. On {split['test']:,} others it is "
        f"off by [bold]{found['mae']:.2f}[/bold] in the mean and by [bold]{statistics.median(errors):.2f}[/bold] in "
        f"the median; the best constant would be off by {mean:.2f}."
    )
    return trained


def ask_why(console: Console, trained: Trained, out: Path) -> None:
    """What the model says of a few drugs, and which atoms, bonds and rings that comes from."""
    console.print()
    console.rule("[bold]What it says of six drugs, and why", align="left")
    found = explain(trained.model, list(DRUGS.values()))
    made = table("", "", "true", "predicted", "= skeleton", "+ atoms", "+ bonds", "+ rings")
    for name, mol, each in zip(DRUGS, read_smiles(DRUGS.values()), found, strict=True):
        signed = [f"{value:+.2f}" for value in each.sums.values()]
        made.add_row(name, f"{penalised_logp(mol):.2f}", f"{each.value:.2f}", f"{each.baseline:.2f}", *signed)
    console.print(made)
    console.print("Of rings of seven, as in diazepam, the set has 31: too few to learn what they cost.")
    draw_explanation(found[0], out / "aspirin.svg")
    draw_explanation(found[0], out / "aspirin.png")
    write_gallery(out / "explained.html", found, "Where penalised logP comes from", captions=list(DRUGS))


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
