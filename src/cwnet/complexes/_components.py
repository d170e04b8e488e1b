"""Connected components, as SciPy finds them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["connected_components"]


def connected_components(size: int, a: NDArray[np.int64], b: NDArray[np.int64]) -> tuple[int, NDArray[np.int32]]:
    """How many components a graph has, and which one each of its `size` nodes is in; node a[i] is joined to b[i].

    >>> connected_components(4, np.array([0, 3]), np.array([1, 1]))
    (2, array([0, 0, 1, 0], dtype=int32))
    """
    from scipy.sparse import coo_array, csgraph

    # SciPy counts nodes in 32 bits here. Its version 1.11 takes wider numbers all the same, and joins nothing.
    ends = (a.astype(np.int32), b.astype(np.int32))
    graph = coo_array((np.ones(len(a), dtype=np.int8), ends), shape=(size, size))
    found: Any = csgraph.connected_components(graph, directed=False)
    return found[0], found[1]
