"""Recipes: everything that decides a training run, as typed data that is read from and written to TOML."""

from __future__ import annotations

import difflib
import json
import math
import re
import tomllib
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any, Literal, TypeVar

from cwnet.errors import CwnetError
from cwnet.nn.models import PRESETS, Options

__all__ = [
    "DataRecipe",
    "FactoryRecipe",
    "ModelRecipe",
    "ModelSection",
    "Recipe",
    "RecipeError",
    "ScheduleRecipe",
    "StopRecipe",
    "TrainRecipe",
    "TreeRecipe",
    "load_recipe",
    "shipped",
]

T = TypeVar("T")


class RecipeError(CwnetError, ValueError):
    """A recipe that can not be read or does not fit its data."""


@dataclass(frozen=True)
class DataRecipe:
    """Section ``[data]``: what to learn from.

    Attributes:
        name: a data set (see ``cwnet data list``), or the folder of a saved store.
        lifting: such as "rings:18", or a function of one's own, as in "mymodule:function" (see `cwnet.lifting.Custom`);
            by default the paper's for this data set.
        options: of the data set, such as ``{k = 10}`` for "ring-transfer".
        fold: which split, from 0, or "all" for a run of each.
        val: "own" for the validation part the split has; "next" to validate on the test part of the next fold, which
            is then not trained on.
        task: of a saved store: "regression", "binary", "multilabel" or "multiclass"; by default what its targets look
            like.
        split: of a saved store: a file that `save_split` wrote; by default ``split.json`` in its folder, else 80, 10
            and 10 % by chance.
        on_disk: of a saved store: whether to read it as it is used instead of loading it; by default where it would
            take more than half of the memory that is free.
        limit: at most so many complexes of each part, its first ones: to try an idea. All by default.
    """

    name: str
    lifting: str | None = None
    options: Mapping[str, int | str] = field(default_factory=dict)
    fold: int | Literal["all"] = "all"
    val: Literal["own", "next"] = "own"
    task: Literal["regression", "binary", "multilabel", "multiclass"] | None = None
    split: str | None = None
    on_disk: bool | None = None
    limit: int | None = None


@dataclass(frozen=True)
class ModelRecipe(Options):
    """Section ``[model]``: a preset of `cwnet.nn.models` and its arguments. All keys of `cwnet.nn.models.Options`, and:

    Attributes:
        preset: "cin", "cin++", "steady" (CIN that reads means beside sums, under a capped norm), "gin", "gin-e", "sin"
            (for clique complexes) or "mlp" (a perceptron on every cell, no messages).
        width: features of every layer.
        layers: number of layers.
        dim: largest dimension of cells; what the data has by default, 1 for "no rings".
        width_in: features that cells start with; "raw" for as many as vertices carry, by default the width.
        vertices: what vertices start with: "categories" (embeddings of whole numbers), "linear", "raw", "constant" (one
            learnt vector) or "ones"; by default what fits their features.
        edges: what edges start with: "features", "vertices" (made of their ends), "constant" or "zeros"; by default
            their features, if they have any, else their ends.
        init: what higher cells start with: the "sum" or "mean" of their vertices, or "zeros". Edges made of their ends
            follow it too.
        atoms, bonds: number of categories of each column of features; by default what the data has.
        outputs: numbers out; what the data set asks for by default.
    """

    preset: str = "cin"
    width: int = 64
    layers: int = 3
    dim: int | None = None
    width_in: int | Literal["raw"] | None = None  # type: ignore[assignment]
    vertices: Literal["categories", "linear", "raw", "constant", "ones"] | None = None
    edges: Literal["features", "vertices", "constant", "zeros"] | None = None
    init: Literal["sum", "mean", "zeros"] = "sum"
    atoms: tuple[int, ...] | None = None
    bonds: tuple[int, ...] | None = None
    outputs: int | None = None


