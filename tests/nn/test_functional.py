"""Sums over incidences against loops over pairs."""

from itertools import pairwise

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from torch.autograd import gradcheck

import cwnet
from cwnet import Cliques, Rings
from cwnet.complexes import collate
from cwnet.nn.functional import (
    ACTIVATIONS,
    activation,
    adjacent_sum,
    boundary_sum,
    coboundary_sum,
    incidence_attention,
    incidence_sum,
    lower_sum,
    segment_max,
    segment_mean,
    segment_softmax,
    segment_spread,
    segment_sum,
    upper_sum,
)
from tests.nn.padding import padded, with_padding
from tests.reference.layers import ACTIVATIONS as BY_HAND
from tests.reference.layers import assert_agree, assert_close, attend, boundaries, coboundaries
from tests.strategies import complexes

DECALIN = cwnet.lift(nx.Graph([*nx.cycle_graph(10).edges, (0, 5)]), Rings(6))
SPHERE = cwnet.CellComplex.from_boundaries(2, [[(0, 1), (0, 1)], [(0, 1), (0, 1)]])
CLIQUES = cwnet.lift(nx.compose(nx.complete_graph(5), nx.cycle_graph(8)), Cliques(5) | Rings(6))
POINTS = cwnet.lift((3, []), Rings(6))
PATH = cwnet.lift(nx.path_graph(4), Cliques(4))
SOME = {
    "decalin": DECALIN,
    "sphere": SPHERE,
    "cliques": CLIQUES,
    "points": POINTS,
    "path": PATH,
    "batch": collate([PATH, DECALIN, POINTS, CLIQUES]),
}


@pytest.fixture(params=SOME.values(), ids=SOME.keys())
def cells(request):
    return request.param


def features(cells, d, width=3, seed=0, dtype=torch.float64):
    count = cells.num_cells[d] if d < len(cells.num_cells) else 0
    generator = torch.Generator().manual_seed(seed + 10 * d)
    return torch.randn(count, width, generator=generator, dtype=dtype, requires_grad=True)


def over_pairs(x, shared, pairs, act="identity"):
    """Σ over pairs of act(x_τ + shared_δ), one by one."""
    rows = [torch.zeros(x.shape[1], dtype=x.dtype) for _ in range(len(x))]
    for sender, receiver, through in zip(*pairs.index.tolist(), pairs.shared.tolist(), strict=True):
        z = x[sender] if shared is None else x[sender] + shared[through]
        rows[receiver] = rows[receiver] + BY_HAND[act](z)
    return torch.stack(rows) if rows else x.new_zeros(x.shape)


