"""Signs, boundary matrices, Laplacians, sheaves and homology of cell complexes."""

from cwnet.topology._hodge import HodgeParts, harmonic_cochains, hodge_decomposition, lowest_eigenpairs
from cwnet.topology._homology import betti_numbers, euler_characteristic
from cwnet.topology._laplacians import dirac_operator, hodge_laplacian
from cwnet.topology._matrices import boundary_matrix, cell_weights, to_torch
from cwnet.topology._orientation import Oriented, SignedIncidence, orient, random_flips
from cwnet.topology._plot import plot
from cwnet.topology._plot_colours import plot_colours
from cwnet.topology._sheaves import Sheaf, SheafError

__all__ = [
    "HodgeParts",
    "Oriented",
    "Sheaf",
    "SheafError",
    "SignedIncidence",
    "betti_numbers",
    "boundary_matrix",
    "cell_weights",
    "dirac_operator",
    "euler_characteristic",
    "harmonic_cochains",
    "hodge_decomposition",
    "hodge_laplacian",
    "lowest_eigenpairs",
    "orient",
    "plot",
    "plot_colours",
    "random_flips",
    "to_torch",
]
