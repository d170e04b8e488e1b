"""The fused sums on a GPU against their plain twins on the same GPU: time, and how close they come to its memory.

    CWNET_DATA=/path/to/data python benchmarks/kernels.py
    python benchmarks/kernels.py --sweep     # the fused sums alone, with other tile sizes

Batches are of ZINC molecules where CWNET_DATA has them, else of molecule-like graphs made up here. Results are compared
with the plain sums in float64 first. A time is the median of replays of a CUDA graph with a cold L2 cache, so Python is
left out; `eager` is the same call from Python. GB/s count the bytes that must move: each input read once, each output
written once. What the kernels keep between their two passes does not count.

Writes benchmarks/results/kernels_gpu.json (with --sweep kernels_gpu_sweep.json), or into the folder $OUT.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _common import ROOT, describe_run, markdown_table, rounded, write_json
from torch import Tensor

import cwnet
from cwnet.complexes import ComplexBatch
from cwnet.nn import functional

BATCHES = (128, 1024, 8192)
WIDTHS = (64, 128, 256)
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
TOLERANCE = {torch.float32: (1e-4, 1e-4), torch.bfloat16: (2**-7, 1e-3)}
PASSES = ("forward", "forward and backward")
PEAK = 4.3e12  # bytes per second that an H200 reaches
ACT = "relu"


# ------------------------------------------------------------------------------------------------------------ molecules


def molecules() -> tuple[str, cwnet.ComplexStore]:
    """ZINC or something like it, with its rings."""
    folder = os.environ.get("CWNET_DATA")
    file = Path(folder) / "ZINC" / "zinc12k_train.npz" if folder else None
    if file is not None and file.exists():
        arrays = dict(np.load(file, allow_pickle=False))
        name, flat = "ZINC", (arrays["num_nodes"], arrays["num_edges"], arrays["edge"])
    else:
        name, flat = "made up", made_up(max(BATCHES))
    return name, cwnet.lift_many(cwnet.ComplexStore.from_graphs(*flat), cwnet.Rings(18))


def made_up(count: int) -> tuple[list[int], list[int], list[tuple[int, int]]]:
    """Graphs of about ZINC's mean size: three rings of 5 or 6 in a row, and six atoms hanging on them."""
    rng = random.Random(0)
    num_nodes, num_edges, edges = [], [], []
    for _ in range(count):
        graph: list[tuple[int, int]] = []
        n = 0
        for size in rng.choices((5, 6), (1, 2), k=3):
            graph += [(rng.randrange(n), n)] if n else []
            graph += [(n + i, n + (i + 1) % size) for i in range(size)]
            n += size
        graph += [(rng.randrange(atom), atom) for atom in range(n, n + 6)]
        num_nodes.append(n + 6)
        num_edges.append(len(graph))
        edges += graph
    return num_nodes, num_edges, edges


# ---------------------------------------------------------------------------------------------------------------- cases


@dataclass(frozen=True)
class Case:
    """A sum to measure, the tensors that go in, a gradient for what comes out, and the bytes that must move."""

    name: str
    call: Callable[..., Tensor]
    inputs: tuple[Tensor, ...]
    grad: Tensor
    bytes: dict[str, int]

    def forward(self) -> tuple[Tensor, ...]:
        with torch.no_grad():
            return (self.call(*self.inputs),)

    def forward_and_backward(self) -> tuple[Tensor, ...]:
        out = self.call(*self.inputs)
        return out, *torch.autograd.grad(out, self.inputs, self.grad)

    def check(self) -> None:
        """Compare with the plain sums, which are what float64 takes."""
        doubled = tuple(t.detach().double().requires_grad_() for t in self.inputs)
        truth = replace(self, inputs=doubled, grad=self.grad.double())
        rtol, atol = TOLERANCE[self.grad.dtype]
        for ours, theirs in zip(self.forward_and_backward(), truth.forward_and_backward(), strict=True):
            torch.testing.assert_close(ours.double(), theirs, rtol=rtol, atol=atol)


def cases(batch: ComplexBatch, width: int, dtype: torch.dtype) -> Iterator[Case]:
    """A plain sum over boundaries, and upper messages through edges and through rings."""
    x = [torch.randn(n, width, device="cuda", dtype=dtype).requires_grad_() for n in batch.num_cells]
    edges, rings = batch.incidence(1), batch.incidence(2)
    grad = torch.randn_like(x[1])
    there, back = size(x[0], *edges.down, x[1]), size(grad, *edges.up, x[0])
    yield Case(
        "boundary_sum, edges",
        lambda x: functional.incidence_sum(x, edges),
        (x[0],),
        grad,
        dict(zip(PASSES, (there, there + back), strict=True)),
    )
    for name, d, incidence in (("upper_sum, vertices", 0, edges), ("upper_sum, edges", 1, rings)):
        grad = torch.randn_like(x[d])
        once = size(x[d], x[d + 1], *incidence.down, *incidence.up)
        there, back = once + size(grad), once + size(grad) + size(x[d], x[d + 1])
        yield Case(
            name,
            lambda x, shared, i=incidence: functional.adjacent_sum(x, shared, i, ACT),
            (x[d], x[d + 1]),
            grad,
            dict(zip(PASSES, (there, there + back), strict=True)),
        )


