"""Trees beside the networks: grown by scikit-learn, kept as arrays, and predicted by the core."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cwnet import _core
from cwnet.chem._descriptors import descriptor_names
from cwnet.lifting._lift import num_threads
from cwnet.molecules._defaults import TreePlan
from cwnet.molecules._inputs import Inputs, Wanted
from cwnet.molecules._targets import Targets

__all__ = ["Columns", "Forest", "Trees", "grow", "some_of", "wanted_by"]

#: What `feature` says of a leaf.
_LEAF = 0xFFFF
#: Rounds of refinement that colours are counted of.
_ROUNDS = 2
#: Rows that are a table at once.
_PART = 4_096
#: Trees that are grown to see how large they get.
_PROBE = 4


@dataclass(frozen=True, eq=False)
class Forest:
    """Decision trees as arrays, one after another; `csrc/forest.hpp` says how they are laid out.

    Attributes:
        tree_ptr: where the nodes of each tree begin, [trees + 1].
        feature: the column that a node asks for; 65,535 for a leaf.
        threshold: a row goes left, to the next node, if its column is at most this.
        next: otherwise to this node of the tree; of a leaf, its row in `values`.
        values: what leaves say, [leaves, outputs].
    """

    tree_ptr: NDArray[np.int64]
    feature: NDArray[np.uint16]
    threshold: NDArray[np.float32]
    next: NDArray[np.uint32]
    values: NDArray[np.float32]

    @classmethod
    def of(cls, trees: Sequence[Any], values: Sequence[NDArray[np.float64]]) -> Forest:
        """Trees of scikit-learn (`estimator.tree_`) and what their nodes say, [nodes, outputs] each."""
        counts = [tree.node_count for tree in trees]
        leaf = [tree.children_left < 0 for tree in trees]
        before = np.concatenate([[0], np.cumsum([int(found.sum()) for found in leaf])])
        nodes = [
            np.where(found, np.cumsum(found) - 1 + start, tree.children_right)
            for tree, found, start in zip(trees, leaf, before[:-1], strict=True)
        ]
        for tree, found in zip(trees, leaf, strict=True):
            if not np.array_equal(tree.children_left[~found], np.flatnonzero(~found) + 1):
                raise RuntimeError("this scikit-learn numbers the nodes of trees in another order")
        return cls(
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            np.concatenate([np.where(f, _LEAF, t.feature) for t, f in zip(trees, leaf, strict=True)]).astype(np.uint16),
            np.concatenate([np.where(f, 0, _down(t.threshold)) for t, f in zip(trees, leaf, strict=True)]).astype("f4"),
            np.concatenate(nodes).astype(np.uint32),
            np.concatenate([v[f] for v, f in zip(values, leaf, strict=True)]).astype(np.float32),
        )

    def predict(self, x: NDArray[np.float32], threads: int | None = None) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation over the trees of what they say of rows, [rows, outputs]."""
        mean, std = _core.predict_forest(
            self.tree_ptr, self.feature, self.threshold, self.next, self.values, x, num_threads(threads)
        )
        return torch.from_numpy(mean), torch.from_numpy(std)

    def check(self, width: int, outputs: int) -> None:
        """Refuse arrays that lead nowhere.

        Raises:
            ValueError: saying what is wrong.
        """
        ptr, count = self.tree_ptr, len(self.feature)
        if not len(ptr) > 1 or ptr[0] != 0 or ptr[-1] != count or (np.diff(ptr) < 1).any():
            raise ValueError(f"{len(ptr) - 1} trees do not share {count} nodes")
        if self.threshold.shape != (count,) or self.next.shape != (count,):
            raise ValueError(f"{len(self.threshold)} thresholds and {len(self.next)} branches of {count} nodes")
        if self.values.ndim != 2 or self.values.shape[1] != outputs or not np.isfinite(self.values).all():
            raise ValueError(f"leaves of shape {self.values.shape} for {outputs} outputs, or not finite")
        leaf = self.feature == _LEAF
        sizes = np.diff(ptr)
        number = np.arange(count) - np.repeat(ptr[:-1], sizes)
        inner, last = ~leaf, np.repeat(sizes, sizes)
        ahead = (self.next[inner] > number[inner] + 1) & (self.next[inner] < last[inner])
        if not ahead.all() or (self.feature[inner] >= width).any() or np.isnan(self.threshold).any():
            raise ValueError("a node leads out of its tree, or asks for a column that is not there")
        if (self.next[leaf] >= len(self.values)).any() or leaf.sum() != len(self.values):
            raise ValueError(f"{int(leaf.sum())} leaves, and values of {len(self.values)}")


