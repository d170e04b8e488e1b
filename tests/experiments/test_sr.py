import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from cwnet import ComplexStore, Rings, lift_many
from cwnet.experiments import sr
from cwnet.experiments._sr_page import render
from cwnet.experiments.cycle_counts import rook, shrikhande
from cwnet.experiments.sr import (
    Settings,
    embed_by_counts,
    embed_by_size,
    mlp_baseline,
    nearest,
    relabelled,
    share_within,
    sr_network,
)

#: What the command line adds to figures.
ABOUT = {
    "command": "cwnet reproduce something",
    "date": "2021-06-23",
    "seconds": 60.0,
    "machine": {"cpu": "abacus", "cores": 2, "system": "Linux"},
    "versions": {"python": "3.11"},
}


@pytest.fixture(scope="module")
def pair():
    """Rook and Shrikhande, which the networks tell apart from k = 4 on."""
    return lift_many([rook(), shrikhande()], None)


def run(monkeypatch, graphs, settings=None, seeds=(0, 1)):
    """The experiment on graphs of one's own."""
    monkeypatch.setattr(sr, "load", lambda name, lifting, family: type("Data", (), {"store": graphs}))
    return sr.run(settings or Settings(families=("sr16622",)), seeds)


class TestNetworks:
    @pytest.mark.parametrize("k", [3, 4, 6])
    @pytest.mark.parametrize("layers", [1, 2, 4])
    def test_by_size_is_the_model(self, pair, k, layers):
        store = lift_many(pair.select([0, 1, 1]), Rings(k))
        model = sr._drawn(3, sr_network, 8, layers, 5)
        with torch.no_grad():
            torch.testing.assert_close(embed_by_size(model, sr._Sums(store.batch())), model(store.batch()))

    @pytest.mark.parametrize("k", [3, 6])
    def test_by_counts_is_the_model(self, pair, k):
        store = lift_many(pair, Rings(k))
        model = sr._drawn(3, mlp_baseline, 1, 32, 5)
        with torch.no_grad():
            torch.testing.assert_close(embed_by_counts(model, store), model(store.batch()))

    def test_chunks_change_nothing(self, pair, monkeypatch):
        graphs = pair.select([0, 1, 0, 1, 1])
        models = [sr._drawn(0, sr_network)], [sr._drawn(0, mlp_baseline)]
        whole = sr._embed(graphs, 5, *models, 16, "cpu")
        monkeypatch.setattr(sr, "_GRAPHS", 2)
        monkeypatch.setattr(sr, "_RINGS", 100)
        parts = sr._embed(graphs, 5, *models, 16, "cpu")
        torch.testing.assert_close([*parts.cin, *parts.mlp], [*whole.cin, *whole.mlp])
        assert parts.certificates == whole.certificates


class TestPairs:
    def test_shares_are_those_of_a_loop(self):
        vectors = torch.from_numpy(np.random.default_rng(0).normal(size=(40, 3)))
        near = [(vectors[i] - vectors[j]).norm() <= 1 for i in range(40) for j in range(i)]
        assert 0 < sum(near) < len(near)
        assert share_within(vectors, 1.0) == pytest.approx(sum(near) / len(near))

    def test_long_vectors_keep_their_small_distances(self):
        """By products, the distance would be off by a hundred times the threshold."""
        vectors = torch.full((3, 16), 1e8, dtype=torch.float64)
        vectors[1, 0] += 0.005
        vectors[2, 0] += 0.02
        assert share_within(vectors, 0.01) == pytest.approx(1 / 3)
        assert nearest(vectors, torch.tensor([0, 0, 1])) == pytest.approx(0.015)
        assert nearest(vectors, torch.tensor([2, 2, 2])) is None

    def test_blocks_change_nothing(self, monkeypatch):
        vectors = torch.arange(7.0)[:, None]
        monkeypatch.setattr(sr, "_BLOCK", 3)
        assert share_within(vectors, 1.0) == pytest.approx(6 / 21)
        assert nearest(vectors, torch.tensor([0, 0, 0, 1, 1, 1, 1])) == 1
        assert share_within(vectors[:1], 1.0) == 0


def test_a_relabelled_graph_is_the_same_in_another_order(pair):
    import networkx as nx

    copies = relabelled(pair)
    for graph, copy in zip(pair, copies, strict=True):
        assert sorted(graph.cells(1)) != sorted(copy.cells(1))
        assert nx.is_isomorphic(nx.Graph(graph.cells(1)), nx.Graph(copy.cells(1)))


