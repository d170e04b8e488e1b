"""SMILES that are a little wrong: read, featurised, lifted, certified and predicted."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, NamedTuple

import torch

from cwnet.chem import Featuriser, nci_smiles
from cwnet.chem._featuriser import canonical
from cwnet.chem._read import parse
from cwnet.errors import GraphError
from cwnet.molecules import CWLFingerprint, MoleculeModel
from cwnet.wl import certificates
from tests.campaign.mutations import PIECES, mutated
from tests.campaign.surface import OK, REFUSED, Surface, Wrong


class Tools(NamedTuple):
    """What is needed for every SMILES."""

    model: MoleculeModel
    seeds: list[str]
    fingerprint: CWLFingerprint
    featuriser: Featuriser


def prepare(_: Path) -> Tools:
    """The model that comes with cwnet, and molecules to start from."""
    hard = [
        "C[C@H](N)C(=O)O",
        "F/C=C/F",
        "[Na+].[Cl-]",
        "[13CH4]",
        "C1CC2CC1C2",
        "[Fe+2]",
        "c1ccc2ccccc2c1",
        "[H][H]",
        "*C*",
        "N[C@@]1(C)CC[C@H](O)C1",
        "C1=CC=CC=C1",
        "O=[N+]([O-])c1ccccc1",
        "[Pt](Cl)(Cl)(N)N",
        "C#C",
        "[OH-]",
        "[CH3]",
        "C12C3C4C1C5C2C3C45",
        "c1cc2cc3ccc4cc5ccc1c1c2c3c4c51",
        "[C@]12(CCO1)CCN2",
        "CC(C)(C)[Si](C)(C)O",
    ]
    return Tools(MoleculeModel.load("zinc"), [*nci_smiles()[:300], *hard], CWLFingerprint(size=64), Featuriser())


def attack(chance: random.Random, tools: Tools) -> str:
    """One SMILES. It is read or refused, alone as among others; and what is made of it is the molecule's alone."""
    if chance.random() < 0.1:
        text = "".join(chance.choice(PIECES) for _ in range(chance.randint(1, 8)))
    else:
        text = mutated(chance, chance.choice(tools.seeds), chance.choice([0, 1, 1, 2, 3, 6]))
    featuriser = chance.choice([tools.model.featuriser, tools.featuriser])
    store, reasons = featuriser.readable(["CCO", text, "CCN"], threads=1)
    if 0 in reasons or 2 in reasons or len(store) + len(reasons) != 3:
        raise Wrong(f"{text!r} cost others: {reasons}")
    try:
        mol = parse(text)
    except GraphError:
        mol = None
    if mol is None and 1 not in reasons:
        raise Wrong(f"{text!r} is lifted and can not be read")
    if 1 in reasons:
        if not reasons[1]:
            raise Wrong(f"{text!r} is refused without a reason")
        return REFUSED
    assert mol is not None
    X = store[1]
    if X.num_cells[:2] != (mol.GetNumAtoms(), mol.GetNumBonds()):
        raise Wrong(f"{text!r} has {mol.GetNumAtoms()} atoms, and became {X}")
    if chance.random() < 0.05:
        compare(chance, tools, text)
    return OK


def compare(chance: random.Random, tools: Tools, text: str) -> None:
    """The same molecule written in another way: the same certificate, fingerprint and prediction."""
    from rdkit import Chem

    mol = Chem.MolFromSmiles(canonical(text))
    if mol is None:  # RDKit does not read all that it writes
        return
    other = Chem.MolToSmiles(mol, doRandom=True) if chance.random() < 0.7 else canonical(text)
    # Nor does what it writes always mean the same: charges and radicals of what is no molecule, for one.
    if canonical(other) != canonical(text) or perceived(other) != perceived(text):
        return
    store, reasons = tools.featuriser.readable([text, other], threads=1)
    if reasons:
        raise Wrong(f"{text!r} is readable, and as {other!r} it is not: {reasons}")
    a, b = certificates(store, None, initial="features")
    if a != b:
        raise Wrong(f"{text!r} and {other!r} have different certificates")
    found = tools.model.predict([text, other]).mean
    alike = torch.allclose(found[0], found[1], rtol=1e-3, atol=1e-3)
    # The model that comes with cwnet was trained on tags of chirality, which depend on how a SMILES is written.
    if not bool(torch.isfinite(found).all()) or not (alike or set("@/\\") & set(text + other)):
        raise Wrong(f"{text!r} and {other!r} are predicted as {found.tolist()}")
    prints = tools.fingerprint.transform([text, other]).toarray()
    if (prints[0] != prints[1]).any():
        raise Wrong(f"{text!r} and {other!r} have different fingerprints")


def perceived(text: str) -> list[tuple[Any, ...]]:
    """What RDKit takes the atoms for."""
    asked = ("GetSymbol", "GetHybridization", "GetTotalNumHs", "GetNumRadicalElectrons", "GetIsAromatic", "IsInRing")
    return sorted(tuple(str(getattr(atom, name)()) for name in asked) for atom in parse(text).GetAtoms())


SURFACE = Surface(
    "smiles", "a SMILES with letters changed: read, lifted, and now and then predicted", attack, prepare, 60, 400_000
)
