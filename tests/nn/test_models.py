"""Whole models: parameter counts, invariance, batching, configurations, bad input."""

import json
import random
from dataclasses import replace

import networkx as nx
import pytest
import torch

import cwnet
from cwnet import Cliques, Rings
from cwnet.complexes import collate
from cwnet.experiments.sr import mlp_baseline, sr_network
from cwnet.lifting import relabelled
from cwnet.nn import CIN, CellEncoder, CellHead, CINConv, Head, Module, Readout, cin, from_config, gin, sin, to_config
from cwnet.nn.encoders import Categories, Constant, FromVertices, Linear, Raw, Zeros
from cwnet.nn.models import molecule_encoder
from tests.reference.layers import (
    assert_agree,
    assert_close,
    encode,
    from_vertices,
    network,
    randomise,
    readout,
    vectors,
)

ATOMS, BONDS = (7, 3), (4,)


def molecule(seed):
    """A small graph with a ring, two rings or two that share an edge, and a tail; categories on vertices and edges."""
    rng = random.Random(seed)
    first, second = rng.randint(3, 6), rng.randint(3, 6)
    graph = nx.cycle_graph(first)
    if seed % 3 == 1:
        graph = nx.disjoint_union(graph, nx.cycle_graph(second))
        graph.add_edge(0, first)
    if seed % 3 == 2:
        nx.add_path(graph, [0, *range(first, first + second - 2), 1])
    for _ in range(rng.randint(0, 4)):
        graph.add_edge(rng.randrange(len(graph)), len(graph))
    edges = list(graph.edges)
    x = [[rng.randrange(n) for n in ATOMS] for _ in graph]
    return len(graph), edges, x, [rng.randrange(BONDS[0]) for _ in edges]


def molecules(count, lifting=Rings(6), start=0):  # noqa: B008
    return cwnet.lift_many([molecule(start + i) for i in range(count)], lifting)


def ring_transfer(width_in, width=64, classes=5, layers=3, graph=False):
    """The RingTransfer models: CIN whose edges and rings start empty, or GIN; a class per vertex."""
    if graph:
        return gin(CellEncoder([Linear(width_in, width)]), width, layers, classes, cells=0)
    start = CellEncoder([Linear(width_in, width_in), Zeros(), Zeros()])
    return cin(start, width, layers, classes, width_in=width_in, norm="none", cells=0)


def tu_encoder(width_in, reduce="mean", dim=2):
    """Raw vertex features as they are; higher cells from their vertices, as in the TU experiments."""
    return CellEncoder([Raw(), *[FromVertices(reduce) for _ in range(dim)]])


def encoder(width=8, dim=2, **options):
    return molecule_encoder(width, ATOMS, BONDS, dim, **options)


#: Every model for targets of complexes, and its lifting.
MODELS = {
    "cin": (lambda: cin(encoder(), 8, 2), Rings(6)),
    "cin of three layers": (lambda: cin(encoder(), 8, 3, 2, act="tanh", norm="layer", pool="mean"), Rings(6)),
    "cin that reads sums, means and maxima": (lambda: cin(encoder(), 8, 1, 2, norm="capped", pool="all"), Rings(6)),
    "cin that reads sums and means": (lambda: cin(encoder(), 8, 2, 2, norm="robust", pool="both"), Rings(6)),
    "cin with jumping knowledge": (lambda: cin(encoder(), 8, 2, jumping=True, shared=False), Rings(6)),
    "cin without edge features": (lambda: cin(molecule_encoder(8, ATOMS, None, reduce="mean"), 8, 2), Rings(6)),
    "cin++": (lambda: cin(encoder(), 8, 2, plus=True), Rings(6)),
    "cin without rings": (lambda: cin(encoder(dim=1), 8, 2, dim=1), None),
    "sin": (lambda: sin(encoder(dim=3), 8, 2, dim=3), Cliques(4)),
    "gin": (lambda: gin(encoder(dim=0), 8, 2), None),
    "gin with jumping knowledge": (lambda: gin(encoder(dim=0), 8, 2, jumping=True), None),
    "gin-e": (lambda: gin(encoder(dim=1), 8, 2, edges=True), None),
    "mlp": (lambda: mlp_baseline(width=8, outputs=3), Rings(6)),
    "sr": (lambda: sr_network(8, 3, 4), Rings(6)),
}
models = pytest.mark.parametrize(("make", "lifting"), MODELS.values(), ids=MODELS.keys())


