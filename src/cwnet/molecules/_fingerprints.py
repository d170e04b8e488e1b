"""Molecules as vectors: what a model has learnt to see in them, or counts of CWL colours."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, TransformerMixin

from cwnet.chem import Featuriser
from cwnet.complexes import ComplexStore
from cwnet.molecules._builtin import DEFAULT
from cwnet.molecules._estimators import _texts
from cwnet.molecules._model import MoleculeModel
from cwnet.wl._refine import refine_fast

__all__ = ["CINFingerprint", "CWLFingerprint", "Fingerprint"]


class Fingerprint(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """What both have in common: SMILES in, a row of numbers for each out. Nothing is learnt from the data."""

    @property
    def featuriser(self) -> Featuriser:
        """What makes complexes of molecules."""
        raise NotImplementedError

    @property
    def width(self) -> int:
        """Numbers per molecule."""
        raise NotImplementedError

    def of_complexes(self, store: ComplexStore) -> Any:
        """The vectors of complexes that the featuriser made, [complexes, width]."""
        raise NotImplementedError

    def fit(self, smiles: Any, y: Any = None) -> Self:
        """Check the arguments; there is nothing to learn."""
        _texts(smiles)
        _ = self.featuriser, self.width
        self.n_features_in_ = 1
        return self

    def transform(self, smiles: Any) -> Any:
        """The vectors of molecules, [molecules, width].

        Raises:
            GraphError: for a SMILES that can not be read, with its position.
        """
        return self.of_complexes(self.featuriser(_texts(smiles)))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """The names of the columns."""
        return np.array([f"fp_{i}" for i in range(self.width)], dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        return True


class CWLFingerprint(Fingerprint):
    """How often each colour of the cellular WL test occurs among the atoms, bonds and rings of a molecule.

    Atoms and bonds begin with the colour of their kind, rings with one for all, and every round looks one step further,
    as the circles of Morgan fingerprints do; but rings are cells of their own. Colours are hashes, and the number of a
    column is the colour modulo `size`: columns mean the same in every file and on every machine. Two colours may
    share one.

    Args:
        size: columns.
        rounds: rounds of refinement; the colours of all rounds are counted.
        lifting: which rings are cells.
        threads: worker threads; all cores by default.

    >>> CWLFingerprint(size=64, rounds=1).fit_transform(["c1ccccc1", "CCO"]).sum(1).tolist()
    [26.0, 10.0]
    """

    def __init__(
        self, size: int = 2048, rounds: int = 2, lifting: str = Featuriser.lifting, threads: int | None = None
    ) -> None:
        self.size = size
        self.rounds = rounds
        self.lifting = lifting
        self.threads = threads

    @property
    def featuriser(self) -> Featuriser:
        return Featuriser(self.lifting)

    @property
    def width(self) -> int:
        for name, least in (("size", 1), ("rounds", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}={getattr(self, name)}: it must be at least {least}")
        return int(self.size)

    def of_complexes(self, store: ComplexStore) -> csr_array:
        fast = refine_fast(store, initial="features", rounds=self.rounds, keep_colours=True, threads=self.threads)
        columns = (fast.colours[:, 0] % np.uint64(self.width)).astype(np.int32)
        ones = np.ones(len(columns), dtype=np.float32)
        counts = csr_array((ones, columns, fast.colour_ptr), shape=(len(store), self.width))
        counts.sum_duplicates()
        return counts


class CINFingerprint(Fingerprint):
    """The vectors that a trained model makes of molecules before it predicts.

    Args:
        model: a `MoleculeModel`, the folder of one, or the name of one that comes with cwnet.
        device: where to compute.
    """

    def __init__(self, model: MoleculeModel | str | Path = DEFAULT, device: str = "cpu") -> None:
        self.model = model
        self.device = device

    @property
    def _loaded(self) -> MoleculeModel:
        model = self.model if isinstance(self.model, MoleculeModel) else MoleculeModel.load(self.model)
        return model.to(self.device)

    @property
    def featuriser(self) -> Featuriser:
        return self._loaded.featuriser

    @property
    def width(self) -> int:
        return self._loaded.embedding_width

    def of_complexes(self, store: ComplexStore) -> NDArray[np.float32]:
        return self._loaded.embed(store).float().numpy()
