"""cwnet asks what PyTorch can do in one place."""

import re
from pathlib import Path

import pytest
import torch

import cwnet
from cwnet import _torch

SOURCES = [path for path in Path(cwnet.__file__).parent.rglob("*.py") if path.name != "_torch.py"]


def test_no_other_module_asks_for_versions():
    """But to write them down."""
    asks = re.compile(r"hasattr\(torch\b|getattr\(torch\b|torch\.__version__ *[<>=!]|torch\.__version__\.split")
    assert [path.name for path in SOURCES if asks.search(path.read_text(encoding="utf-8"))] == []


def test_what_came_after_the_lowest_version_is_asked_for_here_only():
    late = re.compile(r"torch\.OutOfMemoryError|is_autocast_enabled\(.|add_safe_globals|is_exporting\(")
    assert [path.name for path in SOURCES if late.search(path.read_text(encoding="utf-8"))] == []


def test_autocast_is_noticed():
    assert not _torch.autocasting("cpu")
    assert not _torch.autocasting("cuda")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert _torch.autocasting("cpu")
        assert not _torch.autocasting("cuda")


@pytest.mark.parametrize(("release", "fused"), [((2, 3), False), ((2, 4), True)])
def test_adam_in_one_piece(release, fused, monkeypatch):
    monkeypatch.setattr(_torch, "_RELEASE", release)
    assert _torch.fused_adam("cpu") == fused
    assert _torch.fused_adam("cuda")


@pytest.mark.parametrize(("release", "kernels"), [((2, 3), False), ((2, 10), False), ((2, 11), True), ((3, 0), True)])
def test_which_pytorch_the_kernels_need(release, kernels, monkeypatch):
    monkeypatch.setattr(_torch, "_RELEASE", release)
    monkeypatch.setattr(_torch, "find_spec", lambda name: object())
    assert (_torch._why_no_kernels() is None) == kernels
    monkeypatch.setattr(_torch, "find_spec", lambda name: None)
    assert "Triton is missing" in _torch._why_no_kernels()
