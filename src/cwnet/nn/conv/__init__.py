"""Convolutions: from features of cells to features of cells."""

from cwnet.nn.conv.attention_conv import AttentionConv
from cwnet.nn.conv.cell_conv import CellConv
from cwnet.nn.conv.cell_mlp import CellMLP
from cwnet.nn.conv.cin_conv import CINConv, CINppConv
from cwnet.nn.conv.coboundary_conv import CoboundaryConv
from cwnet.nn.conv.dirac_conv import DiracConv
from cwnet.nn.conv.gated import Gated
from cwnet.nn.conv.gin_conv import GINConv, GINEConv
from cwnet.nn.conv.hodge_conv import HodgeConv
from cwnet.nn.conv.hodge_gcn_conv import HodgeGCNConv
from cwnet.nn.conv.oriented_cin_conv import OrientedCINConv
from cwnet.nn.conv.residual import Residual
from cwnet.nn.conv.sheaf_conv import SheafConv
from cwnet.nn.conv.virtual_cell import VirtualCell

__all__ = [
    "AttentionConv",
    "CINConv",
    "CINppConv",
    "CellConv",
    "CellMLP",
    "CoboundaryConv",
    "DiracConv",
    "GINConv",
    "GINEConv",
    "Gated",
    "HodgeConv",
    "HodgeGCNConv",
    "OrientedCINConv",
    "Residual",
    "SheafConv",
    "VirtualCell",
]
