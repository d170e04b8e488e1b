"""CW Networks: sums over incidences, convolutions, encoders, readouts and models."""

from cwnet.nn import encoders, functional, models, testing
from cwnet.nn._mlp import MLP
from cwnet.nn._module import Module, from_config, to_config
from cwnet.nn._norm import BatchNorm, LayerNorm
from cwnet.nn.conv import CellConv, CINConv, CINppConv, GINConv, GINEConv
from cwnet.nn.encoders import CellEncoder
from cwnet.nn.models import CIN, cin, gin, sin
from cwnet.nn.readout import CellHead, Head, Readout

__all__ = [
    "CIN",
    "MLP",
    "BatchNorm",
    "CINConv",
    "CINppConv",
    "CellConv",
    "CellEncoder",
    "CellHead",
    "GINConv",
    "GINEConv",
    "Head",
    "LayerNorm",
    "Module",
    "Readout",
    "cin",
    "encoders",
    "from_config",
    "functional",
    "gin",
    "models",
    "sin",
    "testing",
    "to_config",
]
