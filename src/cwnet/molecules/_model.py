"""A trained model of molecules: its networks, and all that is needed to use them. Kept as a folder."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor

from cwnet.chem import Featuriser
from cwnet.complexes import ComplexBatch, ComplexStore
from cwnet.data._files import is_bare, read_json, read_plain, write_whole
from cwnet.errors import CwnetError
from cwnet.molecules._targets import Targets
from cwnet.nn import CIN, from_config, to_config

__all__ = ["ModelError", "MoleculeModel", "Prediction"]

#: Version 2 has a hash of itself; version 1, written before, has none, and is read as it is.
_FORMAT, _VERSION = "cwnet molecule model", 2
_FILE = "model.json"
#: Molecules of a batch, and their cells together, at the most: a cell takes some two kilobytes.
_BATCH, _CELLS = 256, 65_536


class ModelError(CwnetError, ValueError):
    """A model folder that is not there, not whole, or of another version."""


@dataclass(frozen=True, eq=False)
class Prediction:
    """What a model says of molecules.

    Attributes:
        mean: values, or probabilities of classes (of the second one where there are two), [molecules, outputs]:
            the mean over the networks of the model.
        std: their standard deviation over the networks; None where there is one network only.
    """

    mean: Tensor
    std: Tensor | None


@dataclass(frozen=True, eq=False)
class MoleculeModel:
    """Networks that were trained alike on different seeds, with the featuriser and the targets they belong to.

    Attributes:
        featuriser: makes complexes of molecules.
        targets: what is predicted.
        members: the networks, in evaluation mode.
        residuals: |y - prediction| of the validation part, [molecules, columns], NaN where empty; None for classes.
        about: plain data: figures, settings, versions.
    """

    featuriser: Featuriser
    targets: Targets
    members: Sequence[CIN]
    residuals: Tensor | None = None
    about: Mapping[str, Any] = field(default_factory=dict)

    # -------------------------------------------------------------------------------------------- use

    @property
    def device(self) -> torch.device:
        """Where the networks are."""
        return next(self.members[0].parameters()).device

    def to(self, device: torch.device | str) -> MoleculeModel:
        """The same model elsewhere."""
        for member in self.members:
            member.to(device)
        return self

    def predict(self, molecules: ComplexStore | Sequence[str]) -> Prediction:
        """Predict molecules: SMILES, or complexes that the featuriser made.

        Raises:
            GraphError: for a SMILES that can not be read, with its position.
        """
        store = molecules if isinstance(molecules, ComplexStore) else self.featuriser(molecules)
        each = torch.stack([self.targets.decode(self._outputs(member, store)) for member in self.members])
        mean = each.mean(0)
        return Prediction(mean, (each - mean).square().mean(0).sqrt() if len(each) > 1 else None)

    def _outputs(self, member: CIN, store: ComplexStore) -> Tensor:
        with torch.no_grad():
            found = [member(batch).cpu() for batch in self.batches(store)]
        return torch.cat(found) if found else torch.zeros(0, self.targets.outputs)

    def embed(self, molecules: ComplexStore | Sequence[str]) -> Tensor:
        """The vectors that the networks make of molecules before they predict, side by side: [molecules, width]."""
        store = molecules if isinstance(molecules, ComplexStore) else self.featuriser(molecules)
        with torch.no_grad():
            found = [torch.cat([m.embed(batch) for m in self.members], 1).cpu() for batch in self.batches(store)]
        return torch.cat(found) if found else torch.zeros(0, self.embedding_width)

    @property
    def embedding_width(self) -> int:
        """How long the vectors of `embed` are."""
        width: int = self.embed(["C"]).shape[1]
        return width

    def batches(self, store: ComplexStore) -> Iterator[ComplexBatch]:
        """The complexes of a store, some at a time, where the networks are."""
        part: list[int] = []
        room = _CELLS
        for i, cells in enumerate(torch.stack([ptr.diff() for ptr in store.cell_ptr]).sum(0).tolist()):
            if part and (len(part) == _BATCH or cells > room):
                yield store.batch(part).to(self.device)
                part, room = [], _CELLS
            part.append(i)
            room -= cells
        if part:
            yield store.batch(part).to(self.device)

    def half_width(self, level: float) -> list[float]:
        """Half the width of the interval around a prediction that holds the value with this probability, per column.

        Split conformal prediction: the ⌈(n + 1) level⌉-th smallest of the n residuals of the validation part. It holds
        for molecules like those, on average over them.

        Raises:
            ModelError: where there are too few of them for such a level, or the model predicts classes.
        """
        if not 0 < level < 1:
            raise ModelError(f"the level {level:g} of an interval must lie between 0 and 1, as in 0.9")
        if self.residuals is None:
            raise ModelError("there are intervals for numbers only, and this model predicts classes")
        widths = []
        for name, column in zip(self.targets.names, self.residuals.T, strict=True):
            known = column[~column.isnan()].sort().values
            rank = math.ceil((len(known) + 1) * level)
            if rank > len(known):
                raise ModelError(
                    f"{len(known)} validation molecules have {name!r}, too few for intervals of {level:.0%}: choose a "
                    "lower level, or none with --interval 0"
                )
            widths.append(float(known[rank - 1]))
        return widths

    # -------------------------------------------------------------------------------------------- files

    def save(self, folder: str | Path) -> None:
        """Write the model into a folder: tensors in safetensors, all else in ``model.json``, which is written last."""
        from safetensors.torch import save

        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        tensors = {
            f"{i}.{k}": v.cpu().contiguous() for i, m in enumerate(self.members) for k, v in m.state_dict().items()
        }
        if self.residuals is not None:
            tensors["residuals"] = self.residuals.contiguous()
        data = save(tensors)
        body = {
            "format": _FORMAT,
            "version": _VERSION,
            "featuriser": self.featuriser.to_dict(),
            "targets": self.targets.to_dict(),
            "network": to_config(self.members[0]),
            "members": len(self.members),
            "weights": {"file": "weights.safetensors", "hash": _digest(data)},
            "about": dict(self.about),
        }
        body["hash"] = _self_hash(body)
        write_whole(folder / "weights.safetensors", data)
        write_whole(folder / _FILE, (json.dumps(body, indent=2, allow_nan=False) + "\n").encode())

    @classmethod
    def load(cls, folder: str | Path) -> MoleculeModel:
        """Read what `save` wrote, or a model that comes with cwnet: one of `builtin_models`, as in ``load("zinc")``.

        Raises:
            ModelError: for a folder that is no model, of another version, or damaged.
        """
        from safetensors.torch import load

        from cwnet.molecules._builtin import builtin_folder, builtin_models

        if not Path(folder).exists() and str(folder) in builtin_models():
            folder = builtin_folder(str(folder))
        folder = Path(folder)
        body = _read_body(folder)
        try:
            name = body["weights"]["file"]
            if not is_bare(name):
                raise ModelError(f"{folder / _FILE} names {name!r} as its weights, which is not a file of this folder")
            data = read_plain(folder / name)
            if _digest(data) != body["weights"]["hash"]:
                raise ModelError(f"{folder / name} is damaged: its hash is not the one noted")
            tensors = {name: tensor.clone() for name, tensor in load(data).items()}
            members = _members(body["network"], body["members"], tensors)
            targets = Targets.from_dict(body["targets"])
            featuriser = Featuriser.from_dict(body["featuriser"])
            model = cls(featuriser, targets, members, tensors.get("residuals"), dict(body["about"]))
            model._check()
        except ModelError:
            raise
        except FileNotFoundError as error:
            raise ModelError(f"{folder} has lost its weights, {Path(str(error.filename)).name}") from None
        except OSError as error:
            raise ModelError(f"{error.filename} {error.strerror}: it is not what train wrote") from None
        except _DAMAGES as error:
            said = " ".join(str(error).split())
            raise ModelError(f"{folder} is damaged ({type(error).__name__}: {said:.300}): train it anew") from None
        return model

    def _check(self) -> None:
        """Refuse networks that do not give what the targets are."""
        outputs = self._outputs(self.members[0], self.featuriser(["C"])).shape[1]
        if outputs != self.targets.outputs:
            raise ValueError(f"the network gives {outputs} numbers, and the targets are {self.targets.outputs}")
        if self.residuals is not None and self.residuals.shape[1:] != (len(self.targets.names),):
            raise ValueError(f"residuals of shape {tuple(self.residuals.shape)} for {len(self.targets.names)} targets")


#: What reading a file in good faith raises where someone has changed it.
_DAMAGES = (
    AttributeError, IndexError, KeyError, OverflowError, RuntimeError, TypeError, ValueError, SafetensorError,
)  # fmt: skip


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _self_hash(body: Mapping[str, Any]) -> str:
    """The hash of all of ``model.json`` but the hash itself."""
    rest = {key: value for key, value in body.items() if key != "hash"}
    return _digest(json.dumps(rest, sort_keys=True).encode())


def _members(config: Any, count: Any, tensors: Mapping[str, Tensor]) -> list[CIN]:
    """The networks. Nothing is allocated before all shapes are known to be those of the weights that are there."""
    most = sum(tensor.numel() for tensor in tensors.values())
    if type(count) is not int or not 0 < count <= len(tensors):
        raise ValueError(f"{count!r} networks of {len(tensors)} tensors")
    for number in _whole_numbers(config):
        if not abs(number) <= max(most, 1_024):  # every width, size and depth takes as many weights
            raise ValueError(f"a network with {number} in it, of {most} weights")
    with torch.device("meta"):
        wanted = {name: tensor.shape for name, tensor in from_config(config).state_dict().items()}
    members = []
    for i in range(count):
        weights = {k.removeprefix(f"{i}."): v for k, v in tensors.items() if k.startswith(f"{i}.")}
        found = {name: tensor.shape for name, tensor in weights.items()}
        if found != wanted:
            name = next(name for name in {**wanted, **found} if wanted.get(name) != found.get(name))
            raise ValueError(f"{name} of network {i} is {found.get(name)}, and should be {wanted.get(name)}")
        members.append(from_config(config))
        members[-1].load_state_dict(weights)
        members[-1].eval()
    return members


def _whole_numbers(config: Any) -> Iterator[int]:
    """All whole numbers in plain data."""
    if isinstance(config, Mapping):
        config = list(config.values())
    if isinstance(config, list):
        for item in config:
            yield from _whole_numbers(item)
    elif isinstance(config, int):
        yield config


def _read_body(folder: Path) -> dict[str, Any]:
    """``model.json``, if it is one of ours."""
    path = folder / _FILE
    if not path.exists():
        unfinished = (folder / "training").is_dir()
        hint = "its training has not ended: go on with --resume" if unfinished else "give the folder that train wrote"
        raise ModelError(f"{folder} is not a model: there is no {_FILE} in it; {hint}")
    try:
        body = read_json(path)
        kind, version = body["format"], body["version"]
    except (OSError, ValueError, KeyError, TypeError):
        raise ModelError(f"{path} is damaged, or not a model of cwnet") from None
    if kind != _FORMAT or version not in (1, _VERSION):
        raise ModelError(
            f"{path} is a {kind!r} of version {version}, and this cwnet reads version {_VERSION}: use the cwnet that "
            "wrote it, or train it anew"
        )
    if body.get("hash") != (_self_hash(body) if version > 1 else None):
        raise ModelError(f"{path} was changed after it was written (its hash differs): train it anew")
    whole: dict[str, Any] = body
    return whole