@dataclass(frozen=True)
class TreeRecipe:
    """Section ``[model]`` as a tree of parts: tables with a key ``class``, as `cwnet.nn.to_config` writes them.

    What the data decides may be left out: `sizes` of ``Categories``, `width_in` of ``Linear``, `outputs` of a head. A
    class of one's own is named with its module, as in ``class = "mylayers:GatedConv"``; the module is found on the path
    or beside the recipe.
    """

    tree: Mapping[str, Any]

    def to_table(self) -> dict[str, Any]:
        """The section as it is written."""
        plain: dict[str, Any] = _without_none(self.tree)
        return plain


@dataclass(frozen=True)
class FactoryRecipe:
    """Section ``[model]`` as a function that makes the model.

    Attributes:
        factory: as in "mymodule:make"; the module is found on the path or beside the recipe. It is called with the
            data set and gives a model.
        arguments: the other keys, which it gets by name.
    """

    factory: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def to_table(self) -> dict[str, Any]:
        """The section as it is written."""
        return {"factory": self.factory, **self.arguments}


ModelSection = ModelRecipe | TreeRecipe | FactoryRecipe

#: What ``kind``, the key before there were presets, stood for.
_KINDS: dict[str, dict[str, Any]] = {
    "ring-transfer": {
        "preset": "cin", "width_in": "raw", "vertices": "linear", "edges": "zeros", "init": "zeros", "norm": "none",
        "cells": 0,
    },
    "ring-transfer-gin": {"preset": "gin", "vertices": "linear", "norm": "batch", "cells": 0},
}  # fmt: skip


@dataclass(frozen=True)
class TrainRecipe:
    """Section ``[train]``: how to train it, with Adam.

    Attributes:
        loss: "l1", "mse", "bce" or "cross-entropy"; by default what fits the task. "pinball" and "gaussian" have the
            model say how sure it is too: it gives the median and the 5 % and 95 % quantiles of every target, or its
            mean and (before a softplus) its variance; first the predictions of all targets, then the rest.
        metric: "mae", "mae99" (without the largest hundredth of all errors), "rmse", "r2", "rocauc", "ap" or
            "accuracy"; the data set's by default.
        class_weights: "balanced" for a loss in which all classes of a target weigh the same, however rare.
        batch_size: complexes per step, over all processes; 128 unless `max_cells` is given.
        max_cells: cells per step instead.
        even_batches: whether all batches have about the same size, at most `batch_size`. A small last batch with an odd
            complex in it spoils the running averages of a batch norm just before they are used.
        epochs: at the most.
        lr, weight_decay, betas: of Adam.
        clip: largest norm of the gradient; no clipping by default.
        ema: decay of the averaged weights that are evaluated; none by default.
        precision: "float32", "tf32" (GPU), "bf16" (products in 16 bits; on a CPU with avx512_bf16) or
            "float64" (CPU).
        report: whether the result is the test figure at the "stop" or at the "best" validation epoch.
        seeds: a run for each.
        checkpoint_every: epochs between checkpoints; 0 for one at the end.
        keep: checkpoints kept.
    """

    loss: Literal["l1", "mse", "bce", "cross-entropy", "pinball", "gaussian"] | None = None
    metric: Literal["mae", "mae99", "rmse", "r2", "rocauc", "ap", "accuracy"] | None = None
    class_weights: Literal["none", "balanced"] = "none"
    batch_size: int | None = None
    max_cells: int | None = None
    even_batches: bool = False
    epochs: int = 100
    lr: float = 1e-3
    weight_decay: float = 0.0
    betas: tuple[float, float] = (0.9, 0.999)
    clip: float | None = None
    ema: float | None = None
    precision: Literal["float32", "tf32", "bf16", "float64"] = "float32"
    report: Literal["stop", "best"] = "stop"
    seeds: tuple[int, ...] = (0,)
    checkpoint_every: int = 10
    keep: int = 2


