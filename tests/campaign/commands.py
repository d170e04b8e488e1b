"""Command lines of nonsense, and paths that lead to what is no file."""

from __future__ import annotations

import gzip
import os
import random
import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner

from cwnet.chem import nci_smiles
from cwnet.cli import app
from tests.campaign.mutations import mutated
from tests.campaign.surface import OK, REFUSED, Surface, Wrong
from tests.campaign.verbs import RawTraceback

NUMBERS = ("0", "1", "-1", "2", "1.5", "nan", "inf", "1e99", str(2**31), str(2**63), str(2**70), "", "x", "0x10", "１")
LIFTINGS = (
    "rings:6",
    "rings:0",
    "rings:-1",
    "rings:99999999999",
    "cliques:4|rings:5",
    "none",
    "",
    "|",
    "rings",
    "cycles:3",
    "rings:6:7",
    "cliques:1000000",
    "foo:3",
    "rings:١",
)
OPTIONS = {
    "predict": {
        "-o": "out",
        "--smiles-column": "text",
        "--interval": NUMBERS,
        "--json": None,
        "-q": None,
        "--no-header": None,
        "--device": ("cpu", "cuda", "gpu", ""),
    },
    "fingerprint": {
        "-o": "out",
        "--cwl": None,
        "--size": NUMBERS,
        "--rounds": NUMBERS,
        "--rings": LIFTINGS,
        "--json": None,
        "-q": None,
        "--no-header": None,
        "--smiles-column": "text",
    },
    "explain": {"-o": "out", "--json": None, "--target": "text", "--most": ("1", "0", "-1", "x"), "-q": None},
    "wl": {
        "--test": ("cwl", "wl", "2-fwl", "9-fwl", "", "foo,wl", "swl"),
        "--lifting": LIFTINGS,
        "--html": "out",
        "--simplify": None,
        "--no-labels": None,
    },
    "wl-scan": {
        "-o": "out",
        "--test": ("cwl", "wl", "foo"),
        "--lifting": LIFTINGS,
        "--strict": None,
        "--simplify": None,
    },
    "lift": {
        "-o": "out",
        "--lifting": LIFTINGS,
        "--shard-rows": NUMBERS,
        "--max-cells": NUMBERS,
        "--target-columns": "text",
        "--json": None,
        "-q": None,
        "--no-header": None,
    },
    "dedup": {"-o": "out", "--write": "out", "--json": None, "-q": None},
    "data verify": {},
    "train": {
        "--show": None,
        "--set": ("train.epochs=1", "x=1", "=", "train.lr=nan", "model.width=-1", "", "train.epochs"),
        "--seeds": ("0-3", "3-0", "-1", "", str(2**70), "0-" + str(2**70)),
        "--epochs": NUMBERS,
    },
}


def prepare(folder: Path) -> list[str]:
    """Everything that a path can lead to."""
    (folder / "t.csv").write_text("smiles,y\n" + "".join(f"{s},{i}\n" for i, s in enumerate(nci_smiles()[:5])))
    (folder / "t.smi").write_text("CCO a\nc1ccccc1 b\nno c\n")
    (folder / "g.g6").write_text("D?{\nDQc\n")
    (folder / "bad.csv").write_bytes(b'smiles,y\n"CC,1\n\xff,2\n[#119],3\n')
    (folder / "empty.csv").touch()
    (folder / "cut.csv.gz").write_bytes(gzip.compress(b"smiles\nC\n" * 99)[:-9])
    (folder / "cut.parquet").write_bytes(b"PAR1 and so on")
    (folder / "folder.csv").mkdir()
    (folder / "a folder").mkdir()
    os.mkfifo(folder / "pipe.csv")
    (folder / "zero.csv").symlink_to("/dev/zero")
    (folder / "loop.csv").symlink_to("loop.csv")
    (folder / "lost.csv").symlink_to("nowhere")
    (folder / "link.csv").symlink_to("t.csv")
    (folder / "new\nline.csv").write_text("smiles\nC\n")
    (folder / "\x1b[2Jred.csv").write_text("smiles\nC\n")
    return [
        "t.csv",
        "t.csv",
        "t.smi",
        "t.smi",
        "g.g6",
        "bad.csv",
        "empty.csv",
        "cut.csv.gz",
        "cut.parquet",
        "folder.csv",
        "a folder",
        "pipe.csv",
        "zero.csv",
        "loop.csv",
        "lost.csv",
        "link.csv",
        "new\nline.csv",
        "\x1b[2Jred.csv",
        "missing.csv",
        ".",
        "..",
        "",
        "-",
        "--",
        "-x",
        "/dev/null",
        "/proc/self/mem",
        "x" * 300 + ".csv",
        "é.csv",
        "t.csv/x.csv",
        "zinc",
        "CCO",
        "C1CC",
        "[#119]",
        "c1ccccc1",
        "C" * 400,
        "no-such-model",
    ]


