"""Attention over boundaries and coboundaries."""

import pytest
import torch

from cwnet.nn import AttentionConv
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
from tests.reference.layers import randomise

WIDTH = 4

LAYERS = {
    "usual": lambda dim: AttentionConv(WIDTH, dim=dim),
    "one head, no norm": lambda dim: AttentionConv(WIDTH, 5, dim, 1, "elu", "none"),
    "two heads, layer norm": lambda dim: AttentionConv(WIDTH, 6, dim, 2, norm="layer"),
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
        for dim in (1, 2, 3):
            check_padding(make(dim), WIDTH, dim)

    def test_padding_above_the_layer(self, make):
        check_padding(make(1), WIDTH, 2)

    def test_configuration(self, make):
        check_config(make(2))

    def test_every_weight_is_reached(self, make):
        check_every_weight_is_reached(make(2), random_batch(), WIDTH)


def test_results_do_not_change_from_run_to_run():
    batch = random_batch()
    layer = randomise(AttentionConv(WIDTH))

    def run():
        x = features(batch, WIDTH, torch.float32)
        out = layer(x, batch)
        return [*out, *torch.autograd.grad(sum(h.square().sum() for h in out), [*x, *layer.maps.parameters()])]

    assert all(torch.equal(a, b) for a, b in zip(run(), run(), strict=True))


@pytest.mark.parametrize(("options", "message"), [({"heads": 3}, "3 heads can not share 4"), ({"dim": 0}, "dim=0")])
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        AttentionConv(WIDTH, **options)
