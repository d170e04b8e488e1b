import json

import networkx as nx
import pytest

from cwnet import Cycles, Rings, distinguish
from cwnet.experiments import cycle_counts
from cwnet.experiments.cycle_counts import PAPER, count, render, rook, shrikhande
from tests.experiments.test_sr import ABOUT


@pytest.mark.parametrize("make", [rook, shrikhande])
def test_both_are_strongly_regular_and_not_the_same(make):
    n, edges = make()
    graph = nx.Graph(edges)
    common = {
        (graph.has_edge(u, v), len(list(nx.common_neighbors(graph, u, v)))) for u in graph for v in graph if u < v
    }
    assert (n, len(edges), common) == (16, 48, {(True, 2), (False, 2)})
    assert not nx.is_isomorphic(nx.Graph(rook()[1]), nx.Graph(shrikhande()[1]))


def test_all_counts_are_the_papers():
    figures = cycle_counts.run()
    assert [(row["graph"], row["kind"]) for row in figures["rows"]] == [
        ("Rook 4x4", "cycles"), ("Shrikhande", "cycles"), ("Rook 4x4", "rings"), ("Shrikhande", "rings"),
    ]  # fmt: skip
    assert all(row["agree"] and tuple(row["counts"]) == PAPER[row["graph"]][row["kind"]] for row in figures["rows"])
    assert json.loads(json.dumps(figures)) == figures


def test_counts_are_those_of_networkx():
    graph = nx.Graph(shrikhande()[1])
    lengths = [len(cycle) for cycle in nx.chordless_cycles(graph, 8)]
    assert count(shrikhande(), "rings") == [lengths.count(size) for size in range(3, 9)]


def test_what_the_page_says_of_cellular_wl():
    assert not distinguish(rook(), shrikhande(), test="3-wl")
    assert not distinguish(rook(), shrikhande(), Rings(3))
    assert distinguish(rook(), shrikhande(), Rings(4))
    assert distinguish(rook(), shrikhande(), Cycles(8))


def test_the_page_tells_of_a_count_that_differs(tmp_path):
    figures = {"run": ABOUT, **cycle_counts.run(small=True)}
    assert figures["sizes"] == [3, 4, 5, 6]
    text = render(figures, tmp_path / "new").read_text()
    assert "All counts are the paper's." in text
    assert "This is the small form" in text
    assert "| Rook 4x4, induced cycles | ours | 32 | 36 | 0 | 96 | yes |" in text
    figures["rows"][0]["counts"][1] += 1
    figures["rows"][0]["agree"] = False
    text = render(figures, tmp_path).read_text()
    assert "1 of 4 rows differ from it." in text
    assert "| Rook 4x4, cycles | ours | 32 | 61 | 288 | 1,248 | **no** |" in text