class TestParameters:
    """The counts of PROTOCOLS; those published count a message layer in the top dimension that no data reaches."""

    @staticmethod
    def unreachable(width, layers):
        return layers * (2 * width * width + width)

    @pytest.mark.parametrize(
        ("width", "layers", "count", "published"), [(128, 4, 1_569_281, 1_700_865), (48, 2, 121_633, 130_945)]
    )
    def test_zinc(self, width, layers, count, published):
        found = cin(molecule_encoder(width), width, layers).num_parameters()
        assert found == count
        assert found + self.unreachable(width, layers) == published

    @pytest.mark.parametrize(("width", "published"), [(64, 239_745), (48, 138_337)])
    def test_molhiv(self, width, published):
        model = cin(molecule_encoder(width, (119, 4, 12, 12, 10, 6, 6, 2, 2), (5, 6, 2)), width, 2)
        assert model.num_parameters() + self.unreachable(width, 2) == published

    @models
    def test_every_parameter_is_reached(self, make, lifting):
        """On a batch with cells of every dimension; in evaluation, since a batch norm hides the bias before it."""
        model = randomise(make()).eval()
        batch = molecules(40, lifting).batch()
        if lifting == Cliques(4):
            batch = collate([with_categories(nx.complete_graph(6), Cliques(4), seed) for seed in range(6)])
        assert batch.num_cells[-1] > 0
        model(batch).square().sum().backward()
        assert [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()] == []

    @pytest.mark.parametrize("graph", [False, True], ids=["cin", "gin"])
    @pytest.mark.parametrize("layers", [1, 3, 5])
    def test_every_parameter_of_ring_transfer_is_reached(self, layers, graph):
        """Only vertices are read, so the last layers compute no rings."""
        model = randomise(ring_transfer(3, 8, layers=layers, graph=graph)).eval()
        model(ring(6, 3)).square().sum().backward()
        assert [name for name, p in model.named_parameters() if p.grad is None] == []

    def test_csl(self):
        """One learnt embedding for all vertices and one for all edges, layer norm, 10 classes."""
        encoders = CellEncoder([Constant(160), Constant(160), FromVertices("sum")])
        model = cin(encoders, 160, 3, 10, norm="layer", pool="mean")
        assert model.num_parameters() + self.unreachable(160, 3) == 2_024_330


