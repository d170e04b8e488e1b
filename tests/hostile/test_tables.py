"""Tables that are broken in one row, or from some row on."""

import csv
import gzip
import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cwnet.data import GraphFileError, TableError, iterate_table, read_graphs, read_table
from cwnet.errors import CwnetError
from cwnet.molecules import CWLFingerprint, MoleculeModel, _predict, fingerprint_table, predict_table
from cwnet.scale import lift_files

ROWS = 6_000


def rows(*broken):
    """A table with other bytes in some of its rows, counted as in the file."""
    lines = [b"smiles,number", *(b"CCO,%d" % i for i in range(2, ROWS + 2))]
    for row, line in broken:
        lines[row - 1] = line
    return b"\n".join(lines) + b"\n"


BROKEN = {
    "an unclosed quote": (b'"CCN,1', "quotation mark"),
    "a quote within": (b'"CC"N,1', "quotation mark"),
    "a byte that is no text": (b"CCN,\xff", "not text in UTF-8"),
    "a field beyond measure": (b"C" * 140_000 + b",1", "131,072 characters"),
    "half a row": (b"CCN", "1 fields"),
}


@pytest.mark.parametrize("row", [2, 3_000, ROWS + 1])
@pytest.mark.parametrize("what", BROKEN)
def test_one_broken_row_costs_itself_only(tmp_path, what, row):
    line, reason = BROKEN[what]
    path = tmp_path / "t.csv"
    path.write_bytes(rows((row, line)))
    for table in (read_table(path, "smiles", "number"), *iterate_table(path, "smiles", "number", chunk_rows=10**6)):
        assert len(table) == ROWS - 1
        assert table.y.flatten().tolist() == [i for i in range(2, ROWS + 2) if i != row]
        assert table.rows.tolist() == [i for i in range(2, ROWS + 2) if i != row]
        (reject,) = table.rejects
        assert reject.row == row
        assert reason in reject.reason
        assert "\udcff" not in reject.text
    with pytest.raises(TableError, match=f"row {row}"):
        read_table(path, "smiles", "number", strict=True)


def test_several_broken_rows(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(rows((5, b'"CCN,1'), (6, b'"CCN,1'), (9, b'CC"N,\xff'), (ROWS + 1, b'"')))
    table = read_table(path, "smiles", "number")
    assert [reject.row for reject in table.rejects] == [5, 6, 9, ROWS + 1]
    assert len(table) == ROWS - 4


def test_quoted_lines_are_as_before(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b'smiles,number\n"CC\nO",1\n"C""C",2\r\nCCO,3\r\n')
    table = read_table(path, "smiles", "number")
    assert (table.smiles, table.rows.tolist()) == (["CC\nO", 'C"C', "CCO"], [2, 4, 5])


def test_a_smi_file(tmp_path):
    path = tmp_path / "t.smi"
    path.write_bytes(b"CCO one\nCC\xff two\nCCN three\n")
    table = read_table(path, target_columns=())
    assert (table.smiles, [reject.row for reject in table.rejects]) == (["CCO", "CCN"], [2])


@pytest.fixture
def cut(tmp_path, monkeypatch):
    """A gzip file that ends in the middle: what is before can be read, and nothing behind."""
    monkeypatch.setattr(_predict, "_CHUNK", 64)
    path = tmp_path / "cut.csv.gz"
    random = np.random.default_rng(0)
    text = "smiles,number\n" + "".join(f"CCO,{n}\n" for n in random.integers(0, 10**9, 4_000))
    path.write_bytes(gzip.compress(text.encode())[:-12_000])
    return path


def test_what_is_finished_is_kept(cut, tmp_path):
    said = r"not a whole gzip file .* The [\d,]+ rows before are in .*out\.csv\.partial"
    with pytest.raises(CwnetError, match=said):
        predict_table(MoleculeModel.load("zinc"), cut, tmp_path / "out.csv", processes=1)
    assert not (tmp_path / "out.csv").exists()
    with open(tmp_path / "out.csv.partial", newline="") as file:
        found = list(csv.DictReader(file))
    assert len(found) > 500
    assert len(found) % 64 == 0
    assert all(row["penalised_logp_pred"] for row in found)


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_fingerprints_that_are_finished_are_kept(cut, tmp_path, suffix):
    with pytest.raises(CwnetError, match=r"rows before are in .*\.partial"):
        fingerprint_table(CWLFingerprint(size=4), cut, tmp_path / f"out{suffix}")
    kept = tmp_path / f"out{suffix}.partial"
    if suffix == ".parquet":
        assert pq.read_table(kept).num_rows > 500
    else:
        assert len(np.load(io.BytesIO(kept.read_bytes()))["row"]) > 500


def test_a_lift_says_how_far_it_got(cut, tmp_path):
    with pytest.raises(CwnetError, match=r"The [\d,]+ rows before are in .*store: put the table right, and the same"):
        lift_files([cut], tmp_path / "store", shard_rows=64)


def test_a_parquet_file_broken_in_the_middle(tmp_path, monkeypatch):
    monkeypatch.setattr(_predict, "_CHUNK", 64)
    path = tmp_path / "t.parquet"
    values = [str(n) for n in np.random.default_rng(0).integers(0, 10**12, 2_000)]
    pq.write_table(pa.table({"smiles": ["CCO"] * 2_000, "text": values}), path, row_group_size=64, compression="zstd")
    data = bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 500] = bytes(500)
    path.write_bytes(data)
    with pytest.raises(CwnetError, match=r"not a whole Parquet file .*rows before are in"):
        predict_table(MoleculeModel.load("zinc"), path, tmp_path / "out.csv", processes=1)


@pytest.mark.parametrize("encoding", ["utf-8f-8", "utf-16", "rot13", "ebcdic"])
def test_graphml_in_an_encoding_that_is_none(tmp_path, encoding):
    file = tmp_path / "t.graphml"
    file.write_text(f'<?xml version="1.0" encoding="{encoding}"?><graphml/>')
    with pytest.raises(GraphFileError, match="this is not XML"):
        read_graphs(file)


def test_a_parquet_file_with_bytes_that_are_no_text(tmp_path):
    path = tmp_path / "t.parquet"
    table = pa.table({"smiles": ["CCO", "CCzzN"], "number": [1.0, 2.0]})
    pq.write_table(table, path, compression="none", use_dictionary=False, write_statistics=False)
    path.write_bytes(path.read_bytes().replace(b"CCzzN", b"CC\xff\xfeN"))
    for read in (read_table, lambda path: list(iterate_table(path))):
        with pytest.raises(TableError, match="not a whole Parquet file"):
            read(path)
    path.write_bytes(path.read_bytes().replace(b"smiles", b"smi\xffes"))
    with pytest.raises(TableError, match="not a whole Parquet file"):
        read_table(path)