def _down(threshold: NDArray[np.float64]) -> NDArray[np.float32]:
    """The largest float32 that is not above: it parts the same numbers, all of which are float32."""
    near = threshold.astype(np.float32)
    return np.where(near.astype(np.float64) > threshold, np.nextafter(near, np.float32(-np.inf)), near)


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns that the trees see: of fingerprints those that enough training molecules have, then descriptors.

    Attributes:
        radius, size: of the counted Morgan fingerprints.
        morgan: their columns that are kept.
        colours: of the counted CWL colours those that there are.
        colour: their columns that are kept.
        names: of descriptors.
        medians: what stands where a descriptor has no number, [names].
        given: columns of the table, whose numbers are seen as they are.
        parts: molecules of a row; fingerprints and descriptors of all lie side by side.
    """

    radius: int
    size: int
    morgan: NDArray[np.uint16]
    colours: int
    colour: NDArray[np.uint16]
    names: tuple[str, ...]
    medians: NDArray[np.float32]
    given: tuple[str, ...] = ()
    parts: int = 1

    @property
    def width(self) -> int:
        """How many they are."""
        return len(self.morgan) + len(self.colour) + self.parts * len(self.names) + len(self.given)

    @property
    def wanted(self) -> Wanted:
        """What has to be known of a molecule."""
        return Wanted(self.radius, self.size, self.names, self.given)

    def table(self, inputs: Inputs) -> NDArray[np.float32]:
        """The columns of molecules, [molecules, width]."""
        parts: list[NDArray[np.float32]] = []
        if self.size:
            assert inputs.counts is not None
            parts.append(inputs.counts.dense(self.parts * self.size)[:, self.morgan])
        if self.colours:
            parts.append(_colour_counts(inputs, self.colours)[:, self.colour])
        if self.names:
            assert inputs.numbers is not None
            parts.append(np.where(np.isnan(inputs.numbers), self.medians, inputs.numbers))
        if self.given:
            assert inputs.given is not None
            parts.append(inputs.given)
        return np.ascontiguousarray(np.concatenate(parts, 1), dtype=np.float32)

    def check(self) -> None:
        """Refuse columns that are not there.

        Raises:
            ValueError: saying which.
        """
        for kept, size in ((self.morgan, self.parts * self.size), (self.colour, self.colours)):
            if kept.ndim != 1 or (len(kept) and int(kept.max()) >= size):
                raise ValueError(f"columns beyond the {size} of a fingerprint")
        if self.medians.shape != (self.parts * len(self.names),) or not np.isfinite(self.medians).all():
            raise ValueError(f"{self.medians.shape} medians of {len(self.names)} descriptors")
        if not 0 < self.width < _LEAF:
            raise ValueError(f"trees that see {self.width} columns")


def _colour_counts(inputs: Inputs, size: int) -> NDArray[np.float32]:
    from cwnet.molecules._fingerprints import CWLFingerprint

    counts: NDArray[np.float32] = CWLFingerprint(size, _ROUNDS).of_complexes(inputs.store).toarray()
    return counts


@dataclass(frozen=True, eq=False)
class Trees:
    """The trees of a model: a forest for each column of targets, or one for all classes of a single one.

    Attributes:
        columns: what they see.
        forests: the trees.
    """

    columns: Columns
    forests: Sequence[Forest]

    def predict(self, inputs: Inputs, threads: int | None = None) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation over the trees, [molecules, outputs]: values, or probabilities of classes."""
        parts = []
        for start in range(0, max(len(inputs), 1), _PART):
            some = inputs.select(torch.arange(start, min(start + _PART, len(inputs))))
            parts.append(self.predict_table(self.columns.table(some), threads))
        return torch.cat([mean for mean, _ in parts]), torch.cat([std for _, std in parts])

    def predict_table(self, x: NDArray[np.float32], threads: int | None = None) -> tuple[Tensor, Tensor]:
        """The same of columns that are there already, [molecules, width]."""
        found = [forest.predict(x, threads) for forest in self.forests]
        return torch.cat([mean for mean, _ in found], 1), torch.cat([std for _, std in found], 1)

    def check(self, targets: Targets) -> None:
        """Refuse trees that are not whole, or of other targets.

        Raises:
            ValueError: saying what is wrong.
        """
        self.columns.check()
        alone = targets.task == "multiclass"
        if len(self.forests) != (1 if alone else len(targets.names)):
            raise ValueError(f"{len(self.forests)} forests for {len(targets.names)} targets")
        for forest in self.forests:
            forest.check(self.columns.width, targets.outputs if alone else 1)

    def to_dict(self) -> dict[str, Any]:
        """All but the arrays, as plain data."""
        c = self.columns
        return {
            "radius": c.radius, "size": c.size, "colours": c.colours, "descriptors": list(c.names),
            "forests": len(self.forests), **({"given": list(c.given)} if c.given else {}),
            **({"parts": c.parts} if c.parts > 1 else {}),
        }  # fmt: skip

    def tensors(self) -> dict[str, NDArray[Any]]:
        """The arrays, by name."""
        named: dict[str, NDArray[Any]] = {name: getattr(self.columns, name) for name in ("morgan", "colour", "medians")}
        for i, forest in enumerate(self.forests):
            named |= {f"{i}.{name}": getattr(forest, name) for name in Forest.__dataclass_fields__}
        return named

    @classmethod
    def from_parts(cls, body: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]], targets: Targets) -> Trees:
        """What `to_dict` and `tensors` gave.

        Raises:
            ValueError, KeyError, TypeError: for what they cannot have given.
        """
        radius, size, colours, count = (body[key] for key in ("radius", "size", "colours", "forests"))
        parts = body.get("parts", 1)
        for number, most in ((radius, 8), (size, 16_384), (colours, 16_384), (count, len(tensors)), (parts, 8)):
            if type(number) is not int or not 0 <= number <= most:
                raise ValueError(f"{number!r} in the description of trees")
        names, given = tuple(body["descriptors"]), tuple(body.get("given", ()))
        if not all(isinstance(name, str) for name in (*names, *given)):
            raise ValueError("names of descriptors that are no texts")
        array = {name: _typed(tensors[name], kind) for name, kind in _KINDS.items()}
        columns = Columns(
            radius, size, array["morgan"], colours, array["colour"], names, array["medians"], given, parts
        )
        forests = [
            Forest(**{name: _typed(tensors[f"{i}.{name}"], kind) for name, kind in _FOREST_KINDS.items()})
            for i in range(count)
        ]
        trees = cls(columns, forests)
        trees.check(targets)
        return trees


