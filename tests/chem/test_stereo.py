"""Features are a function of the molecule, not of how its SMILES is written."""

import random

import numpy as np
import pytest
import torch

pytest.importorskip("rdkit")

from rdkit import Chem
from rdkit.Chem.EnumerateStereoisomers import EnumerateStereoisomers, StereoEnumerationOptions

from cwnet.chem import Featuriser, nci_smiles
from cwnet.chem._features import ogb_graphs
from cwnet.chem._read import quietly
from cwnet.molecules import CWLFingerprint, MoleculeModel
from cwnet.wl._refine import certify

ALANINES = {"L": ["N[C@@H](C)C(=O)O", "C[C@H](N)C(=O)O"], "D": ["N[C@H](C)C(=O)O", "C[C@@H](N)C(=O)O"]}


def certificates(smiles, featuriser=None):
    found = certify((featuriser or Featuriser())(smiles), initial="features")
    return [tuple(row) for row in found.tolist()]


def stereoisomers(count):
    """Molecules with stereochemistry, as SMILES."""
    found = []
    options = StereoEnumerationOptions(maxIsomers=2, rand=4, onlyUnassigned=False)
    with quietly():
        for smiles in nci_smiles():
            mol = Chem.MolFromSmiles(smiles)
            if mol is None or mol.GetNumAtoms() > 40:
                continue
            isomers = map(Chem.MolToSmiles, EnumerateStereoisomers(mol, options))
            found += [isomer for isomer in isomers if set(isomer) & set("@/\\")]
            if len(found) >= count:
                break
    return found[:count]


def written(smiles, times, seed):
    """The same molecule in other orders of its atoms."""
    mol, chance = Chem.MolFromSmiles(smiles), random.Random(seed)
    for _ in range(times):
        order = list(range(mol.GetNumAtoms()))
        chance.shuffle(order)
        yield Chem.MolToSmiles(Chem.RenumberAtoms(mol, order), canonical=False)


def test_alanine():
    (left,), (right,) = (set(certificates(ways)) for ways in ALANINES.values())
    assert left != right
    old = [certificates(ways, Featuriser(version=1)) for ways in ALANINES.values()]
    assert old[0][0] != old[0][1]  # what version 1 is kept for


@pytest.mark.parametrize(
    ("one", "other"),
    [("F/C=C/F", "F/C=C\\F"), ("C[C@H]1CC[C@@H](C)CC1", "C[C@H]1CC[C@H](C)CC1"), ("C[C@H](O)CC", "C[C@@H](O)CC")],
)
def test_isomers_differ(one, other):
    assert len(set(certificates([one, other]))) == 2


def test_however_it_is_written():
    molecules = stereoisomers(150)
    assert len(molecules) == 150
    ways = [way for i, smiles in enumerate(molecules) for way in (smiles, *written(smiles, 4, i))]
    found = np.array(certificates(ways)).reshape(len(molecules), 5, 2)
    assert (found == found[:, :1]).all()
    vectors = CWLFingerprint(size=64).fit_transform(ways[:100]).toarray().reshape(20, 5, 64)
    assert (vectors == vectors[:, :1]).all()


def test_what_has_no_stereochemistry_is_as_before():
    smiles = ["c1ccccc1O", "CC(=O)[O-]", "[Na+].[Cl-]", "C1CC12CC2"]
    new, old, ogb = Featuriser()(smiles), Featuriser(version=1)(smiles), ogb_graphs(smiles)
    for d in (0, 1):
        assert torch.equal(new.x[d], old.x[d])
        assert torch.equal(new.x[d], ogb.x[d])


def test_models_keep_their_version():
    assert MoleculeModel.load("zinc").featuriser.version == 1
    assert Featuriser().version == 2