class TestAgainstLoops:
    @settings(max_examples=60)
    @given(complexes)
    def test_boundary_and_coboundary(self, complex_):
        for d in range(1, len(complex_.num_cells)):
            x, y = features(complex_, d - 1).detach(), features(complex_, d).detach()
            down, up = torch.zeros_like(y), torch.zeros_like(x)
            for cell, faces in enumerate(complex_.boundary(d).tolist()):
                for face in faces:
                    down[cell] += x[face]
                    up[face] += y[cell]
            assert_close(boundary_sum(x, complex_, d), down, 1e-12)
            assert_close(coboundary_sum(y, complex_, d - 1), up, 1e-12)
            assert_close(incidence_sum(x, complex_.incidence(d)), down, 1e-12)

    @settings(max_examples=40)
    @given(complexes)
    def test_upper_and_lower(self, complex_):
        for d in range(len(complex_.num_cells)):
            x = features(complex_, d).detach()
            above = features(complex_, d + 1).detach()
            pairs = complex_.upper(d)
            assert_close(upper_sum(x, above, complex_, d, "tanh"), over_pairs(x, above, pairs, "tanh"), 1e-10)
            assert_close(upper_sum(x, None, complex_, d), over_pairs(x, None, pairs), 1e-10)
            if d:
                below, pairs = features(complex_, d - 1).detach(), complex_.lower(d)
                assert_close(lower_sum(x, below, complex_, d, "elu"), over_pairs(x, below, pairs, "elu"), 1e-10)
                assert_close(lower_sum(x, None, complex_, d), over_pairs(x, None, pairs), 1e-10)

    @pytest.mark.parametrize("act", ACTIVATIONS)
    @pytest.mark.parametrize("read", [True, False], ids=["shared", "alone"])
    def test_values_and_gradients(self, cells, act, read):
        for d in range(len(cells.num_cells)):
            kinds = [(upper_sum, cells.upper(d), d + 1)] + [(lower_sum, cells.lower(d), d - 1)] * (d > 0)
            for function, pairs, other in kinds:
                x, shared = features(cells, d), features(cells, other) if read else None
                leaves = [x, shared] if read else [x]
                weights = features(cells, d, seed=1).detach()
                found, expected = function(x, shared, cells, d, act), over_pairs(x, shared, pairs, act)
                assert_close(found, expected, 1e-12)
                found, expected = (
                    torch.autograd.grad((weights * out).sum() + sum(0 * leaf.sum() for leaf in leaves), leaves)
                    for out in (found, expected)
                )
                for f, e in zip(found, expected, strict=True):
                    assert_close(f, e, 1e-12)

    def test_in_single_precision(self, cells):
        for d in range(len(cells.num_cells)):
            x, shared = features(cells, d, dtype=torch.float32), features(cells, d + 1, dtype=torch.float32)
            found = upper_sum(x, shared, cells, d, "relu")
            assert found.dtype == torch.float32
            assert_close(found.double(), over_pairs(x.double(), shared.double(), cells.upper(d), "relu"), 1e-5)

    @pytest.mark.parametrize("sizes", [[2, 3], [0, 4, 0, 1, 0], [0], [], [0, 0]], ids=str)
    def test_segments(self, sizes):
        x = torch.randn(sum(sizes), 3, dtype=torch.float64)
        ptr = torch.tensor([0, *torch.tensor(sizes).cumsum(0).tolist()] if sizes else [0])
        parts = list(x.split(sizes)) if sizes else []
        total = torch.stack([p.sum(0) for p in parts]) if parts else x.new_zeros(0, 3)
        mean = torch.stack([p.mean(0) if len(p) else x.new_zeros(3) for p in parts]) if parts else x.new_zeros(0, 3)
        assert_close(segment_sum(x, ptr), total, 1e-12)
        assert_close(segment_mean(x, ptr), mean, 1e-12)
        most = torch.stack([p.amax(0) if len(p) else x.new_zeros(3) for p in parts]) if parts else x.new_zeros(0, 3)
        assert_close(segment_max(x, ptr), most, 1e-12)
        padded = torch.cat([x, torch.full((4, 3), 9.0, dtype=x.dtype)])
        assert_close(segment_max(padded, ptr), most, 1e-12)  # rows after the last segment have no part

    def test_strided_features_and_gradients(self):
        x = features(DECALIN, 1, width=6)
        strided, dense = x[:, ::2], x[:, ::2].contiguous()
        shared = features(DECALIN, 2).detach().t().contiguous().t()
        for a, b in zip(
            *(
                # The gradient of a sum is one number seen many times.
                torch.autograd.grad(upper_sum(h, shared, DECALIN, 1, "tanh").sum(), x)
                + torch.autograd.grad(boundary_sum(h, DECALIN, 2).sum(), x)
                for h in (strided, dense)
            ),
            strict=True,
        ):
            assert torch.equal(a, b)


#: Segments, some of them empty, some with rows of no segment before or after them.
SEGMENTS = {
    "all": [0, 2, 2, 5],
    "after": [0, 0, 1, 3],
    "before": [2, 4, 5],
    "both": [1, 1, 3, 4],
    "none": [0],
    "empty": [3, 3],
}


