"""How far a prediction is to be believed: intervals, calibrated probabilities, and how novel a molecule is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cwnet import _core
from cwnet.chem._descriptors import Counts
from cwnet.lifting._lift import num_threads
from cwnet.molecules._defaults import TRUST
from cwnet.molecules._inputs import Wanted
from cwnet.molecules._targets import Targets

__all__ = ["Calibration", "Reference", "conformal_rank", "fit_calibration", "floors"]

#: Probabilities are kept off 0 and 1 by this.
_EDGE = 1e-4


# ------------------------------------------------------------------------------------------------ intervals


def floors(spreads: Tensor) -> Tensor:
    """What is added to the spread of a molecule before it scales an interval, [columns]: the median of the spreads.

    So that a molecule on which all parts agree, perhaps by accident, has half the width of a usual one at the least.
    """
    median = torch.nan_to_num(spreads.nanmedian(0).values, nan=0.0)
    return torch.where(median > 0, median, 1.0)


def conformal_rank(scores: Tensor, level: float) -> float | None:
    """The ⌈(n + 1) level⌉-th smallest of n scores, NaN aside; None where there are too few for it."""
    known = scores[~scores.isnan()].sort().values
    rank = math.ceil((len(known) + 1) * level)
    return None if rank > len(known) else float(known[rank - 1])


# ------------------------------------------------------------------------------------------------ probabilities


@dataclass(frozen=True)
class Calibration:
    """Probabilities as they were on the validation part: logit q = a logit p + b (Platt, 1999), a column each.

    Of more than two classes, q is p to the power of a, and adds up to 1.

    Attributes:
        slope: a, larger than 0, so that the order of molecules stays.
        shift: b; 0 for more than two classes.
    """

    slope: tuple[float, ...]
    shift: tuple[float, ...]

    def __call__(self, p: Tensor) -> Tensor:
        """Probabilities, [molecules, outputs], calibrated."""
        slope, shift = (torch.tensor(each, dtype=torch.float64) for each in (self.slope, self.shift))
        if p.shape[1] != len(self.slope):
            return (p.clamp(min=_EDGE).log() * slope).softmax(1)
        return (_logit(p) * slope + shift).sigmoid()

    @classmethod
    def from_dict(cls, table: Mapping[str, Any], targets: Targets) -> Calibration:
        """What was written, or JSON made of it.

        Raises:
            ValueError: for what cannot have been written.
        """
        found = cls(tuple(map(float, table["slope"])), tuple(map(float, table["shift"])))
        numbers = (*found.slope, *found.shift)
        fits = len(found.slope) == len(found.shift) == len(targets.names) and targets.task != "regression"
        if not fits or not all(map(math.isfinite, numbers)) or not all(a > 0 for a in found.slope):
            raise ValueError(f"this is no calibration: {dict(table)!s:.200}")
        return found


def _logit(p: Tensor) -> Tensor:
    return torch.logit(p, eps=_EDGE)


def fit_calibration(targets: Targets, values: Tensor, p: Tensor, prior: float = TRUST.prior) -> Calibration:
    """The calibration with the least log loss, held near none by the weight of `prior` molecules.

    A column whose molecules are all of one class says nothing of the other, and stays as it is.

    Args:
        targets: classes.
        values: the truth, [molecules, columns], NaN where empty.
        p: probabilities of the model, [molecules, outputs].
        prior: how strongly to hold.
    """
    slopes, shifts = [], []
    for i in range(len(targets.names)):
        there = ~values[:, i].isnan()
        y = values[there, i].long()
        if not len(y) or bool((y == y[0]).all()):
            slopes.append(1.0)
            shifts.append(0.0)
            continue
        several = targets.task == "multiclass"
        z = p[there].clamp(min=_EDGE).log() if several else _logit(p[there, i])
        a, b = _least_log_loss(z, y, prior, several)
        slopes.append(a)
        shifts.append(b)
    return Calibration(tuple(slopes), tuple(shifts))


def _least_log_loss(z: Tensor, y: Tensor, prior: float, several: bool) -> tuple[float, float]:
    from scipy.optimize import minimize

    def loss(at: NDArray[np.float64]) -> float:
        held = prior / 2 * float(at[0] ** 2 + at[1] ** 2)
        scaled = z * math.exp(at[0])
        if several:
            return held + float(torch.nn.functional.cross_entropy(scaled, y, reduction="sum"))
        logits = scaled + float(at[1])
        return held + float(torch.nn.functional.binary_cross_entropy_with_logits(logits, y.double(), reduction="sum"))

    found = minimize(loss, np.zeros(2), method="Nelder-Mead", options={"xatol": 1e-4, "fatol": 1e-6})
    return math.exp(float(found.x[0])), 0.0 if several else float(found.x[1])


# ------------------------------------------------------------------------------------------------ novelty


@dataclass(frozen=True, eq=False)
class Reference:
    """Training molecules to compare others with.

    Attributes:
        counts: their counted fingerprints.
        radius, size: of these.
        nearest: how many of them a molecule is compared with: those most like it.
        limit: a molecule that is more novel is outside what the model knows.
        parts: molecules of a row, whose fingerprints lie side by side.
    """

    counts: Counts
    radius: int
    size: int
    nearest: int = TRUST.nearest
    limit: float = 1.0
    parts: int = 1

    @property
    def wanted(self) -> Wanted:
        """What has to be known of a molecule."""
        return Wanted(self.radius, self.size)

    def novelty(self, counts: Counts, threads: int | None = None) -> Tensor:
        """1 - the mean Tanimoto similarity to the nearest, [molecules]: 0 for a training molecule with doubles, 1 for
        one that shares nothing with any. Of several molecules in a row it is the largest: each is compared with those
        in its place in the training rows.
        """
        if self.parts == 1:
            return self._novelty(self.counts, counts, threads)
        ends = [(i * self.size, (i + 1) * self.size) for i in range(self.parts)]
        each = [self._novelty(self.counts.between(*end), counts.between(*end), threads) for end in ends]
        return torch.stack(each).amax(0)

    def _novelty(self, known: Counts, counts: Counts, threads: int | None) -> Tensor:
        members, queries = ((c.ptr, c.column, c.times) for c in (known, counts))
        found = _core.nearest_similarity(members, queries, self.size, self.nearest, num_threads(threads))
        return 1 - torch.from_numpy(found).double()

    def tensors(self) -> dict[str, NDArray[Any]]:
        """The arrays, by name."""
        return self.counts._asdict()

    def to_dict(self) -> dict[str, Any]:
        """All but the arrays, as plain data."""
        plain = {"radius": self.radius, "size": self.size, "nearest": self.nearest, "limit": self.limit}
        return plain | ({"parts": self.parts} if self.parts > 1 else {})

    @classmethod
    def from_parts(cls, body: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> Reference:
        """What `to_dict` and `tensors` gave.

        Raises:
            ValueError, KeyError, TypeError: for what they cannot have given.
        """
        radius, size, nearest, limit = (body[key] for key in ("radius", "size", "nearest", "limit"))
        parts = body.get("parts", 1)
        for number, least, most in ((radius, 0, 8), (size, 1, 65_536), (nearest, 1, 1_000), (parts, 1, 8)):
            if type(number) is not int or not least <= number <= most:
                raise ValueError(f"{number!r} in the description of the training molecules")
        if type(limit) is not float or not 0 <= limit <= 1:
            raise ValueError(f"a limit of {limit!r} to novelty")
        kinds = {"ptr": "int64", "column": "uint16", "times": "uint8"}
        for name, kind in kinds.items():
            if tensors[name].dtype != np.dtype(kind) or tensors[name].ndim != 1:
                raise ValueError(f"{name} of the training molecules is {tensors[name].dtype}, not {kind}")
        counts = Counts(*(tensors[name] for name in kinds))
        ptr = counts.ptr
        whole = len(ptr) > 1 and ptr[0] == 0 and (np.diff(ptr) >= 0).all() and ptr[-1] == len(counts.column)
        if not whole or len(counts.times) != len(counts.column) or (counts.column >= parts * size).any():
            raise ValueError("fingerprints of training molecules that lead nowhere")
        return cls(counts, radius, size, nearest, limit, parts)


def limit_of(novelty: Sequence[float] | Tensor, part: float = TRUST.outside) -> float:
    """The novelty that this part of molecules does not exceed."""
    found = np.quantile(np.asarray(novelty, dtype=np.float64), part, method="higher") if len(novelty) else 1.0
    return float(min(max(found, 0.0), 1.0))
