"""Data in: graph files, tables of molecules, stores on disk, data sets, splits and loaders."""

from importlib import import_module
from typing import Any

from cwnet.data._datasets import Dataset, DatasetInfo, DatasetNotFoundError, StoreWarning, info, load, names, prepare
from cwnet.data._graph_files import SUFFIXES, GraphFileError, NamedGraph, read_graphs, scan_graphs
from cwnet.data._group_folds import group_kfold_split
from cwnet.data._loader import ComplexLoader
from cwnet.data._sharded import ShardedStore, open_sharded
from cwnet.data._similarity_splits import cluster_groups, cluster_split, kennard_stone_split
from cwnet.data._splits import (
    Split,
    SplitError,
    column_split,
    group_split,
    kfold_split,
    load_split,
    random_split,
    save_split,
    scaffold_groups,
    scaffold_split,
)
from cwnet.data._time_split import time_split

__all__ = [
    "SUFFIXES",
    "ComplexLoader",
    "DamagedStoreError",
    "Dataset",
    "DatasetInfo",
    "DatasetNotFoundError",
    "Duplicates",
    "GraphFileError",
    "Manifest",
    "MoleculeTable",
    "NamedGraph",
    "Reject",
    "ShardedStore",
    "Split",
    "SplitError",
    "StoreWarning",
    "StoreWriter",
    "TableError",
    "cluster_groups",
    "cluster_split",
    "column_split",
    "concatenate",
    "find_duplicates",
    "frame_table",
    "group_kfold_split",
    "group_split",
    "info",
    "iterate_shards",
    "iterate_table",
    "kennard_stone_split",
    "kfold_split",
    "lift_table",
    "load",
    "load_split",
    "names",
    "open_sharded",
    "open_store",
    "prepare",
    "random_split",
    "read_graphs",
    "read_manifest",
    "read_table",
    "save_split",
    "save_store",
    "scaffold_groups",
    "scaffold_split",
    "scan_graphs",
    "time_split",
    "verify_store",
]

#: Names that need PyArrow, which is imported only for those who use them.
_WITH_ARROW = {
    "_store_file": (
        "DamagedStoreError",
        "Manifest",
        "StoreWriter",
        "concatenate",
        "iterate_shards",
        "open_store",
        "read_manifest",
        "save_store",
        "verify_store",
    ),
    "_frames": ("frame_table",),
    "_tables": (
        "Duplicates",
        "MoleculeTable",
        "Reject",
        "TableError",
        "find_duplicates",
        "iterate_table",
        "lift_table",
        "read_table",
    ),
}


def __getattr__(name: str) -> Any:
    for module, exported in _WITH_ARROW.items():
        if name in exported:
            return getattr(import_module(f"cwnet.data.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
