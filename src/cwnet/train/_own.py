"""What a caller of `fit` brings in the place of what a recipe names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import torch

from cwnet.data import Dataset
from cwnet.nn import Module, to_config
from cwnet.train._objectives import Loss, Metric
from cwnet.train._recipe import FactoryRecipe, Recipe, RecipeError, TreeRecipe
from cwnet.train._state import OptimiserMaker

__all__ = ["Own", "check_outputs", "written"]


@dataclass(frozen=True)
class Own:
    """Parts of a training that are given as Python objects; None for what the recipe says.

    Attributes:
        model: makes the model of the data set, with fresh weights.
        optimiser: makes it of the parameters of a model.
        loss: of (predictions, targets), a value for every row or every entry.
        metric: what is measured.
    """

    model: Callable[[Dataset], torch.nn.Module] | None = None
    optimiser: OptimiserMaker | None = None
    loss: Loss | None = None
    metric: Metric | None = None

    def __post_init__(self) -> None:
        if isinstance(self.model, torch.nn.Module):
            kind = type(self.model).__name__
            raise RecipeError(
                f"model is a {kind}, not a function that makes one: give model=lambda dataset: {kind}(...), so that "
                "every seed starts from weights of its own"
            )
        optimiser: Any = self.optimiser
        if isinstance(optimiser, torch.optim.Optimizer):
            kind = type(optimiser).__name__
            raise RecipeError(
                f"optimiser is a {kind}, not a function that makes one: give optimiser=lambda parameters: "
                f"{kind}(parameters, ...)"
            )
        metric: Any = self.metric
        if metric is not None and not isinstance(metric, Metric):
            raise RecipeError("metric must be a cwnet.train.Metric(name, larger_is_better, function)")

    def names(self) -> dict[str, str]:
        """What was given, in words."""
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        return {key: _name(value) for key, value in given.items() if value is not None}

    def told(self, recipe: Recipe, dataset: Dataset) -> Recipe:
        """A resolved recipe that says what is trained, and not what it would have trained. Once said is enough."""
        if not (names := self.names()):
            return recipe
        changes: dict[str, Any] = {key: None for key in ("loss", "metric") if key in names}
        recipe = replace(recipe, train=replace(recipe.train, **changes))
        said = f"Given in Python: {'; '.join(f'{key} {name}' for key, name in names.items())}."
        if said in recipe.notes:
            return recipe
        recipe = replace(recipe, notes=f"{recipe.notes} {said}".strip())
        if self.model is None:
            return recipe
        with torch.random.fork_rng(devices=[]):
            config = written(self.model(dataset))
        model = FactoryRecipe(names["model"]) if config is None else TreeRecipe(config)
        return replace(recipe, model=model)


def _name(value: Any) -> str:
    if isinstance(value, Metric):
        return value.name
    kind = value if hasattr(value, "__qualname__") else type(value)
    return f"{kind.__module__}:{kind.__qualname__}"


def written(model: torch.nn.Module) -> Any:
    """A model as plain data, or None where it is none of ours and can not be written."""
    try:
        return to_config(model) if isinstance(model, Module) else None
    except TypeError:
        return None


@torch.no_grad()
def check_outputs(model: Any, dataset: Dataset, cells: int | None, outputs: int) -> None:
    """Refuse a model of someone's own that is none, or that gives something else than a row for every target."""
    if not isinstance(model, torch.nn.Module):
        raise RecipeError(f"the model is {model!r}: what makes it must return a torch.nn.Module")
    batch = dataset.store.batch(torch.arange(min(2, len(dataset.store)))).to("cpu")
    modes = {part: part.training for part in model.modules()}
    found = model.eval()(batch)
    for part, mode in modes.items():
        part.training = mode
    rows = len(batch) if cells is None else batch.num_cells[cells]
    shape = tuple(found.shape) if isinstance(found, torch.Tensor) else type(found).__name__
    if shape != (rows, outputs):
        whose = "complexes" if cells is None else f"cells of dimension {cells}"
        end = f"a readout and Head(width, {outputs})" if cells is None else f"CellHead(width, {outputs}, dim={cells})"
        raise RecipeError(
            f"the model gives {shape} for {rows} {whose}, and {dataset.name} needs [{rows}, {outputs}]: end it with "
            f"{end}"
        )
