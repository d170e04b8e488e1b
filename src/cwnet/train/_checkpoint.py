"""Checkpoints: tensors in a safetensors file, all else in a JSON file that is written last. Nothing is unpickled."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from cwnet._files import is_bare, read_json, read_plain, write_whole
from cwnet.errors import CwnetError
from cwnet.nn import from_config
from cwnet.nn._module import check_sizes
from cwnet.train._errors import CheckpointError

__all__ = ["Checkpoint", "CheckpointWarning", "check_same", "discard_after", "latest", "load_model", "newest", "write"]

_FORMAT, _VERSION = "cwnet checkpoint", 1
_FOLDER = "checkpoints"


class CheckpointWarning(UserWarning):
    """A checkpoint is damaged, and an older one is used."""


@dataclass(frozen=True)
class Checkpoint:
    """A point from which a run goes on.

    Attributes:
        tensors: by name; "model.", "optimiser.", "ema." and "rng." are the state of the steps, "best." the weights of
            the best epoch.
        body: plain data: epoch, batches done, losses of the epoch, history, schedule, recipe, model, versions.
        path: its JSON file.
    """

    tensors: dict[str, Tensor]
    body: dict[str, Any]
    path: Path

    def below(self, prefix: str) -> dict[str, Tensor]:
        """The tensors whose names start so, without that start."""
        return {k.removeprefix(prefix): v for k, v in self.tensors.items() if k.startswith(prefix)}


def write(run: Path, tensors: Mapping[str, Tensor], body: Mapping[str, Any], keep: int) -> Path:
    """Add a checkpoint to the folder of a run; all but the newest `keep` are deleted once it is whole."""
    from safetensors.torch import save

    folder = run / _FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    data = save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})
    digest = _digest(data)
    name = f"{body['epoch']:06d}-{body['batches']:08d}"
    # The name of the tensors holds their hash: a file that another JSON file points to is never written over.
    file = f"{name}-{digest[:12]}.safetensors"
    write_whole(folder / file, data)
    whole = {"format": _FORMAT, "version": _VERSION, **body, "tensors": {"file": file, "hash": digest}}
    path = folder / f"{name}.json"
    write_whole(path, json.dumps({**whole, "hash": _digest_of(whole)}, indent=1).encode())
    _prune(folder, keep)
    return path


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _digest_of(body: Mapping[str, Any]) -> str:
    return _digest(json.dumps(body, sort_keys=True).encode())


def _prune(folder: Path, keep: int) -> None:
    """Delete old checkpoints, and tensors that no JSON file points to. Every checkpoint holds the best weights."""
    bodies = sorted(folder.glob("*.json"))
    for old in bodies[:-keep]:
        old.unlink(missing_ok=True)
    named = set()
    for path in bodies[-keep:]:
        with suppress(ValueError, KeyError, TypeError, OSError):
            named.add(json.loads(path.read_text())["tensors"]["file"])
    for file in folder.glob("*.safetensors"):
        if file.name not in named:
            file.unlink(missing_ok=True)


def latest(run: Path) -> Checkpoint | None:
    """The newest checkpoint that is whole; None where there is none at all.

    Warns:
        CheckpointWarning: for each damaged one that was passed over.

    Raises:
        CheckpointError: where all of them are damaged.
    """
    paths = sorted((run / _FOLDER).glob("*.json"), reverse=True)
    for path in paths:
        try:
            return _read(path)
        except CheckpointError as error:
            warnings.warn(f"{error}: the one before it is used", CheckpointWarning, stacklevel=2)
    if paths:
        raise CheckpointError(f"none of the {len(paths)} checkpoint(s) in {run / _FOLDER} is whole: train anew")
    return None


def newest(run: Path) -> Path | None:
    """The newest checkpoint, looked at from outside only."""
    return max((run / _FOLDER).glob("*.json"), default=None)


def discard_after(checkpoint: Checkpoint) -> None:
    """Delete what is newer than a checkpoint that was chosen: it is damaged."""
    for path in checkpoint.path.parent.glob("*.json"):
        if path.name > checkpoint.path.name:
            path.unlink(missing_ok=True)


def _read(path: Path) -> Checkpoint:
    """A checkpoint, every byte of it compared with its hash."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        body = read_json(path)
        found, expected = body.pop("hash"), _digest_of({k: v for k, v in body.items() if k != "hash"})
        if found != expected:
            raise CheckpointError(f"{path} is damaged: its hash is not that of its content")
        if (body["format"], body["version"]) != (_FORMAT, _VERSION):
            raise CheckpointError(f"{path} is of another version of cwnet")
        if not is_bare(body["tensors"]["file"]):
            raise CheckpointError(f"{path} names tensors elsewhere, {body['tensors']['file']!r}: they lie beside it")
        data = read_plain(path.parent / body["tensors"]["file"])
        if _digest(data) != body["tensors"]["hash"]:
            raise CheckpointError(f"{path.parent / body['tensors']['file']} is damaged: its hash is not the one noted")
        # What lies in a file need not be aligned as PyTorch's own memory is, and not all of PyTorch asks.
        return Checkpoint({name: tensor.clone() for name, tensor in load(data).items()}, body, path)
    except FileNotFoundError as error:
        raise CheckpointError(f"{path} has lost its tensors, {Path(str(error.filename)).name}") from None
    except (ValueError, KeyError, TypeError, AttributeError, OSError, SafetensorError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"{path} is damaged ({type(error).__name__}: {error})") from None


