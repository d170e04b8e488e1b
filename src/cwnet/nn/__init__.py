"""CW Networks: sums over incidences, convolutions, encoders, readouts and models."""

from cwnet.nn import encoders, functional, models, signed, testing
from cwnet.nn._mlp import MLP
from cwnet.nn._module import Module, from_config, to_config
from cwnet.nn._norm import BatchNorm, LayerNorm
from cwnet.nn.colours import ColourCounts
from cwnet.nn.conv import (
    CellConv,
    CellMLP,
    CINConv,
    CINppConv,
    DiracConv,
    GINConv,
    GINEConv,
    HodgeConv,
    HodgeGCNConv,
    OrientedCINConv,
    SheafConv,
)
from cwnet.nn.encoders import CellEncoder
from cwnet.nn.invariant_readout import InvariantReadout
from cwnet.nn.models import CIN, cin, gin, mlp, sin, steady_cin
from cwnet.nn.readout import Beside, CellHead, Head, Readout

__all__ = [
    "CIN",
    "MLP",
    "BatchNorm",
    "Beside",
    "CINConv",
    "CINppConv",
    "CellConv",
    "CellEncoder",
    "CellHead",
    "CellMLP",
    "ColourCounts",
    "DiracConv",
    "GINConv",
    "GINEConv",
    "Head",
    "HodgeConv",
    "HodgeGCNConv",
    "InvariantReadout",
    "LayerNorm",
    "Module",
    "OrientedCINConv",
    "Readout",
    "SheafConv",
    "cin",
    "encoders",
    "from_config",
    "functional",
    "gin",
    "mlp",
    "models",
    "signed",
    "sin",
    "steady_cin",
    "testing",
    "to_config",
]
