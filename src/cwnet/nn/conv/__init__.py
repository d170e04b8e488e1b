"""Convolutions: from features of cells to features of cells."""

from cwnet.nn.conv.cell_conv import CellConv
from cwnet.nn.conv.cin_conv import CINConv, CINppConv
from cwnet.nn.conv.gin_conv import GINConv, GINEConv

__all__ = ["CINConv", "CINppConv", "CellConv", "GINConv", "GINEConv"]
