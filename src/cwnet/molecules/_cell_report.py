"""The report of a model of atoms or bonds: figures, plots, and test molecules with true and predicted numbers."""

from __future__ import annotations

import html
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from cwnet.chem._cell_values import draw_cell_values, limits_of
from cwnet.chem._draw import _save
from cwnet.data._files import write_whole
from cwnet.errors import CwnetError
from cwnet.molecules._data import Prepared
from cwnet.molecules._levels import split_by
from cwnet.molecules._model import MoleculeModel, Prediction
from cwnet.molecules._pages import inline_svg
from cwnet.molecules._plots import plain_text, plot_test
from cwnet.molecules._report import _PAGE, _commands, _curves, _Facts, _head, _similar, _table, _test_plots, _trust

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["write_cell_report"]

#: Test molecules that are drawn on the page, and in the picture beside it.
_CARDS, _PICTURE = 20, 4


def write_cell_report(
    folder: Path, model: MoleculeModel, prepared: Prepared, found: Prediction | None, alike: Tensor | None = None
) -> Path:
    """Write ``report.html``, the plot of the test part, and ``atoms.png`` or ``bonds.png`` of a few molecules."""
    title = f"{', '.join(model.targets.names)} of {prepared.table.path.name}"
    sections = [_head(model, prepared)]
    if found is None or not len(found.mean):
        sections.append('<p class="note">There is no test part, so there is nothing to measure the model by.</p>')
    else:
        facts = _Facts(model, prepared, found, folder)
        plot_test(folder, model.targets, facts.values, found.mean)
        with plain_text():
            sections += [_figures(model), _test_plots(facts), _trust(facts), _curves(facts)]
            sections += [] if alike is None else [_similar(alike)]
            sections.append(_cards(facts))
            order = list(range(min(_PICTURE, len(facts.smiles))))
            _save(_drawn(facts, order), folder / f"{model.level.name}s.png")
    sections.append(_commands(folder, ("predict",)))
    path = folder / "report.html"
    write_whole(path, _PAGE.format(title=html.escape(title[:200]), body="\n".join(filter(None, sections))).encode())
    return path


def _figures(model: MoleculeModel) -> str:
    figures = model.about["parts"]["test"]["model"]
    names = [name for name in figures if name != "mean" or len(figures) > 2]
    metrics = list(dict.fromkeys(metric for name in names for metric in figures[name]))
    rows = [[html.escape(name), *(f"{figures[name].get(m, float('nan')):.3f}" for m in metrics)] for name in names]
    said = f"Over all {model.level.name}s of the test part."
    return f'<h2>Figures of the test part</h2>{_table(["", *metrics], rows)}<p class="note">{said}</p>'


def _parts(facts: _Facts, values: Tensor) -> list[Any]:
    """The first column of values, molecule by molecule."""
    return split_by(facts.found.cells, values[:, :1])[0]


def _drawn(facts: _Facts, molecules: list[int]) -> Figure:
    """Some molecules of the test part: what is so, and what is predicted."""
    columns = {"true": _parts(facts, facts.values), "predicted": _parts(facts, facts.found.mean)}
    store, test = facts.prepared.store, facts.prepared.split.test.tolist()
    return draw_cell_values(
        [facts.smiles[i] for i in molecules],
        [store[test[i]] for i in molecules],
        {name: [lists[i] for i in molecules] for name, lists in columns.items()},
        facts.model.level.dim or 0,
        limits=limits_of(facts.values[:, 0]),
        label=facts.model.targets.names[0][:40],
    )


def _cards(facts: _Facts) -> str:
    smiles = facts.smiles[:_CARDS]
    rows = facts.prepared.table.rows[facts.prepared.split.test.numpy()].tolist()
    cards = []
    for i, text in enumerate(smiles):
        try:
            picture = inline_svg(_drawn(facts, [i]), f"c{i}")
        except (CwnetError, ValueError, RuntimeError):
            picture = ""
        cards.append(f'<article>{picture}<p class="note">row {rows[i]} <code>{html.escape(text)}</code></p></article>')
    name = html.escape(facts.model.targets.names[0])
    return (
        f'<h2>{len(cards)} molecules of the test part</h2><p class="note">{name} on the {facts.model.level.name}s: '
        f'true and predicted, in one scale of colours.</p><div class="cards">{"".join(cards)}</div>'
    )
