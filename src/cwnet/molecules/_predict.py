"""Predict tables of any size, piece by piece."""

from __future__ import annotations

import csv
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, TextIO

from cwnet.chem import Featuriser
from cwnet.chem._row_featuriser import RowFeaturiser
from cwnet.complexes import ComplexStore
from cwnet.data import MoleculeTable
from cwnet.data._files import whole_file
from cwnet.errors import CwnetError
from cwnet.lifting._lift import num_threads
from cwnet.molecules._inputs import read_inputs
from cwnet.molecules._levels import list_text
from cwnet.molecules._mean_model import AnyModel
from cwnet.molecules._model import Prediction
from cwnet.molecules._rows import Rows, rows_of, with_molecules
from cwnet.scale._inputs import Readable, find_tables, iterate_tables, map_pieces
from cwnet.scale._pool import Pool

__all__ = [
    "ERROR",
    "Counts",
    "check_names",
    "describe",
    "in_place",
    "predict_table",
    "prediction_columns",
    "readable_parts",
    "rows_of_table",
    "shown",
]

#: Rows in memory at once.
_CHUNK = 2_048
#: Of these, molecules that are complexes at once.
_PART = 256
#: Pieces after which it pays to start more processes.
_ALONE = 4
#: The column that says why a row could not be read.
ERROR = "error"


@dataclass
class Counts:
    """How many rows were predicted, and how many could not be read."""

    predicted: int = 0
    unread: int = 0


def prediction_columns(model: AnyModel, interval: float | None) -> list[str]:
    """The columns that a prediction has, in order."""
    targets, several = model.targets, model.several
    columns: list[str] = []
    for i, name in enumerate(targets.names):
        columns.append(f"{name}_pred")
        if targets.task == "regression":
            columns += [f"{name}_std"] * several
            columns += [f"{name}_low", f"{name}_high"] if interval else []
            continue
        labels = targets.classes[i] if targets.task == "multiclass" else targets.classes[i][1:]
        for label in labels:
            columns.append(f"{name}_p({label})")
            columns += [f"{name}_p({label})_std"] * several
    return columns + ([] if model.reference is None else ["novelty", "outside"])


def describe(model: AnyModel, found: Prediction, interval: float | None) -> list[list[Any]]:
    """The values of `prediction_columns` for every molecule: lists, where its atoms or bonds are predicted."""
    ends = [end.tolist() for end in model.interval(found, interval)] if interval else None
    rows = []
    for m, mean in enumerate(found.mean.tolist()):
        std = None if found.std is None else found.std[m].tolist()
        if model.targets.task == "regression":
            row = _regression(mean, std, None if ends is None else list(zip(*(end[m] for end in ends), strict=True)))
        else:
            row = _classes(model, mean, std)
        rows.append(row)
    if found.cells is not None:
        rows = _gathered(rows, found.cells.tolist(), len(prediction_columns(replace(model, reference=None), interval)))
    if model.reference is not None and found.novelty is not None:
        for row, novelty in zip(rows, found.novelty.tolist(), strict=True):
            row += [novelty, "yes" if novelty > model.reference.limit else "no"]
    return rows


def _gathered(rows: list[list[Any]], cells: list[int], columns: int) -> list[list[Any]]:
    """From a row for every atom or bond to a row for every molecule, of lists."""
    left = iter(rows)
    parts = [list(islice(left, count)) for count in cells]
    return [[[row[column] for row in part] for column in range(columns)] for part in parts]


def _regression(mean: list[float], std: list[float] | None, ends: list[tuple[float, ...]] | None) -> list[Any]:
    row: list[Any] = []
    for i, value in enumerate(mean):
        row.append(value)
        row += [] if std is None else [std[i]]
        row += [] if ends is None else ends[i]
    return row


