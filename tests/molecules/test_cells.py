"""Models of atoms and bonds: numbers that RDKit computes are learnt, in the order of the SMILES."""

import csv
import json
from dataclasses import replace

import pytest
import torch
from rdkit import Chem
from rdkit.Chem.rdMolDescriptors import _CalcCrippenContribs

from cwnet.data import TableError
from cwnet.data._cell_lists import read_cell_table
from cwnet.errors import CwnetError
from cwnet.molecules import ModelError, MoleculeModel, Settings, _train, explain, predict_table, train_table
from cwnet.molecules._levels import LEVELS
from tests.molecules.conftest import write

SMALL = ("model.width=16", "model.layers=2", "train.lr=0.01", "train.batch_size=16")


def logp(mol):
    """Crippen's contributions of the atoms to logP."""
    return [round(value, 4) for value, _ in _CalcCrippenContribs(mol)]


def lengths(mol):
    """Nearly the lengths of the bonds: the radii of their atoms, less for bonds of higher order."""
    radius = Chem.GetPeriodicTable().GetRcovalent
    return [
        round(
            radius(b.GetBeginAtom().GetAtomicNum())
            + radius(b.GetEndAtom().GetAtomicNum())
            - b.GetBondTypeAsDouble() / 9,
            4,
        )
        for b in mol.GetBonds()
    ]


def in_rings(mol):
    return [int(bond.IsInRing()) for bond in mol.GetBonds()]


def holed(values, at):
    return [None if i % 7 == at % 7 else value for i, value in enumerate(values)]


@pytest.fixture(scope="module")
def tables(molecules, tmp_path_factory):
    """Numbers of atoms with gaps, and of bonds, and classes of bonds."""
    folder = tmp_path_factory.mktemp("cells")
    atoms = [
        (s, json.dumps(holed(logp(m), i)), "" if i % 9 == 0 else json.dumps(logp(m)))
        for i, (s, m) in enumerate(molecules)
    ]
    bonds = [(s, json.dumps(lengths(m)), json.dumps(in_rings(m))) for s, m in molecules]
    return (
        write(folder / "atoms.csv", ("smiles", "logp", "again"), atoms),
        write(folder / "bonds.csv", ("smiles", "length", "ring"), bonds),
    )


def trained(path, out, columns, epochs=8, **settings):
    wishes = Settings(ensemble=1, epochs=epochs, changes=SMALL, **settings)
    return train_table(read_cell_table(path, None, columns), out, wishes, device="cpu", progress=False)


@pytest.fixture(scope="module")
def atoms(tables, tmp_path_factory):
    return trained(tables[0], tmp_path_factory.mktemp("atoms") / "m", ["logp", "again"], level="atom")


@pytest.fixture(scope="module")
def bonds(tables, tmp_path_factory):
    out = tmp_path_factory.mktemp("bonds") / "m"
    return trained(tables[1], out, ["length"], epochs=14, level="bond", uncertainty="quantile")


def test_what_rdkit_computes_is_learnt(atoms, bonds):
    assert atoms.metrics["logp"]["r2"] > 0.5
    assert bonds.metrics["length"]["r2"] > 0.4
    for found, level in ((atoms, "atom"), (bonds, "bond")):
        assert found.model.trees is None
        assert found.model.targets.level == level
        assert any(f"{level}s are predicted by the network alone" in note for note in found.prepared.notes)
        for file in ("parity.png", f"{level}s.png", "report.html", "predictions.csv"):
            assert (found.folder / file).stat().st_size, file


def test_figures_are_over_all_atoms_of_the_test_part(atoms, molecules):
    rows = list(csv.DictReader((atoms.folder / "predictions.csv").open()))
    mols = dict(molecules)
    off = []
    for row in rows:
        true, said = json.loads(row["logp"]), json.loads(row["logp_predicted"])
        assert len(true) == len(said) == mols[row["smiles"]].GetNumAtoms()
        off += [abs(t - p) for t, p in zip(true, said, strict=True) if t is not None]
        assert [
            t for t, whole in zip(true, logp(mols[row["smiles"]]), strict=True) if t not in (None, pytest.approx(whole))
        ] == []
    assert atoms.metrics["logp"]["mae"] == pytest.approx(sum(off) / len(off), rel=1e-3)


