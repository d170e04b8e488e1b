"""A cell that all cells of a complex meet in."""

import pytest
import torch

from cwnet.nn import VirtualCell
from cwnet.nn.testing import assert_cell_equivariant
from tests.nn.parts import (
    check_config,
    check_equation,
    check_every_weight_is_reached,
    check_padding,
    features,
    random_batch,
    random_complex,
)
from tests.reference.layers import randomise

WIDTH = 3

LAYERS = {
    "means": lambda dim: VirtualCell(WIDTH, dim, norm="none"),
    "sums": lambda dim: VirtualCell(WIDTH, dim, "sum", "tanh", "layer"),
    "all": lambda dim: VirtualCell(WIDTH, dim, "all"),
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
        check_equation(make(1), random_batch(3), WIDTH)

    def test_equivariance(self, make):
        for dim in (1, 2, 3):
            layer = randomise(make(dim).double())
            assert_cell_equivariant(layer, random_complex(dim, 0), WIDTH, tolerance=1e-10)

    def test_padding(self, make):
        check_padding(make(2), WIDTH)

    def test_every_weight_is_reached(self, make):
        check_every_weight_is_reached(make(2), random_batch(), WIDTH)

    def test_configuration(self, make):
        check_config(make(2))


def test_complexes_do_not_hear_each_other():
    batch = random_batch()
    layer = randomise(VirtualCell(WIDTH, norm="none", act="tanh").double())
    x = features(batch, WIDTH)
    total = sum(h[: int(ptr[1])].sum() for h, ptr in zip(layer(x, batch), batch.cell_ptr, strict=True))
    for grad, ptr in zip(torch.autograd.grad(total, x), batch.cell_ptr, strict=True):
        first = int(ptr[1])
        assert grad[:first].ne(0).any(1).all()  # all cells of the first complex are heard
        assert not grad[first:].any()


def test_unknown_pooling():
    with pytest.raises(ValueError, match="unknown pooling 'median': choose from sum, mean, max"):
        VirtualCell(4, pool="median")
