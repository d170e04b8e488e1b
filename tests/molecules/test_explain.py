"""Contributions of cells, on tasks whose answer is known."""

import re

import pytest
import torch
from rdkit import Chem
from rdkit.Chem.rdMolDescriptors import CalcNumAromaticRings

from cwnet.chem import Featuriser, nci_smiles
from cwnet.chem._contributions import draw_contributions
from cwnet.chem._read import parse
from cwnet.errors import CwnetError, GraphError
from cwnet.molecules import Settings, draw_explanation, explain, write_gallery
from cwnet.molecules._data import stratified_split
from cwnet.molecules._targets import Targets
from cwnet.molecules._train import learn

NITRO = Chem.MolFromSmarts("[N+](=O)[O-]")


def aromatic(mol):
    rings = [r for r in mol.GetRingInfo().AtomRings() if all(mol.GetAtomWithIdx(a).GetIsAromatic() for a in r)]
    return {a for ring in rings for a in ring}, [bond.GetIsAromatic() for bond in mol.GetBonds()]


def nitro(mol):
    atoms = {a for match in mol.GetSubstructMatches(NITRO) for a in match}
    return atoms, [bond.GetBeginAtomIdx() in atoms or bond.GetEndAtomIdx() in atoms for bond in mol.GetBonds()]


def trained_on_sums(smiles, y):
    """A network that reads sums alone. Means, which the default reads beside them, are every cell's affair."""
    changes = ("model.width=32", "model.layers=2", "model.norm=layer", "model.pool=sum")
    values = torch.tensor(y)[:, None]
    split = stratified_split(values, Targets("regression", ("y",)))
    targets = Targets("regression", ("y",)).scaled_by(values[split.train])
    settings = Settings(ensemble=1, epochs=20, changes=changes, trees=False)
    return learn(Featuriser()(smiles), values, targets, split, settings, device="cpu")


def share(found, right):
    """How much of all contributions, up or down, is on the right atoms, bonds and rings."""
    atoms, bonds = right(parse(found.smiles))
    cells = found.complex
    masks = [[i in atoms for i in range(cells.num_cells[0])], bonds, [set(ring) <= atoms for ring in cells.cells(2)]]
    on = sum(
        float(c[torch.tensor(m, dtype=torch.bool)].abs().sum()) for c, m in zip(found.contributions, masks, strict=True)
    )
    return on / sum(float(c.abs().sum()) for c in found.contributions)


@pytest.mark.parametrize(
    ("target", "right"),
    [(CalcNumAromaticRings, aromatic), (lambda mol: mol.HasSubstructMatch(NITRO), nitro)],
    ids=["aromatic-rings", "nitro"],
)
def test_the_right_cells_carry_nine_tenths(target, right):
    smiles = [s for s in nci_smiles()[:1100] if "." not in s]
    unread = Featuriser().readable(smiles)[1]
    smiles = [s for i, s in enumerate(smiles) if i not in unread][:1000]
    y = [float(target(parse(s))) for s in smiles]
    found = explain(trained_on_sums(smiles, y), [s for s, value in zip(smiles, y, strict=True) if value][:20])
    assert sum(share(each, right) for each in found) / len(found) >= 0.9
    for each in found:
        assert abs(each.missing) <= 0.02 * abs(each.value - each.baseline)


def test_contributions_add_up(regression):
    [found] = explain(regression.model, ["Oc1ccccc1C(=O)N"], "tpsa")
    assert found.target == "tpsa"
    parts = regression.model.predict(["Oc1ccccc1C(=O)N"]).parts
    assert found.value == pytest.approx(float(parts["network"][0, 1]), rel=1e-4)
    assert found.value == pytest.approx(found.baseline + found.total + found.missing)
    assert [len(c) for c in found.contributions] == list(found.complex.num_cells)
    rows = found.rows()
    assert len(rows) == sum(found.complex.num_cells)
    assert abs(rows[0]["contribution"]) >= abs(rows[-1]["contribution"])


def test_a_saturated_hydrocarbon_has_nothing_to_explain(regression):
    [found] = explain(regression.model, ["CC1CCCCC1"])
    assert found.value == pytest.approx(found.baseline)
    assert float(max(c.abs().max() for c in found.contributions)) == pytest.approx(0, abs=1e-6)


def test_skeletons_are_those_of_real_hydrocarbons():
    featuriser = Featuriser()
    store = featuriser.saturated(featuriser(["Oc1ccccc1C#N", "C=O"]))
    real = featuriser(["CC1CCCCC1CC", "CC"])
    assert torch.equal(store.x[0], real.x[0])
    assert torch.equal(store.x[1], real.x[1])


def test_targets_that_are_not_predicted(regression):
    with pytest.raises(CwnetError, match="does not predict 'mp': choose one of 'logP', 'tpsa'"):
        explain(regression.model, ["CCO"], "mp")
    with pytest.raises(GraphError, match="does not parse"):
        explain(regression.model, ["C("])


def test_pictures_and_a_page(regression, tmp_path):
    found = explain(regression.model, ["Oc1ccccc1C(=O)N", "CCO"])
    draw_explanation(found[0], tmp_path / "a.svg")
    draw_explanation(found[0], tmp_path / "a.png")
    svg = (tmp_path / "a.svg").read_text()
    for name in ("ring-0", "bond-9", "atom-9"):
        assert f'id="{name}"' in svg
    write_gallery(tmp_path / "page.html", found, "two <molecules>")
    page = (tmp_path / "page.html").read_text()
    assert page.count("<article>") == 2
    assert "two &lt;molecules&gt;" in page
    ids = re.findall(r'id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    with pytest.raises(ValueError, match="1 contributions of dimension 0, but 3 cells"):
        draw_contributions("CCO", found[1].complex, [[0.0], [0.0] * 2, []])
