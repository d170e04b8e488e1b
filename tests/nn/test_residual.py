"""Residual convolutions: h + conv(h), whatever the convolution."""

import networkx as nx
import pytest
import torch

import cwnet
from cwnet import Rings
from cwnet.nn import AttentionConv, CellConv, CINConv, GINConv, HodgeConv, Residual
from cwnet.nn.testing import assert_cell_equivariant
from cwnet.topology import orient
from tests.nn.parts import (
    check_config,
    check_equation,
    check_equivariance,
    check_padding,
    features,
    random_batch,
    random_complex,
)

WIDTH = 3

#: Around layers that compute all dimensions, some, and one.
LAYERS = {
    "cin": lambda dim: Residual(CINConv(WIDTH, dim=dim)),
    "cin that leaves out the top": lambda dim: Residual(CINConv(WIDTH, dim=dim, norm="none", top=dim - 1)),
    "gin": lambda dim: Residual(GINConv(WIDTH)),
    "twice": lambda dim: Residual(Residual(GINConv(WIDTH, act="elu"))),
}
layers = pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS.keys())


@layers
class TestEveryForm:
    @pytest.mark.parametrize("dim", [1, 2, 3])
    def test_equation(self, make, dim):
        check_equation(make(dim), random_complex(dim, 0), WIDTH)

    def test_batches(self, make):
        check_equation(make(2), random_batch(), WIDTH)

    def test_equivariance(self, make):
        check_equivariance(make, WIDTH)

    def test_configuration(self, make):
        check_config(make(2))


def test_what_is_passed_on_is_not_added_to_itself():
    cells = random_complex(2, 0)
    x = features(cells, WIDTH)
    found = Residual(GINConv(WIDTH).double())(x, cells)
    assert found[1] is x[1]
    assert found[2] is x[2]
    assert not torch.equal(found[0], x[0])


def test_what_is_not_computed_is_passed_on():
    cells = random_complex(2, 0)
    x = features(cells, WIDTH)
    found = Residual(CINConv(WIDTH, top=1).double())(x, cells)
    assert len(found) == 3
    assert found[2] is x[2]


def test_padding():
    check_padding(Residual(AttentionConv(4, heads=2)), 4)
    check_padding(Residual(CINConv(4)), 4)


def test_around_a_layer_of_ones_own():
    cells = cwnet.lift(nx.cycle_graph(4), Rings(4))
    conv = CellConv(lambda h, boundary: boundary, boundary=lambda h, face: face)
    x = [torch.ones(n, 2) for n in cells.num_cells]
    assert [h[0].tolist() for h in Residual(conv)(x, cells)] == [[1, 1], [3, 3], [5, 5]]


def test_around_an_oriented_layer():
    layer = Residual(HodgeConv(WIDTH, act="tanh", bias=False).double())
    assert_cell_equivariant(layer, orient(random_complex(2, 0)), WIDTH, orientation=True, tolerance=1e-10)


def test_other_widths_are_refused():
    cells = random_complex(2, 0)
    with pytest.raises(ValueError, match="features of width 5 of width 3 in dimension 0"):
        Residual(CINConv(WIDTH, 5).double())(features(cells, WIDTH), cells)
