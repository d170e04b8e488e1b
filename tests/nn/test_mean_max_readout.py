"""Readouts by means and by maxima."""

import pytest
import torch

from cwnet.complexes import collate
from cwnet.nn import MaxReadout, MeanReadout, Readout
from cwnet.nn.testing import permuted
from tests.nn.padding import assert_padding_safe
from tests.nn.parts import check_config, features, random_batch, random_complex
from tests.reference.layers import assert_agree, assert_close, randomise, readout, vectors

WIDTH = 3
readouts = pytest.mark.parametrize("make", [MeanReadout, MaxReadout])


@readouts
@pytest.mark.parametrize("dims", [(0, 1, 2), (1,)])
def test_equation(make, dims):
    module = randomise(make(WIDTH, 5, dims, act="elu").double())
    batch = random_batch()
    x = features(batch, WIDTH)
    leaves = {f"x[{d}]": x[d] for d in dims} | dict(module.named_parameters())
    assert_agree([module(x, batch)], [torch.stack(readout(module, vectors(x), batch))], leaves, 1e-12)


@readouts
def test_the_order_of_cells_does_not_matter(make):
    module = randomise(make(WIDTH, 5).double())
    cells = random_complex(2, 0)
    x = features(cells, WIDTH)
    orders = [torch.randperm(n, generator=torch.Generator().manual_seed(d)) for d, n in enumerate(cells.num_cells)]
    found = module([h[order] for h, order in zip(x, orders, strict=True)], collate([permuted(cells, orders)]))
    assert_close(found, module(x, collate([cells])), 1e-12)


@readouts
def test_padding(make):
    batch = random_batch()
    module = randomise(make(WIDTH, 5, act="tanh").double())
    assert_padding_safe(module, lambda readout, x, cells: [readout(x, cells)], batch, features(batch, WIDTH))


@readouts
def test_configuration(make):
    check_config(make(WIDTH, 5, [0, 2], "tanh", False, 0.1))


@pytest.mark.parametrize(("make", "pool"), [(MeanReadout, "mean"), (MaxReadout, "max")])
def test_they_are_readouts_by_another_name(make, pool):
    one, other = make(WIDTH, 5), Readout(WIDTH, 5, pool=pool)
    other.load_state_dict(one.state_dict())
    batch = random_batch()
    x = features(batch, WIDTH, torch.float32)
    assert torch.equal(one(x, batch), other(x, batch))
