"""More threads than there are to be had: those that start do the work."""

import subprocess
import sys

import pytest

CODE = """
import resource
import numpy as np
import cwnet
graphs = [(6, np.array([[i, (i + 1) % 6] for i in range(6)]))] * 20_000
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2**30, used + 2**30))  # a stack takes some MB of it
store = cwnet.lift_many(graphs, cwnet.Rings(6), threads=60_000)
print(store.num_cells)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux, to limit memory")
def test_threads_that_can_not_be_made():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "(120000, 120000, 20000)"
