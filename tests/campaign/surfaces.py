"""All surfaces, in the order of the table."""

from tests.campaign import (
    commands,
    complexes,
    damage,
    disturbances,
    forgeries,
    graph_files,
    graphs,
    limits,
    smiles,
    tables,
)

ALL = (graphs, complexes, graph_files, smiles, tables, damage, forgeries, commands, limits)
SURFACES = {s.name: s for s in (*(room.SURFACE for room in ALL), *disturbances.SURFACES)}
