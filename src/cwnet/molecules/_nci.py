"""A table of molecules that needs no download."""

from __future__ import annotations

import csv
import io
import warnings
from pathlib import Path

from cwnet.chem import nci_smiles, read_smiles
from cwnet.chem._features import penalised_logp
from cwnet.data import MoleculeTable, read_table
from cwnet.data._files import write_whole
from cwnet.errors import LiftingWarning

__all__ = ["nci_table"]


def nci_table(path: str | Path) -> MoleculeTable:
    """Write the molecules that come with RDKit, with their penalised logP, as CSV, and read it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LiftingWarning)  # a few have wrong valences, which is known
        molecules = read_smiles(nci_smiles(), on_error="skip")
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(("smiles", "penalised_logp"))
    for smiles, mol in zip(molecules.smiles, molecules, strict=True):
        writer.writerow((smiles, f"{penalised_logp(mol):.4f}"))
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, buffer.getvalue().encode())
    return read_table(path, "smiles", "penalised_logp")
