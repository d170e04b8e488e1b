"""Train a model of molecules: from a table to a folder."""

from __future__ import annotations

import csv
import io
import json
import math
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cwnet.chem import Featuriser
from cwnet.chem._descriptors import descriptor_names
from cwnet.chem._featurisers import choose_featuriser
from cwnet.complexes import ComplexStore
from cwnet.data import Dataset, MoleculeTable, Split, save_split
from cwnet.data._files import hash_file, read_json, write_whole
from cwnet.errors import CwnetError
from cwnet.molecules._blend import blend
from cwnet.molecules._cell_data import prepare_cells
from cwnet.molecules._data import Prepared, in_file, prepare
from cwnet.molecules._defaults import ENSEMBLE, NETWORK, TRUST, TreePlan, split_changes
from cwnet.molecules._descriptors import Descriptors
from cwnet.molecules._inputs import Inputs, Wanted, check_size, describe
from cwnet.molecules._levels import LEVELS, level_of, list_text, split_by
from cwnet.molecules._likeness import likeness, summary
from cwnet.molecules._model import ModelError, MoleculeModel, Prediction
from cwnet.molecules._rows import Rows, rows_of, with_molecules
from cwnet.molecules._targets import METRICS_OF_TASK, Targets
from cwnet.molecules._trees import Trees, grow, some_of, wanted_by
from cwnet.molecules._trust import Reference, fit_calibration, limit_of
from cwnet.molecules._uncertainty import KINDS, Conformal, Uncertainty, check_kind, check_task
from cwnet.molecules._weights import TargetWeights, beside, check_names, entry_weights
from cwnet.train import Recipe, fit
from cwnet.train._about import versions
from cwnet.train._objectives import METRICS

__all__ = ["Settings", "Trained", "claim", "default_recipe", "learn", "measure", "train_prepared", "train_table"]

