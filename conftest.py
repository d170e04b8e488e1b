"""Doctests of modules that need an extra run where it is installed."""

from importlib.util import find_spec

collect_ignore_glob = [
    *([] if find_spec("rdkit") else ["src/cwnet/chem/*", "src/cwnet/molecules/*"]),
    *([] if find_spec("triton") else ["src/cwnet/nn/kernels/_sums.py"]),
    *([] if find_spec("torch_geometric") else ["src/cwnet/complexes/_pyg.py"]),
]
