import os
import re
import subprocess
import sys
from pathlib import Path

import networkx as nx
import pytest
from typer.testing import CliRunner

import cwnet
from cwnet.cli import app

DECALIN, BICYCLOPENTYL = "C1CCC2CCCCC2C1", "C1CCC(C1)C1CCCC1"


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "120"})


def said(*arguments):
    """What a command prints, without the blanks that fill tables and lines."""
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return re.sub(r"\s+", " ", result.output)


def refused(*arguments):
    result = run(*arguments)
    assert result.exit_code == 2
    assert isinstance(result.exception, SystemExit)
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


@pytest.fixture
def triangles(tmp_path):
    (tmp_path / "triangles.edges").write_text("a b\nb c\nc a\nd e\ne f\nf d\n")
    return tmp_path / "triangles.edges"


@pytest.fixture
def hexagon(tmp_path):
    nx.write_graphml(nx.cycle_graph(6), tmp_path / "hexagon.graphml")
    return tmp_path / "hexagon.graphml"


@pytest.fixture
def rook_and_shrikhande(tmp_path, rook, shrikhande):
    texts = [nx.to_graph6_bytes(nx.convert_node_labels_to_integers(g), header=False) for g in (rook, shrikhande)]
    (tmp_path / "srg.g6").write_bytes(b"".join(texts))
    return tmp_path / "srg.g6"


def test_two_triangles_and_a_hexagon(triangles, hexagon):
    text = said("wl", triangles, hexagon, "--test", "cwl,wl")
    assert "A triangles.edges 6 vertices, 6 edges B hexagon.graphml 6 vertices, 6 edges" in text
    assert "Initial colours: one for all cells." in text
    assert "cwl Rings(6) told apart 0" in text
    assert "wl the graph not told apart stable after 1" in text
    assert "Before the first round of cwl, this class of cells has different sizes" in text
    assert "0 all of these: 14 13" in text
    assert "2-cells of 3 edges 2 0 2-cells of 6 edges 0 1" in text
    assert "Told apart by cwl: this proves that A and B are not isomorphic." in text
    assert "Not told apart by wl" in text


@pytest.mark.parametrize("mode", ["fast", "exact"])
def test_decalin_and_bicyclopentyl(mode):
    pytest.importorskip("rdkit")
    text = said("wl", DECALIN, BICYCLOPENTYL, "--test", "cwl,swl,wl,2-fwl", "--mode", mode)
    assert "the elements of atoms and the types of bonds" in text
    assert "cwl Rings(6) told apart 1" in text
    assert "swl the clique complex not told apart" in text
    assert "wl the graph not told apart" in text
    assert "2-fwl the graph told apart" in text
    assert "edges C–C on two 2-cells, of 6 and 6 edges 1 0" in text
    assert "2-cells of 5 edges 0 2" in text
    assert "2-fwl colours tuples of vertices" in text


def test_rook_and_shrikhande_from_one_file(rook_and_shrikhande):
    file = rook_and_shrikhande
    text = said("wl", file, "--test", "cwl,2-fwl", "--lifting", "rings:4")
    assert "A srg.g6:0 16 vertices, 48 edges B srg.g6:1" in text
    assert "cwl Rings(4) told apart 0" in text
    assert "2-fwl the graph not told apart" in text
    assert "2-cells of 4 edges 36 12" in text
    assert said("wl", file, "-q", "--lifting", "rings:3") == "cwl: not told apart wl: not told apart "
    assert said("wl", f"{file}:1", f"{file}:1", "-q", "--test", "cwl") == "cwl: not told apart "
    assert "srg.g6:0 (the first of several in srg.g6)" in said("wl", file, f"{file}:1")


def test_not_told_apart_is_no_proof(triangles, hexagon):
    text = said("wl", triangles, hexagon, "--test", "wl")
    assert "This does not prove that they are isomorphic" in text
    assert "--mode exact" in text
    assert "--mode exact" not in said("wl", triangles, hexagon, "--test", "wl", "--mode", "exact")


