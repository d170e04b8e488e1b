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
from torch import Tensor

from cwnet.chem import Featuriser
from cwnet.complexes import ComplexBatch, ComplexStore
from cwnet.data._files import is_bare, read_json, read_plain, write_whole
from cwnet.errors import CwnetError
from cwnet.molecules._targets import Targets
from cwnet.nn import CIN, from_config, to_config

__all__ = ["ModelError", "MoleculeModel", "Prediction"]

_FORMAT, _VERSION = "cwnet molecule model", 1
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
        write_whole(folder / "weights.safetensors", data)
        write_whole(folder / _FILE, (json.dumps(body, indent=2, allow_nan=False) + "\n").encode())

    @classmethod
    def load(cls, folder: str | Path) -> MoleculeModel:
        """Read what `save` wrote, or a model that comes with cwnet: one of `builtin_models`, as in ``load("zinc")``.

        Raises:
            ModelError: for a folder that is no model, of another version, or damaged.
        """
        from safetensors import SafetensorError
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
            members = [_member(body["network"], tensors, i) for i in range(body["members"])]
            targets = Targets.from_dict(body["targets"])
        except FileNotFoundError as error:
            raise ModelError(f"{folder} has lost its weights, {Path(str(error.filename)).name}") from None
        except OSError as error:
            raise ModelError(f"{error.filename} {error.strerror}: it is not what train wrote") from None
        except (KeyError, TypeError, RuntimeError, SafetensorError) as error:
            raise ModelError(f"{folder} is damaged ({type(error).__name__}: {error}): train it anew") from None
        featuriser = Featuriser.from_dict(body["featuriser"])
        return cls(featuriser, targets, members, tensors.get("residuals"), body["about"])


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _member(config: Any, tensors: Mapping[str, Tensor], number: int) -> CIN:
    member: CIN = from_config(config)
    prefix = f"{number}."
    member.load_state_dict({k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)})
    return member.eval()


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
    if kind != _FORMAT or version != _VERSION:
        raise ModelError(
            f"{path} is a {kind!r} of version {version}, and this cwnet reads version {_VERSION}: use the cwnet that "
            "wrote it, or train it anew"
        )
    whole: dict[str, Any] = body
    return whole