def with_categories(graph, lifting, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.stack([torch.randint(n, (len(graph),), generator=generator) for n in ATOMS], 1)
    edge_x = torch.randint(BONDS[0], (graph.number_of_edges(),), generator=generator)
    return cwnet.lift((len(graph), list(graph.edges), x, edge_x), lifting)


def ring(k, width, seed=0):
    complex_ = cwnet.lift(nx.cycle_graph(k), Rings(k))
    x = torch.randn(k, width, generator=torch.Generator().manual_seed(seed))
    return replace(complex_, x=(x, None, None))


class TestAgainstReference:
    @models
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
    @pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
    def test_whole_models(self, make, lifting, dtype, training):
        model = randomise(make().to(dtype)).train(training)
        batch = molecules(3, lifting).batch()
        tolerance = 1e-5 if dtype == torch.float32 else 1e-10
        assert_agree([model(batch)], [network(model, batch)], dict(model.named_parameters()), tolerance)

    def test_ring_transfer(self):
        for graph in (False, True):
            model = randomise(ring_transfer(3, 4, graph=graph).double())
            batch = collate([replace(c, x=(c.x[0].double(), None, None)) for c in (ring(6, 3), ring(9, 3))])
            assert_agree([model(batch)], [network(model, batch)], dict(model.named_parameters()), 1e-10)

    def test_masks(self):
        model = randomise(cin(encoder(), 8, 2).double())
        batch = molecules(3).batch()
        generator = torch.Generator().manual_seed(0)
        masks = [torch.rand(n, generator=generator) < 0.8 for n in batch.num_cells]
        leaves = dict(model.named_parameters())
        assert_agree([model(replace(batch, masks=tuple(masks)))], [network(model, batch, masks)], leaves, 1e-10)

    @pytest.mark.parametrize("reduce", ["sum", "mean"])
    def test_from_vertices(self, reduce):
        for graph in (nx.complete_graph(6), nx.gnm_random_graph(9, 18, seed=1), nx.empty_graph(2)):
            complex_ = cwnet.lift(graph, Cliques(5) | Rings(6))
            x = torch.randn(len(graph), 3, dtype=torch.float64, requires_grad=True)
            for d in range(1, 5):
                found = FromVertices(reduce)(None, x, complex_, d)
                expected = from_vertices(list(x), complex_, d, reduce)
                assert len(found) == len(expected)
                if expected:
                    assert_agree([found], [torch.stack(expected)], {"x": x}, 1e-12)

    @pytest.mark.parametrize("pool", ["sum", "mean", "max", "both"])
    @pytest.mark.parametrize("bias", [True, False])
    @pytest.mark.parametrize("dims", [(0, 1, 2), (0,), (2, 0)])
    def test_readout(self, pool, bias, dims):
        """Complexes without cells of a dimension pool to zero there."""
        module = randomise(Readout(3, 5, dims, pool, "elu", bias).double())
        batch = collate([cwnet.lift(g, Rings(6)) for g in (nx.cycle_graph(5), nx.path_graph(3), nx.empty_graph(1))])
        x = [torch.randn(n, 3, dtype=torch.float64, requires_grad=True) for n in batch.num_cells]
        leaves = {f"x[{d}]": x[d] for d in dims} | dict(module.named_parameters())
        assert_agree([module(x, batch)], [torch.stack(readout(module, vectors(x), batch))], leaves, 1e-12)

    def test_encoders(self):
        encoders = CellEncoder([Linear(3, 4), Constant(4), Zeros()])
        batch = collate([ring(5, 3), ring(6, 3, seed=1)])
        for found, expected in zip(encoders(batch), encode(encoders, batch), strict=True):
            assert_close(found, torch.stack(expected), 1e-6)


class TestInvariance:
    """Relabelling the vertices of a graph and shuffling its edges changes nothing."""

    @models
    @pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
    def test_every_model(self, make, lifting, training):
        model = randomise(make().double()).train(training)
        graphs = [molecule(seed) for seed in range(8)]
        with torch.no_grad():
            expected = model(cwnet.lift_many(graphs, lifting).batch())
            for seed in range(3):
                others = [relabelled(graph, seed)[0] for graph in graphs]
                assert_close(model(cwnet.lift_many(others, lifting).batch()), expected, 1e-10)
        assert len(torch.unique(expected.round(decimals=6), dim=0)) > 1

    def test_cell_targets_move_with_their_cells(self):
        model = randomise(ring_transfer(3, 8).double())
        graph = (6, [*nx.cycle_graph(6).edges, (0, 3)], torch.randn(6, 3, dtype=torch.float64))
        expected = model(cwnet.lift(graph, Rings(6)))
        for seed in range(3):
            other, new = relabelled(graph, seed)
            assert_close(model(cwnet.lift(other, Rings(6)))[new], expected, 1e-10)


class TestBatching:
    @models
    def test_a_batch_is_its_complexes_one_by_one(self, make, lifting):
        """64 complexes, some of which have no ring, in evaluation."""
        model = randomise(make()).eval()
        trees = [with_categories(nx.path_graph(n), lifting, n) for n in range(2, 6)]
        store = [*molecules(60, lifting), *trees]
        assert len(store) == 64
        with torch.no_grad():
            together = model(collate(store))
            alone = torch.cat([model(complex_) for complex_ in store])
        assert_close(together, alone, 1e-5)

    @pytest.mark.parametrize("norm", ["batch", "layer", "none"])
    @pytest.mark.parametrize("plus", [False, True], ids=["cin", "cin++"])
    def test_padding_changes_nothing_in_training(self, norm, plus):
        """Cells that the masks leave out are not seen by the others, nor by the running averages."""
        plain, padded = (randomise(cin(encoder(), 8, 2, norm=norm, plus=plus).double()) for _ in range(2))
        real = [*molecules(4)]
        batch, with_padding = collate(real), collate([*real, *molecules(2, start=9)])
        masks = tuple(torch.arange(m) < n for n, m in zip(batch.num_cells, with_padding.num_cells, strict=True))
        found, expected = padded(replace(with_padding, masks=masks))[: len(real)], plain(batch)
        assert_close(found, expected, 1e-10)
        for (name, a), b in zip(padded.state_dict().items(), plain.state_dict().values(), strict=True):
            assert_close(a, b, 1e-10, name)
        for out in (expected, found):
            out.square().sum().backward()
        for (name, a), b in zip(padded.named_parameters(), plain.parameters(), strict=True):
            # No gradient is one of zeros: a batch norm hides the bias before it.
            assert_close(*(torch.zeros_like(p) if p.grad is None else p.grad for p in (a, b)), 1e-10, name)

    @staticmethod
    def assert_harmless(make, complex_):
        """Finite outputs and gradients, in training and evaluation."""
        for training in (True, False):
            model = make().train(training)
            out = model(complex_)
            assert out.shape[0] == 1
            out.sum().backward()
            assert torch.isfinite(out).all()
            assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)

    @models
    @pytest.mark.parametrize("graph", [nx.path_graph(2), nx.star_graph(4), nx.cycle_graph(3)], ids=len)
    def test_tiny_complexes(self, make, lifting, graph):
        """An edge, a tree, a triangle: no cells in some dimensions, or one."""
        self.assert_harmless(make, with_categories(graph, lifting))

    @models
    @pytest.mark.parametrize("vertices", [1, 3])
    def test_complexes_without_edges(self, make, lifting, vertices):
        """Such as methane."""
        self.assert_harmless(make, with_categories(nx.empty_graph(vertices), lifting))

    def test_no_features_are_needed_for_no_cells(self):
        """A graph without edges has no edge features to give."""
        self.assert_harmless(lambda: cin(encoder(), 8, 2), cwnet.lift((1, [], [[0, 0]]), Rings(6)))

    def test_one_cell_leaves_the_running_averages(self):
        model = gin(encoder(dim=0), 8, 2)
        before = {name: value.clone() for name, value in model.named_buffers()}
        model(with_categories(nx.empty_graph(1), None))
        assert before
        assert all(torch.equal(before[name], value) for name, value in model.named_buffers())

    def test_a_batch_without_any_rings(self):
        model = randomise(cin(encoder(), 8, 2).double())
        batch = collate([with_categories(nx.path_graph(n), Rings(6), n) for n in range(2, 6)])
        assert batch.num_cells[2] == 0
        assert_agree([model(batch)], [network(model, batch)], dict(model.named_parameters()), 1e-10)

    def test_a_model_takes_one_complex(self):
        model = cin(encoder(), 8, 2).eval()
        complex_ = molecules(1)[0]
        assert torch.equal(model(complex_), model(collate([complex_])))

    def test_embeddings(self):
        model = cin(encoder(), 8, 2).eval()
        batch = molecules(3).batch()
        assert model.embed(batch).shape == (3, 16)
        assert torch.equal(model.head(model.embed(batch)), model(batch))
        with pytest.raises(ValueError, match="predicts for cells and has no vector per complex"):
            ring_transfer(3).embed(collate([ring(6, 3)]))

    def test_embedding_of_one_complex(self):
        assert cin(encoder(), 8, 2).eval().embed(molecules(1)[0]).shape == (1, 16)

    def test_dropout(self):
        """Off in evaluation, and after every layer and before the head in training."""
        batch = molecules(4).batch()
        for options in ({"dropout": 0.5}, {"cell_dropout": 0.5}, {"head_dropout": 0.5}):
            model = cin(encoder(), 8, 2, norm="none", **options)
            assert not torch.equal(model(batch), model(batch))
            assert torch.equal(model.eval()(batch), model(batch))

    def test_dropout_leaves_what_passes_unchanged(self):
        """Edge features of GIN-E are no output of a layer."""
        model = gin(encoder(dim=1), 8, 3, edges=True, dropout=0.5)
        batch = molecules(4, None).batch()
        assert torch.equal(model.cell_features(batch)[1], model.encoder(batch)[1])


