"""`distinguish`, certificates and classes."""

import os
import subprocess
import sys

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import cwnet
from cwnet import Cliques, Cycles, Rings, lift_many
from cwnet.lifting import relabelled
from cwnet.wl import certificates, classes, share_not_told_apart
from tests.reference import refinement as reference
from tests.reference.certificates import certificate as slow_certificate
from tests.strategies import complexes, dense, graphs, small_graphs

tiny = st.integers(1, 6).flatmap(
    lambda n: st.builds(nx.gnm_random_graph, st.just(n), st.integers(0, 12), st.integers(0, 99))
)


@settings(max_examples=300)
@given(small_graphs, small_graphs)
def test_exact_and_fast_agree_with_the_definition(a, b):
    lifted = [cwnet.lift(g, Rings(6)) for g in (a, b)]
    if max(sum(c.num_cells) for c in lifted) > 150:
        return
    expected = reference.cwl(lifted)
    decided = [reference.histogram(x) != reference.histogram(y) for x, y in expected]
    for mode in ("exact", "fast"):
        verdict = cwnet.distinguish(a, b, Rings(6), mode=mode)
        assert verdict.distinguished == any(decided)
        if verdict:
            assert verdict.rounds == decided.index(True)


@settings(max_examples=60)
@given(tiny, tiny, st.sampled_from([1, 2, 3]))
def test_folklore_equals_its_definition(a, b, k):
    assert cwnet.distinguish(a, b, test=f"{k}-fwl").distinguished == reference.folklore_told_apart(a, b, k)


@settings(max_examples=200)
@given(small_graphs, small_graphs)
def test_1_fwl_is_wl(a, b):
    assert bool(cwnet.distinguish(a, b, test="1-fwl")) == bool(cwnet.distinguish(a, b, test="wl"))


@settings(max_examples=100)
@given(dense, dense)
def test_wl_equals_networkx(a, b):
    ours = cwnet.distinguish(a, b, test="wl").distinguished
    n = max(len(a), len(b))
    hashes = [nx.weisfeiler_lehman_graph_hash(g, iterations=n, digest_size=16) for g in (a, b)]
    assert ours == (hashes[0] != hashes[1] or len(a) != len(b) or a.number_of_edges() != b.number_of_edges())


def test_folklore_with_labels():
    path = cwnet.Graph(3, [(0, 1), (1, 2)])
    a, b = path._replace(x=[1, 2, 1]), path._replace(x=[2, 1, 1])
    for k in (1, 2, 3):
        assert cwnet.distinguish(a, b, test=f"{k}-fwl", initial="features")
        assert not cwnet.distinguish(a, b, test=f"{k}-fwl")
    square = cwnet.Graph(4, [(0, 1), (1, 2), (2, 3), (3, 0)])
    a, b = square._replace(edge_x=[1, 1, 2, 2]), square._replace(edge_x=[1, 2, 1, 2])
    for k in (1, 2, 3):
        assert cwnet.distinguish(a, b, test=f"{k}-fwl", initial="features")


