"""Convolutions against their equations, cell by cell; equivariance; bad input."""

from dataclasses import replace

import networkx as nx
import pytest
import torch

import cwnet
from cwnet import Cliques, Rings
from cwnet.complexes import collate
from cwnet.nn import CellConv, CINConv, CINppConv, GINConv, GINEConv
from cwnet.nn.conv import CellMLP
from cwnet.nn.testing import assert_cell_equivariant, permuted
from tests.reference.layers import assert_agree, cell_conv, convolve, randomise, vectors

WIDTH = 3
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}
dtypes = pytest.mark.parametrize("dtype", TOLERANCE, ids=["float32", "float64"])

#: Every layer in several forms, by the largest dimension of cells.
LAYERS = {
    "cin": lambda dim: CINConv(WIDTH, dim=dim),
    "cin, narrower, elu, no norm": lambda dim: CINConv(WIDTH, 2, dim, act="elu", norm="none"),
    "cin, wider, tanh, layer norm": lambda dim: CINConv(WIDTH, 5, dim, act="tanh", norm="layer"),
    "cin without coboundary": lambda dim: CINConv(WIDTH, 4, dim, norm="none", shared=False),
    "cin with eps": lambda dim: CINConv(WIDTH, 4, dim, act="silu", norm="none", eps=0.3),
    "cin with learnt eps": lambda dim: CINConv(WIDTH, 4, dim, norm="none", eps=-0.2, train_eps=True),
    "cin that leaves out the top": lambda dim: CINConv(WIDTH, 4, dim, norm="none", train_eps=True, top=dim - 1),
    "cin++": lambda dim: CINppConv(WIDTH, dim=dim),
    "cin++, elu, no norm": lambda dim: CINppConv(WIDTH, 4, dim, act="elu", norm="none", train_eps=True),
    "cin++ on vertices": lambda dim: CINppConv(WIDTH, 4, dim, act="elu", norm="none", top=0),
    "cin++ without shared cells": lambda dim: CINppConv(WIDTH, 4, dim, norm="none", shared=False, eps=0.5),
    "gin": lambda dim: GINConv(WIDTH),
    "gin with eps": lambda dim: GINConv(WIDTH, 4, act="elu", norm="none", eps=0.4),
    "gin-e": lambda dim: GINEConv(WIDTH),
    "gin-e with eps": lambda dim: GINEConv(WIDTH, 4, WIDTH, act="elu", norm="none", eps=0.4),
    "mlp": lambda dim: CellMLP(WIDTH, 4, dim, 2, norm="batch"),
}
layers = pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS.keys())


def random_complex(dim, seed):
    """A random graph with cells up to dimension `dim`; with even seeds there is one of that dimension."""
    graph = nx.gnm_random_graph(7, 10, seed=seed)
    if seed % 2 == 0:
        graph = nx.compose(graph, nx.complete_graph(dim + 1))
    return cwnet.lift(graph, None if dim == 1 else Cliques(dim + 1) | Rings(6))


def features(cells, dtype, width=WIDTH, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(n, width, generator=generator, dtype=dtype, requires_grad=True) for n in cells.num_cells]


def check(layer, cells, dtype, masks=None):
    """Values and all gradients of a layer are those of its equation."""
    layer = randomise(layer.to(dtype))
    x = features(cells, dtype)
    found = layer(x, cells if masks is None else replace(cwnet.collate([cells]), masks=tuple(masks)))
    expected = convolve(layer, vectors(x), cells, masks)
    assert [len(h) for h in found] == [len(h) for h in expected]
    pairs = [(f, torch.stack(e)) for f, e in zip(found, expected, strict=True) if e]
    leaves = {f"x[{d}]": h for d, h in enumerate(x)} | dict(layer.named_parameters())
    assert_agree([f for f, _ in pairs], [e for _, e in pairs], leaves, TOLERANCE[dtype])


