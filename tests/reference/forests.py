"""Trees and similarities, one row and one node at a time."""

from __future__ import annotations

import numpy as np


def leaf_value(forest, tree, row):
    """What one tree of a `Forest` says of one row."""
    start, node = int(forest.tree_ptr[tree]), 0
    while forest.feature[start + node] != 65_535:
        goes_left = row[forest.feature[start + node]] <= forest.threshold[start + node]
        node = node + 1 if goes_left else int(forest.next[start + node])
    return forest.values[forest.next[start + node]].astype(np.float64)


def forest_mean_and_std(forest, x):
    """Mean and standard deviation over the trees, [rows, outputs]."""
    said = np.array([[leaf_value(forest, t, row) for row in x] for t in range(len(forest.tree_ptr) - 1)])
    return said.mean(0), said.std(0)


def nearest_similarity(members, queries, k):
    """The mean Tanimoto similarity of dense counts to the k members most like them."""
    found = []
    for query in queries:
        each = [np.minimum(query, m).sum() / max(np.maximum(query, m).sum(), 1e-300) for m in members]
        each = [1.0 if not (query.any() or m.any()) else value for value, m in zip(each, members, strict=True)]
        found.append(np.mean(sorted(each, reverse=True)[:k]))
    return np.array(found)
