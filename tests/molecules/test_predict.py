"""Predicting tables piece by piece."""

import csv
import io

import pytest

from cwnet.errors import CwnetError
from cwnet.molecules import predict_table
from tests.molecules.conftest import write


def read(path):
    return list(csv.DictReader(path.open()))


def test_rows_and_columns_are_kept(regression, numbers, tmp_path, monkeypatch):
    monkeypatch.setattr("cwnet.molecules._predict._CHUNK", 50)
    counts = predict_table(regression.model, numbers, tmp_path / "out.csv", smiles_column="smiles", interval=0.8)
    given, found = read(numbers), read(tmp_path / "out.csv")
    assert counts.predicted == len(given)
    assert [{k: row[k] for k in given[0]} for row in found] == given
    expected = regression.model.predict([row["smiles"] for row in given])
    assert [float(row["logP_pred"]) for row in found] == pytest.approx(expected.mean[:, 0].tolist(), rel=1e-4, abs=1e-4)
    low, high = regression.model.interval(expected, 0.8)
    widths = (high - low)[:, 0]
    for row, width in zip(found, widths.tolist(), strict=True):
        assert float(row["logP_high"]) - float(row["logP_low"]) == pytest.approx(width, rel=1e-3)
        assert float(row["tpsa_std"]) >= 0
        assert row["error"] == ""


def test_rows_that_can_not_be_read_are_marked(regression, tmp_path, monkeypatch):
    monkeypatch.setattr("cwnet.molecules._predict._CHUNK", 2)
    path = tmp_path / "in.csv"
    path.write_text("smiles,id\nCCO,a\nC(,b\nCC,c,d\n,e\nCC,f\n" + "C" * 501 + ",g\nO,h\n1,2,3\n")
    counts = predict_table(regression.model, path, tmp_path / "out.csv")
    found = read(tmp_path / "out.csv")
    assert [row["id"] for row in found] == ["a", "b", "", "e", "f", "g", "h", ""]
    assert [bool(row["logP_pred"]) for row in found] == [True, False, False, False, True, False, True, False]
    assert (counts.predicted, counts.unread) == (3, 5)
    assert "does not parse" in found[1]["error"]
    assert found[2]["error"] == "it has 3 fields, and there are 2 columns"
    assert "501 atoms" in found[5]["error"]


def test_classes(binary, tmp_path, capsys):
    path = write(tmp_path / "in.csv", ("smiles",), [("CCN",), ("CCO",)])
    predict_table(binary.model, path, None)
    found = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert list(found[0]) == [
        "smiles",
        "nitrogen_pred",
        "nitrogen_p(1)",
        "nitrogen_p(1)_std",
        "novelty",
        "outside",
        "error",
    ]
    for row in found:
        assert row["nitrogen_pred"] == str(int(float(row["nitrogen_p(1)"]) > 0.5))


def test_no_half_file_is_left(regression, tmp_path):
    path = tmp_path / "in.csv"
    path.write_bytes(b"\xff\xfe\n" * 3)
    with pytest.raises(CwnetError, match="not text in UTF-8"):
        predict_table(regression.model, path, tmp_path / "out.csv")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.csv"]


def test_names_that_are_taken(regression, tmp_path):
    path = write(tmp_path / "in.csv", ("smiles", "logP_pred"), [("C", 1)])
    with pytest.raises(CwnetError, match="has a column 'logP_pred' already"):
        predict_table(regression.model, path, tmp_path / "out.csv")


def test_a_file_that_can_not_be_written(regression, numbers, tmp_path):
    with pytest.raises(CwnetError, match="can not be written"):
        predict_table(regression.model, numbers, tmp_path / "no" / "out.csv", smiles_column="smiles")
