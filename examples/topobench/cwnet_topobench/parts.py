"""What TopoBench's configuration names: a lifting, a wrapper and a readout, on TopoBench's base classes."""

from typing import Any, Literal

from topobench.data.utils.utils import select_neighborhoods_of_interest
from topobench.nn.readouts.base import AbstractZeroCellReadOut
from topobench.nn.wrappers.base import AbstractWrapper
from topobench.transforms import TRANSFORMS
from topobench.transforms.liftings.graph2cell.base import Graph2CellLifting
from torch import Tensor

from cwnet import Rings, lift
from cwnet.nn import Readout
from cwnet_topobench.layout import KINDS, cells_of, connectivity

__all__ = ["CINWrapper", "CellRingLifting", "RankReadout"]


class CellRingLifting(Graph2CellLifting):
    """Glue a 2-cell to every ring, that is every induced cycle, of at most `max_cell_length` vertices.

    Edges are numbered as they are first met in ``edge_index``.

    Args:
        max_cell_length: largest ring.
        connectivities: kinds of matrices to keep beside the incidences, all by default; see `KINDS`.
        loops: what to do with loops, "raise" or "drop".
        **kwargs: those of TopoBench's liftings.
    """

    def __init__(
        self,
        max_cell_length: int = 18,
        connectivities: list[str] | None = None,
        loops: Literal["raise", "drop"] = "raise",
        **kwargs: Any,
    ) -> None:
        super().__init__(**{**kwargs, "complex_dim": 2})
        self.lifting, self.loops = Rings(max_cell_length), loops
        self.kinds = KINDS if connectivities is None else tuple(dict.fromkeys(["incidence", *connectivities]))

    def lift_topology(self, data: Any) -> dict[str, Any]:
        complex_ = lift(data, self.lifting, loops=self.loops)
        lifted: dict[str, Any] = connectivity(complex_, self.kinds)
        if self.neighborhoods is not None:
            lifted = select_neighborhoods_of_interest(lifted, self.neighborhoods)
        lifted["shape"] = list(complex_.num_cells)
        lifted["x_0"] = data.x
        if self.preserve_edge_attr and complex_.x[1] is not None:
            lifted["x_1"] = complex_.x[1]
        return lifted


class CINWrapper(AbstractWrapper):
    """Hand a batch to `CIN` as cells, and its output back by rank."""

    def forward(self, batch: Any) -> dict[str, Tensor]:
        x = self.backbone([batch[f"x_{d}"] for d in range(3)], cells_of(batch))
        return {"labels": batch.y, "batch_0": batch.batch_0, **{f"x_{d}": h for d, h in enumerate(x)}}


class RankReadout(AbstractZeroCellReadOut):
    """Pool every rank on its own, map each with weights of its own, add them up, and classify the sum.

    For targets of nodes, the features of rank 0 are classified as they are.

    Args:
        hidden_dim: features of cells.
        pooling_type: "sum", "mean" or "max".
        dropout: dropout on the vector of each rank.
        **kwargs: those of TopoBench's readouts.
    """

    def __init__(self, hidden_dim: int, pooling_type: str = "sum", dropout: float = 0.0, **kwargs: Any) -> None:
        super().__init__(hidden_dim=hidden_dim, pooling_type=pooling_type, **kwargs)
        self.ranks = Readout(hidden_dim, hidden_dim, pool=pooling_type, dropout=dropout)

    def forward(self, model_out: dict[str, Tensor], batch: Any) -> dict[str, Tensor]:
        if self.task_level == "graph":
            x = [model_out[f"x_{d}"] for d in range(3)]
            model_out["logits"] = self.linear(self.ranks(x, cells_of(batch)))
        return model_out


TRANSFORMS["CellRingLifting"] = CellRingLifting