@layers
class TestAgainstReference:
    @dtypes
    @pytest.mark.parametrize("seed", range(2))
    @pytest.mark.parametrize("dim", [1, 2, 3, 4])
    def test_random_complexes(self, make, dim, seed, dtype):
        check(make(dim), random_complex(dim, seed), dtype)

    @dtypes
    def test_batches(self, make, dtype):
        check(make(2), collate([random_complex(2, seed) for seed in range(3)]), dtype)

    @dtypes
    def test_empty_dimensions(self, make, dtype):
        for graph in (nx.empty_graph(1), nx.empty_graph(3), nx.path_graph(2), nx.star_graph(3)):
            check(make(2), cwnet.lift(graph, Rings(6)), dtype)

    @dtypes
    def test_complexes_above_the_layer(self, make, dtype):
        """Cells of dimensions above the layer's do not matter."""
        check(make(2), random_complex(4, 0), dtype)

    @dtypes
    def test_evaluation(self, make, dtype):
        check(make(2).eval(), random_complex(2, 0), dtype)

    @dtypes
    def test_masks(self, make, dtype):
        cells = random_complex(2, 2)
        generator = torch.Generator().manual_seed(0)
        check(make(2), cells, dtype, [torch.rand(n, generator=generator) < 0.7 for n in cells.num_cells])

    def test_parallel_edges(self, make):
        sphere = cwnet.CellComplex.from_boundaries(2, [[(0, 1), (0, 1)], [(0, 1), (0, 1)]])
        check(make(2), sphere, torch.float64)


@dtypes
def test_gin_e_with_edges_of_another_width(dtype):
    layer = randomise(GINEConv(WIDTH, 4, 2, norm="none").to(dtype))
    cells = random_complex(1, 0)
    x = features(cells, dtype)
    x[1] = features(cells, dtype, 2)[1]
    found, expected = layer(x, cells)[0], convolve(layer, vectors(x), cells)[0]
    leaves = {"x[0]": x[0], "x[1]": x[1]} | dict(layer.named_parameters())
    assert_agree([found], [torch.stack(expected)], leaves, TOLERANCE[dtype])


@layers
def test_a_batch_is_its_complexes_side_by_side(make):
    layer = randomise(make(3).double()).eval()
    complexes = [random_complex(3, seed) for seed in range(5)]
    batch = collate(complexes)
    x = [h.detach() for h in features(batch, torch.float64)]
    found = layer(x, batch)
    for i, complex_ in enumerate(complexes):
        spans = [slice(*ptr[i : i + 2].tolist()) for ptr in batch.cell_ptr]
        alone = layer([h[span] for h, span in zip(x, spans, strict=True)], complex_)
        for h, together, span in zip(alone, found, spans, strict=False):
            torch.testing.assert_close(h, together[span], rtol=0, atol=1e-12)


