"""The paper's theorems on CW Networks, by name."""

import networkx as nx
import pytest
import torch

import cwnet
from cwnet import Cliques, Rings
from cwnet.experiments.sr import sr_network
from cwnet.lifting import relabelled
from cwnet.nn import CellEncoder, CINConv, CINppConv, GINConv, steady_cin
from cwnet.nn.encoders import Constant, FromVertices
from cwnet.wl import ADJACENCIES, classes, refine

#: Rounding in the embeddings of graphs that no test tells apart is about 1e-15 of their size.
SAME, APART = 1e-8, 1e-6
FAMILIES = ["sr16622", "sr251256", "sr261034", "sr281264", "sr291467"]


@pytest.fixture(scope="module")
def atlas():
    """All connected graphs with at most seven vertices, up to isomorphism."""
    graphs = [g for g in nx.graph_atlas_g() if len(g) and nx.is_connected(g)]
    assert len(graphs) == 996
    return graphs


@torch.no_grad()
def embeddings(store, layers, seed, scale=1.0):
    """Vectors of complexes by a CIN with random weights, in float64; `scale` multiplies the weights."""
    torch.manual_seed(seed)
    model = sr_network(16, layers, dim=len(store.cell_ptr) - 1).double().eval()
    for p in model.parameters():
        if p.dim() == 2:
            p.mul_(scale)
    # A few at a time: the strongly regular graphs have tens of thousands of rings.
    steps = range(0, len(store), 200 if store.num_cells[-1] < 30_000 else 8)
    return torch.cat([model.embed(store.batch(slice(i, i + steps.step))) for i in steps])


def distances(vectors):
    """Between all pairs, relative to the longer of the two."""
    size = vectors.norm(dim=1)
    apart = torch.cdist(vectors, vectors, compute_mode="donot_use_mm_for_euclid_dist")
    return apart / torch.maximum(size[:, None], size[None])


def compare(class_of, found):
    """The largest distance inside classes, and the pairs of different classes that are too close."""
    same = class_of[:, None] == class_of[None]
    close = (~same & (found < APART)).triu().nonzero().tolist()
    return float(found[same].max()), close


class TestTheoremAtMostAsPowerfulAsCWL:
    """CWNs are at most as powerful as CWL: no weights tell apart what CWL does not."""

    @pytest.mark.parametrize("seed", range(3))
    def test_on_the_atlas(self, atlas, seed):
        """With rings every class is a single graph, so a relabelled copy of each keeps it company."""
        some = [*atlas, *(relabelled(graph, seed)[0] for graph in atlas)]
        store = cwnet.lift_many(some, Rings(7))
        class_of = classes(store)
        assert len(torch.unique(class_of)) == 996
        assert compare(class_of, distances(embeddings(store, 5, seed)))[0] < SAME

    @pytest.mark.parametrize("seed", range(3))
    def test_on_the_atlas_without_rings(self, atlas, seed):
        store = cwnet.lift_many(atlas, None)
        class_of = classes(store)
        assert len(torch.unique(class_of)) == 976
        assert compare(class_of, distances(embeddings(store, 5, seed)))[0] < SAME

    @pytest.mark.parametrize("family", FAMILIES)
    def test_on_strongly_regular_graphs(self, sr_family, family):
        """Triangles tell none of them apart."""
        for k in (3, 4):
            store = cwnet.lift_many(sr_family(family), Rings(k))
            class_of = classes(store)
            assert k > 3 or class_of.max() == 0
            for seed in range(2):
                assert compare(class_of, distances(embeddings(store, 3, seed)))[0] < SAME

    @pytest.mark.parametrize("conv", [CINConv, CINppConv])
    @pytest.mark.parametrize("lifting", [Rings(7), Cliques(5), None], ids=repr)
    def test_cell_by_cell(self, atlas, conv, lifting):
        """After l layers, cells with one colour after l rounds have one feature vector."""
        for layers, d, low, high in by_colour(atlas[::2], conv, lifting):
            spread = float((high - low).abs().max())
            assert spread < SAME, f"cells of dimension {d} with one colour differ by {spread:.1e} in layer {layers}"