def test_scaled_by_the_atoms_of_the_training_part(atoms):
    prepared = atoms.prepared
    values = prepared.values_of(prepared.split.train).double()
    assert prepared.targets.mean == pytest.approx(values.nanmean(0).tolist())
    assert len(prepared.values) == sum(LEVELS["atom"].counts(prepared.store).tolist())


def test_intervals_hold_over_atoms_and_bonds(atoms, bonds):
    for found in (atoms, bonds):
        for column in found.model.about["coverage"]["90%"].values():
            assert column["held"] > 0.75
    low, high = bonds.model.interval(bonds.model.predict(["CCO"]), 0.9)
    assert low.shape == (2, 1)
    assert bool((low < high).all())


@pytest.mark.parametrize("level", ["atom", "bond"])
def test_another_way_to_write_a_molecule_permutes_its_predictions(level, request):
    model = request.getfixturevalue(f"{level}s").model
    for text in ("CC(=O)Oc1ccccc1C(=O)O", "C[C@H](N)C(=O)NCc1ccc2c(c1)OCO2"):
        mol = Chem.MolFromSmiles(text)
        order = torch.randperm(mol.GetNumAtoms(), generator=torch.Generator().manual_seed(1)).tolist()
        other = Chem.MolToSmiles(Chem.RenumberAtoms(mol, order), canonical=False)
        again = Chem.MolFromSmiles(other)
        match = mol.GetSubstructMatch(again)  # of the atoms of `again`, in the numbers of `mol`
        assert list(match) != sorted(match)
        a, b = model.predict([text]).mean, model.predict([other]).mean
        if level == "bond":
            match = [
                mol.GetBondBetweenAtoms(match[x.GetBeginAtomIdx()], match[x.GetEndAtomIdx()]).GetIdx()
                for x in again.GetBonds()
            ]
            assert match != sorted(match)
        torch.testing.assert_close(a[list(match)], b, rtol=1e-4, atol=1e-5)


def test_a_saved_model_predicts_the_same_bits(atoms, bonds, molecules, tmp_path):
    smiles = [s for s, _ in molecules[:15]]
    for found in (atoms, bonds):
        loaded = MoleculeModel.load(found.folder)
        a, b = found.model.predict(smiles), loaded.predict(smiles)
        assert torch.equal(a.mean, b.mean)
        assert torch.equal(a.cells, b.cells)
        for mine, theirs in zip(found.model.interval(a, 0.8), loaded.interval(b, 0.8), strict=True):
            assert torch.equal(mine, theirs)
    replace(atoms.model, targets=replace(atoms.model.targets, level="bond")).save(tmp_path)
    with pytest.raises(ModelError, match="damaged"):
        MoleculeModel.load(tmp_path)


def test_a_table_of_lists(bonds, tmp_path, monkeypatch):
    """Molecules without bonds have empty lists, also where a batch has no others."""
    monkeypatch.setattr("cwnet.molecules._predict._PART", 2)
    path = write(tmp_path / "in.csv", ("smiles",), [("[Na+]",), ("C",), ("CCO",), ("C(",), ("CC",)])
    predict_table(bonds.model, path, tmp_path / "out.csv", interval=0.8)
    rows = list(csv.DictReader((tmp_path / "out.csv").open()))
    assert [row["length_pred"] == "[]" for row in rows] == [True, True, False, False, False]
    assert rows[3]["error"]
    for name in ("length_pred", "length_low", "length_high"):
        assert [len(json.loads(rows[i][name])) for i in (2, 4)] == [2, 1]
    whole = bonds.model.predict(["CCO", "CC"]).mean[:, 0].tolist()
    assert json.loads(rows[2]["length_pred"]) + json.loads(rows[4]["length_pred"]) == pytest.approx(whole, rel=1e-4)
    assert float(rows[2]["novelty"]) >= 0


