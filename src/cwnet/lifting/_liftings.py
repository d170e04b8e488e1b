"""Liftings are values: they say which cells to attach, combine with ``|`` and print as what was typed."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar

__all__ = ["Cliques", "Custom", "Cycles", "Lifting", "Rings", "Spec", "Union", "as_lifting"]

MAX_CELLS = 1_000_000
MAX_SECONDS = 30.0


@dataclass(frozen=True)
class Spec:
    """What the C++ core is told: the largest ring, cycle and clique (0: none), the budget, and the rest."""

    rings: int = 0
    cycles: int = 0
    cliques: int = 0
    max_cells: int = 0
    max_seconds: float = 0.0
    custom: tuple[Callable[[Any], Any], ...] = ()

    @cached_property
    def core(self) -> tuple[int, int, int, int, float]:
        """All but the rest, as the core takes it for one graph."""
        return self.rings, self.cycles, self.cliques, self.max_cells, self.max_seconds

    def __or__(self, other: Spec) -> Spec:
        return Spec(
            max(self.rings, other.rings),
            max(self.cycles, other.cycles),
            max(self.cliques, other.cliques),
            max(self.max_cells, other.max_cells),
            max(self.max_seconds, other.max_seconds),
            self.custom + other.custom,
        )


class Lifting(ABC):
    """A rule that attaches cells to a graph; a skeleton-preserving cellular lifting map of the paper."""

    @property
    @abstractmethod
    def dim(self) -> int:
        """The largest dimension of the cells it attaches."""

    @property
    @abstractmethod
    def spec(self) -> Spec:
        """Its form for the C++ core."""

    def __or__(self, other: Lifting | Callable[[Any], Any]) -> Union:
        return Union((self, as_lifting(other)))

    def __ror__(self, other: Callable[[Any], Any]) -> Union:
        return Union((as_lifting(other), self))


@dataclass(frozen=True, repr=False)
class _Sized(Lifting):
    k: int
    max_cells: int = MAX_CELLS
    max_seconds: float = MAX_SECONDS
    _unit: ClassVar[str]
    _largest: ClassVar[int] = 1_000_000_000

    def __post_init__(self) -> None:
        name = type(self).__name__
        if isinstance(self.k, bool) or not isinstance(self.k, int):
            raise TypeError(f"{name}(k) takes a whole number, not {self.k!r}")
        if self.k < 3:
            raise ValueError(
                f"{name}({self.k}) attaches nothing: the smallest {self._unit} has 3 vertices. "
                "Use k ≥ 3, or lifting=None for the graph alone"
            )
        if self.k > self._largest:
            raise ValueError(f"{name}({self.k}): k is at most {self._largest:,}")
        if self.max_cells < 1 or not self.max_seconds > 0:
            raise ValueError(
                f"{name}: the budget must be at least one cell and more than 0 s, "
                f"not max_cells={self.max_cells}, max_seconds={self.max_seconds}"
            )

    @property
    def dim(self) -> int:
        return 2

    @cached_property
    def spec(self) -> Spec:
        size = {type(self).__name__.lower(): self.k}
        return Spec(max_cells=self.max_cells, max_seconds=self.max_seconds, **size)  # type: ignore[arg-type]

    def __repr__(self) -> str:
        given = [
            f"{f.name}={getattr(self, f.name)!r}"
            for f in fields(self)
            if f.name != "k" and getattr(self, f.name) != f.default
        ]
        return f"{type(self).__name__}({', '.join([str(self.k), *given])})"


@dataclass(frozen=True, repr=False)
class Rings(_Sized):
    """k-IC: a 2-cell for every induced (chordless) cycle of at most k vertices.

    In a multigraph two parallel edges are a ring if there is no third, and no larger ring uses one of them.

    Args:
        k: size of the largest ring.
        max_cells, max_seconds: the budget for one graph; see `cwnet.lift_many` for what happens beyond it.
    """

    _unit = "ring"


@dataclass(frozen=True, repr=False)
class Cycles(_Sized):
    """k-C: a 2-cell for every simple cycle of at most k vertices.

    Two cycles on the same vertices are different cells if their edges differ. In a multigraph parallel edges
    give a cycle each, and any two of them a cycle of size two.

    Args:
        k: size of the largest cycle.
        max_cells, max_seconds: the budget for one graph; see `cwnet.lift_many` for what happens beyond it.
    """

    _unit = "cycle"


@dataclass(frozen=True, repr=False)
class Cliques(_Sized):
    """k-CL: a (p-1)-cell for every clique of p ≤ k vertices; the clique complex up to dimension k-1.

    Not defined for multigraphs.

    Args:
        k: size of the largest clique.
        max_cells, max_seconds: the budget for one graph; see `cwnet.lift_many` for what happens beyond it.
    """

    _unit = "clique of dimension 2"
    # A complex lists all dimensions up to k-1, and long before them there are too many cells.
    _largest = 256

    @property
    def dim(self) -> int:
        return self.k - 1


@dataclass(frozen=True, repr=False)
class Custom(Lifting):
    """A lifting given as a Python function.

    The function receives the graph as a `CellComplex` of dimension one (``to_networkx()`` turns it into a
    networkx graph) and returns the 2-cells to attach, each as the vertices along a simple cycle of the graph;
    or a whole `CellComplex` on the same vertices and edges. It is on its author to make it a function of the
    isomorphism class alone: `cwnet.lifting.assert_invariant` tests that.

    Args:
        function: from a 1-dimensional `CellComplex` to cycles or a complex.
        dim: the largest dimension of the cells it attaches.
        name: what to print; the function's name by default.
    """

    function: Callable[[Any], Any]
    dim: int = 2
    name: str | None = None

    def __post_init__(self) -> None:
        if type(self.dim) is not int or self.dim < 2:
            raise ValueError(
                f"Custom(dim={self.dim!r}): cells that are attached to a graph have a dimension of 2 or more"
            )

    @cached_property
    def spec(self) -> Spec:
        return Spec(custom=(self.function,))

    def __repr__(self) -> str:
        return self.name or str(getattr(self.function, "__name__", repr(self.function)))


@dataclass(frozen=True, repr=False)
class Union(Lifting):
    """Several liftings at once. A cell that more than one of them attaches is one cell; the largest budget counts."""

    parts: tuple[Lifting, ...]

    def __post_init__(self) -> None:
        flat = [p for part in self.parts for p in (part.parts if isinstance(part, Union) else (part,))]
        object.__setattr__(self, "parts", tuple(flat))

    @property
    def dim(self) -> int:
        return max(part.dim for part in self.parts)

    @cached_property
    def spec(self) -> Spec:
        spec = Spec()
        for part in self.parts:
            spec |= part.spec
        return spec

    def __repr__(self) -> str:
        return " | ".join(map(repr, self.parts))


class _Bare(Lifting):
    """Attaches nothing: the graph as a complex of dimension one."""

    dim = 1
    spec = Spec()

    def __repr__(self) -> str:
        return "None"


_BARE = _Bare()


def within(lifting: Lifting, max_cells: int) -> Lifting:
    """The same lifting with another budget of cells for one graph, and none of time: so results are always the same.

    A smaller budget that was asked for stays.
    """
    if isinstance(lifting, Union):
        return Union(tuple(within(part, max_cells) for part in lifting.parts))
    if not isinstance(lifting, _Sized):
        return lifting
    cells = max_cells if lifting.max_cells == MAX_CELLS else min(lifting.max_cells, max_cells)
    return replace(lifting, max_cells=cells, max_seconds=math.inf)


def as_lifting(value: Lifting | Callable[[Any], Any] | str | None) -> Lifting:
    """Accept a lifting, a function (see `Custom`), None (the graph alone), or text such as ``"cliques:4|rings:6"``.

    >>> as_lifting("cliques:4|rings:6")
    Cliques(4) | Rings(6)
    """
    if value is None:
        return _BARE
    if isinstance(value, Lifting):
        return value
    if isinstance(value, str):
        return _parse(value)
    if callable(value):
        return Custom(value)
    raise TypeError(
        f"{value!r} is not a lifting: give Rings(k), Cycles(k), Cliques(k), a union of them, a function or None"
    )


def _parse(text: str) -> Lifting:
    kinds: dict[str, type[_Sized]] = {"rings": Rings, "cycles": Cycles, "cliques": Cliques}
    if text.strip().lower() == "none":
        return _BARE
    parts: list[Lifting] = []
    for item in text.split("|"):
        kind, _, size = item.strip().partition(":")
        if kind.lower() not in kinds or not size.strip().isdigit():
            raise ValueError(
                f"can not read the lifting {text!r} at {item!r}: write rings:6, cycles:8, cliques:4, none, "
                "or several joined by '|'"
            )
        parts.append(kinds[kind.lower()](int(size)))
    return parts[0] if len(parts) == 1 else Union(tuple(parts))
