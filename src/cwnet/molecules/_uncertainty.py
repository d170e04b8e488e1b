"""Intervals around predicted numbers: four ways to say how wide they are, each calibrated on the validation part.

A kind says how far off values may be on either side of a prediction (`widths`), up to a factor for each column and
level, which comes from the validation part (`factors`). An interval reaches from mean - factor * below to
mean + factor * above; the mean is that of networks and trees, weighed, whatever the kind.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar, Self

import torch
from torch import Tensor

from cwnet.errors import CwnetError
from cwnet.molecules._defaults import TRUST
from cwnet.molecules._prediction import ModelError, Prediction
from cwnet.molecules._trust import conformal_rank, floors

__all__ = [
    "KINDS",
    "Conformal",
    "ConformalQuantiles",
    "EnsembleSpread",
    "MeanVariance",
    "Uncertainty",
    "check_kind",
    "check_task",
]

#: No width is less than this part of the usual one: parts that agree by accident know no more for it.
_LEAST = 0.1


@dataclass(frozen=True, eq=False)
class Uncertainty(ABC):
    """How wide intervals are. All fields but the names are tensors, and these are what a model folder keeps.

    Attributes:
        kind: its name on the command line.
        head: the loss whose outputs it reads, one of `cwnet.train`'s for networks that say how sure they are; None
            where networks say what they predict and no more.
        said: in a sentence.
        names: the columns.
    """

    kind: ClassVar[str]
    head: ClassVar[str | None] = None
    said: ClassVar[str]

    names: tuple[str, ...]

    @classmethod
    @abstractmethod
    def fit(cls, found: Prediction, values: Tensor, names: Sequence[str]) -> Self:
        """Calibrate on molecules that were not trained on.

        Args:
            found: what the model says of them.
            values: what is so, [molecules, columns], NaN where empty.
            names: the columns.
        """

    @abstractmethod
    def widths(self, found: Prediction) -> tuple[Tensor, Tensor]:
        """How far below and above the predictions values may lie, up to a factor; [molecules, columns] both."""

    @abstractmethod
    def factors(self, level: float) -> Tensor:
        """What widths are multiplied by, [columns].

        Raises:
            ModelError: where there were too few validation molecules for such a level.
        """

    @abstractmethod
    def usual_widths(self) -> Tensor:
        """The widths of a usual molecule, the mean of both sides, [columns]."""

    def margins(self, found: Prediction, level: float) -> tuple[Tensor, Tensor]:
        """How far intervals that hold the value with this probability reach below and above the predictions."""
        factors = self.factors(_checked(level))
        below, above = self.widths(found)
        return factors * below, factors * above

    def interval(self, found: Prediction, level: float) -> tuple[Tensor, Tensor]:
        """Intervals that hold the value with this probability: their lower and upper ends, [molecules, columns].

        It holds for molecules like those of the validation part, on average over them.

        Args:
            found: predictions of numbers.
            level: the probability, between 0 and 1.

        Raises:
            ModelError: where there were too few validation molecules for such a level.
        """
        below, above = self.margins(found, level)
        return found.mean - below, found.mean + above

    def usual(self, level: float) -> list[float]:
        """Half the width of the interval of a usual molecule, per column."""
        widths: list[float] = (self.factors(_checked(level)) * self.usual_widths()).tolist()
        return widths

    def tensors(self) -> dict[str, Tensor]:
        """All that it knows, by name."""
        known = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "names"}
        return {name: tensor.contiguous() for name, tensor in known.items() if tensor is not None}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor], names: Sequence[str]) -> Self:
        """What `tensors` gave, and perhaps more.

        Raises:
            ValueError: for what it cannot have given.
        """
        wanted = [f.name for f in fields(cls) if f.name != "names"]
        found = cls(tuple(names), **{name: tensors[name] for name in wanted if name in tensors})
        found._check()
        return found

    @abstractmethod
    def _check(self) -> None:
        """Refuse tensors that do not fit the columns."""


def _checked(level: float) -> float:
    if not 0 < level < 1:
        raise ModelError(f"the level {level:g} of an interval must lie between 0 and 1, as in 0.9")
    return level


def _scores(found: Prediction, values: Tensor, below: Tensor, above: Tensor) -> Tensor:
    """How many widths off each prediction is; NaN where the value is not known."""
    off = values.double() - found.mean
    return torch.where(off < 0, -off / below, off / above)


def _ranks(scores: Tensor, names: Sequence[str], level: float) -> Tensor:
    """Split conformal prediction: of n scores the ⌈(n + 1) level⌉-th smallest, per column."""
    ranks = []
    for name, column in zip(names, scores.T, strict=True):
        rank = conformal_rank(column, level)
        if rank is None:
            raise ModelError(
                f"{int((~column.isnan()).sum())} validation molecules have {name!r}, too few for intervals of "
                f"{level:.0%}: choose a lower level, or none with --interval 0"
            )
        ranks.append(rank)
    return torch.tensor(ranks, dtype=torch.float64)


# ------------------------------------------------------------------------------------------------ conformal


@dataclass(frozen=True, eq=False)
class Conformal(Uncertainty):
    """Split conformal prediction, normalised by the spread.

    With s a molecule's spread and m the median spread of the validation part, the half width is q (s + m), where q is
    the ⌈(n + 1) level⌉-th smallest of the n scores |y - prediction| / (s + m) of the validation part (Lei et al.,
    2018). Where the parts of the model differ, intervals are wider. Without spreads, all have the same.

    Attributes:
        residuals: |y - prediction| of the validation part, [molecules, columns], NaN where empty.
        spreads: of the same, in the same shape; None where there is none.
    """

    kind: ClassVar[str] = "conformal"
    said: ClassVar[str] = "Split conformal intervals, wider where networks and trees differ."

    residuals: Tensor
    spreads: Tensor | None = None

    @classmethod
    def fit(cls, found: Prediction, values: Tensor, names: Sequence[str]) -> Self:
        return cls(tuple(names), (values.double() - found.mean).abs(), found.spread)

    def widths(self, found: Prediction) -> tuple[Tensor, Tensor]:
        if self.spreads is None or found.spread is None:
            same = torch.ones_like(found.mean)
            return same, same
        width = found.spread + floors(self.spreads)
        return width, width

    def factors(self, level: float) -> Tensor:
        scores = self.residuals if self.spreads is None else self.residuals / (self.spreads + floors(self.spreads))
        return _ranks(scores, self.names, level)

    def usual_widths(self) -> Tensor:
        return torch.ones(len(self.names)).double() if self.spreads is None else 2 * floors(self.spreads)

    def _check(self) -> None:
        if self.residuals.shape[1:] != (len(self.names),):
            raise ValueError(f"residuals of shape {tuple(self.residuals.shape)} for {len(self.names)} targets")
        if self.spreads is not None and self.spreads.shape != self.residuals.shape:
            raise ValueError(f"spreads of shape {tuple(self.spreads.shape)}, unlike the residuals")


@dataclass(frozen=True, eq=False)
class ConformalQuantiles(Uncertainty):
    """Conformalised quantile regression: the networks give a lower and an upper quantile of their own.

    Networks are trained by the pinball loss for the median and the quantiles of 5 % and 95 %. The trees have no
    quantiles: the prediction is the blend of both, as ever, and on either side the width is the networks' own, from
    median to quantile, plus the spread of networks and trees. The score of a molecule is how many widths its value lies
    off on its side, and the factor is the ⌈(n + 1) level⌉-th smallest of the n scores of the validation part: CQR
    (Romano et al., 2019) in the form that scales both sides (Sesia & Candès, 2020), so that one pair of quantiles
    serves all levels.

    Attributes:
        usual_width: the median width of the validation part, the mean of both sides, [columns].
        scores: of the validation part, [molecules, columns], NaN where empty.
    """

    kind: ClassVar[str] = "quantile"
    head: ClassVar[str | None] = "pinball"
    said: ClassVar[str] = "Conformalised quantiles of the networks; they may reach further up than down."

    usual_width: Tensor
    scores: Tensor

    @staticmethod
    def sides(found: Prediction) -> tuple[Tensor, Tensor]:
        """The widths below and above as they come."""
        if found.below is None or found.above is None:
            raise ModelError("these predictions have no quantiles: they are of a model that was trained without")
        spread = 0.0 if found.spread is None else found.spread
        return found.below + spread, found.above + spread

    @classmethod
    def fit(cls, found: Prediction, values: Tensor, names: Sequence[str]) -> Self:
        below, above = cls.sides(found)
        usual = floors((below + above) / 2)
        return cls(tuple(names), usual, _scores(found, values, _at_least(below, usual), _at_least(above, usual)))

    def widths(self, found: Prediction) -> tuple[Tensor, Tensor]:
        below, above = self.sides(found)
        return _at_least(below, self.usual_width), _at_least(above, self.usual_width)

    def factors(self, level: float) -> Tensor:
        return _ranks(self.scores, self.names, level)

    def usual_widths(self) -> Tensor:
        return self.usual_width

    def _check(self) -> None:
        _check_widths(self.usual_width, self.names)
        if self.scores.shape[1:] != (len(self.names),):
            raise ValueError(f"scores of shape {tuple(self.scores.shape)} for {len(self.names)} targets")


def _at_least(widths: Tensor, usual: Tensor) -> Tensor:
    return torch.maximum(widths, _LEAST * usual)


def _check_widths(usual: Tensor, names: Sequence[str]) -> None:
    if usual.shape != (len(names),) or not bool((usual > 0).all()):
        raise ValueError(f"these are no widths of {len(names)} targets: {usual.tolist()!s:.100}")


# ------------------------------------------------------------------------------------------------ normal distributions


@dataclass(frozen=True, eq=False)
class _Normal(Uncertainty):
    """Errors that are taken to be normal, with a standard deviation of each molecule: mean ± z(level) factor deviation.

    The one factor of a column is the mean of those that would be right for the levels of 80, 90 and 95 % on the
    validation part. So there are intervals of any level, even where the validation part is small; and where errors are
    not normal, those of a level hold a little more or less than they should.

    Attributes:
        usual_width: the median deviation of the validation part, [columns].
        factor: [columns]; NaN where there were too few validation molecules.
    """

    usual_width: Tensor
    factor: Tensor

    @staticmethod
    @abstractmethod
    def deviation(found: Prediction) -> Tensor:
        """The standard deviations as they come."""

    @classmethod
    def fit(cls, found: Prediction, values: Tensor, names: Sequence[str]) -> Self:
        deviation = cls.deviation(found)
        usual = floors(deviation)
        width = _at_least(deviation, usual)
        factors = [_factor(column) for column in _scores(found, values, width, width).T]
        return cls(tuple(names), usual, torch.tensor(factors, dtype=torch.float64))

    def widths(self, found: Prediction) -> tuple[Tensor, Tensor]:
        width = _at_least(self.deviation(found), self.usual_width)
        return width, width

    def factors(self, level: float) -> Tensor:
        for name, factor in zip(self.names, self.factor.tolist(), strict=True):
            if factor != factor:
                raise ModelError(
                    f"too few validation molecules have {name!r} to calibrate intervals on: leave them out with "
                    "--interval 0"
                )
        return self.factor * _z(level)

    def usual_widths(self) -> Tensor:
        return self.usual_width

    def _check(self) -> None:
        _check_widths(self.usual_width, self.names)
        wrong = (self.factor <= 0) | self.factor.isinf()
        if self.factor.shape != (len(self.names),) or bool(wrong.any()):
            raise ValueError(f"these are no factors of {len(self.names)} targets: {self.factor.tolist()!s:.100}")


def _z(level: float) -> float:
    """How many standard deviations to either side hold this part of a normal distribution."""
    return float(torch.special.ndtri(torch.tensor((1 + level) / 2, dtype=torch.float64)))


def _factor(scores: Tensor) -> float:
    ranks = {level: conformal_rank(scores, level) for level in TRUST.levels}
    each = [rank / _z(level) for level, rank in ranks.items() if rank is not None]
    # A model without any error would have intervals of no width, which are not told from damage in a file.
    return max(sum(each) / len(each), 1e-12) if each else float("nan")


@dataclass(frozen=True, eq=False)
class EnsembleSpread(_Normal):
    """The standard deviation is the spread: how far networks and trees differ, and the trees among themselves."""

    kind: ClassVar[str] = "ensemble"
    said: ClassVar[str] = "Normal intervals as wide as networks and trees differ, times one factor."

    @staticmethod
    def deviation(found: Prediction) -> Tensor:
        if found.spread is None:
            raise ModelError("these predictions are of one network: there is nothing that could differ")
        return found.spread


@dataclass(frozen=True, eq=False)
class MeanVariance(_Normal):
    """Mean-variance estimation: the networks give a variance beside their mean, by the Gaussian log-likelihood.

    The prediction is the blend of networks and trees, as ever. The trees give their own spread: the variance is that of
    the networks (the square of the mean of their deviations) plus the square of the spread of networks and trees.
    """

    kind: ClassVar[str] = "mve"
    head: ClassVar[str | None] = "gaussian"
    said: ClassVar[str] = "Normal intervals by the variance that the networks predict and the spread, times one factor."

    @staticmethod
    def deviation(found: Prediction) -> Tensor:
        if found.below is None:
            raise ModelError("these predictions have no variance: they are of a model that was trained without")
        spread = torch.zeros_like(found.below) if found.spread is None else found.spread
        return (found.below.square() + spread.square()).sqrt()


# ------------------------------------------------------------------------------------------------ by name

KINDS: dict[str, type[Uncertainty]] = {
    kind.kind: kind for kind in (Conformal, EnsembleSpread, ConformalQuantiles, MeanVariance)
}


def check_kind(name: str, *, networks: int, trees: bool) -> None:
    """Refuse a kind that there is not, or that these parts of a model cannot give."""
    if name not in KINDS:
        raise CwnetError(f"--uncertainty {name}: write one of {', '.join(KINDS)}")
    if KINDS[name].head is not None and not networks:
        raise CwnetError(f"--uncertainty {name} is learnt by networks: leave out --no-network, or take conformal")
    if name == EnsembleSpread.kind and networks < 2 and not trees:
        raise CwnetError(
            f"--uncertainty {name} is how far the parts of a model differ, and this one has a single network: train "
            "several with --ensemble 3, or leave out --no-trees"
        )


def check_task(name: str | None, task: str) -> None:
    """Refuse intervals of classes."""
    if name is not None and task != "regression":
        raise CwnetError(f"--uncertainty {name} is for numbers: the probabilities of classes are calibrated already")
