"""The report of a model: one page that needs nothing else."""

from __future__ import annotations

import csv
import html
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cwnet.chem import draw_molecule
from cwnet.data._files import write_whole
from cwnet.errors import CwnetError
from cwnet.molecules._data import Prepared
from cwnet.molecules._likeness import figure_of_likeness
from cwnet.molecules._model import MoleculeModel, Prediction
from cwnet.molecules._pages import inline_svg
from cwnet.molecules._plots import BLUE, GREY, INK, RED, figure_of_test, plain_text
from cwnet.molecules._targets import Targets

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["errors_of", "write_report"]

#: Molecules that are drawn.
_WORST = 20
#: Bins of molecules in plots against something.
_BINS = 6
#: Numbers that bootstrapping may look at, and how often it draws at the most.
_BOOTSTRAP, _DRAWS = 400_000, 200

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy"
content="default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'">
<title>{title}</title>
<style>
body {{ font: 14px/1.45 system-ui, sans-serif; color: #1C1F24; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; }}
h1 {{ font-size: 1.5rem; margin-bottom: 0.3rem; }}
h2 {{ font-size: 1.15rem; margin: 2rem 0 0.4rem; }}
.row {{ display: flex; flex-wrap: wrap; gap: 1.2rem; align-items: flex-start; }}
.plot svg {{ height: auto; max-width: 100%; }}
.cards {{ display: grid; grid-template-columns: repeat(auto-fill, minmax(13rem, 1fr)); gap: 0.8rem; }}
article {{ border: 1px solid #ddd; border-radius: 8px; padding: 0.6rem; }}
article svg {{ width: 100%; height: 10rem; }}
article p {{ margin: 0.3rem 0 0; }}
code {{ overflow-wrap: anywhere; }}
pre {{ background: #f5f6f8; border-radius: 8px; padding: 0.7rem 0.9rem; overflow-x: auto; }}
table {{ border-collapse: collapse; margin: 0.4rem 0; }}
td, th {{ padding: 0.1rem 1.2rem 0.1rem 0; text-align: left; font-weight: normal; vertical-align: top; }}
td:not(:first-child), th:not(:first-child) {{ text-align: right; font-variant-numeric: tabular-nums; }}
th {{ color: #555; border-bottom: 1px solid #ddd; }}
.note {{ color: #555; max-width: 60rem; }}
</style>
</head>
<body>
<h1>{title}</h1>
{body}
</body>
</html>
"""


@dataclass(frozen=True, eq=False)
class _Facts:
    """What the report is made of."""

    model: MoleculeModel
    prepared: Prepared
    found: Prediction
    folder: Path

    @property
    def values(self) -> Tensor:
        return self.prepared.values_of(self.prepared.split.test)

    @property
    def smiles(self) -> list[str]:
        return [self.prepared.table.smiles[i] for i in self.prepared.split.test.tolist()]

    @property
    def numbers(self) -> bool:
        return self.model.targets.task == "regression"


def write_report(
    folder: Path, model: MoleculeModel, prepared: Prepared, found: Prediction | None, alike: Tensor | None = None
) -> Path:
    """Write ``report.html``: figures, plots, the worst predictions of the test part, and what to do next.

    Args:
        folder: of the model.
        model: the model.
        prepared: what it was trained on.
        found: its predictions of the test part.
        alike: how like the training part the test part is; see `cwnet.molecules._likeness`.
    """
    table = prepared.table.path.name
    title = f"{', '.join(model.targets.names)} of {table}"
    sections = [_head(model, prepared)]
    if found is None or not len(found.mean):
        sections.append('<p class="note">There is no test part, so there is nothing to measure the model by.</p>')
    else:
        facts = _Facts(model, prepared, found, folder)
        with plain_text():
            sections += [_figures(facts), _test_plots(facts), _trust(facts), _against(facts), _curves(facts)]
            sections.append(_worst(facts))
            if alike is not None:
                sections.insert(-1, _similar(alike))
    sections.append(_commands(folder))
    path = folder / "report.html"
    write_whole(path, _PAGE.format(title=html.escape(title[:200]), body="\n".join(filter(None, sections))).encode())
    return path


def errors_of(targets: Targets, values: Tensor, predicted: Tensor) -> Tensor:
    """How wrong each prediction is, [molecules]; NaN where no value is known.

    The absolute error; of several columns the mean of each in standard deviations. Of classes, the probability that was
    not given to the true one.
    """
    if targets.task == "multiclass":
        known = torch.nan_to_num(values[:, :1]).long()
        return torch.where(values[:, 0].isnan(), torch.nan, 1 - predicted.gather(1, known)[:, 0])
    wrong = (values.double() - predicted).abs()
    if targets.task == "regression" and len(targets.names) > 1:
        wrong = wrong / torch.tensor(targets.std)
    return wrong.nanmean(1)


# ------------------------------------------------------------------------------------------------ sections


def _head(model: MoleculeModel, prepared: Prepared) -> str:
    split = prepared.split
    parts = []
    if model.members:
        parts.append(
            "a network on atoms, bonds and rings" if len(model.members) == 1 else f"{len(model.members)} networks"
        )
    if model.trees is not None:
        trees = len(model.trees.forests[0].tree_ptr) - 1
        each = " for each target" if len(model.trees.forests) > 1 else ""
        parts.append(f"{trees:,} decision trees{each} on {model.trees.columns.width:,} fingerprints and descriptors")
    said = (
        f"{len(split.train):,} molecules to train on, {len(split.val):,} to choose by, {len(split.test):,} to test on."
    )
    notes = "".join(f'<p class="note">{html.escape(note)}</p>' for note in prepared.notes)
    return f"<p>{said} The model is {' and '.join(parts)}.</p>{notes}"


def _figures(facts: _Facts) -> str:
    about = facts.model.about
    whole = about["parts"]["test"]["model"]
    spread = _bootstrap(facts)
    names = [name for name in whole if name != "mean" or len(whole) > 2]
    metrics = list(dict.fromkeys(metric for name in names for metric in whole[name]))

    def shown(name: str, metric: str) -> str:
        if metric not in whole[name]:
            return "–"
        low, high = spread.get((name, metric), (None, None))
        around = "" if low is None else f' <span class="note">({low:.3f} to {high:.3f})</span>'
        return f"{whole[name][metric]:.3f}{around}"

    rows = [[html.escape(name), *(shown(name, metric) for metric in metrics)] for name in names]
    text = f"<h2>Figures of the test part</h2>{_table(['', *metrics], rows)}"
    text += '<p class="note">In brackets: where 95 of 100 figures lie when test molecules are drawn again.</p>'
    others = {part: found for part, found in about["parts"]["test"].items() if part != "model"}
    if others:
        weight = " and ".join(f"{w:.2f}" for w in sorted(set(facts.model.weight)))
        rows = [
            [
                f"{part} alone" if part != "model" else "both",
                *(f"{found['mean'].get(m, float('nan')):.3f}" for m in metrics),
            ]
            for part, found in {**others, "model": whole}.items()
        ]
        text += f"<h2>What each part gives</h2>{_table(['', *metrics], rows)}"
        text += f'<p class="note">The network weighs {weight}, the trees the rest.</p>'
    return text


def _bootstrap(facts: _Facts) -> dict[tuple[str, str], tuple[float, float]]:
    """Where figures lie when the test molecules are drawn again, with replacement."""
    from cwnet.molecules._train import measure

    count, values, predicted = len(facts.values), facts.values, facts.found.mean
    draws = min(_DRAWS, _BOOTSTRAP // max(values.numel(), 1))
    if draws < 20 or count < 5:
        return {}
    chance = torch.Generator().manual_seed(0)
    found: dict[tuple[str, str], list[float]] = {}
    for _ in range(draws):
        rows = torch.randint(count, (count,), generator=chance)
        for name, figures in measure(facts.model.targets, values[rows], predicted[rows]).items():
            for metric, value in figures.items():
                found.setdefault((name, metric), []).append(value)
    return {key: (float(np.quantile(v, 0.025)), float(np.quantile(v, 0.975))) for key, v in found.items()}


def _test_plots(facts: _Facts) -> str:
    title = {"regression": "Predicted and measured", "multiclass": "Predicted and true"}
    figure = figure_of_test(facts.model.targets, facts.values, facts.found.mean)
    return f"<h2>{title.get(facts.model.targets.task, 'ROC curves')}</h2>{_plot(figure, 'test')}"


def _trust(facts: _Facts) -> str:
    return _intervals(facts) if facts.numbers else _reliability(facts)


def _intervals(facts: _Facts) -> str:
    covered: Mapping[str, Any] = facts.model.about.get("coverage", {})
    if not covered:
        return '<h2>Intervals</h2><p class="note">There are too few validation molecules for intervals.</p>'
    rows = [
        [level, html.escape(name), f"{each['held']:.1%}", f"{each['width']:.3g}"]
        for level, columns in covered.items()
        for name, each in columns.items()
    ]
    return (
        f"<h2>Do the intervals hold?</h2>{_table(['level', 'target', 'held in the test part', 'mean width'], rows)}"
        '<p class="note">An interval of 90 % should hold 90 of 100 values. With few test molecules the count itself is '
        f"uncertain: of 50, some 4 more or fewer are no surprise. {_kind(facts)}</p>"
    )


def _kind(facts: _Facts) -> str:
    return "" if facts.model.uncertainty is None else facts.model.uncertainty.said


def _reliability(facts: _Facts) -> str:
    """How often what was said to be so likely was so, over all columns together."""
    from matplotlib.figure import Figure

    p, y = _chances(facts)
    figure = Figure(figsize=(4.4, 4.0), layout="constrained")
    axes = figure.add_subplot()
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=0.8)
    edges = np.linspace(0, 1, 11)
    place = np.clip(np.digitize(p, edges) - 1, 0, 9)
    gap = 0.0
    for bin in range(10):
        there = place == bin
        if there.any():
            said, was = p[there].mean(), y[there].mean()
            gap += there.mean() * abs(said - was)
            axes.scatter(said, was, s=12 + 160 * there.mean(), color=BLUE, alpha=0.75, linewidths=0)
    axes.set(xlabel="predicted probability", ylabel="how often it was so", xlim=(-0.03, 1.03), ylim=(-0.03, 1.03))
    _plain(axes)
    return (
        f"<h2>Are the probabilities frequencies?</h2>{_plot(figure, 'reliability')}"
        f'<p class="note">Probabilities are calibrated on the validation part. Here they are off by {gap:.3f} on '
        "average; larger dots have more molecules.</p>"
    )


def _chances(facts: _Facts) -> tuple[NDArray[Any], NDArray[Any]]:
    """Probabilities of all outputs, and whether they came true."""
    values, p = facts.values, facts.found.mean
    if facts.model.targets.task == "multiclass":
        there = ~values[:, 0].isnan()
        came = torch.nn.functional.one_hot(values[there, 0].long(), p.shape[1])
        return p[there].flatten().numpy(), came.double().flatten().numpy()
    known = ~values.isnan()
    return p[known].numpy(), values[known].double().numpy()


def _against(facts: _Facts) -> str:
    """Errors against what may explain them."""
    wrong = errors_of(facts.model.targets, facts.values, facts.found.mean).numpy()
    what = "absolute error" if facts.numbers else "probability missed"
    if facts.numbers and len(facts.model.targets.names) > 1:
        what = "error in standard deviations"
    sizes = facts.prepared.store.select(facts.prepared.split.test).cell_ptr[0].diff().double().numpy()
    plots = [_plot(_trend(sizes, wrong, "heavy atoms", what), "size")]
    said = ""
    if facts.found.novelty is not None and facts.model.reference is not None:
        limit = facts.model.reference.limit
        plots.append(_plot(_trend(facts.found.novelty.numpy(), wrong, "novelty", what, limit), "novelty"))
        outside = int((facts.found.novelty > limit).sum())
        said = (
            f'<p class="note">Novelty is 1 - the mean Tanimoto similarity to the {facts.model.reference.nearest} '
            f"training molecules most like it. Beyond {limit:.2f}, the red line, a molecule is outside: {outside:,} "
            "of the test part. The line is the mean error of a sixth of the molecules each.</p>"
        )
    return f'<h2>Where the errors are</h2><div class="row">{"".join(plots)}</div>{said}'


def _similar(alike: Tensor) -> str:
    """How like the training part the test part is."""
    return (
        "<h2>How like the training molecules are those of the test part?</h2>"
        f"{_plot(figure_of_likeness(alike), 'similarity')}"
        '<p class="note">The Tanimoto similarity of each to the training molecule most like it, by counted Morgan '
        "fingerprints. The further to the right, the easier the test: figures hold for new molecules that are as like "
        "these as the test molecules are.</p>"
    )


def _trend(x: NDArray[Any], y: NDArray[Any], name: str, what: str, limit: float | None = None) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.0, 3.6), layout="constrained")
    axes = figure.add_subplot()
    there = ~np.isnan(y)
    x, y = x[there], y[there]
    axes.scatter(x, y, s=12, color=BLUE, alpha=0.35, linewidths=0, rasterized=len(x) > 2_000)
    parts = [part for part in np.array_split(np.argsort(x, kind="stable"), _BINS) if len(part)]
    axes.plot(
        [x[part].mean() for part in parts], [y[part].mean() for part in parts], color=INK, linewidth=1.4, marker="o"
    )
    if limit is not None:
        axes.axvline(limit, color=RED, linewidth=0.9)
    if len(y):
        axes.set_ylim(0, 1.1 * max(float(np.quantile(y, 0.99)), 1e-12))
    axes.set(xlabel=name, ylabel=what)
    _plain(axes)
    return figure


def _curves(facts: _Facts) -> str:
    """The metric of the validation part by epochs, of every network."""
    from matplotlib.figure import Figure

    training = facts.folder / "training"
    files = [training / "curves.csv", *sorted(training.glob("seed-*/curves.csv"))]
    figure = Figure(figsize=(5.6, 3.4), layout="constrained")
    axes = figure.add_subplot()
    drawn = False
    for number, file in enumerate(path for path in files if path.is_file()):
        with open(file, newline="", encoding="utf-8") as text:
            rows = list(csv.DictReader(text))
        for key, colour in (("train", GREY), ("val", BLUE)):
            points = [(float(r["epoch"]), float(r[key])) for r in rows if r.get(key) not in (None, "")]
            if points:
                drawn = True
                axes.plot(*zip(*points, strict=True), color=colour, linewidth=1.3, label=None if number else key)
    if not drawn:
        return ""
    axes.set(xlabel="epoch", ylabel=facts.model.targets.metric)
    axes.legend(frameon=False)
    _plain(axes)
    return (
        f"<h2>How the network learnt</h2>{_plot(figure, 'curves')}"
        '<p class="note">Of numbers, in standard deviations of their column. The network is that of its best epoch on '
        "the validation part.</p>"
    )


def _worst(facts: _Facts) -> str:
    wrong = errors_of(facts.model.targets, facts.values, facts.found.mean)
    order = torch.nan_to_num(wrong, nan=-1.0).argsort(descending=True)[:_WORST].tolist()
    rows = facts.prepared.table.rows[facts.prepared.split.test.numpy()]
    smiles = facts.smiles
    cards = [_card(facts, i, number, smiles[i], int(rows[i])) for number, i in enumerate(order) if wrong[i] >= 0]
    return f'<h2>The {len(cards)} worst predictions of the test part</h2><div class="cards">{"".join(cards)}</div>'


def _card(facts: _Facts, i: int, number: int, smiles: str, row: int) -> str:
    try:
        featuriser = facts.model.featuriser
        drawn = draw_molecule(".".join(featuriser.split(smiles)), lifting=featuriser.rule(), legend=False)
        picture = inline_svg(drawn, f"w{number}")
    except (CwnetError, ValueError, RuntimeError):
        picture = ""
    said = "".join(f"<p>{line}</p>" for line in _compared(facts, i))
    if facts.found.novelty is not None:
        said += f'<p class="note">novelty {float(facts.found.novelty[i]):.2f}</p>'
    return f'<article>{picture}<p class="note">row {row} <code>{html.escape(smiles)}</code></p>{said}</article>'


def _compared(facts: _Facts, i: int) -> list[str]:
    """What was predicted of a molecule and what is so, of the columns that are most wrong."""
    targets, values, p = facts.model.targets, facts.values[i], facts.found.mean[i]
    if targets.task == "multiclass":
        true = int(values[0])
        labels = targets.classes[0]
        said = html.escape(labels[int(p.argmax())])
        return [f"{html.escape(labels[true])}, predicted {said} (probability of the truth {p[true]:.2f})"]
    wrong = (values.double() - p).abs()
    lines = []
    for column in torch.nan_to_num(wrong, nan=-1.0).argsort(descending=True).tolist()[:3]:
        if values[column].isnan():
            continue
        name = html.escape(targets.names[column])
        if targets.task == "regression":
            lines.append(f"{name}: {float(values[column]):.4g}, predicted {float(p[column]):.4g}")
        else:
            labels = targets.classes[column]
            truth = html.escape(labels[int(values[column])])
            lines.append(f"{name}: {truth}, p({html.escape(labels[1])}) = {float(p[column]):.2f}")
    return lines


def _commands(folder: Path, verbs: Sequence[str] = ("predict", "explain", "fingerprint")) -> str:
    where = shlex.quote(str(folder))
    lines = [
        f"cwnet predict {where} new.csv -o predicted.csv",
        f'cwnet explain {where} "CC(=O)Oc1ccccc1C(=O)O" -o aspirin.svg',
        f"cwnet explain {where} new.csv -o explained.html",
        f"cwnet fingerprint {where} new.csv -o vectors.npz",
    ]
    known = [line for line in lines if line.split()[1] in verbs]
    return f"<h2>Go on</h2><pre>{html.escape(chr(10).join(known))}</pre>"


# ------------------------------------------------------------------------------------------------ pieces


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of cells that are HTML already."""

    def cells(tag: str, row: Sequence[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in row) + "</tr>"

    return f"<table>{cells('th', head)}{''.join(cells('td', row) for row in rows)}</table>"


def _plot(figure: Figure, name: str) -> str:
    return f'<div class="plot">{inline_svg(figure, name)}</div>'


def _plain(axes: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)
