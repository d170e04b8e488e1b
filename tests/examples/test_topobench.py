"""The package that plugs cwnet into TopoBench, on its own and, where TopoBench is installed, inside it."""

import gzip
import importlib.util
import sys
from itertools import combinations
from pathlib import Path

import pytest
import torch

from cwnet import Rings, collate, lift
from cwnet.nn import Readout
from cwnet.nn.testing import assert_cell_equivariant

EXAMPLE = Path(__file__).parents[2] / "examples" / "topobench"
sys.path.append(str(EXAMPLE))

import nci1_raw  # noqa: E402
from cwnet_topobench.backbone import CIN  # noqa: E402
from cwnet_topobench.layout import KINDS, cells_of, connectivity  # noqa: E402

needs_topobench = pytest.mark.skipif(
    importlib.util.find_spec("topobench") is None, reason="TopoBench is not installed: see examples/topobench/README.md"
)

# Two squares and a triangle in a row with a tail, a cube, a tree, a lone vertex.
FUSED = (9, [(0, 1), (1, 2), (2, 3), (3, 0), (2, 4), (4, 5), (5, 3), (4, 6), (5, 6), (6, 7), (7, 8)])
CUBE = (8, [(i, i ^ bit) for i in range(8) for bit in (1, 2, 4) if i < i ^ bit])
TREE = (4, [(0, 1), (1, 2), (1, 3)])
LONE = (1, [])
GRAPHS = {"fused": FUSED, "cube": CUBE, "tree": TREE, "lone": LONE}


def topobench_batch(graphs, width=5, seed=0):
    """A batch in TopoBench's layout, made by hand: blocks on the diagonal, features summed up from the vertices."""
    generator = torch.Generator().manual_seed(seed)
    complexes = [lift(graph, Rings(6)) for graph in graphs]
    matrices = [connectivity(complex_, ["incidence"]) for complex_ in complexes]
    batch = {}
    for d in range(3):
        blocks = [m[f"incidence_{d}"].to_dense() for m in matrices]
        batch[f"incidence_{d}"] = torch.block_diag(*blocks).to_sparse()
        batch[f"batch_{d}"] = torch.tensor([i for i, c in enumerate(complexes) for _ in range(c.num_cells[d])]).long()
    batch["x_0"] = torch.randn(len(batch["batch_0"]), width, generator=generator)
    return with_lifted_features(batch), complexes


def with_lifted_features(batch):
    for d in (1, 2):
        batch[f"x_{d}"] = batch[f"incidence_{d}"].T @ batch[f"x_{d - 1}"]
    return batch


def features(batch):
    return [batch[f"x_{d}"] for d in range(3)]


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_incidences_are_the_boundaries_of_the_lifting(graph):
    complex_ = lift(graph, Rings(6))
    made = connectivity(complex_, ["incidence"])
    assert set(made) == {"incidence_0", "incidence_1", "incidence_2"}
    assert made["incidence_0"].shape == (0, complex_.num_cells[0])
    for d in (1, 2):
        matrix = made[f"incidence_{d}"]
        assert matrix.is_coalesced()
        assert matrix.dtype == torch.float32
        dense = matrix.to_dense()
        assert dense.shape == (complex_.num_cells[d - 1], complex_.num_cells[d])
        assert set(dense.unique().tolist()) <= {0, 1}
        assert [c.nonzero().flatten().tolist() for c in dense.T] == [sorted(b) for b in complex_.boundary(d).tolist()]


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_adjacencies_count_shared_cells(graph):
    complex_ = lift(graph, Rings(6))
    made = connectivity(complex_)
    assert set(made) == {f"{kind}_{d}" for kind in KINDS for d in range(3)}
    for d, n in enumerate(complex_.num_cells):
        up = [set(cells) for cells in complex_.coboundary(d).tolist()]
        down = [set(cells) for cells in complex_.boundary(d).tolist()]
        for kind, shared in {"adjacency": up, "coadjacency": down}.items():
            expected = torch.zeros(n, n)
            for a, b in combinations(range(n), 2):
                expected[a, b] = expected[b, a] = len(shared[a] & shared[b])
            assert torch.equal(made[f"{kind}_{d}"].to_dense(), expected)
            assert made[f"{kind}_{d}"].values().all()


