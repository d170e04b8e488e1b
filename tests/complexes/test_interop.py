"""networkx, PyTorch Geometric, TopoNetX."""

from dataclasses import replace

import networkx as nx
import pytest
import torch
from hypothesis import given

import cwnet
from cwnet import Cliques, GraphError, InvalidComplexError, LiftTransform, Rings
from cwnet.complexes import from_pyg, from_toponetx, to_hetero
from tests.strategies import complexes, small_graphs


class TestNetworkx:
    @given(small_graphs)
    def test_there_and_back(self, graph):
        complex_ = cwnet.lift(graph, Rings(6))
        back = complex_.to_networkx()
        assert nx.utils.graphs_equal(
            nx.Graph(back.edges), nx.Graph(nx.convert_node_labels_to_integers(graph, ordering="default").edges)
        )
        assert cwnet.lift(back, Rings(6)).cells(2) == complex_.cells(2) == back.graph["cells"][2]

    def test_any_labels_and_features(self):
        graph = nx.Graph(y=3.0)
        graph.add_node("b", x=[1.0, 2.0])
        graph.add_node("a", x=[3.0, 4.0])
        graph.add_edge("a", "b", x=7)
        complex_ = cwnet.lift(graph, None)
        assert complex_.x[0].tolist() == [[1, 2], [3, 4]]
        assert complex_.x[1].tolist() == [7]
        assert complex_.y == 3.0
        back = complex_.to_networkx()
        assert back.nodes[1]["x"].tolist() == [3, 4]
        assert back.edges[0, 1]["x"] == 7
        assert back.graph["y"] == 3.0

    def test_features_on_some_vertices_only(self):
        graph = nx.path_graph(3)
        graph.nodes[1]["x"] = 1.0
        with pytest.raises(GraphError, match="2 of 3 nodes have no attribute 'x'"):
            cwnet.lift(graph, None)

    def test_parallel_edges_make_a_multigraph(self):
        sphere = cwnet.CellComplex.from_boundaries(2, [[(0, 1), (0, 1)], [(0, 1), (0, 1)]])
        assert sphere.to_networkx().is_multigraph()
        assert sphere.to_networkx().number_of_edges() == 2


class TestPyg:
    @pytest.fixture(autouse=True)
    def _pyg(self):
        pytest.importorskip("torch_geometric")

    def ring(self, n, **attributes):
        from torch_geometric.data import Data

        ends = torch.tensor([(i, (i + 1) % n) for i in range(n)]).t()
        return Data(edge_index=torch.cat([ends, ends.flip(0)], 1), num_nodes=n, **attributes)

    def test_data_in(self):
        attr = torch.arange(5.0)[:, None]
        data = self.ring(5, x=torch.rand(5, 3), edge_attr=torch.cat([attr, attr]), y=torch.tensor([2.0]))
        complex_ = cwnet.lift(data, Rings(6))
        assert complex_.num_cells == (5, 5, 1)
        assert complex_.x[0].equal(data.x)
        assert complex_.y == 2.0
        for (u, v), value in zip(complex_.cells(1), complex_.x[1], strict=True):
            there = ((data.edge_index[0] == u) & (data.edge_index[1] == v)).nonzero()[0, 0]
            assert value == data.edge_attr[there]

    def test_asymmetric_edge_features(self):
        data = self.ring(4, edge_attr=torch.arange(8.0))
        with pytest.raises(GraphError, match=r"differs between the two directions of edge \(0, 1\): 0.0 and 4.0"):
            cwnet.lift(data, Rings(6))

    def test_one_direction_only(self):
        data = self.ring(4)
        data.edge_index = data.edge_index[:, :-1]
        with pytest.raises(GraphError, match=r"edge_index lists 3 → 0 more often than 0 → 3.*to_undirected"):
            cwnet.lift(data, Rings(6))

    def test_bad_edges_are_seen_by_the_core(self):
        data = self.ring(4)
        data.edge_index = torch.cat([data.edge_index, torch.tensor([[1], [1]])], 1)
        with pytest.raises(GraphError, match=r"\(1, 1\) is a self-loop"):
            cwnet.lift(data, Rings(6))
        assert cwnet.lift(data, Rings(6), loops="drop").num_cells == (4, 4, 1)
        data.edge_index = torch.tensor([[0, 9], [9, 0]])
        with pytest.raises(GraphError, match="names vertex 9"):
            cwnet.lift(data, Rings(6))
        data.edge_index, data.edge_attr = torch.tensor([[0, 1], [1, 0]]), torch.zeros(3)
        with pytest.raises(GraphError, match="edge_attr has 3 rows, but edge_index has 2 columns"):
            cwnet.lift(data, Rings(6))

    @given(complexes)
    def test_there_and_back(self, complex_):
        x = [torch.rand(n, d + 1) for d, n in enumerate(complex_.num_cells)]
        featured = cwnet.CellComplex.from_boundaries(complex_.num_cells[0], complex_.boundaries, x=x, y=1.0)
        assert from_pyg(featured.to_pyg()) == featured
        assert from_pyg(complex_.to_pyg()) == complex_

    def test_pygs_own_dataset_and_loader(self, tmp_path):
        """A PyG data set lifted in pre_transform, saved and loaded by PyG, batched by PyG."""
        from torch_geometric.data import InMemoryDataset
        from torch_geometric.loader import DataLoader

        make = self.ring

        class RingsAndTrees(InMemoryDataset):
            def __init__(self, root, **options):
                super().__init__(root, **options)
                self.load(self.processed_paths[0])

            processed_file_names = "data.pt"

            def process(self):
                every = [make(n, x=torch.full((n, 1), float(n)), y=torch.tensor([n])) for n in range(3, 9)]
                self.save([self.pre_transform(d) for d in every], self.processed_paths[0])

        dataset = RingsAndTrees(tmp_path, pre_transform=LiftTransform(Rings(6)))
        again = RingsAndTrees(tmp_path, pre_transform=LiftTransform(Rings(6)))
        assert repr(LiftTransform(Rings(6), init="sum")) == "LiftTransform(Rings(6), init='sum')"
        for source in (dataset, again):
            (batch,) = DataLoader(source, batch_size=6)
            found = from_pyg(batch)
            expected = [
                cwnet.lift(make(n, x=torch.full((n, 1), float(n)), y=torch.tensor([n])), Rings(6)) for n in range(3, 9)
            ]
            assert list(found) == expected
            assert batch.edge_index.shape == (2, 2 * sum(range(3, 9)))

    def test_transform_keeps_what_else_the_data_holds(self):
        lifted = LiftTransform(Rings(6))(self.ring(5, smiles="C1CCCC1", pos=torch.rand(5, 3)))
        assert lifted.smiles == "C1CCCC1"
        assert lifted.pos.shape == (5, 3)

    def test_plain_data_holds_no_cells(self):
        with pytest.raises(InvalidComplexError, match=r"lift it with cwnet\.lift"):
            from_pyg(self.ring(3))