@pytest.fixture(params=SEGMENTS.values(), ids=SEGMENTS.keys())
def ptr(request):
    return torch.tensor(request.param)


class TestSoftmax:
    @staticmethod
    def one_by_one(scores, ptr):
        out = 0 * scores
        for start, stop in pairwise(ptr.tolist()):
            weights = torch.exp(scores[start:stop])
            out = out.index_put((torch.arange(start, stop),), weights / weights.sum(0))
        return out

    def test_values_and_gradients(self, ptr):
        scores = torch.randn(5, 2, dtype=torch.float64, requires_grad=True)
        found, expected = segment_softmax(scores, ptr), self.one_by_one(scores, ptr)
        assert_agree([found], [expected], {"scores": scores}, 1e-12)
        assert gradcheck(lambda scores: segment_softmax(scores, ptr), (scores,))

    @pytest.mark.parametrize("shift", [1e4, -1e4])
    def test_large_scores_do_not_overflow(self, shift):
        scores, ptr = torch.randn(5, 2), torch.tensor([0, 2, 5])
        assert_close(segment_softmax(scores.double() + shift, ptr), segment_softmax(scores.double(), ptr), 1e-10)
        assert torch.isfinite(segment_softmax(scores + shift, ptr)).all()

    def test_other_rows_may_hold_anything(self):
        scores = torch.tensor([[torch.nan], [1.0], [2.0], [torch.inf], [-torch.inf]], requires_grad=True)
        found = segment_softmax(scores, torch.tensor([1, 3]))
        assert found[[0, 3, 4]].tolist() == [[0], [0], [0]]
        (grad,) = torch.autograd.grad(found, scores, torch.tensor([[torch.nan], [1.0], [0.0], [torch.inf], [1.0]]))
        assert grad[[0, 3, 4]].tolist() == [[0], [0], [0]]
        assert grad[1:3].abs().min() > 0.1

    def test_nan_is_not_hidden(self):
        found = segment_softmax(torch.tensor([[torch.nan], [1.0], [1.0]]), torch.tensor([0, 2, 3]))
        assert found.isnan().tolist() == [[True], [True], [False]]


class TestSpread:
    def test_it_is_the_transpose_of_the_sum(self, ptr):
        """<spread(x), y> = <x, sum(y)>; rows of no segment are zero."""
        x, y = torch.randn(len(ptr) - 1, 2, dtype=torch.float64), torch.randn(5, 2, dtype=torch.float64)
        found = segment_spread(x, ptr, 5)
        assert_close((found * y).sum(), (x * segment_sum(y, ptr)).sum(), 1e-12)
        outside = [i for i in range(5) if not ptr[0] <= i < ptr[-1]]
        assert not found[outside].any()
        assert gradcheck(lambda x: segment_spread(x, ptr, 5), (x.requires_grad_(),))

    def test_wrong_number_of_segments(self):
        with pytest.raises(ValueError, match=r"x must be \[2, width\]"):
            segment_spread(torch.zeros(3, 1), torch.tensor([0, 1, 2]), 2)