# ------------------------------------------------------------------------------------------------ the same run?


def check_same(checkpoint: Checkpoint, found: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Refuse a checkpoint of another model, recipe, seed or data; the error names the first difference.

    Args:
        checkpoint: what is to be gone on from.
        found: what it is of.
        expected: what it should be of.
    """
    for key, value in expected.items():
        there, here = (json.loads(json.dumps(side)) for side in (found.get(key), value))
        difference = _first_difference(there, here, key)
        if difference:
            where, there, here = difference
            where = where.removeprefix("settings.")  # as one writes it in a recipe
            raise CheckpointError(
                f"{checkpoint.path} is of another run: {where} is {there!r} there and {here!r} here. Give the same "
                "recipe, or another --out"
            )


def _first_difference(a: Any, b: Any, place: str) -> tuple[str, Any, Any] | None:
    if isinstance(a, dict) and isinstance(b, dict):
        for key in [*a, *(k for k in b if k not in a)]:
            if found := _first_difference(a.get(key), b.get(key), f"{place}.{key}"):
                return found
        return None
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return next((d for i in range(len(a)) if (d := _first_difference(a[i], b[i], f"{place}[{i}]"))), None)
    return None if a == b else (place, a, b)


# ------------------------------------------------------------------------------------------------ models


def load_model(folder: str | Path, which: Literal["best", "last"] | None = None) -> torch.nn.Module:
    """The model of a run, in evaluation mode, from nothing but its folder.

    Args:
        folder: of one run.
        which: the weights of the "best" validation epoch or the "last" ones; by default those whose test figure the run
            reports.

    Raises:
        CheckpointError: where there is no whole checkpoint.
    """
    run = Path(folder)
    checkpoint = latest(run)
    if checkpoint is None:
        runs = sorted(path.parent.parent.name for path in run.glob(f"*/{_FOLDER}/*.json"))
        hint = f"give one of the runs in it, such as {run / runs[0]}" if runs else "it is not the folder of a run"
        raise CheckpointError(f"there is no checkpoint in {run}: {hint}")
    try:
        return _rebuilt(checkpoint, which)
    except CwnetError:
        raise
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise CheckpointError(f"{checkpoint.path} describes a model that its weights are not of ({error})") from None


def _rebuilt(checkpoint: Checkpoint, which: Literal["best", "last"] | None) -> torch.nn.Module:
    config = checkpoint.body["model"]
    check_sizes(config, checkpoint.tensors)
    model: torch.nn.Module = from_config(config)
    which = which or ("best" if checkpoint.body["recipe"]["train"]["report"] == "best" else "last")
    last = checkpoint.below("ema.") or checkpoint.below("model.")
    weights = last if which == "last" else checkpoint.below("best.")
    if not weights:
        raise CheckpointError(f"{checkpoint.path} has no best weights: the run had nothing to choose by")
    if any(tensor.dtype == torch.float64 for tensor in weights.values()):
        model = model.double()
    model.load_state_dict(weights)
    return model.eval()
