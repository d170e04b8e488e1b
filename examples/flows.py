"""How often does a walk go round the lake? Ask the harmonic flow, which knows the hole and nothing else.

python examples/flows.py
"""

import networkx as nx
import torch

import cwnet
from cwnet.topology import betti_numbers, harmonic_cochains, hodge_decomposition

SIZE = 7
LAKE = (3, 3)  # the corner that is under water, with the four blocks around it


def blocks(graph):
    """A lifting of one's own: every block of the town is a 2-cell, and the lake is none."""
    return [ring for ring in nx.chordless_cycles(graph.to_networkx(), 4) if len(ring) == 4]


def walked(streets, tour):
    """A walk as a flow: 1 on an edge walked from its smaller to its larger vertex, -1 the other way."""
    flow = torch.zeros(len(streets), dtype=torch.float64)
    for a, b in zip(tour, (*tour[1:], tour[0]), strict=True):
        flow[streets[min(a, b), max(a, b)]] += 1 if a < b else -1
    return flow


def around(x0, y0, x1, y1):
    """The corners along a rectangle, counterclockwise."""
    return (
        [(x, y0) for x in range(x0, x1)] + [(x1, y) for y in range(y0, y1)]
        + [(x, y1) for x in range(x1, x0, -1)] + [(x0, y) for y in range(y1, y0, -1)]
    )  # fmt: skip


def main():
    town = nx.grid_2d_graph(SIZE, SIZE)
    town.remove_node(LAKE)
    number = {corner: i for i, corner in enumerate(town)}
    complex_ = cwnet.lift(nx.relabel_nodes(town, number), blocks)
    streets = {(min(e), max(e)): i for i, e in enumerate(complex_.cells(1))}
    print(f"{complex_}; pieces, holes, hollows: {betti_numbers(complex_)}")
    shore, wide, corner = around(2, 2, 4, 4), around(0, 0, 6, 6), around(4, 4, 6, 6)
    lake = harmonic_cochains(complex_, 1)[:, 0]
    once = walked(streets, [number[c] for c in shore]) @ lake
    tours = {"along the shore": shore, "around the town": wide, "the other way": wide[::-1], "around a block": corner,
             "twice, and a block": wide + wide + around(0, 0, 1, 1)}  # fmt: skip
    print(f"\n{'walk':20} {'streets':>8} {'curl':>9} {'harmonic':>9} {'times round the lake':>22}")
    for name, tour in tours.items():
        flow = walked(streets, [number[c] for c in tour])
        parts = [float(part.square().sum()) for part in hodge_decomposition(complex_, 1, flow)]
        turns = float(flow @ lake / once)
        print(f"{name:20} {len(tour):8} {parts[1]:9.2f} {parts[2]:9.2f} {turns + 0.0:22.2f}")
    print("\nThe rest of a closed walk is curl: turns around blocks, whatever the lake.")


if __name__ == "__main__":
    main()
