"""Gated convolutions: how much of a convolution to take is learnt."""

import pytest
import torch

from cwnet.nn import AttentionConv, CINConv, Gated, GINConv
from tests.nn.parts import (
    check_config,
    check_equation,
    check_equivariance,
    check_every_weight_is_reached,
    check_padding,
    features,
    random_batch,
    random_complex,
)

WIDTH = 3

LAYERS = {
    "cin": lambda dim: Gated(CINConv(WIDTH, dim=dim, act="tanh"), WIDTH, dim),
    "cin that leaves out the top": lambda dim: Gated(CINConv(WIDTH, dim=dim, act="tanh", top=dim - 1), WIDTH, dim - 1),
    "gin": lambda dim: Gated(GINConv(WIDTH), WIDTH, 0),
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

    def test_every_weight_is_reached(self, make):
        check_every_weight_is_reached(make(2), random_batch(), WIDTH)

    def test_configuration(self, make):
        check_config(make(2))


def test_padding():
    check_padding(Gated(AttentionConv(4, heads=2), 4), 4)


@pytest.mark.parametrize(("bias", "index"), [(50.0, 1), (-50.0, 0)], ids=["open", "closed"])
def test_an_open_gate_takes_the_convolution_and_a_closed_one_what_was_there(bias, index):
    cells = random_complex(2, 0)
    x = features(cells, WIDTH)
    layer = Gated(CINConv(WIDTH), WIDTH).double().eval()
    for gate in layer.gates:
        torch.nn.init.zeros_(gate.weight)
        torch.nn.init.constant_(gate.bias, bias)
    for found, *ends in zip(layer(x, cells), x, layer.conv(x, cells), strict=True):
        torch.testing.assert_close(found, ends[index])


def test_gates_for_too_few_dimensions():
    cells = random_complex(2, 0)
    with pytest.raises(ValueError, match="computes dimension 1, but there are gates up to 0 only"):
        Gated(CINConv(WIDTH).double(), WIDTH, 0).double()(features(cells, WIDTH), cells)
