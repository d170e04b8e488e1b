"""Intervals that hold, probabilities that are frequencies, and molecules unlike the others."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cwnet import _core
from cwnet.chem._descriptors import Counts
from cwnet.chem._read import parse
from cwnet.molecules import ModelError, MoleculeModel, Prediction, Targets, predict_table
from cwnet.molecules._trust import Calibration, Reference, conformal_rank, fit_calibration, floors, limit_of
from cwnet.molecules._uncertainty import Conformal
from tests.molecules.conftest import write
from tests.reference.forests import nearest_similarity

TWO = Targets("binary", ("a",), (("0", "1"),))


def sparse(table):
    rows, columns = np.nonzero(table)
    ptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(table)))]).astype(np.int64)
    return ptr, columns.astype(np.uint16), table[rows, columns].astype(np.uint8)


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_similarity_is_that_of_dense_counts(data):
    width, members, queries = (data.draw(st.integers(1, n)) for n in (6, 9, 40))
    chance = np.random.default_rng(data.draw(st.integers(0, 99)))
    a, b = (chance.integers(0, 4, (n, width)) * chance.integers(0, 2, (n, width)) for n in (members, queries))
    k = data.draw(st.integers(1, 5))
    fast = _core.nearest_similarity(sparse(a), sparse(b), width, k, data.draw(st.integers(1, 3)))
    np.testing.assert_allclose(fast, nearest_similarity(a, b, k), rtol=1e-6)


def test_columns_that_are_not_there_are_refused():
    good = sparse(np.eye(3, dtype=int))
    for broken in ((good[0] + 1, *good[1:]), (good[0], good[1] + 5, good[2]), (good[0], good[1], good[2][:-1])):
        for members, queries in ((broken, good), (good, broken)):
            with pytest.raises(ValueError, match=r"rise|column"):
                _core.nearest_similarity(members, queries, 3, 1, 1)


def test_conformal_rank():
    scores = torch.tensor([3.0, 1.0, float("nan"), 2.0])
    assert conformal_rank(scores, 0.5) == 2.0
    assert conformal_rank(scores, 0.75) == 3.0
    assert conformal_rank(scores, 0.76) is None
    assert floors(torch.tensor([[1.0, 0.0], [3.0, 0.0], [2.0, float("nan")]])).tolist() == [2.0, 1.0]


def test_normalised_intervals_hold_for_hard_molecules_where_constant_ones_do_not():
    chance = torch.Generator().manual_seed(0)

    def drawn(count):
        spread = torch.rand(count, 1, generator=chance).double() * 3
        return spread, (spread * torch.randn(count, 1, generator=chance)).abs().double()

    spreads, residuals = drawn(1_000)
    fitted = Conformal(("a",), residuals, spreads)
    spread, error = drawn(4_000)
    found = Prediction(torch.zeros_like(spread), None, {}, spread)
    for level in (0.8, 0.9, 0.95):
        inside = (error <= fitted.margins(found, level)[0]).double()
        assert float(inside.mean()) == pytest.approx(level, abs=0.03)
        hard = spread[:, 0] > 2
        constant = (error <= replace(fitted, spreads=None).margins(found, level)[0]).double()
        assert float(inside[hard].mean()) > float(constant[hard].mean())


def test_probabilities_that_were_too_sure_become_frequencies():
    chance = torch.Generator().manual_seed(0)
    true = torch.rand(4_000, 1, generator=chance).double()
    y = (torch.rand(4_000, 1, generator=chance).double() < true).float()
    sure = (3 * torch.logit(true) + 1).sigmoid()
    found = fit_calibration(TWO, y, sure)
    assert found.slope[0] == pytest.approx(1 / 3, abs=0.04)
    assert float((found(sure) - true).abs().mean()) < 0.02
    few = fit_calibration(TWO, y[:6], sure[:6])
    assert abs(few.slope[0] - 1) < abs(found.slope[0] - 1)


def test_a_column_of_one_class_stays_as_it_is():
    p = torch.tensor([[0.2], [0.7], [0.9]]).double()
    found = fit_calibration(TWO, torch.tensor([[0.0], [0.0], [float("nan")]]), p)
    assert found == Calibration((1.0,), (0.0,))
    assert torch.allclose(found(p), p)


def test_more_than_two_classes():
    three = Targets("multiclass", ("a",), (("x", "y", "z"),))
    chance = torch.Generator().manual_seed(0)
    true = torch.randn(3_000, 3, generator=chance).double().softmax(1)
    y = torch.multinomial(true, 1, generator=chance).float()
    sure = (true.log() * 4).softmax(1)
    found = fit_calibration(three, y, sure)
    assert found.slope[0] == pytest.approx(0.25, abs=0.05)
    assert torch.allclose(found(sure).sum(1), torch.ones(3_000).double())
    assert float((found(sure) - true).abs().mean()) < 0.03


def test_training_molecules_are_not_novel_and_others_are(regression, tmp_path):
    model = regression.model
    prepared = regression.prepared
    known = [prepared.table.smiles[i] for i in prepared.split.train.tolist()]
    assert len(model.reference.counts) == len(known)
    found = model.predict([*known[:20], "[Fe]"]).novelty
    assert found[:20].max() < 0.9
    assert found[20:].min() > model.reference.limit
    nearest = replace(model.reference, nearest=1)
    counts = model.inputs(known[:20]).counts
    assert nearest.novelty(counts).max() == pytest.approx(0, abs=1e-6)
    path = write(tmp_path / "in.csv", ("smiles",), [(known[0],), ("[Fe]",), ("C(",)])
    predict_table(model, path, tmp_path / "out.csv")
    rows = list(csv.DictReader((tmp_path / "out.csv").open()))
    assert [row["outside"] for row in rows] == ["no", "yes", ""]
    assert limit_of([0.1, 0.5, 0.2]) == 0.5
    assert limit_of([]) == 1.0


def test_novelty_does_not_depend_on_how_a_molecule_is_written(regression):
    from rdkit import Chem

    mol = parse("CC(=O)Oc1ccccc1C(=O)O")
    other = Chem.MolToSmiles(mol, rootedAtAtom=7, canonical=False)
    found = regression.model.predict(["CC(=O)Oc1ccccc1C(=O)O", other])
    assert found.novelty[0] == found.novelty[1]
    assert torch.allclose(found.parts["trees"][0], found.parts["trees"][1])


def test_coverage_is_in_the_figures(regression):
    figures = json.loads((regression.folder / "metrics.json").read_text())["coverage"]
    assert figures == regression.model.about["coverage"]
    for column in figures["80%"].values():
        assert 0 <= column["held"] <= 1
        assert column["width"] > 0


def test_a_loaded_model_trusts_as_much(regression, binary, molecules):
    smiles = [s for s, _ in molecules[:20]]
    for trained in (regression, binary):
        loaded = MoleculeModel.load(trained.folder)
        a, b = loaded.predict(smiles), trained.model.predict(smiles)
        for name in ("mean", "std", "spread", "novelty"):
            assert torch.equal(getattr(a, name), getattr(b, name)), name
        assert loaded.calibration == trained.model.calibration
    assert torch.equal(loaded.reference.novelty(loaded.inputs(smiles).counts, 2), a.novelty)


def test_references_that_lead_nowhere_are_refused():
    counts = Counts(*sparse(np.eye(3, dtype=int)))
    body = Reference(counts, 2, 3).to_dict()
    Reference.from_parts(body, counts._asdict())
    for name, array in (
        ("ptr", counts.ptr + 1), ("column", counts.column + np.uint16(9)), ("times", counts.times[:1]),
        ("ptr", counts.ptr.astype(np.int32)),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="training molecules"):
            Reference.from_parts(body, {**counts._asdict(), name: array})
    for key, value in (("size", 0), ("limit", 2.0), ("nearest", "3")):
        with pytest.raises(ValueError, match=r"training molecules|novelty"):
            Reference.from_parts({**body, key: value}, counts._asdict())
    with pytest.raises(ValueError, match="no calibration"):
        Calibration.from_dict({"slope": [-1.0], "shift": [0.0]}, TWO)


def test_trees_and_reference_of_other_fingerprints(regression, tmp_path):
    model = regression.model
    replace(model, reference=replace(model.reference, radius=3)).save(tmp_path)
    with pytest.raises(ModelError, match="other fingerprints"):
        MoleculeModel.load(tmp_path)
