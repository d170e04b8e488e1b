"""One setting for the threads of the core and of PyTorch."""

import os
import subprocess
import sys

import pytest
import torch

import cwnet
from cwnet.lifting._lift import num_threads

SHOW = "import cwnet, torch; print(cwnet.get_num_threads(), torch.get_num_threads())"


@pytest.fixture(autouse=True)
def _as_before(monkeypatch):
    before = torch.get_num_threads()
    monkeypatch.setattr("cwnet._threads._default", None)
    yield
    torch.set_num_threads(before)


def test_it_is_for_the_core_and_for_pytorch():
    cwnet.set_num_threads(3)
    assert (num_threads(None), torch.get_num_threads()) == (3, 3)
    assert num_threads(2) == 2  # a call has the last word


@pytest.mark.parametrize("threads", [0, -1, 1.5, True, "2", None])
def test_what_is_no_number_of_threads(threads):
    with pytest.raises(ValueError, match="whole number of threads"):
        cwnet.set_num_threads(threads)


@pytest.mark.parametrize(("wish", "expected"), [("1", "1 1"), ("3", "3 3"), ("none", None), ("0", None)])
def test_the_environment(wish, expected):
    run = subprocess.run(
        [sys.executable, "-c", SHOW], env=os.environ | {"CWNET_THREADS": wish}, capture_output=True, text=True
    )
    if expected:
        assert run.stdout.strip() == expected, run.stderr
    else:
        assert f"CWNET_THREADS={wish!r}" in run.stderr
