"""Training: recipes, the engine, checkpoints, figures."""

from cwnet.train._checkpoint import load_model
from cwnet.train._errors import CheckpointError, TrainingError
from cwnet.train._fit import fit, fit_many
from cwnet.train._objectives import Metric
from cwnet.train._recipe import (
    DataRecipe,
    FactoryRecipe,
    ModelRecipe,
    Recipe,
    RecipeError,
    ScheduleRecipe,
    StopRecipe,
    TrainRecipe,
    TreeRecipe,
    load_recipe,
)
from cwnet.train._run import RunResult

__all__ = [
    "CheckpointError",
    "DataRecipe",
    "FactoryRecipe",
    "Metric",
    "ModelRecipe",
    "Recipe",
    "RecipeError",
    "RunResult",
    "ScheduleRecipe",
    "StopRecipe",
    "TrainRecipe",
    "TrainingError",
    "TreeRecipe",
    "fit",
    "fit_many",
    "load_model",
    "load_recipe",
]
