"""Small tables of real molecules, and models trained on them once."""

import csv

import pytest

pytest.importorskip("rdkit")

from rdkit.Chem.Crippen import MolLogP
from rdkit.Chem.rdMolDescriptors import CalcTPSA

from cwnet.chem import nci_smiles
from cwnet.chem._read import parse
from cwnet.data import read_table
from cwnet.molecules import Settings, train_table

TINY = ("model.width=8", "model.layers=1")


def write(path, head, rows):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(head)
        writer.writerows(rows)
    return path


@pytest.fixture(scope="session")
def molecules():
    """200 SMILES and their molecules."""
    smiles = [s for s in nci_smiles()[:220] if "." not in s and "[" not in s]
    return [(s, parse(s)) for s in smiles]


@pytest.fixture(scope="session")
def numbers(molecules, tmp_path_factory):
    """Two columns of numbers, the second with gaps, and one that is no target."""
    rows = [
        (f"nci-{i}", s, f"{MolLogP(m):.4f}", "" if i % 4 == 0 else f"{CalcTPSA(m):.2f}")
        for i, (s, m) in enumerate(molecules)
    ]
    return write(tmp_path_factory.mktemp("numbers") / "numbers.csv", ("name", "smiles", "logP", "tpsa"), rows)


@pytest.fixture(scope="session")
def labels(molecules, tmp_path_factory):
    """Columns of two classes with gaps, and one of three."""
    rows = []
    for i, (s, mol) in enumerate(molecules):
        rings = mol.GetRingInfo().NumRings()
        nitrogen = int("N" in s or "n" in s)
        rows.append((s, nitrogen, "" if i % 3 == 0 else int(rings > 0), ("none", "one", "more")[min(rings, 2)]))
    return write(tmp_path_factory.mktemp("labels") / "labels.csv", ("smiles", "nitrogen", "ring", "rings"), rows)


@pytest.fixture(scope="session")
def regression(numbers, tmp_path_factory):
    """A trained ensemble of two for both columns."""
    out = tmp_path_factory.mktemp("regression") / "model"
    table = read_table(numbers, "smiles", ["logP", "tpsa"])
    return train_table(table, out, Settings(ensemble=2, epochs=3, changes=TINY), device="cpu", progress=False)


@pytest.fixture(scope="session")
def binary(labels, tmp_path_factory):
    """A trained model of two classes."""
    out = tmp_path_factory.mktemp("binary") / "model"
    table = read_table(labels, "smiles", "nitrogen")
    settings = Settings(epochs=15, balance=True, changes=(*TINY, "train.lr=0.01"))
    return train_table(table, out, settings, device="cpu", progress=False)
