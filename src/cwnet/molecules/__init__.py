"""Models of molecules: trained on a table, kept as a folder, used for prediction, explanation and fingerprints.

Needs RDKit (``pip install cwnet[chem]``).
"""

from importlib import import_module
from typing import Any

#: Where each name comes from. They are imported when they are asked for: RDKit, PyArrow and scikit-learn are large.
_HOME = {
    "CINClassifier": "_estimators",
    "CINFingerprint": "_fingerprints",
    "CINRegressor": "_estimators",
    "CWLFingerprint": "_fingerprints",
    "Explanation": "_explain",
    "Folds": "_folds",
    "MeanModel": "_mean_model",
    "FrameModel": "_frame_model",
    "ModelError": "_prediction",
    "MoleculeModel": "_model",
    "Prediction": "_prediction",
    "Prepared": "_data",
    "Replicates": "_replicates",
    "Settings": "_train",
    "Targets": "_targets",
    "Trained": "_train",
    "Tuned": "_tune",
    "Uncertainty": "_uncertainty",
    "builtin_model": "_builtin",
    "builtin_models": "_builtin",
    "draw_explanation": "_gallery",
    "explain": "_explain",
    "fingerprint_table": "_fingerprint_table",
    "load_model": "_mean_model",
    "nci_table": "_nci",
    "predict_table": "_predict",
    "prepare": "_data",
    "train_folds": "_folds",
    "train": "_frame_model",
    "train_replicates": "_replicates",
    "train_table": "_train",
    "tune_table": "_tune",
    "write_gallery": "_gallery",
}

__all__ = [
    "CINClassifier",
    "CINFingerprint",
    "CINRegressor",
    "CWLFingerprint",
    "Explanation",
    "Folds",
    "FrameModel",
    "MeanModel",
    "ModelError",
    "MoleculeModel",
    "Prediction",
    "Prepared",
    "Replicates",
    "Settings",
    "Targets",
    "Trained",
    "Tuned",
    "Uncertainty",
    "builtin_model",
    "builtin_models",
    "draw_explanation",
    "explain",
    "fingerprint_table",
    "load_model",
    "nci_table",
    "predict_table",
    "prepare",
    "train",
    "train_folds",
    "train_replicates",
    "train_table",
    "tune_table",
    "write_gallery",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"cwnet.molecules.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
