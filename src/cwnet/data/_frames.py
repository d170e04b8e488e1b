"""Tables that are in memory already: of pandas, polars, Arrow, or a dictionary of lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cwnet.data._tables import MoleculeTable, TableError, Task, _as_table, _Chunk, _decoded, _names, _plan, _Wishes

__all__ = ["frame_table"]

#: What messages call it: it has no file.
_PLACE = Path("table")


def frame_table(
    data: Any,
    smiles_column: str | None = None,
    target_columns: Sequence[str] | str | None = None,
    *,
    task: Task | None = None,
) -> MoleculeTable:
    """A table in memory as one that `read_table` has read. Its rows are counted from 0, as where it comes from.

    Args:
        data: a data frame of pandas or polars, a table of Arrow or anything else that exports one
            (``__arrow_c_stream__``), or a dictionary of columns.
        smiles_column: as in `read_table`.
        target_columns: as in `read_table`.
        task: as in `read_table`.

    Raises:
        TableError: as `read_table` does.
    """
    columns = _arrow(data)
    if not columns.num_rows:
        raise TableError("there are no rows in it", _PLACE)
    wishes = _Wishes.checked(smiles_column, target_columns, task, None, strict=False)
    chunk = _Chunk(np.arange(columns.num_rows), columns, [])
    return _as_table(_PLACE, chunk, _plan(_PLACE, chunk, lambda: [chunk], wishes))


def _arrow(data: Any) -> Any:
    """The columns of a data frame as an Arrow table, with texts and categories as plain text."""
    try:
        if isinstance(data, pa.Table) or hasattr(data, "__arrow_c_stream__"):
            table = pa.table(data)
        elif hasattr(data, "to_arrow"):  # polars before it had the above
            table = data.to_arrow()
        elif isinstance(data, Mapping):
            table = pa.table({str(name): _listed(values) for name, values in data.items()})
        elif hasattr(data, "columns") and hasattr(data, "__getitem__"):  # pandas before it had it
            table = pa.table({str(name): _listed(data[name]) for name in data.columns})
        else:
            kind = type(data).__name__
            raise TableError(
                f"{kind} is no table: give a data frame, an Arrow table or a dictionary of columns", _PLACE
            )
    except (pa.ArrowException, TypeError, OverflowError) as error:
        said = " ".join(str(error).split())
        raise TableError(f"its columns are not of one type each and of one length: {said:.300}", _PLACE) from None
    return _texts(_decoded(table.rename_columns(_names(table.column_names, _PLACE, 0))))


def _listed(values: Any) -> Any:
    """A column as Arrow's own; NaN among texts is a gap."""
    if hasattr(values, "__arrow_c_array__") or hasattr(values, "__arrow_c_stream__") or isinstance(values, np.ndarray):
        return values
    return pa.array(list(values), from_pandas=True)


def _texts(columns: Any) -> Any:
    """Views of texts, as newer writers have them, as texts."""
    for i, of in enumerate(columns.schema):
        if str(of.type) == "string_view":
            columns = columns.set_column(i, of.name, columns.column(i).cast(pa.string()))
    return columns
