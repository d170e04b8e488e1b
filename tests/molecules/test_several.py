"""Rows of several molecules, and reactions: trained, kept, predicted, explained."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from rdkit import Chem
from rdkit.Chem.Crippen import MolLogP

from cwnet.data import read_table
from cwnet.errors import CwnetError
from cwnet.molecules import MoleculeModel, Settings, explain, train_table
from cwnet.molecules._inputs import Wanted, describe, read_inputs
from cwnet.nn import PerSlot
from tests.molecules.conftest import TINY, write

PAIRS = Settings(smiles_columns=("a", "b")).featuriser


@pytest.fixture(scope="module")
def pairs(molecules, tmp_path_factory):
    """Pairs of molecules with the difference of their logP."""
    draw = np.random.default_rng(0).permutation(len(molecules))
    others = [molecules[j] for j in draw]
    rows = [(s, t, round(MolLogP(m) - MolLogP(n), 3)) for (s, m), (t, n) in zip(molecules, others, strict=True)]
    return write(tmp_path_factory.mktemp("pairs") / "pairs.csv", ("a", "b", "y"), rows)


@pytest.fixture(scope="module")
def trained(pairs, tmp_path_factory):
    settings = Settings(
        ensemble=1,
        epochs=20,
        changes=(*TINY, "train.lr=0.02", "trees.count=5", "trees.descriptors=false"),
        smiles_columns=("a", "b"),
    )
    out = tmp_path_factory.mktemp("several") / "model"
    return train_table(read_table(pairs, "a", "y", other_columns=["b"]), out, settings, device="cpu", progress=False)


def test_fingerprints_and_descriptors_lie_side_by_side():
    wanted = Wanted(2, 64, ("MolWt", "TPSA"))
    rows = ["CCO,c1ccccc1", "N,CCO"]
    found = describe(rows, PAIRS(rows), wanted, PAIRS)
    left, right = (describe([row.split(",")[i] for row in rows], PAIRS(rows), wanted) for i in (0, 1))
    dense = found.counts.dense(128)
    assert np.array_equal(dense, np.concatenate([left.counts.dense(64), right.counts.dense(64)], 1))
    assert np.array_equal(found.numbers, np.concatenate([left.numbers, right.numbers], 1))
    assert np.array_equal(found.counts.between(64, 128).dense(64), right.counts.dense(64))
    read, reasons = read_inputs(PAIRS, [rows[0], "C(,C", rows[1]], wanted)
    assert list(reasons) == [1]
    assert np.array_equal(read.counts.dense(128), dense)
    assert np.array_equal(read.numbers, found.numbers)


def test_network_and_trees_learn_from_both(trained):
    assert isinstance(trained.model.members[0].readout.readout, PerSlot)
    assert trained.model.trees.columns.parts == 2
    assert trained.model.about["parts"]["test"]["network"]["y"]["r2"] > 0.4


def test_atoms_may_come_in_any_order_and_slots_may_not(trained):
    row = "Cc1ccccc1O,CCN"
    texts = [Chem.MolToRandomSmilesVect(Chem.MolFromSmiles(s), 1, 3)[0] for s in row.split(",")]
    said = trained.model.predict([row, ",".join(texts), "CCN,Cc1ccccc1O", "CCN,CCN"]).mean[:, 0].tolist()
    assert said[0] == pytest.approx(said[1], abs=1e-4)
    assert abs(said[0] - said[2]) > 0.1


def test_a_saved_model_predicts_the_same_bits(trained):
    rows = ["CCO,O", "c1ccccc1,CCN", "CC,CC"]
    again = MoleculeModel.load(trained.folder)
    assert again.featuriser == trained.model.featuriser
    found, expected = again.predict(rows), trained.model.predict(rows)
    assert torch.equal(found.mean, expected.mean)
    assert torch.equal(found.novelty, expected.novelty)
    body = json.loads((trained.folder / "model.json").read_text())
    assert (body["version"], body["featuriser"]["columns"]) == (4, ["a", "b"])


def test_novelty_is_that_of_the_most_novel_molecule(trained, pairs):
    known = trained.prepared.table.smiles[int(trained.prepared.split.train[0])]
    left, right = known.split(",")
    strange = "[Xe](F)(F)F"
    same, new = trained.model.predict([known, f"{left},{strange}"]).novelty.tolist()
    assert new == pytest.approx(trained.model.predict([f"{strange},{right}"]).novelty.item(), abs=0.1)
    assert new > 0.9 > same


def test_contributions_add_up_and_fall_on_molecules(trained):
    [found] = explain(trained.model, ["Cc1ccccc1O,CCN"])
    assert found.smiles == "Cc1ccccc1O.CCN"
    assert found.total == pytest.approx(found.value - found.baseline, rel=0.02)
    assert dict(found.parts) == {"a": range(8), "b": range(8, 11)}
    assert sum(found.by_part.values()) == pytest.approx(found.total)
    network = replace(trained.model, trees=None, reference=None)
    assert found.value == pytest.approx(float(network.predict(["Cc1ccccc1O,CCN"]).mean), rel=1e-4)


def test_what_a_model_of_rows_is_not_asked(trained, tmp_path):
    with pytest.raises(CwnetError, match="more than one molecule"):
        trained.model.embed(["CCO,O"])
    with pytest.raises(CwnetError, match="has 1 SMILES, and 2 are needed"):
        trained.model.predict(["CCO"])
    replace(trained.model, trees=None).save(tmp_path / "m")
    assert MoleculeModel.load(tmp_path / "m").trees is None
    with pytest.raises(CwnetError, match="not both"):
        Settings(smiles_columns=("a", "b"), reactions=True)


def test_trees_or_training_molecules_of_other_rows_are_refused(trained, tmp_path):
    replace(trained.model, reference=replace(trained.model.reference, parts=1)).save(tmp_path / "broken")
    with pytest.raises(CwnetError, match="damaged"):
        MoleculeModel.load(tmp_path / "broken")


# ------------------------------------------------------------------------------------------------ reactions


@pytest.fixture(scope="module")
def reactions(tmp_path_factory):
    """Bromides that become alcohols or amines, with numbers on the atoms that stay; the target is which."""
    rows = []
    for i in range(60):
        tail = "C" * (i % 7)
        new = "O" if i % 2 else "N"
        rows.append((f"[CH2:1]({tail}C)[Br:2].[{new}:3]>>[CH2:1]({tail}C)[{new}:3]", i % 2 + 0.1 * len(tail)))
    return write(tmp_path_factory.mktemp("reactions") / "reactions.csv", ("reaction", "y"), rows)


def test_reactions_are_learnt_kept_and_not_explained(reactions, tmp_path):
    settings = Settings(
        ensemble=1, epochs=2, changes=(*TINY, "trees.count=5", "trees.descriptors=false"), reactions=True
    )
    table = read_table(reactions, "reaction", "y")
    found = train_table(table, tmp_path / "m", settings, device="cpu", progress=False)
    assert found.model.trees.columns.parts == 2
    again = MoleculeModel.load(tmp_path / "m")
    rows = ["[CH3:1][Br:2].[OH2:3]>>[CH3:1][OH:3]", "CBr>>CO"]
    assert torch.equal(again.predict(rows).mean, found.model.predict(rows).mean)
    with pytest.raises(CwnetError, match="reactions are not explained"):
        explain(again, rows)
