"""A page to explore complexes: their cells, their colours, and what a model makes of molecules."""

from cwnet.explore._exhibit import LIFTINGS, MAX_CELLS, MAX_EDGES, MAX_VERTICES, Exhibit, exhibit
from cwnet.explore._gallery import Pair, gallery
from cwnet.explore._page import MAX_EXHIBITS, Typed, render_explorer
from cwnet.explore._server import ExploreServer

__all__ = [
    "LIFTINGS",
    "MAX_CELLS",
    "MAX_EDGES",
    "MAX_EXHIBITS",
    "MAX_VERTICES",
    "Exhibit",
    "ExploreServer",
    "Pair",
    "Typed",
    "exhibit",
    "gallery",
    "render_explorer",
]
