"""What a model says of molecules, and the error where it cannot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from cwnet.errors import CwnetError

__all__ = ["ModelError", "Prediction"]


class ModelError(CwnetError, ValueError):
    """A model folder that is not there, not whole, or of another version; or a question that a model cannot answer."""


@dataclass(frozen=True, eq=False)
class Prediction:
    """What a model says of molecules.

    Attributes:
        mean: values, or probabilities of classes (of the second one where there are two), [molecules, outputs]:
            the mean over the networks and trees of the model.
        std: how far these differ: the standard deviation over the networks and the forest, which counts as one; None
            where there is one of them only.
        parts: what each part says, "network" and "trees"; both are means.
        spread: how hard a molecule seems, [molecules, outputs]: `std`, and the standard deviation among the trees; None
            where there is neither.
        novelty: how unlike the training molecules it is, from 0 to 1, [molecules]; None where these are not known.
        below, above: how far off the networks themselves expect the value to be on either side, [molecules, outputs]:
            the mean over them; None where they were not trained to say it.
        cells: how many atoms or bonds each molecule has, [molecules], where these are predicted: all but `novelty` have
            a row for each of them, those of the first molecule first. None where molecules are predicted.
    """

    mean: Tensor
    std: Tensor | None
    parts: Mapping[str, Tensor] = field(default_factory=dict)
    spread: Tensor | None = None
    novelty: Tensor | None = None
    below: Tensor | None = None
    above: Tensor | None = None
    cells: Tensor | None = None

    @classmethod
    def joined(cls, found: Sequence[Prediction]) -> Prediction:
        """Predictions one after another."""

        def cat(name: str) -> Tensor | None:
            there = [some for each in found if (some := getattr(each, name)) is not None]
            return torch.cat(there) if there else None

        parts = {name: torch.cat([each.parts[name] for each in found]) for name in found[0].parts}
        rest = {name: cat(name) for name in ("std", "spread", "novelty", "below", "above", "cells")}
        return cls(torch.cat([each.mean for each in found]), parts=parts, **rest)