_KINDS = {"morgan": "uint16", "colour": "uint16", "medians": "float32"}
_FOREST_KINDS = {
    "tree_ptr": "int64", "feature": "uint16", "threshold": "float32", "next": "uint32", "values": "float32"
}  # fmt: skip


def _typed(array: NDArray[Any], kind: str) -> NDArray[Any]:
    if array.dtype != np.dtype(kind):
        raise ValueError(f"an array of {array.dtype} that should be {kind}")
    return array


# ------------------------------------------------------------------------------------------------ growing


def wanted_by(plan: TreePlan, columns: tuple[str, ...] = ()) -> Wanted:
    """What has to be known of molecules to grow trees, with the columns of the table that they are to see."""
    return Wanted(plan.radius, plan.size, tuple(descriptor_names()) if plan.descriptors else (), columns)


def grow(
    inputs: Inputs, values: Tensor, targets: Targets, plan: TreePlan, *, seed: int = 0, balance: bool = False,
    weights: Tensor | None = None, given: tuple[str, ...] = (), parts: int = 1,
) -> Trees:  # fmt: skip
    """Grow trees on molecules.

    Extremely randomised trees (Geurts, Ernst and Wehenkel, 2006) of scikit-learn, by all cores; they are the same
    whatever their number.

    Args:
        inputs: the molecules, with what `wanted_by` says.
        values: their targets, [molecules, columns], NaN where empty, classes numbered.
        targets: what they are.
        plan: how.
        seed: of the trees.
        balance: whether rare classes weigh as much as frequent ones.
        weights: of the molecules, [molecules]; None where all weigh the same.
        given: the columns of the table that the inputs have.
        parts: molecules of a row.
    """
    y = values.double().numpy()
    rows = None if weights is None else weights.double().numpy()
    columns = _choose_columns(inputs, plan, given, parts)
    x = columns.table(inputs)
    leaf = _leaf_size(x, y, targets, plan, seed)
    forests = [_forest(x, y[:, i], targets, i, plan, seed, leaf, plan.count, balance, rows) for i in range(y.shape[1])]
    return Trees(columns, forests)