FROM_CONFIG = MODELS | {
    "ring transfer with gin": (lambda: ring_transfer(3, 8, graph=True), None),
    "constant": (lambda: cin(CellEncoder([Constant(8), FromVertices(), FromVertices("mean")], 0.1), 8, 2), Rings(6)),
    "linear": (lambda: cin(CellEncoder([Linear(2, 8), FromVertices(), FromVertices()]), 8, 2), Rings(6)),
    "ring transfer": (lambda: ring_transfer(3, 8), Rings(6)),
    "raw": (lambda: cin(tu_encoder(2), 8, 2, width_in=2, jumping=True), Rings(6)),
}


class TestConfiguration:
    @pytest.mark.parametrize(("make", "lifting"), FROM_CONFIG.values(), ids=FROM_CONFIG.keys())
    def test_round_trip(self, make, lifting):
        """Through JSON: the same architecture and, with the same weights, the same outputs."""
        model = randomise(make()).eval()
        config = json.loads(json.dumps(to_config(model)))
        other = from_config(config).eval()
        assert repr(other) == repr(model)
        assert to_config(other) == config
        assert {k: v.shape for k, v in other.state_dict().items()} == {
            k: v.shape for k, v in model.state_dict().items()
        }
        other.load_state_dict(model.state_dict())
        width = 3 if isinstance(model.head, CellHead) else 2
        batch = molecules(5, lifting).batch()
        if not isinstance(model.encoder.encoders[0], Categories):
            batch = replace(batch, x=(torch.rand(batch.num_cells[0], width), *batch.x[1:]))
        assert torch.equal(other(batch), model(batch))

    def test_it_names_classes_and_arguments(self):
        config = to_config(cin(encoder(), 8, 1))
        assert config["class"] == "CIN"
        assert config["convs"][0] == {
            "class": "CINConv", "width_in": 8, "width": 8, "dim": 2, "act": "relu", "norm": "batch", "shared": True,
            "eps": 0.0, "train_eps": False, "top": 2,
        }  # fmt: skip

    def test_modules_of_ones_own(self):
        class Doubled(Module):
            def __init__(self, factor=2.0):
                super().__init__()
                self.factor = factor

            def forward(self, x, cells):
                return [self.factor * h for h in x]

        model = CIN(encoder(), [Doubled(3.0)], Readout(8, 4), Head(4, 1))
        assert from_config(to_config(model)).convs[0].factor == 3.0

    def test_unknown_classes(self):
        with pytest.raises(ValueError, match="unknown module 'Perceiver' in the configuration"):
            from_config({"class": "Perceiver"})

    def test_what_is_not_plain_data(self):
        model = CIN(encoder(), [torch.nn.Linear(2, 2)], None, CellHead(8, 1))
        with pytest.raises(TypeError, match="can not be written as plain data"):
            to_config(model)


