"""The largest strongly regular family fits into 2 GB."""

import subprocess
import sys

SCRIPT = """
import resource, sys
import networkx as nx
import cwnet
graphs = (nx.from_graph6_bytes(line) for line in open(sys.argv[1], "rb").read().split())
store = cwnet.lift_many(graphs, cwnet.Rings(6))
print(len(store), store.num_cells[2], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def test_sr351668_within_two_gigabytes(data):
    path = data / "SR_graphs" / "sr351668.g6"
    out = subprocess.run([sys.executable, "-c", SCRIPT, str(path)], capture_output=True, text=True, check=True)
    graphs, rings, peak = map(int, out.stdout.split())
    assert graphs == 3854
    assert rings == 55_733_297
    assert peak < 2_000_000_000