@dataclass(frozen=True)
class ScheduleRecipe:
    """Section ``[schedule]``: the learning rate over the epochs.

    Attributes:
        kind: "constant"; "step" (times `factor` after `every` epochs); "plateau" (times `factor` when what is watched
            has not improved for more than `patience` epochs); "cosine" (down to `min_lr` in the last epoch).
        factor, every, patience: see `kind`.
        threshold: what counts as an improvement, as a share of the best value.
        watch: the metric of the validation part, "val", or the training loss, "train".
        min_lr: the learning rate does not go below.
        warmup: epochs over which it rises linearly at the start.
    """

    kind: Literal["constant", "step", "plateau", "cosine"] = "constant"
    factor: float = 0.5
    every: int = 20
    patience: int = 10
    threshold: float = 1e-4
    watch: Literal["val", "train"] = "val"
    min_lr: float = 0.0
    warmup: int = 0


@dataclass(frozen=True)
class StopRecipe:
    """Section ``[stop]``: when to stop before the last epoch.

    Attributes:
        min_lr: when the learning rate falls below it.
        patience: when the validation metric has not improved for so many epochs.
    """

    min_lr: float | None = None
    patience: int | None = None


@dataclass(frozen=True)
class Recipe:
    """A data set, a model and how to train it. `load_recipe` reads one from TOML.

    >>> recipe = Recipe.from_dict({"data": {"name": "zinc"}, "train": {"lr": 0.01}})
    >>> recipe.train.lr, recipe.model.preset
    (0.01, 'cin')
    >>> Recipe.from_dict({"data": {"name": "zinc"}, "train": {"learning-rate": 0.01}})
    Traceback (most recent call last):
    ...
    cwnet.train._recipe.RecipeError: train.learning-rate: there is no such key. Valid keys: loss, metric, ...
    """

    data: DataRecipe
    model: ModelSection = field(default_factory=ModelRecipe)
    train: TrainRecipe = field(default_factory=TrainRecipe)
    schedule: ScheduleRecipe = field(default_factory=ScheduleRecipe)
    stop: StopRecipe = field(default_factory=StopRecipe)
    name: str = "run"
    notes: str = ""
    folder: Path | None = field(default=None, compare=False)  # of its file: code that it names may lie beside it

    def __post_init__(self) -> None:
        _check_values(self)

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> Recipe:
        """A recipe from nested tables, as TOML gives them."""
        return _read(cls, table, "")

    def to_dict(self) -> dict[str, Any]:
        """Nested tables of plain data. What is left to the data set is left out."""
        plain: dict[str, Any] = _plain(self)
        return plain

    def to_toml(self) -> str:
        """The recipe as TOML; `load_recipe` gives the same recipe back."""
        tables = self.to_dict()
        lines = [f"{key} = {_toml(value)}" for key, value in tables.items() if not isinstance(value, dict)]
        for section, table in tables.items():
            if isinstance(table, dict) and table:
                lines += ["", f"[{section}]", *(f"{key} = {_toml(value)}" for key, value in table.items())]
        return "\n".join(lines) + "\n"

    def changed(self, overrides: Iterable[str]) -> Recipe:
        """The recipe with some values replaced, each as ``"train.lr=1e-3"``; values as in TOML, bare words as text."""
        recipe = self
        for override in overrides:
            recipe = _override(recipe, override)
        return replace(recipe, folder=self.folder)

    def with_seeds(self, seeds: Iterable[int]) -> Recipe:
        """The same recipe for other seeds."""
        return replace(self, train=replace(self.train, seeds=tuple(seeds)))


# ------------------------------------------------------------------------------------------------ files


def shipped() -> list[str]:
    """The names of the recipes that come with the package."""
    return sorted(file.name.removesuffix(".toml") for file in _folder().iterdir() if file.name.endswith(".toml"))