def size(*tensors: Tensor) -> int:
    return sum(t.numel() * t.element_size() for t in tensors)


# --------------------------------------------------------------------------------------------------------------- timing


def replayed(call: Callable[[], object]) -> float:
    """Microseconds of a call as a CUDA graph, or from Python where it can not be captured."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):  # capture wants everything compiled and allocated before
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            call()
    except RuntimeError as error:
        print(f"not captured: {error}", file=sys.stderr)
        return eager(call)
    return eager(graph.replay)


def eager(call: Callable[[], object]) -> float:
    """Microseconds of a call: the median, with a cold L2 cache."""
    from triton.testing import do_bench

    median: float = do_bench(call, warmup=5, rep=20, return_mode="median")
    return 1000 * median


def measure(case: Case) -> dict[str, dict[str, Any]]:
    figures: dict[str, dict[str, Any]] = {}
    for name, call in zip(PASSES, (case.forward, case.forward_and_backward), strict=True):
        figures[name] = row = {"megabytes": case.bytes[name] / 1e6}
        for kind, wish in (("plain", "0"), ("fused", "1")):
            os.environ["CWNET_KERNELS"] = wish
            row[f"{kind}_eager_us"] = eager(call)
            row[f"{kind}_us"] = replayed(call)
        row["speedup"] = row["plain_us"] / row["fused_us"]
        row["gb_per_s"] = case.bytes[name] / row["fused_us"] / 1e3
        row["of_peak"] = row["gb_per_s"] * 1e9 / PEAK
    return figures


def compare(store: cwnet.ComplexStore) -> list[dict[str, Any]]:
    rows = []
    for count, width, dtype in itertools.product(BATCHES, WIDTHS, DTYPES):
        for case in cases(batch_of(store, count), width, DTYPES[dtype]):
            os.environ["CWNET_KERNELS"] = "1"
            case.check()
            for name, figures in measure(case).items():
                rows.append(
                    {"sum": case.name, "molecules": count, "width": width, "dtype": dtype, "pass": name, **figures}
                )
    head = ["sum", "molecules", "width", "dtype", "pass", "MB", "plain μs", "fused μs", "eager", "×", "GB/s", "of peak"]
    keys = ("megabytes", "plain_us", "fused_us", "fused_eager_us", "speedup", "gb_per_s", "of_peak")
    table = [[*(row[k] for k in list(row)[:5]), *(rounded(row[k]) for k in keys)] for row in rows]
    print(markdown_table(head, table, "lrrll" + "r" * len(keys)))
    return rows


def sweep(store: cwnet.ComplexStore) -> list[dict[str, Any]]:
    """Time the fused sums with other choices than those of `_sums`."""
    from cwnet.nn.kernels import _sums

    os.environ["CWNET_KERNELS"] = "1"
    chosen = _sums.WARPS, _sums.THREAD_BYTES, _sums._unroll
    rows = []
    for count in (min(BATCHES), max(BATCHES)):
        for case in cases(batch_of(store, count), 128, torch.float32):
            for warps, thread_bytes, unroll in itertools.product((2, 4, 8), (16, 32), (2, 4)):
                _sums.WARPS, _sums.THREAD_BYTES, _sums._unroll = warps, thread_bytes, lambda _, u=unroll: u
                times = [replayed(call) for call in (case.forward, case.forward_and_backward)]
                what = {"sum": case.name, "molecules": count, "warps": warps, "bytes": thread_bytes, "unroll": unroll}
                rows.append(what | dict(zip(PASSES, times, strict=True)))
    _sums.WARPS, _sums.THREAD_BYTES, _sums._unroll = chosen
    print(markdown_table(list(rows[0]), [[v if isinstance(v, str) else rounded(v) for v in r.values()] for r in rows]))
    return rows


def batch_of(store: cwnet.ComplexStore, count: int) -> ComplexBatch:
    order = torch.randperm(len(store), generator=torch.Generator().manual_seed(0))
    return store.batch(order[:count]).to("cuda")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sweep", action="store_true", help="time the fused sums with other tile sizes")
    wish = parser.parse_args()
    if not torch.cuda.is_available() or find_spec("triton") is None:
        print("this benchmark needs a GPU and Triton: there is none here", file=sys.stderr)
        return 2
    name, store = molecules()
    run = describe_run("python benchmarks/kernels.py" + " --sweep" * wish.sweep, ["torch", "triton", "numpy"])
    run["machine"]["gpu"] = torch.cuda.get_device_name()
    rows = (sweep if wish.sweep else compare)(store)
    file = "kernels_gpu_sweep.json" if wish.sweep else "kernels_gpu.json"
    figures = {"run": run, "molecules": f"{name}: {store!r}", "activation": ACT, "peak_gb_per_s": PEAK / 1e9}
    write_json(Path(os.environ.get("OUT", ROOT / "benchmarks" / "results")) / file, figures | {"rows": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
