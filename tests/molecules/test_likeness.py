"""How like the training part the test part is."""

import json

import pytest
import torch

from cwnet.molecules import _likeness
from cwnet.molecules._likeness import likeness, summary
from tests.reference.splits import distances


def test_is_the_similarity_to_the_nearest_training_molecule(regression):
    prepared = regression.prepared
    table = 1 - distances(prepared.table.smiles)
    expected = table[prepared.split.test][:, prepared.split.train].max(1)
    assert torch.allclose(likeness(prepared), torch.from_numpy(expected).double(), atol=1e-6)


def test_it_is_kept_drawn_and_reported(regression):
    folder = regression.folder
    kept = json.loads((folder / "metrics.json").read_text())["similarity"]
    found = likeness(regression.prepared)
    assert kept == summary(found) == regression.model.about["similarity"]
    assert kept["median"] == pytest.approx(float(found.quantile(0.5)), abs=1e-6)
    assert kept["molecules"] == len(regression.prepared.split.test)
    assert (folder / "similarity.png").read_bytes().startswith(b"\x89PNG")
    assert "How like the training molecules" in (folder / "report.html").read_text()


def test_of_very_many_some_are_compared(regression, monkeypatch):
    monkeypatch.setattr(_likeness, "_TEST", 5)
    assert len(likeness(regression.prepared)) == 5


def test_without_a_test_part_there_is_none(regression):
    from dataclasses import replace

    from cwnet.data import Split

    split = regression.prepared.split
    assert likeness(replace(regression.prepared, split=Split(split.train, split.val, []))) is None
    assert summary(None) == {}