def test_labels():
    pytest.importorskip("rdkit")
    assert said("wl", "CCO", "CCN", "-q", "--test", "cwl,wl,1-fwl") == (
        "cwl: told apart wl: told apart 1-fwl: told apart "
    )
    assert said("wl", "CCO", "CCN", "-q", "--no-labels", "--test", "cwl,wl") == (
        "cwl: not told apart wl: not told apart "
    )
    text = said("wl", "CCO", "CCN", "--test", "wl")
    assert "vertices O of degree 1 1 0" in text
    assert "not isomorphic, as graphs with labels" in text


def test_labels_of_different_kinds_are_not_compared(triangles):
    pytest.importorskip("rdkit")
    text = said("wl", triangles, "C1CCCCC1", "--test", "wl")
    assert "one for all cells, because labels of different kinds can not be compared" in text
    assert "not told apart" in text
    assert "different kinds" in refused("wl", triangles, "C1CCCCC1", "--labels")


def test_graphml_labels(tmp_path):
    for name, ends in (("near", "ab"), ("far", "ba")):
        graph = nx.path_graph(3)
        nx.set_node_attributes(graph, {0: "a", 1: ends[0], 2: ends[1]}, "label")
        nx.write_graphml(graph, tmp_path / f"{name}.graphml")
    pair = ("wl", tmp_path / "near.graphml", tmp_path / "far.graphml", "--test", "wl")
    text = said(*pair)
    assert "Initial colours: the labels of vertices." in text
    assert "wl the graph told apart 1" in text
    assert said(*pair, "--no-labels", "-q") == "wl: not told apart "


def test_many_classes_are_cut_short(tmp_path):
    graph = nx.random_regular_graph(3, 60, seed=1)
    # Two labellings that differ in every vertex.
    for name in ("a", "b"):
        nx.set_node_attributes(graph, {v: f"{name}{v}" for v in graph}, "label")
        nx.write_graphml(graph, tmp_path / f"{name}.graphml")
    assert "and 100 more classes, with smaller differences" in said(
        "wl", tmp_path / "a.graphml", tmp_path / "b.graphml", "--test", "wl"
    )


def test_simplify(tmp_path, triangles):
    (tmp_path / "twice.edges").write_text(triangles.read_text() + "b a\na a\n")
    assert said("wl", triangles, tmp_path / "twice.edges", "-q", "--simplify") == (
        "cwl: not told apart wl: not told apart "
    )
    assert "line 7: the edge 'b' to 'a' is there already, in line 1" in refused(
        "wl", triangles, tmp_path / "twice.edges"
    )


def test_html_needs_nothing_else(tmp_path, triangles, hexagon):
    page = tmp_path / "page.html"
    text = said("wl", triangles, hexagon, "--test", "cwl,wl,2-fwl", "--html", page)
    assert "Not on it: 2-fwl, as folklore tests colour tuples, not cells." in text
    content = page.read_text(encoding="utf-8")
    assert content.startswith("<!doctype html>")
    assert not re.search(r"https?://|\bsrc\s*=|<link\b|@import|\burl\(", content)
    assert "CWL on Rings(6)" in content
    assert "WL on the graph" in content
    assert "2-FWL" not in content


