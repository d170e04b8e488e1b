"""Verbs of the command line in processes of their own, which may be killed, limited or signalled."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import cwnet.cli
from cwnet.chem import nci_smiles
from cwnet.train._checkpoint import latest
from tests.campaign.surface import Wrong

__all__ = ["VERBS", "Ended", "RawTraceback", "Verb", "Verbs", "call"]

RECIPE = """
[data]
name = "ring-transfer"
options = {k = 6, num_train = 40, num_val = 10, num_test = 10}
[model]
width = 8
layers = 2
vertices = "linear"
[train]
epochs = 6
batch_size = 8
checkpoint_every = 1
"""
TRAIN = ("--epochs", "3", "--set", "model.width=8", "--set", "model.layers=1", "--device", "cpu", "-q")


class RawTraceback(Exception):
    """A verb that ended with a traceback."""


class Ended(NamedTuple):
    """How a process ended: its exit code (or a signal's negative), what it said, seconds, and bytes at the most."""

    code: int
    said: str
    seconds: float
    memory: int


def call(
    arguments: list[str],
    folder: Path,
    *,
    after: float | None = None,
    number: int = signal.SIGKILL,
    before: Callable[[], None] | None = None,
    limit: float = 150,
) -> Ended:
    """Run ``cwnet`` with some arguments in a forked process, and signal it after some seconds, if it has not ended.

    Raises:
        RawTraceback: where it says one.
        Wrong: where it has not ended in time.
    """
    process, start, pipe = start_verb(arguments, folder, before)
    return end_verb(process, start, pipe, after, number, limit)


def start_verb(arguments: list[str], folder: Path, before: Callable[[], None] | None) -> tuple[int, float, int]:
    """Fork a process: it has all modules already, so that its time goes into the verb."""
    reading, writing = os.pipe()
    start = time.monotonic()
    process = os.fork()
    if process:
        os.close(writing)
        return process, start, reading
    code: Any = 1
    try:
        os.setsid()
        os.chdir(folder)
        os.dup2(writing, 1)
        os.dup2(writing, 2)
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
        if before is not None:
            before()
        sys.argv = ["cwnet", *arguments]
        cwnet.cli.main()
        code = 0
    except SystemExit as end:
        code = 0 if end.code is None else end.code
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


def end_verb(process: int, start: float, pipe: int, after: float | None, number: int, limit: float) -> Ended:
    """Wait for a process, and signal it on the way."""
    sent = False
    os.set_blocking(pipe, False)
    said = b""

    def listen() -> bytes:
        try:
            return os.read(pipe, 1 << 16)
        except BlockingIOError:
            return b""

    while True:
        said += listen()
        ended, status, usage = os.wait4(process, os.WNOHANG)
        seconds = time.monotonic() - start
        if ended:
            break
        if after is not None and not sent and seconds >= after:
            os.kill(process, number)
            sent = True
        if seconds > limit:
            os.killpg(process, signal.SIGKILL)
            os.waitpid(process, 0)
            os.close(pipe)
            raise Wrong(f"not ended after {limit:g} s: {said.decode(errors='replace')[-500:]}")
        time.sleep(0.002)
    said += listen()
    os.close(pipe)
    text = said.decode(errors="replace")
    if "Traceback (most recent call last)" in text:
        raise RawTraceback(text[-3000:])
    return Ended(os.waitstatus_to_exitcode(status), text, seconds, usage.ru_maxrss * 1024)


class Verb(NamedTuple):
    """A verb that takes a while.

    Attributes:
        first: its arguments.
        again: those with which it is gone on, where they are others.
        result: what it leaves behind, without times, for comparison.
        output: what it must not leave half written: a file; None where a folder is gone on with.
        needs_store: whether it works on a store of `lift`.
    """

    first: list[str]
    result: Callable[[Path], Any]
    again: list[str] | None = None
    output: str | None = None
    needs_store: bool = False


def _bytes(*names: str) -> Callable[[Path], Any]:
    return lambda folder: {name: (folder / name).read_bytes() for name in names}


def _store(name: str, *files: str) -> Callable[[Path], Any]:
    """A store without its name and the time it was made."""

    def read(folder: Path) -> Any:
        manifest = json.loads((folder / name / "manifest.json").read_text())
        del manifest["blake2b"]
        manifest["about"].pop("made", None)
        shards = [(folder / name / shard["file"]).read_bytes() for shard in manifest["shards"]]
        return manifest, shards, [(folder / file).read_bytes() for file in files]

    return read


def _run(folder: Path) -> Any:
    """The last checkpoint of a recipe's run, to the bit."""
    with warnings.catch_warnings(action="ignore"):
        found = latest(folder / "run")
    assert found is not None
    tensors = {name: tensor.numpy().tobytes() for name, tensor in found.tensors.items()}
    return tensors, {key: found.body[key] for key in ("epoch", "best", "schedule", "stopping", "stopped")}


VERBS = {
    "lift": Verb(["lift", "t.csv", "-o", "store", "--shard-rows", "16", "-q"], _store("store", "store/rejects.csv")),
    "dedup": Verb(["dedup", "store", "--write", "new", "-o", "d.csv", "-q"], _store("new", "d.csv"), needs_store=True),
    "predict": Verb(["predict", "t.csv", "-o", "p.csv", "-q"], _bytes("p.csv"), output="p.csv"),
    "fingerprint": Verb(["fingerprint", "t.csv", "-o", "f.csv", "-q"], _bytes("f.csv"), output="f.csv"),
    "fingerprint --cwl": Verb(
        ["fingerprint", "--cwl", "t.csv", "-o", "f.parquet", "--size", "64", "-q"],
        _bytes("f.parquet"),
        output="f.parquet",
    ),
    "wl-scan": Verb(["wl-scan", "t.smi", "-o", "w.csv"], _bytes("w.csv"), output="w.csv"),
    "train TABLE": Verb(
        ["train", "t.csv", "--target-columns", "y", "--out", "m", *TRAIN],
        _bytes(*(f"m/{name}" for name in ("weights.safetensors", "metrics.json", "predictions.csv", "split.json"))),
        ["train", "t.csv", "--target-columns", "y", "--out", "m", *TRAIN, "--resume"],
    ),
    "train RECIPE": Verb(
        ["train", "r.toml", "--out", "run", "--device", "cpu", "-q"],
        _run,
        ["train", "r.toml", "--out", "run", "--device", "cpu", "-q", "--resume"],
    ),
}


class Verbs:
    """Verbs with what they leave behind when nothing disturbs them."""

    def __init__(self, folder: Path, rows: int = 120) -> None:
        self.place = folder
        self.smiles = nci_smiles()[:rows]
        self.known: dict[str, tuple[Any, float]] = {}

    def fresh(self, verb: Verb) -> Path:
        """A new folder with the input of a verb."""
        folder = self.place / f"f{random.getrandbits(60):x}"
        folder.mkdir()
        self.fill(verb, folder)
        return folder

    def fill(self, verb: Verb, folder: Path) -> None:
        """Put the input of a verb into a folder."""
        lines = [f"{s},{len(s)}" for s in [*self.smiles, *self.smiles[:7]]]
        (folder / "t.csv").write_text("\n".join(["smiles,y", *lines]) + "\n")
        (folder / "t.smi").write_text("\n".join(self.smiles) + "\n")
        (folder / "r.toml").write_text(RECIPE)
        if verb.needs_store:
            lifted = self.place / "lifted"
            if not lifted.exists():
                other = self.fresh(VERBS["lift"])
                assert call(VERBS["lift"].first, other).code == 0
                (other / "store").rename(lifted)
            shutil.copytree(lifted, folder / "store")

    def right(self, name: str) -> tuple[Any, float]:
        """What a verb leaves behind undisturbed, and how long it takes."""
        if name not in self.known:
            folder = self.fresh(VERBS[name])
            ended = call(VERBS[name].first, folder)
            assert ended.code == 0, ended.said
            self.known[name] = VERBS[name].result(folder), ended.seconds
            shutil.rmtree(folder)
        return self.known[name]

    def finish(self, name: str, folder: Path) -> None:
        """Run a verb once more after it was stopped, as its user would, and compare what it leaves behind."""
        verb = VERBS[name]
        ended = call(verb.again or verb.first, folder)
        if ended.code == 2 and verb.again is not None:  # it had not begun
            ended = call(verb.first, folder)
        if ended.code == 2 and "delete" in ended.said:  # it says what is in the way
            for left in ("new", "store", "m", "run"):
                if left in ended.said and not (left == "store" and verb.needs_store):
                    shutil.rmtree(folder / left, ignore_errors=True)
            ended = call(verb.first, folder)
        if ended.code != 0:
            raise Wrong(f"{name} does not go on: {ended.code} {ended.said[-500:]}")
        if verb.result(folder) != self.right(name)[0]:
            raise Wrong(f"{name} left something else behind than undisturbed")