class TestBadInput:
    def batch(self, **changes):
        batch = molecules(2).batch()
        x = list(batch.x)
        for key, value in changes.items():
            x[int(key[1:])] = value
        return replace(batch, x=tuple(x))

    def test_category_out_of_range(self):
        model, batch = cin(encoder(), 8, 2), self.batch()
        for bad, column, known in ((7, 0, 6), (-1, 0, 6), (3, 1, 2)):
            x = batch.x[0].clone()
            x[4, column] = bad
            message = rf"x\[0\] has category {bad} in column {column}; the encoder knows 0 to {known}"
            with pytest.raises(ValueError, match=message):
                model(self.batch(d0=x))
        with pytest.raises(ValueError, match=r"x\[1\] has category 9 in column 0; the encoder knows 0 to 3"):
            model(self.batch(d1=torch.full_like(batch.x[1], 9)))

    def test_missing_features(self):
        with pytest.raises(ValueError, match=r"cells of dimension 0 have no features \(x\[0\] is None\)"):
            cin(encoder(), 8, 2)(self.batch(d0=None))
        with pytest.raises(ValueError, match="cells of dimension 1 have no features"):
            cin(encoder(), 8, 2)(self.batch(d1=None))
        with pytest.raises(ValueError, match="cells of dimension 0 have no features"):
            cin(tu_encoder(2), 8, 2, width_in=2)(self.batch(d0=None))

    def test_wrong_number_of_columns(self):
        count = self.batch().num_cells[0]
        with pytest.raises(ValueError, match=r"x\[0\] has 3 columns, but its encoder takes 2"):
            cin(encoder(), 8, 2)(self.batch(d0=torch.zeros(count, 3, dtype=torch.int64)))
        model = cin(CellEncoder([Linear(2, 8), FromVertices(), FromVertices()]), 8, 2)
        with pytest.raises(ValueError, match=r"x\[0\] has width 1, but its encoder takes 2"):
            model(self.batch(d0=torch.zeros(count, 1)))
        with pytest.raises(ValueError, match=r"x\[0\] has width 1, the layer takes width 2"):
            cin(tu_encoder(2), 8, 2, width_in=2)(self.batch(d0=torch.zeros(count, 1)))

    def test_categories_that_are_not_whole_numbers(self):
        with pytest.raises(TypeError, match=r"x\[0\] is torch.float32, but its encoder takes whole numbers"):
            cin(encoder(), 8, 2)(self.batch(d0=torch.zeros(self.batch().num_cells[0], 2)))

    def test_raw_features_of_another_precision(self):
        model = cin(tu_encoder(2), 8, 2, width_in=2).double()
        with pytest.raises(TypeError, match=r"x\[0\] is torch.float32, the layer's weights are torch.float64"):
            model(self.batch())
        assert model(self.batch(d0=self.batch().x[0].double())).dtype == torch.float64

    def test_a_batch_of_lower_dimension(self):
        with pytest.raises(ValueError, match="dimension 0 to 2, but these complexes list cells up to dimension 1"):
            cin(encoder(), 8, 2)(molecules(2, None).batch())
        with pytest.raises(ValueError, match="dimension 0 to 1, but these complexes list cells up to dimension 0"):
            gin(encoder(dim=1), 8, 2, edges=True)(molecules(2, None).skeleton(0).batch())

    def test_vertices_of_vertices(self):
        with pytest.raises(ValueError, match="give dimension 0 an encoder of its own"):
            CellEncoder([FromVertices()])(self.batch())
        with pytest.raises(ValueError, match="reduce='max' is not 'sum' or 'mean'"):
            FromVertices("max")

    def test_readout_of_dimensions_that_are_not_there(self):
        model = CIN(encoder(dim=1), [CINConv(8, dim=1)], Readout(8, 4, (0, 2)), Head(4, 1))
        with pytest.raises(ValueError, match="the readout pools dimension 2, but there are features up to 1 only"):
            model(self.batch())
        with pytest.raises(ValueError, match="unknown pooling 'median': choose from sum, mean, max, both"):
            Readout(8, 4, pool="median")

    @pytest.mark.parametrize("bad", [float("nan"), float("inf")])
    def test_check_finite(self, bad):
        """On request, and naming complex and cell; a lifting refuses NaN by itself."""
        complexes = [ring(5, 3), ring(6, 3), ring(7, 3)]
        complexes[1].x[0][4, 1] = bad
        parts = CellEncoder([Linear(3, 4), Zeros(), Zeros()]), [CINConv(4)], Readout(4, 4), Head(4, 1)
        with pytest.raises(ValueError, match=r"x\[0\] of complex 1 is NaN or infinite at cell 4"):
            CIN(*parts, check_finite=True)(collate(complexes))
        assert CIN(*parts)(collate(complexes)).shape == (3, 1)
        assert CIN(*parts, check_finite=True)(collate([complexes[0], complexes[2]])).shape == (2, 1)


