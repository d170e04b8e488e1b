import networkx as nx
import numpy as np
import pytest
import torch

import cwnet
from cwnet import CellComplex, Cliques, InvalidComplexError, Rings
from cwnet.topology import orient, plot
from tests.reference.spaces import sphere

pytest.importorskip("matplotlib")

SQUARE = cwnet.lift(nx.cycle_graph(4), Rings(4))
CORNERS = [(0, 0), (1, 0), (1, 1), (0, 1)]


def parts(axes):
    return {type(c).__name__: c for c in axes.collections}


def heads(axes):
    """Tips less tails of the arrowheads on edges."""
    shapes = [p.vertices for c in axes.collections if c.get_zorder() == 4 for p in c.get_paths()]
    return [shape[0] - shape[2] for shape in shapes]


def test_arrows_point_along_the_orientation():
    axes = plot(SQUARE, positions=CORNERS)
    at = np.array(CORNERS, dtype=float)
    for (u, v), along in zip(map(sorted, SQUARE.cells(1)), heads(axes), strict=True):
        assert along @ (at[v] - at[u]) > 0
    turned = orient(SQUARE).flipped([None, -torch.ones(4), None])
    for one, other in zip(heads(axes), heads(plot(turned, positions=CORNERS)), strict=True):
        assert one @ other < 0


def test_arrows_point_along_the_flow():
    forward = heads(plot(SQUARE, (None, [1, 2, 3, 4], None), positions=CORNERS))
    backward = heads(plot(SQUARE, (None, [-1, -2, -3, -4], None), positions=CORNERS))
    assert len(forward) == 4
    assert all(a @ b < 0 for a, b in zip(forward, backward, strict=True))
    assert len(heads(plot(SQUARE, (None, [0, 0, 1, 0], None), positions=CORNERS))) == 1  # nothing flows elsewhere


def test_a_flow_is_the_same_picture_in_every_orientation():
    """x on B is T x on T B T: arrows and colours do not change."""
    flow = torch.tensor([1.0, -2.0, 3.0, -4.0])
    turns = torch.tensor([1, -1, -1, 1])
    one = plot(SQUARE, (None, flow, None), positions=CORNERS)
    other = plot(orient(SQUARE).flipped([None, turns, None]), (None, turns * flow, None), positions=CORNERS)
    for a, b in zip(heads(one), heads(other), strict=True):
        np.testing.assert_allclose(a, b)


def test_signals_have_scales():
    x = [np.linspace(-1, 1, n) for n in SQUARE.num_cells]
    axes = plot(SQUARE, x, title="a square", numbers=True)
    labels = [a.get_ylabel() for a in axes.figure.axes]
    assert labels == ["", "2-cells", "edges", "vertices"]
    assert axes.get_title() == "a square"
    assert {t.get_text() for t in axes.texts} == {"0", "1", "2", "3"}
    assert len(plot(SQUARE, x, scale=False).figure.axes) == 1


@pytest.mark.parametrize(
    "complex_",
    [
        sphere(),
        cwnet.lift(nx.empty_graph(3), None),
        cwnet.lift(nx.empty_graph(1), Rings(3)),
        cwnet.lift(nx.disjoint_union(nx.cycle_graph(5), nx.path_graph(2)), Rings(6)),
        CellComplex.from_boundaries(2, [[(0, 1), (1, 0), (0, 1)], [(0, 1), (1, 2)]]),
        cwnet.lift(nx.icosahedral_graph(), Cliques(3)),
    ],
    ids=["sphere", "points", "point", "pieces", "parallel edges", "icosahedron"],
)
def test_odd_complexes(complex_, tmp_path):
    x = [np.arange(n) - 1.0 for n in complex_.num_cells]
    for signal in (None, x):
        plot(complex_, signal).figure.savefig(tmp_path / "picture.png", dpi=30)
    assert (tmp_path / "picture.png").stat().st_size > 500


def test_on_given_axes():
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    assert plot(SQUARE, axes=axes) is axes


@pytest.mark.parametrize(
    ("cells", "options", "message"),
    [
        (SQUARE, {"signal": (None, [1, 2])}, r"the signal of dimension 1 is of shape \(2,\), but there are 4 cells"),
        (SQUARE, {"signal": [1.0, 2.0]}, "the signal must be"),
        (SQUARE, {"positions": [(0, 0)]}, r"positions are of shape \(1, 2\), they must be \[4, 2\]"),
        (cwnet.lift(nx.complete_graph(4), Cliques(4)), {}, r"dimension 3 can not be drawn: draw its skeleton\(2\)"),
        (orient(cwnet.collate([SQUARE, SQUARE])), {}, "2 complexes can not be drawn as one"),
    ],
    ids=["length", "kind", "positions", "dimension", "many"],
)
def test_bad_input(cells, options, message):
    with pytest.raises(InvalidComplexError, match=message):
        plot(cells, **options)