def test_laplacians_lose_their_signs_after_the_product():
    """Two triangles that share an edge: where a vertex and a ring say opposite things of two edges, they cancel."""
    edges = [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3)]
    made = {name: m.to_dense().int().tolist() for name, m in connectivity(lift((4, edges), Rings(3))).items()}
    assert made["down_laplacian_0"] == [[0] * 4] * 4
    assert made["up_laplacian_0"] == [[2, 1, 1, 0], [1, 3, 1, 1], [1, 1, 3, 1], [0, 1, 1, 2]]
    assert made["down_laplacian_2"] == made["hodge_laplacian_2"] == [[3, 1], [1, 3]]
    assert made["up_laplacian_2"] == [[0, 0], [0, 0]]
    assert made["down_laplacian_1"][0] == [2, 1, 1, 1, 0]
    assert made["up_laplacian_1"][0] == [1, 1, 1, 0, 0]
    assert made["hodge_laplacian_1"][0] == [3, 0, 0, 1, 0]


def test_unknown_connectivities_are_refused():
    with pytest.raises(ValueError, match=r"\['laplace'\]: choose from incidence"):
        connectivity(lift(TREE, Rings(6)), ["incidence", "laplace"])


def test_cells_of_a_batch_are_those_of_its_complexes():
    batch, complexes = topobench_batch([FUSED, LONE, TREE, CUBE])
    found, expected = cells_of(batch), collate(complexes)
    assert found.num_cells == expected.num_cells
    for d in range(3):
        assert torch.equal(found.cell_ptr[d], expected.cell_ptr[d])
        assert [sorted(b) for b in found.boundary(d).tolist()] == [sorted(b) for b in expected.boundary(d).tolist()]
    assert [c.num_cells for c in found] == [c.num_cells for c in complexes]


@pytest.mark.parametrize("graphs", [[FUSED, LONE, CUBE], [TREE, LONE]], ids=["rings", "no rings"])
def test_the_backbone_on_a_batch(graphs):
    torch.manual_seed(0)
    batch, _ = topobench_batch(graphs)
    cells, model, readout = cells_of(batch), CIN(5, 8, n_layers=2), Readout(8, 8)
    out = model(features(batch), cells)
    assert [h.shape for h in out] == [(n, 8) for n in cells.num_cells]
    assert model.out_channels == 8
    pooled = readout(out, cells)
    assert pooled.shape == (len(graphs), 8)
    pooled.square().sum().backward()
    gradients = {name: p.grad for name, p in model.named_parameters() if p.dim() == 2}
    assert all(gradient is None or gradient.isfinite().all() for gradient in gradients.values())
    if cells.num_cells[2]:
        assert all(gradient is not None and gradient.any() for gradient in gradients.values())


def test_renumbering_changes_nothing_that_is_pooled():
    """Vertices renumbered before lifting: the whole way, with other numbers for edges and rings as well."""
    torch.manual_seed(0)
    model, readout = CIN(5, 8, n_layers=3).eval(), Readout(8, 8)
    batch, (complex_,) = topobench_batch([FUSED])
    order = torch.randperm(FUSED[0])
    place = torch.argsort(order).tolist()
    edges = [(place[v], place[u]) for u, v in reversed(FUSED[1])]
    other, _ = topobench_batch([(FUSED[0], edges)])
    other["x_0"] = batch["x_0"][order]
    with_lifted_features(other)
    with torch.no_grad():
        a, b = (readout(model(features(x), cells_of(x)), cells_of(x)) for x in (batch, other))
    assert torch.allclose(a, b, atol=1e-4 * a.abs().max())
    assert_cell_equivariant(model, complex_, 5)


def test_nci1_as_raw_files(tmp_path):
    source = tmp_path / "NCI1.txt.gz"
    with gzip.open(source, "wt") as file:
        file.write("2\n3 0\n4 1 1\n0 2 2 0\n4 1 1\n2 1\n7 1 1\n7 1 0\n")
    nci1_raw.main(source, tmp_path / "raw")
    made = {path.stem.removeprefix("NCI1_"): path.read_text().split("\n")[:-1] for path in (tmp_path / "raw").iterdir()}
    assert made == {
        "A": ["1, 2", "2, 1", "2, 3", "3, 2", "4, 5", "5, 4"],
        "graph_indicator": ["1", "1", "1", "2", "2"],
        "graph_labels": ["0", "1"],
        "node_labels": ["4", "0", "4", "7", "7"],
    }