def some_of(rows: Tensor, most: int, seed: int) -> Tensor:
    """The rows, or `most` of them drawn at random, in their order."""
    if len(rows) <= most:
        return rows
    return rows[torch.from_numpy(np.sort(np.random.default_rng(seed).choice(len(rows), most, replace=False)))]


def _choose_columns(inputs: Inputs, plan: TreePlan, given: tuple[str, ...], parts: int) -> Columns:
    support = min(plan.support, max(len(inputs) // 4, 1))
    morgan = colour = np.zeros(0, dtype=np.uint16)
    if plan.size:
        assert inputs.counts is not None
        having = np.bincount(inputs.counts.column, minlength=parts * plan.size)
        morgan = np.flatnonzero(having >= support).astype(np.uint16)
    if plan.colours:
        having = (_colour_counts(inputs, plan.colours) > 0).sum(0)
        colour = np.flatnonzero(having >= support).astype(np.uint16)
    names = wanted_by(plan).names
    medians = np.zeros(0, dtype=np.float32)
    if names:
        assert inputs.numbers is not None
        known = np.where(np.isnan(inputs.numbers).all(0), 0, inputs.numbers)
        medians = np.nanmedian(known, 0).astype(np.float32)
    return Columns(plan.radius, plan.size, morgan, plan.colours, colour, names, medians, given, parts)


def _leaf_size(x: NDArray[Any], y: NDArray[Any], targets: Targets, plan: TreePlan, seed: int) -> int:
    """Molecules that a leaf must have for all nodes to stay within the plan's number."""
    if 2 * np.count_nonzero(~np.isnan(y)) * plan.count <= plan.nodes:
        return 1
    few = [_forest(x, y[:, i], targets, i, plan, seed, 1, _PROBE, False) for i in range(y.shape[1])]
    expected = sum(len(forest.feature) for forest in few) / _PROBE * plan.count
    return math.ceil(expected / plan.nodes)


def _forest(
    x: NDArray[np.float32], y: NDArray[np.float64], targets: Targets, column: int, plan: TreePlan, seed: int,
    leaf: int, count: int, balance: bool, weights: NDArray[np.float64] | None = None,
) -> Forest:  # fmt: skip
    """The trees of one column of targets."""
    from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

    there = ~np.isnan(y)
    rows = None if weights is None else weights[there]
    how = {
        "n_estimators": count, "min_samples_leaf": leaf, "n_jobs": num_threads(None),
        "random_state": seed + 1_000 * column,
    }  # fmt: skip
    if targets.task == "regression":
        grown = ExtraTreesRegressor(max_features=plan.tries or "sqrt", **how).fit(x[there], y[there], rows)
        trees = [each.tree_ for each in grown.estimators_]
        return Forest.of(trees, [tree.value[:, 0, :] for tree in trees])
    tries = plan.class_tries or "sqrt"
    make = ExtraTreesClassifier(max_features=tries, class_weight="balanced" if balance else None, **how)
    grown = make.fit(x[there], y[there].astype(int), rows)
    trees = [each.tree_ for each in grown.estimators_]
    classes = len(targets.classes[column])
    said = [_class_values(tree.value[:, 0, :], grown.classes_, classes) for tree in trees]
    return Forest.of(trees, said if targets.task == "multiclass" else [each[:, 1:] for each in said])


def _class_values(value: NDArray[np.float64], known: NDArray[np.int64], classes: int) -> NDArray[np.float64]:
    """What nodes say of all classes, also of those that are not among the molecules the trees were grown on."""
    said = np.zeros((len(value), classes))
    said[:, known] = value / value.sum(1, keepdims=True)
    return said
