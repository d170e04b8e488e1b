import warnings

import pytest

pytest.importorskip("rdkit")
from matplotlib.patches import Polygon
from rdkit import Chem
from rdkit.Chem import rdDepictor

from cwnet import CellComplex, Cliques, GraphError, Rings, lift
from cwnet.chem import draw_molecule, draw_molecules

PYRENE = "c1cc2ccc3cccc4ccc(c1)c2c34"
CUBANE = "C12C3C4C1C5C2C3C45"
ODD = ["[13CH4]", "[Na+].[Cl-]", "C[CH2]", "O=C=O", "N#N", "C/N=N/C", "[O-][N+](=O)c1ccccc1", "N->[Cu]", "*C", "[NH4+]"]


def cells(figure):
    return [
        patch
        for axes in figure.axes
        for patch in axes.patches
        if isinstance(patch, Polygon) and "cell-" in patch.get_gid()
    ]


def legend(figure):
    return [text.get_text() for box in figure.legends for text in box.get_texts()]


@pytest.mark.parametrize("smiles", ["c1ccccc1", PYRENE, CUBANE, "CN1CCC23C4C1CC5=C2C(=C(C=C5)O)OC3C(C=C4)O", "CCO"])
def test_every_2_cell_is_filled(smiles):
    complex = lift(Chem.MolFromSmiles(smiles), Rings(18))
    filled = cells(draw_molecule(smiles))
    assert len(filled) == complex.num_cells[2]
    assert all(patch.get_fill() for patch in filled)
    rings = {patch.get_gid(): len(patch.get_xy()) - 1 for patch in filled}
    assert rings == {f"cell-{i}": len(ring) for i, ring in enumerate(complex.cells(2))}


def test_large_rings_lie_below_small_ones_and_reach_beyond_them():
    filled = cells(draw_molecule(PYRENE))
    sizes = [len(patch.get_xy()) - 1 for patch in filled]
    assert sizes == sorted(sizes, reverse=True)
    rims = {size: patch.get_linewidth() for size, patch in zip(sizes, filled, strict=True)}
    assert rims[6] == 0 < rims[12] < rims[14]


def test_legend_counts_sizes():
    assert set(legend(draw_molecule(PYRENE))) == {"6-ring × 4", "12-ring × 2", "14-ring × 1"}
    assert legend(draw_molecule(PYRENE, lifting=Rings(6))) == ["6-ring × 4"]
    assert legend(draw_molecule("CCO")) == legend(draw_molecule(PYRENE, legend=False)) == []


def test_a_given_complex_is_drawn():
    mol = Chem.MolFromSmiles(PYRENE)
    assert len(cells(draw_molecule(mol, lift(mol, Rings(12))))) == 6
    assert len(cells(draw_molecule(mol, lift(mol, None)))) == 0
    assert len(cells(draw_molecule("C1CC1", lifting=Cliques(3)))) == 1


@pytest.mark.parametrize("other", ["c1ccccc1", "C1CCCC1C"])
def test_a_complex_of_another_molecule_is_refused(other):
    mol = Chem.MolFromSmiles("C1CCCCCC1" if other == "c1ccccc1" else "C1CCCCC1")
    with pytest.raises(GraphError, match="they are not the"):
        draw_molecule(mol, lift(Chem.MolFromSmiles(other), Rings(6)))


def test_what_can_not_be_drawn_is_refused():
    with pytest.raises(GraphError, match="does not parse"):
        draw_molecule("C1CC")
    with pytest.raises(GraphError, match="no atoms"):
        draw_molecule(Chem.Mol(), CellComplex.from_boundaries(0, []))
    with pytest.raises(ValueError, match="do not match"):
        draw_molecules(["C"], titles=["a", "b"])
    with pytest.raises(ValueError, match="columns=0"):
        draw_molecules(["C"], columns=0)


@pytest.mark.parametrize(("suffix", "magic"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")])
def test_file_is_written(tmp_path, suffix, magic):
    path = tmp_path / f"pyrene{suffix}"
    draw_molecule(PYRENE, title="Pyrene", path=path)
    assert path.read_bytes().startswith(magic)
    if suffix == ".svg":
        assert path.read_text().count('id="cell-') == 7


def test_unknown_suffix_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"\.png, \.svg or \.pdf"):
        draw_molecule("C", path=tmp_path / "molecule.bmp")


def test_pyplot_is_left_alone():
    import matplotlib.pyplot as plt

    before = plt.get_fignums()
    draw_molecule(PYRENE)
    draw_molecules([PYRENE, CUBANE])
    assert plt.get_fignums() == before


def test_the_molecule_is_left_as_it_is():
    mol = Chem.MolFromSmiles(PYRENE)
    draw_molecule(mol)
    assert mol.GetNumConformers() == 0
    assert all(atom.GetIsAromatic() for atom in mol.GetAtoms())


def test_own_coordinates_are_kept_up_to_the_median_bond():
    mol = Chem.MolFromSmiles("C1CC1")
    rdDepictor.Compute2DCoords(mol)
    for atom, place in enumerate([(0.0, 0.0, 0.0), (3.0, 0.0, 0.0), (0.0, 4.0, 0.0)]):
        mol.GetConformer().SetAtomPosition(atom, place)
    assert cells(draw_molecule(mol))[0].get_xy()[:3].tolist() == [[0.0, 0.0], [0.75, 0.0], [0.0, 1.0]]


@pytest.mark.parametrize("smiles", ODD)
def test_odd_molecules_are_drawn(smiles, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw_molecule(smiles, path=tmp_path / "odd.png")


def test_unsanitised_molecules_are_drawn_quietly(tmp_path, capfd):
    mol = Chem.MolFromSmiles("c1cccc1C", sanitize=False)
    assert len(cells(draw_molecule(mol, path=tmp_path / "raw.png"))) == 1
    assert capfd.readouterr().err == ""


def test_gallery():
    figure = draw_molecules([PYRENE, CUBANE, "C1CC1", "CCO"], titles=["a", "b", "c", "d"], columns=3)
    assert [axes.get_title() for axes in figure.axes] == ["a", "b", "c", "d"]
    assert [len([p for p in axes.patches if isinstance(p, Polygon)]) for axes in figure.axes] == [7, 10, 1, 0]
    assert legend(figure)[0] == "3-ring × 1"
    assert "6-ring × 8" in legend(figure)
    scales = {round((axes.bbox.width / (axes.get_xlim()[1] - axes.get_xlim()[0])), 6) for axes in figure.axes}
    assert len(scales) == 1


def test_gallery_takes_complexes():
    mols = [Chem.MolFromSmiles(s) for s in (PYRENE, CUBANE)]
    figure = draw_molecules(mols, [lift(mol, Rings(6)) for mol in mols])
    assert len(cells(figure)) == 4 + 10
