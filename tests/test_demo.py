"""The demo runs, and makes what it promises."""

import re
import runpy
import sys
from pathlib import Path

import pytest

pytest.importorskip("rdkit")

DEMO = Path(__file__).parent.parent / "examples" / "demo.py"


def test_the_demo(tmp_path, monkeypatch, capsys):
    from cwnet.chem import nci_smiles

    monkeypatch.setattr("cwnet.chem.nci_smiles", lambda: nci_smiles()[:400])
    monkeypatch.setattr("cwnet.molecules._nci.nci_smiles", lambda: nci_smiles()[:200])
    monkeypatch.setattr(sys, "argv", ["demo.py", "--out", str(tmp_path), "--epochs", "1"])
    for _ in range(2):  # the second one starts anew
        runpy.run_path(str(DEMO), run_name="__main__")
    said = capsys.readouterr().out
    for name in ("gallery.png", "molecule.png", "model/parity.png", "aspirin.svg", "explained.html"):
        assert (tmp_path / name).stat().st_size > 1_000
    assert re.search(r"On \d+ others it is\s+off by", said)
    assert "caffeine" in said