def load_recipe(source: str | Path, overrides: Iterable[str] = ()) -> Recipe:
    """Read a recipe.

    Args:
        source: the name of a shipped recipe, such as "zinc-cin", or a TOML file.
        overrides: values to replace, as in ``["train.lr=1e-3", "model.width=64"]``.

    Raises:
        RecipeError: for a recipe that is not there, a key that does not exist or a value of the wrong type. It names
            the key, the value and what was expected.

    >>> load_recipe("zinc-cin", ["model.width=64"]).model.width
    64
    """
    name, text = _find(source)
    folder = None if isinstance(source, str) and source in shipped() else Path(source).resolve().parent
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RecipeError(f"{source} is not TOML: {error}") from None
    try:
        return replace(Recipe.from_dict({"name": name, **table}), folder=folder).changed(overrides)
    except RecipeError as error:
        raise RecipeError(f"{source}: {error}") from None


def _folder() -> Any:
    return resources.files("cwnet.train") / "recipes"


def _find(source: str | Path) -> tuple[str, str]:
    """The name and the text of a recipe."""
    path = Path(source)
    if isinstance(source, str) and source in shipped():
        return source, (_folder() / f"{source}.toml").read_text(encoding="utf-8")
    if path.is_file():
        try:
            return path.stem, path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise RecipeError(f"{path} is not a text file: a recipe is TOML") from None
    near = difflib.get_close_matches(str(source), shipped(), n=1)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    raise RecipeError(f"there is no recipe {str(source)!r}. {hint}Give a TOML file, or one of {', '.join(shipped())}")


# ------------------------------------------------------------------------------------------------ reading


#: What a recipe knows but does not say.
_NOT_WRITTEN = (Path | None,)


def _read(kind: type[T], table: Mapping[str, Any], place: str) -> T:
    """A dataclass from a table, each value checked against the type of its field."""
    hints = typing.get_type_hints(kind)
    known = [f.name for f in fields(kind) if hints[f.name] not in _NOT_WRITTEN]  # type: ignore[arg-type]
    for key in table:
        if key not in known:
            raise RecipeError(_unknown(key, known, place))
    values = {key: _value(hints[key], value, f"{place}{key}") for key, value in table.items()}
    for f in fields(kind):  # type: ignore[arg-type]
        if f.name not in values and f.default is MISSING and f.default_factory is MISSING:
            if is_dataclass(hints[f.name]):
                values[f.name] = _read(hints[f.name], {}, f"{f.name}.")
            else:
                raise RecipeError(f"{place}{f.name} is missing: it has no default")
    return kind(**values)


def _unknown(key: str, known: list[str], place: str) -> str:
    near = difflib.get_close_matches(key.replace("-", "_").lower(), known, n=1, cutoff=0.6)
    if not near and not place:  # a key that belongs into a section
        owners = [f"{s.name}.{key}" for s in fields(Recipe) if key in _keys(s.name)]
        near = owners[:1]
    hint = f"Did you mean {place}{near[0]}? " if near else ""
    return f"{place}{key}: there is no such key. {hint}Valid keys: {', '.join(known)}"


def _keys(section: str) -> list[str]:
    kind = ModelRecipe if section == "model" else typing.get_type_hints(Recipe).get(section)
    return [f.name for f in fields(kind)] if is_dataclass(kind) else []


def _read_model(table: Mapping[str, Any]) -> ModelSection:
    """A preset, a tree or a factory, by the key that says so."""
    ways = [key for key in ("preset", "kind", "class", "factory") if key in table]
    if "class" in ways and len(ways) == 1:
        return TreeRecipe(table)
    if "factory" in ways and len(ways) == 1:
        rest = {key: value for key, value in table.items() if key != "factory"}
        if not isinstance(table["factory"], str):
            raise RecipeError(f'model.factory = {_show(table["factory"])}: it must be a text, as in "mymodule:make"')
        return FactoryRecipe(table["factory"], rest)
    if "class" in ways or "factory" in ways:
        raise RecipeError(f"model.{ways[0]} and model.{ways[-1]}: a model is one of a preset, a class and a factory")
    if "kind" in table:
        rest = {key: value for key, value in table.items() if key != "kind"}
        table = {**rest, **_KINDS.get(str(table["kind"]), {"preset": table["kind"]})}
    preset = table.get("preset", "cin")
    if preset not in PRESETS:
        near = difflib.get_close_matches(str(preset), PRESETS, n=1)
        hint = f"Did you mean {near[0]!r}? " if near else ""
        raise RecipeError(f"model.preset = {_show(preset)}: there is no such preset. {hint}Valid: {', '.join(PRESETS)}")
    defaults = PRESETS[preset].defaults
    return _read(ModelRecipe, {**defaults, **table, "preset": defaults.get("preset", preset)}, "model.")