class TestHetero:
    @pytest.fixture(autouse=True)
    def _pyg(self):
        pytest.importorskip("torch_geometric")

    def test_one_node_type_per_dimension(self):
        complex_ = cwnet.lift(nx.cycle_graph(4), Rings(6))
        data = to_hetero(replace(complex_, x=(torch.rand(4, 2), None, None), y=torch.tensor(1.0)), adjacent=True)
        assert [data[f"dim_{d}"].num_nodes for d in range(3)] == [4, 4, 1]
        assert data["dim_0"].x.shape == (4, 2)
        faces, cells = data["dim_1", "bounds", "dim_2"].edge_index
        assert (faces.tolist(), cells.tolist()) == (complex_.boundary(2).idx.tolist(), [0] * 4)
        assert data["dim_2", "has", "dim_1"].edge_index.tolist() == [cells.tolist(), faces.tolist()]
        assert data["dim_0", "upper", "dim_0"].edge_index.shape == (2, 8)
        assert data.y.tolist() == [1.0]

    def test_batches_are_renumbered(self):
        from torch_geometric.data import Batch

        complexes = [cwnet.lift(nx.cycle_graph(n), Rings(6)) for n in (3, 5)]
        batch, ours = Batch.from_data_list([to_hetero(c) for c in complexes]), cwnet.collate(complexes)
        for d in (1, 2):
            csr = ours.boundary(d)
            assert torch.equal(batch[f"dim_{d - 1}", "bounds", f"dim_{d}"].edge_index, torch.stack([csr.idx, csr.rows]))


def by_vertices(complex_, d):
    return dict(zip(map(frozenset, complex_.cells(d)), complex_.x[d].tolist(), strict=True))


class TestToponetx:
    @pytest.fixture(autouse=True)
    def _toponetx(self):
        pytest.importorskip("toponetx")

    @given(small_graphs)
    def test_shape_and_incidence(self, graph):
        complex_ = cwnet.lift(graph, Rings(5))
        other = complex_.to_toponetx()
        assert other.shape == complex_.num_cells
        if complex_.num_cells[2]:
            there = abs(other.incidence_matrix(2)).toarray().sum(axis=0)
            assert sorted(there.tolist()) == sorted(complex_.boundary(2).sizes.tolist())

    @given(small_graphs)
    def test_there_and_back(self, graph):
        complex_ = cwnet.lift(graph, Rings(5))
        n, m, r = complex_.num_cells
        x = (torch.arange(n), torch.arange(m) * 1.0, torch.rand(r, 2))
        complex_ = replace(complex_, x=x)
        back = from_toponetx(complex_.to_toponetx())
        assert back.num_cells == (n, m, r)
        assert cwnet.certificate(back, None) == cwnet.certificate(complex_, None)
        assert sorted(back.cells(2)) == sorted(complex_.cells(2))
        for d in range(3 if r else 2 if m else 1 if n else 0):
            assert by_vertices(back, d) == by_vertices(complex_, d)

    def test_names_and_missing_attributes(self):
        import toponetx

        other = toponetx.CellComplex()
        other.add_node("b", x=[1.0, 2.0])
        other.add_cell(["b", "a", "c"], rank=2, x=7)
        back = from_toponetx(other)
        assert back.num_cells == (3, 3, 1)
        assert back.x[0] is None  # "a" and "c" have none
        assert back.x[2].tolist() == [7]

    def test_what_is_no_cell_complex(self):
        import toponetx

        with pytest.raises(InvalidComplexError, match="not a toponetx"):
            from_toponetx(nx.path_graph(2))
        with pytest.raises(GraphError, match="from_toponetx"):
            cwnet.lift(toponetx.CellComplex([[0, 1, 2]]), Rings(4))

    def test_what_it_can_not_hold(self):
        with pytest.raises(InvalidComplexError, match="end at dimension 2"):
            cwnet.lift(nx.complete_graph(4), Cliques(4)).to_toponetx()
        with pytest.raises(InvalidComplexError, match="parallel edges"):
            cwnet.lift((2, [(0, 1), (0, 1)]), None, repeated="keep").to_toponetx()


def test_rdkit_molecules():
    chem = pytest.importorskip("rdkit.Chem")
    complex_ = cwnet.lift(chem.MolFromSmiles("c1ccc2ccccc2c1O"), Rings(18))
    assert complex_.num_cells == (11, 12, 2)
    assert complex_.x[0].flatten().tolist() == [6] * 10 + [8]
    assert complex_.boundary(2).sizes.tolist() == [6, 6]
