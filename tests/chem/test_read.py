import subprocess
import sys
import warnings

import networkx as nx
import pytest
import torch

pytest.importorskip("rdkit")
from rdkit import Chem

from cwnet import GraphError, Rings, lift, lift_many
from cwnet.chem import nci_smiles, pack_molecules, read_smiles
from cwnet.chem._read import parse_plain, quietly
from cwnet.errors import LiftingWarning

BENZENE = "c1ccccc1"
NAPHTHALENE = "c1ccc2ccccc2c1"
CUBANE = "C12C3C4C1C5C2C3C45"
PYRENE = "c1cc2ccc3cccc4ccc(c1)c2c34"


def ring_sizes(smiles):
    return sorted(len(ring) for ring in lift(Chem.MolFromSmiles(smiles), Rings(18)).cells(2))


class TestReadSmiles:
    def test_lines_have_names(self):
        molecules = read_smiles([f"{BENZENE}\tbenzene\n", "CCO  ethyl alcohol", "C"])
        assert molecules.names == ["benzene", "ethyl alcohol", ""]
        assert molecules.smiles == [BENZENE, "CCO", "C"]
        assert molecules.positions.tolist() == [0, 1, 2]
        assert [mol.GetNumAtoms() for mol in molecules] == [6, 3, 1]
        assert repr(molecules) == "Molecules(3 molecules)"

    @pytest.mark.parametrize(
        ("bad", "reason"),
        [
            ("c1cccc1C", "Can't kekulize mol"),
            ("C(C)(C)(C)(C)C", "Explicit valence for atom # 0 C, 5"),
            ("CCc", "non-ring atom 2 marked aromatic"),
        ],
    )
    def test_wrong_chemistry_is_named(self, bad, reason):
        with pytest.raises(GraphError) as caught:
            read_smiles(["C", "CC", f"{bad} name"])
        assert caught.value.position == 2
        assert str(caught.value).startswith(f"graph 2: SMILES {bad!r} does not parse: {reason}")

    @pytest.mark.parametrize("bad", ["CC(C", "C1CC", "[Xx]", "CC)"])
    def test_wrong_syntax_is_named(self, bad):
        with pytest.raises(GraphError) as caught:
            read_smiles(["C", bad])
        assert caught.value.position == 1
        assert f"SMILES {bad!r} does not parse: " in str(caught.value)

    def test_syntax_errors_say_what_and_where(self):
        from rdkit import rdBase

        if not hasattr(rdBase, "CaptureErrorLog"):
            pytest.skip("this RDKit keeps its reasons to itself")
        with pytest.raises(GraphError, match=r"extra open parentheses near character 3$"):
            read_smiles(["CC(C"])
        with pytest.raises(GraphError, match=r"unclosed ring$"):
            read_smiles(["C1CC"])

    def test_blank_lines_are_errors(self):
        with pytest.raises(GraphError, match="graph 1: there is no SMILES"):
            read_smiles(["C", "  \n"])

    def test_skipping_is_reported(self):
        with pytest.warns(LiftingWarning, match=r"2 molecules were left out \(see molecules.skipped\).*graph 1"):
            molecules = read_smiles(["C", "C1CC", "CC", "", "CCC"], on_error="skip")
        assert [error.position for error in molecules.skipped] == [1, 3]
        assert molecules.positions.tolist() == [0, 2, 4]
        assert repr(molecules) == "Molecules(3 molecules, 2 skipped)"

    def test_nothing_to_skip_warns_nothing(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert len(read_smiles([], on_error="skip")) == 0
            assert len(read_smiles(["C"], on_error="skip")) == 1

    def test_rdkit_is_quiet_only_while_we_parse(self, capfd):
        with pytest.raises(GraphError):
            read_smiles(["CC(C"])
        assert capfd.readouterr().err == ""
        Chem.MolFromSmiles("CC(C")
        assert "SMILES Parse Error" in capfd.readouterr().err

    def test_one_text_is_not_many_lines(self):
        with pytest.raises(TypeError, match="splitlines"):
            read_smiles("CCO")

    def test_on_error_is_checked(self):
        with pytest.raises(ValueError, match="on_error='ignore' is not one of"):
            read_smiles(["C"], on_error="ignore")


class TestPlainSmiles:
    """Where there is nothing to do for RDKit's last steps, leaving them out changes nothing."""

    def test_molecules_that_come_with_rdkit(self):
        plain = 0
        for smiles in nci_smiles()[::5]:
            ours, whole = parse_plain(smiles), Chem.MolFromSmiles(smiles)
            if ours is not None:
                plain += 1
                assert ours.ToBinary(0) == whole.ToBinary(0)
        assert plain > 900

    @pytest.mark.parametrize(
        "smiles",
        [
            "C[C@H](N)C(=O)O", "C/C=C/C", "C\\C=C\\C", "[H]O[H]", "[2H]C", "[13CH4]", "[D]C", "[H][H]", "[#6]C",
            "[12#6]", "CCO name", "C[C@H](F)Cl |&1:1|", " CCO", "", "*C", "C1CC", "C(C)(C)(C)(C)C", "c1cccc1", "[Na",
            "[", "CC>>CO", "C~C", "Ｃ",
        ],
    )  # fmt: skip
    def test_all_others_are_left_to_the_whole_parse(self, smiles):
        with quietly():
            assert parse_plain(smiles) is None

    @pytest.mark.parametrize("smiles", ["[O-][N+](=O)c1ccccc1", "c1cc[nH]c1", "[Fe+2].[Cl-]", "CC=CC", "C%10CC%10"])
    def test_what_is_plain(self, smiles):
        assert parse_plain(smiles).ToBinary(0) == Chem.MolFromSmiles(smiles).ToBinary(0)


class TestPackMolecules:
    def test_packed_equals_single(self):
        mols = [Chem.MolFromSmiles(s) for s in (BENZENE, "C", "[Na+].[Cl-]", CUBANE, "CC(=O)N", "N->[Cu]", "*C#C")]
        packed = pack_molecules(mols)
        assert list(packed) == [lift(mol, None) for mol in mols]
        assert list(lift_many(packed, Rings(18))) == [lift(mol, Rings(18)) for mol in mols]

    def test_features(self):
        store = pack_molecules(["CC=O"])
        assert torch.equal(store.x[0], torch.tensor([[6], [6], [8]]))
        assert torch.equal(store.x[1], torch.tensor([[1], [2]]))
        assert store.x[0].dtype == store.x[1].dtype == torch.int64

    def test_smiles_and_molecules_agree(self):
        smiles = [BENZENE, "CCO", PYRENE]
        assert list(pack_molecules(smiles)) == list(pack_molecules(read_smiles(smiles)))

    def test_nothing_packs_to_nothing(self):
        store = pack_molecules([])
        assert len(store) == 0
        assert store.x[0].shape == store.x[1].shape == (0, 1)

    @pytest.mark.parametrize(
        ("bad", "reason"),
        [
            ("C1CC", r"SMILES 'C1CC' does not parse"),
            (None, r"did a SMILES fail to parse\?"),
            (7, "a int is not a molecule"),
            (Chem.Mol(), "has no atoms"),
            ("", "there is no SMILES"),
        ],
    )
    def test_bad_molecules_are_named_or_skipped(self, bad, reason):
        with pytest.raises(GraphError, match=f"graph 1: .*{reason}"):
            pack_molecules(["C", bad])
        with pytest.warns(LiftingWarning, match=r"1 molecule was left out \(see store.skipped\)"):
            store = pack_molecules(["C", bad, "CC"], on_error="skip")
        assert store.cell_ptr[0].tolist() == [0, 1, 3]
        assert [error.position for error in store.skipped] == [1]

    def test_what_reading_skipped_is_not_forgotten(self):
        with pytest.warns(LiftingWarning):
            molecules = read_smiles(["C", "C1CC"], on_error="skip")
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # it was said once
            assert pack_molecules(molecules).skipped == molecules.skipped


class TestRings:
    @pytest.mark.parametrize(
        ("smiles", "sizes"),
        [
            (BENZENE, [6]),
            (NAPHTHALENE, [6, 6]),
            ("c1ccc2cccc2cc1", [5, 7]),
            ("C1CC2CCC1C2", [5, 5, 6]),  # norbornane: the bridge makes two rings of 5 and leaves one of 6
            (PYRENE, [6, 6, 6, 6, 12, 12, 14]),
            ("CCO", []),
        ],
    )
    def test_known_molecules(self, smiles, sizes):
        assert ring_sizes(smiles) == sizes

    @pytest.mark.parametrize("smiles", [CUBANE, PYRENE, "C1C2CC3CC1CC(C2)C3"])
    def test_as_networkx_finds_them(self, smiles):
        mol = Chem.MolFromSmiles(smiles)
        graph = nx.Graph((b.GetBeginAtomIdx(), b.GetEndAtomIdx()) for b in mol.GetBonds())
        expected = {frozenset(cycle) for cycle in nx.chordless_cycles(graph, 18)}
        cells = lift(mol, Rings(18)).cells(2)
        assert {frozenset(cell) for cell in cells} == expected
        assert len(cells) == len(expected)

    def test_cubane_has_six_faces_and_four_hexagons(self):
        assert ring_sizes(CUBANE) == [4] * 6 + [6] * 4


class TestNci:
    def test_all_but_a_few_parse(self):
        smiles = nci_smiles()
        assert len(smiles) == 4999
        assert not any(set(text) & set(" \t\n") for text in smiles)
        with pytest.warns(LiftingWarning):
            store = pack_molecules(smiles, on_error="skip")
        assert len(store) + len(store.skipped) == len(smiles)
        assert 0 < len(store.skipped) < 20
        assert all("does not parse: " in error.reason for error in store.skipped)


def test_cwnet_imports_neither_rdkit_nor_matplotlib():
    heavy = "{m.partition('.')[0] for m in sys.modules} & {'rdkit', 'matplotlib'}"
    for module in ("cwnet", "cwnet.chem"):
        code = f"import sys, {module}; assert not {heavy}, {heavy}"
        subprocess.run([sys.executable, "-c", code], check=True)


def test_without_rdkit_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "rdkit", None)
    for use in (nci_smiles, lambda: read_smiles(["C"]), lambda: pack_molecules(["C"])):
        with pytest.raises(ImportError, match=r"pip install cwnet\[chem\]"):
            use()
