"""``cwnet bench``: figures of this machine, kept; ratios that are what they say."""

import json

import pytest

from cwnet.experiments.speed import JOBS, Measured
from tests.cli.test_wl import refused, said

pytest.importorskip("rdkit")


def test_all_jobs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = said("bench", "--molecules", "200", "--seconds", "0.01", "--device", "cpu")
    assert "Wrote bench.json" in text
    found = json.loads((tmp_path / "bench.json").read_text())
    assert len(found["jobs"]) == len(JOBS)
    assert all(job["rate"] > 0 for job in found["jobs"])
    assert {job["peer"] for job in found["jobs"] if job["peer_rate"]} >= {"networkx, chordless cycles"}
    assert found["device"] == "cpu"
    assert found["run"]["command"]


def test_one_job(tmp_path):
    said("bench", "lift", "--molecules", "200", "--seconds", "0.01", "-o", str(tmp_path / "x.json"))
    (job,) = json.loads((tmp_path / "x.json").read_text())["jobs"]
    assert job["rate"] > job["peer_rate"]


def test_ratio():
    assert Measured("lift", 30.0, "other", 10.0).ratio == 3
    assert Measured("lift", 30.0).ratio is None


def test_bad_input():
    assert "there is no job 'fly': choose from read, lift" in refused("bench", "fly")
    assert "--device abacus: write auto, cpu or cuda" in refused("bench", "--device", "abacus")
