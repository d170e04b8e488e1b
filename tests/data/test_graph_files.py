import gzip

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cwnet.data import GraphFileError, read_graphs, scan_graphs
from cwnet.data._graph_files import decode_graph6
from cwnet.errors import GraphError


def written(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def edge_set(graph):
    return {tuple(sorted(edge)) for edge in np.asarray(graph.edges).tolist()}


def same(graph, expected):
    return graph.num_nodes == len(expected) and edge_set(graph) == {tuple(sorted(e)) for e in expected.edges}


@st.composite
def simple_graphs(draw):
    # 63 and more vertices have a longer header; so do 0 and 1 have no bits at all.
    n = draw(st.one_of(st.integers(0, 12), st.integers(60, 70)))
    pairs = st.tuples(st.integers(0, max(n - 1, 0)), st.integers(0, max(n - 1, 0))).filter(lambda e: e[0] != e[1])
    graph = nx.empty_graph(n)
    graph.add_edges_from(draw(st.lists(pairs, max_size=40)) if n > 1 else [])
    return graph


@given(simple_graphs())
def test_graph6_reads_what_networkx_writes(graph):
    text = nx.to_graph6_bytes(graph, header=False).decode().strip()
    assert same(decode_graph6(text), graph)


@given(simple_graphs())
def test_graph6_reads_what_networkx_reads(graph):
    text = nx.to_graph6_bytes(graph, header=False).strip()
    assert same(decode_graph6(text.decode()), nx.from_graph6_bytes(text))


def test_graph6_of_a_large_graph():
    graph = nx.gnp_random_graph(700, 0.02, seed=1)
    text = nx.to_graph6_bytes(graph, header=False).decode().strip()
    assert text.startswith("~")
    assert same(decode_graph6(text), graph)


def test_graph6_with_the_longest_header():
    # The same triangle with its number of vertices in 4 and in 8 characters, which no writer does but all may.
    for head in ("B", "~??B", "~~?????B"):
        assert edge_set(decode_graph6(f"{head}w")) == {(0, 1), (0, 2), (1, 2)}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("D", "5 vertices take 3 characters, and there are 1"),
        ("D?{?", "5 vertices take 3 characters, and there are 4"),
        ("~?", "4 and more characters, and there are 2"),
        ("~~????", "8 and more characters"),
        ("B\x1f", r"'\\x1f' at character 2"),
        ("B w", "' ' at character 2"),
        ("Bx", "bits are set after the last pair"),
        (":Fa@x^", "sparse6, not graph6"),
        ("&B?", "digraph6, not graph6"),
    ],
)
def test_graph6_that_is_none(text, reason):
    with pytest.raises(GraphError, match=reason):
        decode_graph6(text)


def test_graph6_file(tmp_path):
    lines = [">>graph6<<Bw\r\n", "\r\n", "D?{\r\n", "@"]
    first, second, third = read_graphs(written(tmp_path, "some.g6", "".join(lines)))
    assert [g.name for g in (first, second, third)] == ["some.g6:0", "some.g6:1", "some.g6:2"]
    assert [g.line for g in (first, second, third)] == [1, 3, 4]
    assert [g.position for g in (first, second, third)] == [0, 1, 2]
    assert same(first.graph, nx.complete_graph(3))
    assert nx.is_isomorphic(nx.Graph(second.graph.edges.tolist()), nx.star_graph(4))
    assert same(third.graph, nx.empty_graph(1))


@pytest.mark.parametrize("suffix", [".edges", ".txt", ".csv", ".tsv", ".TXT"])
@pytest.mark.parametrize("separator", [" ", "\t", ",", " , "])
def test_edge_list(tmp_path, suffix, separator):
    text = f"# a comment\nß{separator}C#1\n\nC#1{separator}c # another\nalone{',' if ',' in separator else ''}\n"
    (found,) = read_graphs(written(tmp_path, f"a{suffix}", text))
    assert (found.name, found.line, found.position) == (f"a{suffix}", 2, 0)
    assert found.graph.num_nodes == 4
    assert edge_set(found.graph) == {(0, 1), (1, 2)}
    assert found.graph.x is None


@pytest.mark.parametrize("header", ["source,target\n", "From,To\n", "# source,target\n", ""])
def test_edge_list_with_a_header(tmp_path, header):
    (found,) = read_graphs(written(tmp_path, "a.csv", f"{header}New York,Boston\nBoston,Rome\n"))
    assert (found.graph.num_nodes, edge_set(found.graph)) == (3, {(0, 1), (1, 2)})


