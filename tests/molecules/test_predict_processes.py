"""Long tables are shared among processes."""

import csv

import pytest

from cwnet.errors import CwnetError
from cwnet.molecules import predict_table
from tests.molecules.conftest import write


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr("cwnet.molecules._predict._CHUNK", 3)


def test_processes_change_nothing(regression, tmp_path, small_pieces):
    rows = [("C" * n if n % 7 else "C(", n) for n in range(1, 31)]
    path = write(tmp_path / "in.csv", ("smiles", "n"), rows)
    counts = [predict_table(regression.model, path, tmp_path / f"{many}.csv", processes=many) for many in (1, 2)]
    assert counts[0] == counts[1]
    assert (tmp_path / "1.csv").read_bytes() == (tmp_path / "2.csv").read_bytes()
    assert [row["n"] for row in csv.DictReader((tmp_path / "2.csv").open())] == [str(n) for _, n in rows]


def test_what_breaks_in_the_middle_of_a_table_is_told(regression, tmp_path, small_pieces, monkeypatch):
    from cwnet.molecules import _predict

    def breaking(*given, **options):
        for number, piece in enumerate(whole(*given, **options)):
            if number == 7:
                raise CwnetError("the table ends here")
            yield piece

    whole = _predict.iterate_tables
    monkeypatch.setattr(_predict, "iterate_tables", breaking)
    path = write(tmp_path / "in.csv", ("smiles",), [("CCO",)] * 30)
    with pytest.raises(CwnetError, match="the table ends here"):
        predict_table(regression.model, path, tmp_path / "out.csv", processes=2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.csv"]
