"""The fused kernels equal the plain sums: on a GPU where there is one, else through Triton's interpreter."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from cwnet import _torch
from cwnet.nn import kernels
from tests.nn.kernel_checks import CHECKS

ROOT = Path(__file__).resolve().parents[2]

there = pytest.mark.skipif(_torch.NO_KERNELS is not None, reason=str(_torch.NO_KERNELS))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@there
@pytest.mark.parametrize("name", CHECKS)
def test_kernels_on_a_gpu(name, monkeypatch):
    monkeypatch.delenv("CWNET_KERNELS", raising=False)
    CHECKS[name]("cuda")


@pytest.mark.skipif(torch.cuda.is_available(), reason="the GPU itself is tested")
@there
def test_kernels_in_the_interpreter():
    """In a process of its own, since Triton looks for TRITON_INTERPRET when it is imported."""
    import triton

    if release(triton) < (3, 7) and release(np) >= (2, 4):
        pytest.skip("the interpreter of Triton before 3.7 can not loop over data with NumPy 2.4 or later")
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.nn.kernel_checks"],
        cwd=ROOT,
        env=os.environ | {"TRITON_INTERPRET": "1", "CWNET_KERNELS": "interpret"},
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert run.returncode == 0, f"{run.stdout}\n{run.stderr}"


def release(package):
    return tuple(int(part) for part in package.__version__.split(".")[:2])


def test_kernels_are_not_taken_on_the_cpu(monkeypatch):
    monkeypatch.delenv("CWNET_KERNELS", raising=False)
    assert not kernels.usable(torch.zeros(1, 1))


def test_kernels_leave_float64_to_the_plain_sums(monkeypatch):
    monkeypatch.setenv("CWNET_KERNELS", "interpret")
    assert not kernels.usable(torch.zeros(1, 1, dtype=torch.float64))


@there
def test_kernels_can_be_turned_off(monkeypatch):
    x = torch.zeros(1, 1)
    monkeypatch.setenv("CWNET_KERNELS", "interpret")
    assert kernels.usable(x)
    assert kernels.obstacle() is None
    monkeypatch.setenv("CWNET_KERNELS", "0")
    assert not kernels.usable(x)
    assert "CWNET_KERNELS is 0" in kernels.obstacle()


def test_kernels_are_left_alone_by_a_pytorch_that_is_too_old(monkeypatch):
    monkeypatch.setenv("CWNET_KERNELS", "interpret")
    monkeypatch.setattr(_torch, "NO_KERNELS", "the kernels for GPUs need PyTorch 2.11, and this is 2.3.0")
    assert not kernels.usable(torch.zeros(1, 1))
    assert kernels.obstacle() == _torch.NO_KERNELS
