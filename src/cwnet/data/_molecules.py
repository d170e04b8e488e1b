"""Benchmarks of molecules: ZINC, ogbg-molhiv, Peptides-func, and one that comes with RDKit."""

from __future__ import annotations

import csv
import importlib
import io
import json
import tempfile
import warnings
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from cwnet.complexes import ComplexStore
from cwnet.data._graph_files import GraphFileError
from cwnet.data._source import (
    Options,
    Raw,
    Source,
    as_split,
    consecutive_split,
    load_arrays,
    put,
    read_positions,
    read_text,
    reading,
)
from cwnet.data._splits import Split, random_split
from cwnet.errors import LiftingWarning
from cwnet.lifting import Rings

__all__ = ["SOURCES"]

Arrays = dict[str, NDArray[Any]]
_PARTS = ("train", "val", "test")


def _as_store(arrays: Arrays, x: str, edge_x: str) -> ComplexStore:
    """Flat arrays as graphs: features [cells, columns], targets [graphs, outputs] in float32."""
    count = len(arrays["num_nodes"])
    return ComplexStore.from_graphs(
        arrays["num_nodes"],
        arrays["num_edges"],
        arrays["edge"],
        x=arrays[x].reshape(len(arrays[x]), -1),
        edge_x=arrays[edge_x].reshape(len(arrays[edge_x]), -1),
        y=arrays["y"].reshape(count, -1).astype(np.float32),
    )


# ------------------------------------------------------------------------------------------------ ZINC


def _zinc_files(stem: str, options: Options) -> tuple[tuple[str, ...], ...]:
    return (tuple(f"ZINC/{stem}_{part}.npz" for part in _PARTS),)


def _read_zinc(stem: str, raw: Raw) -> ComplexStore:
    """Atoms carry their type (0 to 27) and bonds theirs (1 to 3), [cells, 1], uint8."""
    names = ("num_nodes", "num_edges", "edge", "atom", "bond", "y")
    parts = [load_arrays(raw[file], names) for file in _zinc_files(stem, raw.options)[0]]
    return _as_store({name: np.concatenate([part[name] for part in parts]) for name in names}, "atom", "bond")


def _split_zinc(stem: str, raw: Raw, count: int) -> tuple[Split, ...]:
    """The files one after another."""
    sizes = [len(load_arrays(raw[file], ["num_nodes"])["num_nodes"]) for file in _zinc_files(stem, raw.options)[0]]
    a, b = sizes[0], sizes[0] + sizes[1]
    return (consecutive_split(a, b, count),)


def _download_zinc(stem: str, folder: Path, options: Options) -> None:
    from torch_geometric.datasets import ZINC

    with tempfile.TemporaryDirectory(dir=folder) as root:
        for part in _PARTS:
            arrays = arrays_of_pyg(ZINC(root, subset=stem == "zinc12k", split=part))
            renamed = {"node_feat": "atom", "edge_feat": "bond"}
            save_arrays(folder / f"ZINC/{stem}_{part}.npz", {renamed.get(k, k): v for k, v in arrays.items()})


def arrays_of_pyg(dataset: Any) -> Arrays:
    """The graphs of a PyG `InMemoryDataset` in flat arrays, each edge once, in one pass."""
    data, slices = dataset._data, dataset.slices
    ends, counts = data.edge_index.T, slices["edge_index"].diff()
    once = ends[:, 0] < ends[:, 1]
    graph = torch.repeat_interleave(torch.arange(len(counts)), counts)
    return {
        "num_nodes": slices["x"].diff().numpy(),
        "num_edges": torch.bincount(graph[once], minlength=len(counts)).numpy(),
        "node_feat": _narrow(data.x.numpy()),
        "edge": ends[once].numpy(),
        "edge_feat": _narrow(data.edge_attr[once].numpy()),
        "y": data.y.numpy(),
    }


def _narrow(categories: NDArray[Any]) -> NDArray[Any]:
    return (
        categories.astype(np.uint8)
        if categories.size and 0 <= categories.min() <= categories.max() < 256
        else categories
    )


