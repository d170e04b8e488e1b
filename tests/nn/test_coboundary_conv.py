"""Messages from cofaces."""

import networkx as nx
import pytest
import torch

import cwnet
from cwnet import Rings
from cwnet.nn import CoboundaryConv
from tests.nn.parts import (
    check_config,
    check_equation,
    check_equivariance,
    check_every_weight_is_reached,
    check_padding,
    random_batch,
    random_complex,
)

WIDTH = 3

LAYERS = {
    "usual": lambda dim: CoboundaryConv(WIDTH, dim=dim),
    "wider, elu, no norm": lambda dim: CoboundaryConv(WIDTH, 5, dim, "elu", "none", eps=0.3),
    "layer norm": lambda dim: CoboundaryConv(WIDTH, dim=dim, norm="layer"),
}
layers = pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS.keys())


@layers
class TestEveryForm:
    @pytest.mark.parametrize("dim", [1, 2, 3])
    def test_equation(self, make, dim):
        check_equation(make(dim), random_complex(dim, 0), WIDTH)

    def test_batches(self, make):
        check_equation(make(2), random_batch(), WIDTH)

    def test_complexes_above_the_layer(self, make):
        check_equation(make(1), random_complex(3, 0), WIDTH)

    def test_equivariance(self, make):
        check_equivariance(make, WIDTH)

    def test_padding(self, make):
        check_padding(make(2), WIDTH)

    def test_every_weight_is_reached(self, make):
        check_every_weight_is_reached(make(2), random_batch(), WIDTH)

    def test_configuration(self, make):
        check_config(make(2))


def test_what_is_heard():
    """On a square with one ring: vertices hear two edges each, edges one ring, the ring no one."""
    layer = CoboundaryConv(1, act="identity", norm="none")
    for mlp in layer.mlps:
        for linear in mlp.linears:
            torch.nn.init.ones_(linear.weight)
            torch.nn.init.zeros_(linear.bias)
    square = cwnet.lift(nx.cycle_graph(4), Rings(4))
    found = layer([torch.full((n, 1), 10.0**d) for d, n in enumerate(square.num_cells)], square)
    assert [h[0].item() for h in found] == [21, 110, 100]
