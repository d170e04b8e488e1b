"""Disjoint unions of complexes."""

import pytest
import torch

import cwnet
from cwnet.complexes import ComplexStore
from cwnet.complexes._union import disjoint_unions
from cwnet.complexes._validate import check_numbers
from cwnet.errors import InvalidComplexError

SQUARE, PATH, DOT = (4, [(0, 1), (1, 2), (2, 3), (3, 0)]), (3, [(0, 1), (1, 2)]), (1, [])


def test_a_union_has_the_cells_of_its_parts_one_after_another():
    store = cwnet.lift_many([SQUARE, PATH, DOT, SQUARE], "rings:6")
    found = disjoint_unions(store, 2)
    check_numbers(found)
    assert [c.num_cells for c in found] == [(7, 6, 1), (5, 4, 1)]
    assert found[0].cells(1) == [(0, 1), (1, 2), (2, 3), (3, 0), (4, 5), (5, 6)]
    assert found[1].cells(2) == [(1, 2, 3, 4)]


def test_features_of_cells_stay_with_them():
    store = cwnet.lift_many([SQUARE, DOT], None)
    x = torch.arange(5)[:, None]
    [found] = disjoint_unions(ComplexStore.from_complexes([
        cwnet.complexes.CellComplex.from_boundaries(c.num_cells[0], [c.boundary(1)], x=[x[a : a + c.num_cells[0]]])
        for a, c in zip((0, 4), store, strict=True)
    ]), 2)  # fmt: skip
    assert torch.equal(found.x[0], x)


def test_no_union_of_a_part():
    store = cwnet.lift_many([SQUARE, PATH, DOT], None)
    with pytest.raises(InvalidComplexError, match="3 complexes do not make unions of 2"):
        disjoint_unions(store, 2)
    assert len(disjoint_unions(store.select([]), 2)) == 0
