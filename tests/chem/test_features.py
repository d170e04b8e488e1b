"""Features of molecules against the benchmarks' own, and ZINC's target against the stored one."""

import csv
import gzip

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cwnet import _core
from cwnet.errors import GraphError
from tests.conftest import there

pytest.importorskip("rdkit")

from rdkit import Chem

from cwnet.chem import _features, nci_smiles
from cwnet.chem._features import ATOM_SIZES, BOND_SIZES, longest_basis_cycle, ogb_graphs, penalised_logp
from cwnet.chem._read import parse


def test_ogb_features_are_those_of_molhiv(data):
    """On 1,000 molecules; another RDKit made the file, so a few may differ."""
    path = there(data / "ogbg-molhiv" / "molhiv_graphs.npz")
    stored = dict(np.load(path, allow_pickle=False))
    with gzip.open(path.with_name("mol.csv.gz"), "rt") as file:
        smiles = [row["smiles"] for row in csv.DictReader(file)]
    nodes = np.concatenate([[0], stored["num_nodes"].cumsum(dtype=np.int64)])
    edges = np.concatenate([[0], stored["num_edges"].cumsum(dtype=np.int64)])
    sample = np.random.default_rng(0).choice(len(smiles), 1_000, replace=False)
    different = []
    for i in sample:
        own = ogb_graphs([smiles[i]])
        same = (
            np.array_equal(own.x[0].numpy(), stored["node_feat"][nodes[i] : nodes[i + 1]])
            and np.array_equal(own.x[1].numpy(), stored["edge_feat"][edges[i] : edges[i + 1]])
            and np.array_equal(own.boundaries[0].idx.reshape(-1, 2).numpy(), stored["edge"][edges[i] : edges[i + 1]])
        )
        if not same:
            different.append(int(i))
    assert len(different) <= 10, different


def test_ogb_features_of_odd_atoms():
    # A dummy atom, a charge beyond the table, an isotope of hydrogen, a radical, a metal with a dative bond.
    store = ogb_graphs(["*", "[C-6]", "[2H]", "[CH3]", "[NH3]->[Cu]", "C/C=C/C", "[C@@H](F)(Cl)Br"])
    x, edge_x = store.x[0].numpy(), store.x[1].numpy()
    assert x[0, 0] == 118
    assert x[1, 3] == 11
    assert x[2, 0] == 0
    assert x[3, 5] == 1
    assert edge_x[0, 0] == 4
    assert edge_x[2].tolist() == [1, 2, 0]
    assert x[-4, 1] in (1, 2)
    assert (x < ATOM_SIZES).all()
    assert (edge_x < BOND_SIZES).all()


def test_bad_molecules_have_a_position():
    with pytest.raises(GraphError, match=r"graph 1: SMILES 'C1' does not parse"):
        ogb_graphs(["C", "C1"])
    with pytest.raises(GraphError, match="graph 0: the molecule has no atoms"):
        ogb_graphs([parse("C").__class__()])
    assert len(ogb_graphs([])) == 0


def test_zinc_target_is_the_stored_one(data):
    """On 1,000 molecules of all parts: at least 99 % to 1e-3."""
    wrong, count = {}, 0
    for part in ("train", "val", "test"):
        y = np.load(there(data / "ZINC" / f"zinc_full_{part}.npz"), allow_pickle=False)["y"]
        with gzip.open(data / "ZINC" / f"smiles_{part}.txt.gz", "rt") as file:
            smiles = file.read().split()
        assert len(smiles) == len(y)
        for i in np.random.default_rng(1).choice(len(y), 334, replace=False):
            count += 1
            own = penalised_logp(parse(smiles[i]))
            if abs(own - y[i]) > 1e-3:
                wrong[part, int(i)] = (own, float(y[i]))
    assert count >= 1_000
    assert len(wrong) <= count / 100, wrong


