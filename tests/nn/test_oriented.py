"""Layers on oriented complexes: against their equations, and equivariant under turning cells round."""

import networkx as nx
import pytest
import torch

import cwnet
from cwnet import Cliques, Rings, collate
from cwnet.nn import (
    CIN,
    CellConv,
    CINppConv,
    DiracConv,
    Head,
    HodgeConv,
    HodgeGCNConv,
    InvariantReadout,
    OrientedCINConv,
    Readout,
    SheafConv,
    from_config,
    to_config,
)
from cwnet.nn.encoders import CellEncoder, Linear
from cwnet.nn.signed import boundary_signals, coboundary_signals, hodge_laplacian_of, signed_adjacent_sum, signed_sum
from cwnet.nn.testing import assert_cell_equivariant, permuted
from cwnet.topology import boundary_matrix, hodge_laplacian, orient, random_flips
from tests.reference.layers import assert_agree, randomise
from tests.reference.oriented_layers import convolve
from tests.reference.spaces import SPACES

WIDTH = 4

#: Layers that claim to be orientation equivariant, by the largest dimension of cells.
EQUIVARIANT = {
    "hodge, tanh": lambda dim: HodgeConv(WIDTH, 3, dim, degree=2, act="tanh", bias=False),
    "hodge, linear": lambda dim: HodgeConv(WIDTH, WIDTH, dim, degree=3, act="identity", bias=False),
    "hodge of degree 0": lambda dim: HodgeConv(WIDTH, 5, dim, degree=0, act="tanh", bias=False),
    "gcn": lambda dim: HodgeGCNConv(WIDTH, 3, dim, act="tanh", bias=False),
    "dirac": lambda dim: DiracConv(WIDTH, 5, dim, act="tanh", bias=False),
    "cin": lambda dim: OrientedCINConv(WIDTH, 3, dim),
    "cin, linear": lambda dim: OrientedCINConv(WIDTH, WIDTH, dim, act="identity"),
    "sheaf": lambda dim: SheafConv(WIDTH, 2, dim),
    "sheaf with stalks of one": lambda dim: SheafConv(WIDTH, 1, dim, act="identity"),
}
#: Layers with signs that do not: a bias or an activation that is not odd.
BIASED = {
    "hodge, relu": lambda dim: HodgeConv(WIDTH, 3, dim, act="relu", bias=False),
    "hodge, relu and bias": lambda dim: HodgeConv(WIDTH, 3, dim),
    "hodge, tanh and bias": lambda dim: HodgeConv(WIDTH, 3, dim, act="tanh"),
    "gcn, relu and bias": lambda dim: HodgeGCNConv(WIDTH, 3, dim),
    "dirac, relu and bias": lambda dim: DiracConv(WIDTH, 3, dim),
}
equivariant = pytest.mark.parametrize("make", EQUIVARIANT.values(), ids=EQUIVARIANT.keys())
biased = pytest.mark.parametrize("make", BIASED.values(), ids=BIASED.keys())
both = pytest.mark.parametrize(
    "make", [*EQUIVARIANT.values(), *BIASED.values()], ids=[*EQUIVARIANT.keys(), *BIASED.keys()]
)


def random_complex(dim, seed):
    graph = nx.gnm_random_graph(6, 9, seed=seed)
    if seed % 2 == 0:
        graph = nx.compose(graph, nx.complete_graph(dim + 1))
    return cwnet.lift(graph, None if dim == 1 else Cliques(dim + 1) | Rings(6))


def features(cells, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(n, WIDTH, generator=generator, dtype=dtype, requires_grad=True) for n in cells.num_cells]


@both
class TestAgainstReference:
    def check(self, layer, cells):
        layer, cells = randomise(layer.double()), orient(cells)
        x = features(cells)
        leaves = {f"x[{d}]": h for d, h in enumerate(x)} | dict(layer.named_parameters())
        assert_agree(layer(x, cells), convolve(layer, x, cells), leaves, 1e-10)

    @pytest.mark.parametrize("dim", [1, 2, 3])
    @pytest.mark.parametrize("seed", [0, 1])
    def test_random_complexes(self, make, dim, seed):
        self.check(make(dim), random_complex(dim, seed))

    def test_named_spaces(self, make):
        for name in ("sphere", "projective plane", "Möbius strip"):
            self.check(make(2), SPACES[name][0])

    def test_batches_in_another_orientation(self, make):
        cells = orient(collate([random_complex(2, seed) for seed in range(3)]))
        self.check(make(2), cells.flipped(random_flips(cells, torch.Generator().manual_seed(0))))

    def test_empty_dimensions(self, make):
        for graph in (nx.empty_graph(2), nx.path_graph(3)):
            layer, cells = make(2).double(), orient(cwnet.lift(graph, Rings(6)))
            out = layer(features(cells), cells)
            assert [len(h) for h in out] == list(cells.num_cells)
            assert all(torch.isfinite(h).all() for h in out)


