"""The featuriser that models keep."""

import pytest

pytest.importorskip("rdkit")

import torch

from cwnet.chem import Featuriser, nci_smiles
from cwnet.chem._features import ogb_graphs
from cwnet.chem._featuriser import canonical, count_fragmented
from cwnet.chem._read import parse
from cwnet.errors import CwnetError, GraphError


def test_molecules_as_complexes():
    store = Featuriser("rings:6")(["c1ccccc1", "CCO"])
    assert store.num_cells == (9, 8, 1)
    assert [x.shape[1] for x in store.x[:2]] == [9, 3]


def test_what_can_not_be_read_is_told_by_position():
    store, reasons = Featuriser(max_atoms=20).readable(["CCO", "C(", "C" * 21, "", "c1ccccc1"])
    assert len(store) == 2
    assert list(reasons) == [1, 2, 3]
    assert "does not parse" in reasons[1]
    assert reasons[2] == "the molecule has 21 atoms, and at most 20 are taken"
    with pytest.raises(GraphError, match="graph 1: SMILES 'C\\(' does not parse"):
        Featuriser()(["CCO", "C("])


def test_a_budget_that_runs_out_is_told_by_position():
    from cwnet import Rings

    cage = "C12C3C4C1C5C2C3C45"
    store, reasons = Featuriser(Rings(18, max_cells=3)).readable(["C(", cage, "CCO"])
    assert len(store) == 1
    assert list(reasons) == [0, 1]
    assert "max_cells" in reasons[1]


def test_a_smiles_gives_what_its_molecule_gives():
    """From a text some calls are spared."""
    smiles = [*nci_smiles()[:300], "F/C=C/F", "F/C=C\\F", "N[C@@H](C)O", "[CH3]", "[NH4+].[Cl-]"]
    good = [s for s in smiles if s not in {smiles[i] for i in Featuriser().readable(smiles)[1]}]
    a, b = ogb_graphs(good), ogb_graphs([parse(s) for s in good])
    assert torch.equal(a.x[0], b.x[0])
    assert torch.equal(a.x[1], b.x[1])


def test_plain_data_and_back():
    own = Featuriser("rings:6", 100)
    assert Featuriser.from_dict(own.to_dict()) == own
    with pytest.raises(CwnetError, match="version 3, is not of this cwnet"):
        Featuriser.from_dict({**own.to_dict(), "version": 3})
    with pytest.raises(CwnetError, match="has no 'hydrogens'"):
        Featuriser.from_dict({"hydrogens": True})
    with pytest.raises(CwnetError, match="'ring:x'"):
        Featuriser("ring:x")


def test_small_helpers():
    assert canonical("OCC") == "CCO"
    assert count_fragmented(["[Na+].[Cl-]", "CCO", "C[C@H](O)N"]) == 1
