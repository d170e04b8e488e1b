"""Models that come with cwnet."""

from __future__ import annotations

from pathlib import Path

from cwnet.molecules._model import ModelError, MoleculeModel

__all__ = ["DEFAULT", "builtin_folder", "builtin_model", "builtin_models"]

#: What is used where no model is named.
DEFAULT = "zinc"

_MODELS = Path(__file__).parent / "models"


def builtin_models() -> list[str]:
    """The names of the models that come with cwnet."""
    return sorted(path.parent.name for path in _MODELS.glob("*/model.json"))


def builtin_folder(name: str = DEFAULT) -> Path:
    """The folder of a model that comes with cwnet.

    Raises:
        ModelError: if there is no such model.
    """
    known = builtin_models()
    if name not in known:
        there = f"there are {', '.join(known)}" if known else "there is none in this installation"
        raise ModelError(f"no model {name!r} comes with cwnet ({there}): give the folder that cwnet train wrote")
    return _MODELS / name


def builtin_model(name: str = DEFAULT) -> MoleculeModel:
    """A model that comes with cwnet, trained and ready; `MoleculeModel.load` takes its name too.

    Args:
        name: "zinc" predicts penalised logP.

    Raises:
        ModelError: if there is no such model.
    """
    return MoleculeModel.load(builtin_folder(name))