def _classes(model: AnyModel, mean: list[float], std: list[float] | None) -> list[Any]:
    """The label, then the probabilities: of all classes, or of the second of two."""
    spread = [[] if std is None else [value] for value in (std or mean)]
    if model.targets.task == "multiclass":
        labels = model.targets.classes[0]
        pairs = [value for p, s in zip(mean, spread, strict=True) for value in (p, *s)]
        return [labels[mean.index(max(mean))], *pairs]
    row: list[Any] = []
    for labels, p, s in zip(model.targets.classes, mean, spread, strict=True):
        row += [labels[int(p > 0.5)], p, *s]
    return row


def predict_table(
    model: AnyModel,
    source: str | Path | Sequence[str | Path],
    out: str | Path | None,
    *,
    smiles_column: str | None = None,
    interval: float | None = None,
    header: bool = True,
    processes: int | None = None,
    pool: Pool | None = None,
) -> Counts:
    """Predict a table into a CSV file, in memory that does not grow with it.

    Rows keep their order and their columns. A row that can not be read has empty predictions and says why in the column
    "error".

    Args:
        model: the model.
        source: a table that `cwnet.data.iterate_table` reads; or several, patterns or folders, of the same columns.
        out: the file to write, which appears when it is whole; None for the standard output.
        smiles_column: the column of SMILES; by default found by name.
        interval: the probability with which an interval holds the value, for columns of intervals; None for none.
        header: whether the table has one.
        processes: to share the work of a long table among; by default one for each core.
        pool: workers to share it among instead; see `cwnet.scale.open_pool`.
    """
    if interval:
        model.half_width(interval)  # refused before the work is done
    new = prediction_columns(model, interval)
    counts = Counts()
    files = find_tables([source] if isinstance(source, str | Path) else source)
    smiles_column = smiles_column_of(model, smiles_column)
    pieces = Readable(iterate_tables(files, smiles_column, chunk_rows=_CHUNK, header=header))
    work = _predicted(model, pieces, num_threads(processes)) if pool is None else _shared(model, pieces, pool)
    with _written(out, pieces) as file:
        writer = csv.writer(file, lineterminator="\n")
        for number, (piece, found, reasons) in enumerate(work):
            names: list[str] = list(piece.columns.column_names)
            if not number:
                check_names(names, [*new, ERROR], piece.path)
                writer.writerow([*names, *new, ERROR])
            predicted = iter(describe(model, found, interval))
            for position, given in rows_of_table(piece):
                reason = reasons.get(position) if isinstance(position, int) else position
                counts.unread += reason is not None
                counts.predicted += reason is None
                values = next(predicted) if reason is None else [""] * len(new)
                writer.writerow([*given, *map(shown, values), reason or ""])
    return counts


def smiles_column_of(model: AnyModel, wish: str | None) -> str | None:
    """The column to read a table by: the one asked for, or the first of those that the model knows.

    Raises:
        CwnetError: where the model knows them, and another is asked for.
    """
    columns = columns_of(model)
    if columns and wish is not None:
        raise CwnetError(f"--smiles-column {wish}: this model finds its molecules in the columns {', '.join(columns)}")
    return columns[0] if columns else wish


Reasons = dict[int, str]


def _predicted(
    model: AnyModel, pieces: Iterator[MoleculeTable], processes: int
) -> Iterator[tuple[MoleculeTable, Prediction, Reasons]]:
    """The pieces in their order, predicted: the first ones here, those of a long table by several processes."""
    many = processes > 1 and model.device.type == "cpu"  # a GPU is for one
    for piece in islice(pieces, _ALONE) if many else pieces:
        yield piece, *_predict_piece(model, _rows(model, piece))
    following = next(pieces, None)
    if following is None:
        return
    from joblib import Parallel, delayed  # type: ignore[import-untyped]

    sent: deque[MoleculeTable] = deque()
    failed: list[Exception] = []

    def tasks() -> Iterator[Any]:
        try:
            for piece in chain([following], pieces):
                sent.append(piece)
                yield delayed(_predict_piece)(model, _rows(model, piece))
        except Exception as error:  # raised in a thread of joblib, where it would be lost
            failed.append(error)

    for found, reasons in Parallel(processes, return_as="generator", pre_dispatch=2 * processes)(tasks()):
        yield sent.popleft(), found, reasons
    if failed:
        raise failed[0]


