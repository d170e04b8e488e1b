"""A readout for each part of a disjoint union."""

from dataclasses import replace

import pytest
import torch

from cwnet.complexes import ComplexStore, collate
from cwnet.complexes._union import disjoint_unions
from cwnet.nn import Joined, PerSlot, Readout, cin, models
from cwnet.nn.testing import permuted
from tests.nn.padding import assert_padding_safe
from tests.nn.parts import check_config, features, random_complex
from tests.reference.layers import assert_close, randomise

WIDTH = 3


def parts():
    return [random_complex(2, seed) for seed in range(6)]


def united():
    """Three pairs of complexes."""
    store = ComplexStore.from_complexes(parts())
    slots = torch.repeat_interleave(torch.arange(6) % 2, store.cell_ptr[0].diff())
    return disjoint_unions(replace(store, x=(slots[:, None].to(torch.uint8), *store.x[1:])), 2)


def per_slot(pool="both"):
    return randomise(PerSlot(Readout(WIDTH, 5, pool=pool, act="elu"), 2).double())


@pytest.mark.parametrize("pool", ["sum", "mean", "max", "both"])
def test_it_is_the_readout_of_each_part(pool):
    batch, module = united().batch(), per_slot(pool)
    x = features(batch, WIDTH)
    alone = collate(parts())
    assert_close(module(x, batch), module.readout(x, alone).reshape(3, 10), 1e-12)


def test_the_order_of_cells_does_not_matter_and_that_of_slots_does():
    store, module = united(), per_slot()
    cells = store[0]
    x = features(cells, WIDTH)
    orders = [torch.randperm(n, generator=torch.Generator().manual_seed(d)) for d, n in enumerate(cells.num_cells)]
    moved = [h[order] for h, order in zip(x, orders, strict=True)]
    expected = module(x, collate([cells]))
    assert_close(module(moved, collate([permuted(cells, orders)])), expected, 1e-12)
    other = replace(cells, x=(1 - cells.x[0], *cells.x[1:]))
    assert_close(module(x, collate([other])), expected.roll(5, 1), 1e-12)
    assert not torch.allclose(expected, expected.roll(5, 1))


def test_padding():
    batch = united().batch()
    call = lambda module, x, cells: [module(x, cells)]  # noqa: E731
    assert_padding_safe(per_slot("both"), call, batch, features(batch, WIDTH))


def test_configuration():
    check_config(PerSlot(Readout(WIDTH, 5), 3))


def test_what_is_missing_is_said():
    batch = collate(parts())
    with pytest.raises(ValueError, match="the slot of a vertex is the last column"):
        per_slot()(features(batch, WIDTH), batch)


def test_presets_have_slots():
    model = cin(models.molecule_encoder(4, atoms=(2,), bonds=None), 4, 1, slots=2, numbers=1)
    assert (type(model.readout), type(model.readout.readout)) == (Joined, PerSlot)
    batch = replace(united().batch(), complex_x=torch.zeros(3, 1))
    assert model(batch).shape == (3, 1)
    with pytest.raises(ValueError, match="colours are counted in whole complexes"):
        cin(models.molecule_encoder(4), 4, 1, slots=2, counts=64)
