"""How far the target of ZINC is a function of the molecule: part of it depends on how its atoms are numbered.

The target is the penalised logP (Jin, Barzilay and Jaakkola, 2018): logP minus the score of synthetic accessibility
minus a penalty on the longest cycle beyond six atoms, each shifted and scaled to unit variance. The longest cycle is
looked for among those of a cycle basis, as networkx finds one, and which basis that is depends on the order of the
atoms. A network that is the same for isomorphic molecules can not know it.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cwnet.chem._features import CYCLE_PENALTY, longest_basis_cycle
from cwnet.complexes import ComplexStore
from cwnet.data import load
from cwnet.experiments._report import markdown_table, write_page
from cwnet.experiments._times_page import about_run

__all__ = ["render", "run"]

_FREE = 6
_NUMBERINGS = 12
_FEW = 300
_SHOWN = 8
#: The data sets and their parts that are looked at: most molecules of ZINC-FULL's training part would say the same.
_PARTS = {"zinc": ("train", "val", "test"), "zinc-full": ("val", "test")}
_TITLES = {"zinc": "", "zinc-full": "ZINC-FULL, "}
_KEPT = ("number", "target", "lengths", "rings", "off")


def _penalty(length: int) -> float:
    return CYCLE_PENALTY * max(length - _FREE, 0)


def run(small: bool = False, tick: Callable[[str], None] = lambda text: None) -> dict[str, Any]:
    """Number every molecule of ZINC anew, a dozen times, and those that ZINC-FULL is validated and tested on.

    Args:
        small: only some hundred molecules of each part of ZINC.
        tick: called after each part.

    Returns:
        Per part of a split how many targets depend on the numbering and by how much, those that depend on it most,
        and the mean of what is left of the target without the penalty, with long cycles and without.
    """
    chance = random.Random(0)
    rows = []
    for name in ("zinc",) if small else _PARTS:
        dataset = load(name, "rings:18")
        for part in _PARTS[name]:
            numbers = getattr(dataset.splits[0], part).tolist()[: _FEW if small else None]
            rows.append({"part": _TITLES[name] + part, **_part(dataset.store, numbers, chance)})
            tick(f"{rows[-1]['part']}: {rows[-1]['unsure']} of {len(numbers)}")
    return {"small": small, "numberings": _NUMBERINGS, "rows": rows}


def _part(store: ComplexStore, numbers: Sequence[int], chance: random.Random) -> dict[str, Any]:
    assert store.y is not None
    found = [_molecule(store[i], float(store.y[i]), chance) | {"number": i} for i in numbers]
    unsure = sorted((m for m in found if m["off"]), key=lambda m: -m["off"])
    rest = {long: [m["rest"] for m in found if not m["off"] and m["long"] == long] for long in (False, True)}
    return {
        "molecules": len(found),
        "unsure": len(unsure),
        "off": statistics.fmean(m["off"] for m in found),
        "rest": {str(long): [len(rest[long]), statistics.fmean(rest[long] or [0.0])] for long in rest},
        "most": [{key: m[key] for key in _KEPT} for m in unsure[:_SHOWN]],
    }


def _molecule(cells: Any, target: float, chance: random.Random) -> dict[str, Any]:
    n, edges = cells.num_cells[0], cells.boundary(1).idx.reshape(-1, 2).numpy()
    own = longest_basis_cycle(n, edges)
    lengths = [own]
    if len(edges) > n:  # with one cycle, or none, there is nothing to choose
        orders = [np.array(chance.sample(range(n), n)) for _ in range(_NUMBERINGS)]
        lengths += [longest_basis_cycle(n, order[edges]) for order in orders]
    penalties = [_penalty(length) for length in lengths]
    middle = statistics.median(penalties)
    return {
        "target": target,
        "lengths": sorted(set(lengths)),
        "rings": sorted(cells.boundary(2).sizes.tolist()),
        "off": statistics.fmean(abs(penalty - middle) for penalty in penalties),
        "rest": target + _penalty(own),
        "long": own > _FREE,
    }


def render(figures: dict[str, Any], folder: Path) -> Path:
    """Write zinc-target.md into a folder, and give its path."""
    path = folder / "zinc-target.md"
    write_page(path, _text(figures))
    return path


def _text(figures: dict[str, Any]) -> str:
    rows = figures["rows"]
    parts = [
        [
            row["part"],
            f"{row['molecules']:,}",
            row["unsure"],
            f"{row['off']:.4f}",
            *(f"{row['rest'][long][1]:.2f} ({row['rest'][long][0]:,})" for long in ("False", "True")),
        ]
        for row in rows
    ]
    most = [
        [row["part"], m["number"], f"{m['target']:.2f}", _listed(m["rings"]), _listed(m["lengths"]), f"{m['off']:.1f}"]
        for row in rows
        for m in row["most"]
    ]
    small = f" This is the small form, with {_FEW} molecules of each part." if figures["small"] else ""
    return f"""# What of ZINC's target depends on the numbers of atoms

The target of ZINC is the penalised logP. A part of it is a penalty of {
        CYCLE_PENALTY:.2f} for every atom beyond six in the
longest cycle, and the longest cycle is looked for in a cycle basis, as `networkx.cycle_basis` gives one. Which basis
that is depends on how the atoms are numbered. Where bridges make several choices possible, so does the target, and a
network that gives the same for isomorphic molecules can not know it.

Here every molecule is numbered anew at random, {figures["numberings"]} times.{small} The third column counts the
molecules whose longest cycle is not always the same; the fourth is how far targets then lie from their median, on
average over all molecules: what the best invariant prediction would be off by, if numbers were given at random. Those
of the data set are not random, since they come from SMILES, so this is no bound.

{
        markdown_table(
            ["part", "molecules", "depend on numbers", "mean deviation", "rest, short cycles", "rest, long cycles"],
            parts,
            "lrrrrr",
        )
    }

The last two columns check that the penalty is what it is said to be: the mean of what is left of the target without it,
and over how many molecules, where the longest cycle has at most six atoms and where it has more. It should be much the
same.

## The molecules that depend on it most

{markdown_table(["part", "number", "target", "rings", "longest cycle", "deviation"], most, "lrrllr")}

## The run

{about_run(figures["run"])}
"""


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