def test_simplify_drops_loops_and_repeated_edges(tmp_path):
    path = written(tmp_path, "a.txt", "a b\nb a\nc c\na b\nb c\n")
    (found,) = read_graphs(path, simplify=True)
    assert (found.graph.num_nodes, edge_set(found.graph)) == (3, {(0, 1), (1, 2)})


def test_bytes_that_windows_adds(tmp_path):
    pytest.importorskip("rdkit")
    for name, text in (("a.g6", "Bw\r\n"), ("a.edges", "a b\r\nb c\r\na c\r\n"), ("a.smi", "C1CC1 ring\r\n")):
        (found,) = read_graphs(written(tmp_path, name, b"\xef\xbb\xbf" + text.encode()))
        assert same(found.graph, nx.complete_graph(3))


def test_gzip(tmp_path):
    pytest.importorskip("rdkit")
    nx.write_graphml(nx.complete_graph(3), tmp_path / "plain.graphml")
    texts = {
        "a.g6": b"Bw\n",
        "a.edges": b"a b\nb c\na c\n",
        "a.smiles": b"C1CC1\n",
        "a.graphml": (tmp_path / "plain.graphml").read_bytes(),
    }
    for name, text in texts.items():
        (found,) = read_graphs(written(tmp_path, f"{name}.gz", gzip.compress(text)))
        assert same(found.graph, nx.complete_graph(3))


def graphml(body, keys=""):
    return f'<graphml xmlns="http://graphml.graphdrawing.org/xmlns">{keys}{body}</graphml>'


def test_graphml_of_networkx(tmp_path, rook):
    nx.write_graphml(rook, tmp_path / "rook.graphml")
    (found,) = read_graphs(tmp_path / "rook.graphml")
    assert (found.name, found.labels, found.graph.x, found.graph.edge_x) == ("rook.graphml", None, None, None)
    assert nx.is_isomorphic(nx.Graph(found.graph.edges.tolist()), rook)


def test_graphml_labels(tmp_path):
    graph = nx.path_graph(3)
    nx.set_node_attributes(graph, {0: "C", 1: "O", 2: "C"}, "label")
    nx.set_node_attributes(graph, 7, "x")
    nx.set_edge_attributes(graph, {(0, 1): 1.5, (1, 2): 2}, "x")
    nx.write_graphml(graph, tmp_path / "a.graphml")
    (found,) = read_graphs(tmp_path / "a.graphml")
    assert found.labels == ("C", "O", "C")
    x, edge_x = found.graph.x[:, 0], found.graph.edge_x[:, 0]
    assert x[0] == x[2] != x[1]
    assert edge_x[0] != edge_x[1]
    nx.set_node_attributes(graph, {0: "O", 1: "N", 2: "C"}, "label")
    nx.write_graphml(graph, tmp_path / "b.graphml")
    (other,) = read_graphs(tmp_path / "b.graphml")
    assert other.graph.x[0, 0] == x[1]  # the same in all files


def test_graphml_with_several_graphs_and_defaults(tmp_path):
    key = '<key id="d0" for="node" attr.name="label" attr.type="int"><default>1</default></key>'
    one = '<graph id="first"><node id="a"><data key="d0"> 01 </data></node><node id="b"/></graph>'
    two = '<graph edgedefault="undirected"><node id="a"/></graph>'
    first, second = read_graphs(written(tmp_path, "a.graphml", graphml(one + two, key)))
    assert (first.name, second.name) == ("first", "a.graphml:1")
    assert first.labels == ("1", "1")
    assert second.labels == ("1",)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            '<graph edgedefault="directed"><node id="a"/><node id="b"/><edge source="a" target="b"/></graph>',
            "is directed",
        ),
        ('<graph><node id="a"/><node id="b"/><edge source="a" target="b" directed="true"/></graph>', "is directed"),
        (
            '<graph id="G"><node id="a"/><edge source="a" target="q"/></graph>',
            "graph 'G': .* ends at 'q', .* no such node",
        ),
        ('<graph><node id="a"/><edge source="a" target="a"/></graph>', "'a' to 'a' joins a vertex to itself"),
        ('<graph><node id="a"/><node id="a"/></graph>', "node 'a' is there twice"),
        ('<graph><node id="a"><graph/></node></graph>', "has a graph inside"),
        ('<graph><node id="a"/><hyperedge/></graph>', "<hyperedge>"),
        ("<graph/>", "no vertices"),
        ("", "no graph in it"),
        ("<graph>", "line 1: this is not XML"),
        (
            '<graph><node id="a"><data key="n">x</data></node></graph>',
            "'x' is not a number, but 'label' is said to be int",
        ),
        (
            '<graph><node id="a"><data key="n">1</data></node><node id="b"/></graph>',
            "1 of 2 nodes have no 'label', .*'b'",
        ),
    ],
)
def test_graphml_that_can_not_be_read(tmp_path, body, reason):
    key = '<key id="n" for="node" attr.name="label" attr.type="int"/>'
    path = written(tmp_path, "a.graphml", graphml(body, key))
    with pytest.raises(GraphFileError, match=f"(?s)a.graphml.*{reason}"):
        read_graphs(path)


