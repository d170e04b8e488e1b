"""What is in the page, without a browser."""

import base64
import hashlib
import html
import itertools
import re
from dataclasses import replace
from html.parser import HTMLParser

import networkx as nx
import numpy as np
import pytest

import cwnet
from cwnet import CellComplex
from cwnet.data import NamedGraph
from cwnet.data._graph_files import from_smiles
from cwnet.errors import CwnetError
from cwnet.explore import LIFTINGS, MAX_EXHIBITS, Typed, exhibit, render_explorer
from cwnet.explore._colours import _lasting
from cwnet.lifting import Graph
from cwnet.molecules import explain
from cwnet.wl import refine

EVIL = "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1><!-- & {{data}} \"'"


def named(graph, name="g", **more):
    graph = nx.convert_node_labels_to_integers(graph)
    return NamedGraph(name, Graph(len(graph), np.array(graph.edges, dtype=np.int64).reshape(-1, 2)), 0, **more)


class Elements(HTMLParser):
    """The names of all elements, and the text of the scripts."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.scripts = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        if self.tags and self.tags[-1][0] == "script":
            self.scripts.append(data)


def test_the_gallery_has_what_was_promised(collection):
    names = [each.name for each in collection[0]]
    for name in ("Aspirin", "Caffeine", "Diazepam", "Muscone", "Decalin", "Bicyclopentyl"):
        assert name in names
    for pair in collection[1]:
        a, b = (next(each.source.graph for each in collection[0] if each.name == name) for name in pair[:2])
        assert not cwnet.distinguish(a, b, test="wl", initial="uniform"), "WL tells them apart: they do not belong here"
        assert cwnet.distinguish(a, b, LIFTINGS[pair.lifting])


def test_rook_and_shrikhande_are_these_graphs(collection, rook, shrikhande):
    for name, graph in (("Rook 4×4", rook), ("Shrikhande", shrikhande)):
        mine = next(each.source.graph for each in collection[0] if each.name == name)
        assert nx.is_isomorphic(nx.Graph(mine.edges.tolist()), graph)


@pytest.mark.parametrize("key", LIFTINGS)
def test_boundaries_are_the_librarys(collection, data, key):
    for each, found in zip(collection[0], data["exhibits"], strict=True):
        graph = each.source.graph
        complex = cwnet.lift((graph.num_nodes, graph.edges), LIFTINGS[key])
        assert len(found["points"]) == complex.num_cells[0]
        assert found["edges"] == complex.boundary(1).tolist()
        boundaries, vertices = found["complexes"][key]["boundaries"], found["complexes"][key]["vertices"]
        for d in range(2, complex.dim + 1):
            assert boundaries[d - 2] == complex.boundary(d).tolist()
            assert [tuple(cell) for cell in vertices[d - 2]] == complex.cells(d)


def coloured(found, key, start, t):
    table = found["colours"][key][start]
    row = table["rounds"][min(t, len(table["rounds"]) - 1)]
    return [row[c] for c in table["classes"]]


@pytest.mark.parametrize("key", LIFTINGS)
@pytest.mark.parametrize("start", ["uniform", "labels"])
def test_colours_are_the_librarys_for_every_pair(collection, data, key, start):
    """The page refines all exhibits at once; two of them alone must get the same classes in every round."""
    shown = [
        (each, found)
        for each, found in zip(collection[0], data["exhibits"], strict=True)
        if start == "uniform" or each.label_kind
    ]
    assert len(shown) >= 6
    for pair in itertools.combinations(shown, 2):
        graphs = [each.source.graph for each, _ in pair]
        if start == "uniform":
            graphs = [Graph(g.num_nodes, g.edges) for g in graphs]
        lifted = [cwnet.lift(g, LIFTINGS[key]) for g in graphs]
        result = refine(lifted, initial="uniform" if start == "uniform" else "features", mode="exact")
        for t in range(len(result.colours)):
            mine = [k for _, found in pair for k in coloured(found, key, start, t)]
            theirs = [k for i in (0, 1) for row in result.of(i, t) for k in row]
            assert len(set(mine)) == len(set(theirs)) == len(set(zip(mine, theirs, strict=True)))


def test_largest_piece_keeps_its_colour():
    rounds = [np.array(row) for row in ([9, 9, 9, 9, 9, 9, 9], [0, 0, 7, 7, 7, 7, 7], [5, 5, 1, 1, 3, 3, 3])]
    assert [row.tolist() for row in _lasting(rounds)] == [[0] * 7, [1, 1, 0, 0, 0, 0, 0], [1, 1, 2, 2, 0, 0, 0]]


def test_contributions_are_the_models(model, collection, data):
    for each, found in zip(collection[0][:3], data["exhibits"], strict=False):
        theirs = explain(model, [each.source.smiles])[0]
        mine = found["prediction"]
        assert mine["value"] == pytest.approx(theirs.value, abs=1e-5)
        assert [tuple(c) for c in theirs.complex.cells(2)] == [
            tuple(c) for c in found["complexes"][mine["lifting"]]["vertices"][0]
        ]
        for values, contributions in zip(mine["contributions"], theirs.contributions, strict=True):
            np.testing.assert_allclose(values, contributions, atol=2e-5)
        total = mine["baseline"] + sum(map(sum, mine["contributions"])) + mine["missing"]
        assert total == pytest.approx(mine["value"], abs=1e-3)
    assert all(found["prediction"] is None for found in data["exhibits"] if found["smiles"] is None)


def test_bonds_have_as_many_lines_as_their_order(data):
    aspirin = data["exhibits"][0]
    assert sorted(len(lines) for lines in aspirin["lines"]) == [1] * 8 + [2] * 5


def test_the_page_asks_for_nothing_from_outside(page):
    assert page.startswith("<!doctype html>")
    assert not re.search(r"https?://|\bsrc\s*=|<link\b|@import|\burl\(|\bfetch\(|\bimport\(|XMLHttp|WebSocket", page)
    assert not re.search(r"\{\{\w+\}\}", page)
    assert len(page) < 400_000


def test_the_policy_allows_this_script_and_no_other(page):
    policy = html.unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1])
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for kind in ("style", "script"):
        text = re.search(rf"<{kind}>(.*?)</{kind}>", page, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert not re.search(r"\son\w+\s*=\s*[\"']|\sstyle=", page), "handlers and styles in attributes are not allowed"


def test_text_of_users_is_harmless(data_of):
    bad = exhibit(named(nx.path_graph(2), EVIL, labels=(EVIL, "C")), about=EVIL)
    page = render_explorer([bad], (), Typed([EVIL], EVIL, EVIL))
    clean = render_explorer([exhibit(named(nx.path_graph(2)))], (), Typed(["C"], "C", "no"))
    tags = [[tag for tag, _ in Elements(text).tags] for text in (page, clean)]
    assert tags[0] == tags[1]
    assert page.count("<!--") == clean.count("<!--") == 0
    found = data_of(page)["exhibits"][0]
    assert found["name"] == found["about"] == found["labels"][0] == EVIL
    typed = [attrs for tag, attrs in Elements(page).tags if tag == "input" and attrs.get("name") == "smiles"]
    assert [attrs["value"] for attrs in typed] == [EVIL, EVIL]


def test_graphs_too_large_to_draw_are_refused():
    with pytest.raises(CwnetError, match=r"long has 301 vertices, too many to draw: .* up to 300\. .*cwnet wl"):
        exhibit(named(nx.path_graph(301), "long"))
    with pytest.raises(CwnetError, match=r"dense has 1,540 edges, too many to draw: .* up to 1,500"):
        exhibit(named(nx.complete_graph(56), "dense"))


def test_a_lifting_of_too_many_cells_is_refused_and_the_others_are_there(data_of):
    graph = exhibit(named(nx.circulant_graph(41, [1, 3])))
    found = data_of(render_explorer([graph]))["exhibits"][0]
    assert found["complexes"]["rings:18"] == {"refused": "Rings(18) attaches more than 1,000 cells, too many to draw"}
    assert found["colours"]["rings:18"] is None
    assert len(found["complexes"]["rings:6"]["boundaries"][0]) == 82


def test_odd_graphs(data_of, model):
    shown = [
        exhibit(named(nx.empty_graph(1))),
        exhibit(named(nx.empty_graph(3))),
        exhibit(from_smiles("C", "methane"), model=model),
        exhibit(from_smiles("[Na+].[Cl-]", "salt"), model=model),
        exhibit(from_smiles("c1ccc2ccccc2c1", "naphthalene")),
    ]
    found = data_of(render_explorer(shown))
    assert found["start"] == {"a": 0, "b": 1, "lifting": "rings:6"}
    assert [len(each["points"]) for each in found["exhibits"]] == [1, 3, 1, 2, 10]
    assert found["exhibits"][3]["about"] == "ClNa"
    assert found["exhibits"][4]["prediction"] is None


def test_labels_of_other_kinds_are_not_compared():
    labels = np.array([[1], [2]])
    plain = named(nx.path_graph(2))
    some = replace(plain, graph=plain.graph._replace(x=labels), labels=("a", "b"))
    other = replace(some, graph=some.graph._replace(edge_x=np.array([[1]])))
    kinds = [exhibit(each).label_kind for each in (plain, some, other, from_smiles("CC", "CC"))]
    assert kinds[0] is None
    assert len(set(kinds)) == 4


def test_a_page_takes_so_many():
    one = exhibit(named(nx.path_graph(2)))
    for wrong in ([], [one] * (MAX_EXHIBITS + 1)):
        with pytest.raises(CwnetError, match=f"{len(wrong)} graphs on one page: it takes 1 to {MAX_EXHIBITS}"):
            render_explorer(wrong)


def test_every_complex_is_one(collection):
    for each in collection[0]:
        assert all(isinstance(complex, CellComplex) for complex in each.complexes.values())
