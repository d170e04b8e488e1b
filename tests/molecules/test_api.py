"""Models from data frames: `cwnet.molecules.train`."""

import sys

import pytest

pytest.importorskip("rdkit")
pytest.importorskip("pyarrow")

import pyarrow as pa

from cwnet.chem import nci_smiles
from cwnet.data import TableError, frame_table, read_table
from cwnet.errors import CwnetError
from cwnet.molecules import MoleculeModel, Settings, train, train_table

SMILES = [s for s in nci_smiles()[:70] if "." not in s][:50]
COLUMNS = {"name": [f"m{i}" for i in range(50)], "smiles": SMILES, "a<b": [float(len(s)) for s in SMILES]}
QUICK = {"epochs": 1, "ensemble": 1, "changes": ["model.width=8", "model.layers=1"], "device": "cpu", "progress": False}


@pytest.fixture(scope="module")
def model():
    return train(COLUMNS, "smiles", "a<b", **QUICK)


def test_a_table_in_memory_is_the_table_of_its_file(tmp_path, model):
    """The same model as the command's, to the bit."""
    path = tmp_path / "data.csv"
    rows = ["name,smiles,a<b", *(",".join(map(str, row)) for row in zip(*COLUMNS.values(), strict=True))]
    path.write_text("\n".join(rows) + "\n")
    settings = Settings(epochs=1, ensemble=1, changes=tuple(QUICK["changes"]))
    wanted = train_table(read_table(path, "smiles", "a<b"), tmp_path / "m", settings, device="cpu", progress=False)
    assert model.metrics == wanted.metrics
    assert (model.folder / "weights.safetensors").read_bytes() == (tmp_path / "m/weights.safetensors").read_bytes()


def frames():
    yield pytest.param(lambda: COLUMNS, id="dict")
    yield pytest.param(lambda: pa.table(COLUMNS), id="arrow")
    yield pytest.param(lambda: pytest.importorskip("pandas").DataFrame(COLUMNS), id="pandas")
    yield pytest.param(lambda: pytest.importorskip("polars").DataFrame(COLUMNS), id="polars")
    yield pytest.param(lambda: Exporter(pa.table(COLUMNS)), id="exporter")
    yield pytest.param(lambda: OldFrame(COLUMNS), id="columns")


class Exporter:
    """Anything that exports a stream of Arrow."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


class OldFrame:
    """A frame of before Arrow's interface."""

    def __init__(self, columns):
        self.data, self.columns = columns, list(columns)

    def __getitem__(self, name):
        return self.data[name]


@pytest.mark.parametrize("make", list(frames()))
def test_tables_of_all_kinds(make):
    table = frame_table(make(), "smiles", "a<b")
    assert table.smiles == SMILES
    assert table.y[:, 0].tolist() == COLUMNS["a<b"]
    assert table.column("name") == COLUMNS["name"]


@pytest.mark.parametrize("make", list(frames()))
def test_predictions_are_what_was_given(make, model):
    data = make()
    found = model.predict(data)
    wanted = model.predict(SMILES)
    if isinstance(data, dict | Exporter | OldFrame):
        assert isinstance(found, pa.Table if isinstance(data, Exporter) else dict)
    else:
        assert type(found) is type(data)
    columns = found.to_pydict() if hasattr(found, "to_pydict") else {name: list(found[name]) for name in found}
    assert columns["a<b_pred"] == wanted["a<b_pred"]
    assert columns["name"] == COLUMNS["name"]


def test_a_row_that_cannot_be_read_says_why(model):
    found = model.predict(["CCO", "C(", "c1ccccc1"])
    assert found["smiles"] == ["CCO", "C(", "c1ccccc1"]
    assert found["a<b_pred"][1] is None
    assert found["error"][0] is None
    assert "does not parse" in found["error"][1]
    alone = model.model.predict(["CCO", "c1ccccc1"]).mean[:, 0].tolist()
    assert [found["a<b_pred"][0], found["a<b_pred"][2]] == pytest.approx(alone, rel=1e-5)


def test_it_shows_itself(model):
    page = model._repr_html_()
    assert "a&lt;b" in page
    assert "a<b" not in page
    assert "to choose by" in page
    assert '<img src="data:image/png;base64,' in page
    assert f"{model.metrics['a<b']['mae']:.4f}" in page
    assert "cwnet predict" in page
    assert "model.save(&quot;model&quot;)" in page
    assert "a<b; test mae" in repr(model)