def test_html_draws_molecules_as_chemists_do(tmp_path):
    pytest.importorskip("rdkit")
    page = tmp_path / "page.html"
    assert said("wl", "CCO", "COC", "--html", page, "-q") == "cwl: told apart wl: told apart "
    content = page.read_text(encoding="utf-8")
    assert '"labels":["C","C","O"]' in content
    assert '"labels":["C","O","C"]' in content


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.g6", None, "none.g6: can not be read: No such file"),
        ("empty.g6", "", "empty.g6: there is no graph in it"),
        ("broken.g6", "B", "broken.g6, line 1: 'B' is not graph6"),
        ("graph.foo", "", "'.foo' stands for no format known here"),
        ("two words.smi", "C1CC name\n", "two words.smi, line 1: SMILES 'C1CC' does not parse: unclosed ring"),
    ],
)
def test_bad_files(tmp_path, triangles, name, content, message):
    if name.endswith(".smi"):
        pytest.importorskip("rdkit")
    if content is not None:
        (tmp_path / name).write_text(content)
    assert message in refused("wl", triangles, tmp_path / name)
    assert message in refused("wl", tmp_path / name, triangles)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["C1CC", "CC"], "there is no file 'C1CC', and as a molecule: SMILES 'C1CC' does not parse: unclosed ring"),
        (["CC"], "there is only one graph, 'CC'"),
        (["CC", "CC", "--test", "cwl,5-fwl"], "unknown test '5-fwl': choose cwl"),
        (["CC", "CC", "--test", ","], "--test is empty"),
        (["CC", "CC", "--lifting", "squares:4"], "can not read the lifting 'squares:4'"),
        (["CC", "CC", "--lifting", "rings:2"], "Rings(2) attaches nothing"),
        (["CC", "CC", "--test", "2-fwl", "--html", "x.html"], "add cwl, swl or wl"),
        (["CC", "CC", "--html", "no/such/folder/x.html"], "there is no folder no/such/folder"),
    ],
)
def test_bad_arguments(arguments, message):
    pytest.importorskip("rdkit")
    assert message in refused("wl", *arguments)


def test_graphs_that_are_not_there(rook_and_shrikhande, triangles, hexagon):
    assert "has 2 graphs, numbered from 0: there is no" in refused("wl", f"{rook_and_shrikhande}:2", triangles)
    assert "has 1 graph, and it takes two to compare: name another file" in refused("wl", triangles)
    assert "neither graph has any" in refused("wl", triangles, hexagon, "--labels")


def test_too_large_for_folklore(tmp_path, triangles):
    (tmp_path / "path.edges").write_text("".join(f"{i} {i + 1}\n" for i in range(2000)))
    message = refused("wl", triangles, tmp_path / "path.edges", "--test", "3-fwl")
    assert "3-fwl on a graph of 2001 vertices may take" in message
    assert "GB" in message


def test_too_many_cells(tmp_path, triangles):
    nx.write_edgelist(nx.complete_graph(40), tmp_path / "dense.edges", data=False)
    message = refused("wl", triangles, tmp_path / "dense.edges", "--lifting", "cycles:9")
    assert "dense.edges: Cycles(9) attaches too many cells" in message


def test_without_rdkit(monkeypatch):
    monkeypatch.setitem(sys.modules, "rdkit", None)
    assert "pip install cwnet[chem]" in refused("wl", "CC", "CCC")


def test_interrupt(monkeypatch, triangles, hexagon):
    def stop(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("cwnet.cli.wl.distinguish", stop)
    assert run("wl", triangles, hexagon).exit_code == 130


def test_our_own_mistakes_are_not_hidden(monkeypatch, triangles, hexagon):
    def fail(*arguments, **options):
        raise ValueError("a bug")

    monkeypatch.setattr("cwnet.cli.wl.distinguish", fail)
    assert isinstance(run("wl", triangles, hexagon).exception, ValueError)


def test_help_and_version():
    assert f"cwnet {cwnet.__version__}" in said("--version")
    assert "cwnet wl C1CCC2CCCCC2C1" in said("wl", "--help")
    for verb in ("wl", "wl-scan"):
        assert verb in said("--help")


def test_as_a_process(triangles, hexagon):
    def process(*arguments):
        source = str(Path(cwnet.__file__).parents[1])
        path = os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])
        return subprocess.run(
            [sys.executable, "-m", "cwnet", "wl", *arguments],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )

    good = process(triangles, hexagon, "--quiet")
    assert (good.returncode, good.stdout, good.stderr) == (0, "cwl: told apart\nwl: not told apart\n", "")
    bad = process(triangles, "none.g6")
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr == "error: none.g6: can not be read: No such file or directory. Check the path\n"


def test_a_page_of_too_many_vertices_is_refused(tmp_path):
    file = tmp_path / "long.edges"
    file.write_text("\n".join(f"{i} {i + 1}" for i in range(1500)))
    found = run("wl", str(file), str(file), "--html", str(tmp_path / "page.html"))
    assert found.exit_code == 2
    assert "1,501 vertices is too much to draw" in found.output
