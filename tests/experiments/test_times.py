import json
from dataclasses import replace

import pytest
import torch

from cwnet import Rings, lift_many
from cwnet.data import Dataset, Split
from cwnet.experiments import times
from cwnet.experiments._times_page import render_epochs, render_lifting
from cwnet.experiments.times import MODELS, PAPER_EPOCHS, PAPER_LIFTING, PARTS, run_epochs, run_lifting
from tests.experiments.test_sr import ABOUT


def _molecules(lifting, count=30):
    """Rings of 5 and 6 atoms with a tail, in the place of ZINC."""
    graphs = []
    for i in range(count):
        n = 5 + i % 2
        graphs.append((n + 1, [*((j, (j + 1) % n) for j in range(n)), (0, n)]))
    store = lift_many(graphs, None)
    x = (torch.zeros(store.num_cells[0], 1, dtype=torch.int64), torch.ones(store.num_cells[1], 1, dtype=torch.int64))
    store = lift_many(replace(store, x=x, y=torch.arange(float(count))[:, None]), lifting)
    split = Split(*torch.split(torch.arange(count), [count - 10, 5, 5]))
    return Dataset("zinc", store, (split,), "regression", 1, "mae", {})


@pytest.fixture
def data(monkeypatch):
    asked = []

    def load(name, lifting):
        asked.append((name, lifting))
        return _molecules(lifting)

    monkeypatch.setattr(times, "load", load)
    return asked


def test_the_papers_tables():
    assert PAPER_LIFTING["zinc"][1] == (320.27, 0.54)
    assert all(list(table) == [1, 2, 4, 8, 16, 32] for table in PAPER_LIFTING.values())
    # More processes take less time, in every row.
    for table in PAPER_LIFTING.values():
        means = [mean for mean, _ in table.values()]
        assert means == sorted(means, reverse=True)
    for models in PAPER_EPOCHS.values():
        assert [*models, "steady CIN"] == list(MODELS)
        assert all(len(row) == len(PARTS) for row in models.values())
        assert models["CIN"][0] > models["CIN-small"][0] > models["GIN"][0] > models["GIN-small"][0]


def test_a_list_holds_the_graphs_of_a_store():
    store = _molecules(None).store
    again = lift_many(times._as_list(store), Rings(6))
    assert [cells.cells(1) for cells in again] == [cells.cells(1) for cells in store]


def test_lifting_is_timed(data, tmp_path):
    said = []
    figures = run_lifting(["zinc", "molhiv"], runs=2, tick=said.append)
    assert data == [("zinc", None), ("molhiv", None)]
    assert len(said) == 2
    for row in figures["rows"]:
        assert (row["graphs"], row["cells"][2]) == (30, 30)
        assert {kind: len(seconds) for kind, seconds in row["seconds"].items()} == {"one": 2, "all": 2, "list": 2}
        assert min(min(seconds) for seconds in row["seconds"].values()) > 0
    assert json.loads(json.dumps(figures)) == figures
    assert [row["dataset"] for row in run_lifting(runs=1, small=True)["rows"]] == ["zinc"]
    figures["rows"][0]["seconds"] = {"one": [0.015, 0.035], "all": [0.01, 0.01], "list": [0.5, 0.5]}
    page = render_lifting({"run": ABOUT, **figures}, tmp_path / "new")
    row = "| ZINC (12k) | 30 | 30 | 0.0250 ± 0.0141 | 0.0100 ± 0.0000 | 0.500 ± 0.000 | 12,811 | 641 |"
    assert row in page.read_text()
    assert "| 320.27 ± 0.54 | 169.95 ± 0.32 |" in page.read_text()
    assert "busy" not in page.read_text()
    loud = {**ABOUT, "machine": {**ABOUT["machine"], "load_before": 3.0}}
    assert "The machine was busy with other work" in render_lifting({"run": loud, **figures}, tmp_path).read_text()
    assert page.with_suffix(".png").stat().st_size > 10_000


def test_epochs_are_timed(data, monkeypatch, tmp_path):
    monkeypatch.setattr(times, "_FEW", 4)
    figures = run_epochs(small=True, epochs=3)
    # CIN and GIN have liftings of their own; each is loaded once.
    assert data == [("zinc", "none"), ("zinc", "rings:18")]
    assert [row["model"] for row in figures["rows"]] == list(MODELS)
    for row in figures["rows"]:
        assert row["whole"] == {"training": 20, "train": 20, "val": 5, "test": 5}
        assert row["complexes"] == {"training": 4, "train": 4, "val": 4, "test": 4}
        assert [len(row["seconds"][part]) for part in PARTS] == [2] * 4
    assert json.loads(json.dumps(figures)) == figures
    by_name = {row["model"]: row for row in figures["rows"]}
    assert by_name["CIN"]["parameters"] == 1_569_281
    for gin, cin in (("GIN", "CIN"), ("GIN-small", "CIN-small")):
        assert by_name[gin]["parameters"] == pytest.approx(by_name[cin]["parameters"], rel=0.05)
    by_name["CIN"]["seconds"]["training"] = [0.5, 0.5]
    page = render_epochs({"run": ABOUT, **figures}, tmp_path / "new")
    text = page.read_text()
    assert "| CIN | ours | 1,569,281 | 2.50 ± 0.00 |" in text  # five times the part that was timed
    assert "| CIN | paper |  | 10.828 ± 0.059 |" in text
    assert "| steady CIN | ours | 424,193 |" in text
    assert "| steady CIN | paper |" not in text  # it is not in the paper
    assert "memory" not in text.split("![")[0]  # of a CPU it is not measured
    with_memory = [{**row, "bytes": 3 * 2**29} for row in figures["rows"]]
    text = render_epochs({"run": ABOUT, **figures, "rows": with_memory}, tmp_path / "gpu").read_text()
    assert text.count("| 1.50 GiB |") == len(MODELS)
    assert "This is the small form: 4 molecules to train on" in text
    assert page.with_suffix(".png").stat().st_size > 10_000


def test_the_whole_is_not_scaled(data, tmp_path):
    figures = run_epochs(data=("zinc-full",), models=["CIN-small"], epochs=1)
    row = figures["rows"][0]
    assert data == [("zinc-full", "rings:18")]
    assert row["whole"] == row["complexes"]
    row["seconds"]["training"] = [2.0]
    text = render_epochs({"run": ABOUT, **figures}, tmp_path).read_text()
    assert "## ZINC-FULL (250k)" in text
    assert "| CIN-small | ours | 121,633 | 2.00 |" in text
    assert "small form" not in text


def test_a_warm_up_is_not_counted(data, monkeypatch):
    seen = []
    real = times._exhaust
    monkeypatch.setattr(times, "_exhaust", lambda steps: (seen.append(1), real(steps)))
    figures = run_epochs(models=["GIN-small"], epochs=2)
    assert len(seen) == 3
    assert len(figures["rows"][0]["seconds"]["training"]) == 2
