"""Several molecules per row as one complex."""

import pytest
import torch
from rdkit import Chem

from cwnet.chem import Featuriser, RowFeaturiser
from cwnet.chem._featurisers import choose_featuriser, read_featuriser
from cwnet.complexes import ComplexStore
from cwnet.errors import CwnetError, GraphError

PAIRS = RowFeaturiser(columns=("solute", "solvent"))


def test_a_row_is_the_union_of_its_molecules_with_slots():
    row, alone = PAIRS(["c1ccccc1O,CCO"]), Featuriser()(["c1ccccc1O", "CCO"])
    assert row.num_cells == alone.num_cells
    assert torch.equal(row.x[0][:, :-1], alone.x[0])
    assert torch.equal(row.x[1], alone.x[1])
    assert row.x[0][:, -1].tolist() == [0] * 7 + [1] * 3
    assert row[0].cells(2) == alone[0].cells(2)


def test_molecules_may_be_given_as_such():
    molecules = tuple(Chem.MolFromSmiles(s) for s in ("CCO", "O"))
    one, other = PAIRS([molecules]), PAIRS(["CCO,O"])
    assert one[0] == other[0]


def test_a_broken_molecule_rejects_its_row_and_says_which():
    rows = ["CCO,O", "CCO,C(", "C(,O", "CCO", "CCO,O,O", "CCO,", "c1ccccc1,CC"]
    store, reasons = PAIRS.readable(rows)
    assert sorted(reasons) == [1, 2, 3, 4, 5]
    assert reasons[1].startswith("solvent: SMILES 'C(' does not parse")
    assert reasons[2].startswith("solute: SMILES 'C(' does not parse")
    assert reasons[3] == "'CCO' has 1 SMILES, and 2 are needed, separated by commas: solute, solvent"
    assert "has 3 SMILES" in reasons[4]
    assert reasons[5] == "solvent: there is no SMILES: the text is blank"
    good = PAIRS([rows[0], rows[-1]])
    assert list(store) == list(good)
    with pytest.raises(GraphError, match=r"1: solvent: SMILES 'C\('"):
        PAIRS(rows)


def test_a_molecule_with_too_many_atoms_rejects_its_row():
    small = RowFeaturiser(max_atoms=3, columns=("a", "b"))
    _, reasons = small.readable(["CC,CCCCC", "CC,CC"])
    assert reasons == {0: "b: the molecule has 5 atoms, and at most 3 are taken"}


def test_skeletons_keep_their_slots():
    store = PAIRS(["c1ccccc1O,N"])
    found = PAIRS.saturated(store)
    assert torch.equal(found.x[0][:, -1], store.x[0][:, -1])
    assert torch.equal(found.x[0][:, :-1], Featuriser().saturated(Featuriser()(["c1ccccc1O", "N"])).x[0])


def test_plain_data_and_back():
    assert read_featuriser({**PAIRS.to_dict(), "columns": ["solute", "solvent"]}) == PAIRS
    assert type(read_featuriser(Featuriser().to_dict())) is Featuriser
    assert choose_featuriser("rings:6", ("a", "b")) == RowFeaturiser("rings:6", columns=("a", "b"))
    for columns in (("a",), ("a", "a"), (1, 2), tuple("abcdefghi")):
        with pytest.raises(CwnetError, match="column"):
            RowFeaturiser(columns=columns)


def test_no_rows_are_no_complexes():
    assert isinstance(PAIRS([]), ComplexStore)
    assert len(PAIRS([])) == 0