def _shared(
    model: AnyModel, pieces: Iterator[MoleculeTable], pool: Pool
) -> Iterator[tuple[MoleculeTable, Prediction, Reasons]]:
    """The pieces in their order, predicted by the workers of a pool."""
    for piece, (found, reasons) in map_pieces(pool, _predict_piece, model, pieces, partial(_rows, model)):
        yield piece, found, reasons


def _rows(model: AnyModel, piece: MoleculeTable) -> Rows:
    """The rows of a piece as the model reads them."""
    return rows_of(with_molecules(piece, columns_of(model)), model.wanted.columns)


def columns_of(model: AnyModel) -> tuple[str, ...]:
    """The columns in which the model finds the molecules of a row; empty where it is one, of any name."""
    return model.featuriser.columns if isinstance(model.featuriser, RowFeaturiser) else ()


def _predict_piece(model: AnyModel, rows: Rows) -> tuple[Prediction, Reasons]:
    found: list[Prediction] = []
    reasons: Reasons = {}
    for start in range(0, max(len(rows), 1), _PART):
        inputs, some = read_inputs(model.featuriser, rows.part(start, start + _PART), model.wanted, threads=1)
        found.append(model.predict(inputs, threads=1))
        reasons |= {start + i: reason for i, reason in some.items()}
    return Prediction.joined(found), reasons


def readable_parts(
    featuriser: Featuriser, smiles: Sequence[str], threads: int | None = None
) -> Iterator[tuple[int, ComplexStore, Reasons]]:
    """What can be read of some SMILES, a part after another: where each begins, its complexes, and why others are none.

    A piece of a table has thousands of molecules, and each of them may have thousands of rings.
    """
    for start in range(0, max(len(smiles), 1), _PART):
        yield start, *featuriser.readable(smiles[start : start + _PART], threads=threads)


def rows_of_table(piece: MoleculeTable) -> Iterator[tuple[int | str, list[Any]]]:
    """The rows of a piece in the order of the file: position and fields; of a broken row its reason and its text."""
    columns = [column.to_pylist() for column in piece.columns.columns]
    broken = iter(sorted(piece.rejects, key=lambda reject: reject.row))
    waiting = next(broken, None)
    for i, row in enumerate(piece.rows.tolist()):
        while waiting is not None and waiting.row < row:
            yield waiting.reason, [waiting.text, *[""] * (len(columns) - 1)]
            waiting = next(broken, None)
        yield i, ["" if column[i] is None else column[i] for column in columns]
    while waiting is not None:
        yield waiting.reason, [waiting.text, *[""] * (len(columns) - 1)]
        waiting = next(broken, None)


def check_names(names: Sequence[str], new: Sequence[str], path: Path) -> None:
    """Refuse a table that has one of the new columns already."""
    for name in new:
        if name in names:
            raise CwnetError(f"{path} has a column {name!r} already, and the result needs the name: rename it")


def shown(value: Any) -> Any:
    """A value as it is written."""
    if isinstance(value, list):
        return list_text(value)
    return f"{value:.6g}" if isinstance(value, float) else value


@contextmanager
def in_place(path: Path, pieces: Readable | None = None) -> Iterator[Path]:
    """A file to write, which takes its place under the name when it is whole.

    Where the `pieces` that it is made of ended early, it is kept as ``NAME.partial`` instead, and that is an error.
    """
    kept = path.with_name(f"{path.name}.partial") if path.name else path
    try:
        with whole_file(path) as part:
            yield part
            if pieces is not None and pieces.problem is not None:
                part.replace(kept)
                pieces.check(str(kept))
    except OSError as error:
        if error.filename != str(path):
            raise
        raise CwnetError(f"{path} {error.strerror}. Choose another --output") from None


@contextmanager
def _written(out: str | Path | None, pieces: Readable) -> Iterator[TextIO]:
    """A text file that appears under its name when it is whole; the standard output without one."""
    if out is None:
        yield sys.stdout
        pieces.check("what was printed")
        return
    with in_place(Path(out), pieces) as part, open(part, "w", encoding="utf-8", newline="") as file:
        yield file
