"""Graphs of any kind in, cell complexes out: networkx, PyTorch Geometric and plain edges, and what is in them.

python examples/lift_your_graphs.py
"""

from collections import Counter
from importlib.util import find_spec

import networkx as nx

import cwnet
from cwnet.topology import betti_numbers

GRAPHS = {
    "a square and a triangle": (5, [(0, 1), (1, 2), (2, 3), (3, 0), (2, 4), (4, 3)]),
    "grid of 5 x 5": nx.grid_2d_graph(5, 5),
    "dodecahedron": nx.dodecahedral_graph(),
    "Petersen's graph": nx.petersen_graph(),
    "karate club": nx.karate_club_graph(),
}


def main():
    if find_spec("torch_geometric"):
        from torch_geometric.utils import from_networkx

        GRAPHS["the club, from PyG"] = from_networkx(nx.karate_club_graph())
    for lifting in (cwnet.Rings(6), cwnet.Cliques(4), cwnet.Cliques(4) | cwnet.Rings(6)):
        print(f"{lifting!s:26} {'cells by dimension':22} {'2-cells by size':34} pieces, holes, hollows")
        for name, graph in GRAPHS.items():
            complex_ = cwnet.lift(graph, lifting)
            sizes = Counter(len(cell) for cell in complex_.cells(2))
            shown = ", ".join(f"{count} of {size}" for size, count in sorted(sizes.items())) or "–"
            cells = " + ".join(map(str, complex_.num_cells))
            print(f"  {name:24} {cells:22} {shown:34} {', '.join(map(str, betti_numbers(complex_)[:3]))}")
        print()
    print("With its twelve pentagons filled, the dodecahedron is a sphere: one piece, no hole, one hollow.")

    graphs = [nx.gnp_random_graph(30, 0.08, seed=i) for i in range(1000)]
    store = cwnet.lift_many(graphs, cwnet.Rings(8))
    print(f"\nA thousand random graphs in one call: {store}")
    print(f"Rings by size: {dict(enumerate(store.boundaries[1].sizes.bincount().tolist()[3:], 3))}")
    print(f"A batch of three, ready for a network: {store.batch([3, 1, 4])}")


if __name__ == "__main__":
    main()
