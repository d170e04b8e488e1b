"""Time and peak memory of TopoBench's cycle lifting and of ours, on NCI1.

    python stand_ins.py compare_liftings FOLDER [MAX_CELL_LENGTH]

FOLDER is where TopoBench keeps the TU data sets. Every lifting runs in a fork of one process that has read the graphs,
so all start from the same memory. Only Linux tells a process its peak.
"""

import os
import sys
import time
from functools import partial
from pathlib import Path

import torch
from cwnet_topobench.parts import CellRingLifting
from topobench.transforms.liftings.graph2cell.cycle_lifting import CellCycleLifting
from torch_geometric.datasets import TUDataset


def memory(name):
    """A line of /proc/self/status, in MB."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) / 1024


def measure(name, make, graphs):
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before, start, busy = memory("VmRSS"), time.perf_counter(), time.process_time()
    transform = make()
    lifted = [transform(graph) for graph in graphs]
    seconds, busy = time.perf_counter() - start, time.process_time() - busy
    peak = memory("VmHWM") - before
    cells = [sum(data["shape"][d] for data in lifted) for d in range(3)]
    print(f"{name:<25} {seconds:7.2f} s, {busy:7.2f} s of a core, {peak:5.0f} MB, cells {cells}", flush=True)


def main(folder, longest="10"):
    torch.set_num_threads(1)
    graphs = list(TUDataset(folder, "NCI1"))
    options = {"max_cell_length": int(longest)}
    liftings = {
        "TopoBench, cycle basis": partial(CellCycleLifting, **options),
        "cwnet, rings": partial(CellRingLifting, **options),
        "cwnet, rings, incidences": partial(CellRingLifting, connectivities=[], **options),
    }
    for name, make in liftings.items():
        make()(graphs[0])  # so that what is loaded at the first call does not count
        if os.fork() == 0:
            measure(name, make, graphs)
            os._exit(0)
        os.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
