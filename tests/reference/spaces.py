"""Named spaces as regular cell complexes, with what topology says of them."""

from itertools import product

from cwnet import CellComplex


def from_keys(levels):
    """A complex from {cell: cells on its boundary} per dimension, with any hashable cells; vertices have none."""
    numbers = [{cell: i for i, cell in enumerate(level)} for level in levels]
    boundaries = [
        [[numbers[d - 1][face] for face in level[cell]] for cell in level] for d, level in enumerate(levels) if d
    ]
    return CellComplex.from_boundaries(len(levels[0]), boundaries)


def sphere():
    """The paper's: two hemispheres on an equator of two edges."""
    return CellComplex.from_boundaries(2, [[(0, 1), (0, 1)], [(0, 1), (0, 1)]])


def simplex_boundary(n):
    """The empty n-simplex, an (n-1)-sphere; the empty tetrahedron for n = 3."""
    words = [w for w in product((0, 1), repeat=n + 1) if 0 < sum(w) <= n]
    levels = [{} for _ in range(n)]
    for word in words:
        faces = [(*word[:i], 0, *word[i + 1 :]) for i in range(n + 1) if word[i]]
        levels[sum(word) - 1][word] = faces if sum(word) > 1 else []
    return from_keys(levels)


def grid_torus(*lengths):
    """A torus of any dimension, of cubes: a cell is a point with the axes along which it extends."""
    axes = range(len(lengths))
    levels = [{} for _ in range(len(lengths) + 1)]
    for at in product(*map(range, lengths)):
        for along in product((0, 1), repeat=len(lengths)):
            faces = []
            for a in axes:
                if along[a]:
                    flat = (*along[:a], 0, *along[a + 1 :])
                    there = (*at[:a], (at[a] + 1) % lengths[a], *at[a + 1 :])
                    faces += [(at, flat), (there, flat)]
            levels[sum(along)][at, along] = faces
    return from_keys(levels)


def klein_bottle(n=3):
    """n × n squares; the left side is glued to the right one, the bottom to the top the other way round."""

    def point(i, j):
        return ((i if j < n else -i) % n, j % n)

    def edge(a, b):
        return frozenset([a, b])

    levels = [{(i, j): [] for i in range(n) for j in range(n)}, {}, {}]
    for i, j in product(range(n), repeat=2):
        corners = [point(i, j), point(i + 1, j), point(i + 1, j + 1), point(i, j + 1)]
        sides = [edge(corners[k], corners[(k + 1) % 4]) for k in range(4)]
        for side in sides:
            levels[1][side] = list(side)
        levels[2][i, j] = sides
    return from_keys(levels)


def projective_space(n):
    """RP^n: the surface of the (n+1)-cube with opposite cells glued together. RP^2 is K4 with its three squares."""
    turn = {0: 1, 1: 0, "*": "*"}

    def cell(word):
        return min(word, tuple(turn[c] for c in word), key=str)

    levels = [{} for _ in range(n + 1)]
    for word in product((0, 1, "*"), repeat=n + 1):
        free = [i for i, c in enumerate(word) if c == "*"]
        if len(free) <= n:
            faces = [cell((*word[:i], side, *word[i + 1 :])) for i in free for side in (0, 1)]
            levels[len(free)].setdefault(cell(word), faces)
    return from_keys(levels)


def moebius_strip(n=5):
    """n squares in a row, the last one glued to the first with a twist."""

    def point(i, side):
        return (i % n, side if i < n else 1 - side)

    levels = [{(i, side): [] for i in range(n) for side in (0, 1)}, {}, {}]
    for i in range(n):
        corners = [point(i, 0), point(i + 1, 0), point(i + 1, 1), point(i, 1)]
        sides = [frozenset([corners[k], corners[(k + 1) % 4]]) for k in range(4)]
        for side in sides:
            levels[1][side] = list(side)
        levels[2][i] = sides
    return from_keys(levels)


def disc(k):
    """A polygon."""
    return CellComplex.from_boundaries(k, [[(i, (i + 1) % k) for i in range(k)], [range(k)]])


#: Name: (complex, Betti numbers over the rational numbers, over the field with two elements).
SPACES = {
    "sphere": (sphere(), (1, 0, 1), (1, 0, 1)),
    "empty tetrahedron": (simplex_boundary(3), (1, 0, 1), (1, 0, 1)),
    "torus": (grid_torus(3, 4), (1, 2, 1), (1, 2, 1)),
    "Klein bottle": (klein_bottle(), (1, 1, 0), (1, 2, 1)),
    "larger Klein bottle": (klein_bottle(5), (1, 1, 0), (1, 2, 1)),
    "projective plane": (projective_space(2), (1, 0, 0), (1, 1, 1)),
    "projective space": (projective_space(3), (1, 0, 0, 1), (1, 1, 1, 1)),
    "projective 4-space": (projective_space(4), (1, 0, 0, 0, 0), (1, 1, 1, 1, 1)),
    "Möbius strip": (moebius_strip(), (1, 1, 0), (1, 1, 0)),
    "disc": (disc(7), (1, 0, 0), (1, 0, 0)),
    "3-sphere": (simplex_boundary(4), (1, 0, 0, 1), (1, 0, 0, 1)),
    "4-sphere": (simplex_boundary(5), (1, 0, 0, 0, 1), (1, 0, 0, 0, 1)),
    "3-torus": (grid_torus(3, 3, 3), (1, 3, 3, 1), (1, 3, 3, 1)),
}
