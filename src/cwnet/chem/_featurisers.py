"""Which featuriser goes with what the rows of a table hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cwnet.chem._featuriser import Featuriser
from cwnet.chem._reaction_featuriser import ReactionFeaturiser
from cwnet.chem._row_featuriser import RowFeaturiser

__all__ = ["choose_featuriser", "read_featuriser"]


def choose_featuriser(lifting: str, columns: tuple[str, ...] = (), reactions: bool = False) -> Featuriser:
    """The featuriser for one molecule per row, for the molecules of several columns, or for reactions."""
    if reactions:
        return ReactionFeaturiser(lifting)
    return RowFeaturiser(lifting, columns=columns) if len(columns) > 1 else Featuriser(lifting)


def read_featuriser(table: Mapping[str, Any]) -> Featuriser:
    """The featuriser that `Featuriser.to_dict` wrote, of whatever kind."""
    if "columns" in table:
        return RowFeaturiser.from_dict({**table, "columns": tuple(table["columns"])})
    return (ReactionFeaturiser if "reactions" in table else Featuriser).from_dict(table)
