"""Numbers beside the cells: columns of the table and descriptors of RDKit, scaled for a network."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cwnet.molecules._inputs import Inputs, Wanted

__all__ = ["Descriptors"]

#: The part of the training molecules at either end that does not decide how a column is scaled.
_ENDS = 0.01
#: Scaled numbers are cut off here, so that a single odd one moves a prediction by so much and no more.
_MOST = 5.0


@dataclass(frozen=True)
class Descriptors:
    """The numbers that networks see of a molecule beside its cells.

        z = clip((v - mean) · scale, -5, 5)

    Mean and standard deviation are those of the training part, whose lowest and highest hundredth are taken for the
    values next to them (Winsor's way); `scale` is 1 / the standard deviation, or 0 for a column that is the same
    everywhere. Where RDKit has no number, z is 0.

    Attributes:
        columns: of the table.
        names: of descriptors of RDKit, which follow them.
        mean, scale: of each column.
        parts: what the molecules of a row are called, where it has several; each has all descriptors of RDKit.
    """

    columns: tuple[str, ...]
    names: tuple[str, ...]
    mean: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()
    parts: tuple[str, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """What the numbers are called, in order."""
        names = [f"{part} {name}" for part in self.parts for name in self.names] if self.parts else self.names
        return (*self.columns, *names)

    @property
    def wanted(self) -> Wanted:
        """What has to be known of a molecule."""
        return Wanted(names=self.names, columns=self.columns)

    def values(self, inputs: Inputs) -> NDArray[np.float64]:
        """The numbers as they are, [molecules, labels]; NaN where RDKit has none."""
        parts = [inputs.given] if self.columns else []
        parts += [inputs.numbers] if self.names else []
        return np.concatenate([np.asarray(part, dtype=np.float64) for part in parts], 1)

    def scaled_by(self, inputs: Inputs) -> Descriptors:
        """The same descriptors, scaled by these molecules, which are those of the training part."""
        values = self.values(inputs)
        values = np.where(np.isnan(values).all(0), 0.0, values)
        ends = np.nanquantile(values, [_ENDS, 1 - _ENDS], axis=0)
        inner = np.clip(values, *ends)
        # Where nearly all molecules have one value, the others are in the last hundredth: then all count.
        inner = np.where(np.nanstd(inner, 0) > 0, inner, values)
        mean, std = np.nanmean(inner, 0), np.nanstd(inner, 0)
        known = std > 1e-9 * np.maximum(np.abs(mean), 1e-9)
        scale = np.where(known, 1 / np.where(known, std, 1.0), 0.0)
        return replace(self, mean=tuple(mean.tolist()), scale=tuple(scale.tolist()))

    def __call__(self, inputs: Inputs) -> Tensor:
        """The numbers as networks see them, [molecules, labels]."""
        z = (self.values(inputs) - np.array(self.mean)) * np.array(self.scale)
        return torch.from_numpy(np.clip(np.nan_to_num(z, nan=0.0), -_MOST, _MOST)).float()

    @property
    def constant(self) -> list[str]:
        """The columns of the table that were the same everywhere, so that the network learns nothing of them."""
        return [name for name, scale in zip(self.columns, self.scale, strict=False) if not scale]

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> Descriptors:
        """What `to_dict` wrote, or JSON made of it.

        Raises:
            ValueError, KeyError, TypeError: for what it cannot have written.
        """
        columns, names, parts = (tuple(table[key]) for key in ("columns", "names", "parts"))
        mean, scale = (tuple(map(float, table[key])) for key in ("mean", "scale"))
        found = cls(columns, names, mean, scale, parts)
        texts = all(isinstance(text, str) for text in (*columns, *names, *parts))
        whole = texts and found.labels and len(mean) == len(scale) == len(found.labels)
        if not whole or not all(map(math.isfinite, (*mean, *scale))):
            raise ValueError(f"these are no descriptors: {dict(table)!s:.200}")
        return found
