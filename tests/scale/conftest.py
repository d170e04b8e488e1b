import gzip
import json

import pytest

pytest.importorskip("rdkit")
pytest.importorskip("pyarrow")

MOLECULES = ["CCO", "c1ccccc1", "C1CCCCC1O", "CC(=O)Oc1ccccc1C(=O)O", "CN1C=NC2=C1C(=O)N(C(=O)N2C)C", "C1CC1", "CCN"]


@pytest.fixture
def tables(tmp_path):
    """Two tables of 40 rows each, one of them gzipped, with a row that is no molecule and one with a field too many."""
    folder = tmp_path / "in"
    folder.mkdir()
    rows = [f"{MOLECULES[i % 7]},{i},{'x' * (i % 3)}" for i in range(80)]
    rows[13] = "no molecule,13,"
    rows[50] = "CCO,50,,,a,b"
    head = "smiles,number,text\n"
    (folder / "a.csv").write_text(head + "\n".join(rows[:40]) + "\n")
    with gzip.open(folder / "b.csv.gz", "wt") as file:
        file.write(head + "\n".join(rows[40:]) + "\n")
    return folder


def contents(folder):
    """All files of a store, the manifest without the time it was made."""
    found = {file.name: file.read_bytes() for file in folder.iterdir()}
    manifest = json.loads(found.pop("manifest.json"))
    manifest["about"].pop("made")
    manifest.pop("blake2b")
    return found, manifest
