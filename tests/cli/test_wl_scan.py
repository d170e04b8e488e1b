import csv

import networkx as nx
import pytest
from typer.testing import CliRunner

from cwnet import certificate
from cwnet.cli import app
from tests.cli.test_wl import refused, run, said

MOLECULES = "CCO ethanol\nC1CC broken\nOCC\n\nc1ccccc1 benzene\n[Na+].[Cl-] salt\nC(C)(C)(C)(C)C five\n"


@pytest.fixture
def molecules(tmp_path):
    pytest.importorskip("rdkit")
    (tmp_path / "some.smi").write_text(MOLECULES)
    return tmp_path / "some.smi"


@pytest.fixture
def atlas(tmp_path):
    """All connected graphs with up to 6 vertices, and the hexagon again."""
    graphs = [g for g in nx.graph_atlas_g()[1:209] if nx.is_connected(g)]
    texts = [nx.to_graph6_bytes(g, header=False).decode() for g in (*graphs, nx.cycle_graph(6))]
    (tmp_path / "atlas.g6").write_text("".join(texts))
    return tmp_path / "atlas.g6"


def rows(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_molecules(molecules, tmp_path):
    out = tmp_path / "out.csv"
    text = said("wl-scan", molecules, "-o", out)
    assert "4 graphs in" in text
    assert "3 classes Test: cwl on Rings(6), with labels Pairs not told apart: 1 of 6 (16.7 %)" in text
    assert "0 2 ethanol (line 1), OCC (line 3)" in text
    table = rows(out)
    assert list(table[0]) == ["position", "name", "class", "certificate"]
    assert [(r["position"], r["name"], r["class"]) for r in table] == [
        ("0", "ethanol", "0"),
        ("2", "OCC", "0"),
        ("3", "benzene", "1"),
        ("4", "salt", "2"),
    ]
    assert table[0]["certificate"] == table[1]["certificate"] != table[2]["certificate"]


def test_lines_that_do_not_parse_are_named(molecules):
    result = run("wl-scan", molecules)
    assert result.exit_code == 0
    assert "2 graphs left out:" in result.stderr
    assert "some.smi, line 2: SMILES 'C1CC' does not parse: unclosed ring" in result.stderr
    assert "some.smi, line 7: SMILES 'C(C)(C)(C)(C)C' does not parse: Explicit valence" in result.stderr
    assert "some.smi, line 2: SMILES 'C1CC'" in refused("wl-scan", molecules, "--strict")


def test_without_labels(molecules, tmp_path):
    molecules.write_text("CCO\nCCN\nCCC\n")
    assert "3 classes" in said("wl-scan", molecules)
    text = said("wl-scan", molecules, "--no-labels", "-o", tmp_path / "out.csv")
    assert "1 class Test: cwl on Rings(6), without labels Pairs not told apart: 3 of 3 (100 %)" in text
    path = rows(tmp_path / "out.csv")[0]["certificate"]
    assert path == certificate((3, [(0, 1), (1, 2)]))


def test_graphs(atlas, tmp_path):
    out = tmp_path / "out.csv"
    text = said("wl-scan", atlas, "--lifting", "rings:6", "-o", out)
    table = rows(out)
    graphs = [nx.from_graph6_bytes(line.encode()) for line in atlas.read_text().split()]
    assert len(table) == len(graphs)
    assert [r["certificate"] for r in table] == [
        certificate((len(g), list(g.edges))) for g in map(nx.convert_node_labels_to_integers, graphs)
    ]
    hexagons = [r["name"] for r in table if r["certificate"] == table[-1]["certificate"]]
    assert len(hexagons) == 2
    assert f"{hexagons[0]} (line " in text


def test_folklore_has_classes_without_certificates(atlas, tmp_path):
    text = said("wl-scan", atlas, "--test", "2-fwl", "-o", tmp_path / "out.csv")
    assert "Test: 2-fwl" in text
    assert {r["certificate"] for r in rows(tmp_path / "out.csv")} == {""}
    assert "Pairs not told apart: 1 of" in text


def test_long_files_and_large_classes_are_cut_short(tmp_path):
    trees = [nx.to_graph6_bytes(g, header=False) for g in nx.nonisomorphic_trees(8)]
    (tmp_path / "trees.g6").write_bytes(b"".join(trees * 100))
    text = said("wl-scan", tmp_path / "trees.g6", "--test", "wl")
    assert "2,300 graphs in" in text
    assert "23 classes with more than one graph, 2,300 graphs in all." in text
    assert "and 95 more" in text
    assert "and 3 more classes; -o FILE writes them all" in text


def test_progress_is_shown_to_those_who_look(atlas):
    result = CliRunner().invoke(app, ["wl-scan", str(atlas)], env={"TTY_COMPATIBLE": "1"})
    assert result.exit_code == 0
    assert "lines" in result.stderr
    assert "lines" not in run("wl-scan", atlas).stderr


def test_all_told_apart(tmp_path):
    (tmp_path / "two.g6").write_text("Bw\nBW\n")
    text = said("wl-scan", tmp_path / "two.g6")
    assert "Pairs not told apart: 0 of 1 (0 %) Every graph has a class of its own" in text
    (tmp_path / "one.g6").write_text("Bw\n")
    assert "nothing to compare it with" in said("wl-scan", tmp_path / "one.g6")


def test_graphs_with_too_many_cells_are_left_out(tmp_path):
    texts = [nx.to_graph6_bytes(g, header=False).decode() for g in (nx.complete_graph(40), nx.path_graph(3))]
    path = tmp_path / "some.g6"
    path.write_text("".join(texts))
    result = run("wl-scan", path, "--lifting", "cycles:9")
    assert "1 graph in" in result.stdout
    assert "some.g6, line 1: Cycles(9) attaches too many cells" in result.stderr
    assert "line 1: Cycles(9)" in refused("wl-scan", path, "--lifting", "cycles:9", "--strict")
    path.write_text(texts[0])
    assert "no graph is left of 1 graph" in refused("wl-scan", path, "--lifting", "cycles:9")


def test_mixed_labels(tmp_path):
    key = '<key id="n" for="node" attr.name="label" attr.type="string"/>'
    some = '<graph id="s"><node id="a"><data key="n">C</data></node></graph>'
    none = '<graph id="t"><node id="a"/></graph>'
    path = tmp_path / "mixed.graphml"
    path.write_text(f"<graphml>{key}{some}{none}</graphml>")
    assert "t and s do not have the same kinds of labels: pass --no-labels" in refused("wl-scan", path)
    assert "t has none" in refused("wl-scan", path, "--labels")
    assert "2 graphs in" in said("wl-scan", path, "--no-labels")


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (None, [], "a.g6: can not be read: No such file"),
        ("", [], "a.g6: there is no graph in it"),
        ("B\n", [], "no graph is left of 1 graph"),
        ("Bw\n", ["--test", "wl,cwl"], "one test at a time"),
        ("Bw\n", ["--test", "best"], "unknown test 'best'"),
        ("Bw\n", ["--lifting", "rings"], "can not read the lifting 'rings'"),
        ("Bw\n", ["--labels"], "a.g6:0 has none"),
        ("Bw\n", ["-o", "no/such/folder/x.csv"], "there is no folder no/such/folder"),
    ],
)
def test_bad_input(tmp_path, content, options, message):
    if content is not None:
        (tmp_path / "a.g6").write_text(content)
    assert message in refused("wl-scan", tmp_path / "a.g6", *options)


def test_help_teaches():
    assert "cwnet wl-scan graphs.g6 --lifting rings:4" in said("wl-scan", "--help")