class TestTheoremOrientationEquivariance:
    """T f(X, B) = f(T X, T B T) (paper, appendix "Symmetries"), and cells may be numbered as one likes."""

    @equivariant
    def test_every_layer_that_claims_it(self, make):
        for dim in (1, 2, 3, 4):
            for seed in range(2):
                layer = randomise(make(dim).double(), seed)
                complex_ = random_complex(dim, seed)
                assert_cell_equivariant(layer, complex_, WIDTH, orientation=True, seed=seed, tolerance=1e-10)

    @equivariant
    def test_in_single_precision(self, make):
        assert_cell_equivariant(make(2), random_complex(2, 0), WIDTH, orientation=True)

    @equivariant
    def test_on_surfaces_that_can_not_be_oriented(self, make):
        for name in ("Klein bottle", "projective plane", "Möbius strip"):
            assert_cell_equivariant(make(2).double(), SPACES[name][0], WIDTH, orientation=True, tolerance=1e-10)

    @biased
    def test_counter_example_a_biased_or_relu_layer_fails(self, make):
        layer = randomise(make(2).double())
        cells = orient(random_complex(2, 0))
        assert_cell_equivariant(layer, cells, WIDTH, tolerance=1e-10)  # numbering does not matter
        with pytest.raises(AssertionError, match="not orientation equivariant: outputs of dimension 1 differ by"):
            assert_cell_equivariant(layer, cells, WIDTH, orientation=True, tolerance=1e-2)

    def test_counter_example_unsigned_messages_fail(self):
        with pytest.raises(AssertionError, match="not orientation equivariant"):
            assert_cell_equivariant(CINppConv(WIDTH, norm="none"), random_complex(2, 0), WIDTH, orientation=True)

    def test_signs_stay_with_their_incidences(self):
        cells = orient(SPACES["3-torus"][0])
        generator = torch.Generator().manual_seed(0)
        orders = [torch.randperm(n, generator=generator) for n in cells.num_cells]
        other = permuted(cells, orders, generator)
        for d in (1, 2, 3):
            matrix = boundary_matrix(cells, d).toarray()[orders[d - 1]][:, orders[d]]
            assert (boundary_matrix(other, d).toarray() == matrix).all()


class TestTheoremCWNsGeneraliseCellularConvolutions:
    """The Hodge convolution is message passing with ↑ and ↓ messages (paper, appendix "Convolutional Operators").

    One step of message passing is a product with L_p. Off the diagonal, the entry of L_p between σ and τ is the sum
    over the cells δ they meet in of [σ:δ][τ:δ]: these are the messages. The diagonal is what σ adds of its own.
    Messages look the signs up by the numbers of cells, which are part of the features, and r steps give L_p^r.
    """

    @staticmethod
    def power(cells, x, d):
        """L_d x for all x [cells, width] by one `CellConv` on dimension d."""
        numbers = [torch.arange(n, dtype=torch.float64)[:, None] for n in cells.num_cells]
        dense = {e: torch.from_numpy(boundary_matrix(cells, e).toarray()) for e in (d, d + 1)}

        def sign(e, face, cell):
            return dense[e][face[:, :1].long(), cell[:, :1].long()]

        def upper(h, other, shared):
            return sign(d + 1, h, shared) * sign(d + 1, other, shared) * other[:, 1:]

        def lower(h, other, shared):
            return sign(d, shared, h) * sign(d, shared, other) * other[:, 1:]

        def update(h, upper, lower):
            degree = cells.coboundary(d).sizes + cells.boundary(d).sizes
            return degree[:, None] * h[:, 1:] + upper + lower

        def only(function, otherwise):
            return [function if e == d else otherwise for e in range(len(cells.num_cells))]

        conv = CellConv(
            only(update, lambda h, upper, lower: h),
            upper=only(upper, lambda h, other, shared: other[:, 1:]),
            lower=only(lower, lambda h, other, shared: other[:, 1:]),
            width=x.shape[1],
            dim=len(cells.num_cells) - 1,
        )
        features = [torch.cat([n, n.new_zeros(len(n), x.shape[1])], dim=1) for n in numbers]
        features[d] = torch.cat([numbers[d], x], dim=1)
        return conv(features, cells)[d]

    @torch.no_grad()
    @pytest.mark.parametrize("degree", [0, 1, 2, 3])
    @pytest.mark.parametrize("name", ["sphere", "Klein bottle", "projective space", "3-sphere", "random"])
    def test_message_passing_gives_the_matrix_formula(self, name, degree):
        complex_ = random_complex(3, 0) if name == "random" else SPACES[name][0]
        cells = orient(complex_)
        dim = len(cells.num_cells) - 1
        layer = randomise(HodgeConv(WIDTH, 3, dim, degree=degree, act="elu").double())
        x = [h.detach() for h in features(cells)]
        matrices = convolve(layer, x, cells)
        for p in range(dim + 1):
            powers = [x[p]]
            for _ in range(degree):
                powers.append(self.power(cells, powers[-1], p))
            passed = torch.nn.functional.elu(layer.linears[p](torch.cat(powers, dim=1)))
            scale = float(torch.cat(powers).abs().max())
            assert float((passed - matrices[p]).abs().max()) < 1e-10 * max(1.0, scale)
            assert float((layer(x, cells)[p] - matrices[p]).abs().max()) < 1e-10 * max(1.0, scale)


