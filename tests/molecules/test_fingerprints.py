"""Molecules as vectors, in memory and from tables."""

import csv

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy.sparse import load_npz
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

from cwnet.errors import CwnetError, GraphError
from cwnet.molecules import CINFingerprint, CWLFingerprint, ModelError, fingerprint_table
from tests.molecules.conftest import write

BROKEN = "smiles,id\nCCO,a\nC(,b\nc1ccccc1,c,d\n,e\nc1ccccc1,f\n"
#: Formaldehyde, in two rounds. It may change with the version of the featuriser only.
PINNED = [(16, 1.0), (247, 1.0), (463, 1.0), (744, 1.0), (954, 1.0), (972, 1.0)]
READABLE = [True, False, False, False, True]


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr("cwnet.molecules._predict._CHUNK", 2)


@pytest.fixture
def broken(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text(BROKEN)
    return path


# ------------------------------------------------------------------------------------------------ in memory


def test_counts_do_not_depend_on_the_company_or_the_numbering():
    print_of = CWLFingerprint(size=256)
    alone = print_of.fit_transform(["Cc1ccccc1O"]).toarray()[0]
    among = print_of.transform(["CCO", "Oc1ccccc1C", "[Na+].[Cl-]"]).toarray()[1]
    assert np.array_equal(alone, among)
    assert alone.sum() == 3 * (8 + 8 + 1)  # atoms, bonds and the ring, in rounds 0, 1 and 2


def test_columns_are_the_same_in_every_release():
    found = CWLFingerprint(size=1024, rounds=1).fit_transform(["C=O"]).tocoo()
    assert sorted(zip(found.col.tolist(), found.data.tolist(), strict=True)) == PINNED


def test_rings_are_seen():
    """Decalin and bicyclopentyl have the same WL colours; their rings differ."""
    pair = ["C1CCC2CCCCC2C1", "C1CCC(C1)C1CCCC1"]
    a, b = CWLFingerprint(lifting="none").fit_transform(pair).toarray()
    assert np.array_equal(a, b)
    a, b = CWLFingerprint().fit_transform(pair).toarray()
    assert not np.array_equal(a, b)


def test_in_a_pipeline(molecules):
    smiles = np.array([s for s, _ in molecules])
    y = np.array([m.GetNumHeavyAtoms() for _, m in molecules], dtype=float)
    model = make_pipeline(CWLFingerprint(size=512), Ridge())
    assert cross_val_score(model, smiles, y, cv=3).mean() > 0.8
    search = GridSearchCV(model, {"cwlfingerprint__rounds": [0, 1]}, cv=2).fit(smiles, y)
    assert search.best_params_["cwlfingerprint__rounds"] in (0, 1)


def test_the_ways_of_scikit_learn(regression):
    made = clone(CWLFingerprint(size=32, rounds=1))
    assert (made.get_params()["size"], made.set_params(rounds=0).rounds) == (32, 0)
    assert made.get_feature_names_out().tolist()[-1] == "fp_31"
    assert "size=32" in repr(made)
    smiles = np.array([["CCO"], ["CC"]])
    assert made.fit(smiles).transform(smiles).shape == (2, 32)
    learnt = clone(CINFingerprint(regression.folder))
    assert learnt.fit_transform(smiles).shape == (2, len(learnt.get_feature_names_out()))


def test_learnt_vectors_are_what_the_heads_see(regression):
    smiles = ["CCO", "c1ccccc1O"]
    found = CINFingerprint(regression.model).fit_transform(smiles)
    member = regression.model.members[0]
    half = found.shape[1] // 2  # the ensemble has two networks
    batch = regression.model.featuriser(smiles).batch()
    assert np.allclose(found[:, :half], member.embed(batch).detach().numpy(), atol=1e-6)
    assert regression.model.embed([]).shape == (0, found.shape[1])


def test_mistakes(tmp_path):
    with pytest.raises(ValueError, match="size=0: it must be at least 1"):
        CWLFingerprint(size=0).fit(["C"])
    with pytest.raises(ValueError, match="rounds=-1"):
        CWLFingerprint(rounds=-1).fit(["C"])
    with pytest.raises(GraphError, match="graph 1: SMILES 'C\\(' does not parse"):
        CWLFingerprint().fit_transform(["C", "C("])
    with pytest.raises(ModelError, match="is not a model"):
        CINFingerprint(tmp_path).fit(["C"])


# ------------------------------------------------------------------------------------------------ tables


def test_counts_as_a_sparse_file(broken, tmp_path, small_pieces):
    counts = fingerprint_table(CWLFingerprint(size=64), broken, tmp_path / "out.npz")
    assert (counts.predicted, counts.unread) == (2, 3)
    found, about = load_npz(tmp_path / "out.npz"), np.load(tmp_path / "out.npz")
    expected = CWLFingerprint(size=64).fit_transform(["CCO", "c1ccccc1"]).toarray()
    assert np.array_equal(found.toarray()[READABLE], expected)
    assert found.toarray()[np.invert(READABLE)].sum() == 0
    assert about["readable"].tolist() == READABLE
    assert about["row"].tolist() == [2, 3, 4, 5, 6]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.csv", "out.npz"]


def test_vectors_as_an_array(regression, broken, tmp_path, small_pieces):
    fingerprint_table(CINFingerprint(regression.model), broken, tmp_path / "out.npz")
    found = np.load(tmp_path / "out.npz")
    assert found["fingerprints"].dtype == np.float32
    assert np.isnan(found["fingerprints"]).all(1).tolist() == np.invert(READABLE).tolist()
    expected = CINFingerprint(regression.model).fit_transform(["CCO", "c1ccccc1"])
    assert np.allclose(found["fingerprints"][READABLE], expected, atol=1e-5)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_tables_keep_rows_and_columns(broken, tmp_path, small_pieces, suffix):
    out = tmp_path / f"out{suffix}"
    fingerprint_table(CWLFingerprint(size=16), broken, out)
    rows = pq.read_table(out).to_pylist() if suffix == ".parquet" else list(csv.DictReader(out.open()))
    assert [row["id"] for row in rows] == ["a", "b", "", "e", "f"]
    assert [not row["error"] for row in rows] == READABLE
    expected = CWLFingerprint(size=16).fit_transform(["CCO", "c1ccccc1"]).toarray()
    for row, values in zip([rows[0], rows[4]], expected, strict=True):
        assert [float(row[f"fp_{i}"]) for i in range(16)] == values.tolist()
    assert rows[1]["fp_0"] in ("", None)
    assert "does not parse" in rows[1]["error"]


def test_a_parquet_table_keeps_its_types(tmp_path, small_pieces):
    import pyarrow as pa

    given = pa.table({"smiles": ["C", "CC", "CCC"], "n": pa.array([1, None, 3], pa.int16())})
    pq.write_table(given, tmp_path / "in.parquet")
    fingerprint_table(CWLFingerprint(size=4), tmp_path / "in.parquet", tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet").select(["smiles", "n"]).equals(given)


def test_files_that_can_not_be_written(broken, tmp_path):
    with pytest.raises(CwnetError, match=r"must end in one of \.npz \.csv \.parquet"):
        fingerprint_table(CWLFingerprint(), broken, tmp_path / "out.txt")
    with pytest.raises(CwnetError, match="can not be written"):
        fingerprint_table(CWLFingerprint(), broken, tmp_path / "no" / "out.npz")
    taken = write(tmp_path / "taken.csv", ("smiles", "fp_0"), [("C", 1)])
    with pytest.raises(CwnetError, match="has a column 'fp_0' already"):
        fingerprint_table(CWLFingerprint(), taken, tmp_path / "out.csv")
    bad = tmp_path / "bad.csv"
    bad.write_bytes(b"\xff\xfe\n" * 3)
    with pytest.raises(CwnetError, match="not text in UTF-8"):
        fingerprint_table(CWLFingerprint(), bad, tmp_path / "out.npz")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.csv", "in.csv", "taken.csv"]
