"""The PyG Data class of a lifted graph, in a module of its own because defining it imports PyG."""

from __future__ import annotations

from typing import Any

from torch_geometric.data import Data

from cwnet import _torch

__all__ = ["CellData"]


class CellData(Data):  # type: ignore[misc]
    """A PyG Data whose `boundary_d` incidences are renumbered by cells, and not by nodes, in a batch."""

    def __inc__(self, key: str, value: Any, *args: Any, **kwargs: Any) -> Any:
        """By how much the numbers in `value` move when the next complex is put behind this one."""
        if key.startswith("boundary_"):
            d = int(key.removeprefix("boundary_"))
            return self.num_cells[0, d - 1 : d + 1].unsqueeze(1)
        return super().__inc__(key, value, *args, **kwargs)

    def __cat_dim__(self, key: str, value: Any, *args: Any, **kwargs: Any) -> Any:
        """Incidences are put side by side."""
        return -1 if key.startswith("boundary_") else super().__cat_dim__(key, value, *args, **kwargs)


# So that PyG's saved data sets load without unpickling arbitrary code.
_torch.allow_loading(CellData)
