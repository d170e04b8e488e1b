"""Train the model that comes with the package: penalised logP, on the 12,000 molecules of ZINC's subset.

    CWNET_DATA=/path/to/data python tools/train_builtin.py

Needs below the folder of data, in ZINC: ``smiles_{train,val,test}.txt.gz`` (the molecules of ZINC-FULL, one SMILES per
line), ``zinc12k_{train,val,test}.index`` (the lines that are the subset) and ``zinc12k_{train,val,test}.npz`` (their
targets, y). Writes src/cwnet/molecules/models/zinc.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from cwnet.data import read_table
from cwnet.molecules import MoleculeModel, Settings, Trained, train_table
from cwnet.molecules._train import measure

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "src" / "cwnet" / "molecules" / "models" / "zinc"
TARGET = "penalised_logp"
PARTS = ("train", "val", "test")
#: Small enough to come with the package: the weights are 0.7 MB.
CHANGES = ("model.width=48",)


def write_table(data: Path, path: Path) -> None:
    """The subset as a table: SMILES, target, and which part a molecule belongs to."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("smiles", TARGET, "split"))
        for part in PARTS:
            with gzip.open(data / f"smiles_{part}.txt.gz", "rt", encoding="utf-8") as lines:
                smiles = lines.read().splitlines()
            index = [int(i) for i in (data / f"zinc12k_{part}.index").read_text().split(",")]
            y = np.load(data / f"zinc12k_{part}.npz", allow_pickle=False)["y"]
            writer.writerows((smiles[i], f"{value:.6g}", part) for i, value in zip(index, y, strict=True))


def figures(trained: Trained, part: str) -> dict[str, float]:
    """The figures of a part, in the units of the target."""
    prepared, index = trained.prepared, getattr(trained.prepared.split, part)
    found = trained.model.predict(prepared.store.select(index)).mean
    return measure(trained.model.targets, prepared.values[index], found)[TARGET]


def described(trained: Trained, command: str) -> MoleculeModel:
    """The model with a word on what it is."""
    about = dict(trained.model.about)
    about |= {
        "data": "ZINC, the subset of 12,000 molecules (10,000 to train on, 1,000 to choose by, 1,000 to test on) and "
        "their target, the penalised logP: logP - SA - cycle, each standardised over the molecules of ZINC",
        "validation": figures(trained, "val"),
        "test": figures(trained, "test"),
        "made_by": command,
    }
    return replace(trained.model, about=about)


def main() -> int:
    """Train and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=90)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    if not os.environ.get("CWNET_DATA"):
        raise SystemExit("set CWNET_DATA to the folder that has ZINC")
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder, "zinc.csv")
        write_table(Path(os.environ["CWNET_DATA"], "ZINC"), table)
        settings = Settings("column:split", epochs=options.epochs, changes=CHANGES)
        trained = train_table(read_table(table, "smiles", TARGET), Path(folder, "model"), settings)
        model = described(trained, f"python tools/train_builtin.py --epochs {options.epochs}")
    model.save(options.out)
    with torch.no_grad():
        benzene = float(MoleculeModel.load(options.out).predict(["c1ccccc1"]).mean)
    print(f"validation {model.about['validation']}, test {model.about['test']}, benzene {benzene:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
