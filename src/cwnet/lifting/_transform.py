"""Lifting as a PyTorch Geometric transform."""

from __future__ import annotations

from typing import Any

from cwnet.lifting._lift import Liftable, lift
from cwnet.lifting._liftings import as_lifting

__all__ = ["LiftTransform"]


class LiftTransform:
    """A PyG transform: ``ZINC(root, pre_transform=LiftTransform(Rings(18)))``.

    The result is a PyG Data with everything of the original and, beside it, the cells (see `CellComplex.to_pyg`);
    PyG's own DataLoader batches it, and `cwnet.complexes.from_pyg` gives complexes back.

    Args:
        lifting: as in `cwnet.lift`.
        **options: as in `cwnet.lift`.
    """

    def __init__(self, lifting: Liftable, **options: Any) -> None:
        self.lifting = as_lifting(lifting)
        self.options = options

    def __call__(self, data: Any) -> Any:
        """Lift one Data."""
        lifted = lift(data, self.lifting, **self.options).to_pyg()
        for key, value in data.items():
            if key not in ("edge_index", "edge_attr"):
                lifted[key] = value
        return lifted

    def __repr__(self) -> str:
        given = "".join(f", {k}={v!r}" for k, v in self.options.items())
        return f"LiftTransform({self.lifting!r}{given})"