@given(st.integers(1, 14), st.integers(0, 20), st.integers(0, 1_000))
def test_longest_basis_cycle_is_that_of_networkx(n, m, seed):
    graph = nx.gnm_random_graph(n, min(m, n * (n - 1) // 2), seed=seed)
    ordered = nx.Graph()
    ordered.add_nodes_from(range(n))
    ordered.add_edges_from(sorted(graph.edges))  # neighbours in the order of their numbers, as in ours
    ordered._adj = {u: dict(sorted(near.items())) for u, near in ordered._adj.items()}
    roots = [min(component) for component in nx.connected_components(ordered)]
    expected = max(
        (
            len(cycle)
            for root in roots
            for cycle in nx.cycle_basis(ordered.subgraph(nx.node_connected_component(ordered, root)), root)
        ),
        default=0,
    )
    edges = np.array(sorted(graph.edges), dtype=np.int64).reshape(-1, 2)
    assert longest_basis_cycle(n, edges) == expected


def test_penalised_logp_counts_large_rings():
    ring = [penalised_logp(parse(f"C1{'C' * (k - 2)}C1")) for k in (6, 8)]
    assert ring[0] - ring[1] > 2 * 3.47513914 - 3


class TestBinaryForm:
    """What is read of RDKit's binary form in C++ is what RDKit says when it is asked atom by atom."""

    def both(self, smiles):
        mols = [Chem.MolFromSmiles(text) for text in smiles]
        fast = _core.decode_molecules([mol.ToBinary(0) for mol in mols], 0, *_features._lookup())
        asked = [_features._asked(mol, _features._tables()) for mol in mols]
        return fast, [np.concatenate(part) for part in zip(*asked, strict=True)]

    def test_it_is_that_of_this_rdkit(self):
        """If not, all is right but slow: look at the new version, and write it down in csrc/molecules.cpp."""
        assert _features._binary_form_is_known()

    def test_molecules_that_come_with_rdkit(self):
        smiles = nci_smiles()
        kept = [text for text in smiles if (mol := Chem.MolFromSmiles(text)) is not None and mol.GetNumAtoms() < 256]
        fast, asked = self.both(kept)
        assert len(fast[0]) == len(kept) > 4900
        for ours, theirs in zip(fast, asked, strict=True):
            np.testing.assert_array_equal(ours, theirs)

    def test_what_is_not_known_is_asked_for(self):
        """Atom maps, dummies and queries are left to RDKit, and so is what has more than 255 atoms."""
        odd = ["[CH3:1]O", "*CC", "C" * 300, "C1" + "C" * 260 + "1"]
        mols = [Chem.MolFromSmiles(text) for text in odd] + [Chem.MolFromSmarts("[#6]~[#7]")]
        mols[-1].UpdatePropertyCache(strict=False)
        Chem.FastFindRings(mols[-1])
        for mol in mols:
            assert len(_core.decode_molecules([mol.ToBinary(0)], 0, *_features._lookup())[0]) == 0
        mixed = ["CCO", *odd, "c1ccccc1", odd[0], odd[1]]
        store = ogb_graphs(mixed)
        asked = [_features._asked(Chem.MolFromSmiles(text), _features._tables()) for text in mixed]
        assert store.x[0].flatten().tolist() == np.concatenate([part[3] for part in asked]).tolist()
        assert store.cell_ptr[0].diff().tolist() == [3, 2, 3, 300, 261, 6, 2, 3]

    @pytest.mark.parametrize("smiles", ["c1ccccc1C(=O)O", "C/C=C/C", "[13CH3][N+](C)(C)C"])
    def test_damaged_bytes_are_refused_and_not_read_past(self, smiles):
        binary = Chem.MolFromSmiles(smiles).ToBinary(0)
        tables = _features._lookup()
        for cut in range(len(binary) - 10):
            assert len(_core.decode_molecules([binary[:cut]], 0, *tables)[0]) in (0, 1)
        rng = np.random.default_rng(0)
        for _ in range(2000):
            other = bytearray(binary)
            other[int(rng.integers(20, len(binary)))] = int(rng.integers(256))
            _core.decode_molecules([bytes(other)], 0, *tables)  # whatever it finds, it does not crash

    def test_another_version_falls_back(self, monkeypatch):
        _features._binary_form_is_known.cache_clear()
        monkeypatch.setattr(_features, "_lookup", lambda: tuple(bytes(256) for _ in range(4)))
        try:
            assert not _features._binary_form_is_known()
            store = ogb_graphs(["C[C@H](N)O"])
        finally:
            monkeypatch.undo()
            _features._binary_form_is_known.cache_clear()
        assert torch.equal(store.x[0], ogb_graphs(["C[C@H](N)O"]).x[0])
