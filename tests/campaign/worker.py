"""A process that tries inputs of one surface, and tells of each by one letter on its standard output."""

from __future__ import annotations

import faulthandler
import os
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path

import torch

from tests.campaign.surface import OUTCOMES, chance_of, outcome_of
from tests.campaign.surfaces import SURFACES


def work(name: str, seed: int, first: int, count: int, seconds: float, notes: Path) -> None:
    """Try inputs from the first on until the time is over; what is bad is described in the notes."""
    torch.set_num_threads(1)
    told = os.dup(1)
    os.dup2(2, 1)  # whatever else is printed
    surface = SURFACES[name]
    end = time.monotonic() + seconds
    folder = Path(tempfile.mkdtemp(prefix=f"campaign-{name}-"))
    os.chdir(folder)
    try:
        material = surface.prepare(folder)
        os.write(told, b"+")
        for number in range(first, first + count):
            outcome, error = outcome_of(surface, chance_of(seed, surface, number), material)
            if error is not None:
                said = "".join(traceback.format_exception(error))
                with open(notes, "a") as file:
                    file.write(f"=== {name} {number}: {outcome}\n{said}\n")
            os.write(told, OUTCOMES.index(outcome).to_bytes())
            if time.monotonic() > end:
                break
    finally:
        os.chdir("/")
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    faulthandler.enable()
    name, seed, first, count, seconds, notes = sys.argv[1:]
    work(name, int(seed), int(first), int(count), float(seconds), Path(notes))