def save_arrays(path: Path, arrays: Arrays) -> None:
    """Write an ``.npz`` file at once."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    put(path, buffer.getvalue())


# ------------------------------------------------------------------------------------------------ ogbg-molhiv

_HIV = "ogbg-molhiv"
_HIV_SPLIT = tuple(f"{_HIV}/split/scaffold/{part}.txt" for part in ("train", "valid", "test"))


def _hiv_files(options: Options) -> tuple[tuple[str, ...], ...]:
    return ((f"{_HIV}/molhiv_graphs.npz", *_HIV_SPLIT),)


def _read_hiv(raw: Raw) -> ComplexStore:
    """OGB's nine columns for atoms and three for bonds, uint8."""
    return _as_store(load_arrays(raw[f"{_HIV}/molhiv_graphs.npz"]), "node_feat", "edge_feat")


def _split_hiv(raw: Raw, count: int) -> tuple[Split, ...]:
    return (as_split(*(read_positions(raw[file], count) for file in _HIV_SPLIT)),)


def _download_hiv(folder: Path, options: Options) -> None:
    loader: Any = importlib.import_module("ogb.graphproppred").GraphPropPredDataset
    with tempfile.TemporaryDirectory(dir=folder) as root:
        dataset = loader(name=_HIV, root=root)
        positions = dataset.get_idx_split()
        save_arrays(folder / f"{_HIV}/molhiv_graphs.npz", arrays_of_ogb(dataset.graphs, dataset.labels))
    for file, part in zip(_HIV_SPLIT, ("train", "valid", "test"), strict=True):
        put(folder / file, "".join(f"{i}\n" for i in positions[part]).encode())