class TestAttention:
    @staticmethod
    def one_by_one(q, k, v, rows, heads):
        out = [attend(q[i], [k[j] for j in row], [v[j] for j in row], heads) for i, row in enumerate(rows)]
        return torch.stack(out) if out else q

    @pytest.mark.parametrize("heads", [1, 2])
    def test_values_and_gradients(self, cells, heads):
        below, above = boundaries(cells), coboundaries(cells)
        for d in range(1, len(cells.num_cells)):
            for incidence, rows, own, other in (
                (cells.incidence(d), below[d], d, d - 1),
                (cells.incidence(d).flipped(), above[d - 1], d - 1, d),
            ):
                q, k, v = features(cells, own, 4), features(cells, other, 4), features(cells, other, 4, seed=5)
                found, expected = incidence_attention(q, k, v, incidence, heads), self.one_by_one(q, k, v, rows, heads)
                if len(q) and len(k):
                    assert_agree([found], [expected], {"q": q, "k": k, "v": v}, 1e-10)
                assert found.shape == q.shape

    @pytest.mark.parametrize("name", ["decalin", "sphere", "path"])
    def test_numerical_derivatives(self, name):
        cells = SOME[name]
        for d in range(1, len(cells.num_cells)):
            q, k, v = features(cells, d, 4), features(cells, d - 1, 4), features(cells, d - 1, 4, seed=5)
            assert gradcheck(lambda q, k, v, d=d: incidence_attention(q, k, v, cells.incidence(d), 2), (q, k, v))

    def test_weights_add_up_to_one(self):
        q, k = features(DECALIN, 2, 4), features(DECALIN, 1, 4)
        assert_close(incidence_attention(q, k, torch.ones_like(k), DECALIN.incidence(2), 2), torch.ones_like(q), 1e-12)

    def test_heads_that_do_not_divide_the_width(self):
        x = features(DECALIN, 0, 4)
        with pytest.raises(ValueError, match="3 heads can not share 4 features"):
            incidence_attention(features(DECALIN, 1, 4), x, x, DECALIN.incidence(1), 3)


class TestPadding:
    """Padded batches share entries between dimensions, and have some that no row means."""

    @pytest.mark.parametrize("act", ["relu", "tanh"])
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_every_sum(self, act, dtype):
        batch = SOME["batch"]
        with_it = padded(batch)
        x = [features(batch, d, 4, dtype=dtype).detach() for d in range(len(batch.num_cells))]
        pairs = (batch, x), (with_it, with_padding(x, with_it))
        for d in range(1, len(batch.num_cells)):
            results = []
            for cells, h in pairs:
                below, above = h[d - 1].clone().requires_grad_(), h[d].clone().requires_grad_()
                incidence = cells.incidence(d)
                out = [
                    boundary_sum(below, cells, d),
                    coboundary_sum(above, cells, d - 1),
                    upper_sum(below, above, cells, d - 1, act),
                    lower_sum(above, below, cells, d, act),
                    upper_sum(below, None, cells, d - 1, act),
                    incidence_attention(above, below, below, incidence, 2),
                    incidence_attention(below, above, above, incidence.flipped(), 2),
                ]
                real = batch.num_cells[d - 1], batch.num_cells[d]
                out = [o[: real[i]] for o, i in zip(out, [1, 0, 0, 1, 0, 1, 0], strict=True)]
                grads = torch.autograd.grad(sum(o.square().sum() for o in out), [below, above])
                results.append([*out, *(g[:n] for g, n in zip(grads, real, strict=True))])
            for found, expected in zip(results[1], results[0], strict=True):
                assert_close(found, expected, 1e-5 if dtype == torch.float32 else 1e-10)


