"""Molecules in and pictures out: the only room of cwnet that needs RDKit (``pip install cwnet[chem]``)."""

from cwnet.chem._draw import draw_molecule, draw_molecules
from cwnet.chem._featuriser import Featuriser
from cwnet.chem._reaction_featuriser import ReactionFeaturiser
from cwnet.chem._read import Molecules, nci_smiles, pack_molecules, read_smiles
from cwnet.chem._row_featuriser import RowFeaturiser

__all__ = [
    "Featuriser",
    "Molecules",
    "ReactionFeaturiser",
    "RowFeaturiser",
    "draw_molecule",
    "draw_molecules",
    "nci_smiles",
    "pack_molecules",
    "read_smiles",
]
