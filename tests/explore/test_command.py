"""The verb."""

import socket

import networkx as nx
import pytest
from typer.testing import CliRunner

from cwnet.cli import app
from cwnet.cli import explore as verb
from cwnet.explore import MAX_EDGES, MAX_VERTICES


@pytest.fixture(autouse=True)
def _ready_made(monkeypatch, collection, model, tmp_path):
    """The gallery is drawn once, and files go where they are not in the way."""
    monkeypatch.setattr("cwnet.explore.gallery", lambda model=None: collection)
    monkeypatch.setattr(verb, "_model", lambda: model)
    monkeypatch.setattr(verb.webbrowser, "open", lambda address: pytest.fail(f"a browser was opened at {address}"))
    monkeypatch.chdir(tmp_path)


def run(*arguments):
    return CliRunner().invoke(app, ["explore", *map(str, arguments)])


def test_molecules_and_files_stand_beside_the_gallery(tmp_path, data_of):
    nx.write_graph6(nx.petersen_graph(), tmp_path / "graphs.g6")
    found = run("CCO", "graphs.g6", "-o", "page.html")
    assert (found.exit_code, found.stdout) == (0, "Wrote page.html\n")
    data = data_of((tmp_path / "page.html").read_text())
    yours = [each["name"] for each in data["exhibits"] if each["group"] == "yours"]
    assert yours == ["CCO", "graphs.g6:0"]
    assert (data["start"]["a"], data["start"]["b"]) == (0, 1)
    assert data["exhibits"][0]["prediction"]["target"] == "penalised_logp"


def test_a_name_by_default(tmp_path):
    run()
    run("--no-open")
    assert sorted(path.name for path in tmp_path.glob("*.html")) == ["explore-2.html", "explore.html"]


def test_it_opens_the_page(monkeypatch, tmp_path):
    opened = []
    monkeypatch.setattr(verb.webbrowser, "open", lambda address: opened.append(address) or False)
    found = run("--open")
    assert opened == [(tmp_path / "explore.html").as_uri()]
    assert "no browser could be started" in found.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["C1CC"], "there is no file 'C1CC', and as a molecule: SMILES 'C1CC' does not parse: unclosed ring"),
        (["none.g6"], "none.g6: can not be read: No such file or directory. Check the path"),
        (["two.g6:2"], "two.g6 has 2 graphs, numbered from 0: there is no two.g6:2"),
        (["long.edges"], "long.edges has 401 vertices, too many to draw: the explorer takes up to 300"),
        (["many.g6"], "more than 40 graphs up to many.g6: a page takes up to 40. Name single ones, as in graphs.g6:3"),
        (["bad.g6"], "bad.g6, line 1"),
        (["-o", "page.txt"], "--output page.txt: a page must end in .html"),
        (["-o", "no/page.html"], "there is no folder no"),
        (["--serve", "-o", "page.html"], "--serve writes no file"),
    ],
)
def test_mistakes_are_named(tmp_path, arguments, said):
    (tmp_path / "two.g6").write_text("Bw\nBw\n")
    (tmp_path / "many.g6").write_text("Bw\n" * 41)
    (tmp_path / "bad.g6").write_text("Bw Bw\n")
    (tmp_path / "long.edges").write_text("\n".join(f"{i} {i + 1}" for i in range(400)))
    found = run(*arguments)
    assert found.exit_code == 2
    assert said in found.stderr
    assert not list(tmp_path.glob("*.html"))


def test_a_port_that_is_taken():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        found = run("--serve", "--port", port)
    assert found.exit_code == 2
    assert f"port {port} can not be had: something else listens there. Choose another with --port" in found.stderr


def test_serving_ends_with_ctrl_c(monkeypatch):
    def stop(self):
        raise KeyboardInterrupt

    monkeypatch.setattr("cwnet.explore.ExploreServer.serve_forever", stop)
    found = run("--serve", "--port", 0)
    assert found.exit_code == 130
    assert "The page is at http://127.0.0.1:" in found.stdout


def test_help_has_examples():
    found = run("--help")
    assert found.exit_code == 0
    assert "cwnet explore --serve" in found.output
    said = " ".join(found.output.replace("│", "").split())
    assert f"up to {MAX_VERTICES} vertices and {MAX_EDGES:,} edges" in said
