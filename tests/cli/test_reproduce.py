import json

import pytest

from cwnet.experiments import flow
from cwnet.experiments.flow import Settings
from tests.cli.test_wl import refused, said


@pytest.fixture
def small(monkeypatch, tmp_path):
    """The experiment in little, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        flow,
        "Settings",
        lambda: Settings(points=64, num_train=4, num_test=4, width=4, layers=1, epochs=1, batch=4),
    )
    return tmp_path


def test_flow(small):
    text = said("reproduce", "flow", "--seeds", "1", "--workers", "1")
    assert "Wrote results/flow/figures.json and results/flow/flow.md." in text
    figures = json.loads((small / "results/flow/figures.json").read_text())
    assert figures["seeds"] == [0]
    assert len(figures["rows"]) == len(flow.MODELS)
    assert figures["settings"]["points"] == 64
    before = (small / "results/flow/flow.md").read_text()
    assert "| plain: `CINppConv` on flows | " in before
    (small / "docs/results").mkdir(parents=True)
    assert "Wrote docs/results/flow.md." in said("reproduce", "flow", "--render")
    assert (small / "docs/results/flow.md").read_text() == before
    assert (small / "docs/results/flow.png").exists()


def test_options(small):
    text = said(
        "reproduce", "flow", "--seeds", "1", "--epochs", "2", "--workers", "1", "--results", "r", "--page", "p"
    )  # fmt: skip
    assert "Wrote r/flow/figures.json and p/flow.md." in text
    assert len(json.loads((small / "r/flow/figures.json").read_text())["rows"][0]["losses"]) == 2


def test_bad_input(small):
    assert "there are no figures at results/flow/figures.json yet" in refused("reproduce", "flow", "--render")
    assert "--device abacus can not be used" in refused("reproduce", "flow", "--device", "abacus")
    for share in ("0/2", "3/2", "half"):
        assert f"--share {share}: write I/N with I from 1 to N" in refused("reproduce", "zinc", "--share", share)


def test_help_teaches():
    assert "cwnet reproduce flow --seeds 5" in said("reproduce", "--help")
    assert "About three minutes on two cores." in said("reproduce", "flow", "--help")