_REQUEST = "request.json"
#: Settings of models of whole molecules, or of several of them.
_OF_MOLECULES = (
    "weight_column", "target_weights", "descriptor_columns", "descriptors", "smiles_columns", "reactions",
)  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """How to train; the defaults need no tuning.

    Attributes:
        split: how to split the molecules; see `cwnet.molecules.prepare`.
        seed: of the split, and of the first network.
        ensemble: networks, each with a seed of its own.
        epochs: at the most; by default fewer for more molecules.
        balance: whether rare classes weigh as much as frequent ones. Probabilities are then no longer frequencies.
        lifting: which rings are cells.
        changes: values of the recipe to replace, such as "model.width=128", or of the trees, such as "trees.count=100".
        network: whether to train networks.
        trees: whether to grow trees beside them.
        weight_column: the column that says how much each molecule weighs: in the loss, in the trees, and where networks
            and trees are weighed against each other. Figures, intervals and the choice of epochs are not weighted.
        target_weights: how much targets weigh in the loss of the networks, by name; 1 for others. Each target has trees
            of its own, so these need none.
        descriptor_columns: columns of numbers in the table that the model sees beside molecules.
        descriptors: "rdkit" for networks that see the descriptors of RDKit too; trees see them in any case.
        smiles_columns: the columns of the molecules, where a row has several.
        reactions: whether a row is a reaction, written "reactants>>products".
        uncertainty: how intervals of numbers come about: "conformal", which is the default, "ensemble", "quantile" or
            "mve"; see `cwnet.molecules.Uncertainty`.
        level: what has the targets: "molecule", "atom" or "bond". Atoms and bonds are learnt by networks alone, which
            see one molecule of each row and weigh all of them the same.
    """

    split: str = "random"
    seed: int = 0
    ensemble: int = ENSEMBLE
    epochs: int | None = None
    balance: bool = False
    lifting: str = Featuriser.lifting
    changes: tuple[str, ...] = field(default=())
    network: bool = True
    trees: bool = True
    weight_column: str | None = None
    target_weights: TargetWeights = ()
    descriptor_columns: tuple[str, ...] = ()
    descriptors: str | None = None
    smiles_columns: tuple[str, ...] = ()
    reactions: bool = False
    uncertainty: str | None = None
    level: str = "molecule"

    def __post_init__(self) -> None:
        if level_of(self.level).dim is not None:
            if not self.network:
                raise CwnetError(f"--target-level {self.level} is learnt by the network: leave out --no-network")
            object.__setattr__(self, "trees", False)
            for name in _OF_MOLECULES:
                if getattr(self, name):
                    option = f"--{name.replace('_', '-')}"
                    raise CwnetError(f"--target-level {self.level} does not go with {option}: leave one of them out")
        if not (self.network or self.trees):
            raise CwnetError("a model without network and without trees predicts nothing: leave one of them in")
        if self.descriptors not in (None, "rdkit"):
            raise CwnetError(f"--descriptors {self.descriptors}: write rdkit, or leave it out")
        if self.descriptors and not self.network:
            raise CwnetError("--descriptors is for the network, which --no-network leaves out; trees see them anyway")
        if self.smiles_columns and self.reactions:
            raise CwnetError("a row has several molecules or a reaction: give smiles_columns or reactions, not both")
        for name, least in (("seed", 0), ("ensemble", 1), ("epochs", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise CwnetError(f"{name} = {value}: it must be at least {least}")
        if self.uncertainty is not None:
            check_kind(self.uncertainty, networks=self.ensemble * self.network, trees=self.trees)

    @property
    def featuriser(self) -> Featuriser:
        """What makes complexes of rows."""
        return choose_featuriser(self.lifting, self.smiles_columns, self.reactions)

    @property
    def seeds(self) -> tuple[int, ...]:
        """A seed for each network."""
        return tuple(range(self.seed, self.seed + self.ensemble))


@dataclass(frozen=True, eq=False)
class Trained:
    """What came of training.

    Attributes:
        model: the model.
        prepared: what it was trained on.
        metrics: of the test part: per column, and "mean" over them.
        folder: where everything is.
        seconds: it took.
    """

    model: MoleculeModel
    prepared: Prepared
    metrics: dict[str, dict[str, float]]
    folder: Path
    seconds: float


def default_recipe(
    targets: Targets, count: int, settings: Settings, name: str = "molecules", numbers: int = 0
) -> Recipe:
    """The recipe for so many molecules to train on, with so many numbers beside each."""
    model: dict[str, Any] = {**NETWORK, **({"numbers": numbers} if numbers else {})}
    featuriser = settings.featuriser
    if featuriser.parts:
        sizes = {"atoms": list(featuriser.atom_sizes), "bonds": list(featuriser.bond_sizes)}
        model |= {**sizes, "slots": featuriser.slots}
    # Some 6,000 steps, within what a small set needs and a large one can pay for.
    epochs = settings.epochs or min(max(round(6_000 * 64 / count), 30), 120)
    return Recipe.from_dict(
        {
            "name": name,
            "data": {"name": name, "lifting": settings.lifting},
            "model": model,
            "train": {
                "batch_size": 64,
                "epochs": epochs,
                "lr": 2e-3,
                "metric": targets.metric,
                **({} if targets.loss is None else {"loss": targets.loss}),
                "report": "best",
                "seeds": list(settings.seeds),
                "class_weights": "balanced" if settings.balance else "none",
                # Some twenty thousand molecules are seconds of work; a checkpoint takes a tenth of one.
                "checkpoint_every": max(round(20_000 / count), 1),
            },
            "schedule": {"kind": "cosine", "warmup": min(2, epochs // 4)},
            "stop": {"patience": max(epochs // 3, 10)},
        }
    ).changed(split_changes(settings.changes)[0])


def tree_plan(settings: Settings) -> TreePlan:
    """How the trees are grown."""
    return TreePlan().changed(split_changes(settings.changes)[1])


def learn(
    store: ComplexStore,
    values: Tensor,
    targets: Targets,
    split: Split,
    settings: Settings,
    *,
    smiles: Sequence[str] = (),
    weights: Tensor | None = None,
    given: NDArray[np.float32] | None = None,
    name: str = "molecules",
    out: Path | None = None,
    device: str | None = None,
    resume: bool = False,
    progress: bool = False,
) -> MoleculeModel:
    """Train networks and trees on the training part, choose epochs by the validation part, and calibrate on it.

    Args:
        store: complexes that a featuriser of these settings made.
        values: their targets, [molecules, columns], NaN where empty, classes numbered; of atoms or bonds where these
            are predicted, molecule after molecule.
        targets: what they are, scaled.
        split: what to train on and to choose by; its test part is not looked at.
        settings: how.
        smiles: the molecules; trees and descriptors need them.
        weights: how much each molecule weighs, [molecules]; None where all weigh the same.
        given: the numbers of the descriptor columns, [molecules, columns], if there are any.
        name: of the run.
        out: folder for checkpoints and curves.
        device: where to compute.
        resume: whether to go on with what is in `out`.
        progress: whether to show how far it is.
    """
    plan = tree_plan(settings)  # refused before the work is done
    rows = Rows(smiles, given)
    check_task(settings.uncertainty, targets.task)
    kind = KINDS[settings.uncertainty or Conformal.kind]
    targets = replace(targets, head=kind.head)
    descriptors, seen = _descriptors(store, rows, split, settings)
    numbers = 0 if descriptors is None else len(descriptors.labels)
    recipe = default_recipe(targets, len(split.train), settings, name, numbers)
    if kind.head is not None and recipe.train.loss != kind.head:
        raise CwnetError(f"--uncertainty {kind.kind} needs train.loss={kind.head}, and not {recipe.train.loss}")
    level = LEVELS[targets.level]
    checked = values[level.rows(store, split.val)]
    if recipe.train.metric == "rocauc" and not _has_both_classes(checked):
        recipe = recipe.changed(("train.metric=accuracy",))
    featuriser = settings.featuriser
    about: dict[str, Any] = {"settings": asdict(settings), "versions": versions()}
    trees = None
    if settings.trees:
        trees = _grown(store, values, targets, split, settings, plan, rows, weights, about)
    members: list[Any] = []
    if settings.network:
        known = Split(split.train, split.val, [])  # type: ignore[arg-type]
        each = None
        if level.dim is None:
            each = entry_weights(targets, values, split.train, weights, settings.target_weights)
        y = targets.encode(values) if each is None else beside(targets.encode(values), each)
        whole, weighted = replace(level.with_targets(store, y), complex_x=seen), each is not None
        task = targets.task if level.dim is None else "cells"
        dataset = Dataset(name, whole, (known,), task, targets.outputs, targets.metric, {}, weighted)
        results = fit(recipe, dataset=dataset, out=out, device=device, resume=resume, progress=progress)
        members = [r.model for r in results]
        about |= {
            "recipe": recipe.to_dict(),
            "validation": {r.metric: r.val_at_best for r in results[:1]},
            "epochs": [r.epochs for r in results],
            "best_epochs": [r.best_epoch for r in results],
            "parameters": results[0].parameters,
        }
    model = MoleculeModel(
        featuriser, targets, members, None, about, trees, (0.5,) * len(targets.names), descriptors=descriptors
    )
    if smiles:
        model = _referenced(model, store, smiles, split, settings, plan)
    inputs = described(store, rows, split.val, model.wanted, featuriser)
    return _calibrated(model, inputs, checked, plan, None if weights is None else weights[split.val], kind)


def _descriptors(
    store: ComplexStore, rows: Rows, split: Split, settings: Settings
) -> tuple[Descriptors | None, Tensor | None]:
    """The descriptors that networks see, scaled by the training part, and what they are; None where there are none.

    They are [molecules, labels], and zeros in the test part, which no engine sees.
    """
    names = tuple(descriptor_names()) if settings.descriptors else ()
    found = Descriptors(settings.descriptor_columns, names, parts=settings.featuriser.parts)
    if not found.labels or not settings.network:
        return None, None
    known = torch.cat([split.train, split.val])
    inputs = described(store, rows, known, found.wanted, settings.featuriser)
    found = found.scaled_by(inputs.select(torch.arange(len(split.train))))
    seen = torch.zeros(len(store), len(found.labels))
    seen[known] = found(inputs)
    return found, seen


def _has_both_classes(values: Tensor) -> bool:
    """Whether there is a column with both classes, so that an area under a curve can be measured."""
    return bool(((values == 0).any(0) & (values == 1).any(0)).any())


def _grown(
    store: ComplexStore, values: Tensor, targets: Targets, split: Split, settings: Settings, plan: TreePlan,
    given: Rows, weights: Tensor | None, about: dict[str, Any],
) -> Trees:  # fmt: skip
    """The trees, and a note of how they were grown."""
    if len(given) != len(store):
        raise ValueError(f"there are {len(given)} SMILES of {len(store)} molecules, and trees need all of them")
    start = time.perf_counter()
    rows = some_of(split.train, plan.rows, settings.seed)
    columns = settings.descriptor_columns
    parts = max(len(settings.featuriser.parts), 1)
    check_size(plan.size, parts)
    inputs = described(store, given, rows, wanted_by(plan, columns), settings.featuriser)
    ready = time.perf_counter()
    each = None if weights is None else weights[rows]
    trees = grow(
        inputs,
        values[rows],
        targets,
        plan,
        seed=settings.seed,
        balance=settings.balance,
        weights=each,
        given=columns,
        parts=parts,
    )
    about["trees"] = {
        **asdict(plan),
        "columns": trees.columns.width,
        "molecules": len(rows),
        "nodes_grown": sum(len(forest.feature) for forest in trees.forests),
        "seconds": {"columns": round(ready - start, 2), "trees": round(time.perf_counter() - ready, 2)},
    }
    return trees


def described(store: ComplexStore, rows: Rows, part: Tensor, wanted: Wanted, featuriser: Featuriser) -> Inputs:
    """The molecules of a part with all that is wanted of them."""
    some = [rows.smiles[i] for i in part.tolist()] if wanted else []
    found = describe(some, store.select(part), wanted, featuriser)
    return found if rows.given is None else replace(found, given=rows.given[part.numpy()])


def _referenced(
    model: MoleculeModel, store: ComplexStore, smiles: Sequence[str], split: Split, settings: Settings, plan: TreePlan
) -> MoleculeModel:
    """The model with training molecules to compare others with."""
    radius, size = (plan.radius, plan.size) if settings.trees and plan.size else (TRUST.radius, TRUST.size)
    rows = some_of(split.train, TRUST.kept, settings.seed)
    known = described(store, Rows(smiles), rows, Wanted(radius, size), model.featuriser).counts
    assert known is not None
    return replace(model, reference=Reference(known, radius, size, parts=max(len(model.featuriser.parts), 1)))


def _calibrated(
    model: MoleculeModel, inputs: Inputs, values: Tensor, plan: TreePlan, rows: Tensor | None, kind: type[Uncertainty]
) -> MoleculeModel:
    """The model with all that the validation part decides."""
    found = model.predict(inputs)
    if len(found.parts) > 1:
        weight = blend(model.targets, values, found.parts["network"], found.parts["trees"], plan.shrink, rows)
        model = replace(model, weight=weight)
        found = model.predict(inputs)
    figures = part_figures(model.targets, values, found)
    model = replace(model, about={**model.about, "parts": {"validation": figures}})
    if model.reference is not None and found.novelty is not None:
        model = replace(model, reference=replace(model.reference, limit=limit_of(found.novelty)))
    if model.targets.task != "regression":
        return replace(model, calibration=fit_calibration(model.targets, values, found.mean))
    return replace(model, uncertainty=kind.fit(found, values, model.targets.names))


def train_table(
    table: MoleculeTable,
    out: str | Path,
    settings: Settings | None = None,
    *,
    device: str | None = None,
    resume: bool = False,
    progress: bool = True,
) -> Trained:
    """Train a model on a table of molecules and leave everything in a folder.

    The folder gets ``model.json``, ``weights.safetensors``, ``trees.safetensors`` and ``reference.safetensors``, the
    split, the predictions of the test part with a plot, ``report.html``, the figures, rows that could not be read, and
    in ``training`` the checkpoints and curves of every network.

    Raises:
        CwnetError: for a table from which nothing can be learnt, or a folder that can not be written or holds another
            model; before training.
    """
    start, out, settings = time.perf_counter(), Path(out), settings or Settings()
    check_names(settings.target_weights, table.targets)
    if table.y is not None:
        check_task(settings.uncertainty, Targets.of(table.targets, table.y, table.classes, str(table.path)).task)
    begun = claim(out, request_for(table, settings), resume)
    try:
        prepared = prepare_for(table, settings)
    except CwnetError:
        if not begun:  # so that the same command may be given again, with a table that was put right
            (out / _REQUEST).unlink()
        raise
    trained = train_prepared(prepared, out, settings, device=device, resume=resume, progress=progress)
    return replace(trained, seconds=time.perf_counter() - start)


def train_prepared(
    prepared: Prepared,
    out: Path,
    settings: Settings,
    *,
    device: str | None = None,
    resume: bool = False,
    progress: bool = True,
) -> Trained:
    """Train a model on molecules that are lifted and split, in a folder that is there; otherwise as `train_table`."""
    start = time.perf_counter()
    save_split(in_file(prepared.split, prepared.positions), out / "split.json")
    prepared.table.write_rejects(out / "rejects.csv")
    model = learn(
        prepared.store, prepared.values, prepared.targets, prepared.split, settings, smiles=prepared.table.smiles,
        weights=prepared.weights, given=rows_of(prepared.table, settings.descriptor_columns).given,
        name=prepared.table.path.stem, out=out / "training", device=device, resume=resume, progress=progress,
    )  # fmt: skip
    if model.descriptors is not None and (same := model.descriptors.constant):
        said = f"the same in all of the training part, so that the network learns nothing of it: {', '.join(same)}"
        prepared = replace(prepared, notes=(*prepared.notes, said))
    found = predict_test(model, prepared)
    if found is not None:
        _write_test(model, prepared, found, out)
    metrics = {} if found is None else measure(model.targets, prepared.values_of(prepared.split.test), found.mean)
    split = {part: len(getattr(prepared.split, part)) for part in ("train", "val", "test")}
    parts = dict(model.about["parts"])
    if found is not None:
        parts["test"] = part_figures(model.targets, prepared.values_of(prepared.split.test), found)
    covered = {} if found is None else coverage(model, prepared.values_of(prepared.split.test), found)
    alike = likeness(prepared, settings.seed)
    figures = {"test": metrics, "split": split, "parts": parts, "coverage": covered, "similarity": summary(alike)}
    model = replace(model, about={**model.about, **figures, "notes": list(prepared.notes)})
    write_json(out / "metrics.json", figures)
    model.save(out)
    _show(model, prepared, found, alike, out)
    return Trained(model, prepared, metrics, out, time.perf_counter() - start)


def prepare_for(table: MoleculeTable, settings: Settings) -> Prepared:
    """The molecules of a table, lifted and split as the settings say."""
    level = level_of(settings.level)
    if level.dim is not None:
        return prepare_cells(table, settings.featuriser, level, settings.split, settings.seed)
    return prepare(
        with_molecules(table, settings.smiles_columns), settings.featuriser, settings.split, settings.seed,
        settings.weight_column, settings.descriptor_columns,
    )  # fmt: skip


# ------------------------------------------------------------------------------------------------ the folder


def request_for(table: MoleculeTable, settings: Settings) -> dict[str, Any]:
    """What is asked for, as plain data."""
    return {
        "data": hash_file(table.path) if table.path.is_file() else str(table.path),
        "targets": list(table.targets),
        "classes": {name: list(labels) for name, labels in table.classes.items()},
        "settings": json.loads(json.dumps(asdict(settings))),
        "featuriser": json.loads(json.dumps(settings.featuriser.to_dict())),
    }


def claim(out: Path, request: Mapping[str, Any], resume: bool) -> bool:
    """Make the folder and note in it what is asked for. What another training left there is not written over.

    Gives whether the training was begun before.
    """
    path = out / _REQUEST
    if path.is_file():
        if not resume:
            raise CwnetError(f"{out} holds a model already: go on with it by --resume, or choose another --out")
        before = _read_request(path)
        for key, value in request.items():
            if before.get(key) != value:
                raise CwnetError(
                    f"{out} was begun with other {key}: {_short(before.get(key))}, and now {_short(value)}. Give the "
                    "same, or another --out"
                )
        return True
    try:
        out.mkdir(parents=True, exist_ok=True)
        write_json(path, request)
    except OSError as error:
        raise CwnetError(f"{out} can not be written: {error.strerror}. Choose another --out") from None
    return False


def _read_request(path: Path) -> dict[str, Any]:
    try:
        found = read_json(path)
    except (OSError, ValueError):
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("settings"), dict):
        raise CwnetError(f"{path} is damaged: choose another --out, or delete {path.parent}")
    # What is new since it was written has its default there.
    return {**found, "settings": {**json.loads(json.dumps(asdict(Settings()))), **found["settings"]}}


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 120 else f"{text[:120]}…"


def write_json(path: Path, body: Any) -> None:
    """Write plain data, with line breaks for those who read it."""
    write_whole(path, (json.dumps(body, indent=2) + "\n").encode())


# ------------------------------------------------------------------------------------------------ figures


def measure(targets: Targets, values: Tensor, predicted: Tensor) -> dict[str, dict[str, float]]:
    """The metrics of the task: of each column, and their mean; those that can not be measured are left out."""
    if targets.task == "multiclass":
        found = {"accuracy": METRICS["accuracy"](predicted, targets.encode(values))}
        return {targets.names[0]: found, "mean": found}
    # Signs decide between two classes, so probabilities are taken from their middle.
    shown = predicted if targets.task == "regression" else predicted - 0.5
    figures: dict[str, dict[str, float]] = {}
    for i, name in enumerate(targets.names):
        each = {m: METRICS[m](shown[:, i : i + 1], values[:, i : i + 1]) for m in METRICS_OF_TASK[targets.task]}
        figures[name] = {m: value for m, value in each.items() if not math.isnan(value)}
    means = {m: [each[m] for each in figures.values() if m in each] for m in METRICS_OF_TASK[targets.task]}
    return {**figures, "mean": {m: sum(found) / len(found) for m, found in means.items() if found}}


def part_figures(targets: Targets, values: Tensor, found: Prediction) -> dict[str, dict[str, dict[str, float]]]:
    """The metrics of the whole model, and of each of its parts where there are several."""
    said = {"model": found.mean, **(found.parts if len(found.parts) > 1 else {})}
    return {name: measure(targets, values, predicted) for name, predicted in said.items()}


def coverage(model: MoleculeModel, values: Tensor, found: Prediction) -> dict[str, dict[str, dict[str, float]]]:
    """How many of the values lie in their intervals, and how wide these are: by level, as in "90 %", and column.

    Levels for which there were too few validation molecules are left out; classes have none.
    """
    figures: dict[str, dict[str, dict[str, float]]] = {}
    off = values.double() - found.mean
    if model.uncertainty is None:
        return figures
    for level in TRUST.levels:
        try:
            below, above = model.uncertainty.margins(found, level)
        except ModelError:
            continue
        inside = torch.where(off.isnan(), torch.nan, ((-off <= below) & (off <= above)).double())
        each = {
            name: {"held": float(held.nanmean()), "width": float(width.mean())}
            for name, held, width in zip(model.targets.names, inside.T, (below + above).T, strict=True)
            if not held.isnan().all()
        }
        if each:
            figures[f"{level:.0%}"] = each
    return figures


def predict_test(model: MoleculeModel, prepared: Prepared) -> Prediction | None:
    """Predict the test part, if there is one."""
    index = prepared.split.test
    if not len(index):
        return None
    rows = rows_of(prepared.table, model.wanted.columns)
    return model.predict(described(prepared.store, rows, index, model.wanted, model.featuriser))


def _write_test(model: MoleculeModel, prepared: Prepared, found: Prediction, out: Path) -> None:
    index = prepared.split.test
    values = prepared.values_of(index)
    smiles = [prepared.table.smiles[i] for i in index.tolist()]
    rows = prepared.table.rows[index.numpy()].tolist()
    write_predictions(
        out / "predictions.csv", model.targets, rows, smiles, values, found.mean, found.std, cells=found.cells
    )


def _show(model: MoleculeModel, prepared: Prepared, found: Prediction | None, alike: Tensor | None, out: Path) -> None:
    """Draw the test part and write the report. The model is there by now, and nothing here takes anything from it."""
    from cwnet.molecules import _cell_report, _likeness, _plots, _report

    try:
        if alike is not None:
            _likeness.plot_likeness(out, alike)
        if prepared.level.dim is not None:
            _cell_report.write_cell_report(out, model, prepared, found, alike)
            return
        if found is not None:
            _plots.plot_test(out, model.targets, prepared.values_of(prepared.split.test), found.mean)
        _report.write_report(out, model, prepared, found, alike)
    except Exception as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())
        warnings.warn(f"the test part was not drawn ({said:.300}); the model is whole", stacklevel=3)


def write_predictions(
    path: Path,
    targets: Targets,
    rows: Sequence[int],
    smiles: Sequence[str],
    values: Tensor,
    mean: Tensor,
    std: Tensor | None,
    folds: Sequence[int] = (),
    cells: Tensor | None = None,
) -> None:
    """``predictions.csv``: row, SMILES, true and predicted values, how far the parts of the model differ, the fold.

    Values of atoms or bonds are lists; `cells` says how many there are of each molecule.
    """
    outputs = list(targets.names) if targets.task != "multiclass" else [f"p({label})" for label in targets.classes[0]]
    head = ["row", "smiles", *targets.names, *(f"{name}_predicted" for name in outputs)]
    columns: list[Iterable[Any]] = [rows, smiles, *split_by(cells, values), *split_by(cells, mean)]
    if std is not None:
        head += [f"{name}_std" for name in outputs]
        columns += split_by(cells, std)
    if folds:
        head.append("fold")
        columns.append(folds)
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(head)
    for row in zip(*columns, strict=True):
        writer.writerow(
            list_text(v) if isinstance(v, list) else "" if isinstance(v, float) and math.isnan(v) else v for v in row
        )
    write_whole(path, buffer.getvalue().encode())
