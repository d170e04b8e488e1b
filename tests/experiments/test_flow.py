import json

import numpy as np
import pytest
import torch

from cwnet import CwnetError
from cwnet.experiments import flow
from cwnet.experiments._flow_page import render
from cwnet.experiments._report import markdown_table, read_figures, write_figures
from cwnet.experiments.flow import MODELS, FlowData, Settings, evaluate, make_data, make_mesh
from cwnet.topology import betti_numbers, boundary_matrix, harmonic_cochains

SMALL = Settings(points=64, num_train=8, num_test=8, width=4, layers=2, epochs=1, batch=4)


@pytest.fixture(scope="module")
def mesh():
    return make_mesh(121)


class TestMesh:
    @pytest.mark.parametrize("seed", range(4))
    @pytest.mark.parametrize("points", [121, 400, 1000])
    def test_is_a_square_with_two_holes(self, points, seed):
        mesh = make_mesh(points, seed)
        assert betti_numbers(mesh.cells) == (1, 2, 0)
        assert mesh.positions.shape == (mesh.cells.num_cells[0], 2)

    def test_has_triangles_and_quadrilaterals(self, mesh):
        sizes = torch.bincount(mesh.cells.boundary(2).sizes)
        assert len(sizes) == 5
        assert sizes[3] > 10
        assert sizes[4] > 10

    def test_edges_point_to_the_right(self, mesh):
        tails, heads = np.sort(np.array(mesh.cells.cells(1)), axis=1).T
        assert (mesh.positions[tails, 0] <= mesh.positions[heads, 0]).all()

    def test_depends_on_the_seed_alone(self):
        assert make_mesh(64, 3).cells == make_mesh(64, 3).cells
        assert make_mesh(64, 3).cells != make_mesh(64, 4).cells


class TestData:
    def test_a_flow_is_a_path_from_corner_to_corner(self, mesh):
        data = make_data(mesh, 20, seed=0)
        ends = boundary_matrix(mesh.cells, 1) @ data.flows.numpy().T
        for net in ends.T:
            (start,), (stop,) = np.flatnonzero(net == -1), np.flatnonzero(net == 1)
            assert set(np.unique(net)) == {-1, 0, 1}
            assert (mesh.positions[start] < 0.3).all()
            assert (mesh.positions[stop] > 0.7).all()

    def test_classes_are_balanced_and_tell_the_way(self, mesh):
        """Between the holes, the flows around the two of them are of opposite sense; around one they are not."""
        data = make_data(mesh, 40, seed=0)
        assert data.labels.bincount().tolist() == [20, 20]
        basis = harmonic_cochains(mesh.cells, 1)
        parts = data.flows.double() @ basis
        same = [parts[data.labels == label] for label in (0, 1)]
        # The middle way is one homology class, relative to its ends: its harmonic parts lie together.
        assert same[0].std(0).max() < same[1].std(0).max()

    def test_depends_on_the_seed_alone(self, mesh):
        assert torch.equal(make_data(mesh, 6, seed=1).flows, make_data(mesh, 6, seed=1).flows)
        assert not torch.equal(make_data(mesh, 6, seed=1).flows, make_data(mesh, 6, seed=2).flows)


@pytest.mark.parametrize("name", list(MODELS))
def test_orientation_does_not_matter_to_those_who_claim_it(name, mesh):
    torch.manual_seed(0)
    model = MODELS[name].make(SMALL).eval()
    data = make_data(mesh, 8, seed=0)
    batch = flow._batch_of(mesh, 8, torch.device("cpu"))
    with torch.no_grad():
        before = model(flow._with_flows(batch, data.flows, None))
        after = model(flow._with_flows(batch, data.flows, torch.Generator().manual_seed(0)))
    same = bool(((before - after).abs() < 1e-4 * before.abs().max()).all())
    assert same == (name in ("equivariant", "equivariant-graph", "invariant"))


def test_the_equivariant_network_learns(mesh):
    """It holds its accuracy in other orientations to the last flow."""
    settings = Settings(num_train=60, num_test=40, width=8, layers=3, epochs=6, batch=10, rate=5e-3)
    row = flow.run(settings, seeds=[0], models=["equivariant"])["rows"][0]
    assert row["losses"][-1] < 0.95 * row["losses"][0]
    assert row["test_turned"] == row["test"]


def test_a_run_is_plain_data_and_repeats(tmp_path):
    said = []
    figures = flow.run(SMALL, seeds=[0, 1], models=["equivariant", "biased"], tick=said.append)
    assert [(r["model"], r["seed"]) for r in figures["rows"]] == [
        ("equivariant", 0), ("biased", 0), ("equivariant", 1), ("biased", 1),
    ]  # fmt: skip
    assert len(said) == 4
    assert "equivariant, seed 0: " in said[0]
    again = flow.run(SMALL, seeds=[0], models=["equivariant", "biased"], workers=2)
    for one, other in zip(figures["rows"][:2], again["rows"], strict=True):
        assert {k: v for k, v in one.items() if k != "seconds"} == {k: v for k, v in other.items() if k != "seconds"}
    write_figures(tmp_path / "new" / "figures.json", figures)
    assert read_figures(tmp_path / "new" / "figures.json")["seeds"] == [0, 1]


def test_the_page_is_made_of_the_figures(tmp_path):
    rows = [
        {"model": name, "seed": seed, "parameters": 1234, "train": 1.0, "test": 0.875, "test_turned": 0.5 + seed / 8,
         "losses": [0.1], "seconds": 3.2}
        for seed in (0, 1) for name in MODELS
    ]  # fmt: skip
    run = {
        "command": "cwnet reproduce flow",
        "date": "2021-06-23",
        "seconds": 60.0,
        "machine": {"cpu": "abacus", "cores": 2, "system": "Linux"},
        "versions": {"python": "3.11"},
    }
    settings = {**SMALL.__dict__}
    page = render({"run": run, "settings": settings, "seeds": [0, 1], "device": "cpu", "rows": rows}, tmp_path / "page")
    text = page.read_text()
    assert "| 1,234 | 100.0 ± 0.0 | 87.5 ± 0.0 | 56.2 ± 8.8 | 31.2 | 3 |" in text
    assert "on 2 cores of abacus (Linux), device cpu, in 60 s" in text
    table = [line for line in text.splitlines() if line.startswith("| ")]
    assert len({line.count("|") for line in table}) == 1
    assert (tmp_path / "page" / "flow.png").stat().st_size > 20_000


def test_figures_that_are_not_there(tmp_path):
    with pytest.raises(CwnetError, match=r"there are no figures at .*: run the experiment without --render first"):
        read_figures(tmp_path / "figures.json")


def test_tables():
    assert markdown_table(["a", "b"], [[1, 2]], "lr") == "| a | b |\n| --- | ---: |\n| 1 | 2 |"
    assert json.loads(json.dumps(SMALL.__dict__))["points"] == 64


def test_accuracy_counts_all_flows(mesh):
    """Also those of a last batch that is not full."""
    data = make_data(mesh, 6, seed=0)
    torch.manual_seed(0)
    model = MODELS["biased"].make(SMALL)
    batches = [flow._batch_of(mesh, size, torch.device("cpu")) for size in (6, 4, 1)]
    with torch.no_grad():
        found = model(flow._with_flows(batches[0], data.flows, None)).argmax(1)
    found[-1] = 1 - found[-1]
    for batch in batches:
        assert evaluate(model, batch, FlowData(data.flows, found)) == pytest.approx(5 / 6)
