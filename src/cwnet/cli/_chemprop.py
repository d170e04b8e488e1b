"""Options of chemprop and what they are here: one table for each verb, of version 2 and the usual ones of version 1.

A name stands without its dashes, and underscores are dashes, so that both versions are spelt alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Literal

__all__ = ["VERBS", "Option", "Verb"]

#: What becomes of an option: words of the command, and what there is to say; given its values and those of all options.
How = Callable[[Sequence[str], Mapping[str, Sequence[str]]], tuple[list[str], str]]


@dataclass(frozen=True)
class Option:
    """An option of chemprop.

    Attributes:
        names: its spellings, separated by blanks.
        takes: how many values.
        to: the option here; "TABLE" or "MODEL" for an argument; "--set KEY" for a value of the recipe.
        words: for values that are words, what each becomes; nothing where it is what happens here anyway.
        how: what becomes of it, where that takes a rule.
        said: a sentence: why there is no counterpart, or what differs. Of an option with `words`, for all other values.
        default: chemprop's own value. Its config files have all values, so the default was hardly asked for.
    """

    names: str
    takes: Literal["none", "one", "many"]
    to: str = ""
    words: Mapping[str, str] = field(default_factory=dict)
    how: How | None = None
    said: str = ""
    default: str = ""


@dataclass(frozen=True)
class Verb:
    """A verb of chemprop.

    Attributes:
        name: what it is here.
        arguments: "MODEL" and "TABLE", in order, and the option of chemprop that each is.
        options: by every spelling.
    """

    name: str
    arguments: Mapping[str, str]
    options: Mapping[str, Option]


# ------------------------------------------------------------------------------------------------ rules


def _smiles(values: Sequence[str], _: Mapping[str, Sequence[str]]) -> tuple[list[str], str]:
    several = len(values) > 1
    return [f"--smiles-column{'s' * several}", ",".join(values)], ""


def _tables(values: Sequence[str], _: Mapping[str, Sequence[str]]) -> tuple[list[str], str]:
    if len(values) == 1:
        return ["TABLE", values[0]], ""
    return ["TABLE", values[0]], (
        "cwnet train takes one table: join them, with a column that says train, val or test, for --split column:NAME."
    )


def _models(values: Sequence[str], _: Mapping[str, Sequence[str]]) -> tuple[list[str], str]:
    path = PurePath(values[0])
    while path.suffix in (".pt", ".ckpt") or path.name.startswith(("model_", "fold_", "replicate_")):
        path = path.parent
    return ["MODEL", str(path)], "cwnet cannot read models of chemprop: train one with cwnet train --out at this place."


def _level(level: str) -> How:
    return lambda values, _: (["--target-columns", ",".join(values), "--target-level", level], "")


def _weights(values: Sequence[str], given: Mapping[str, Sequence[str]]) -> tuple[list[str], str]:
    names = given.get("target-columns", ())
    if len(names) != len(values):
        return [], "cwnet gives weights to columns by name, as in --target-weights a=2,b=1: name the target columns."
    return ["--target-weights", ",".join(f"{n}={w}" for n, w in zip(names, values, strict=True))], ""


def _sizes(values: Sequence[str], _: Mapping[str, Sequence[str]]) -> tuple[list[str], str]:
    if [float(value) for value in values] == [0.8, 0.1, 0.1]:
        return [], ""
    return [], "Parts are 80, 10 and 10 % here: for others write a column and give --split column:NAME."


def _several(option: str) -> How:
    """An option that is left out where it is 1."""
    return lambda values, _: ([] if values[0] == "1" else [option, values[0]], "")


def _interval(share: Callable[[float], float]) -> How:
    return lambda values, _: (["--interval", f"{share(float(values[0])):g}"], "")


# ------------------------------------------------------------------------------------------------ options

_NO_TRANSFER = "cwnet trains networks from the start and takes no weights of others."
_NO_EXTRA = (
    "cwnet takes no features of single atoms or bonds beside its own; numbers of molecules go into columns of the "
    "table, with --descriptor-columns A,B."
)
_ONE_WIDTH = "The head follows the width of the network: --set model.width."
_NOT_NEEDED = "It is not needed here."

_COMMON = [
    Option("smiles-columns smiles-column s", "many", how=_smiles),
    Option("reaction-columns r", "many",
           said="A column of reactions is given to cwnet train as --smiles-column NAME --reactions."),
    Option("num-workers n", "one", said="Molecules are prepared once, so no processes load them.", default="0"),
    Option("accelerator", "one", words={
        "auto": "", "cpu": "--device cpu", "gpu": "--device cuda", "cuda": "--device cuda"},
        said="cwnet computes on a CPU or an NVIDIA GPU.", default="auto"),
    Option("devices", "one", words={"auto": "", "1": ""}, default="auto",
           said="For several GPUs, train as a recipe under torchrun; a table's model takes one."),
    Option("gpu", "one", how=lambda values, _: (["--device", f"cuda:{values[0]}"], "")),
    Option("no-cuda", "none", to="--device cpu"),
    Option("rxn-mode reaction-mode", "one", said="A reaction is one condensed graph here, in no modes.",
           default="REAC_DIFF"),
    Option("multi-hot-atom-featurizer-mode", "one", said="Atoms have one set of features here.", default="V2"),
    Option("keep-h explicit-h", "none", said="Hydrogen atoms are counted at their heavy atoms, never vertices."),
    Option("add-h adding-h", "none", said="Hydrogen atoms are counted at their heavy atoms, never vertices."),
    Option("ignore-stereo", "none", said="Stereochemistry is read where SMILES have it: leave it out of the SMILES."),
    Option("reorder-atoms", "none", said=_NOT_NEEDED),
    Option("molecule-featurizers features-generators features-generator", "many", words={
        "rdkit_2d": "--descriptors rdkit", "v1_rdkit_2d": "--descriptors rdkit",
        "v1_rdkit_2d_normalized": "--descriptors rdkit", "rdkit_2d_normalized": "--descriptors rdkit",
        "morgan_binary": "", "morgan_count": "", "morgan": ""},
        said="cwnet has RDKit's descriptors and Morgan counts."),
    Option("descriptors-path features-path", "many",
           said="Write the numbers into columns of the table and give --descriptor-columns A,B."),
    Option("descriptors-columns", "many", to="--descriptor-columns"),
    Option("no-descriptor-scaling no-features-scaling", "none", said="Descriptors are always scaled."),
    Option("no-atom-feature-scaling no-atom-descriptor-scaling no-bond-feature-scaling no-bond-descriptor-scaling",
           "none", said=_NO_EXTRA),
    Option("atom-features-path atom-descriptors-path bond-features-path bond-descriptors-path atom-descriptors "
           "bond-descriptors overwrite-default-atom-features overwrite-default-bond-features", "many", said=_NO_EXTRA),
    Option("constraints-path", "one", said="Targets of atoms and bonds are not held to a sum."),
    Option("constraints-to-targets", "many", said="Targets of atoms and bonds are not held to a sum."),
    Option("use-cuikmolmaker-featurization", "none", said=_NOT_NEEDED),
    Option("no-cache no-cache-mol empty-cache", "none", said=_NOT_NEEDED),
    Option("cache-cutoff", "one", said=_NOT_NEEDED),
    Option("number-of-molecules", "one", words={"1": ""}, said="Name the columns: --smiles-columns A,B.", default="1"),
    Option("max-data-size", "one", said="Give a table with so many rows."),
    Option("logfile log log-dir", "one", said="Curves, checkpoints and figures are in the folder, but no log file."),
    Option("v", "none", said="There is no more to say than is said."),
    Option("q quiet", "none", to="--quiet"),
]  # fmt: skip

_TRAIN = [
    Option("data-path i", "many", how=_tables),
    Option("output-dir save-dir o", "one", to="--out"),
    Option("target-columns mol-target-columns", "many", to="--target-columns"),
    Option("atom-target-columns", "many", how=_level("atom")),
    Option("bond-target-columns", "many", how=_level("bond")),
    Option("ignore-columns", "many", said="Name the columns to learn with --target-columns; all others are ignored."),
    Option("weight-column w", "one", to="--weight-column"),
    Option("data-weights-path", "one", said="Write the weights into a column of the table: --weight-column NAME."),
    Option("task-weights target-weights", "many", how=_weights),
    Option("task-type dataset-type t", "one", words={
        "regression": "--task regression", "classification": "--task classification",
        "multiclass": "--task classification", "regression_mve": "--task regression --uncertainty mve",
        "regression_quantile": "--task regression --uncertainty quantile"},
        said="cwnet has no evidential, Dirichlet or spectral targets: --task regression or --task classification."),
    Option("multiclass-num-classes", "one", said="Classes are counted in the table.", default="3"),
    Option("loss-function l", "one", words={
        "mse": "--set train.loss=mse", "mae": "--set train.loss=l1", "bce": "", "ce": "", "binary_cross_entropy": "",
        "cross_entropy": "", "mve": "--uncertainty mve", "quantile": "--uncertainty quantile",
        "pinball": "--uncertainty quantile"},
        said="Losses are absolute and squared errors and cross entropy: --set train.loss=l1, or mse."),
    Option("metrics metric extra-metrics", "many",
           said="All figures are reported: MAE, RMSE and R², or ROC-AUC, average precision and accuracy."),
    Option("tracking-metric", "one", words={
        "val_loss": "", "mae": "--set train.metric=mae", "rmse": "--set train.metric=rmse",
        "r2": "--set train.metric=r2", "roc": "--set train.metric=rocauc", "prc": "--set train.metric=ap",
        "accuracy": "--set train.metric=accuracy"},
        said="Epochs are chosen by MAE or ROC-AUC of the validation part.", default="val_loss"),
    Option("show-individual-scores", "none", said="Every column has its figures anyway."),
    Option("class-balance", "none", to="--balance"),
    Option("split split-type", "one", words={
        "random": "", "scaffold_balanced": "--split scaffold", "scaffold": "--split scaffold",
        "kennard_stone": "--split kennard-stone", "kmeans": "--split cluster"}, default="RANDOM",
        said="Splits are random, scaffold, cluster, kennard-stone, time:COLUMN, column:NAME and file:PATH."),
    Option("split-sizes", "many", how=_sizes),
    Option("split-key-molecule", "one", said="Splits look at the first column of SMILES.", default="0"),
    Option("splits-column", "one", how=lambda values, _: (["--split", f"column:{values[0]}"], "")),
    Option("splits-file", "one",
           said="Write the parts as a JSON object with the lists train, val and test, and give --split file:PATH."),
    Option("folds-file crossval-index-dir crossval-index-file val-fold-index test-fold-index", "one",
           said="Write a column that says train, val or test, and give --split column:NAME."),
    Option("separate-val-path separate-test-path", "one",
           said="Join the tables, with a column that says train, val or test, and give --split column:NAME."),
    Option("num-replicates", "one", how=_several("--replicates"), default="1"),
    Option("num-folds k", "one", how=_several("--folds"), default="1"),
    Option("save-smiles-splits save-data-splits save-preds", "none",
           said="split.json and predictions.csv are always in the folder."),
    Option("data-seed seed", "one", to="--seeds", default="0"),
    Option("pytorch-seed", "one", said="One seed, that of --seeds, is for the split and the networks.", default="0"),
    Option("ensemble-size", "one", to="--ensemble", default="1"),
    Option("message-hidden-dim hidden-size", "many", to="--set model.width", default="300"),
    Option("depth", "many", to="--set model.layers", default="3"),
    Option("dropout", "one", to="--set model.dropout", default="0.0"),
    Option("message-bias bias", "none", said="Layers have biases anyway."),
    Option("undirected atom-messages", "none", said="Messages go between atoms, bonds and rings, both ways."),
    Option("mpn-shared", "none", said="All columns of SMILES share one network."),
    Option("aggregation agg", "one", words={
        "mean": "--set model.pool=mean", "sum": "--set model.pool=sum", "norm": "--set model.pool=sum"}, default="norm",
        said="Atoms, bonds and rings are summed, averaged, or both: --set model.pool=both."),
    Option("aggregation-norm", "one", said="A norm inside the network takes its place.", default="100"),
    Option("activation", "one", words={"relu": "", "elu": "--set model.act=elu", "tanh": "--set model.act=tanh"},
           said="Activations are relu, elu, tanh and silu: --set model.act=silu.", default="RELU"),
    Option("activation-args", "many", said="Activations have no arguments."),
    Option("ffn-hidden-dim ffn-hidden-size", "many", said=_ONE_WIDTH, default="300"),
    Option("ffn-num-layers", "one", said=_ONE_WIDTH, default="1"),
    Option("atom-ffn-hidden-dim bond-ffn-hidden-dim atom-constrainer-ffn-hidden-dim bond-constrainer-ffn-hidden-dim",
           "many", said=_ONE_WIDTH, default="300"),
    Option("atom-ffn-num-layers bond-ffn-num-layers atom-constrainer-ffn-num-layers bond-constrainer-ffn-num-layers "
           "weights-ffn-num-layers", "one", said=_ONE_WIDTH, default="1"),
    Option("atom-multiclass-num-classes bond-multiclass-num-classes", "one", said="Classes are counted in the table.",
           default="3"),
    Option("atom-task-weights bond-task-weights", "many",
           said="Weights go by the names of columns: --target-weights a=2,b=1."),
    Option("batch-norm", "none", said="Every layer has a norm anyway: --set model.norm=batch for the plain one."),
    Option("batch-size b", "one", to="--set train.batch_size", default="64"),
    Option("epochs", "one", to="--epochs", default="50"),
    Option("patience", "one", to="--set stop.patience"),
    Option("min-delta", "one", said="Any improvement counts.", default="0.0"),
    Option("max-lr", "one", to="--set train.lr", default="0.001"),
    Option("init-lr", "one", said="The learning rate rises from nothing.", default="0.0001"),
    Option("final-lr", "one", to="--set schedule.min_lr", default="0.0001"),
    Option("warmup-epochs", "one", to="--set schedule.warmup", default="2"),
    Option("grad-clip", "one", to="--set train.clip"),
    Option("v-kl evidential-regularization eps", "one", said="There is no evidential loss.", default="0.0 1e-08 0"),
    Option("alpha", "one", said="Intervals have their level when they are predicted: cwnet predict --interval 0.9.",
           default="0.1"),
    Option("checkpoint checkpoint-frzn model-frzn", "many", said=_NO_TRANSFER),
    Option("freeze-encoder freeze-first-only", "none", said=_NO_TRANSFER),
    Option("frzn-ffn-layers", "one", said=_NO_TRANSFER, default="0"),
    Option("from-foundation", "one", said=_NO_TRANSFER),
    Option("remove-checkpoints", "none", said="Checkpoints are in the folder training, which can be deleted."),
    Option("resume-experiment", "none", to="--resume"),
    Option("no-header-row", "none", said="cwnet train needs a header: add a line with the names of the columns."),
    Option("reaction reaction-solvent is-atom-bond-targets keeping-atom-map features-only test", "none",
           said="There is no such mode: cwnet train has --target-level for atoms and bonds, and --no-network."),
    Option("log-frequency", "one", said="Every epoch has its line in curves.csv."),
]  # fmt: skip

_USE = [
    Option("test-path data-path i", "one", to="TABLE"),
    Option("output preds-path o", "one", to="--output"),
    Option("model-paths model-path checkpoint-dir checkpoint-path checkpoint-paths", "many", how=_models),
    Option("no-header-row", "none", to="--no-header"),
    Option("batch-size b", "one", said="Batches are as large as suits the molecules.", default="64"),
    Option("drop-extra-columns", "none", said="The columns of the table are kept: cut them off afterwards."),
]  # fmt: skip

_CALIBRATED = "Intervals and probabilities are calibrated on the validation part, in training."
_PREDICT = [
    Option("uncertainty-method", "one", words={
        "none": "", "ensemble": "", "classification": "", "mve": "", "quantile_regression": ""},
        said="Predictions have intervals and the spread of networks; see cwnet train --uncertainty.", default="none"),
    Option("calibration-method", "one", said=_CALIBRATED),
    Option("cal-path calibration-path", "one", said=_CALIBRATED),
    Option("cal-descriptors-path cal-atom-features-path cal-atom-descriptors-path cal-bond-features-path "
           "cal-bond-descriptors-path calibration-features-path", "many", said=_CALIBRATED),
    Option("cal-constraints-path", "one", said=_CALIBRATED),
    Option("calibration-interval-percentile", "one", how=_interval(lambda p: p / 100), default="95"),
    Option("conformal-alpha", "one", how=_interval(lambda alpha: 1 - alpha), default="0.1"),
    Option("evaluation-methods evaluation-method", "many",
           said="cwnet train reports how many test values their intervals hold."),
    Option("evaluation-scores-path", "one", said="cwnet train reports how many test values their intervals hold."),
    Option("uncertainty-dropout-p dropout-sampling-size", "one", default="0.1 10",
           said="Uncertainty comes from networks and trees, not dropout."),
    Option("ensemble-variance", "none", said="The standard deviation is always there, as NAME_std."),
    Option("individual-ensemble-predictions", "none", said="The mean and the spread of the networks are written."),
    Option("callback", "one", said="There are no callbacks: cwnet.molecules.MoleculeModel predicts in Python."),
    Option("callback-params", "one", said="There are no callbacks: cwnet.molecules.MoleculeModel predicts in Python."),
]  # fmt: skip

_FINGERPRINT = [
    Option("ffn-block-index fingerprint-type", "one", said="Vectors are those before the head of the network.",
           default="-1"),
]  # fmt: skip

_RAY = "Trials run here, or in --workers processes; no Ray is started."
_HPOPT = [
    Option("raytune-num-samples num-iters", "one", to="--trials", default="10"),
    Option("hpopt-save-dir", "one", to="--out"),
    Option("config-save-path", "one", how=lambda values, _: (["--out", str(PurePath(values[0]).parent)], "")),
    Option("hyperopt-random-state-seed hyperopt-seed data-seed seed", "one", to="--seed", default="0"),
    Option("raytune-max-concurrent-trials raytune-num-workers", "one", to="--workers", default="1"),
    Option("search-parameter-keywords", "many", default="basic",
           said="All settings are searched but those that are given: fix one with its option, or --set."),
    Option("raytune-search-algorithm raytune-trial-scheduler raytune-grace-period raytune-reduction-factor "
           "hyperopt-n-initial-points startup-random-iters", "one", default="hyperopt FIFO 10 2",
           said="The search is successive halving of random candidates."),
    Option("raytune-use-gpu", "none", said="A GPU is used where there is one."),
    Option("raytune-num-checkpoints-to-keep raytune-temp-dir raytune-num-cpus raytune-num-gpus", "one", said=_RAY,
           default="1"),
    Option("hyperopt-checkpoint-dir", "one", said="The journal in --out is what a search goes on from, with --resume."),
    Option("manual-trial-dirs", "many", said="The default settings are the first trial, and all others are drawn."),
]  # fmt: skip

_INTERPRET = [
    Option("property-id", "one", said="Name the column: --target NAME."),
    Option("rollout c-puct max-atoms min-atoms prop-delta", "one",
           said="Contributions of atoms, bonds and rings are computed, not searched."),
]  # fmt: skip


def _verb(name: str, arguments: Mapping[str, str], *options: Sequence[Option]) -> Verb:
    """A verb; of two options of one name the later holds."""
    return Verb(name, arguments, {name: o for some in options for o in some for name in o.names.split()})


_A_TABLE = {"TABLE": "data-path"}
_A_MODEL_AND_A_TABLE = {"MODEL": "model-paths", "TABLE": "test-path"}

#: By the verb of chemprop.
VERBS: dict[str, Verb] = {
    "train": _verb("train", _A_TABLE, _COMMON, _TRAIN),
    "predict": _verb("predict", _A_MODEL_AND_A_TABLE, _COMMON, _USE, _PREDICT),
    "fingerprint": _verb("fingerprint", _A_MODEL_AND_A_TABLE, _COMMON, _USE, _FINGERPRINT),
    "hpopt": _verb("tune", _A_TABLE, _COMMON, _TRAIN, _HPOPT),
    "interpret": _verb("explain", _A_MODEL_AND_A_TABLE, _COMMON, _USE, _INTERPRET),
}
