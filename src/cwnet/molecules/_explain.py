"""Which atoms, bonds and rings a prediction comes from: integrated gradients on the encoded cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cwnet.chem._reaction_featuriser import ReactionFeaturiser
from cwnet.chem._read import parse
from cwnet.complexes import CellComplex, ComplexBatch, ComplexStore
from cwnet.errors import CwnetError
from cwnet.molecules._inputs import check_wanted
from cwnet.molecules._model import MoleculeModel
from cwnet.nn import CIN

__all__ = ["Explanation", "explain"]

#: Cells whose gradients are computed at once, which bounds the memory.
_CELLS = 16_384
#: Points on the path: as many as it takes, from the first number to the last.
_POINTS = (32, 128, 512)
#: Largest part of the change that the contributions may miss before more points are taken.
_TOLERANCE = 0.01
_NAMES = ("atom", "bond", "ring")


@dataclass(frozen=True, eq=False)
class Explanation:
    """How a prediction comes about.

    Attributes:
        smiles: the molecule.
        target: what was predicted: a column, or "column=label" of classes.
        complex: its complex.
        contributions: of the cells of every dimension, [cells] each, in the unit of the target, or in `unit`.
        value: the prediction, in the same unit.
        baseline: what is predicted for the saturated hydrocarbon with the same skeleton.
        missing: value - baseline - the sum of all contributions; 0 if they were exact.
        unit: "log-odds" of two classes, "logit" of more; empty for numbers.
        descriptors: the contributions of the numbers that the networks see beside the molecule, by their names.
        parts: of a row of several molecules, the atoms that each has, by their names; `smiles` has a dot between them.
    """

    smiles: str
    target: str
    complex: CellComplex
    contributions: tuple[Tensor, ...]
    value: float
    baseline: float
    missing: float
    unit: str = ""
    descriptors: Mapping[str, float] = field(default_factory=dict)
    parts: Mapping[str, range] = field(default_factory=dict)

    @property
    def total(self) -> float:
        """The sum of all contributions."""
        return sum(self.sums.values())

    @property
    def sums(self) -> dict[str, float]:
        """The sums over atoms, bonds and rings, and over descriptors if there are any."""
        found = {f"{_NAMES[d]}s": float(c.sum()) for d, c in enumerate(self.contributions)}
        return found | ({"descriptors": sum(self.descriptors.values())} if self.descriptors else {})

    @property
    def by_part(self) -> dict[str, float]:
        """The sums over the cells of each molecule of a row; empty where it is one."""
        rows = [row for row in self.rows() if row["atoms"]]
        return {
            name: sum(row["contribution"] for row in rows if row["atoms"][0] in atoms)
            for name, atoms in self.parts.items()
        }

    @property
    def counts(self) -> dict[str, int]:
        """How many there are of each kind that `sums` has."""
        return dict(zip(self.sums, [*map(len, self.contributions), len(self.descriptors)], strict=False))

    def rows(self) -> list[dict[str, Any]]:
        """All cells with their atoms and contributions, and all descriptors, the largest first.

        Atoms are numbered from 0 in the order of the SMILES; `name` has their elements too, as in "C4 O5".
        """
        symbols = [atom.GetSymbol() for atom in parse(self.smiles).GetAtoms()]
        found = []
        for d, values in enumerate(self.contributions):
            members = [(i,) for i in range(len(values))] if d == 0 else self.complex.cells(d)
            for i, (atoms, value) in enumerate(zip(members, values.tolist(), strict=True)):
                name = " ".join(f"{symbols[a]}{a}" for a in atoms)
                found.append(
                    {"cell": _NAMES[d], "number": i, "atoms": list(atoms), "name": name, "contribution": value}
                )
        for i, (name, value) in enumerate(self.descriptors.items()):
            found.append({"cell": "descriptor", "number": i, "atoms": [], "name": name, "contribution": value})
        return sorted(found, key=lambda row: -abs(row["contribution"]))

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "smiles": self.smiles,
            "target": self.target,
            "unit": self.unit,
            "prediction": self.value,
            "baseline": self.baseline,
            **self.sums,
            **({"molecules": self.by_part} if self.parts else {}),
            "missing": self.missing,
            "cells": [row for row in self.rows() if row["cell"] in _NAMES],
            **({"contributions_of_descriptors": dict(self.descriptors)} if self.descriptors else {}),
        }


def explain(
    model: MoleculeModel, smiles: Sequence[str], target: str | None = None, numbers: Any = None
) -> list[Explanation]:
    """The contributions of the cells of molecules to what is predicted.

    The encoder gives every atom, bond and ring a vector h. Let h' be what it gives where all atoms are carbon and all
    bonds single: the saturated hydrocarbon of the same skeleton. With F the rest of the network, a cell contributes

        c_σ = (h_σ - h'_σ) · ∫₀¹ ∂F/∂h_σ (h' + α(h - h')) dα

    (integrated gradients: Sundararajan, Taly and Yan, 2017), and all of these add up to F(h) - F(h'). The mean over the
    networks of the model is taken. What the skeleton itself brings is in F(h'); a baseline of zeros would be a molecule
    that no network has seen the like of. Numbers beside the molecule are part of h; they start from their means over
    the training molecules.

    Args:
        model: the model.
        smiles: molecules; where a row has several, all of its SMILES with commas between them.
        target: the column, or "column=label" for one of several classes; by default the first column, or the class that
            is predicted. Of two classes the second is explained.
        numbers: [molecules, columns], for a model that was trained with descriptor columns; see `MoleculeModel.inputs`.

    Raises:
        CwnetError: for a target that the model does not predict, or a SMILES that can not be read, with its position.
    """
    check_explained(model)
    outputs = _outputs(model, smiles, target, numbers)
    store = _store(model, smiles, numbers)
    return [_explained(model, store, i, text, *outputs[i]) for i, text in enumerate(smiles)]


def check_explained(model: MoleculeModel) -> None:
    """Refuse a model whose predictions have no contributions."""
    if not model.members:
        raise CwnetError("this model has trees only, and what is explained is a network: train it without --no-network")
    if isinstance(model.featuriser, ReactionFeaturiser):
        raise CwnetError("reactions are not explained: there is no reaction that contributions could start from")
    if model.level.dim is not None:
        raise CwnetError(
            f"this model predicts {model.level.name}s one by one, and what is explained is a number of a whole "
            "molecule: cwnet predict lists what it says of each"
        )


def _store(model: MoleculeModel, smiles: Sequence[str], numbers: Any) -> ComplexStore:
    """What the networks see of molecules."""
    if model.descriptors is None:
        return model.featuriser(smiles)
    inputs = replace(model, trees=None, reference=None).inputs(smiles, numbers)
    check_wanted(inputs, model.descriptors.wanted)
    return model.seen(inputs)


def _outputs(model: MoleculeModel, smiles: Sequence[str], target: str | None, numbers: Any) -> list[tuple[int, str]]:
    """The output of the networks that is explained for each molecule, and its name."""
    output, name = _output(model, target)
    if output is not None and name is not None:
        return [(output, name)] * len(smiles)
    likely = model.predict(model.inputs(smiles, numbers)).mean.argmax(1).tolist()
    return [(i, f"{model.targets.names[0]}={model.targets.classes[0][i]}") for i in likely]


def _output(model: MoleculeModel, target: str | None) -> tuple[int | None, str | None]:
    """Which output of the networks is meant; None for that of the class predicted."""
    targets = model.targets
    if targets.task == "multiclass":
        known = [f"{targets.names[0]}={label}" for label in targets.classes[0]]
        if target is None or target == targets.names[0]:
            return None, None
    else:
        known = list(targets.names)
    if target is None:
        return 0, known[0]
    if target not in known:
        raise CwnetError(f"the model does not predict {target!r}: choose one of {', '.join(map(repr, known))}")
    return known.index(target), target


def _explained(model: MoleculeModel, store: ComplexStore, i: int, smiles: str, output: int, name: str) -> Explanation:
    scale = model.targets.std[output] if model.targets.task == "regression" else 1.0
    shift = model.targets.mean[output] if model.targets.task == "regression" else 0.0
    found = [_gradients(member, model, store, i, output) for member in model.members]
    contributions = tuple(torch.stack(c).mean(0) * scale for c in zip(*(each[0] for each in found), strict=True))
    value = sum(each[1] for each in found) / len(found) * scale + shift
    baseline = sum(each[2] for each in found) / len(found) * scale + shift
    missing = value - baseline - float(sum(c.sum() for c in contributions))
    labels = () if model.descriptors is None else model.descriptors.labels
    beside = dict(zip(labels, contributions[-1].tolist() if labels else (), strict=True))
    contributions = contributions[: len(store.cell_ptr)]
    unit = {"regression": "", "multiclass": "logit"}.get(model.targets.task, "log-odds")
    texts = model.featuriser.split(smiles)
    parts = _parts(model.featuriser.parts, texts)
    return Explanation(".".join(texts), name, store[i], contributions, value, baseline, missing, unit, beside, parts)


def _parts(names: Sequence[str], smiles: Sequence[str]) -> dict[str, range]:
    """The atoms of each molecule of a row."""
    ends = list(accumulate((parse(text).GetNumAtoms() for text in smiles), initial=0)) if names else []
    return {name: range(*ends[i : i + 2]) for i, name in enumerate(names)}


def _gradients(
    member: CIN, model: MoleculeModel, store: ComplexStore, i: int, output: int
) -> tuple[list[Tensor], float, float]:
    """Contributions, and the network's output for the molecule and for its skeleton.

    Those of cells come dimension by dimension; those of descriptors, if there are any, last.
    """
    alone = store.select([i])
    with torch.no_grad():
        ends = [member.encoder(s.batch().to(model.device)) for s in (alone, model.featuriser.saturated(alone))]
        batch = alone.batch().to(model.device)
        if batch.complex_x is not None:
            ends = [[*ends[0], batch.complex_x], [*ends[1], torch.zeros_like(batch.complex_x)]]
        value, baseline = (float(_after(member, batch, h)[0, output]) for h in ends)
    for points in _POINTS:
        products = _integrated(member, alone, ends[0], ends[1], output, points)
        contributions = [product.sum(1) for product in products[: len(store.cell_ptr)]]
        contributions += [product[0] for product in products[len(store.cell_ptr) :]]
        missed = abs(sum(float(c.sum()) for c in contributions) - (value - baseline))
        if missed <= _TOLERANCE * abs(value - baseline):
            break
    return contributions, value, baseline


def _integrated(
    member: CIN, alone: ComplexStore, h: Sequence[Tensor], start: Sequence[Tensor], output: int, points: int
) -> list[Tensor]:
    """The integral by Gauss and Legendre: the molecule as often as there are points, some at a time."""
    nodes, weights = (torch.from_numpy(a) for a in np.polynomial.legendre.leggauss(points))
    at_once = max(1, _CELLS // sum(alone.num_cells))
    parts = [
        _slope(member, alone, h, start, output, some, weight)
        for some, weight in zip(torch.split((nodes + 1) / 2, at_once), torch.split(weights / 2, at_once), strict=True)
    ]
    return [
        (sum(part[1:], part[0]) * (x - x0)).detach().cpu().double()
        for *part, x, x0 in zip(*parts, h, start, strict=True)
    ]


def _slope(
    member: CIN,
    alone: ComplexStore,
    h: Sequence[Tensor],
    start: Sequence[Tensor],
    output: int,
    at: Tensor,
    weight: Tensor,
) -> list[Tensor]:
    """The gradient at some points on the way, summed with weights. The copies of the molecule are one batch."""
    where, dtype = h[0].device, h[0].dtype
    many = alone.batch([0] * len(at)).to(where)
    at, weight = (numbers.to(where, dtype)[:, None, None] for numbers in (at, weight))
    inputs = [(x0 + at * (x - x0)).flatten(0, 1).requires_grad_() for x, x0 in zip(h, start, strict=True)]
    total = _after(member, many, inputs)[:, output].sum()
    gradients = torch.autograd.grad(total, inputs, allow_unused=True, materialize_grads=True)
    # Norms in evaluation mode look at one cell at a time, so copies do not disturb each other.
    return [(g.reshape(len(at), *x.shape) * weight).sum(0) for g, x in zip(gradients, h, strict=True)]


def _after(member: CIN, batch: ComplexBatch, h: Sequence[Tensor]) -> Tensor:
    """The output of a network whose encoder gives these vectors; descriptors, if there are any, are the last."""
    if batch.complex_x is not None:
        *h, beside = h
        batch = replace(batch, complex_x=beside)
    rest = CIN.__new__(CIN)
    rest.__dict__.update(member.__dict__)
    rest.__dict__["_modules"] = {**member._modules, "encoder": _Given(h)}
    out: Tensor = rest(batch)
    return out


class _Given(torch.nn.Module):
    """Vectors in the place of an encoder."""

    def __init__(self, h: Sequence[Tensor]) -> None:
        super().__init__()
        self.h = h

    def forward(self, batch: ComplexBatch) -> list[Tensor]:
        return list(self.h)
