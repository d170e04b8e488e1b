"""Tables whose bytes were changed."""

from __future__ import annotations

import gzip
import random
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from cwnet.data import iterate_table, read_table
from cwnet.errors import CwnetError
from tests.campaign.mutations import mutated_bytes
from tests.campaign.surface import OK, REFUSED, Surface, Wrong


class Tables(NamedTuple):
    """A folder, and tables as bytes by their suffix."""

    folder: Path
    known: dict[str, bytes]


def prepare(folder: Path) -> Tables:
    """One table in all forms."""
    rows = [
        ("c1ccccc1O", 1.5, "yes"),
        ("CCO", -2.0, "no"),
        ("C[C@H](N)C(=O)O", 3e5, "no"),
        ("CC(=O)O", 0.25, "yes"),
    ] * 4
    text = "smiles,value,class\n" + "".join(f"{s},{v},{c}\n" for s, v, c in rows)
    smi = "".join(f"{s} name {i}\n" for i, (s, _, _) in enumerate(rows))
    columns = {name: [row[i] for row in rows] for i, name in enumerate(("smiles", "value", "class"))}
    pq.write_table(pa.table(columns), folder / "whole.parquet", row_group_size=5)
    known = {
        "csv": text.encode(),
        "tsv": text.replace(",", "\t").encode(),
        "txt": text.replace(",", ";").replace("\n", "\r\n").encode(),
        "smi": smi.encode(),
        "csv.gz": gzip.compress(text.encode()),
        "parquet": (folder / "whole.parquet").read_bytes(),
        "quoted.csv": text.replace("CCO", '"CC\nO"').replace("yes", '"y""es, or so"').encode(),
    }
    return Tables(folder, known)


def attack(chance: random.Random, tables: Tables) -> str:
    """A table read at once and piece by piece: the same rows, the same rejects, or the same refusal."""
    suffix = chance.choice(list(tables.known))
    data = mutated_bytes(chance, tables.known[suffix], chance.choice([1, 1, 2, 4]))
    path = tables.folder / f"t.{suffix}"
    path.write_bytes(data)
    options: dict[str, Any] = chance.choice(
        [
            {},
            {},
            {"target_columns": ()},
            {"target_columns": "value"},
            {"target_columns": "class"},
            {"header": False},
            {"strict": True},
            {"target_columns": "value", "task": "regression"},
            {"smiles_column": "smiles"},
        ]
    )
    # Where no column is called so, it is found by what is in it, and in pieces by the first of them.
    named = "smiles_column" in options or (options.get("header", True) and data.startswith(b"smiles"))
    rows = chance.choice([1, 3, 100]) if named and suffix != "parquet" else 100
    with warnings.catch_warnings(action="ignore"):
        whole = tried(lambda: read_table(path, **options))
        pieces = tried(lambda: list(iterate_table(path, chunk_rows=rows, **options)))
    if (whole is None) != (pieces is None):
        raise Wrong(f"{suffix} {options} {data!r}: refused {'at once' if whole is None else 'in pieces'} only")
    if whole is None or pieces is None:
        return REFUSED
    if [s for piece in pieces for s in piece.smiles] != list(whole.smiles):
        raise Wrong(f"{suffix} {options} {data!r}: other SMILES in pieces")
    if [r for piece in pieces for r in piece.rows.tolist()] != whole.rows.tolist():
        raise Wrong(f"{suffix} {options} {data!r}: other rows in pieces")
    if [r.row for piece in pieces for r in piece.rejects] != [r.row for r in whole.rejects]:
        raise Wrong(f"{suffix} {options} {data!r}: other rejects in pieces")
    return OK


def tried(read: Any) -> Any:
    """What was read; None where it was refused."""
    try:
        return read()
    except CwnetError:
        return None


SURFACE = Surface(
    "tables", "a table of molecules with bytes changed, read at once and in pieces", attack, prepare, 20, 100_000
)