class TestCertificates:
    @settings(max_examples=1000)
    @given(graphs)
    def test_100_relabellings_of_1000_graphs(self, graph):
        copies = [relabelled(graph, seed)[0] for seed in range(100)]
        assert set(certificates(copies, Rings(5) | Cliques(4))) == {cwnet.certificate(graph, Rings(5) | Cliques(4))}

    @settings(max_examples=300)
    @given(complexes)
    def test_to_the_bit(self, complex_):
        expected = slow_certificate(complex_)
        assert certificates([complex_]) == [expected]
        assert certificates([complex_], initial="dimension") == [expected]

    @settings(max_examples=300)
    @given(complexes, st.integers(0, 7), st.integers(0, 99))
    def test_to_the_bit_with_labels(self, complex_, labelled, seed):
        """Labels of some dimensions, by the bits of `labelled`; the higher ones have none."""
        random = np.random.default_rng(seed)
        labels = [
            random.integers(-2, 2, n) if labelled >> d & 1 else None for d, n in enumerate(complex_.num_cells[:3])
        ]
        by_cell = {(d, i): int(v) for d, row in enumerate(labels) if row is not None for i, v in enumerate(row)}
        assert certificates([complex_], initial=labels) == [slow_certificate(complex_, by_cell)]

    def test_to_the_bit_where_cells_are_large(self):
        star = nx.disjoint_union(nx.star_graph(40), nx.cycle_graph(33))
        for lifting in (None, Rings(40)):
            assert cwnet.certificate(star, lifting) == slow_certificate(cwnet.lift(star, lifting))

    def test_one_after_another_is_as_alone(self):
        """Nothing of one complex is left for the next."""
        sizes = [(30, 45), (3, 2), (12, 40), (1, 0), (9, 30)]
        graphs = [nx.gnm_random_graph(n, m, seed=7) for n, m in sizes] * 3
        lifting = Rings(5) | Cliques(5)
        assert certificates(graphs, lifting, threads=1) == [cwnet.certificate(g, lifting) for g in graphs]

    def test_pinned(self):
        """These must not change as long as CERTIFICATE_VERSION does not."""
        assert cwnet.wl.CERTIFICATE_VERSION == 2
        petersen = nx.petersen_graph()
        assert cwnet.certificate(petersen, Rings(6)) == PINNED["petersen rings"]
        assert cwnet.certificate(petersen, None) == PINNED["petersen graph"]
        coloured = cwnet.Graph(3, [(0, 1), (1, 2)], x=[6, 8, 6], edge_x=[1, 2])
        assert cwnet.certificate(coloured, Rings(6), initial="features") == PINNED["labels"]

    @given(graphs, st.sampled_from([None, Rings(5), Cliques(4), Cycles(5) | Cliques(4)]))
    def test_one_graph_and_a_list_go_different_ways_to_the_same_end(self, graph, lifting):
        other = relabelled(graph, 1)[0]
        for initial in ("uniform", "dimension"):
            expected = certificates(lift_many([graph], lifting), initial=initial)[0]
            assert cwnet.certificate(graph, lifting, initial=initial) == expected
            fast = cwnet.distinguish(graph, other, lifting, initial=initial)
            slow = cwnet.distinguish(graph, other, lifting, initial=initial, mode="exact")
            assert fast == slow

    def test_across_processes_threads_and_hash_seeds(self):
        code = (
            "import networkx as nx, cwnet\n"
            "from cwnet.wl import certificates\n"
            "some = [nx.gnm_random_graph(12, 20, seed=s) for s in range(200)]\n"
            "print(certificates(some, cwnet.Rings(6), threads={threads}))"
        )
        printed = set()
        for seed in ("0", "12345"):
            for threads in (1, 2):
                environment = {**os.environ, "PYTHONHASHSEED": seed}
                run = subprocess.run(
                    [sys.executable, "-c", code.format(threads=threads)],
                    env=environment, capture_output=True, text=True, check=True,
                )  # fmt: skip
                printed.add(run.stdout)
        assert len(printed) == 1

    def test_they_tell_apart_what_the_test_does(self):
        assert cwnet.certificate(nx.cycle_graph(6), None) == cwnet.certificate(
            nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3)), None
        )
        assert cwnet.certificate(nx.cycle_graph(6), Rings(6)) != cwnet.certificate(
            nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3)), Rings(6)
        )
        # Regular graphs are stable from the start, and still differ.
        assert cwnet.certificate(nx.circulant_graph(8, [1]), None) != cwnet.certificate(
            nx.circulant_graph(8, [1, 2]), None
        )

    def test_folklore_has_none(self):
        with pytest.raises(ValueError, match="compares graphs with each other"):
            certificates([nx.path_graph(3)], test="2-fwl")


PINNED = {
    "petersen rings": "e9b5a0548a4446c0f4c2b53c7ea9a9f0",
    "petersen graph": "5a34f3e502831c9f84d9c1f2e955b508",
    "labels": "d0554cdc5a5884266ffd04b73f51b05f",
}


def test_classes_and_pairs():
    some = [
        nx.cycle_graph(6),
        nx.cycle_graph(5),
        nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3)),
        nx.cycle_graph(6),
    ]
    assert classes(some, test="wl").tolist() == [0, 1, 0, 0]
    assert classes(some, Rings(6)).tolist() == [0, 1, 2, 0]
    assert classes(some, test="2-fwl").tolist() == [0, 1, 2, 0]
    assert share_not_told_apart(torch.tensor([0, 1, 0, 0])) == pytest.approx(3 / 6)
    assert share_not_told_apart(torch.tensor([0])) == 0.0
    lifted = cwnet.lift_many(some, Rings(6))
    assert classes(lifted).tolist() == [0, 1, 2, 0]  # a store is tested as it is
    assert classes(lifted, None).tolist() == [0, 1, 0, 0]


def test_verdicts_speak():
    told = cwnet.distinguish(nx.path_graph(3), nx.path_graph(4))
    assert told.distinguished
    assert told
    assert str(told) == "cwl on Rings(6): told apart in round 0"
    sphere = cwnet.CellComplex.from_boundaries(2, [[(0, 1), (0, 1)], [(0, 1), (0, 1)]])
    same = cwnet.distinguish(sphere, sphere)
    assert str(same) == "cwl on the complex: not told apart, stable after round 1"


def test_swl_takes_all_cliques():
    k9 = nx.complete_graph(9)
    store, name = cwnet.wl._tests.complexes_for([k9], Rings(6), "swl")
    assert store.num_cells[8] == 1
    assert name == "the clique complex"


@pytest.mark.parametrize("test", ["4-fwl", "cwl2", "5-wl", ""])
def test_unknown_test(test):
    with pytest.raises(ValueError, match="unknown test"):
        cwnet.distinguish(nx.path_graph(2), nx.path_graph(2), test=test)


def test_too_large_for_folklore():
    big = nx.path_graph(500)
    with pytest.raises(MemoryError, match=r"3-fwl on a graph of 500 vertices may take [\d.,]+ GB.*limit"):
        cwnet.distinguish(big, big, test="3-fwl")
