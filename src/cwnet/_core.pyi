from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

_KindOf = Callable[[type], int]
_Slowly = Callable[[Any, int, Any], Any]

def read_graphs(
    graphs: Iterable[Any], kind_of: _KindOf, slowly: _Slowly
) -> tuple[
    NDArray[np.int64],
    NDArray[np.int64],
    NDArray[np.int32],
    NDArray[np.int64],
    list[Tensor] | None,
    list[Tensor] | None,
    NDArray[np.int64] | None,
    list[Tensor] | None,
]: ...
def lift_one(
    graph: Any, kind_of: _KindOf, slowly: _Slowly, spec: tuple[int, int, int, int, float]
) -> (
    tuple[
        tuple[int, ...],
        list[Tensor],
        list[Tensor] | None,
        list[Tensor] | None,
        NDArray[np.int64] | None,
        list[Tensor] | None,
    ]
    | None
): ...
def refine_one(
    graph: Any,
    position: int,
    kind_of: _KindOf,
    slowly: _Slowly,
    spec: tuple[int, int, int, int, float],
    adjacencies: int,
    by_dimension: bool,
) -> bytes | None: ...
def certify_one(
    graph: Any, position: int, kind_of: _KindOf, slowly: _Slowly, spec: tuple[int, int, int, int, float]
) -> str | None: ...
def cut(
    cell_ptr: tuple[Tensor, ...], boundaries: tuple[tuple[Tensor, Tensor], ...], dims: Tensor, i: int, local: bool
) -> tuple[tuple[int, ...], list[Tensor], list[tuple[int, int]]]: ...
def pack_boundaries(
    boundaries: list[tuple[tuple[Tensor, Tensor], ...]], top: int
) -> list[tuple[NDArray[np.int32], NDArray[np.int32]]]: ...
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
    list[tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]],
    list[tuple[int, int, int, int, int, float, int]],
]: ...
def refine_fast(
    cell_ptr: list[NDArray[np.int64]],
    boundary_ptr: list[NDArray[np.int32]],
    boundary_idx: list[NDArray[np.int32]],
    labels: list[NDArray[np.int64] | None],
    *,
    adjacencies: int,
    by_dimension: bool,
    max_rounds: int,
    until_stable: bool,
    keep_colours: bool,
    keep_history: bool,
    threads: int,
) -> tuple[
    NDArray[np.int32],
    NDArray[np.int64],
    NDArray[np.uint64],
    NDArray[np.int64],
    NDArray[np.uint64],
]: ...
def certify(
    cell_ptr: list[NDArray[np.int64]],
    boundary_ptr: list[NDArray[np.int32]],
    boundary_idx: list[NDArray[np.int32]],
    labels: list[NDArray[np.int64] | None],
    *,
    threads: int,
) -> NDArray[np.uint64]: ...
def refine_exact(
    cell_ptr: list[NDArray[np.int64]],
    boundary_ptr: list[NDArray[np.int32]],
    boundary_idx: list[NDArray[np.int32]],
    labels: list[NDArray[np.int64] | None],
    *,
    adjacencies: int,
    by_dimension: bool,
    max_rounds: int,
    until_stable: bool,
) -> tuple[int, list[NDArray[np.int32]], NDArray[np.int64]]: ...
def refine_folklore(
    vertex_ptr: NDArray[np.int64],
    edge_ptr: NDArray[np.int64],
    ends: NDArray[np.int32],
    k: int,
    vertex_labels: NDArray[np.int64] | None,
    edge_labels: NDArray[np.int64] | None,
) -> tuple[int, list[NDArray[np.int32]]]: ...

_Rows = tuple[int, int, int]

def adjacent_sum(
    down: _Rows, up: _Rows, x: int, shared: int, width: int, total: int, out: int, threads: int, /
) -> None: ...
def adjacent_sum_backward(
    down: _Rows,
    up: _Rows,
    grad: int,
    x: int,
    shared: int,
    width: int,
    total: int,
    grad_x: int,
    grad_shared: int,
    threads: int,
    /,
) -> None: ...
def norm_relu(
    rows: int,
    width: int,
    gamma: int,
    beta: int,
    eps: float,
    x: int,
    out: int,
    mean: int,
    var: int,
    rstd: int,
    threads: int,
    /,
) -> None: ...
def norm_relu_backward(
    rows: int,
    width: int,
    gamma: int,
    grad: int,
    x: int,
    out: int,
    mean: int,
    rstd: int,
    grad_x: int,
    grad_gamma: int,
    grad_beta: int,
    threads: int,
    /,
) -> None: ...
def decode_molecules(
    binaries: list[bytes], start: int, chirality: bytes, hybridisation: bytes, bond_type: bytes, stereo: bytes
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32], NDArray[np.uint8], NDArray[np.uint8]]: ...

_Counted = tuple[NDArray[np.int64], NDArray[np.uint16], NDArray[np.uint8]]

def predict_forest(
    tree_ptr: NDArray[np.int64],
    feature: NDArray[np.uint16],
    threshold: NDArray[np.float32],
    next: NDArray[np.uint32],
    values: NDArray[np.float32],
    x: NDArray[np.float32],
    threads: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
def nearest_similarity(
    members: _Counted, queries: _Counted, columns: int, k: int, threads: int
) -> NDArray[np.float32]: ...

LANES: int
MAX_WIDTH: int

class Layer:
    def __init__(
        self,
        x: list[int],
        rows: list[int],
        width_in: int,
        width: int,
        own: float,
        meetings: list[tuple[int, int, tuple[int, int, int], tuple[int, int, int], int, int]],
        heard: list[tuple[int, int, int, tuple[int, int, int], tuple[int, int, int]]],
        stages: list[list[tuple[int, int, int, int, int, int]]],
        norm: tuple[bool, bool, float, float, float, float],
        bf16: bool,
        threads: int,
        out: list[int],
        /,
    ) -> None: ...
    def backward(
        self,
        grad: list[int],
        x: list[int],
        meetings: list[tuple[int, int, int, int]],
        stages: list[list[tuple[int, int, int, int]]],
        threads: int,
        /,
    ) -> None: ...

def keep_freed_memory() -> None: ...
def multiplies_bf16() -> bool: ...
def use_portable_blocks(portable: bool, /) -> None: ...