class TestTheoremEquivariance:
    """CW Network layers are cell permutation equivariant."""

    @layers
    @pytest.mark.parametrize("norm", ["training", "evaluation"])
    def test_every_layer(self, make, norm):
        for dim in (1, 2, 3, 4):
            for seed in range(2):
                layer = randomise(make(dim).double(), seed).train(norm == "training")
                assert_cell_equivariant(layer, random_complex(dim, seed), WIDTH, seed=seed, tolerance=1e-10)

    @layers
    def test_in_single_precision(self, make):
        assert_cell_equivariant(randomise(make(2)), random_complex(2, 0), WIDTH)

    @pytest.mark.parametrize("aggregate", ["sum", "mean", "max"])
    def test_the_general_scheme(self, aggregate):
        for dim in (1, 2, 3, 4):
            conv = CellConv(**every_kind(), aggregate=aggregate, width=WIDTH, dim=dim)
            assert_cell_equivariant(conv, random_complex(dim, 0), WIDTH)

    @pytest.mark.parametrize("dimension", [0, 1, 2])
    def test_a_layer_that_looks_at_the_numbers_of_cells_fails(self, dimension):
        class Numbered(CINConv):
            def forward(self, x, cells):
                out = super().forward(x, cells)
                count = cells.num_cells[dimension]
                out[dimension] = out[dimension] + 0.1 * torch.arange(count)[:, None]
                return out

        cells = random_complex(2, 0)
        assert_cell_equivariant(CINConv(WIDTH, norm="none"), cells, WIDTH)
        with pytest.raises(AssertionError, match=f"not equivariant: outputs of dimension {dimension} differ by"):
            assert_cell_equivariant(Numbered(WIDTH, norm="none"), cells, WIDTH)

    def test_a_layer_that_looks_at_the_order_inside_boundaries_fails(self):
        """A boundary is a set: its first cell means nothing."""

        class FirstFace(torch.nn.Module):
            def forward(self, x, cells):
                csr = cells.boundary(2)
                return [x[0], x[1], x[2] + x[1][csr.idx[csr.ptr[:-1]]]]

        with pytest.raises(AssertionError, match="dimension 2"):
            assert_cell_equivariant(FirstFace(), random_complex(2, 0), WIDTH)

    def test_nan_fails(self):
        class Broken(torch.nn.Module):
            def forward(self, x, cells):
                return [h / 0 - h / 0 for h in x]

        with pytest.raises(AssertionError, match="dimension 0"):
            assert_cell_equivariant(Broken(), random_complex(2, 0), WIDTH)

    def test_permuted_complexes_are_isomorphic(self):
        cells = random_complex(4, 0)
        orders = [torch.randperm(n, generator=torch.Generator().manual_seed(d)) for d, n in enumerate(cells.num_cells)]
        other = permuted(cells, orders)
        for d in range(1, 5):
            rows = other.boundary(d).tolist()
            for i, old in enumerate(orders[d].tolist()):
                assert sorted(orders[d - 1][rows[i]].tolist()) == sorted(cells.boundary(d).tolist()[old])


class TestWeights:
    @layers
    def test_repr(self, make):
        layer = make(2)
        assert repr(layer).startswith(type(layer).__name__ + "(")

    def test_repr_says_widths_and_dimension(self):
        assert "3, 5, dim=4" in repr(CINConv(3, 5, dim=4))
        assert "3, 3, dim=2" in repr(CINppConv(3))
        assert "3, 5" in repr(GINConv(3, 5))
        assert "3, 5" in repr(GINEConv(3, 5))

    @pytest.mark.parametrize("name", [name for name in LAYERS if name != "mlp"])
    def test_reset_parameters(self, name):
        """New weights of the same shapes; those of a new layer, under the same seed."""
        torch.manual_seed(0)
        layer = LAYERS[name](2)
        before = {k: v.clone() for k, v in layer.state_dict().items()}
        layer(features(random_complex(2, 0), torch.float32), random_complex(2, 0))
        layer.reset_parameters()
        changed = [not torch.equal(before[k], v) for k, v in layer.state_dict().items() if "linears" in k]
        assert all(changed)
        torch.manual_seed(0)
        layer.reset_parameters()
        assert layer.state_dict().keys() == before.keys()
        assert all(torch.equal(before[k], v) for k, v in layer.state_dict().items())

    @pytest.mark.parametrize("make", [CINConv, CINppConv])
    def test_every_weight_is_reached(self, make):
        """Cells of every dimension that meet above and below use every weight there is."""
        for dim in (1, 2, 3, 4):
            layer = randomise(make(WIDTH, 4, dim, act="tanh", train_eps=True)).eval()
            cells = cwnet.lift(nx.complete_graph(dim + 2), None if dim == 1 else Cliques(dim + 1))
            sum(h.square().sum() for h in layer(features(cells, torch.float32), cells)).backward()
            assert [name for name, p in layer.named_parameters() if p.grad is None or not p.grad.any()] == []

    def test_top_and_bottom_have_no_messages_to_learn(self):
        """Nothing is met above the top dimension and below vertices."""
        layer = CINppConv(WIDTH, dim=3)
        kinds = [[type(m).__name__ for m in many] for many in (layer.upper_message, layer.lower_message)]
        assert kinds == [["Linear", "Linear", "Linear", "Identity"], ["Identity", "Linear", "Linear", "Linear"]]


