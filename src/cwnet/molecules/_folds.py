"""Cross-validation: every molecule is tested once, by a model that has not seen it; and the models as one."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from cwnet.data import MoleculeTable, Split, cluster_groups, group_kfold_split, kfold_split, scaffold_groups
from cwnet.data._splits import shuffled
from cwnet.errors import CwnetError
from cwnet.molecules._data import Prepared, cluster_threshold, divided, lifted, strata
from cwnet.molecules._defaults import TRUST
from cwnet.molecules._mean_model import MeanModel
from cwnet.molecules._model import MoleculeModel, Prediction
from cwnet.molecules._replicates import Replicates, spread
from cwnet.molecules._rows import Rows, with_molecules
from cwnet.molecules._train import (
    Settings,
    Trained,
    claim,
    described,
    measure,
    predict_test,
    request_for,
    train_prepared,
    write_json,
    write_predictions,
)
from cwnet.molecules._trees import some_of
from cwnet.molecules._trust import Reference, limit_of
from cwnet.molecules._uncertainty import KINDS, Conformal, Uncertainty, check_task
from cwnet.molecules._weights import check_names
from cwnet.train._about import versions

__all__ = ["Folds", "fold_splits", "train_folds"]

#: The share of all molecules that each model is chosen by.
_VAL = 0.1


@dataclass(frozen=True, eq=False)
class Folds(Replicates):
    """What came of a cross-validation.

    Attributes:
        model: the mean of the models of all folds.
        out_of_fold: the metrics of all molecules together, each predicted by the model that had not seen it.
    """

    model: MeanModel
    out_of_fold: dict[str, dict[str, float]]


def train_folds(
    table: MoleculeTable,
    out: str | Path,
    settings: Settings | None = None,
    count: int = 5,
    *,
    device: str | None = None,
    resume: bool = False,
    progress: bool = True,
) -> Folds:
    """Train a model for each of several folds, and leave them and their mean in a folder.

    Each fold is the test part of one model; a tenth of all molecules, of the others, is for validation. The folder gets
    a model folder for each, ``fold-1``, ``fold-2``, ...; ``predictions.csv`` with every molecule as it was predicted by
    the model that had not seen it; ``metrics.json`` with the mean and standard deviation of the figures over the folds;
    and ``model.json``, the mean of the models, which `load_model` reads (see `MeanModel`).

    Args:
        table: as all other arguments but `count`, as in `train_table`.
        out: see there.
        settings: see there. Its split is "random" (classes in equal shares), "scaffold" or "cluster" (these are kept
            whole); its seed is that of the folds and of the first network of the first.
        count: how many.
        device: see there.
        resume: whether to go on with what is in `out`; a fold whose model is there is not trained again.
        progress: see there.

    Raises:
        CwnetError: for folds that cannot be made, before training; and as in `train_table`.
    """
    out, settings = Path(out), settings or Settings()
    check_names(settings.target_weights, table.targets)
    if count < 2:
        raise CwnetError(f"--folds {count}: give at least 2, or leave it out")
    if settings.level != "molecule":
        raise CwnetError(f"--folds {count} does not go with --target-level {settings.level}: leave one of them out")
    whole = lifted(
        with_molecules(table, settings.smiles_columns), settings.featuriser, settings.weight_column,
        settings.descriptor_columns,
    )  # fmt: skip
    check_task(settings.uncertainty, whole.targets.task)
    splits = fold_splits(whole, count, settings)
    prepared = [divided(whole, split, f"--folds {count}: fold {i}") for i, split in enumerate(splits, 1)]
    claim(out, {**request_for(table, settings), "folds": count}, resume)
    trained = []
    for i, each in enumerate(prepared, 1):
        seed = settings.seed + (i - 1) * settings.ensemble
        wishes = replace(settings, seed=seed, split=f"{settings.split}, fold {i} of {count}")
        trained.append(_trained(table, each, out / f"fold-{i}", wishes, device, resume, progress))
    return _joined(whole, trained, out, settings)


def _trained(
    table: MoleculeTable,
    prepared: Prepared,
    out: Path,
    settings: Settings,
    device: str | None,
    resume: bool,
    progress: bool,
) -> Trained:
    """The model of a fold: the one that is there, or a new one."""
    if resume and (out / "model.json").is_file():
        model = MoleculeModel.load(out)
        return Trained(model, prepared, model.about["test"], out, 0.0)
    claim(out, request_for(table, settings), resume)
    return train_prepared(prepared, out, settings, device=device, resume=resume, progress=progress)


# ------------------------------------------------------------------------------------------------ folds


def fold_splits(whole: Prepared, count: int, settings: Settings) -> list[Split]:
    """The splits of a cross-validation: every molecule is in one test part."""
    kind = settings.split.partition(":")[0]
    if len(whole.table) < count:
        raise CwnetError(f"--folds {count}: there are {len(whole.table)} molecules, and each fold needs at least one")
    if settings.split == "random":
        splits = _random_folds(strata(whole.values, whole.targets), count, settings.seed)
    elif settings.split == "scaffold":
        groups = scaffold_groups(whole.first_molecules)
        splits = group_kfold_split(groups, count, val=_VAL, seed=settings.seed, what=kind)
    elif kind == "cluster":
        groups = cluster_groups(whole.first_molecules, cluster_threshold(settings.split))
        splits = group_kfold_split(groups, count, val=_VAL, seed=settings.seed, what=kind)
    else:
        raise CwnetError(f"--folds {count} goes with --split random, scaffold or cluster, not with {settings.split}")
    for i, split in enumerate(splits, 1):
        _check_classes(whole, split, f"--folds {count}: fold {i}")
    return splits


def _random_folds(kinds: Tensor, count: int, seed: int) -> list[Split]:
    """Folds by chance, of each kind alike; of the rest a tenth of each kind, and at least one, is for validation."""
    splits = []
    for i, fold in enumerate(kfold_split(kinds, count, seed=seed, val=None)):
        val = []
        for kind in torch.unique(kinds):
            rest = fold.train[kinds[fold.train] == kind]
            held = min(max(round(_VAL * int((kinds == kind).sum())), 1), len(rest) - 1) if len(rest) else 0
            val.append(rest[torch.from_numpy(shuffled(len(rest), seed + i))[:held]])
        chosen = torch.cat(val).sort().values
        splits.append(Split(fold.train[~torch.isin(fold.train, chosen)], chosen, fold.test))
    return splits


def _check_classes(whole: Prepared, split: Split, wish: str) -> None:
    """Refuse a fold of which nothing can be measured but that all are of one class."""
    targets = whole.targets
    if targets.task not in ("binary", "multiclass"):
        return
    classes = whole.values[:, 0]
    known = torch.unique(classes[split.test])
    if len(known) > 1:
        return
    times = torch.bincount(classes.long(), minlength=len(targets.classes[0])).tolist()
    rare = min(range(len(times)), key=times.__getitem__)
    raise CwnetError(
        f"{wish} would have one class only of {targets.names[0]!r}, {targets.classes[0][int(known[0])]!r}: take fewer "
        f"folds; {targets.classes[0][rare]!r} has {times[rare]} molecules"
    )


# ------------------------------------------------------------------------------------------------ all of them


def _joined(whole: Prepared, trained: Sequence[Trained], out: Path, settings: Settings) -> Folds:
    """The mean of the models, and the figures of all folds."""
    found = [predict_test(each.model, each.prepared) for each in trained]
    said = Prediction.joined([one for one in found if one is not None])
    index = torch.cat([each.prepared.split.test for each in trained])
    fold = torch.cat([torch.full((len(each.prepared.split.test),), i) for i, each in enumerate(trained, 1)])
    values = whole.values[index]
    pooled, figures = measure(whole.targets, values, said.mean), spread([each.metrics for each in trained])
    names = [each.folder.name for each in trained]
    folds = [{"folder": each.folder.name, **_of_fold(each)} for each in trained]
    about = {
        "settings": asdict(settings),
        "versions": versions(),
        "test": figures,
        "out_of_fold": pooled,
        "folds": folds,
        "notes": list(whole.notes),
    }
    reference = _reference(whole, trained[0].model, said, settings.seed)
    members = [replace(each.model, reference=None) for each in trained]
    model = MeanModel(members, _intervals(whole, index, said, settings), reference, about)
    write_json(out / "metrics.json", {"test": figures, "out_of_fold": pooled, "folds": folds})
    order = index.argsort()
    rows = whole.table.rows[index[order].numpy()].tolist()
    smiles = [whole.table.smiles[i] for i in index[order].tolist()]
    std = None if said.std is None else said.std[order]
    write_predictions(
        out / "predictions.csv", members[0].targets, rows, smiles, values[order], said.mean[order], std,
        fold[order].tolist(),
    )  # fmt: skip
    model.save(out, names)
    _show(out, model, values, said)
    return Folds(trained, figures, out, model, pooled)


def _intervals(whole: Prepared, index: Tensor, said: Prediction, settings: Settings) -> Uncertainty | None:
    """How wide intervals are, by all molecules as they were predicted out of fold; None for classes."""
    if whole.targets.task != "regression":
        return None
    values = whole.values[index].clone()
    if whole.weights is not None:
        values[whole.weights[index] == 0] = torch.nan  # a value of no weight says nothing of errors
    return KINDS[settings.uncertainty or Conformal.kind].fit(said, values, whole.targets.names)


def _of_fold(trained: Trained) -> dict[str, object]:
    about = trained.model.about
    return {"test": trained.metrics, "split": about["split"], "similarity": about["similarity"]}


def _reference(whole: Prepared, model: MoleculeModel, said: Prediction, seed: int) -> Reference | None:
    """Molecules of all folds to compare others with. The limit is that of test molecules to their training parts."""
    if model.reference is None or said.novelty is None:
        return None
    rows = some_of(torch.arange(len(whole.table)), TRUST.kept, seed)
    counts = described(whole.store, Rows(whole.table.smiles), rows, model.reference.wanted, model.featuriser).counts
    assert counts is not None
    return replace(model.reference, counts=counts, limit=limit_of(said.novelty))


def _show(out: Path, model: MeanModel, values: Tensor, said: Prediction) -> None:
    """Draw all molecules. The model is there by now, and nothing here takes anything from it."""
    from cwnet.molecules import _plots

    try:
        _plots.plot_test(out, model.targets, values, said.mean)
    except Exception as error:
        text = " ".join(f"{type(error).__name__}: {error}".split())
        warnings.warn(f"the folds were not drawn ({text:.300}); the model is whole", stacklevel=3)