def test_rook_and_shrikhande_are_told_apart(monkeypatch, pair):
    figures = run(monkeypatch, pair)
    assert [row["k"] for row in figures["rows"]] == [4, 5, 6]
    for row in figures["rows"]:
        assert (row["family"], row["graphs"], row["3-wl"]) == ("SR(16,6,2,2)", 2, 1.0)
        assert (row["cin"], row["mlp"], row["cwl"]) == ([0, 0], [0, 0], 0)
        assert row["cin_relabelled"] < 1e-6
        assert min(row["cin_nearest"]) > 0.01
    assert json.loads(json.dumps(figures["rows"])) == figures["rows"]


def test_a_planted_copy_is_not_told_apart(monkeypatch, pair):
    """Nor are rook and Shrikhande where no ring is longer than a triangle."""
    both = ComplexStore.from_complexes([*pair, *relabelled(pair, seed=1).select([1])])
    settings = Settings(families=("sr16622",), sizes=(3, 5), relabelled_seeds=2)
    three, five = run(monkeypatch, both, settings)["rows"]
    for key in ("cin", "mlp"):
        assert three[key] == [1, 1]
        assert five[key] == pytest.approx([1 / 3, 1 / 3])
    assert (three["cwl"], five["cwl"]) == (1, pytest.approx(1 / 3))
    assert five["cwl_relabelled"] == 0


def test_a_small_form_takes_the_first_graphs(monkeypatch, pair):
    graphs = pair.select([0, 1] * 10)
    settings = replace(Settings.small(), families=("sr16622",), sizes=(4,))
    assert run(monkeypatch, graphs, settings, [0])["rows"][0]["graphs"] == settings.max_graphs == 15


def _row(family, k, cin, mlp, cwl=0.0, **others):
    return {
        "family": family, "graphs": 10, "k": k, "3-wl": 1.0, "cwl": cwl, "cin": cin, "mlp": mlp,
        "cin_nearest": [2.0, 1.5], "cin_relabelled": 1e-9, "mlp_relabelled": 0.0,
        "cin_length": 100.0, "mlp_length": 10.0, "cwl_relabelled": 0,
        "seconds": 1.0, **others,
    }  # fmt: skip


class TestPage:
    def figures(self, rows, **settings):
        settings = {**Settings().__dict__, "sizes": [4, 6], **settings}
        return {"run": ABOUT, "settings": settings, "seeds": [0, 1], "device": "cpu", "rows": rows}

    def test_says_that_all_was_met(self, tmp_path):
        rows = [_row("A", 4, [0.01, 0.03], [0.25, 0.25], cwl=0.01), _row("A", 6, [0.0, 0.0], [0.0, 0.0])]
        page = render(self.figures(rows), tmp_path / "new")
        text = page.read_text()
        assert "| A | 10 | 100 | 25 | 2 ± 1 | 1 | 0 | 0 | 0 |" in text
        assert "(0.0 %): met, in all 1 families and with every seed." in text
        assert "lower in 1 of 2 cases, both at 0 in 1, never higher." in text
        assert "At k = 6 the two nearest vectors of all families and seeds are 1.5 apart." in text
        assert "CIN leaves more pairs than CWL in A (k = 4)" in text
        assert "all do. The largest distance is 1e-09" in text
        assert "small form" not in text
        assert "Left out" not in text
        assert page.with_suffix(".png").stat().st_size > 10_000

    def test_says_what_was_missed(self, tmp_path):
        rows = [
            _row("A", 4, [0.3, 0.3], [0.2, 0.2], cwl=0.4),
            _row("A", 6, [0.1, 0.0], [0.2, 0.2], cin_nearest=[1e-14, 1.0], cin_relabelled=0.02),
        ]
        some = sr.FAMILIES[:5] + sr.FAMILIES[6:]
        text = render(self.figures(rows, max_graphs=15, families=some), tmp_path).read_text()
        assert "(0.0 %): **missed** in A (k = 6)." in text
        assert "lower in 1 of 2 cases, both at 0 in 0, **more** in A (k = 4)." in text
        assert "**CIN is below its bound in A (k = 4)" in text
        assert "In A (k = 6) some differ by rounding alone" in text
        assert "**not all do**" in text
        assert "the first 15 graphs of each family. Left out: SR(35,16,6,8). The paper takes all." in text
