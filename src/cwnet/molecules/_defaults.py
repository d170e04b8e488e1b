"""What `cwnet train` does where it is not told otherwise: every choice of a default is here."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from cwnet.errors import CwnetError

__all__ = ["ENSEMBLE", "NETWORK", "TRUST", "TreePlan", "TrustPlan", "split_changes"]

#: The network. A plain batch norm carries what it has seen to molecules unlike those, and a single one may be off by
#: hundreds; this one bounds what comes out.
NETWORK: dict[str, Any] = {"preset": "cin", "width": 64, "layers": 3, "norm": "capped", "pool": "both"}

#: Networks that are trained, each with a seed of its own; their mean is predicted.
ENSEMBLE = 3


@dataclass(frozen=True)
class TreePlan:
    """The trees beside the network: what they see, how many there are, and how they are weighed.

    Attributes:
        count: trees for each column of targets.
        radius, size: of the counted Morgan fingerprints; `size` is 0 for none.
        descriptors: whether they see RDKit's descriptors.
        colours: columns for counted CWL colours; 0 for none.
        support: training molecules that must have a column of a fingerprint for the trees to see it.
        tries: columns that are tried at each branch, as a part of all, for numbers.
        class_tries: the same for classes; 0 for the square root of their number.
        rows: molecules to grow them on, at the most.
        nodes: of all trees, at the most, or so: leaves hold more molecules where it would be more. A node takes some
            twelve bytes.
        shrink: how many validation molecules the weight of one half counts as, when the weight of the network against
            that of the trees is chosen on the validation part. None for one half whatever they say.
    """

    count: int = 200
    radius: int = 2
    size: int = 2048
    descriptors: bool = True
    colours: int = 0
    support: int = 3
    tries: float = 0.3
    class_tries: float = 0.0
    rows: int = 50_000
    nodes: int = 12_000_000
    shrink: float | None = 100.0

    def __post_init__(self) -> None:
        limits = (("count", 1, 10_000), ("radius", 0, 8), ("size", 0, 16_384), ("colours", 0, 16_384),
                  ("support", 1, 10**9), ("rows", 10, 10**9), ("nodes", 1_000, 10**9))  # fmt: skip
        for name, least, most in limits:
            value = getattr(self, name)
            if type(value) is not int or not least <= value <= most:
                raise CwnetError(f"trees.{name}={value}: it must be a whole number from {least} to {most}")
        if type(self.descriptors) is not bool:
            raise CwnetError(f"trees.descriptors={self.descriptors}: write true or false")
        for name in ("tries", "class_tries"):
            if not 0 <= getattr(self, name) <= 1:
                raise CwnetError(f"trees.{name}={getattr(self, name)}: it is a part of all columns, from 0 to 1")
        if self.shrink is not None and not self.shrink >= 0:
            raise CwnetError(f"trees.shrink={self.shrink}: it must be at least 0, or none")
        if not (self.size or self.colours or self.descriptors):
            raise CwnetError("the trees have nothing to see: leave them fingerprints, descriptors or colours")

    def changed(self, changes: tuple[str, ...]) -> TreePlan:
        """The same with other values, as in "trees.count=100"."""
        known = [field.name for field in fields(self)]
        values: dict[str, Any] = {}
        for change in changes:
            key, _, text = change.partition("=")
            name = key.strip().removeprefix("trees.")
            if name not in known:
                raise CwnetError(f"--set {change}: trees have {', '.join(known)}")
            values[name] = _read(change, text.strip())
        return replace(self, **values)


def _read(change: str, text: str) -> int | float | bool | None:
    words: dict[str, bool | None] = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    raise CwnetError(f"--set {change}: {text!r} is not a number, true, false or none")


def split_changes(changes: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Those of the recipe of the network, and those of the trees."""
    trees = tuple(change for change in changes if change.lstrip().startswith("trees."))
    return tuple(change for change in changes if change not in trees), trees


@dataclass(frozen=True)
class TrustPlan:
    """How far predictions are to be believed.

    Attributes:
        levels: of the intervals whose coverage is reported.
        nearest: training molecules that novelty looks at.
        kept: training molecules that are kept to compare others with, at the most.
        radius, size: of the counted fingerprints that are compared.
        outside: the part of the validation molecules that count as like the training molecules; what is more novel
            than these is outside.
        prior: how many molecules stand for probabilities being right as they are, when they are calibrated.
    """

    levels: tuple[float, ...] = (0.8, 0.9, 0.95)
    nearest: int = 3
    kept: int = 10_000
    radius: int = 2
    size: int = 2048
    outside: float = 0.99
    prior: float = 10.0


TRUST = TrustPlan()
