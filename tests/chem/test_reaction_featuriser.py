"""Reactions as complexes."""

import pytest
from rdkit import Chem

from cwnet.chem import Featuriser, ReactionFeaturiser
from cwnet.chem._features import ATOM_SIZES, BOND_SIZES
from cwnet.chem._featurisers import choose_featuriser, read_featuriser
from cwnet.errors import CwnetError
from cwnet.wl import certificates

REACTIONS = ReactionFeaturiser()
DIELS_ALDER = "[CH2:1]=[CH:2][CH:3]=[CH2:4].[CH2:5]=[CH2:6]>>[CH2:1]1[CH:2]=[CH:3][CH2:4][CH2:5][CH2:6]1"
ABSENT_ATOM, ABSENT_BOND = list(ATOM_SIZES), list(BOND_SIZES)


def test_matched_atoms_are_one_and_the_ring_that_forms_is_a_cell():
    [found] = REACTIONS([DIELS_ALDER])
    assert found.num_cells == (6, 6, 1)
    before, after = (Featuriser()([side]) for side in DIELS_ALDER.split(">>"))
    assert found.x[0][:, :9].tolist() == before.x[0].tolist()
    assert found.x[0][:, 9:].tolist() == after.x[0].tolist()
    bonds = dict(zip(map(frozenset, found.cells(1)), found.x[1].tolist(), strict=True))
    assert bonds[frozenset({3, 4})][:3] == ABSENT_BOND  # it forms
    assert bonds[frozenset({0, 1})][0::3] == [1, 0]  # double, then single


def test_an_atom_that_leaves_is_absent_in_the_products():
    [found] = REACTIONS(["[CH3:1][Br:2].[OH-:3]>>[CH3:1][OH:3]"])
    assert found.num_cells == (3, 2, 0)
    assert found.x[0][1, 9:].tolist() == ABSENT_ATOM
    assert found.x[0][0, 9:].tolist() != ABSENT_ATOM


def test_agents_are_on_the_side_of_the_reactants():
    assert REACTIONS(["C>O>C"])[0] == REACTIONS(["C.O>>C"])[0]


def test_without_numbers_the_sides_are_a_disjoint_union():
    [found] = REACTIONS(["CCBr>>CCO"])
    assert found.num_cells == (6, 4, 0)
    assert found.x[0][:3, 9:].tolist() == [ABSENT_ATOM] * 3
    assert found.x[0][3:, :9].tolist() == [ABSENT_ATOM] * 3


def test_neither_the_order_of_atoms_nor_their_numbers_matter():
    left, right = (Chem.MolFromSmiles(side) for side in DIELS_ALDER.split(">>"))
    certificate = lambda text: certificates(REACTIONS([text]), initial="features")  # noqa: E731
    expected = certificate(DIELS_ALDER)
    for seed in range(5):
        sides = [Chem.MolToRandomSmilesVect(mol, 1, seed)[0] for mol in (left, right)]
        assert certificate(">>".join(sides)) == expected
    renumbered = DIELS_ALDER.replace(":", ":1")
    assert certificate(renumbered) == expected
    assert certificate(">>".join(DIELS_ALDER.split(">>")[::-1])) != expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("CCO", "'CCO' is not a reaction: write reactants>>products"),
        ("C(>>C", "reactants: SMILES 'C(' does not parse"),
        ("C>>C(", "products: SMILES 'C(' does not parse"),
        ("C>>", "products: there is no SMILES"),
        ("[CH3:1][CH3:1]>>CC", "reactants: two atoms have the map number 1"),
        ("[CH4:1]>>[NH3:1]", "the map number 1 is on C and on N"),
    ],
)
def test_what_is_wrong_is_said(text, reason):
    store, reasons = REACTIONS.readable([DIELS_ALDER, text])
    assert len(store) == 1
    assert reason in reasons[1]


def test_plain_data_and_back():
    assert read_featuriser(REACTIONS.to_dict()) == choose_featuriser("rings:18", reactions=True) == REACTIONS
    with pytest.raises(CwnetError, match="takes nothing else"):
        ReactionFeaturiser(reactions=False)
