"""Cycles and induced cycles of the rook's graph and the Shrikhande graph: the paper's table of counts.

Both graphs are strongly regular with parameters (16, 6, 2, 2), so 3-WL does not tell them apart. Their numbers of
induced cycles differ at sizes 4, 5, 6 and 8, those of all cycles at size 8.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from cwnet.experiments._report import markdown_table, write_page
from cwnet.experiments._times_page import about_run
from cwnet.lifting import Cycles, Rings, lift

__all__ = ["PAPER", "count", "render", "rook", "run", "shrikhande"]

Graph = tuple[int, list[tuple[int, int]]]

#: The paper's table, for sizes 3 to 8.
PAPER = {
    "Rook 4x4": {"cycles": (32, 60, 288, 1248, 4032, 11952), "rings": (32, 36, 0, 96, 0, 72)},
    "Shrikhande": {"cycles": (32, 60, 288, 1248, 4032, 11688), "rings": (32, 12, 96, 64, 0, 36)},
}
_SIZES = tuple(range(3, 9))
#: The small form stops here.
_SMALL = 6


def rook(n: int = 4) -> Graph:
    """The squares of an n x n board, joined where a rook can move."""
    return _joined(n, lambda a, b, c, d: (a == c) != (b == d))


def shrikhande() -> Graph:
    """Z₄ x Z₄, joined where the difference is ±(1, 0), ±(0, 1) or ±(1, 1)."""
    steps = {(1, 0), (3, 0), (0, 1), (0, 3), (1, 1), (3, 3)}
    return _joined(4, lambda a, b, c, d: ((c - a) % 4, (d - b) % 4) in steps)


def _joined(n: int, joined: Callable[[int, int, int, int], bool]) -> Graph:
    places = [(a, b) for a in range(n) for b in range(n)]
    edges = [(i, j) for i, p in enumerate(places) for j, q in enumerate(places) if i < j and joined(*p, *q)]
    return len(places), edges


def count(graph: Graph, kind: str, largest: int = 8) -> list[int]:
    """How many cycles ("cycles") or induced cycles ("rings") there are of each size from 3 on."""
    found = lift(graph, Cycles(largest) if kind == "cycles" else Rings(largest))
    return torch.bincount(found.boundary(2).sizes, minlength=largest + 1)[3:].tolist()


def run(small: bool = False, tick: Callable[[str], None] = lambda text: None) -> dict[str, Any]:
    """Count all cycles of both graphs.

    Args:
        small: only up to size 6. The whole takes less than a second too.
        tick: called after each of the four rows.

    Returns:
        Per graph and kind of cycle the counts, the paper's, whether all agree, and the seconds of the count.
    """
    sizes = [size for size in _SIZES if not small or size <= _SMALL]
    rows = []
    for kind in ("cycles", "rings"):
        for name, graph in (("Rook 4x4", rook()), ("Shrikhande", shrikhande())):
            start = time.perf_counter()
            counts = count(graph, kind, sizes[-1])
            seconds = time.perf_counter() - start
            paper = list(PAPER[name][kind][: len(sizes)])
            rows.append({"graph": name, "kind": kind, "counts": counts, "paper": paper, "agree": counts == paper,
                         "seconds": seconds})  # fmt: skip
            tick(f"{name}, {kind}")
    return {"small": small, "sizes": sizes, "rows": rows}


def render(figures: dict[str, Any], folder: Path) -> Path:
    """Write cycle-counts.md into a folder, and give its path."""
    path = folder / "cycle-counts.md"
    write_page(path, _text(figures))
    return path


def _text(figures: dict[str, Any]) -> str:
    names = {"cycles": "cycles", "rings": "induced cycles"}
    body = []
    for row in figures["rows"]:
        for whose, counts in (("ours", row["counts"]), ("paper", row["paper"])):
            last = (
                ["yes" if row["agree"] else "**no**", f"{1000 * row['seconds']:.1f}"] if whose == "ours" else ["", ""]
            )
            body.append([f"{row['graph']}, {names[row['kind']]}", whose, *(f"{n:,}" for n in counts), *last])
    head = ["graph", "", *map(str, figures["sizes"]), "agree", "ms"]
    wrong = [row for row in figures["rows"] if not row["agree"]]
    verdict = (
        "All counts are the paper's." if not wrong else f"{len(wrong)} of {len(figures['rows'])} rows differ from it."
    )
    small = "\n\nThis is the small form: it stops at cycles of 6 vertices, the paper at 8." if figures["small"] else ""
    return f"""# Cycles of two strongly regular graphs

The rook's graph on a 4 x 4 board and the Shrikhande graph have the same parameters, SR(16,6,2,2), and 3-WL does not
tell them apart. The table has their numbers of cycles and of induced cycles by size, as the liftings `Cycles` and
`Rings` find them, and those of the paper. {verdict}{small}

{markdown_table(head, body, "ll" + "r" * len(figures["sizes"]) + "lr")}

The graphs differ in induced cycles of 4, 5, 6 and 8 vertices, and in cycles of 8. Cellular WL counts the cycles that
are attached as cells, so it tells the graphs apart with `Rings(4)`, and with `Cycles(8)`.

## The run

{about_run(figures["run"])}
"""