def every_kind():
    """An update and one message for each of the four adjacencies, all of which look at the receiver."""
    return {
        "update": lambda h, boundary, coboundary, lower, upper: torch.tanh(
            h + boundary - 0.5 * coboundary + lower * upper
        ),
        "boundary": lambda h, face: h * face,
        "coboundary": lambda h, coface: torch.tanh(h + 2 * coface),
        "lower": lambda h, other, shared: torch.tanh(h - other) * shared,
        "upper": lambda h, other, shared: torch.sigmoid(h + other + shared),
    }


def attention(messages, ptr):
    """The first feature of a message is its score, the others are averaged with softmax weights."""
    receiver = torch.repeat_interleave(ptr.diff())
    score = torch.exp(messages[:, :1])
    total = torch.zeros(len(ptr) - 1, 1, dtype=messages.dtype).index_add(0, receiver, score)
    weighted = score / total[receiver] * messages
    return torch.zeros(len(ptr) - 1, messages.shape[1], dtype=messages.dtype).index_add(0, receiver, weighted)


def attention_by_hand(messages):
    weights = torch.stack([m[0] for m in messages]).softmax(0)
    return sum(w * m for w, m in zip(weights, messages, strict=True))


class TestCellConv:
    def check(self, functions, aggregate, cells, dtype, dim=2, by_hand=None):
        conv = CellConv(**functions, aggregate=aggregate, width=WIDTH, dim=dim)
        x = features(cells, dtype)
        found = conv(x, cells)
        messages = {kind: f for kind, f in functions.items() if kind != "update"}
        expected = cell_conv(vectors(x), cells, functions["update"], messages, by_hand or aggregate, dim, WIDTH)
        assert [len(h) for h in found] == [len(h) for h in expected]
        pairs = [(f, torch.stack(e)) for f, e in zip(found, expected, strict=True) if e]
        leaves = {f"x[{d}]": h for d, h in enumerate(x)}
        assert_agree([f for f, _ in pairs], [e for _, e in pairs], leaves, TOLERANCE[dtype])

    @dtypes
    @pytest.mark.parametrize("aggregate", ["sum", "mean", "max"])
    @pytest.mark.parametrize("dim", [1, 2, 3, 4])
    def test_all_adjacencies(self, aggregate, dim, dtype):
        for seed in range(2):
            self.check(every_kind(), aggregate, random_complex(dim, seed), dtype, dim)

    @pytest.mark.parametrize("kind", ["boundary", "coboundary", "lower", "upper"])
    def test_each_adjacency_alone(self, kind):
        functions = {"update": lambda h, **messages: h + messages[kind], kind: every_kind()[kind]}
        self.check(functions, "sum", random_complex(3, 0), torch.float64, 3)

    @dtypes
    def test_batches(self, dtype):
        self.check(every_kind(), "max", collate([random_complex(2, seed) for seed in range(3)]), dtype)

    @dtypes
    def test_attention(self, dtype):
        self.check(every_kind(), attention, random_complex(2, 0), dtype, by_hand=attention_by_hand)

    @pytest.mark.parametrize("aggregate", ["sum", "mean", "max", attention])
    def test_empty_dimensions(self, aggregate):
        by_hand = attention_by_hand if aggregate is attention else None
        for graph in (nx.empty_graph(1), nx.empty_graph(3), nx.path_graph(3)):
            self.check(every_kind(), aggregate, cwnet.lift(graph, Rings(6)), torch.float64, by_hand=by_hand)

    def test_the_largest_of_negative_messages_is_negative(self):
        """An aggregate starts from nothing, not from zero."""
        conv = CellConv(lambda h, boundary: boundary, boundary=lambda h, face: face, aggregate="max", dim=1)
        edge = cwnet.lift(nx.path_graph(2), None)
        assert conv([torch.tensor([[-1.0], [-2.0]]), torch.zeros(1, 1)], edge)[1].tolist() == [[-1.0]]

    def test_cin_as_an_instance(self):
        """The layer of the paper, written with functions, is the fast one."""
        cin = randomise(CINConv(WIDTH, norm="none").double())

        def upper(d):
            return lambda h, other, shared: torch.relu(cin.upper_message[d](torch.cat([other, shared], 1)))

        def update(d):
            return lambda h, boundary, upper: cin.join[d](
                torch.cat([cin.mlps["upper"][d](h + upper), cin.mlps["boundary"][d](h + boundary)], 1)
            )

        conv = CellConv(
            [update(d) for d in range(3)], boundary=lambda h, face: face, upper=[upper(d) for d in range(3)]
        )
        cells = random_complex(2, 0)
        x = features(cells, torch.float64)
        assert_agree(conv(x, cells), cin(x, cells), dict(cin.named_parameters()), 1e-10)

    def test_modules_are_registered_once(self):
        message, update = torch.nn.Bilinear(WIDTH, WIDTH, WIDTH), [torch.nn.Identity() for _ in range(3)]
        conv = CellConv(lambda h, boundary: h + boundary, boundary=message)
        assert len(list(conv.parameters())) == 2
        assert len(CellConv(update).parts) == 3
        cells = random_complex(2, 0)
        conv(features(cells, torch.float32), cells)[1].sum().backward()
        assert message.weight.grad.any()

    def test_wrong_aggregate_or_number_of_functions(self):
        with pytest.raises(ValueError, match="unknown aggregate 'median': choose from sum, mean, max"):
            CellConv(lambda h: h, aggregate="median")
        with pytest.raises(ValueError, match="2 functions for dimensions 0 to 2"):
            CellConv([lambda h: h] * 2)


