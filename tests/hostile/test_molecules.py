"""Rows that RDKit does not refuse but fails on. One such row costs itself, and nothing else."""

import csv

import pytest

from cwnet.chem import Featuriser, pack_molecules
from cwnet.chem._read import parse
from cwnet.errors import GraphError
from cwnet.explore._server import ExploreServer
from cwnet.molecules import MoleculeModel, predict_table
from cwnet.scale import lift_files

#: What RDKit raises RuntimeError on, and what it reads as something else without a word.
EVIL = ["[#119]", "[CH128]", "[#1000]", "C[#119]C", "[#256]", "CCO CCN", "CCO\tname"]


@pytest.mark.parametrize("smiles", EVIL)
def test_parse(smiles):
    with pytest.raises(GraphError):
        parse(smiles)
    _, reasons = Featuriser().readable(["CCO", smiles, "CCN"])
    assert set(reasons) == {1}
    with pytest.warns(UserWarning, match="1 molecule was left out"):
        assert len(pack_molecules(["CCO", smiles], on_error="skip")) == 1


def test_what_may_follow_a_blank():
    assert parse("CCO |$;;R$|").GetNumAtoms() == 3
    assert parse(" CCO ").GetNumAtoms() == 3
    with pytest.raises(GraphError, match=r"'CCO CCN' does not parse: there is a blank in it"):
        parse("CCO CCN")


@pytest.fixture
def table(tmp_path):
    file = tmp_path / "evil.csv"
    rows = ["smiles,number", *(f'"{smiles}",{i}' for i, smiles in enumerate(["CCO", *EVIL, "CCN"]))]
    file.write_text("\n".join(rows) + "\n")
    return file


def test_predict(table, tmp_path):
    counts = predict_table(MoleculeModel.load("zinc"), table, tmp_path / "out.csv")
    assert (counts.predicted, counts.unread) == (2, len(EVIL))
    with open(tmp_path / "out.csv", newline="") as file:
        assert [bool(row["error"]) for row in csv.DictReader(file)] == [False, *[True] * len(EVIL), False]


def test_lift(table, tmp_path):
    made = lift_files([table], tmp_path / "store")
    assert (made.complexes, made.rejected) == (2, len(EVIL))


def test_the_server():
    with ExploreServer(0) as server:
        for smiles in EVIL:
            status, page = server.page(["CCO", smiles])
            assert status == 400
            assert "Traceback" not in page
