"""From graphs to cell complexes: which cells to attach (`Rings`, `Cycles`, `Cliques`, ...) and `lift`."""

from cwnet.lifting._graphs import Graph
from cwnet.lifting._lift import lift, lift_many
from cwnet.lifting._liftings import Cliques, Custom, Cycles, Lifting, Rings, Union, as_lifting
from cwnet.lifting._testing import assert_invariant, relabelled
from cwnet.lifting._transform import LiftTransform

__all__ = [
    "Cliques",
    "Custom",
    "Cycles",
    "Graph",
    "LiftTransform",
    "Lifting",
    "Rings",
    "Union",
    "as_lifting",
    "assert_invariant",
    "lift",
    "lift_many",
    "relabelled",
]
