"""Data in: graphs from the files people keep them in."""

from cwnet.data._graph_files import SUFFIXES, GraphFileError, NamedGraph, read_graphs, scan_graphs

__all__ = ["SUFFIXES", "GraphFileError", "NamedGraph", "read_graphs", "scan_graphs"]
