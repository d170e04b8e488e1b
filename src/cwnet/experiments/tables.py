"""The paper's tables of trained networks: the recipe of every row, what the paper reports, and how runs become it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["TABLES", "Figure", "Row", "Small", "Table", "best_epoch"]

Run = Mapping[str, Any]


@dataclass(frozen=True)
class Figure:
    """A figure of a row: mean and standard deviation over `n`, and the extremes."""

    mean: float
    std: float | None
    n: int
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Figure:
        """The figure of some values."""
        spread = statistics.stdev(values) if len(values) > 1 else None
        return cls(statistics.fmean(values), spread, len(values), min(values), max(values))


@dataclass(frozen=True)
class Row:
    """A row of a table.

    Attributes:
        label: as the paper calls it.
        recipe: the recipe that stands for it.
        paper: mean and standard deviation that the paper reports; None where it has no such row.
        changes: values of the recipe to replace.
        remark: what was looked at where the paper is missed.
    """

    label: str
    recipe: str
    paper: tuple[float, float | None] | None = None
    changes: tuple[str, ...] = ()
    remark: str = ""


@dataclass(frozen=True)
class Small:
    """A version for two cores and a few minutes.

    Attributes:
        rows: those that are run.
        changes: values of their recipes to replace.
        seeds: how many.
        note: how it differs, in words.
    """

    rows: tuple[str, ...]
    changes: tuple[str, ...]
    seeds: int
    note: str


@dataclass(frozen=True)
class Table:
    """An experiment of trained networks.

    Attributes:
        title: of its page.
        measure: what the figures are.
        rows: by key.
        protocol: how the figures come about, in words.
        figures: from the runs of a row to its figures, the one to compare with the paper first.
        paper_runs: over how many runs the paper's spread was taken.
        folds: how many there are, each of which is run with every seed.
        lower: whether smaller is better.
        percent: whether figures are shares that are shown as percentages.
        curves: whether the metric of every epoch is kept with a run.
        blind: whether runs are compared by their validation figures, and their test figures are not kept at all.
        small: the version for two cores.
    """

    title: str
    measure: str
    rows: Mapping[str, Row]
    protocol: str
    small: Small
    figures: Callable[[Sequence[Run]], dict[str, Figure]]
    paper_runs: int = 10
    folds: int = 1
    lower: bool = False
    percent: bool = True
    curves: bool = True
    blind: bool = False


# ------------------------------------------------------------------------------------------------ from runs to figures


def _at_the_stop(runs: Sequence[Run]) -> dict[str, Figure]:
    """The test figure when training stops, and at the best validation epoch beside it."""
    return {
        "test at the stop": Figure.of([run["test_at_stop"] for run in runs]),
        "at the best validation epoch": Figure.of([run["test_at_best"] for run in runs]),
    }


def _at_the_best(runs: Sequence[Run]) -> dict[str, Figure]:
    """The test figure at the best validation epoch, and after the last beside it."""
    stop = _at_the_stop(runs)
    return {
        "test at the best validation epoch": stop["at the best validation epoch"],
        "after the last": stop["test at the stop"],
    }


def _unseen(runs: Sequence[Run]) -> dict[str, Figure]:
    """The validation figure when training stops, and the best of all epochs beside it."""
    return {
        "validation at the stop": Figure.of([run["val_at_stop"] for run in runs]),
        "best of all epochs": Figure.of([run["val_at_best"] for run in runs]),
    }


def best_epoch(curves: Sequence[Sequence[float]]) -> int:
    """The epoch, from 0, with the best mean over some curves."""
    return max(range(min(map(len, curves))), key=lambda epoch: sum(curve[epoch] for curve in curves))


def _over_folds(runs: Sequence[Run]) -> dict[str, Figure]:
    """As GIN has it, the epoch with the best mean over all folds.

    Beside it, for every fold the epoch with the best mean over the other folds; and the last epoch.
    """
    curves = [run["curve"]["test"] for run in sorted(runs, key=lambda run: int(run["fold"]))]
    found = {"best epoch on the test folds": Figure.of([curve[best_epoch(curves)] for curve in curves])}
    if len(curves) > 1:
        others = [curves[:i] + curves[i + 1 :] for i in range(len(curves))]
        honest = [curve[best_epoch(rest)] for curve, rest in zip(curves, others, strict=True)]
        found["epoch chosen on the other folds"] = Figure.of(honest)
    found["last epoch"] = Figure.of([curve[min(map(len, curves)) - 1] for curve in curves])
    return found


def _over_seeds(runs: Sequence[Run]) -> dict[str, Figure]:
    """The mean over the folds, for every seed."""
    seeds = sorted({run["seed"] for run in runs})
    means = [statistics.fmean(run["test_at_stop"] for run in runs if run["seed"] == seed) for seed in seeds]
    best = [statistics.fmean(run["test_at_best"] for run in runs if run["seed"] == seed) for seed in seeds]
    return {"test at the stop": Figure.of(means), "at the best validation epoch": Figure.of(best)}


# ------------------------------------------------------------------------------------------------ tables

_ZINC = (
    "Adam, 1e-3, halved when the validation MAE has not improved for 20 epochs, until it falls below 1e-5; at most "
    "1000 epochs, batches of 128. MAE over all 1,000 test molecules at the stop; 10 seeds."
)
_ZINC_STEADY = (
    " Steady CIN (see beyond): 1,000 epochs, in which the rate falls from 1e-3 along a cosine; products in tf32."
)
_SPIKES = (
    "the tall spikes of its validation curves were looked into. An epoch ends with a batch of 16 molecules. Three "
    "molecules of the 10,000 have a ring of more than 12 atoms, and a target below -20. When one of them is in that "
    "last batch, its ring dominates the few rings there, and the running averages of the batch norm, which count this "
    "batch like any other, are off when the epoch is evaluated. After epoch 150, each of the four epochs of these ten "
    "runs with a validation error above twice that of its neighbours is of this kind."
)
_FULL_SPIKES = (
    "the run of seed 0 stopped on a spike: its last epoch has a test error of 0.070, the one before it 0.024. It has "
    "three spikes, and CIN-small with the same seed, which sees the same batches, has them in the same epochs: 20, 81 "
    "and 104. These are the three that have molecule 5552 or 40852 of the 249,456 among their last five batches. Both "
    "are cages of nested rings: bonds of theirs lie on 4 and on 11 rings of up to 15 atoms, and hear of all the "
    "bonds on them. In a CIN-small trained for six epochs, one such molecule among 107 multiplies the variance of what "
    "the bonds' upper branch computes by 12 and by 39; one with a ring of 18 atoms, which is larger but alone, by 5. A "
    'running average with a momentum of 0.1 forgets that only after dozens of batches. `norm = "robust"` bounds '
    "what a batch can do to it; the paper's model, and this table, have plain averages."
)
_NO_EDGES = (
    "the difference is 2.1 standard errors, which one of seven comparisons with ZINC's tables may well be by chance. "
    "Settings and parameters were compared with the published ones: bonds start as the sum of their atoms, and nothing "
    "else differs from CIN. CIN-small without edge features came out 1.9 standard errors on the other side."
)
_TWO_LAYERS = (
    "CIN-small has two layers, and without rings an atom hears no further than two bonds. With four layers of the "
    "same width the figure is the paper's, so it seems to be that of a deeper network."
)
_MOVED = (
    "the runs of this table that name a CPU began on the GPU and went on there from their checkpoints of epoch 300."
)
_NUMBERED = (
    "of its error of 0.0302, 0.0115 comes from the 21 of 5,000 molecules whose target depends on how atoms are "
    "numbered (see zinc-target). Four of them, off by 19.1, 18.2, 12.1 and 7.0, make nearly all of that: a long cycle "
    "can be found in each, the network counts on the penalty for it, and the cycle basis behind the target happened to "
    "have another. On the other 4,979 the error is 0.0188. On the 24,445 molecules to validate on it is 0.0220, where "
    "CIN at its best epoch has 0.0235."
)
_HIV_STEADY = (
    "the norm and the pooling of ZINC, with all else as in CIN, do not suit these data: the best validation figures "
    "are lower too, 81.7 on average where CIN has 83.6, and come later, in epoch 99 and not 51 in the median. Which of "
    "the two it is has not been looked into."
)
_HIV_COUNTS = (
    "learns molecules by heart: the best validation epoch is the 21st in the median, and the figure falls from then "
    "on. On ZINC the counts do the same (see beyond)."
)
_FOUND = (
    "this is what was chosen, by these figures; ten runs of 1,000 epochs are in zinc. What helps most: means beside "
    "sums in the readout, then the norm, then four layers of width 64 instead of six of 56. The two rows that leave "
    "one of these out were run on a CPU, in float32. Smaller batches may help too, at twice the price. Lower "
    "messages, maxima, all simple cycles instead of rings, weight decay, a higher rate and averaged weights do not. "
    "Dropout harms, be it after layers or before the head, and so do counts of colours, which are learnt by heart."
)
_LAG = (
    "in 18 of the 9,400 epochs after the 60th, the last of them the 365th, the validation error is above 0.5, all "
    "molecules being off, and the epoch after it is as usual. Such an epoch was looked at in a run on a CPU with twice "
    "the rate: the loss of its batches is as usual, but their statistics had moved faster than the norm's averages "
    "follow. The error was 0.67, where plain averages of the same batches gave 0.28, and the epochs around 0.14 to "
    "0.20. This is the price of averages that a single batch can not move far. It goes as the rate falls."
)
_CAGE = (
    "the run of seed 0 stopped at 0.246. From epoch 215 on its error leaps up and down, and what decides is one "
    "molecule of the 10,000: number 1760, a cage with 15 rings of up to 13 atoms, whose bonds hear three times as "
    "much as those of any other. Where an epoch ended less than 5 batches after that one, the median of the test "
    "error is 0.076; after 60 batches and more it is 0.267. The running averages of the batch norm are right for "
    "cages only while they remember it. In CIN it is the other way round: the error is 6 % larger in epochs that end "
    "1 or 2 batches after it, and eight times as large where it is in the last batch. After epoch 150, the other "
    "three runs of CIN++ have one epoch with more than 1.5 times the usual error, one, and none. At the best "
    "validation epoch all four lie between 0.076 and 0.081."
)
_PTC = (
    "the published protocol gives 64.4, which is 1.3 standard errors below the paper's 68.2. Eleven other settings "
    "were tried, one change at a time (see tud-tuning). Ten of them, in seeds, initial features, messages, pooling, "
    "width, depth, rates and batch size, lie between 60.6 and 64.7. With dropout 0.5 before the last map it is 67.6, "
    "within a quarter of a standard error, and the honest figure is 67.1 instead of 59.4: what these settings lack "
    "for 344 molecules is regularisation."
)
_ZINC_SMALL = Small(
    rows=("cin-small",),
    changes=("train.epochs=8", "schedule.patience=2"),
    seeds=1,
    note="one seed of CIN-small, 8 epochs instead of some 400: a curve that goes down, not a result",
)

RING_LENGTHS = tuple(range(10, 32, 2))


def _ring(kind: str, k: int) -> Row:
    layers = 3 if kind == "cin" else k // 2
    changes = (f"data.options={{ k = {k} }}", f"model.layers={layers}")
    return Row(f"{kind.upper()}, k = {k}, {layers} layers", f"ring-transfer-{kind}", changes=changes)


#: What was tried beside the paper's settings on the two smallest TU sets, one change at a time.
_TRIED: dict[str, dict[str, tuple[str, ...]]] = {
    "mutag": {
        "another seed": ("train.seeds=[1]",),
        "a third seed": ("train.seeds=[2]",),
        "350 epochs": ("train.epochs=350",),
        "cells start as means": ("model.init=mean",),
        "messages read what they pass": ("model.shared=true",),
        "mean pooling": ("model.pool=mean",),
        "no dropout": ("model.cell_dropout=0",),
        "width 16": ("model.width=16",),
        "three layers": ("model.layers=3",),
        "rate 0.001": ("train.lr=1e-3",),
    },
    "ptc": {
        "another seed": ("train.seeds=[1]",),
        "a third seed": ("train.seeds=[2]",),
        "cells start as sums": ("model.init=sum",),
        "messages read what they pass": ("model.shared=true",),
        "mean pooling": ("model.pool=mean",),
        "dropout 0.5": ("model.head_dropout=0.5",),
        "width 64": ("model.width=64",),
        "two layers": ("model.layers=2",),
        "rate 0.001": ("train.lr=1e-3",),
        "rate halved every 20": ("schedule.factor=0.5", "schedule.every=20"),
        "batches of 128": ("train.batch_size=128",),
    },
}


def _tried() -> dict[str, Row]:
    return {
        f"{data}-{number}": Row(f"{data.upper()}, {what}", f"tu-{data}", None, changes)
        for data, variants in _TRIED.items()
        for number, (what, changes) in enumerate(variants.items(), 1)
    }


#: The search for a better network on ZINC: changes to CIN together, then to what came out best, one by one.
_STEADY = ("model.norm=robust", "model.pool=both")
_CAPPED = ("model.norm=capped", "model.pool=both")
_FOUR = (*_CAPPED, "model.layers=4", "model.width=64")
_SEARCHED: dict[str, tuple[str, tuple[str, ...]]] = {
    "cin": ("CIN", ()),
    "steady": ("A: robust norm, sums and means", _STEADY),
    "layers-8": ("A, 8 layers, narrower", (*_STEADY, "model.layers=8", "model.width=50")),
    "layers-4": ("A, 4 layers, wider", (*_STEADY, "model.layers=4", "model.width=68")),
    "layers-3": ("A, 3 layers, wider", (*_STEADY, "model.layers=3", "model.width=78")),
    "lr-2": ("A, twice the rate", (*_STEADY, "train.lr=2e-3")),
    "ema-99": ("A, weights averaged with 0.99", (*_STEADY, "train.ema=0.99")),
    "dropout": ("A, dropout 0.05 after every layer", (*_STEADY, "model.dropout=0.05")),
    "capped": ("capped norm, sums and means", _CAPPED),
    "capped-4": ("B: capped norm, sums and means, 4 layers of width 64", _FOUR),
    "capped-4-batch": ("B, but batch norm", (*_FOUR, "model.norm=batch")),
    "capped-4-sum": ("B, but sums alone", (*_FOUR, "model.pool=sum")),
    "capped-4-lr-2": ("B, twice the rate", (*_FOUR, "train.lr=2e-3")),
    "capped-4-decay": ("B, weight decay 1e-5", (*_FOUR, "train.weight_decay=1e-5")),
    "capped-4-head-dropout": ("B, dropout 0.2 before the head", (*_FOUR, "model.head_dropout=0.2")),
    "capped-4-batch-64": ("B, batches of 64", (*_FOUR, "train.batch_size=64")),
    "capped-4-lower": ("B, lower messages, narrower", (*_FOUR, "model.preset=cin++", "model.width=52")),
    "capped-4-all": ("B, maxima too", (*_FOUR, "model.pool=all")),
    "capped-4-counts": ("B, counts of colours", (*_FOUR, "model.counts=512")),
    "capped-4-cycles-8": ("B, all simple cycles up to 8", (*_FOUR, 'data.lifting="cycles:8"')),
}


TABLES: dict[str, Table] = {
    "csl": Table(
        title="Circular skip links",
        measure="accuracy in percent",
        rows={
            "cin": Row("CIN", "csl-cin", (1.0, None)),
            "cin-as-published": Row(
                "CIN, validated on the test folds, 4 seeds",
                "csl-cin",
                (1.0, None),
                ('data.options={ splits = "cwn" }', "train.seeds=[0, 1, 2, 3]"),
            ),
            "gin": Row("GIN", "csl-gin", (0.1, None)),
        },
        protocol="150 graphs of 41 vertices in ten classes, 5 folds, 20 seeds. Adam, 5e-4, halved when the validation "
        "accuracy has not improved for 20 epochs, until it falls below 1e-6; at most 300 epochs. The figure of a seed "
        "is its mean over the folds. The published code validates on its test folds; with the folds of "
        "benchmarking-gnns, which the first row uses, this is not so.",
        figures=_over_seeds,
        paper_runs=20,
        folds=5,
        curves=False,
        small=Small(("cin", "gin"), ("train.epochs=40", "data.fold=0"), 1, "one fold and one seed, 40 epochs"),
    ),
    "ring-transfer": Table(
        title="RingTransfer",
        measure="accuracy in percent",
        rows={f"{kind}-{k}": _ring(kind, k) for kind in ("cin", "gin") for k in RING_LENGTHS},
        protocol="Rings of k vertices. The target vertex has to tell which of five classes the opposite one carries: "
        "5,000 rings to train on, 500 to validate, 500 to test. CIN has 3 layers, GIN ⌊k/2⌋. Adam, 1e-3, halved when "
        "the validation accuracy has not improved for 5 epochs, until it falls below 1e-5; batches of 128; 5 seeds. "
        "There are five different rings up to numbering, so accuracies are multiples of 20 %. As in the published "
        "code, GIN has batch norm, and CIN's first layer reads features as wide as the input. With features as wide as "
        "its layers, 44 of 55 runs of CIN ended at 100 %: no difference.",
        figures=_at_the_stop,
        paper_runs=5,
        curves=False,
        small=Small(
            ("cin-10", "gin-10", "cin-20", "gin-20"),
            ("train.epochs=10",),
            1,
            "rings of 10 and 20 vertices, one seed, 10 epochs",
        ),
    ),
    "tud": Table(
        title="TU data sets",
        measure="accuracy in percent",
        rows={
            "mutag": Row("MUTAG", "tu-mutag", (0.927, 0.061)),
            "ptc": Row("PTC", "tu-ptc", (0.682, 0.056), remark=_PTC),
            "proteins": Row("PROTEINS", "tu-proteins", (0.770, 0.043)),
            "nci1": Row("NCI1", "tu-nci1", (0.836, 0.014)),
            "nci109": Row("NCI109", "tu-nci109", (0.840, 0.016)),
            "imdb-b": Row("IMDB-B", "tu-imdb-b", (0.756, 0.037)),
            "imdb-m": Row("IMDB-M", "tu-imdb-m", (0.527, 0.031)),
            "reddit-b": Row("REDDIT-B", "tu-reddit-b", (0.924, 0.021)),
        },
        protocol="Ten folds, trained on nine of them. The published figure is the protocol of GIN: of all epochs the "
        "one whose mean over the ten test folds is best, so the epoch is chosen on the very folds that are reported. "
        "Beside it the honest figure: for every fold, the epoch with the best mean over the other nine. Settings are "
        "the paper's, which were searched on the same folds.",
        figures=_over_folds,
        folds=10,
        small=Small(("mutag", "ptc"), ("train.epochs=20",), 1, "MUTAG and PTC, 20 epochs"),
    ),
    "tud-tuning": Table(
        title="TU data sets, other settings",
        measure="accuracy in percent",
        rows=_tried(),
        protocol="The settings of MUTAG and PTC, each with one change; figures as for the TU data sets, where the "
        "paper has 92.7 ± 6.1 and 68.2 ± 5.6. The paper searched its settings on the same folds. The best of many rows "
        "is flattered twice, by the epoch and by the choice of a row: it shows how far such a search goes, and is no "
        "result.",
        figures=_over_folds,
        folds=10,
        small=Small(("mutag-1",), ("train.epochs=20", "data.fold=0"), 1, "one fold of one row, 20 epochs"),
    ),
    "zinc": Table(
        title="ZINC",
        measure="mean absolute error",
        rows={
            "cin": Row("CIN", "zinc-cin", (0.079, 0.006), remark=_SPIKES),
            "cin-small": Row("CIN-small", "zinc-cin-small", (0.094, 0.004)),
            "cin-no-edges": Row("CIN, no edge features", "zinc-cin-no-edges", (0.115, 0.003), remark=_NO_EDGES),
            "cin-small-no-edges": Row("CIN-small, no edge features", "zinc-cin-small-no-edges", (0.139, 0.008)),
            "cin++": Row("CIN++, lower messages too", "zinc-cin++", remark=_CAGE),
            "steady": Row("steady CIN, past the paper", "zinc-steady", remark=_LAG),
        },
        protocol=_ZINC + _ZINC_STEADY,
        figures=_at_the_stop,
        lower=True,
        percent=False,
        small=_ZINC_SMALL,
    ),
    "beyond": Table(
        title="Beyond CIN: a search on ZINC",
        measure="validation mean absolute error without the largest hundredth of errors",
        rows={
            key: Row(label, "zinc-500k", None, changes, remark=_FOUND if key == "capped-4" else "")
            for key, (label, changes) in _SEARCHED.items()
        },
        protocol="At most 500,000 parameters; 200 epochs, unless the row says otherwise, in which the rate falls from "
        "1e-3 along a cosine; batches of 128, products in tf32; 2 seeds. Variants are compared by their validation "
        "error alone: runs keep no test figures. The ten largest of 1,000 errors are left out: one molecule, whose "
        "target depends on how its atoms are numbered (see zinc-target), moved the mean by up to 0.012.",
        figures=_unseen,
        lower=True,
        percent=False,
        blind=True,
        small=Small(
            ("steady",),
            ("train.epochs=3", "train.precision=float32", "model.width=16"),
            1,
            "one seed of one row, narrower, 3 epochs",
        ),
    ),
    "zinc-ablation": Table(
        title="ZINC, ablation",
        measure="mean absolute error",
        rows={
            "no-rings": Row("CIN without rings", "zinc-no-rings", (0.159, 0.007)),
            "no-rings-small": Row("CIN-small without rings", "zinc-no-rings-small", (0.174, 0.006), remark=_TWO_LAYERS),
            "no-rings-small-4": Row(
                "the same with four layers", "zinc-no-rings-small", None, ("model.layers=4", "train.seeds=[0, 1, 2, 3]")
            ),
            "gin-e": Row("GIN-E", "zinc-gin-e", (0.196, 0.007), remark=_MOVED),
        },
        protocol=_ZINC,
        figures=_at_the_stop,
        lower=True,
        percent=False,
        small=Small(("no-rings-small",), _ZINC_SMALL.changes, 1, "one seed of CIN-small without rings, 8 epochs"),
    ),
    "zinc-full": Table(
        title="ZINC-FULL",
        measure="mean absolute error",
        rows={
            "cin": Row("CIN", "zinc-full-cin", (0.022, 0.002), remark=_FULL_SPIKES),
            "cin-small": Row("CIN-small", "zinc-full-cin-small", (0.044, 0.003)),
            "steady": Row("steady CIN, past the paper", "zinc-full-steady", remark=_NUMBERED),
        },
        protocol="220,011 molecules to train on. As for ZINC, but halved after 5 epochs without improvement, and at "
        "most 150 epochs; 4 seeds. Steady CIN is that of ZINC: 100 epochs, in which the rate falls along a cosine.",
        figures=_at_the_stop,
        paper_runs=4,
        lower=True,
        percent=False,
        small=Small(("cin-small",), ("train.epochs=1",), 1, "one seed of CIN-small, one epoch"),
    ),
    "peptides-func": Table(
        title="Peptides-func",
        measure="average precision in percent",
        rows={
            "cin": Row("CIN", "peptides-cin"),
            "steady": Row("steady CIN", "peptides-cin", None, _CAPPED),
        },
        protocol="Not in the paper: ten functions of 15,535 peptides, from the Long Range Graph Benchmark, with its "
        "split; rings up to 8, less than 500,000 parameters. Adam, 1e-3 along a cosine, 100 epochs, batches of 128, "
        "dropout 0.1 after every layer. Test figure at the epoch of the best validation figure; 4 seeds.",
        figures=_at_the_best,
        small=Small(("steady",), ("train.epochs=1",), 1, "one seed of one row, one epoch"),
    ),
    "molhiv": Table(
        title="ogbg-molhiv",
        measure="ROC-AUC in percent",
        rows={
            "cin": Row("CIN", "molhiv-cin", (0.8094, 0.0057)),
            "cin-small": Row("CIN-small", "molhiv-cin-small", (0.8055, 0.0104)),
            "steady": Row("steady CIN, past the paper", "molhiv-cin", None, _CAPPED, remark=_HIV_STEADY),
            "counts": Row(
                "and counts of CWL colours", "molhiv-cin", None, (*_CAPPED, "model.counts=2048"), remark=_HIV_COUNTS
            ),
        },
        protocol="Scaffold split of OGB; rings up to 6. Adam, 1e-4, constant, dropout 0.5 after every layer and before "
        "the last, 150 epochs, batches of 128. Test figure at the epoch of the best validation figure; 10 seeds.",
        figures=_at_the_best,
        small=Small(("cin-small",), ("train.epochs=3",), 1, "one seed of CIN-small, 3 epochs"),
    ),
}
