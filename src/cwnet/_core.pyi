import numpy as np
from numpy.typing import NDArray

def lift(
    vertex_ptr: NDArray[np.int64],
    edge_ptr: NDArray[np.int64],
    ends: NDArray[np.int32],
    *,
    rings: int,
    cycles: int,
    cliques: int,
    max_cells: int,
    max_seconds: float,
    threads: int,
    keep_repeated: bool,
    stop_at_error: bool,
    on_budget: int,
) -> tuple[
    list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]],
    list[tuple[int, int, int, int, int, float, int]],
]: ...
