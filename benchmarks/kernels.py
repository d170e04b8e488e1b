"""The fused sums on a GPU against their plain twins on the same GPU: time, and how close they come to its memory.

    CWNET_DATA=/path/to/data python benchmarks/kernels.py
    python benchmarks/kernels.py --sweep     # the kernels alone, with other tile sizes

Batches are of ZINC molecules where CWNET_DATA has them, else of molecule-like graphs made up here. Each measured call
is one replay of a CUDA graph, so that Python is left out, with a cold L2 cache; the median counts. `eager_us` is the
same call from Python. The bytes are those that must move: each input read once, each output written once; sums kept
between two passes do not count. Results are compared with the plain sums first.

Writes benchmarks/results/kernels_gpu.json, or into the folder $OUT.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from _common import ROOT, describe_run, markdown_table, rounded, write_json
from torch import Tensor

import cwnet
from cwnet.complexes import Incidence
from cwnet.nn import functional

BATCHES = (128, 1024, 8192)
WIDTHS = (64, 128, 256)
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
TOLERANCE = {"float32": (1e-4, 1e-4), "bfloat16": (5e-2, 1e-1)}  # the plain sums round every message to bfloat16
PEAK = 4.3e12  # bytes per second that an H200 reaches in practice
ACT = "relu"


# ------------------------------------------------------------------------------------------------------------ the data


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
    """Graphs of ZINC's mean size: three rings of 5 or 6 in a row and seven atoms hanging on them."""
    rng = random.Random(0)
    nodes, sizes, edges = [], [], []
    for _ in range(count):
        graph: list[tuple[int, int]] = []
        n = 0
        for ring in (rng.choice((5, 6, 6)) for _ in range(3)):
            if n:
                graph.append((rng.randrange(n), n))
            graph += [(n + i, n + (i + 1) % ring) for i in range(ring)]
            n += ring
        for atom in range(n, n + 7):
            graph.append((rng.randrange(atom), atom))
        nodes.append(n + 7)
        sizes.append(len(graph))
        edges += graph
    return nodes, sizes, edges


# ----------------------------------------------------------------------------------------------------------- the cases


@dataclass(frozen=True)
class Case:
    """A sum to measure: the call, what goes in, and the indices it reads."""

    name: str
    call: Callable[..., Tensor]
    inputs: tuple[Tensor, ...]
    incidence: Incidence

    def forward(self) -> Tensor:
        return self.call(*self.inputs)

    def both(self) -> tuple[Tensor, ...]:
        out = self.call(*self.inputs)
        return out, *torch.autograd.grad(out, self.inputs, self.grad)

    @property
    def grad(self) -> Tensor:
        return self.inputs[-1] if self.name == "boundary_sum, edges" else self.inputs[0]

    def bytes(self, backward: bool) -> int:
        """What must move. Going back, inputs and the gradient are read and the gradients of the inputs written."""
        down, up = (sum(t.numel() * t.element_size() for t in side) for side in self.incidence[:2])
        raise NotImplementedError
