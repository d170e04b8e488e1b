"""A trained model of molecules: its networks, its trees, and all that is needed to use them. Kept as a folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
import torch
from safetensors import SafetensorError
from torch import Tensor

from cwnet.chem import Featuriser
from cwnet.chem._featurisers import read_featuriser
from cwnet.complexes import ComplexBatch, ComplexStore
from cwnet.data._files import is_bare, read_json, read_plain, write_whole
from cwnet.errors import CwnetError, GraphError
from cwnet.molecules._descriptors import Descriptors
from cwnet.molecules._inputs import Inputs, Wanted, check_wanted, read_inputs
from cwnet.molecules._levels import LEVELS, Level
from cwnet.molecules._prediction import ModelError, Prediction
from cwnet.molecules._rows import Rows
from cwnet.molecules._targets import Targets
from cwnet.molecules._trees import Trees
from cwnet.molecules._trust import Calibration, Reference
from cwnet.molecules._uncertainty import KINDS, Conformal, Uncertainty
from cwnet.nn import CIN, from_config, to_config
from cwnet.nn._module import check_sizes

__all__ = ["ModelError", "MoleculeModel", "Prediction"]

#: A model is written as the oldest version that can hold it. Version 4 sees more than one molecule (several, a
#: reaction, or descriptors), predicts atoms or bonds, or has other intervals than conformal ones; version 3 may have
#: trees beside the networks, or in their place; version 2 has a hash of itself; version 1 has none, and is read as it
#: is.
_FORMAT, _VERSION, _PLAIN = "cwnet molecule model", 4, 3
#: What `MeanModel` writes into a file of the same name.
MEAN_FORMAT = "cwnet mean of molecule models"
_FILE = "model.json"
#: Molecules of a batch, and their cells together, at the most: a cell takes some two kilobytes.
_BATCH, _CELLS = 256, 65_536


@dataclass(frozen=True, eq=False)
class MoleculeModel:
    """Networks that were trained alike on different seeds, and trees; with the featuriser and the targets they have.

    Attributes:
        featuriser: makes complexes of molecules.
        targets: what is predicted.
        members: the networks, in evaluation mode; there may be none where there are trees.
        uncertainty: how wide intervals are, calibrated on the validation part; None for classes.
        about: plain data: figures, settings, versions.
        trees: the trees, if there are any.
        weight: of the networks for each column of targets, from 0 to 1; that of the trees is the rest.
        calibration: of the probabilities of classes; None for numbers.
        reference: training molecules to compare others with.
        descriptors: numbers that the networks see beside molecules.
    """

    featuriser: Featuriser
    targets: Targets
    members: Sequence[CIN]
    uncertainty: Uncertainty | None = None
    about: Mapping[str, Any] = field(default_factory=dict)
    trees: Trees | None = None
    weight: tuple[float, ...] = ()
    calibration: Calibration | None = None
    reference: Reference | None = None
    descriptors: Descriptors | None = None

    # -------------------------------------------------------------------------------------------- use

    @property
    def device(self) -> torch.device:
        """Where the networks are."""
        return next(self.members[0].parameters()).device if self.members else torch.device("cpu")

    def to(self, device: torch.device | str) -> MoleculeModel:
        """The same model elsewhere."""
        for member in self.members:
            member.to(device)
        return self

    @property
    def wanted(self) -> Wanted:
        """What the model has to know of molecules beside their complexes."""
        parts = [] if self.reference is None else [self.reference.wanted]
        parts += [] if self.trees is None else [self.trees.columns.wanted]
        parts += [] if self.descriptors is None else [self.descriptors.wanted]
        size = max((part.size for part in parts), default=0)
        radius = next((part.radius for part in parts if part.size), Wanted.radius)
        names, columns = (next((found for part in parts if (found := getattr(part, key))), ()) for key in _NAMED)
        return Wanted(radius, size, names, columns)

    def inputs(self, smiles: Sequence[str], numbers: Any = None) -> Inputs:
        """Molecules as the model sees them.

        Args:
            smiles: the molecules.
            numbers: [molecules, columns], for a model that was trained with descriptor columns: see ``wanted.columns``.

        Raises:
            GraphError: for a SMILES that can not be read, with its position.
        """
        given = None if numbers is None else np.asarray(numbers, dtype=np.float32).reshape(len(smiles), -1)
        if given is not None and not np.isfinite(given).all():
            raise CwnetError("the numbers beside molecules must be finite: leave molecules without them out")
        if not self.wanted:
            return Inputs(self.featuriser(smiles), given=given)
        found, reasons = read_inputs(self.featuriser, Rows(smiles, given), self.wanted)
        for position, reason in sorted(reasons.items()):
            raise GraphError(reason, position=position)
        return found

    def predict(self, molecules: Inputs | ComplexStore | Sequence[str], *, threads: int | None = None) -> Prediction:
        """Predict molecules: SMILES, what `inputs` made of them, or for networks alone the complexes.

        Raises:
            GraphError: for a SMILES that can not be read, with its position.
        """
        if isinstance(molecules, ComplexStore):
            molecules = Inputs(molecules)
        inputs = molecules if isinstance(molecules, Inputs) else self.inputs(molecules)
        check_wanted(inputs, self.wanted)
        return self._predicted(inputs, threads)

    def _predicted(self, inputs: Inputs, threads: int | None) -> Prediction:
        parts: dict[str, Tensor] = {}
        store = self.seen(inputs)
        outputs = [self._outputs(member, store) for member in self.members]
        said = [self.targets.decode(each) for each in outputs]
        weights = [self.network_weight / len(said) for _ in said]
        among_trees: Tensor | None = None
        if said:
            parts["network"] = torch.stack(said).mean(0)
        if self.trees is not None:
            parts["trees"], among_trees = self.trees.predict(inputs, threads)
            said.append(parts["trees"])
            weights.append(1 - self.network_weight)
        each, weight = torch.stack(said), torch.stack(weights)[:, None]
        mean = (weight * each).sum(0)
        std = (weight * (each - mean).square()).sum(0).sqrt() if len(said) > 1 else None
        spread = std if among_trees is None else among_trees if std is None else std + among_trees
        novelty = None
        if self.reference is not None and inputs.counts is not None:
            novelty = self.reference.novelty(inputs.counts, threads)
        mean = mean if self.calibration is None else self.calibration(mean)
        cells = None if self.level.dim is None else self.level.counts(inputs.store)
        return Prediction(mean, std, parts, spread, novelty, *self.targets.margins(outputs), cells)

    @property
    def level(self) -> Level:
        """What is predicted: molecules, their atoms or their bonds."""
        return LEVELS[self.targets.level]

    def seen(self, inputs: Inputs) -> ComplexStore:
        """What the networks see of molecules: their complexes, and descriptors beside them."""
        return inputs.store if self.descriptors is None else replace(inputs.store, complex_x=self.descriptors(inputs))

    @property
    def several(self) -> bool:
        """Whether there are several parts, which may differ."""
        return len(self.members) + (self.trees is not None) > 1

    @property
    def network_weight(self) -> Tensor:
        """The weight of the networks for every output."""
        if self.trees is None or not self.members:
            return torch.full((self.targets.outputs,), float(bool(self.members)), dtype=torch.float64)
        return torch.tensor(self.weight, dtype=torch.float64).expand(self.targets.outputs)

    def _outputs(self, member: CIN, store: ComplexStore) -> Tensor:
        with torch.no_grad():
            # Of molecules of one atom there are no bonds to predict.
            there = (
                batch for batch in self.batches(store) if self.level.dim is None or batch.num_cells[self.level.dim]
            )
            found = [member(batch).cpu() for batch in there]
        return torch.cat(found) if found else torch.zeros(0, self.targets.network_outputs)

    def embed(self, molecules: ComplexStore | Sequence[str]) -> Tensor:
        """The vectors that the networks make of molecules before they predict, side by side: [molecules, width]."""
        if not self.members:
            raise ModelError("this model has trees only, and the vectors are those of a network: train it with one")
        if self.descriptors is not None or self.featuriser.parts:
            raise ModelError("this model sees more than one molecule alone, so it gives no fingerprints: train another")
        if self.level.dim is not None:
            raise ModelError(f"this model predicts {self.level.name}s and makes no vector of a molecule: take another")
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

    def interval(self, found: Prediction, level: float) -> tuple[Tensor, Tensor]:
        """Intervals that hold the value with this probability; see `uncertainty` for how they come about.

        Args:
            found: predictions of numbers.
            level: the probability, between 0 and 1.

        Returns:
            Their lower and upper ends, [molecules, columns].

        Raises:
            ModelError: where there were too few validation molecules for such a level, or the model predicts classes.
        """
        return self._intervals().interval(found, level)

    def half_width(self, level: float) -> list[float]:
        """Half the width of the interval of a usual molecule, per column; see `interval`.

        Raises:
            ModelError: as there.
        """
        return self._intervals().usual(level)

    def _intervals(self) -> Uncertainty:
        if self.uncertainty is None:
            raise ModelError("there are intervals for numbers only, and this model predicts classes")
        return self.uncertainty

    # -------------------------------------------------------------------------------------------- files

    def save(self, folder: str | Path) -> None:
        """Write the model into a folder: tensors in safetensors, all else in ``model.json``, which is written last."""
        from safetensors.torch import save

        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        tensors = {
            f"{i}.{k}": v.cpu().contiguous() for i, m in enumerate(self.members) for k, v in m.state_dict().items()
        }
        tensors |= {} if self.uncertainty is None else self.uncertainty.tensors()
        data = save(tensors)
        body = {
            "format": _FORMAT,
            "version": self._version,
            "featuriser": self.featuriser.to_dict(),
            "targets": self.targets.to_dict(),
            "network": to_config(self.members[0]) if self.members else None,
            "members": len(self.members),
            "weights": {"file": "weights.safetensors", "hash": _digest(data)},
            "about": dict(self.about),
        }
        if self.trees is not None:
            grown = safetensors.numpy.save(self.trees.tensors())
            body["trees"] = {"file": "trees.safetensors", "hash": _digest(grown), **self.trees.to_dict()}
            body["weight"] = list(self.weight)
            write_whole(folder / "trees.safetensors", grown)
        if self.descriptors is not None:
            body["descriptors"] = self.descriptors.to_dict()
        if self.uncertainty is not None:
            body["uncertainty"] = self.uncertainty.kind
        if self.calibration is not None:
            body["calibration"] = asdict(self.calibration)
        if self.reference is not None:
            known = safetensors.numpy.save(self.reference.tensors())
            note = {"file": "reference.safetensors", "hash": _digest(known), **self.reference.to_dict()}
            body["reference"] = note
            write_whole(folder / "reference.safetensors", known)
        body["hash"] = _self_hash(body)
        write_whole(folder / "weights.safetensors", data)
        write_whole(folder / _FILE, (json.dumps(body, indent=2, allow_nan=False) + "\n").encode())

    @property
    def _version(self) -> int:
        """The oldest version that can hold the model."""
        more = self.descriptors is not None or bool(self.featuriser.parts) or self.level.dim is not None
        other = self.uncertainty is not None and self.uncertainty.kind != Conformal.kind
        return _VERSION if more or other else _PLAIN

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
        with _reading(folder):
            data = _read_part(folder, body["weights"])
            tensors = {name: tensor.clone() for name, tensor in load(data).items()}
            targets = Targets.from_dict(body["targets"])
            trees, weight = _trees(folder, body, targets)
            members = [] if trees and not body["members"] else _members(body["network"], body["members"], tensors)
            featuriser = read_featuriser(body["featuriser"])
            calibration = Calibration.from_dict(body["calibration"], targets) if "calibration" in body else None
            model = cls(
                featuriser, targets, members, read_uncertainty(body, tensors, targets), dict(body["about"]), trees,
                weight, calibration, _reference(folder, body),
                Descriptors.from_dict(body["descriptors"]) if "descriptors" in body else None,
            )  # fmt: skip
            model._check()
        return model

    def _check(self) -> None:
        """Refuse networks that do not give what the targets are."""
        alone = self.featuriser([self.featuriser.example])
        if self.descriptors is not None:
            alone = replace(alone, complex_x=torch.zeros(1, len(self.descriptors.labels)))
        wanted = (int(self.level.counts(alone).sum()), self.targets.network_outputs)
        outputs = tuple(self._outputs(self.members[0], alone).shape) if self.members else wanted
        if outputs != wanted:
            raise ValueError(f"the network gives {outputs} numbers of an example, and the targets are {wanted}")
        if self.uncertainty is not None and self.uncertainty.head != self.targets.head:
            raise ValueError(f"{self.uncertainty.kind} intervals of networks trained by {self.targets.head}")
        parts = [] if self.trees is None else [self.trees.columns.parts]
        parts += [] if self.reference is None else [self.reference.parts]
        if any(part != max(len(self.featuriser.parts), 1) for part in parts):
            raise ValueError("trees or training molecules of rows with other numbers of molecules")
        if self.descriptors is not None and self.descriptors.parts != self.featuriser.parts:
            raise ValueError("descriptors of other molecules than those of a row")
        if self.trees is not None and self.descriptors is not None:
            for key in _NAMED:
                theirs, ours = (getattr(part, key) for part in (self.trees.columns.wanted, self.descriptors.wanted))
                if theirs and ours and theirs != ours:
                    raise ValueError("trees and networks that see other descriptors")
        seen = None if self.trees is None else replace(self.trees.columns.wanted, names=(), columns=())
        if self.reference is not None and seen and self.reference.wanted != seen:
            raise ValueError("trees and training molecules of other fingerprints")


#: What `Wanted` has by name.
_NAMED = ("names", "columns")

#: What reading a file in good faith raises where someone has changed it.
_DAMAGES = (
    AttributeError, IndexError, KeyError, OverflowError, RuntimeError, TypeError, ValueError, SafetensorError,
)  # fmt: skip


@contextmanager
def _reading(folder: Path) -> Iterator[None]:
    """Whatever goes wrong with the files of a model, in words."""
    try:
        yield
    except ModelError:
        raise
    except FileNotFoundError as error:
        raise ModelError(f"{folder} has lost {Path(str(error.filename)).name}, a part of the model") from None
    except OSError as error:
        raise ModelError(f"{error.filename} {error.strerror}: it is not what train wrote") from None
    except _DAMAGES as error:
        said = " ".join(str(error).split())
        raise ModelError(f"{folder} is damaged ({type(error).__name__}: {said:.300}): train it anew") from None


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _self_hash(body: Mapping[str, Any]) -> str:
    """The hash of all of ``model.json`` but the hash itself."""
    rest = {key: value for key, value in body.items() if key != "hash"}
    return _digest(json.dumps(rest, sort_keys=True).encode())


def _read_part(folder: Path, note: Mapping[str, Any]) -> bytes:
    """A file that ``model.json`` names, if it lies in the folder and is what was written."""
    name = note["file"]
    if not is_bare(name):
        raise ModelError(f"{folder / _FILE} names {name!r} as a part of it, which is not a file of this folder")
    data = read_plain(folder / name)
    if _digest(data) != note["hash"]:
        raise ModelError(f"{folder / name} is damaged: its hash is not the one noted")
    return data


def _trees(folder: Path, body: Mapping[str, Any], targets: Targets) -> tuple[Trees | None, tuple[float, ...]]:
    """The trees, all of whose numbers have been looked at, and the weights of the networks beside them."""
    if "trees" not in body:
        return None, ()
    arrays = safetensors.numpy.load(_read_part(folder, body["trees"]))
    weight = tuple(body["weight"])
    if len(weight) != len(targets.names) or not all(type(w) is float and 0 <= w <= 1 for w in weight):
        raise ValueError(f"the weights {weight!s:.100} of {len(targets.names)} targets")
    return Trees.from_parts(body["trees"], arrays, targets), weight


def read_uncertainty(body: Mapping[str, Any], tensors: Mapping[str, Tensor], targets: Targets) -> Uncertainty | None:
    """How wide intervals are. Before version 4 they were conformal, and classes have none."""
    kind = body.get("uncertainty", Conformal.kind if "residuals" in tensors else None)
    return None if kind is None else KINDS[kind].from_tensors(tensors, targets.names)


def _reference(folder: Path, body: Mapping[str, Any]) -> Reference | None:
    """The training molecules to compare with, if there are any."""
    if "reference" not in body:
        return None
    return Reference.from_parts(body["reference"], safetensors.numpy.load(_read_part(folder, body["reference"])))


def _members(config: Any, count: Any, tensors: Mapping[str, Tensor]) -> list[CIN]:
    """The networks. Nothing is allocated before all shapes are known to be those of the weights that are there."""
    if type(count) is not int or not 0 < count <= len(tensors):
        raise ValueError(f"{count!r} networks of {len(tensors)} tensors")
    check_sizes(config, tensors)
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


def _read_body(folder: Path) -> dict[str, Any]:
    """``model.json``, if it is one of ours."""
    path = folder / _FILE
    if not path.exists():
        unfinished = (folder / "training").is_dir() or (folder / "fold-1").is_dir()
        hint = "its training has not ended: go on with --resume" if unfinished else "give the folder that train wrote"
        raise ModelError(f"{folder} is not a model: there is no {_FILE} in it; {hint}")
    try:
        body = read_json(path)
        kind, version = body["format"], body["version"]
    except (OSError, ValueError, KeyError, TypeError):
        raise ModelError(f"{path} is damaged, or not a model of cwnet") from None
    if kind == MEAN_FORMAT:
        raise ModelError(
            f"{folder} is the mean of the models of several folds, which cwnet predict takes; here, take one of them: "
            f"{folder / 'fold-1'}"
        )
    if kind != _FORMAT or version not in range(1, _VERSION + 1):
        raise ModelError(
            f"{path} is a {kind!r} of version {version}, and this cwnet reads version {_VERSION}: use the cwnet that "
            "wrote it, or train it anew"
        )
    if body.get("hash") != (_self_hash(body) if version > 1 else None):
        raise ModelError(f"{path} was changed after it was written (its hash differs): train it anew")
    whole: dict[str, Any] = body
    return whole