class TestTheoremAsPowerfulAsCWL:
    """With injective aggregators and enough layers, CWNs are as powerful as CWL.

    A sum of random smooth features is injective but on a set of measure zero: random weights do.
    """

    @pytest.mark.parametrize("seed", range(3))
    def test_on_the_atlas(self, atlas, seed):
        """No exceptions."""
        store = cwnet.lift_many(atlas, Rings(7))
        assert compare(classes(store), distances(embeddings(store, 5, seed)))[1] == []

    @pytest.mark.parametrize("seed", range(3))
    def test_on_the_atlas_without_rings(self, atlas, seed):
        """No exceptions with weights twice as large as usual.

        With the usual ones some 85 pairs lie between 1e-12 and 1e-6, far above rounding. In all of them the edges of
        both graphs join vertices of the same degrees, so the first rounds do not tell them apart.
        """
        store = cwnet.lift_many(atlas, None)
        class_of = classes(store)
        assert compare(class_of, distances(embeddings(store, 6, seed, scale=2.0)))[1] == []
        found = distances(embeddings(store, 6, seed))
        assert float(found[class_of[:, None] != class_of[None]].min()) > 1e-13

    @pytest.mark.parametrize("family", FAMILIES)
    def test_on_strongly_regular_graphs(self, sr_family, family):
        """With rings up to size 6 CWL tells all of them apart, and three layers do as well."""
        store = cwnet.lift_many(sr_family(family), Rings(6))
        class_of = classes(store)
        assert len(torch.unique(class_of)) == len(store)
        vectors = embeddings(store, 3, seed=0)
        assert compare(class_of, distances(vectors))[1] == []
        assert float(torch.nn.functional.pdist(vectors).min()) > 0.01  # the paper's threshold

    @pytest.mark.parametrize("lifting", [Rings(7), Cliques(5)], ids=repr)
    def test_cell_by_cell(self, atlas, lifting):
        """After l layers, cells with different colours after l rounds have different feature vectors."""
        for layers, d, _, vectors in by_colour(atlas[::2], CINConv, lifting):
            margin = float((distances(vectors) + torch.eye(len(vectors))).min())
            assert margin > SAME, f"two colours of dimension {d} are {margin:.1e} apart in layer {layers}"


class TestSteadyCIN:
    """The network past the paper stands where CIN does: it has CIN's messages, and reads out more of them.

    Its norm bounds features, and what is cut off can not be told apart. So running averages follow the data first, as
    they do in training.
    """

    @torch.no_grad()
    def embeddings(self, store, seed):
        torch.manual_seed(seed)
        encoder = CellEncoder([Constant(16), FromVertices("sum"), FromVertices("sum")])
        model, batch = steady_cin(encoder, 16, 4).double(), store.batch()
        for _ in range(20):
            model(batch)
        return model.eval().embed(batch)

    def test_tells_apart_what_cwl_does_and_no_more_on_the_atlas(self, atlas):
        some = [*atlas, *(relabelled(graph, 0)[0] for graph in atlas[::3])]
        store = cwnet.lift_many(some, Rings(7))
        same, close = compare(classes(store), distances(self.embeddings(store, 0)))
        assert same < SAME
        assert close == []

    @pytest.mark.parametrize(("k", "apart"), [(3, 1), (6, 2)])
    def test_on_strongly_regular_graphs(self, sr_family, k, apart):
        """Triangles do not tell the two graphs apart, rings up to size 6 do."""
        self.check_classes(cwnet.lift_many(sr_family("sr16622"), Rings(k)), apart)

    def check_classes(self, store, number):
        class_of = classes(store)
        assert len(torch.unique(class_of)) == number
        same, close = compare(class_of, distances(self.embeddings(store, 0)))
        assert same < SAME
        assert close == []

    def test_on_circular_skip_links(self):
        """The ten classes, which are one to WL, in two numberings each."""
        graphs = [nx.circulant_graph(41, [1, skip]) for skip in (2, 3, 4, 5, 6, 9, 11, 12, 13, 16)]
        assert len(torch.unique(classes(cwnet.lift_many(graphs, None)))) == 1
        some = [*graphs, *(relabelled(graph, 1)[0] for graph in graphs)]
        self.check_classes(cwnet.lift_many(some, Rings(8)), 10)

    def test_on_random_regular_graphs(self):
        """Of one size and degree, so one class to WL; CWL tells all apart that are not isomorphic."""
        graphs = [nx.random_regular_graph(3, 12, seed=seed) for seed in range(30)]
        assert len(torch.unique(classes(cwnet.lift_many(graphs, None)))) == 1
        distinct = [g for i, g in enumerate(graphs) if not any(nx.is_isomorphic(g, other) for other in graphs[:i])]
        assert len(distinct) > 20
        some = [*distinct, *(relabelled(graph, 2)[0] for graph in distinct)]
        self.check_classes(cwnet.lift_many(some, Rings(8)), len(distinct))


