"""Arguments that mean nothing, or more than one can wait for."""

import time

import pytest

import cwnet
from cwnet import Cliques, Custom
from cwnet.wl import refine

TRIANGLE = (3, [(0, 1), (1, 2), (2, 0)])
PATH = (4, [(0, 1), (1, 2), (2, 3)])


@pytest.mark.parametrize("test", ["cwl", "wl", "2-fwl"])
def test_a_mode_that_is_none(test):
    with pytest.raises(ValueError, match="mode='foo' is not 'fast' or 'exact'"):
        cwnet.distinguish(TRIANGLE, PATH, test=test, mode="foo")


@pytest.mark.parametrize("dim", [-1, 0, 1, 2.0, True, "2"])
def test_custom_cells_have_a_dimension_of_two_or_more(dim):
    with pytest.raises((TypeError, ValueError), match="dim"):
        Custom(lambda graph: [], dim=dim)


def test_cliques_beyond_measure():
    start = time.perf_counter()
    with pytest.raises(ValueError, match=r"Cliques\(1000000\): k is at most 256"):
        Cliques(1_000_000)
    assert len(cwnet.lift(TRIANGLE, Cliques(256)).num_cells) == 256
    assert time.perf_counter() - start < 5


@pytest.mark.parametrize("mode", ["fast", "exact"])
@pytest.mark.parametrize("most", [10**7, 2**70])
def test_rounds_end_when_colours_are_stable(mode, most):
    graphs = [
        cwnet.lift(PATH, None),
        cwnet.lift(TRIANGLE, "rings:6"),
        cwnet.lift((40, [(i, i + 1) for i in range(39)]), None),
    ]
    found, expected = refine(graphs, mode=mode, max_rounds=most), refine(graphs, mode=mode)
    assert (found.rounds, len(found.colours)) == (expected.rounds, len(expected.colours))
    for few in (0, 1, 2, 5, 17):
        found = refine(graphs, mode=mode, max_rounds=few)
        assert found.rounds == min(few, expected.rounds)