def _value(hint: Any, value: Any, place: str) -> Any:
    if hint == ModelSection:
        if not isinstance(value, Mapping):
            raise RecipeError(f"{place} = {value!r}: it must be a table, [{place}]")
        return _read_model(value)
    if is_dataclass(hint):
        if not isinstance(value, Mapping):
            raise RecipeError(f"{place} = {value!r}: it must be a table, [{place}]")
        return _read(typing.cast("type[Any]", hint), value, f"{place}.")
    found = _convert(hint, value)
    if found is _NO:
        raise RecipeError(f"{place} = {_show(value)}: it must be {_words(hint)}")
    return found


_NO = object()


def _convert(hint: Any, value: Any) -> Any:
    """The value as the type asks for it, or _NO."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        found = [_convert(kind, value) for kind in inner if kind is not types.NoneType]
        return next((each for each in found if each is not _NO), _NO)
    if origin is Literal:
        return value if isinstance(value, str) and value in inner else _NO
    if origin is tuple:
        return _convert_list(inner, value)
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            return _NO
        pairs = {key: _convert(inner[1], item) for key, item in value.items()}
        return _NO if any(item is _NO for item in pairs.values()) else pairs
    if hint is float:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return float(value) if number else _NO
    return value if isinstance(value, hint) and (hint is bool or not isinstance(value, bool)) else _NO


def _convert_list(inner: tuple[Any, ...], value: Any) -> Any:
    if not isinstance(value, (list, tuple)):
        return _NO
    kinds = [inner[0]] * len(value) if inner[-1] is Ellipsis else list(inner)
    if len(kinds) != len(value):
        return _NO
    items = [_convert(kind, item) for kind, item in zip(kinds, value, strict=True)]
    return _NO if any(item is _NO for item in items) else tuple(items)


def _words(hint: Any) -> str:
    """What a type is called in a message."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_words(kind) for kind in inner if kind is not types.NoneType)
    if origin is Literal:
        quoted = [json.dumps(word) for word in inner]
        return quoted[0] if len(quoted) == 1 else f"one of {', '.join(quoted)}"
    if origin is tuple:
        many = "a list of" if inner[-1] is Ellipsis else f"a list of {len(inner)}"
        return f"{many} {'whole numbers' if inner[0] is int else 'numbers'}"
    if origin is not None:
        return "a table of whole numbers and texts"
    names = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
    return names[hint]


def _show(value: Any) -> str:
    try:
        return _toml(value)
    except TypeError:
        return repr(value)


# ------------------------------------------------------------------------------------------------ values

