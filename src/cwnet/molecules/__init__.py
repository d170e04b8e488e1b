"""Models of molecules: trained on a table, kept as a folder, used for prediction and explanation.

Needs RDKit (``pip install cwnet[chem]``).
"""

from importlib import import_module
from typing import Any

#: Where each name comes from. They are imported when they are asked for: RDKit, PyArrow and scikit-learn are large.
_HOME = {
    "CINClassifier": "_estimators",
    "CINRegressor": "_estimators",
    "Explanation": "_explain",
    "ModelError": "_model",
    "MoleculeModel": "_model",
    "Prediction": "_model",
    "Prepared": "_data",
    "Settings": "_train",
    "Targets": "_targets",
    "Trained": "_train",
    "draw_explanation": "_gallery",
    "explain": "_explain",
    "nci_table": "_nci",
    "predict_table": "_predict",
    "prepare": "_data",
    "train_table": "_train",
    "write_gallery": "_gallery",
}

__all__ = [
    "CINClassifier",
    "CINRegressor",
    "Explanation",
    "ModelError",
    "MoleculeModel",
    "Prediction",
    "Prepared",
    "Settings",
    "Targets",
    "Trained",
    "draw_explanation",
    "explain",
    "nci_table",
    "predict_table",
    "prepare",
    "train_table",
    "write_gallery",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"cwnet.molecules.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
