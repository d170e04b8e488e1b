"""A readout that does not see how cells are oriented."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from cwnet.complexes._batch import ComplexBatch
from cwnet.nn.readout import Readout

__all__ = ["InvariantReadout"]


class InvariantReadout(Readout):
    r"""The readout of orientation-equivariant layers: `Readout` of absolute values.

        h_X = Σ_d act(W_d POOL_{dim σ = d} |h_σ| + b_d)

    A cell that is turned round changes the sign of its features, which |·| forgets. Vertices have no orientation, so
    their features are read as they are.

    Args:
        width_in: features of cells.
        width: features of the complex.
        dims: the dimensions that take part.
        pool: "sum" or "mean".
        act: activation by name.
        bias: whether there are b_d.
        dropout: dropout on each dimension's vector.
    """

    def forward(self, x: Sequence[Tensor], batch: ComplexBatch) -> Tensor:
        return super().forward([h if d == 0 else h.abs() for d, h in enumerate(x)], batch)