def test_it_is_kept_where_one_likes(model, tmp_path):
    copy = train(COLUMNS, "smiles", "a<b", **QUICK, folder=tmp_path / "own")
    assert (tmp_path / "own" / "report.html").is_file()
    assert copy.folder == tmp_path / "own"
    place = copy.save(tmp_path / "kept")
    assert "model.save" not in copy._repr_html_()
    loaded = MoleculeModel.load(place)
    assert loaded.predict(["CCO"]).mean.tolist() == copy.model.predict(["CCO"]).mean.tolist()
    with pytest.raises(CwnetError, match="is there already: choose another folder"):
        copy.save(tmp_path / "kept")
    with pytest.raises(CwnetError, match="holds a model already"):
        train(COLUMNS, "smiles", "a<b", **QUICK, folder=tmp_path / "own")


def test_a_temporary_folder_goes_with_its_model():
    made = train(COLUMNS, "smiles", "a<b", **{**QUICK, "trees": False})
    folder = made.folder
    assert folder.is_dir()
    del made
    assert not folder.exists()


def test_a_file_is_a_table_too(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text("\n".join(["smiles,y", *(f"{s},{'NY'['N' in s]}" for s in SMILES)]) + "\n")
    made = train(path, targets="y", **{**QUICK, "trees": False})
    assert made.model.targets.classes == (("N", "Y"),)
    assert set(made.predict(["CN"])) >= {"y_pred", "y_p(Y)", "error"}


@pytest.mark.parametrize(
    ("data", "given", "message"),
    [
        (COLUMNS, {"targets": "a>b"}, "table: there is no column 'a>b'; the nearest is 'a<b'"),
        (COLUMNS, {"smiles": "mol"}, "table: there is no column 'mol'"),
        (COLUMNS, {"targets": "a<b", "epoch": 3}, "there is no setting 'epoch'"),
        (COLUMNS, {"targets": "a<b", "epochs": 0}, "epochs = 0: it must be at least 1"),
        (COLUMNS, {"targets": "a<b", "split": "odd"}, "--split odd: write random"),
        ({"smiles": SMILES[:3], "y": [1, 2, 3]}, {}, "there are 3 molecules with targets"),
        ({"smiles": [], "y": []}, {}, "there are no rows in it"),
        ({"smiles": ["C"], "y": [1, 2]}, {}, "of one length"),
        ({"smiles": SMILES, "y": [[1]] * 50}, {"targets": "y"}, "so it can not be a target"),
        ({"smiles": SMILES, "y": ["1", "x", *"2" * 48]}, {"targets": "y"}, "table, row 1: 'x' in the column 'y'"),
        ({"smiles": list(range(50)), "y": list(range(50))}, {"smiles": "smiles"}, "SMILES are text"),
        (3, {}, "table: int is no table: give a data frame"),
        ("none.csv", {}, "none.csv"),
    ],
)
def test_mistakes(data, given, message):
    with pytest.raises((CwnetError, TableError)) as caught:
        train(data, **{"device": "cpu", "progress": False, **given})
    assert message in str(caught.value)


def test_gaps_and_categories():
    data = {"smiles": SMILES, "y": [None if i % 5 == 0 else float(i) for i in range(50)]}
    assert int(frame_table(data, None, "y").y.isnan().sum()) == 10
    data["y"] = [float("nan") if y is None else y for y in data["y"]]
    assert int(frame_table(data, None, "y").y.isnan().sum()) == 10
    texts = pa.array(["yes", "no"] * 25).dictionary_encode()
    table = frame_table(pa.table({"smiles": pa.array(SMILES).cast(pa.string_view()), "y": texts}), None, "y")
    assert table.classes == {"y": ("no", "yes")}
    assert table.rows[0] == 0


def test_progress_is_a_bar_in_a_notebook(monkeypatch):
    from cwnet.train import _display

    monkeypatch.setitem(sys.modules, "IPython", sys)
    monkeypatch.setattr(_display, "find_spec", lambda name: name)
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    assert _display._in_notebook()
    monkeypatch.setattr(_display, "find_spec", lambda name: None)
    assert not _display._in_notebook()
