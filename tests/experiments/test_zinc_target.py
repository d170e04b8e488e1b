"""Which targets of ZINC depend on the numbers of atoms."""

import json
import random

import numpy as np
import pytest

from cwnet.chem._features import longest_basis_cycle
from cwnet.experiments import zinc_target
from cwnet.experiments.zinc_target import render
from tests.conftest import there
from tests.experiments.test_sr import ABOUT

#: Rings of 5, 5 and 6 atoms.
NORBORNANE = (7, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (0, 6), (6, 3)])
#: Rings of 5, 6 and 7 atoms.
BICYCLO_321 = (8, [(0, 2), (2, 3), (3, 4), (4, 1), (0, 5), (5, 6), (6, 1), (0, 7), (7, 1)])
#: Two rings of 6 atoms that share a bond.
DECALIN = (10, [(i, (i + 1) % 10) for i in range(10)] + [(0, 5)])


def lengths(graph, seed=0, times=60):
    chance = random.Random(seed)
    n, edges = graph
    return {longest_basis_cycle(n, np.array(chance.sample(range(n), n))[np.array(edges)]) for _ in range(times)}


def test_graphs_with_one_choice():
    assert lengths((4, [(0, 1), (1, 2), (2, 3)])) == {0}
    assert lengths((7, [(i, (i + 1) % 7) for i in range(7)])) == {7}


def test_a_basis_of_bridged_rings_depends_on_the_numbers_and_one_of_fused_rings_does_not():
    assert lengths(NORBORNANE) == {5, 6}
    assert lengths(BICYCLO_321) == {6, 7}
    assert lengths(DECALIN) == {6}


@pytest.fixture(scope="module")
def figures(data):
    there(data / "ZINC" / "zinc12k_test.npz")
    return {"run": ABOUT, **zinc_target.run(small=True)}


def test_the_penalty_is_in_the_targets(figures):
    """Without it, molecules with long cycles have much the same targets as others."""
    for row in figures["rows"]:
        (_, short), (count, long) = row["rest"]["False"], row["rest"]["True"]
        assert count >= 3
        assert abs(short - long) < 1.5


def test_the_page(figures, tmp_path):
    assert json.loads(json.dumps(figures)) == figures
    assert [row["molecules"] for row in figures["rows"]] == [300] * 3
    assert sum(row["unsure"] for row in figures["rows"]) > 0
    text = render(figures, tmp_path).read_text()
    assert "This is the small form" in text
    assert text.count("\n| train |") == 1 + len(figures["rows"][0]["most"])
