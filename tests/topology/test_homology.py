import networkx as nx
import pytest
import torch
from hypothesis import given, settings

import cwnet
from cwnet import Cliques, ComplexStore, Rings
from cwnet.topology import betti_numbers, boundary_matrix, euler_characteristic, orient
from cwnet.topology._homology import _eliminate
from tests.reference.spaces import SPACES
from tests.reference.topology import betti, rank
from tests.strategies import complexes
from tests.topology.complexes import random_parts, random_store

spaces = pytest.mark.parametrize("name", list(SPACES))


@spaces
def test_named_spaces(name):
    complex_, rational, binary = SPACES[name]
    assert betti_numbers(complex_) == rational
    assert betti_numbers(complex_, field="Q") == rational
    assert betti_numbers(complex_, field=2) == binary
    assert betti_numbers(complex_, field=3) == rational  # all torsion of these spaces is of order two


@spaces
def test_euler_characteristic(name):
    complex_, rational, binary = SPACES[name]
    for numbers in (rational, binary):
        assert euler_characteristic(complex_) == sum((-1) ** d * b for d, b in enumerate(numbers))


def test_torsion_of_order_three():
    """A disc with nine sides whose boundary winds three times round a ring: over three elements a hole appears."""
    inner = [(i, (i + 1) % 3) for i in range(3)]
    outer = [(3 + i, 3 + (i + 1) % 9) for i in range(9)]
    spokes = [(3 + i, i % 3) for i in range(9)]
    squares = [(3 + i, 12 + i, i % 3, 12 + (i + 1) % 9) for i in range(9)]
    cells = [*squares, tuple(range(3, 12))]
    space = cwnet.CellComplex.from_boundaries(12, [inner + outer + spokes, cells])
    assert betti_numbers(space) == betti_numbers(space, 2) == (1, 0, 0)
    assert betti_numbers(space, 3) == (1, 1, 1)


@pytest.mark.parametrize("modulus", [0, 2, 5])
def test_against_fractions(modulus):
    """Random choices of 2-cells, with a slow elimination as the judge."""
    for complex_ in random_parts(120, seed=5):
        if complex_.num_cells[1] <= 12:
            dense = [boundary_matrix(complex_, d).toarray() for d in (1, 2)]
            assert betti_numbers(complex_, modulus or "Q") == betti(dense, complex_.num_cells, modulus)


@pytest.mark.parametrize("modulus", [0, 2, 7])
def test_elimination_of_any_whole_numbers(modulus):
    """Pivots other than ±1, which boundary matrices come to only on the way."""
    generator = torch.Generator().manual_seed(0)
    for _ in range(60):
        matrix = torch.randint(-3, 4, (7, 8), generator=generator) * (torch.rand(7, 8, generator=generator) < 0.5)
        matrix[:, 5] = 2 * matrix[:, 1] - 3 * matrix[:, 0]
        if modulus:
            matrix %= modulus
        columns = [matrix[:, j].nonzero().flatten().tolist() for j in range(8)]
        values = [int(matrix[i, j]) for j, rows in enumerate(columns) for i in rows]
        assert len(_eliminate(columns, values, modulus)) == rank(matrix.tolist(), modulus)


@given(complexes)
@settings(max_examples=40)
def test_on_graphs_it_counts_components_and_cycles(complex_):
    graph = complex_.skeleton(1)
    pieces = nx.number_connected_components(graph.to_networkx())
    assert betti_numbers(graph) == (pieces, graph.num_cells[1] - graph.num_cells[0] + pieces)
    assert betti_numbers(complex_)[0] == betti_numbers(complex_, 2)[0] == pieces


def test_many_at_once():
    store = random_store(200, seed=6)
    for field in ("Q", 2):
        found = betti_numbers(store, field)
        assert torch.equal(found, betti_numbers(orient(store), field))
        width = len(store.num_cells)
        for row, complex_ in zip(found.tolist(), store, strict=True):
            assert row == [*betti_numbers(complex_, field), *[0] * (width - len(complex_.num_cells))]
    signs = torch.tensor([(-1) ** d for d in range(found.shape[1])])
    assert torch.equal(euler_characteristic(store), (found * signs).sum(1))
    assert torch.equal(euler_characteristic(store.batch()), euler_characteristic(store))


def test_mixed_dimensions():
    store = ComplexStore.from_complexes([SPACES["3-sphere"][0], SPACES["disc"][0], SPACES["Klein bottle"][0]])
    assert betti_numbers(store).tolist() == [[1, 0, 0, 1], [1, 0, 0, 0], [1, 1, 0, 0]]
    assert betti_numbers(store, 2).tolist() == [[1, 0, 0, 1], [1, 0, 0, 0], [1, 2, 1, 0]]


def test_without_edges():
    assert betti_numbers(cwnet.lift(nx.empty_graph(3), Rings(6))) == (3, 0, 0)
    assert betti_numbers(cwnet.lift(nx.complete_graph(6), Cliques(6))) == (1, 0, 0, 0, 0, 0)


@pytest.mark.parametrize("field", [0, 1, 4, -2, "R", 2.0])
def test_what_is_no_field(field):
    with pytest.raises(ValueError, match="is not a field: give 'Q' for the rational numbers, or a prime such as 2"):
        betti_numbers(SPACES["disc"][0], field)
