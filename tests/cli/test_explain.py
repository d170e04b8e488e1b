"""`cwnet explain`."""

import json

import pytest
from typer.testing import CliRunner

pytest.importorskip("rdkit")

from cwnet.cli import app
from tests.molecules.conftest import binary, labels, molecules, numbers, regression  # noqa: F401

ASPIRIN = "CC(=O)Oc1ccccc1C(=O)O"


def run(*arguments):
    return CliRunner().invoke(app, ["explain", *map(str, arguments)])


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_one_molecule_is_a_picture_and_a_sum(regression, tmp_path):  # noqa: F811
    found = run(regression.folder, ASPIRIN, "-o", "aspirin.svg", "--target", "tpsa")
    assert found.exit_code == 0, found.output
    assert 'id="ring-0"' in (tmp_path / "aspirin.svg").read_text()
    lines = [line.rsplit(None, 1) for line in found.output.splitlines() if line]
    names = ("saturated skeleton", "13 atoms", "13 bonds", "1 ring", "missed by the contributions", "prediction")
    shown = {name.strip(): value for name, value in (line for line in lines if len(line) == 2) if name.strip() in names}
    *parts, total = (float(shown[name]) for name in names)
    assert sum(parts) == pytest.approx(total, abs=5e-4)
    assert "and 15 smaller ones" in found.output
    assert "Wrote aspirin.svg" in found.output
    assert "smaller ones" not in run(regression.folder, ASPIRIN, "--verbose").output


def test_a_name_is_found_for_the_file(regression, tmp_path):  # noqa: F811
    for name in ("C9H8O4.svg", "C9H8O4-2.svg"):
        found = run(regression.folder, ASPIRIN)
        assert f"Wrote {name}" in found.output
        assert (tmp_path / name).is_file()
    assert "Wrote molecules-explained.html" in run(regression.folder, ASPIRIN, "CCO").output


def test_json_has_every_cell(regression):  # noqa: F811
    body = json.loads(run(regression.folder, ASPIRIN, "CCO", "--json").stdout)
    assert body["file"] == "molecules-explained.html"
    for each, cells in zip(body["molecules"], (27, 5), strict=True):
        assert each["target"] == "logP"
        assert len(each["cells"]) == cells
        total = sum(cell["contribution"] for cell in each["cells"])
        assert each["baseline"] + total + each["missing"] == pytest.approx(each["prediction"])
        assert each["atoms"] + each["bonds"] + each["rings"] == pytest.approx(total)
    ring = next(cell for cell in body["molecules"][0]["cells"] if cell["cell"] == "ring")
    assert (ring["atoms"], ring["name"]) == ([4, 5, 6, 7, 8, 9], "C4 C5 C6 C7 C8 C9")


def test_a_table_is_a_page(binary, tmp_path):  # noqa: F811
    (tmp_path / "data.csv").write_text("smiles,id\nCCN,a\nC(,b\nc1ccccc1,c\n1,2,3\nCCO,d\nCC,e\n")
    found = run(binary.folder, "data.csv", "--most", "4", "-o", "page.html")
    assert found.exit_code == 0, found.output
    page = (tmp_path / "page.html").read_text()
    assert page.count("<article>") == 3
    assert "Row 3 could not be read" in page
    assert "Row 5 could not be read: it has 3 fields" in page
    assert "These are the first 4 rows" in page
    assert "log-odds" in page
    assert "<title>ring C0 C1 C2 C3 C4 C5: " in page
    assert "row 4" in found.output
    assert run(binary.folder, "data.csv", "-q").output == ""
    assert (tmp_path / "data-explained.html").is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "is taken for the model: name a table of molecules, or SMILES"),
        (["C("], "SMILES 'C(' does not parse"),
        (["C" * 501], "501 atoms"),
        (["CCO", "--target", "mp"], "does not predict 'mp': choose one of 'logP', 'tpsa'"),
        (["CCO", "-o", "a.txt"], "must end in one of .svg .png .pdf .html .htm"),
        (["CCO", "CC", "-o", "a.svg"], "for several molecules the name must end in one of .html"),
        (["CCO", "-o", "no/a.svg"], "there is no folder no"),
        (["nothing.csv"], "nothing.csv: can not be read"),
        (["CCO", "--device", "tpu"], "write auto, cpu or cuda"),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else None,
)
def test_mistakes_are_one_line(regression, tmp_path, arguments, message):  # noqa: F811
    found = run(regression.folder, *arguments)
    assert (found.exit_code, message in found.output, found.output.count("\n")) == (2, True, 1), found.output
    assert not list(tmp_path.iterdir())


def test_several_fragments_are_taken_whole(regression):  # noqa: F811
    found = run(regression.folder, "[Na+].[O-]C(=O)c1ccccc1", "--json")
    assert found.exit_code == 0, found.output
    assert len(json.loads(found.stdout)["molecules"][0]["cells"]) == 10 + 9 + 1


def test_help_teaches():
    found = " ".join(run("--help").output.split())
    assert "-o aspirin.svg" in found
    assert "integrated gradients" in found
