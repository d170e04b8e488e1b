"""What can go wrong with a user's input. Each message names the value, the place and the way out."""

from __future__ import annotations

__all__ = [
    "CwnetError",
    "GraphError",
    "InvalidComplexError",
    "LiftingBudgetExceeded",
    "LiftingWarning",
    "UnknownPartError",
]


class CwnetError(Exception):
    """Base of all errors that cwnet raises on purpose."""


class InvalidComplexError(CwnetError, ValueError):
    """Incidences or features that do not make a regular cell complex."""


class UnknownPartError(CwnetError, ValueError):
    """A model described in a file has a part that the running program does not know."""


class GraphError(CwnetError, ValueError):
    """A graph that can not be lifted as it stands.

    Attributes:
        position: its place in the list given to `lift_many`; None for a single graph.
        reason: what is wrong with it.
    """

    def __init__(self, reason: str, position: int | None = None) -> None:
        self.reason = reason
        self.position = position
        super().__init__(_at(position, reason))

    def moved_to(self, position: int) -> GraphError:
        """The same error at another place."""
        return GraphError(self.reason, position)


class LiftingBudgetExceeded(CwnetError, RuntimeError):
    """A lifting that found more cells, or took more time, than its budget for one graph.

    Attributes:
        position: the graph's place in the list given to `lift_many`; None for a single graph.
        cells: cells found when the search stopped.
        seconds: seconds it had taken.
        kept: with `on_budget="truncate"`, the size up to which all cells were kept; None otherwise.
    """

    def __init__(
        self,
        lifting: str,
        budget: str,
        cells: int,
        seconds: float,
        position: int | None = None,
        kept: int | None = None,
    ) -> None:
        self.lifting, self.budget = lifting, budget
        self.cells, self.seconds, self.kept = cells, seconds, kept
        self.position = position
        outcome = (
            "Give it a smaller k or a larger budget, or pass on_budget='skip' or 'truncate' to lift_many."
            if kept is None
            else f"All cells of size ≤ {kept} were kept, the larger ones left out."
        )
        super().__init__(
            _at(
                position,
                f"{lifting} exceeds {budget}: it had found {cells:,} cells after {seconds:.2f} s. {outcome}",
            )
        )


class LiftingWarning(UserWarning):
    """Some graphs of a list were skipped, or lifted in part, as the caller asked."""


def _at(position: int | None, reason: str) -> str:
    return reason if position is None else f"graph {position}: {reason}"