class TestGradients:
    """Numerical derivatives, in float64."""

    @pytest.mark.parametrize("act", ACTIVATIONS)
    @pytest.mark.parametrize("name", ["decalin", "sphere", "cliques", "path"])
    def test_neighbours(self, name, act):
        cells = SOME[name]
        for d in range(min(3, len(cells.num_cells))):
            x, above = features(cells, d, 2), features(cells, d + 1, 2)
            assert gradcheck(lambda x, s, c=cells, d=d: upper_sum(x, s, c, d, act), (x, above))
            assert gradcheck(lambda x, c=cells, d=d: upper_sum(x, None, c, d, act), (x,))
            if d:
                below = features(cells, d - 1, 2)
                assert gradcheck(lambda x, s, c=cells, d=d: lower_sum(x, s, c, d, act), (x, below))
                assert gradcheck(lambda x, c=cells, d=d: lower_sum(x, None, c, d, act), (x,))

    def test_incidences_and_segments(self, cells):
        for d in range(1, len(cells.num_cells)):
            assert gradcheck(lambda x, d=d: boundary_sum(x, cells, d), (features(cells, d - 1, 2),))
            assert gradcheck(lambda x, d=d: coboundary_sum(x, cells, d - 1), (features(cells, d, 2),))
        ptr = torch.tensor([0, 2, 2, 5])
        x = torch.randn(5, 2, dtype=torch.float64, requires_grad=True)
        assert gradcheck(lambda x: segment_sum(x, ptr), (x,))
        assert gradcheck(lambda x: segment_mean(x, ptr), (x,))
        assert gradcheck(lambda x: segment_max(x, ptr), (x,))

    @pytest.mark.parametrize("act", ACTIVATIONS)
    def test_slopes(self, act):
        z = torch.linspace(-4, 4, 40, dtype=torch.float64, requires_grad=True)
        value, backward = activation(act)
        assert_close(value(z), BY_HAND[act](z), 1e-12)
        assert_close(torch.autograd.grad(value(z).sum(), z)[0], backward(torch.ones_like(z), z), 1e-12)

    @pytest.mark.parametrize("act", ACTIVATIONS)
    def test_far_from_zero_nothing_overflows(self, act):
        z = torch.tensor([-1e4, -100.0, 100.0, 1e4])
        value, backward = activation(act)
        assert torch.isfinite(value(z)).all()
        assert torch.isfinite(backward(torch.ones_like(z), z)).all()


class TestEmptyDimensions:
    def test_no_edges(self):
        x, none = torch.randn(3, 4), torch.zeros(0, 4)
        assert boundary_sum(x, POINTS, 1).shape == (0, 4)
        assert torch.equal(coboundary_sum(none, POINTS, 0), torch.zeros(3, 4))
        assert torch.equal(upper_sum(x, none, POINTS, 0, "elu"), torch.zeros(3, 4))
        assert torch.equal(upper_sum(x, None, POINTS, 0), torch.zeros(3, 4))
        assert lower_sum(none, none, POINTS, 2, "relu").shape == (0, 4)

    def test_beyond_the_top_dimension(self):
        """A complex has no cells above those it lists, and sums over them are zero."""
        graph = cwnet.lift(nx.path_graph(3), None)
        assert torch.equal(upper_sum(torch.randn(2, 4), torch.zeros(0, 4), graph, 1), torch.zeros(2, 4))
        assert torch.equal(coboundary_sum(torch.zeros(0, 4), graph, 1), torch.zeros(2, 4))

    def test_gradients_are_zero(self):
        x = torch.randn(3, 4, requires_grad=True)
        none = torch.zeros(0, 4, requires_grad=True)
        of_x, of_none = torch.autograd.grad(upper_sum(x, none, POINTS, 0, "tanh").sum(), (x, none))
        assert torch.equal(of_x, torch.zeros(3, 4))
        assert of_none.shape == (0, 4)

    def test_features_of_no_width(self):
        assert upper_sum(torch.zeros(10, 0), torch.zeros(11, 0), DECALIN, 0).shape == (10, 0)


def test_results_do_not_change_from_run_to_run():
    graphs = [nx.gnm_random_graph(20, 30, seed=s) for s in range(50)]
    batch = cwnet.lift_many(graphs, Rings(6)).batch()

    def run():
        found = []
        for d in range(2):
            x, shared = (features(batch, e, 16, dtype=torch.float32) for e in (d, d + 1))
            out = upper_sum(x, shared, batch, d, "silu") + coboundary_sum(shared, batch, d)
            found += [out, *torch.autograd.grad(out.square().sum(), (x, shared))]
        return found

    assert all(torch.equal(a, b) for a, b in zip(run(), run(), strict=True))