class TestErrors:
    CELLS = cwnet.lift(nx.cycle_graph(5), Rings(5))

    def x(self, **changes):
        x = [torch.zeros(n, WIDTH) for n in self.CELLS.num_cells]
        for d, h in changes.items():
            x[int(d[1:])] = h
        return x

    @layers
    def test_wrong_number_of_rows(self, make):
        if not isinstance(layer := make(2), CellMLP):
            for rows in (0, 1, 6):
                with pytest.raises(ValueError, match=rf"x\[0\] is of shape \({rows}, 3\), but there are 5 cells"):
                    layer(self.x(d0=torch.zeros(rows, WIDTH)), self.CELLS)

    @pytest.mark.parametrize("layer", [CINConv(WIDTH), CINppConv(WIDTH), GINConv(WIDTH)], ids=["cin", "cin++", "gin"])
    def test_wrong_width(self, layer):
        with pytest.raises(ValueError, match=r"x\[0\] has width 1, the layer takes width 3"):
            layer(self.x(d0=torch.zeros(5, 1)), self.CELLS)

    def test_wrong_width_of_rings(self):
        with pytest.raises(ValueError, match=r"x\[2\] has width 4, the layer takes width 3"):
            CINConv(WIDTH)(self.x(d2=torch.zeros(1, 4)), self.CELLS)

    @pytest.mark.parametrize("edges", [2, WIDTH])
    def test_wrong_width_in_gin_e(self, edges):
        layer = GINEConv(WIDTH, 4, edges)
        with pytest.raises(ValueError, match=r"x\[0\] has width 1, the layer takes width 3"):
            layer(self.x(d0=torch.zeros(5, 1), d1=torch.zeros(5, edges)), self.CELLS)
        with pytest.raises(ValueError, match=rf"x\[1\] has width 1, the layer takes edge features of width {edges}"):
            layer(self.x(d1=torch.zeros(5, 1)), self.CELLS)

    @layers
    def test_whole_numbers(self, make):
        if not isinstance(layer := make(2), CellMLP):
            with pytest.raises(TypeError, match=r"x\[0\] is torch.int64.*floating point.*encode"):
                layer(self.x(d0=torch.zeros(5, WIDTH, dtype=torch.int64)), self.CELLS)

    @layers
    def test_another_precision_than_the_weights(self, make):
        if not isinstance(layer := make(2), CellMLP):
            with pytest.raises(TypeError, match=r"x\[0\] is torch.float64, the layer's weights are torch.float32"):
                layer(self.x(d0=torch.zeros(5, WIDTH, dtype=torch.float64)), self.CELLS)

    def test_another_precision_is_right_under_autocast(self):
        with torch.autocast("cpu", torch.bfloat16):
            out = CINConv(WIDTH)([h.bfloat16() for h in self.x()], self.CELLS)
        assert all(torch.isfinite(h).all() for h in out)

    def test_a_batch_of_lower_dimension_than_the_layer(self):
        graph = cwnet.lift(nx.cycle_graph(5), None)
        with pytest.raises(ValueError, match="dimension 0 to 2, but these complexes list cells up to dimension 1"):
            CINConv(WIDTH)(self.x(), graph)
        with pytest.raises(ValueError, match="dimension 0 to 4, but these complexes list cells up to dimension 2"):
            CINppConv(WIDTH, dim=4)(self.x(), self.CELLS)
        with pytest.raises(ValueError, match="dimension 0 to 1, but"):
            GINEConv(WIDTH)(self.x(), graph.skeleton(0))
        with pytest.raises(ValueError, match="dimension 0 to 2, but"):
            CellConv(lambda h: h)(self.x(), graph)

    def test_features_of_too_few_dimensions(self):
        with pytest.raises(ValueError, match="features of 2 dimensions for a layer that works on dimensions 0 to 2"):
            CINConv(WIDTH)(self.x()[:2], self.CELLS)

    def test_a_dimension_without_features(self):
        with pytest.raises(TypeError, match=r"x\[1\] is None: a layer needs features in every dimension"):
            CINConv(WIDTH)(self.x(d1=None), self.CELLS)

    def test_unknown_names(self):
        with pytest.raises(ValueError, match="unknown activation 'gelu'"):
            CINConv(WIDTH, act="gelu")
        with pytest.raises(
            ValueError, match="unknown normalisation 'group': choose from batch, robust, capped, layer, none"
        ):
            CINConv(WIDTH, norm="group")

    @pytest.mark.parametrize("top", [-1, 3])
    def test_top_out_of_range(self, top):
        with pytest.raises(ValueError, match=f"top={top}: it must lie between 0 and dim=2"):
            CINConv(WIDTH, top=top)


@pytest.mark.parametrize("aggregate", ["sum", "mean", "max"])
def test_own_messages_give_the_same_bits_in_every_run(aggregate):
    """Gradients of gathered rows are sums in a fixed order, whatever the threads do."""
    edges = nx.gnm_random_graph(1000, 10_000, seed=0).edges
    cells = cwnet.lift((1000, [*edges]), None)
    conv = CellConv(
        boundary=lambda h, face: h * face,
        upper=lambda h, neighbour, shared: h * neighbour.sin() + shared,
        update=lambda h, boundary, upper: h + boundary + upper,
        aggregate=aggregate,
        width=16,
        dim=1,
    )
    rng = torch.Generator().manual_seed(0)
    x = [torch.randn(n, 16, generator=rng).requires_grad_() for n in cells.num_cells]
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        runs = [torch.autograd.grad([h.square().sum() for h in conv(x, cells)], x) for _ in range(8)]
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for run in runs for a, b in zip(run, runs[0], strict=True))