class TestSums:
    CELLS = orient(SPACES["projective space"][0])

    def test_operators(self):
        for d in (1, 2, 3):
            matrix = torch.from_numpy(boundary_matrix(self.CELLS, d).toarray())
            x = torch.randn(matrix.shape[1], 2, dtype=torch.float64)
            torch.testing.assert_close(boundary_signals(x, self.CELLS, d), matrix @ x)
            y = torch.randn(matrix.shape[0], 2, dtype=torch.float64)
            torch.testing.assert_close(coboundary_signals(y, self.CELLS, d), matrix.T @ y)
        for d in range(4):
            x = torch.randn(self.CELLS.num_cells[d], 3, dtype=torch.float64)
            expected = torch.from_numpy(hodge_laplacian(self.CELLS, d).toarray()) @ x
            torch.testing.assert_close(hodge_laplacian_of(x, self.CELLS, d), expected)

    def test_gradients(self):
        incidence = self.CELLS.signed_incidence(2)
        x = torch.randn(incidence.up.num_rows, 2, dtype=torch.float64, requires_grad=True)
        shared = torch.randn(incidence.down.num_rows, 2, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(lambda x: signed_sum(x, incidence), x)
        assert torch.autograd.gradcheck(lambda x, s: signed_adjacent_sum(x, s, incidence, "tanh"), (x, shared))
        assert torch.autograd.gradcheck(lambda x: signed_adjacent_sum(x, None, incidence), x)

    def test_widths_of_zero_and_wrong_shapes(self):
        incidence = self.CELLS.signed_incidence(1)
        assert signed_sum(torch.zeros(8, 0), incidence).shape == (16, 0)
        with pytest.raises(ValueError, match=r"x must be \[8, width\], one row per cell, not \(7, 2\)"):
            signed_sum(torch.zeros(7, 2), incidence)


def network(readout, act="tanh"):
    encoder = CellEncoder([Linear(1, WIDTH, bias=False) for _ in range(3)])
    return CIN(encoder, [OrientedCINConv(WIDTH, act=act) for _ in range(2)], readout, Head(WIDTH, 2))


class TestInvariantReadout:
    @staticmethod
    def turned(model):
        """Outputs before and after turning cells, with features that are signals."""
        batch = collate([random_complex(2, seed) for seed in range(3)])
        generator = torch.Generator().manual_seed(0)
        x = [torch.randn(n, 1, generator=generator, dtype=torch.float64) for n in batch.num_cells]
        cells = orient(batch).with_features(x)
        flips = random_flips(cells, generator)
        with torch.no_grad():
            return model(cells), model(cells.flipped(flips, signals=[1, 2]))

    def test_a_whole_network_is_invariant(self):
        model = randomise(network(InvariantReadout(WIDTH, WIDTH)).double())
        before, after = self.turned(model)
        torch.testing.assert_close(before, after, atol=1e-12, rtol=0)
        assert before.std() > 1e-3

    def test_with_a_plain_readout_it_is_not(self):
        before, after = self.turned(randomise(network(Readout(WIDTH, WIDTH)).double()))
        assert float((before - after).abs().max()) > 1e-3

    def test_vertices_are_read_as_they_are(self):
        batch = collate([random_complex(2, 0)])
        x = [torch.randn(n, WIDTH) for n in batch.num_cells]
        one, other = InvariantReadout(WIDTH, 3, dims=[0]), Readout(WIDTH, 3, dims=[0])
        other.load_state_dict(one.state_dict())
        torch.testing.assert_close(one(x, batch), other(x, batch))


class TestModules:
    @both
    def test_written_down_and_built_anew(self, make):
        layer = make(2)
        other = from_config(to_config(layer))
        assert type(other) is type(layer)
        assert {k: v.shape for k, v in other.state_dict().items()} == {
            k: v.shape for k, v in layer.state_dict().items()
        }
        assert repr(other) == repr(layer)
        assert repr(layer).startswith(type(layer).__name__ + "(")

    @both
    def test_every_weight_is_reached_by_data(self, make):
        layer, cells = make(3), orient(random_complex(3, 0))
        out = layer([h.float().detach() for h in features(cells)], cells)
        sum(h.square().sum() for h in out).backward()
        for name, p in layer.named_parameters():
            assert p.grad is not None, name
            assert bool(p.grad.any()), name

    @both
    def test_reset(self, make):
        layer = make(2)
        before = {name: p.clone() for name, p in layer.named_parameters()}
        layer.reset_parameters()
        assert all(not torch.equal(p, before[name]) for name, p in layer.named_parameters())

    def test_a_network_can_be_trained(self):
        """Which way round does the flow on a square go, against its 2-cell? Only signs tell."""
        torch.manual_seed(0)
        square = cwnet.lift(nx.cycle_graph(4), Rings(4))
        cells = orient(collate([square] * 8))
        turns = torch.tensor([1.0, -1.0] * 4).repeat_interleave(4)[:, None]
        around = coboundary_round(square).repeat(8, 1) * turns
        x = [torch.zeros(32, 1), around, torch.ones(8, 1)]
        model = network(InvariantReadout(WIDTH, WIDTH))
        optimizer = torch.optim.Adam(model.parameters(), 0.02)
        labels = torch.tensor([0, 1] * 4)
        for _ in range(150):
            loss = torch.nn.functional.cross_entropy(model(cells.with_features(x)), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        assert float(loss.detach()) < 0.1


def coboundary_round(square):
    """The flow along the boundary of the 2-cell."""
    return torch.from_numpy(boundary_matrix(square, 2).toarray()).float()


class TestErrors:
    CELLS = orient(cwnet.lift(nx.cycle_graph(5), Rings(5)))

    @both
    def test_cells_without_signs(self, make):
        complex_ = cwnet.lift(nx.cycle_graph(5), Rings(5))
        with pytest.raises(TypeError, match=r"not a CellComplex: call it with cwnet.topology.orient\(cells\)"):
            make(2)([torch.zeros(n, WIDTH) for n in complex_.num_cells], complex_)

    @both
    def test_features_that_do_not_fit(self, make):
        x = [torch.zeros(n, WIDTH) for n in self.CELLS.num_cells]
        with pytest.raises(ValueError, match=r"x\[0\] has width 3, the layer takes width 4"):
            make(2)([torch.zeros(5, 3), *x[1:]], self.CELLS)
        with pytest.raises(TypeError, match=r"x\[1\] is torch.float64, the layer's weights are torch.float32"):
            make(2)([x[0], x[1].double(), x[2]], self.CELLS)
        with pytest.raises(ValueError, match="dimension 0 to 3, but these complexes list cells up to dimension 2"):
            make(3)(x, self.CELLS)

    @pytest.mark.parametrize("layer", [OrientedCINConv, SheafConv])
    def test_an_activation_that_is_not_odd(self, layer):
        with pytest.raises(ValueError, match=r"'relu' is not odd.*choose from identity, tanh"):
            layer(WIDTH, act="relu")
        with pytest.raises(ValueError, match="unknown activation 'sin'"):
            layer(WIDTH, act="sin")

    def test_other_arguments(self):
        with pytest.raises(ValueError, match="degree=-1: a polynomial has degree 0 or more"):
            HodgeConv(WIDTH, degree=-1)
        with pytest.raises(ValueError, match="width=4 is not a multiple of stalk=3"):
            SheafConv(WIDTH, stalk=3)
