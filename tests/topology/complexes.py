"""Random complexes for the tests of this folder."""

import networkx as nx
import numpy as np

import cwnet
from cwnet import CellComplex, Cliques, Cycles, Rings


def random_graphs(count, seed=0, largest=9):
    """Small graphs of all densities."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, largest + 1, count).tolist()
    return [nx.gnp_random_graph(n, float(rng.random()), seed=int(rng.integers(2**31))) for n in sizes]


def random_store(count, seed=0):
    """Liftings of random graphs, of dimension up to 3."""
    return cwnet.lift_many(random_graphs(count, seed), Cliques(4) | Rings(6))


def random_parts(count, seed=0):
    """Random choices of the cycles of random graphs as 2-cells: whatever surfaces and torsion come out."""
    rng = np.random.default_rng(seed)
    out = []
    for graph in random_graphs(count, seed, largest=6):
        whole = cwnet.lift(graph, Cycles(5))
        cells = whole.boundary(2).tolist()
        kept = rng.permutation(len(cells))[: rng.integers(0, min(len(cells), 25) + 1)].tolist()
        out.append(
            CellComplex.from_boundaries(whole.num_cells[0], [whole.boundary(1).tolist(), [cells[i] for i in kept]])
        )
    return out
