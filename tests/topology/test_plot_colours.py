import networkx as nx
import pytest
from matplotlib.colors import to_hex

import cwnet
from cwnet import CellComplex, Cliques, InvalidComplexError, Rings, wl
from cwnet.topology import plot_colours
from cwnet.topology._plot_colours import COLOURS

SQUARE = cwnet.lift(nx.cycle_graph(4), Rings(4))
TAILED = cwnet.lift((5, [(0, 1), (1, 2), (2, 3), (3, 0), (3, 4)]), Rings(4))


def faces(axes, zorder):
    return [to_hex(c, keep_alpha=False).upper() for a in axes.collections if a.zorder == zorder for c in a.get_fc()]


def test_cells_have_the_colours_of_their_classes():
    found = wl.refine(TAILED)
    axes = plot_colours(TAILED, found.of(0))
    for d, zorder in enumerate((4, 3, 1)):
        assert faces(axes, zorder) == [COLOURS[n].upper() for n in found.of(0)[d]]
    assert len(axes.patches) == 5 + 2 * (5 + 1)  # a number on every cell, those of edges and 2-cells with a halo


def test_what_has_no_class_is_grey_and_has_no_number():
    axes = plot_colours(SQUARE, [[0, 1, -1, 17]])
    assert faces(axes, 4) == [COLOURS[0], COLOURS[1], "#B6BFCC", COLOURS[1]]
    assert set(faces(axes, 3)) == {"#B6BFCC"}
    assert [to_hex(patch.get_fc()) for patch in axes.patches] == ["#20242c"] * 3
    assert not plot_colours(SQUARE, [[0] * 4], numbers=False).patches


def test_small_cells_lie_on_large_ones_and_parallel_edges_apart():
    two = cwnet.lift((5, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (1, 3)]), cwnet.Cycles(5))
    axes = plot_colours(two, [None, None, range(len(two.cells(2)))])
    sizes = [len(two.cells(2)[COLOURS.index(colour)]) for colour in faces(axes, 1)]
    assert sizes == sorted(sizes, reverse=True)
    double = CellComplex.from_boundaries(2, [[(0, 1), (0, 1)], [(0, 1)]])
    middles = [patch.get_path().get_extents().min for patch in plot_colours(double, [None, [0, 0]]).patches]
    assert abs(middles[0] - middles[2]).max() > 0.1


def test_mistakes():
    with pytest.raises(InvalidComplexError, match="3 colours for 4 cells of dimension 0"):
        plot_colours(SQUARE, [[0, 0, 0]])
    with pytest.raises(InvalidComplexError, match="skeleton"):
        plot_colours(cwnet.lift(nx.complete_graph(4), Cliques(4)), [])
