"""CW Networks: sums over incidences, convolutions, encoders, readouts and models."""

from cwnet._torch import NO_OPERATORS as _NO_OPERATORS
from cwnet.nn import encoders, functional, models, signed, testing
from cwnet.nn._mlp import MLP
from cwnet.nn._module import Module, from_config, to_config
from cwnet.nn._norm import BatchNorm, LayerNorm
from cwnet.nn.colours import ColourCounts
from cwnet.nn.conv import (
    AttentionConv,
    CellConv,
    CellMLP,
    CINConv,
    CINppConv,
    CoboundaryConv,
    DiracConv,
    Gated,
    GINConv,
    GINEConv,
    HodgeConv,
    HodgeGCNConv,
    OrientedCINConv,
    Residual,
    SheafConv,
    VirtualCell,
)
from cwnet.nn.cycle_counts import CycleCounts
from cwnet.nn.encoders import CellEncoder
from cwnet.nn.invariant_readout import InvariantReadout
from cwnet.nn.joined import Joined
from cwnet.nn.mean_max_readout import MaxReadout, MeanReadout
from cwnet.nn.models import CIN, cin, gin, mlp, sin, steady_cin
from cwnet.nn.per_slot import PerSlot
from cwnet.nn.readout import Beside, CellHead, Head, Readout

if _NO_OPERATORS is None:  # there before anything is traced
    from cwnet.nn import _operators as _operators

__all__ = [
    "CIN",
    "MLP",
    "AttentionConv",
    "BatchNorm",
    "Beside",
    "CINConv",
    "CINppConv",
    "CellConv",
    "CellEncoder",
    "CellHead",
    "CellMLP",
    "CoboundaryConv",
    "ColourCounts",
    "CycleCounts",
    "DiracConv",
    "GINConv",
    "GINEConv",
    "Gated",
    "Head",
    "HodgeConv",
    "HodgeGCNConv",
    "InvariantReadout",
    "Joined",
    "LayerNorm",
    "MaxReadout",
    "MeanReadout",
    "Module",
    "OrientedCINConv",
    "PerSlot",
    "Readout",
    "Residual",
    "SheafConv",
    "VirtualCell",
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
