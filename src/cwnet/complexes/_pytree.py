"""Complexes and batches as trees of tensors, as `torch.export`, `torch.func` and `torch.utils._pytree` see them.

The leaves are the tensors. Numbers of cells are not among them but follow from their shapes, so that batches of
different sizes are trees of one kind; only where vertices have no features must their number stand beside the tree.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, TypeVar

from torch.utils import _pytree

__all__ = ["register"]

T = TypeVar("T", bound=type)

_Context = tuple[tuple[str, ...], int | None]


def register(cls: T) -> T:
    """Let PyTorch take instances of this class apart into tensors and put them together again."""
    names = tuple(f.name for f in fields(cls) if f.init and f.name != "num_cells")

    def flatten(cells: Any) -> tuple[list[Any], _Context]:
        counted = cells.x[0] is not None if cells.x else False
        return [getattr(cells, name) for name in names], (names, None if counted else _first(cells.num_cells))

    def flatten_with_keys(cells: Any) -> tuple[list[Any], _Context]:
        values, context = flatten(cells)
        return [(_pytree.GetAttrKey(name), value) for name, value in zip(names, values, strict=True)], context

    def unflatten(values: Any, context: _Context) -> Any:
        named = dict(zip(context[0], values, strict=True))
        vertices = _rows(named["x"][0]) if context[1] is None else context[1]
        counts = [vertices, *(_rows(csr[0]) - 1 for csr in named["boundaries"])]
        return cls(num_cells=tuple(counts[: len(named["x"])]), **named)

    _pytree.register_pytree_node(
        cls,
        flatten,
        unflatten,
        serialized_type_name=f"{cls.__module__}.{cls.__qualname__}",
        to_dumpable_context=list,
        from_dumpable_context=lambda context: (tuple(context[0]), context[1]),
        flatten_with_keys_fn=flatten_with_keys,
    )
    return cls


def _first(num_cells: tuple[int, ...]) -> int:
    return num_cells[0] if num_cells else 0


def _rows(leaf: Any) -> Any:
    """The length of a tensor; PyTorch also puts trees together of things that are none, and looks at those only."""
    return leaf.shape[0] if hasattr(leaf, "shape") and len(leaf.shape) else 0
