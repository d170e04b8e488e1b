"""Files of graphs whose bytes were changed."""

from __future__ import annotations

import gzip
import random
from pathlib import Path
from typing import Any, NamedTuple

import networkx as nx

from cwnet.data import read_graphs
from cwnet.wl import certificates
from tests.campaign.mutations import mutated_bytes
from tests.campaign.surface import OK, Surface, Wrong

_BOMB = b"""<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY a "lol"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">
<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;"><!ENTITY d "&c;&c;&c;&c;&c;&c;&c;&c;">]><graphml><graph edgedefault="undirected">
<node id="&d;"/></graph></graphml>"""


class Files(NamedTuple):
    """A folder, and files of graphs as bytes by their suffix."""

    folder: Path
    known: dict[str, bytes]


def prepare(folder: Path) -> Files:
    """Two graphs in all forms."""
    graph = nx.petersen_graph()
    labelled = nx.Graph(graph)
    nx.set_node_attributes(labelled, {v: "C" if v % 2 else "N" for v in labelled}, "label")
    nx.write_graphml(labelled, folder / "whole.graphml")
    edges = "".join(f"{u} {v}\n" for u, v in graph.edges())
    g6 = b"".join(nx.to_graph6_bytes(g, header=False) for g in (graph, nx.path_graph(5), nx.cycle_graph(70)))
    known = {
        "g6": g6,
        "edges": edges.encode(),
        "csv": ("source,target\n" + edges.replace(" ", ",")).encode(),
        "graphml": (folder / "whole.graphml").read_bytes(),
        "smi": b"CCO ethanol\nc1ccccc1\n",
        "g6.gz": gzip.compress(g6),
        "bomb.graphml": _BOMB,
    }
    return Files(folder, known)


def attack(chance: random.Random, files: Files) -> str:
    """A file that is read is read the same again, and its graphs can be lifted."""
    suffix = chance.choice(list(files.known))
    data = mutated_bytes(chance, files.known[suffix], chance.choice([0, 1, 1, 2, 5]))
    path = files.folder / f"t.{suffix}"
    path.write_bytes(data)
    simplify = chance.random() < 0.5
    found = read_graphs(path, simplify=simplify)
    if not found:
        raise Wrong(f"{suffix} {data!r}: no graph, and no error")
    if chance.random() < 0.2 and sum(each.graph.num_nodes for each in found) < 3_000:
        again: list[Any] = read_graphs(path, simplify=simplify)
        graphs = [each.graph for each in found]
        if certificates(graphs, "rings:5") != certificates([each.graph for each in again], "rings:5"):
            raise Wrong(f"{suffix} {data!r}: other graphs when read again")
    return OK


SURFACE = Surface(
    "graph files", "graph6, edge lists, GraphML or SMILES with bytes changed", attack, prepare, 20, 60_000
)