#: Least and largest values, by section and key.
_RANGES: dict[str, tuple[float, float]] = {
    "model.width": (1, math.inf),
    "model.layers": (1, math.inf),
    "model.dim": (0, math.inf),
    "model.width_in": (1, math.inf),
    "model.cells": (0, math.inf),
    "model.counts": (0, math.inf),
    "model.rounds": (0, math.inf),
    "data.limit": (1, math.inf),
    "model.dropout": (0, 1),
    "model.cell_dropout": (0, 1),
    "model.head_dropout": (0, 1),
    "model.outputs": (1, math.inf),
    "train.batch_size": (1, math.inf),
    "train.max_cells": (1, math.inf),
    "train.epochs": (0, math.inf),
    "train.lr": (0, math.inf),
    "train.weight_decay": (0, math.inf),
    "train.clip": (1e-30, math.inf),
    "train.ema": (0, 1),
    "train.checkpoint_every": (0, math.inf),
    "train.keep": (1, math.inf),
    "schedule.factor": (0, 1),
    "schedule.every": (1, math.inf),
    "schedule.patience": (0, math.inf),
    "schedule.threshold": (0, 1),
    "schedule.min_lr": (0, math.inf),
    "schedule.warmup": (0, math.inf),
    "stop.min_lr": (0, math.inf),
    "stop.patience": (1, math.inf),
}


def _check_values(recipe: Recipe) -> None:
    for place, (low, high) in _RANGES.items():
        section, key = place.split(".")
        value = getattr(getattr(recipe, section), key, None)
        if isinstance(value, (int, float)) and not low <= value <= high:
            limits = f"at least {low:g}" if high == math.inf else f"between {low:g} and {high:g}"
            raise RecipeError(f"{place} = {value}: it must be {limits}")
    train = recipe.train
    if train.batch_size is not None and train.max_cells is not None:
        raise RecipeError(
            f"train.batch_size = {train.batch_size} and train.max_cells = {train.max_cells}: give one of the two"
        )
    if not all(0 <= beta < 1 for beta in train.betas):
        raise RecipeError(f"train.betas = {list(train.betas)}: both must be at least 0 and below 1")
    if not train.seeds or len(set(train.seeds)) < len(train.seeds) or min(train.seeds) < 0:
        raise RecipeError(f"train.seeds = {list(train.seeds)}: give one or more, each once, none negative")
    if isinstance(recipe.data.fold, int) and recipe.data.fold < 0:
        raise RecipeError(f"data.fold = {recipe.data.fold}: folds are counted from 0")


# ------------------------------------------------------------------------------------------------ writing


def _without_none(value: Any) -> Any:
    """TOML has no None: an argument that is None by default is left out."""
    if isinstance(value, Mapping):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    return [_without_none(item) for item in value] if isinstance(value, (list, tuple)) else value


def _plain(value: Any) -> Any:
    if isinstance(value, (TreeRecipe, FactoryRecipe)):
        return value.to_table()
    if isinstance(value, Path):
        return None
    if is_dataclass(value):
        items = {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
        return {key: item for key, item in items.items() if item is not None and item != {}}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return list(value) if isinstance(value, tuple) else value


def _toml(value: Any) -> str:
    """One value in TOML's syntax."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, str):
        # JSON's escapes are TOML's, if DEL is written out too.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, Mapping):
        pairs = [f"{k if re.fullmatch(r'[A-Za-z0-9_-]+', k) else _toml(k)} = {_toml(v)}" for k, v in value.items()]
        return "{" + ", ".join(pairs) + "}"
    raise TypeError(f"{value!r} can not be written as TOML")


# ------------------------------------------------------------------------------------------------ overrides


def _override(recipe: Recipe, text: str) -> Recipe:
    """One ``section.key=value``."""
    key, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not key:
        raise RecipeError(f"{text!r} does not set anything: write section.key=value, as in train.lr=1e-3")
    tables = recipe.to_dict()
    *sections, last = key.split(".")
    table = tables
    for section in sections:
        if not isinstance(table.setdefault(section, {}), dict):
            raise RecipeError(f"{key}: {section} has no keys below it")
        table = table[section]
    if value.lower() == "none":
        table.pop(last, None)  # back to the default
        if sections and last not in _keys(sections[0]):
            raise RecipeError(_unknown(last, _keys(sections[0]), f"{sections[0]}."))
    else:
        table[last] = _parse(value)
    return Recipe.from_dict(tables)


def _parse(text: str) -> Any:
    """A TOML value; what is none is text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        pass
    return text