class TestCellTargets:
    @pytest.mark.parametrize("dim", [0, 1, 2])
    def test_a_row_per_cell(self, dim):
        model = randomise(CIN(encoder(), [CINConv(8) for _ in range(2)], None, CellHead(8, 3, dim)).double())
        batch = molecules(3).batch()
        out = model(batch)
        assert out.shape == (batch.num_cells[dim], 3)
        leaves = {k: p for k, p in model.named_parameters() if k.startswith("convs.0")}
        assert_agree([out], [network(model, batch)], leaves, 1e-10)

    def test_no_such_cells(self):
        batch = collate([with_categories(nx.path_graph(3), Rings(6))])
        with pytest.raises(ValueError, match="no cells of dimension 2 to predict for in this batch"):
            CIN(encoder(), [CINConv(8)], None, CellHead(8, 3, 2))(batch)
        with pytest.raises(ValueError, match="no cells of dimension 3"):
            CIN(encoder(), [CINConv(8)], None, CellHead(8, 3, 3))(batch)


class TestPyG:
    """Layers and models on batches of PyG's own DataLoader."""

    @pytest.fixture(autouse=True)
    def _pyg(self):
        pytest.importorskip("torch_geometric")

    def test_a_layer_in_a_pyg_model(self):
        from torch_geometric.loader import DataLoader
        from torch_geometric.nn import GCNConv, global_add_pool

        from cwnet.complexes import from_pyg

        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.gcn, self.cin, self.out = GCNConv(2, 8), CINConv(8), torch.nn.Linear(8, 1)

            def forward(self, data):
                cells = from_pyg(data)
                h = self.gcn(data.x, data.edge_index)
                x = [h, FromVertices()(None, h, cells, 1), FromVertices()(None, h, cells, 2)]
                return self.out(global_add_pool(self.cin(x, cells)[0], data.batch))

        complexes = [replace(c, x=(c.x[0].float(), *c.x[1:])) for c in molecules(6)]
        net = Net().eval()
        (data,) = DataLoader([c.to_pyg() for c in complexes], batch_size=6)
        together = net(data)
        alone = [net(d) for d in DataLoader([c.to_pyg() for c in complexes], batch_size=1)]
        assert_close(together, torch.cat(alone), 1e-5)
        net.train()(data).sum().backward()
        assert net.gcn.lin.weight.grad.any()

    def test_a_model_on_a_pyg_batch(self):
        from torch_geometric.loader import DataLoader

        from cwnet.complexes import from_pyg

        model = randomise(cin(encoder(), 8, 2)).eval()
        store = molecules(7)
        found = [model(from_pyg(data)) for data in DataLoader([c.to_pyg() for c in store], batch_size=4)]
        assert_close(torch.cat(found), model(store.batch()), 1e-6)


def test_no_weights_for_dimensions_that_nobody_reads():
    """A model that reads vertices alone computes rings only as long as vertices can still hear of them."""
    model = cin(molecule_encoder(8), 8, 3, dims=[0]).eval()
    assert [conv.top for conv in model.convs] == [2, 1, 0]
    batch = cwnet.lift_many(
        [cwnet.Graph(6, [(i, (i + 1) % 6) for i in range(6)], x=[[0]] * 6, edge_x=[[0]] * 6)] * 3, Rings(6)
    )
    model(batch.batch()).sum().backward()
    assert all(p.grad is not None for name, p in model.named_parameters())
    jumping = cin(molecule_encoder(8), 8, 3, dims=[0, 1], jumping=True)
    assert jumping(batch.batch()).shape == (3, 1)