RECIPES = ("zinc-cin", "csl-gin", "no-such", "missing.toml", "a folder", "zinc-cin.toml")
OUTPUTS = (
    "o.csv",
    "o.npz",
    "o.parquet",
    "o.svg",
    "o.html",
    "o",
    "no/such/o.csv",
    ".",
    "",
    "/dev/null",
    "/dev/full",
    "a folder",
    "t.csv/o.csv",
    "loop.csv",
    "o" * 300,
    "o.xyz",
    "folder.csv",
)


def attack(chance: random.Random, paths: list[str]) -> str:
    """One command line, in this process, or now and then in one of its own."""
    verb = chance.choice(list(OPTIONS))
    line = verb.split()
    for _ in range(chance.choice([0, 1, 1, 1, 2, 2, 3])):
        path = chance.choice(paths)
        line.append(mutated(chance, path, 1) if chance.random() < 0.1 else path)
    for option in chance.sample(list(OPTIONS[verb]), min(len(OPTIONS[verb]), chance.choice([0, 1, 1, 2, 3]))):
        values = OPTIONS[verb][option]
        pool = OUTPUTS if values == "out" else ("smiles", "y", "", "no", "\x1b[2J", "é") if values == "text" else values
        line += [option] if pool is None else [option, chance.choice(pool)]
    if verb == "train":  # recipes are shown, and nothing is trained
        line = [*line, "--show"] if line[1:2] == ["zinc"] else ["train", chance.choice(RECIPES), *line[1:], "--show"]
    line = [word.replace("\0", "") for word in line]  # which no system passes on
    before = {file: file.read_bytes() for file in map(Path, ("t.csv", "t.smi", "g.g6"))}
    try:
        code, said = called(chance, line)
    finally:
        clear()
    for file, data in before.items():
        if file.read_bytes() != data:
            file.write_bytes(data)
            raise Wrong(f"{line} changed {file}")
    if "Traceback (most recent call last)" in said:
        raise RawTraceback(f"{line}: {said[-3000:]}")
    if code not in (0, 1, 2):
        raise Wrong(f"{line}: exit code {code}: {said[-500:]}")
    if "\x1b[2J" in said:
        raise Wrong(f"{line} lets a text command the terminal")
    return OK if code == 0 else REFUSED


def called(chance: random.Random, line: list[str]) -> tuple[int, str]:
    """The exit code of a command line and what it prints."""
    if chance.random() < 0.02:
        ended = subprocess.run(
            [sys.executable, "-m", "cwnet", *line], capture_output=True, text=True, errors="replace", check=False
        )
        return ended.returncode, ended.stdout + ended.stderr
    found = CliRunner().invoke(app, line)
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise RawTraceback(f"{line}") from found.exception
    return found.exit_code, found.output


def clear() -> None:
    """Take away what was written."""
    import shutil

    for file in Path().iterdir():
        if file.name.startswith("o") or file.name in ("1", "2"):
            shutil.rmtree(file) if file.is_dir() else file.unlink()
    for kept in ("a folder", "folder.csv"):
        shutil.rmtree(kept, ignore_errors=True)
        Path(kept).mkdir()


SURFACE = Surface(
    "command lines", "arguments of nonsense, and paths to pipes, devices, loops and folders", attack, prepare, 90, 2_000
)
