"""The cellular version of the Weisfeiler–Lehman subtree kernel, as a scikit-learn transformer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from cwnet.complexes import ComplexStore
from cwnet.lifting import Rings
from cwnet.lifting._lift import Liftable
from cwnet.wl._refine import Initial, refine_fast
from cwnet.wl._tests import complexes_for

__all__ = ["CWLKernel"]

Words = NDArray[np.void]


class CWLKernel(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Counts of CWL colours as features of a graph; their inner product is a kernel.

    The feature vector of a graph has one entry for each colour that occurs in the training set in rounds 0 to
    `rounds`: how many of its cells have that colour. With ``lifting=None`` it is the WL subtree kernel of Shervashidze
    et al. (2011), with edges as cells of their own; with rings or cliques it is its cellular version.

    Args:
        lifting: which cells to attach; see `cwnet.lift`.
        rounds: rounds of refinement.
        initial: initial colours; "features" takes vertex and edge labels.
        adjacencies: as in `cwnet.wl.refine`.
        normalize: whether to scale feature vectors to length one.
        threads: worker threads; all cores by default.

    Attributes:
        vocabulary_: the colours seen in training, per round.

    >>> from cwnet.wl import CWLKernel
    >>> hexagon = (6, [(i, (i + 1) % 6) for i in range(6)])
    >>> triangles = (6, [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)])
    >>> CWLKernel(rounds=1).fit([hexagon, triangles]).kernel([hexagon, triangles]).tolist()
    [[242.0, 218.0], [218.0, 272.0]]
    """

    def __init__(
        self,
        lifting: Liftable = Rings(6),  # noqa: B008  # a value, never changed
        rounds: int = 3,
        *,
        initial: Initial = "uniform",
        adjacencies: Sequence[str] = ("boundary", "upper"),
        normalize: bool = False,
        threads: int | None = None,
    ) -> None:
        self.lifting = lifting
        self.rounds = rounds
        self.initial = initial
        self.adjacencies = adjacencies
        self.normalize = normalize
        self.threads = threads

    def fit(self, graphs: Iterable[Any] | ComplexStore, y: Any = None) -> Self:
        """Learn which colours there are."""
        self.fit_transform(graphs, y)
        return self

    def fit_transform(self, graphs: Iterable[Any] | ComplexStore, y: Any = None) -> csr_array:
        """Learn which colours there are, and count them."""
        per_round = self._colours(graphs)
        self.vocabulary_ = [np.unique(words) for _, words in per_round]
        self.n_features_out_ = sum(map(len, self.vocabulary_))
        return self._count(per_round)

    def transform(self, graphs: Iterable[Any] | ComplexStore) -> csr_array:
        """Count the colours seen in training: [graphs, colours]. Other colours are left out."""
        check_is_fitted(self)
        return self._count(self._colours(graphs))

    def kernel(
        self, a: Iterable[Any] | ComplexStore, b: Iterable[Any] | ComplexStore | None = None
    ) -> NDArray[np.float64]:
        """The kernel matrix between two sets of graphs, or of one with itself."""
        left = self.transform(a)
        right = left if b is None else self.transform(b)
        return np.asarray((left @ right.T).toarray())

    def _colours(self, graphs: Iterable[Any] | ComplexStore) -> list[tuple[NDArray[np.int64], Words]]:
        """Per round: the graph and the colour of every cell."""
        if self.rounds < 0:
            raise ValueError(f"rounds={self.rounds}: give a number of rounds ≥ 0")
        store, _ = complexes_for(graphs, self.lifting, "cwl", self.threads)
        fast = refine_fast(
            store,
            adjacencies=self.adjacencies,
            initial=self.initial,
            rounds=self.rounds,
            keep_colours=True,
            threads=self.threads,
        )
        words = np.ascontiguousarray(fast.colours).view([("a", np.uint64), ("b", np.uint64)]).reshape(-1)
        kept = np.diff(fast.colour_ptr)
        graph = np.repeat(np.arange(len(store)), kept)
        within = np.arange(len(words)) - np.repeat(fast.colour_ptr[:-1], kept)
        round_ = within // np.repeat(np.maximum(kept // (self.rounds + 1), 1), kept)
        return [(graph[round_ == t], words[round_ == t]) for t in range(self.rounds + 1)]

    def _count(self, per_round: list[tuple[NDArray[np.int64], Words]]) -> csr_array:
        rows, columns, first = [], [], 0
        num_graphs = 0
        for (graph, words), known in zip(per_round, self.vocabulary_, strict=True):
            at = np.minimum(np.searchsorted(known, words), max(len(known) - 1, 0))
            seen = known[at] == words if len(known) else np.zeros(len(words), dtype=bool)
            rows.append(graph[seen])
            columns.append(first + at[seen])
            first += len(known)
            num_graphs = max(num_graphs, int(graph.max(initial=-1)) + 1)
        index = (np.concatenate(rows), np.concatenate(columns))
        counts = csr_array((np.ones(len(index[0])), index), shape=(num_graphs, first))
        counts.sum_duplicates()
        if self.normalize:
            length = np.sqrt(counts.multiply(counts).sum(axis=1))
            counts = csr_array(counts.multiply(1 / np.maximum(np.asarray(length).reshape(-1, 1), 1e-300)))
        return counts