@torch.no_grad()
def by_colour(graphs, conv, lifting):
    """Features of all cells after each of four layers, from equal ones, by their colour after as many rounds.

    Yields (layers, dimension, least and largest features of each colour [colours, width]).
    """
    store = cwnet.lift_many(graphs, lifting)
    colours = refine(store, adjacencies=ADJACENCIES if conv is CINppConv else ("boundary", "upper")).colours
    batch = store.batch()
    torch.manual_seed(0)
    x = [torch.ones(n, 16, dtype=torch.float64) for n in batch.num_cells]
    for layers in range(1, 5):
        x = conv(16, dim=len(x) - 1, act="elu", norm="none").double()(x, batch)
        for d, h in enumerate(x):
            distinct, place = torch.unique(colours[layers][d], return_inverse=True)
            low, high = (
                h.new_zeros(len(distinct), 16).scatter_reduce(
                    0, place[:, None].expand_as(h), h, kind, include_self=False
                )
                for kind in ("amin", "amax")
            )
            yield layers, d, low, high


class TestLongRangeMessages:
    """Three CIN layers carry a message across a ring of any size; GIN needs ⌊k/2⌋."""

    @staticmethod
    def reaches(conv, layers, k, act):
        """Whether the vertex opposite to vertex 0 depends on it: by the gradient of its output."""
        torch.manual_seed(0)
        ring = cwnet.lift(nx.cycle_graph(k), Rings(k))
        x = [torch.randn(n, 8, dtype=torch.float64) for n in ring.num_cells]
        x[0].requires_grad_()
        h = x
        for _ in range(layers):
            h = conv(8, act=act, norm="none").double()(h, ring)
        (gradient,) = torch.autograd.grad(h[0][k // 2].sum(), x[0])
        return bool(gradient[0].any())

    def test_cin_needs_three_layers(self):
        for k in range(6, 41):
            assert self.reaches(CINConv, 3, k, "elu")
            assert not self.reaches(CINConv, 2, k, "elu")

    @pytest.mark.parametrize("act", ["elu", "tanh"])
    def test_gin_needs_half_the_ring(self, act):
        for k in (6, 7, 8, 13, 20, 31, 40):
            assert self.reaches(GINConv, k // 2, k, act)
            assert not self.reaches(GINConv, k // 2 - 1, k, act)

    @pytest.mark.parametrize("k", [6, 9, 24])
    def test_cin_without_rings_needs_half_the_ring(self, k):
        """It is the ring that carries the message."""

        def conv(width, **options):
            return CINConv(width, dim=1, **options)

        assert self.reaches(conv, k // 2, k, "tanh")
        assert not self.reaches(conv, k // 2 - 1, k, "tanh")
