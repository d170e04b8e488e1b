"""Doctests of modules that need an extra run where it is installed. Workers side by side take one thread each."""

import os
from importlib.util import find_spec
from pathlib import Path

# The threads of PyTorch wait for each other by spinning: more of them than cores, and everything crawls.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

from cwnet._torch import NO_KERNELS  # it imports PyTorch, which counts its threads then

# All kernels are in Triton, but those for the CPU.
folder = Path(__file__).parent / "src/cwnet/nn/kernels"
kernels = [str(file) for file in folder.glob("_*.py") if file.name not in ("__init__.py", "_cpu.py")]
collect_ignore_glob = [
    *([] if find_spec("rdkit") else ["src/cwnet/chem/*", "src/cwnet/molecules/*"]),
    *([] if NO_KERNELS is None else kernels),
    *([] if find_spec("torch_geometric") else ["src/cwnet/complexes/_pyg.py"]),
]
