"""Data in: graph files, stores on disk, data sets and loaders."""

from typing import Any

from cwnet.data._datasets import Dataset, DatasetInfo, DatasetNotFoundError, StoreWarning, info, load, names, prepare
from cwnet.data._graph_files import SUFFIXES, GraphFileError, NamedGraph, read_graphs, scan_graphs
from cwnet.data._loader import ComplexLoader
from cwnet.data._splits import Split

__all__ = [
    "SUFFIXES",
    "ComplexLoader",
    "DamagedStoreError",
    "Dataset",
    "DatasetInfo",
    "DatasetNotFoundError",
    "GraphFileError",
    "Manifest",
    "NamedGraph",
    "Split",
    "StoreWarning",
    "StoreWriter",
    "concatenate",
    "info",
    "iterate_shards",
    "load",
    "names",
    "open_store",
    "prepare",
    "read_graphs",
    "read_manifest",
    "save_store",
    "scan_graphs",
]

_ON_DISK = {
    "DamagedStoreError",
    "Manifest",
    "StoreWriter",
    "concatenate",
    "iterate_shards",
    "open_store",
    "read_manifest",
    "save_store",
}


def __getattr__(name: str) -> Any:
    """Import PyArrow only for those who use stores on disk."""
    if name in _ON_DISK:
        from cwnet.data import _store_file

        return getattr(_store_file, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
