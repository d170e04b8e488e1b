"""Slow, obviously right: colour refinement and folklore WL as they stand in the definitions."""

from itertools import product


def cwl(complexes, adjacencies=("boundary", "upper"), initial=None):
    """Colours of all cells of all complexes, round by round, as nested tuples turned into numbers.

    Returns a list over rounds of a list over complexes of {(dimension, number): colour}, up to the first round that
    does not split a class.
    """
    cells = [[(d, i) for d, n in enumerate(c.num_cells) for i in range(n)] for c in complexes]
    colours = [{cell: (0 if initial is None else initial(k, cell)) for cell in cells[k]} for k in range(len(complexes))]
    boundary = [boundaries(c) for c in complexes]
    coboundary = [transposed(b) for b in boundary]
    rounds = [colours]
    while True:
        signatures = []
        for k in range(len(complexes)):
            colour, below, above = colours[k], boundary[k], coboundary[k]
            signature = {}
            for cell in cells[k]:
                seen = [colour[cell]]
                if "boundary" in adjacencies:
                    seen.append(tuple(sorted(colour[t] for t in below[cell])))
                if "coboundary" in adjacencies:
                    seen.append(tuple(sorted(colour[t] for t in above[cell])))
                if "lower" in adjacencies:
                    seen.append(
                        tuple(sorted((colour[t], colour[s]) for s in below[cell] for t in above[s] if t != cell))
                    )
                if "upper" in adjacencies:
                    seen.append(
                        tuple(sorted((colour[t], colour[s]) for s in above[cell] for t in below[s] if t != cell))
                    )
                signature[cell] = tuple(seen)
            signatures.append(signature)
        number = {s: i for i, s in enumerate(sorted({s for signature in signatures for s in signature.values()}))}
        before = len({c for colour in colours for c in colour.values()})
        colours = [{cell: number[s] for cell, s in signature.items()} for signature in signatures]
        rounds.append(colours)
        if len(number) == before:
            return rounds


def boundaries(complex_):
    return {
        (d, i): [(d - 1, face) for face in row]
        for d in range(len(complex_.num_cells))
        for i, row in enumerate(complex_.boundary(d).tolist())
    }


def transposed(boundary):
    above = {cell: [] for cell in boundary}
    for cell, faces in boundary.items():
        for face in faces:
            above[face].append(cell)
    return above


def histogram(colours):
    return sorted(colours.values())


def told_apart(a, b, **options):
    return any(histogram(x) != histogram(y) for x, y in cwl([a, b], **options))


def folklore_told_apart(g, h, k):
    """k-FWL on two networkx graphs with vertices 0..n-1, straight from the definition."""

    def start(graph, t):
        return tuple((t[i] == t[j], graph.has_edge(t[i], t[j])) for i, j in product(range(k), repeat=2))

    graphs = (g, h)
    colours = [{t: start(graph, t) for t in product(range(len(graph)), repeat=k)} for graph in graphs]
    while True:
        if sorted(colours[0].values()) != sorted(colours[1].values()):
            return True
        signatures = []
        for graph, colour in zip(graphs, colours, strict=True):
            signatures.append(
                {
                    t: (
                        colour[t],
                        tuple(
                            sorted(
                                (
                                    tuple(colour[(*t[:i], x, *t[i + 1 :])] for i in range(k)),
                                    k == 1 and graph.has_edge(t[0], x),
                                )
                                for x in range(len(graph))
                            )
                        ),
                    )
                    for t in colour
                }
            )
        number = {s: i for i, s in enumerate(sorted({s for signature in signatures for s in signature.values()}))}
        before = len({c for colour in colours for c in colour.values()})
        colours = [{t: number[s] for t, s in signature.items()} for signature in signatures]
        if len(number) == before:
            return sorted(colours[0].values()) != sorted(colours[1].values())
