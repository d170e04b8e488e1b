"""Lift graphs to cell complexes, test them with the cellular Weisfeiler–Lehman test, learn on them with CW Networks."""

from cwnet import complexes, errors, lifting, topology, wl
from cwnet._threads import get_num_threads, read_environment, set_num_threads
from cwnet.complexes import CellComplex, ComplexBatch, ComplexStore, collate
from cwnet.errors import CwnetError, GraphError, InvalidComplexError, LiftingBudgetExceeded
from cwnet.lifting import Cliques, Custom, Cycles, Graph, LiftTransform, Rings, lift, lift_many
from cwnet.wl import certificate, distinguish

__version__ = "0.1.0"

read_environment()
del read_environment

__all__ = [
    "CellComplex",
    "Cliques",
    "ComplexBatch",
    "ComplexStore",
    "Custom",
    "CwnetError",
    "Cycles",
    "Graph",
    "GraphError",
    "InvalidComplexError",
    "LiftTransform",
    "LiftingBudgetExceeded",
    "Rings",
    "certificate",
    "collate",
    "complexes",
    "distinguish",
    "errors",
    "get_num_threads",
    "lift",
    "lift_many",
    "lifting",
    "set_num_threads",
    "topology",
    "wl",
]
