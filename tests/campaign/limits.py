"""Verbs on a thousand molecules made to take memory and time: less than 2 GiB, and minutes."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

from tests.campaign.surface import OK, Surface, Wrong
from tests.campaign.verbs import TRAIN, call

#: Bytes of memory that a verb may take.
MEMORY = 2 * 2**30
MINUTES = 9

VERBS = {
    "predict": ["predict", "t.csv", "-o", "p.csv", "-q"],
    "fingerprint": ["fingerprint", "t.csv", "-o", "f.npz", "-q"],
    "fingerprint --cwl": ["fingerprint", "--cwl", "t.csv", "-o", "f.npz", "-q"],
    "lift": ["lift", "t.csv", "-o", "store", "-q"],
    "wl-scan": ["wl-scan", "t.smi", "-o", "w.csv"],
    "explain": ["explain", "t.csv", "--most", "20", "-o", "e.html", "-q"],
    "train TABLE": ["train", "t.csv", "--target-columns", "y", "--out", "m", *TRAIN],
}


def grid(rows: int, columns: int) -> str:
    """Squares of carbon side by side, whose rings of any size are many."""
    bonds: dict[tuple[int, int], int] = {}
    atoms = []
    for r in range(rows):
        for c in range(columns):
            closures = ""
            for key in ((r, c, "right"), (r, c, "down")):
                other = (r, c + 1) if key[2] == "right" else (r + 1, c)
                if other[0] < rows and other[1] < columns and (key[2] == "down" or False):
                    number = bonds[(r, c)] = 10 + (r * columns + c) % 80
                    closures += f"%{number}"
            if r and (r - 1, c) in bonds:
                closures += f"%{bonds.pop((r - 1, c))}"
            atoms.append(("" if c else "." if r else "") + "C" + closures)
    return "".join(atoms)


def adversarial(chance: random.Random) -> str:
    """A molecule that is large, or has many rings, or can hardly be read."""
    n = chance.randint(2, 9)
    ways = [
        lambda: grid(n, chance.randint(2, 9)),
        lambda: "C" * chance.choice([50, 400, 499, 500, 501, 5_000, 100_000]),
        lambda: "C1" + "C" * chance.choice([15, 100, 480]) + "1",
        lambda: "C12C3C4C1C5C2C3C45",
        lambda: "c1ccc2cc3cc4cc5cc6ccccc6cc5cc4cc3cc2c1",
        lambda: ".".join(["C1CC1"] * chance.choice([5, 100, 300])),
        lambda: "C" + "(C" * (m := chance.choice([20, 200, 3_000])) + ")" * m,
        lambda: "[" * 2_000,
        lambda: "C" + "".join(f"%{i}" for i in range(10, 99)),
        lambda: "[C@](F)(Cl)(Br)" * chance.choice([10, 60, 100]) + "C",
        lambda: "N" + "".join(f"C%{i}" for i in range(10, 60)) + "".join(f"C%{i}" for i in range(10, 60)),
        lambda: "[#119]",
        lambda: "C" * 200_000,
    ]
    return chance.choice(ways)()


def attack(chance: random.Random, place: Path) -> str:
    """A verb on a table of such molecules."""
    name = chance.choice(list(VERBS))
    folder = place / "f"
    folder.mkdir()
    smiles = [adversarial(chance) for _ in range(1_000)]
    (folder / "t.csv").write_text("smiles,y\n" + "".join(f"{s},{i % 7}\n" for i, s in enumerate(smiles)))
    (folder / "t.smi").write_text("\n".join(smiles) + "\n")
    try:
        ended = call(VERBS[name], folder, limit=60 * MINUTES)
    finally:
        shutil.rmtree(folder)
    if ended.code != 0:
        raise Wrong(f"{name}: {ended.code} {ended.said[-500:]}")
    if ended.memory > MEMORY:
        raise Wrong(f"{name}: {ended.memory / 2**30:.2f} GiB")
    return OK


SURFACE = Surface(
    "limits",
    "a verb on 1,000 molecules made to take memory and time, under 2 GiB and 9 minutes",
    attack,
    lambda f: f,
    600,
    10,
)
