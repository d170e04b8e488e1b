"""A readout joined with the numbers of complexes."""

from dataclasses import replace

import pytest
import torch

from cwnet.nn import Joined, Readout, cin, from_config, models, to_config
from cwnet.train import Recipe
from tests.nn.padding import assert_padding_safe
from tests.nn.parts import check_config, features, random_batch
from tests.reference.layers import assert_close, randomise

WIDTH, NUMBERS = 3, 2


def numbered(batch, seed=0):
    z = torch.randn(len(batch), NUMBERS, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return replace(batch, complex_x=z)


def joined(act="relu"):
    return randomise(Joined(Readout(WIDTH, 5), 5, NUMBERS, 4, act).double())


def test_equation():
    batch, module = numbered(random_batch()), joined("tanh")
    x = features(batch, WIDTH)
    h = torch.cat([module.readout(x, batch), batch.complex_x], 1)
    expected = torch.tanh(h @ module.linear.weight.T + module.linear.bias)
    assert_close(module(x, batch), expected, 1e-12)


def test_the_numbers_count_and_differ_by_complex():
    batch, module = numbered(random_batch()), joined()
    x = features(batch, WIDTH)
    other = replace(batch, complex_x=batch.complex_x.flip(0))
    assert not torch.allclose(module(x, batch), module(x, other))


def test_padding():
    batch = numbered(random_batch())
    call = lambda module, x, cells: [module(x, cells)]  # noqa: E731
    assert_padding_safe(joined("tanh"), call, batch, features(batch, WIDTH))


def test_configuration():
    check_config(Joined(Readout(WIDTH, 5, [0, 1]), 5, NUMBERS, 4, "elu"))


def test_what_is_missing_is_said():
    batch, module = random_batch(), joined()
    x = features(batch, WIDTH)
    with pytest.raises(ValueError, match="joins 2 numbers of each complex, and these complexes have none"):
        module(x, batch)
    with pytest.raises(ValueError, match=r"complex_x is \(5, 3\)"):
        module(x, replace(batch, complex_x=torch.zeros(5, 3)))


def test_presets_join_numbers_and_are_as_before_without():
    encoder = models.molecule_encoder(4)
    plain, more = cin(encoder, 4, 1), cin(encoder, 4, 1, numbers=2)
    assert (type(plain.readout), type(more.readout)) == (Readout, Joined)
    assert to_config(from_config(to_config(more))) == to_config(more)
    with pytest.raises(ValueError, match="not with cells"):
        cin(encoder, 4, 1, numbers=2, cells=0)
    with pytest.raises(ValueError, match="joins no numbers"):
        models.mlp(encoder, 4, 1, numbers=2)
    assert Recipe.from_dict({"data": {"name": "zinc"}, "model": {"numbers": 2}}).model.numbers == 2
