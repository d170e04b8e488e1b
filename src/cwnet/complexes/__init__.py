"""Regular cell complexes: one (`CellComplex`), many packed (`ComplexStore`), many as one (`ComplexBatch`)."""

from cwnet.complexes._batch import ComplexBatch
from cwnet.complexes._cells import Features
from cwnet.complexes._complex import CellComplex
from cwnet.complexes._csr import Csr, Incidence, Pairs
from cwnet.complexes._interop import from_pyg, from_toponetx, to_hetero, to_networkx, to_pyg, to_toponetx
from cwnet.complexes._store import ComplexStore, collate

__all__ = [
    "CellComplex",
    "ComplexBatch",
    "ComplexStore",
    "Csr",
    "Features",
    "Incidence",
    "Pairs",
    "collate",
    "from_pyg",
    "from_toponetx",
    "to_hetero",
    "to_networkx",
    "to_pyg",
    "to_toponetx",
]
