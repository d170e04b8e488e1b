"""Readouts by means and by maxima, by their own names."""

from __future__ import annotations

from collections.abc import Sequence

from cwnet.nn.readout import Readout

__all__ = ["MaxReadout", "MeanReadout"]


class MeanReadout(Readout):
    r"""The mean of each dimension, mapped and added up: `Readout` with ``pool="mean"``.

        h_X = Σ_d act(W_d MEAN_{dim σ = d} h_σ + b_d)

    Args:
        width_in: features of cells.
        width: features of the complex.
        dims: the dimensions that take part.
        act: activation by name.
        bias: whether there are b_d.
        dropout: dropout on each dimension's vector.

    Shapes:
        x: [cells of dimension d, width_in] for every d, and a batch → [complexes, width].
    """

    def __init__(
        self,
        width_in: int,
        width: int,
        dims: Sequence[int] = (0, 1, 2),
        act: str = "relu",
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(width_in, width, dims, "mean", act, bias, dropout)


class MaxReadout(Readout):
    r"""The largest value of each feature in each dimension, mapped and added up: `Readout` with ``pool="max"``.

        h_X = Σ_d act(W_d MAX_{dim σ = d} h_σ + b_d)

    Args:
        width_in: features of cells.
        width: features of the complex.
        dims: the dimensions that take part.
        act: activation by name.
        bias: whether there are b_d.
        dropout: dropout on each dimension's vector.

    Shapes:
        x: [cells of dimension d, width_in] for every d, and a batch → [complexes, width].
    """

    def __init__(
        self,
        width_in: int,
        width: int,
        dims: Sequence[int] = (0, 1, 2),
        act: str = "relu",
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(width_in, width, dims, "max", act, bias, dropout)
