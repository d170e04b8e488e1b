"""Slow, obviously right: cells by networkx and adjacencies by their definitions."""

from collections import Counter

import networkx as nx


def normal_form(cycle):
    """A cycle from its smallest vertex towards the smaller of that vertex's two neighbours."""
    first = cycle.index(min(cycle))
    turned = tuple(cycle[first:]) + tuple(cycle[:first])
    return min(turned, turned[:1] + turned[:0:-1])


def rings(graph: nx.Graph, k: int):
    return sorted(normal_form(c) for c in nx.chordless_cycles(graph, k) if len(c) >= 3)


def cycles(graph: nx.Graph, k: int):
    return sorted(normal_form(c) for c in nx.simple_cycles(graph, k) if len(c) >= 3)


def cliques(graph: nx.Graph, k: int):
    """{size: sorted vertex tuples} for sizes 3 to k."""
    found = {size: [] for size in range(3, k + 1)}
    for clique in nx.enumerate_all_cliques(graph):
        if len(clique) > k:
            break
        if len(clique) >= 3:
            found[len(clique)].append(tuple(sorted(clique)))
    return {size: sorted(c) for size, c in found.items()}


def upper_pairs(complex_, d):
    """{{(τ, σ, δ)}} over τ ≠ σ and δ in C(σ) ∩ C(τ), straight from the paper's definition."""
    above = complex_.boundary(d + 1).tolist()
    return Counter((t, s, i) for i, delta in enumerate(above) for s in delta for t in delta if s != t)


def lower_pairs(complex_, d):
    """{{(τ, σ, δ)}} over τ ≠ σ and δ in B(σ) ∩ B(τ)."""
    cells = complex_.boundary(d).tolist()
    return Counter(
        (t, s, delta)
        for s in range(len(cells))
        for t in range(len(cells))
        if s != t
        for delta in set(cells[s]) & set(cells[t])
    )


def as_counter(pairs):
    return Counter(zip(*pairs.index.tolist(), pairs.shared.tolist(), strict=True))


def vertices(complex_, d, cell):
    """The vertices under one cell, by going down."""
    if d == 0:
        return {cell}
    return set().union(*(vertices(complex_, d - 1, face) for face in complex_.boundary(d).tolist()[cell]))