def test_other_xml(tmp_path):
    with pytest.raises(GraphFileError, match="starts with <svg>"):
        read_graphs(written(tmp_path, "a.graphml", "<svg/>"))


def test_smiles(tmp_path):
    pytest.importorskip("rdkit")
    path = written(tmp_path, "a.smi", "# from the shelf\nCCO ethanol, pure\n\nc1ccccc1\n[Na+].[Cl-]\tsalt\n")
    ethanol, benzene, salt = read_graphs(path)
    assert (ethanol.name, benzene.name, salt.name) == ("ethanol, pure", "c1ccccc1", "salt")
    assert (ethanol.line, benzene.line, salt.line) == (2, 4, 5)
    assert ethanol.labels == ("C", "C", "O")
    assert ethanol.smiles == "CCO"
    assert ethanol.graph.x.tolist() == [[6], [6], [8]]
    assert benzene.graph.edge_x.tolist() == [[12]] * 6
    assert salt.graph.num_nodes == 2


def test_scan_goes_on_after_an_error(tmp_path):
    pytest.importorskip("rdkit")
    path = written(tmp_path, "a.smi", "C\nC1CC broken\nCC\n")
    first, error, last = scan_graphs(path)
    assert (first.position, last.position, last.line) == (0, 2, 3)
    assert isinstance(error, GraphFileError)
    assert (error.path, error.line) == (path, 2)
    with pytest.raises(GraphFileError, match=r"a\.smi, line 2: SMILES 'C1CC' does not parse: unclosed ring"):
        read_graphs(path)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.g6", "", "a.g6: there is no graph in it"),
        ("a.g6", ">>graph6<<\n", "there is no graph in it"),
        ("a.g6", "Bw\nB\n", "a.g6, line 2: 'B' is not graph6"),
        ("a.g6", "?\n", "line 1: the graph has no vertices"),
        ("a.edges", "# nothing\n\n", "there is no graph in it"),
        ("a.graphml", "\n", "there is no graph in it"),
        ("a.edges", "a b\na b c\n", "line 2: 'a b c' is not an edge"),
        ("a.csv", "a,b\n,c\n", "line 2: ',c' is not an edge"),
        ("a.csv", "a,b\nNew York\n", "line 2: 'New York' has a blank but no comma, and line 1 has a comma"),
        ("a.txt", "a b\nb a\n", "line 2: the edge 'b' to 'a' is there already, in line 1"),
        ("a.txt", "a a\n", "line 1: vertex 'a' is joined to itself"),
        ("a.mol", "", "'.mol' stands for no format known here: .*.g6 .*.smiles"),
        ("graphs", "", "no suffix"),
        ("a.gz", "", "no suffix"),
        ("a.g6.gz", "Bw\n", "not a whole gzip file"),
        ("a.g6.gz", gzip.compress(b"Bw\n" * 99, mtime=0)[:-9], "not a whole gzip file"),
        ("a.smi", "C".encode("utf-16"), "not text in UTF-8"),
    ],
)
def test_files_that_can_not_be_read(tmp_path, name, content, reason):
    with pytest.raises(GraphFileError, match=reason):
        read_graphs(written(tmp_path, name, content))


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(GraphFileError, match=r"none\.g6: can not be read: No such file"):
        read_graphs(tmp_path / "none.g6")
    (tmp_path / "a.g6").mkdir()
    with pytest.raises(GraphFileError, match=r"a\.g6: can not be read"):
        read_graphs(tmp_path / "a.g6")
