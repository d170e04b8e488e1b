"""Models of molecules as scikit-learn estimators: SMILES in, numbers or classes out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from cwnet.chem import Featuriser
from cwnet.data import Split, random_split
from cwnet.errors import CwnetError
from cwnet.molecules._data import FEWEST, check_count, stratified_split
from cwnet.molecules._model import MoleculeModel
from cwnet.molecules._targets import Targets
from cwnet.molecules._train import Settings, learn

__all__ = ["CINClassifier", "CINRegressor"]


class _CINEstimator(BaseEstimator):  # type: ignore[misc]
    """What both have in common. A tenth of the molecules is held back to choose the epoch by."""

    def __init__(
        self,
        lifting: str = Featuriser.lifting,
        width: int = 64,
        layers: int = 3,
        epochs: int | None = None,
        lr: float = 2e-3,
        batch_size: int = 64,
        ensemble: int = 1,
        random_state: int | None = 0,
        device: str = "auto",
        verbose: bool = False,
    ) -> None:
        self.lifting = lifting
        self.width = width
        self.layers = layers
        self.epochs = epochs
        self.lr = lr
        self.batch_size = batch_size
        self.ensemble = ensemble
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def _settings(self, balance: bool = False) -> Settings:
        seed = int(np.random.default_rng().integers(2**31)) if self.random_state is None else int(self.random_state)
        changes = (
            f"model.width={self.width}",
            f"model.layers={self.layers}",
            f"train.lr={self.lr}",
            f"train.batch_size={self.batch_size}",
        )
        return Settings("random", seed, self.ensemble, self.epochs, balance, self.lifting, changes, trees=False)

    def _learn(self, smiles: Any, values: torch.Tensor, targets: Targets, settings: Settings) -> MoleculeModel:
        texts = _texts(smiles)
        if len(texts) != len(values):
            raise ValueError(f"there are {len(texts)} SMILES and {len(values)} targets: give one for each")
        check_count(len(texts), type(self).__name__)
        store = Featuriser(settings.lifting)(texts)
        split = _held_back(values, targets, settings.seed)
        targets = targets.scaled_by(values[split.train])
        return learn(store, values, targets, split, settings, device=self.device, progress=bool(self.verbose))

    def _predicted(self, smiles: Any) -> NDArray[np.float64]:
        check_is_fitted(self, "model_")
        model: MoleculeModel = self.model_
        found: NDArray[np.float64] = model.predict(_texts(smiles)).mean.numpy()
        return found


class CINRegressor(RegressorMixin, _CINEstimator):  # type: ignore[misc]
    """CIN on molecules for numbers, in the way of scikit-learn.

    Args:
        lifting: which rings are cells.
        width: features of every layer.
        layers: number of layers.
        epochs: at the most; by default fewer for more molecules.
        lr: learning rate.
        batch_size: molecules per step.
        ensemble: networks; their mean is predicted.
        random_state: of the weights and of the molecules held back.
        device: "cpu", "cuda", or "auto" for a GPU if there is one.
        verbose: whether to show progress.

    Attributes:
        model_: the `MoleculeModel`.

    >>> smiles = ["C" * n for n in range(1, 21)]
    >>> model = CINRegressor(width=8, layers=1, epochs=2, device="cpu").fit(smiles, list(range(20)))
    >>> model.predict(["CCO"]).shape
    (1,)
    """

    def fit(self, smiles: Sequence[str], y: Any) -> Self:
        """Train.

        Args:
            smiles: SMILES, [molecules].
            y: numbers, [molecules] or [molecules, targets]; NaN where they are missing.
        """
        array = np.asarray(y, dtype=np.float64)
        if array.ndim not in (1, 2) or np.isinf(array).any():
            raise ValueError(
                f"y must be finite numbers, [molecules] or [molecules, targets], not of shape {array.shape}"
            )
        self._flat = array.ndim == 1
        values = torch.from_numpy(array.reshape(len(array), -1)).float()
        names = tuple(f"y{i}" for i in range(values.shape[1])) if not self._flat else ("y",)
        self.model_ = self._learn(smiles, values, Targets("regression", names), self._settings())
        self.n_features_in_ = 1
        return self

    def predict(self, smiles: Sequence[str]) -> NDArray[np.float64]:
        """The predicted numbers, in the shape of y."""
        found = self._predicted(smiles)
        return found[:, 0] if self._flat else found


class CINClassifier(ClassifierMixin, _CINEstimator):  # type: ignore[misc]
    """CIN on molecules for two or more classes, in the way of scikit-learn.

    Args:
        lifting: as all that follow but the last, as in `CINRegressor`.
        width: see there.
        layers: see there.
        epochs: see there.
        lr: see there.
        batch_size: see there.
        ensemble: see there.
        random_state: see there.
        device: see there.
        verbose: see there.
        class_weight: "balanced" to let all classes weigh the same; None for each molecule the same.

    Attributes:
        classes_: the labels.
        model_: the `MoleculeModel`.
    """

    def __init__(
        self,
        lifting: str = Featuriser.lifting,
        width: int = 64,
        layers: int = 3,
        epochs: int | None = None,
        lr: float = 2e-3,
        batch_size: int = 64,
        ensemble: int = 1,
        random_state: int | None = 0,
        device: str = "auto",
        verbose: bool = False,
        class_weight: str | None = None,
    ) -> None:
        super().__init__(lifting, width, layers, epochs, lr, batch_size, ensemble, random_state, device, verbose)
        self.class_weight = class_weight

    def fit(self, smiles: Sequence[str], y: Any) -> Self:
        """Train.

        Args:
            smiles: SMILES, [molecules].
            y: labels, [molecules].
        """
        if self.class_weight not in (None, "balanced"):
            raise ValueError(f"class_weight={self.class_weight!r} is not 'balanced' or None")
        labels = np.asarray(y)
        if labels.ndim != 1:
            raise ValueError(f"y must be one label per molecule, [molecules], not of shape {labels.shape}")
        self.classes_, numbers = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise CwnetError(f"y has one class only, {self.classes_.tolist()}: there is nothing to learn")
        task: Any = "binary" if len(self.classes_) == 2 else "multiclass"
        targets = Targets(task, ("y",), (tuple(map(str, self.classes_.tolist())),))
        values = torch.from_numpy(numbers).float()[:, None]
        self.model_ = self._learn(smiles, values, targets, self._settings(self.class_weight == "balanced"))
        self.n_features_in_ = 1
        return self

    def predict_proba(self, smiles: Sequence[str]) -> NDArray[np.float64]:
        """The probability of each class, [molecules, classes]."""
        found = self._predicted(smiles)
        return np.concatenate([1 - found, found], 1) if found.shape[1] == 1 else found

    def predict(self, smiles: Sequence[str]) -> NDArray[Any]:
        """The most probable labels, [molecules]."""
        check_is_fitted(self, "model_")
        return np.asarray(self.classes_[self.predict_proba(smiles).argmax(1)])


def _texts(smiles: Any) -> list[str]:
    """SMILES from a list, an array, a column of a data frame, or an array with one column."""
    if isinstance(smiles, str):
        raise TypeError("one text was given where many SMILES were expected: put it in a list")
    array = np.asarray(smiles, dtype=object)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(f"SMILES must be one per molecule, [molecules], not of shape {array.shape}")
    for i, text in enumerate(array):
        if not isinstance(text, str):
            raise TypeError(f"molecule {i} is {text!r:.60}, not a SMILES")
    return [str(text) for text in array]


def _held_back(values: torch.Tensor, targets: Targets, seed: int) -> Split:
    """A tenth to choose by, the rest to train on."""
    if targets.task == "regression":
        split = random_split(len(values), (0.9, 0.1, 0.0) if len(values) >= 5 * FEWEST else (0.8, 0.2, 0.0), seed=seed)
        return Split(split.train, split.val, [])  # type: ignore[arg-type]
    split = stratified_split(values, targets, seed)
    return Split(torch.cat([split.train, split.test]), split.val, [])  # type: ignore[arg-type]
