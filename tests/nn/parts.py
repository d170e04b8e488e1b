"""What tests of parts share: complexes, features, and the checks that every layer must pass."""

import networkx as nx
import torch

import cwnet
from cwnet import Cliques, Rings
from cwnet.complexes import collate
from cwnet.nn import from_config, to_config
from cwnet.nn.testing import assert_cell_equivariant
from tests.nn.padding import assert_padding_safe
from tests.reference.layers import assert_agree, convolve, randomise, vectors


def random_complex(dim, seed):
    """A random graph with cells up to dimension `dim`; with even seeds there is one of that dimension."""
    graph = nx.gnm_random_graph(7, 10, seed=seed)
    if seed % 2 == 0:
        graph = nx.compose(graph, nx.complete_graph(dim + 1))
    return cwnet.lift(graph, None if dim == 1 else Cliques(dim + 1) | Rings(6))


def random_batch(dim=2, count=4):
    """Several complexes, the last of which has no cells but vertices."""
    return collate([*(random_complex(dim, seed) for seed in range(count)), cwnet.lift(nx.empty_graph(2), Rings(6))])


def features(cells, width, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(n, width, generator=generator, dtype=dtype, requires_grad=True) for n in cells.num_cells]


def check_equation(layer, cells, width, tolerance=1e-10):
    """Values and all gradients of a layer are those of its equation, computed cell by cell."""
    layer = randomise(layer.double())
    x = features(cells, width)
    found, expected = layer(x, cells), convolve(layer, vectors(x), cells)
    assert [len(h) for h in found] == [len(h) for h in expected]
    pairs = [(f, torch.stack(e)) for f, e in zip(found, expected, strict=True) if e]
    leaves = {f"x[{d}]": h for d, h in enumerate(x)} | dict(layer.named_parameters())
    assert_agree([f for f, _ in pairs], [e for _, e in pairs], leaves, tolerance)


def check_equivariance(make, width):
    """Theorem: CW Network layers are cell permutation equivariant. `make` takes the largest dimension of cells."""
    for dim in (1, 2, 3):
        for seed in range(2):
            for training in (True, False):
                layer = randomise(make(dim).double(), seed).train(training)
                assert_cell_equivariant(layer, random_complex(dim, seed), width, seed=seed, tolerance=1e-10)


def check_padding(layer, width, dim=2):
    batch = random_batch(dim)
    call = lambda layer, x, cells: layer(x, cells)  # noqa: E731
    assert_padding_safe(randomise(layer.double()), call, batch, features(batch, width))


def check_config(module):
    """A module that is written down and built anew has the same parts, of the same shapes."""
    other = from_config(to_config(module))
    assert to_config(other) == to_config(module)
    assert [(n, p.shape) for n, p in other.named_parameters()] == [(n, p.shape) for n, p in module.named_parameters()]
    assert repr(other) == repr(module)


def check_every_weight_is_reached(layer, cells, width):
    layer = randomise(layer.double()).eval()
    sum(h.square().sum() for h in layer(features(cells, width), cells)).backward()
    assert [name for name, p in layer.named_parameters() if p.grad is None or not p.grad.any()] == []
