"""Run a module with stand-ins for PyG's compiled extensions: python stand_ins.py MODULE ARGUMENTS

TopoBench imports torch_sparse, torch_scatter and torch_cluster whatever is run. Lifting graphs and training cell
networks call nothing of them, so where they are not installed a name that refuses to be called is enough. PyTorch
Geometric is imported first, so that it knows they are not there.
"""

import importlib.util
import runpy
import sys
from types import ModuleType

import torch_geometric.typing  # noqa: F401  # looks for the extensions

NAMES = {
    "torch_sparse": ["SparseTensor", "coalesce", "spmm"],
    "torch_scatter": ["scatter", "scatter_add"],
    "torch_cluster": ["fps", "knn", "knn_graph", "nearest", "radius"],
}


def refusing(module, name):
    def refuse(self, *args, **kwargs):
        raise ImportError(f"{module}.{name} was called, and {module} is not installed here")

    return type(name, (), {"__init__": refuse})


def stand_in():
    """Put modules where extensions are missing; returns the names of those that were."""
    missing = [module for module in NAMES if importlib.util.find_spec(module) is None]
    for module in missing:
        sys.modules[module] = ModuleType(module)
        for name in NAMES[module]:
            setattr(sys.modules[module], name, refusing(module, name))
    return missing


if __name__ == "__main__":
    if missing := stand_in():
        print(f"Stand-ins for {', '.join(missing)}")
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
