"""What has the targets: molecules, their atoms or their bonds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from cwnet.complexes import ComplexStore
from cwnet.complexes._csr import ranges
from cwnet.errors import CwnetError

__all__ = ["LEVELS", "Level", "level_of", "list_text", "split_by"]


@dataclass(frozen=True)
class Level:
    """What has the targets. Values have a row for each of these: of atoms, those of the first molecule come first.

    Attributes:
        name: "molecule", "atom" or "bond".
        dim: the dimension of the cells that they are; None for molecules.
    """

    name: str
    dim: int | None = None

    def counts(self, store: ComplexStore) -> Tensor:
        """How many of them each molecule has, [molecules]."""
        return torch.ones(len(store), dtype=torch.int64) if self.dim is None else store.cell_ptr[self.dim].diff().cpu()

    def rows(self, store: ComplexStore, molecules: Tensor) -> Tensor:
        """The rows that values of these molecules have among those of all."""
        if self.dim is None:
            return molecules
        ptr = store.cell_ptr[self.dim].cpu()
        return ranges(ptr[molecules], ptr[molecules + 1] - ptr[molecules])

    def with_targets(self, store: ComplexStore, targets: Tensor) -> ComplexStore:
        """The store with these targets, a row for each of what has them."""
        if self.dim is None:
            return replace(store, y=targets)
        cell_y = tuple(targets if d == self.dim else None for d in range(len(store.cell_ptr)))
        return replace(store, y=None, cell_y=cell_y)

    def targets_of(self, store: ComplexStore) -> Tensor:
        """The targets that `with_targets` gave a store."""
        found = store.y if self.dim is None else store.cell_y[self.dim]
        assert found is not None
        return found


LEVELS = {level.name: level for level in (Level("molecule"), Level("atom", 0), Level("bond", 1))}


def level_of(name: str) -> Level:
    """The level of this name."""
    if name not in LEVELS:
        raise CwnetError(f"--target-level {name}: write one of {', '.join(LEVELS)}")
    return LEVELS[name]


def split_by(cells: Tensor | None, values: Tensor) -> list[list[Any]]:
    """Values by columns, an entry for each molecule: a number, or a list where `cells` says how many it has of them."""
    if cells is None:
        columns: list[list[Any]] = values.T.tolist()
        return columns
    return [[part.tolist() for part in torch.split(column, cells.tolist())] for column in values.T]


def list_text(values: Sequence[Any]) -> str:
    """A list as it is written into a table: as it can be read from one, with null where there is no number."""
    texts = (v if isinstance(v, str) else "null" if v != v else f"{v:.6g}" for v in values)
    return f"[{', '.join(texts)}]"
