"""How like the training molecules those of the test part are: how hard a test the split makes."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from cwnet.data._files import write_whole
from cwnet.data._similarity_splits import RADIUS, SIZE
from cwnet.molecules._data import Prepared
from cwnet.molecules._inputs import Wanted, describe
from cwnet.molecules._plots import BLUE, RED, plain_text
from cwnet.molecules._trees import some_of
from cwnet.molecules._trust import Reference

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from cwnet.chem._descriptors import Counts

__all__ = ["figure_of_likeness", "likeness", "plot_likeness", "summary"]

#: Molecules that are compared, at the most: of more, so many are drawn by chance.
_TRAIN, _TEST = 50_000, 5_000


def likeness(prepared: Prepared, seed: int = 0) -> Tensor | None:
    """The Tanimoto similarity of each test molecule to the training molecule most like it, [test molecules].

    None where there is no test part. Of more than 5,000 test or 50,000 training molecules, so many are drawn.
    """
    if not len(prepared.split.test):
        return None
    train, test = (
        _counts(prepared, some_of(part, most, seed))
        for part, most in ((prepared.split.train, _TRAIN), (prepared.split.test, _TEST))
    )
    parts = max(len(prepared.featuriser.parts), 1)
    return 1 - Reference(train, RADIUS, SIZE, nearest=1, parts=parts).novelty(test)


def _counts(prepared: Prepared, rows: Tensor) -> Counts:
    smiles = [prepared.table.smiles[i] for i in rows.tolist()]
    counts = describe(smiles, prepared.store.select(rows), Wanted(RADIUS, SIZE), prepared.featuriser).counts
    assert counts is not None
    return counts


def summary(alike: Tensor | None) -> dict[str, Any]:
    """The distribution in a few numbers, as plain data; empty where there is none."""
    if alike is None:
        return {}
    levels = torch.tensor([0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0], dtype=torch.float64)
    found = torch.quantile(alike, levels).tolist()
    names = ("least", "5%", "25%", "median", "75%", "95%", "most")
    return {"molecules": len(alike), **{name: round(value, 6) for name, value in zip(names, found, strict=True)}}


def figure_of_likeness(alike: Tensor) -> Figure:
    """A histogram, to be made and written under `plain_text`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.0, 3.2), layout="constrained", dpi=120)
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.hist(alike.numpy(), bins=25, range=(0, 1), color=BLUE, alpha=0.75)
    median = float(alike.quantile(0.5))
    axes.axvline(median, color=RED, linewidth=1.2, label=f"median {median:.2f}")
    axes.set(xlim=(0, 1), xlabel="similarity to the nearest training molecule", ylabel="test molecules")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def plot_likeness(folder: Path, alike: Tensor) -> Path:
    """Draw ``similarity.png``."""
    buffer = io.BytesIO()
    with plain_text():
        figure_of_likeness(alike).savefig(buffer, format="png")
    path = folder / "similarity.png"
    write_whole(path, buffer.getvalue())
    return path
