"""Several models as one that predicts their mean, kept as a folder of their folders."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import safetensors.numpy
import torch
from torch import Tensor

from cwnet.chem import Featuriser
from cwnet.complexes import ComplexStore
from cwnet.data._files import is_bare, read_json, read_plain, write_whole
from cwnet.molecules._inputs import Inputs, Wanted
from cwnet.molecules._levels import Level
from cwnet.molecules._model import (
    _FILE,
    MEAN_FORMAT,
    ModelError,
    MoleculeModel,
    Prediction,
    _digest,
    _read_part,
    _reading,
    _reference,
    _self_hash,
    read_uncertainty,
)
from cwnet.molecules._targets import Targets
from cwnet.molecules._trust import Reference
from cwnet.molecules._uncertainty import Uncertainty

__all__ = ["AnyModel", "MeanModel", "load_model"]

_VERSION = 1


@dataclass(frozen=True, eq=False)
class MeanModel:
    """Models of the same targets, such as those of the folds of a cross-validation, that predict their mean.

    Attributes:
        members: the models. They have the same targets, but for their scales, and see the same of molecules.
        uncertainty: how wide intervals are, calibrated on all molecules, each predicted by the model that had not seen
            it; None for classes.
        reference: molecules of the whole table to compare others with.
        about: plain data: figures, settings, versions.
    """

    members: Sequence[MoleculeModel]
    uncertainty: Uncertainty | None = None
    reference: Reference | None = None
    about: Mapping[str, Any] = field(default_factory=dict)

    # -------------------------------------------------------------------------------------------- use

    @cached_property
    def _first(self) -> MoleculeModel:
        """The first model, with what intervals and novelty are made of for all."""
        return replace(self.members[0], uncertainty=self.uncertainty, reference=self.reference)

    @property
    def targets(self) -> Targets:
        """What is predicted; its scale is that of the first model."""
        return self._first.targets

    @property
    def level(self) -> Level:
        """What is predicted: molecules; folds are not made of atoms or bonds."""
        return self._first.level

    @property
    def featuriser(self) -> Featuriser:
        """Makes complexes of molecules."""
        return self._first.featuriser

    @property
    def wanted(self) -> Wanted:
        """What has to be known of molecules beside their complexes."""
        return self._first.wanted

    @property
    def several(self) -> bool:
        """Whether there are several parts, which may differ."""
        return len(self.members) > 1 or self._first.several

    @property
    def device(self) -> torch.device:
        """Where the networks are."""
        return self._first.device

    def to(self, device: torch.device | str) -> MeanModel:
        """The same model elsewhere."""
        for member in self.members:
            member.to(device)
        return self

    def predict(self, molecules: Inputs | ComplexStore | Sequence[str], *, threads: int | None = None) -> Prediction:
        """Predict molecules, as `MoleculeModel.predict` does: the mean over the models.

        With p the prediction of a model and s its `std`, `std` is the square root of the mean of s² + (p - mean)²;
        `spread` is the mean of theirs, and so are `below` and `above`.

        Raises:
            GraphError: for a SMILES that cannot be read, with its position.
        """
        if isinstance(molecules, ComplexStore):
            molecules = Inputs(molecules)
        inputs = molecules if isinstance(molecules, Inputs) else self._first.inputs(molecules)
        found = [member.predict(inputs, threads=threads) for member in self.members]
        each = torch.stack([one.mean for one in found])
        mean = each.mean(0)
        inside = torch.stack([torch.zeros_like(mean) if one.std is None else one.std for one in found])
        std = (inside.square() + (each - mean).square()).mean(0).sqrt() if self.several else None
        parts = {name: torch.stack([one.parts[name] for one in found]).mean(0) for name in found[0].parts}
        novelty = None
        if self.reference is not None and inputs.counts is not None:
            novelty = self.reference.novelty(inputs.counts, threads)
        spread, below, above = (_mean([getattr(one, name) for one in found]) for name in ("spread", "below", "above"))
        return Prediction(mean, std, parts, spread, novelty, below, above)

    def interval(self, found: Prediction, level: float) -> tuple[Tensor, Tensor]:
        """Intervals around predictions that hold the value with this probability: their lower and upper ends.

        As `MoleculeModel.interval`, but calibrated on all molecules of the table instead of a validation part: each
        is predicted by the one model that had not seen it, and the scores of all folds are ranked together. This is
        cross-conformal prediction (Vovk, 2015) in the manner of CV+ (Barber, Candès, Ramdas and Tibshirani, 2021), with
        two departures: the interval is around the mean of the models, where CV+ goes through all of them, and its width
        is scaled as the kind of intervals says, that of conformal ones by the spread. As the mean is better than each
        of the models, intervals are rather too wide than too narrow; the guarantee of split conformal prediction does
        not hold to the letter.

        Raises:
            ModelError: where there are too few molecules for such a level, or the model predicts classes.
        """
        return self._first.interval(found, level)

    def half_width(self, level: float) -> list[float]:
        """Half the width of the interval of a molecule of usual spread, per column; see `interval`."""
        return self._first.half_width(level)

    # -------------------------------------------------------------------------------------------- files

    def save(self, folder: str | Path, names: Sequence[str]) -> None:
        """Write the model into the folder that has those of its members in it.

        ``model.json`` lists these, with the hash of the ``model.json`` of each; that has the hashes of its other files.

        Args:
            folder: where.
            names: of the folders of the members, in `folder`.
        """
        from safetensors.torch import save

        folder = Path(folder)
        data = save({} if self.uncertainty is None else self.uncertainty.tensors())
        hashes = [_digest(read_plain(folder / name / _FILE)) for name in names]
        body: dict[str, Any] = {
            "format": MEAN_FORMAT,
            "version": _VERSION,
            "members": [{"folder": name, "hash": found} for name, found in zip(names, hashes, strict=True)],
            "weights": {"file": "intervals.safetensors", "hash": _digest(data)},
            "about": dict(self.about),
        }
        if self.uncertainty is not None:
            body["uncertainty"] = self.uncertainty.kind
        write_whole(folder / "intervals.safetensors", data)
        if self.reference is not None:
            arrays = safetensors.numpy.save(self.reference.tensors())
            body["reference"] = {
                "file": "reference.safetensors", "hash": _digest(arrays), **self.reference.to_dict()
            }  # fmt: skip
            write_whole(folder / "reference.safetensors", arrays)
        body["hash"] = _self_hash(body)
        write_whole(folder / _FILE, (json.dumps(body, indent=2, allow_nan=False) + "\n").encode())

    @classmethod
    def load(cls, folder: str | Path) -> MeanModel:
        """Read what `save` wrote.

        Raises:
            ModelError: for a folder that is no such model, of another version, or damaged.
        """
        from safetensors.torch import load

        folder = Path(folder)
        body = _read_body(folder)
        with _reading(folder):
            members = [_member(folder, note) for note in body["members"]]
            tensors = {name: tensor.clone() for name, tensor in load(_read_part(folder, body["weights"])).items()}
            reference = _reference(folder, body)
            uncertainty = read_uncertainty(body, tensors, members[0].targets) if members else None
            model = cls(members, uncertainty, reference, dict(body["about"]))
            model._check()
        return model

    def _check(self) -> None:
        """Refuse members that do not fit together.

        Raises:
            ValueError: saying what is wrong.
        """
        if not self.members:
            raise ValueError("a mean of no models")
        plain = [replace(m.targets, mean=(), std=()) for m in self.members]
        if any(other != plain[0] for other in plain):
            raise ValueError("models of different targets")
        if any(m.featuriser != self.featuriser or m.wanted != self.members[0].wanted for m in self.members):
            raise ValueError("models that see molecules differently")
        self._first._check()


def _mean(each: Sequence[Tensor | None]) -> Tensor | None:
    """The mean of those that are there, if any is."""
    there = [one for one in each if one is not None]
    return torch.stack(there).mean(0) if there else None


#: What `cwnet predict` takes.
AnyModel = MoleculeModel | MeanModel


def load_model(folder: str | Path) -> AnyModel:
    """Read the folder of a model: one that `train_table` wrote, or the mean of those that `train_folds` wrote.

    Raises:
        ModelError: for a folder that is no model, of another version, or damaged.
    """
    try:
        mean = read_json(Path(folder) / _FILE)["format"] == MEAN_FORMAT
    except (OSError, ValueError, KeyError, TypeError):
        mean = False
    return MeanModel.load(folder) if mean else MoleculeModel.load(folder)


def _read_body(folder: Path) -> dict[str, Any]:
    path = folder / _FILE
    try:
        body: dict[str, Any] = read_json(path)
        kind, version = body["format"], body["version"]
    except (OSError, ValueError, KeyError, TypeError):
        raise ModelError(f"{path} is not there, damaged, or not a mean of models") from None
    if (kind, version) != (MEAN_FORMAT, _VERSION):
        raise ModelError(
            f"{path} is a {kind!r} of version {version}, and this cwnet reads version {_VERSION} of a {MEAN_FORMAT!r}"
        )
    if body.get("hash") != _self_hash(body):
        raise ModelError(f"{path} was changed after it was written (its hash differs): train it anew")
    return body


def _member(folder: Path, note: Mapping[str, Any]) -> MoleculeModel:
    """A model that ``model.json`` lists, if it lies in the folder and is what was written."""
    name = note["folder"]
    if not is_bare(name):
        raise ModelError(f"{folder / _FILE} names {name!r} as a part of it, which is not a folder of this folder")
    if not (folder / name).is_dir():
        raise ModelError(f"{folder} has lost {name}, a part of the model")
    if _digest(read_plain(folder / name / _FILE)) != note["hash"]:
        raise ModelError(f"{folder / name} is not the model that {folder / _FILE} lists: its hash is another")
    # Novelty is the business of the mean.
    return replace(MoleculeModel.load(folder / name), reference=None)