def test_two_classes_of_bonds(tables, tmp_path):
    found = trained(tables[1], tmp_path / "m", ["ring"], epochs=3, level="bond")
    assert found.model.targets.task == "binary"
    assert found.metrics["ring"]["rocauc"] > 0.8
    predict_table(found.model, write(tmp_path / "in.csv", ("smiles",), [("CC1CC1",)]), tmp_path / "out.csv")
    [row] = csv.DictReader((tmp_path / "out.csv").open())
    assert len(json.loads(row["ring_p(1)"])) == len(json.loads(row["ring_pred"])) == 4


@pytest.mark.parametrize(
    ("cell", "smiles", "level", "message"),
    [
        ("[1, 2]", "CCO", "atom", r"row 2: 'q' has 2 numbers, and 'CCO' has 3 atoms: write one for each"),
        ("[1, 2, 3]", "CCO", "bond", r"row 2: 'q' has 3 numbers, and 'CCO' has 2 bonds: write one for each"),
        ("[1, 2, 3]", "[H]O[H]", "atom", r"has 1 atoms: the 2 hydrogens written as \[H\] are not counted"),
        ("[1, 2, 3]", "[H]OCC", "bond", r"has 2 bonds: the 1 bonds to hydrogens written as \[H\] are not counted"),
    ],
    ids=["atoms", "bonds", "hydrogens", "bonds of hydrogens"],
)
def test_lists_of_the_wrong_length(cell, smiles, level, message, molecules, tmp_path):
    right = [
        (s, json.dumps([float(i) for i in range(m.GetNumAtoms() if level == "atom" else m.GetNumBonds())]))
        for s, m in molecules[:20]
    ]
    path = write(tmp_path / "a.csv", ("smiles", "q"), [(smiles, cell), *right])
    with pytest.raises(TableError, match=message):
        trained(path, tmp_path / "m", ["q"], level=level)


def test_hydrogens_that_are_written_and_not_counted(molecules, tmp_path):
    rows = [("[H]OCC", "[1.0, 2.0, 3.0]"), *((s, json.dumps(logp(m))) for s, m in molecules[:20])]
    found = trained(write(tmp_path / "a.csv", ("smiles", "q"), rows), tmp_path / "m", ["q"], epochs=1, level="atom")
    at = found.prepared.table.smiles.index("[H]OCC")
    assert found.prepared.values_of(torch.tensor([at]))[:, 0].tolist() == [1.0, 2.0, 3.0]


def test_what_molecules_have_and_atoms_have_not(atoms):
    with pytest.raises(CwnetError, match="predicts atoms one by one"):
        explain(atoms.model, ["CCO"])
    with pytest.raises(ModelError, match="makes no vector of a molecule"):
        atoms.model.embed(["CCO"])
    with pytest.raises(CwnetError, match="leave out --no-network"):
        Settings(level="atom", network=False)
    with pytest.raises(CwnetError, match="--target-level ring: write one of molecule, atom, bond"):
        Settings(level="ring")


@pytest.mark.parametrize(
    "more",
    [
        {"weight_column": "w"},
        {"target_weights": (("a", 2.0),)},
        {"descriptor_columns": ("t",)},
        {"descriptors": "rdkit"},
        {"smiles_columns": ("a", "b")},
        {"reactions": True},
    ],
)
def test_what_goes_with_molecules_only(more):
    option = next(iter(more)).replace("_", "-")
    with pytest.raises(CwnetError, match=f"--target-level bond does not go with --{option}: leave one of them out"):
        Settings(level="bond", **more)


@pytest.mark.parametrize("split", ["scaffold", "cluster", "kennard-stone"])
def test_splits_by_molecules(split, tables):
    table = read_cell_table(tables[0], None, ["logp"])
    found = _train.prepare_for(table, Settings(level="atom", split=split))
    assert len(found.split) == len(found.table)
    assert len(found.values_of(found.split.test)) == int(LEVELS["atom"].counts(found.store)[found.split.test].sum())