def as_data(graph, seed=0):
    from torch_geometric.data import Data

    generator = torch.Generator().manual_seed(seed)
    pairs = torch.tensor(sorted([*graph[1], *[(v, u) for u, v in graph[1]]])).long().reshape(-1, 2).T
    x = torch.randint(5, (graph[0], 4), generator=generator).float()
    return Data(x=x, edge_index=pairs, y=torch.tensor([graph[0] % 2]))


@needs_topobench
@pytest.mark.parametrize("graph", [FUSED, TREE], ids=["fused", "tree"])
def test_topobench_lifts_to_the_same_matrices(graph):
    """Where a cycle basis is the rings, TopoBench's own lifting and ours differ in the order of cells alone."""
    from cwnet_topobench.parts import CellRingLifting
    from topobench.transforms import TRANSFORMS
    from topobench.transforms.liftings.graph2cell.base import Graph2CellLifting
    from topobench.transforms.liftings.graph2cell.cycle_lifting import CellCycleLifting

    assert TRANSFORMS["CellRingLifting"] is CellRingLifting
    assert issubclass(CellRingLifting, Graph2CellLifting)
    ours, theirs = (kind(max_cell_length=6)(as_data(graph)) for kind in (CellRingLifting, CellCycleLifting))
    assert set(ours.keys()) == set(theirs.keys())
    assert [int(n) for n in ours.shape] == [int(n) for n in theirs.shape]
    orders = [torch.arange(graph[0])]
    for d in (1, 2):  # cells by their faces, which are in order already
        columns = [m[f"incidence_{d}"].to_dense()[order].T.tolist() for m, order in ((ours, orders[-1]), (theirs, ...))]
        orders.append(torch.tensor([columns[0].index(column) for column in columns[1]]).long())
    for d, order in enumerate(orders):
        assert torch.equal(ours[f"x_{d}"][order], theirs[f"x_{d}"])
        for kind in KINDS:
            matrix = ours[f"{kind}_{d}"].to_dense()
            rows = matrix[orders[d - 1] if d else []] if kind == "incidence" else matrix[order]
            assert torch.equal(rows[:, order], theirs[f"{kind}_{d}"].to_dense()), (kind, d)


@needs_topobench
@pytest.mark.parametrize("lifting", ["CellRingLifting", "CellCycleLifting"])
def test_topobench_trains_the_parts(lifting):
    from cwnet_topobench.parts import CINWrapper, RankReadout

    batch = collated(lifting, connectivities=[])
    wrapper = CINWrapper(CIN(4, 4, 2), out_channels=4, num_cell_dimensions=3)
    for level, rows in {"graph": 3, "node": FUSED[0] + TREE[0] + CUBE[0]}.items():
        readout = RankReadout(hidden_dim=4, out_channels=2, task_level=level)
        logits = readout(wrapper(batch), batch)["logits"]
        assert logits.shape == (rows, 2)
        logits.sum().backward()
        assert all(layer.join[0].linears[0].weight.grad.any() for layer in wrapper.backbone.layers)


@needs_topobench
def test_topobench_trains_its_own_network_on_our_rings():
    from topobench.nn.wrappers.cell.cwn_wrapper import CWNWrapper
    from topomodelx.nn.cell.cwn import CWN

    wrapper = CWNWrapper(CWN(4, 4, 4, 4, 2), out_channels=4, num_cell_dimensions=3)
    batch = collated("CellRingLifting")
    assert wrapper(batch)["x_1"].shape == batch.x_1.shape


def collated(lifting, **options):
    """Three graphs as TopoBench's loader hands them over."""
    import cwnet_topobench.parts  # noqa: F401
    from topobench.dataloader.utils import collate_fn
    from topobench.transforms import TRANSFORMS

    transform = TRANSFORMS[lifting](max_cell_length=6, **options)
    lifted = [transform(as_data(graph)) for graph in (FUSED, TREE, CUBE)]
    return collate_fn([([data[key] for key in data.keys()], list(data.keys())) for data in lifted])  # noqa: SIM118