def arrays_of_ogb(graphs: Iterable[dict[str, Any]], labels: Any) -> Arrays:
    """The graphs of OGB's own loader in flat arrays. It lists every edge as (i, j), (j, i)."""
    graphs = list(graphs)
    return {
        "num_nodes": np.array([g["num_nodes"] for g in graphs]),
        "num_edges": np.array([g["edge_index"].shape[1] // 2 for g in graphs]),
        "node_feat": _narrow(np.concatenate([g["node_feat"] for g in graphs])),
        "edge": np.concatenate([g["edge_index"].T[::2] for g in graphs]),
        "edge_feat": _narrow(np.concatenate([g["edge_feat"][::2] for g in graphs])),
        "y": np.asarray(labels),
    }


# ------------------------------------------------------------------------------------------------ Peptides-func

_PEPTIDES = "peptides-func"
_PEPTIDES_CSV = f"{_PEPTIDES}/peptide_multi_class_dataset.csv.gz"
_PEPTIDES_NPZ = f"{_PEPTIDES}/peptides_func_graphs.npz"
_PEPTIDES_SPLIT = tuple(f"{_PEPTIDES}/split_{part}.txt" for part in _PARTS)


def _peptides_files(options: Options) -> tuple[tuple[str, ...], ...]:
    return (_PEPTIDES_CSV, *_PEPTIDES_SPLIT), (_PEPTIDES_NPZ, *_PEPTIDES_SPLIT)


def _read_peptides(raw: Raw) -> ComplexStore:
    """OGB's columns, from the SMILES of the CSV or as LRGB distributes them; ten labels each."""
    if _PEPTIDES_NPZ in raw.files:
        return _as_store(load_arrays(raw[_PEPTIDES_NPZ]), "node_feat", "edge_feat")
    from cwnet.chem._features import ogb_graphs

    smiles, labels = read_peptides_csv(raw[_PEPTIDES_CSV])
    return ogb_graphs(smiles, labels)


def read_peptides_csv(path: Path) -> tuple[list[str], NDArray[np.float32]]:
    """The SMILES and labels of LRGB's CSV."""
    rows = list(csv.DictReader(io.StringIO(read_text(path))))
    missing = {"smiles", "labels"} - set(rows[0] if rows else ())
    if missing:
        raise GraphFileError(f"it has no column {', '.join(sorted(missing))}", path)
    with reading(path):
        return [row["smiles"] for row in rows], np.array([json.loads(row["labels"]) for row in rows], dtype=np.float32)


def _split_peptides(raw: Raw, count: int) -> tuple[Split, ...]:
    return (as_split(*(read_positions(raw[file], count) for file in _PEPTIDES_SPLIT)),)


def _download_peptides(folder: Path, options: Options) -> None:
    from torch_geometric.datasets import LRGBDataset

    with tempfile.TemporaryDirectory(dir=folder) as root:
        parts = [arrays_of_pyg(LRGBDataset(root, name="Peptides-func", split=part)) for part in _PARTS]
    save_arrays(folder / _PEPTIDES_NPZ, {name: np.concatenate([part[name] for part in parts]) for name in parts[0]})
    start = 0
    for file, part in zip(_PEPTIDES_SPLIT, parts, strict=True):
        stop = start + len(part["num_nodes"])
        put(folder / file, "".join(f"{i}\n" for i in range(start, stop)).encode())
        start = stop


# ------------------------------------------------------------------------------------------------ NCI, within RDKit


def _read_nci(raw: Raw) -> ComplexStore:
    """OGB's columns; the target is ZINC's, computed here (`cwnet.chem._features.penalised_logp`)."""
    from cwnet.chem import nci_smiles, read_smiles
    from cwnet.chem._features import ogb_graphs, penalised_logp

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LiftingWarning)  # that a few do not parse is known, and told in `about`
        molecules = read_smiles(nci_smiles(), on_error="skip")
    y = np.array([[penalised_logp(mol) for mol in molecules]], dtype=np.float32).T
    return replace(ogb_graphs(molecules, y), skipped=molecules.skipped)


def _split_nci(raw: Raw, count: int) -> tuple[Split, ...]:
    return (random_split(count, seed=0),)


_ZINC_FACTS: dict[str, Any] = {
    "home": "https://github.com/graphdeeplearning/benchmarking-gnns",
    "task": "regression",
    "outputs": 1,
    "metric": "mae",
    "lifting": lambda options: Rings(18),
    "notes": "Target: penalised logP. Atoms carry one of 28 types, bonds one of 4.",
}

SOURCES = (
    Source(
        name="zinc",
        title="ZINC, the subset of 12,000 molecules",
        citation="Dwivedi et al., Benchmarking Graph Neural Networks, JMLR 2023; Irwin et al., ZINC, JCIM 2012",
        layouts=partial(_zinc_files, "zinc12k"),
        read=partial(_read_zinc, "zinc12k"),
        split=partial(_split_zinc, "zinc12k"),
        download=partial(_download_zinc, "zinc12k"),
        **_ZINC_FACTS,
    ),
    Source(
        name="zinc-full",
        title="ZINC, all 249,456 molecules",
        citation="Gómez-Bombarelli et al., Automatic Chemical Design, ACS Cent. Sci. 2018; Irwin et al., ZINC, 2012",
        layouts=partial(_zinc_files, "zinc_full"),
        read=partial(_read_zinc, "zinc_full"),
        split=partial(_split_zinc, "zinc_full"),
        download=partial(_download_zinc, "zinc_full"),
        **_ZINC_FACTS,
    ),
    Source(
        name="molhiv",
        title="ogbg-molhiv: does a molecule inhibit HIV?",
        home="https://ogb.stanford.edu/docs/graphprop/",
        citation="Hu et al., Open Graph Benchmark, NeurIPS 2020; Wu et al., MoleculeNet, Chemical Science 2018",
        task="binary",
        outputs=1,
        metric="rocauc",
        lifting=lambda options: Rings(6),
        layouts=_hiv_files,
        read=_read_hiv,
        split=_split_hiv,
        download=_download_hiv,
        notes="Scaffold split. Atoms carry OGB's nine columns, bonds its three.",
    ),
    Source(
        name="peptides-func",
        title="LRGB Peptides-func: ten functions of peptides",
        home="https://github.com/vijaydwivedi75/lrgb",
        citation="Dwivedi et al., Long Range Graph Benchmark, NeurIPS 2022; Singh et al., SATPdb, NAR 2016",
        task="multilabel",
        outputs=10,
        metric="ap",
        lifting=lambda options: Rings(6),
        layouts=_peptides_files,
        read=_read_peptides,
        split=_split_peptides,
        download=_download_peptides,
        rdkit=lambda raw: _PEPTIDES_CSV in raw.files,
        notes="License CC BY-NC 4.0. Atoms carry OGB's nine columns, bonds its three.",
    ),
    Source(
        name="nci",
        title="Molecules of the National Cancer Institute that come with RDKit",
        home="https://www.rdkit.org",
        citation="RDKit: open-source cheminformatics; the target is that of Jin et al., JT-VAE, ICML 2018",
        task="regression",
        outputs=1,
        metric="mae",
        lifting=lambda options: Rings(18),
        read=_read_nci,
        split=_split_nci,
        rdkit=lambda raw: True,
        notes=(
            "Needs no download. Target: penalised logP, standardised with ZINC's constants. Random split, 80/10/10. "
            "Molecules that RDKit does not parse are left out."
        ),
    ),
)