class TestErrors:
    @pytest.mark.parametrize("rows", [0, 1, 9, 11])
    def test_wrong_number_of_rows(self, rows):
        """One row is not spread over all cells."""
        x = torch.zeros(rows, 4)
        with pytest.raises(ValueError, match=rf"x must be \[10, width\].*\({rows}, 4\)"):
            boundary_sum(x, DECALIN, 1)
        with pytest.raises(ValueError, match=r"x must be \[10, width\]"):
            upper_sum(x, torch.zeros(11, 4), DECALIN, 0)
        with pytest.raises(ValueError, match=r"x must be \[11, width\]"):
            coboundary_sum(x if rows != 11 else x[:10], DECALIN, 0)

    def test_wrong_number_of_shared_rows(self):
        with pytest.raises(ValueError, match=r"shared must be \[11, width\].*\(10, 4\)"):
            upper_sum(torch.zeros(10, 4), torch.zeros(10, 4), DECALIN, 0)
        with pytest.raises(ValueError, match=r"shared must be \[10, width\]"):
            lower_sum(torch.zeros(11, 4), torch.zeros(1, 4), DECALIN, 1)

    def test_not_a_matrix(self):
        with pytest.raises(ValueError, match=r"\(10,\)"):
            boundary_sum(torch.zeros(10), DECALIN, 1)
        with pytest.raises(ValueError, match=r"\(10, 4, 2\)"):
            adjacent_sum(torch.zeros(10, 4, 2), None, DECALIN.incidence(1))

    @pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.int32])
    def test_whole_numbers(self, dtype):
        with pytest.raises(TypeError, match=f"x must be floating point, not {dtype}"):
            boundary_sum(torch.zeros(10, 4, dtype=dtype), DECALIN, 1)
        with pytest.raises(TypeError, match="shared must be floating point"):
            upper_sum(torch.zeros(10, 4), torch.zeros(11, 4, dtype=dtype), DECALIN, 0)

    def test_widths_that_disagree(self):
        with pytest.raises(ValueError, match=r"width 1.*width 4.*agree"):
            upper_sum(torch.zeros(10, 4), torch.zeros(11, 1), DECALIN, 0)

    def test_types_that_disagree(self):
        with pytest.raises(ValueError, match=r"float64.*float32.*agree"):
            upper_sum(torch.zeros(10, 4), torch.zeros(11, 4, dtype=torch.float64), DECALIN, 0)

    def test_unknown_activation(self):
        with pytest.raises(ValueError, match="unknown activation 'gelu': choose from identity, relu"):
            upper_sum(torch.zeros(10, 4), torch.zeros(11, 4), DECALIN, 0, "gelu")
        with pytest.raises(ValueError, match="unknown activation 'ReLU'"):
            activation("ReLU")

    def test_vertices_have_no_boundary(self):
        with pytest.raises(ValueError, match="no cells of dimension -1"):
            boundary_sum(torch.zeros(10, 4), DECALIN, 0)
        with pytest.raises(ValueError, match="no cells of dimension -1"):
            lower_sum(torch.zeros(10, 4), None, DECALIN, 0)

    def test_segments_that_end_after_the_last_row(self):
        with pytest.raises(ValueError, match="end at row 6, but x has 5 rows"):
            segment_sum(torch.zeros(5, 3), torch.tensor([0, 2, 6]))

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_rows_after_the_last_segment_have_no_part(self, dtype):
        x = torch.arange(10, dtype=dtype).reshape(5, 2).requires_grad_()
        total = segment_sum(x, torch.tensor([0, 2, 2, 4]))
        assert total.tolist() == [[2, 4], [0, 0], [10, 12]]
        (grad,) = torch.autograd.grad((total * torch.tensor([[1.0], [2.0], [3.0]])).sum(), x)
        assert grad[:, 0].tolist() == [1, 1, 3, 3, 0]

    def test_segments_of_whole_numbers(self):
        with pytest.raises(TypeError, match="floating point"):
            segment_sum(torch.zeros(5, 3, dtype=torch.int64), torch.tensor([0, 2, 5]))
