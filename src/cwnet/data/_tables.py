"""Tables of molecules: CSV, TSV, SMI and Parquet files of SMILES with targets, plain or gzipped.

Text is read by Python's own `csv`: it knows the line of every record, which PyArrow's reader does not, and parsing the
SMILES takes a hundred times as long anyway. What is read is kept as Arrow columns, which are compact.
"""

from __future__ import annotations

import csv
import difflib
import gzip
import io
import itertools
import os
import re
import shutil
import tempfile
import warnings
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray
from torch import Tensor

from cwnet.complexes import ComplexStore
from cwnet.data._files import write_whole
from cwnet.data._graph_files import _opened, _plain
from cwnet.errors import CwnetError, GraphError, LiftingWarning
from cwnet.lifting import lift_many
from cwnet.lifting._lift import Liftable

__all__ = [
    "Duplicates",
    "MoleculeTable",
    "Reject",
    "TableError",
    "find_duplicates",
    "iterate_table",
    "lift_table",
    "read_table",
]

Ints = NDArray[np.int64]
Task = Literal["regression", "classification"]


class TableError(CwnetError, ValueError):
    """A table, or a row of it, that can not be read as asked.

    Attributes:
        path: the file.
        row: the row, counted as in `MoleculeTable.rows`; None where the file as a whole is meant.
        problem: what is wrong, without the place.
    """

    def __init__(self, problem: str, path: Path, row: int | None = None) -> None:
        self.problem, self.path, self.row = problem, path, row
        super().__init__(f"{path}: {problem}" if row is None else f"{path}, row {row}: {problem}")


@dataclass(frozen=True)
class Reject:
    """A row that was left out.

    Attributes:
        row: its number, counted as in `MoleculeTable.rows`.
        text: its SMILES; the whole line where that could not be told.
        reason: why it was left out.
    """

    row: int
    text: str
    reason: str


@dataclass(frozen=True)
class Duplicates:
    """Rows with the same molecule, by RDKit's canonical SMILES.

    Attributes:
        groups: the rows of each molecule that is there more than once.
        conflicting: how many of the groups have two different values of one target.
    """

    groups: tuple[tuple[int, ...], ...] = ()
    conflicting: int = 0

    def __str__(self) -> str:
        if not self.groups:
            return "no molecule is there twice"
        many = "1 molecule is" if len(self.groups) == 1 else f"{len(self.groups):,} molecules are"
        rows = sum(map(len, self.groups))
        return f"{many} there more than once, in {rows:,} rows together; {self.conflicting:,} with different targets"


@dataclass(frozen=True, eq=False, repr=False)
class MoleculeTable:
    """SMILES with their targets, and the rest of the file they came from.

    Attributes:
        path: the file.
        smiles: the SMILES, without blanks around them. They are not parsed yet.
        rows: the number of each row, [molecules]. Rows are counted from 1 and the header is one of them, so in a text
            file it is the line that the row starts on, and the row that a spreadsheet shows.
        y: targets, [molecules, targets], float32, NaN where empty; None without targets. Classes are numbered.
        targets: the columns that `y` was read from.
        classes: for columns of class labels: the label of each class number.
        columns: all columns as an Arrow table: texts as they are in a text file, any type in Parquet.
        rejects: rows that were left out.
        notes: what the reader decided by itself.
        duplicates: molecules that are there more than once, where it was looked for them (see `lift_table`).
    """

    path: Path
    smiles: list[str]
    rows: Ints
    y: Tensor | None
    targets: tuple[str, ...]
    classes: Mapping[str, tuple[str, ...]]
    columns: Any
    rejects: tuple[Reject, ...] = ()
    notes: tuple[str, ...] = ()
    duplicates: Duplicates | None = None

    def __len__(self) -> int:
        return len(self.smiles)

    def __repr__(self) -> str:
        targets = f", {len(self.targets)} target{'s' * (len(self.targets) != 1)}" if self.targets else ""
        rejects = f", {len(self.rejects):,} rejected" if self.rejects else ""
        return f"MoleculeTable({len(self):,} molecule{'s' * (len(self) != 1)}{targets}{rejects})"

    @property
    def labels(self) -> Tensor:
        """The class number of each molecule, [molecules], int64, −1 where empty, for tables with one target."""
        if self.y is None or self.y.shape[1] != 1 or self.targets[0] not in self.classes:
            raise ValueError(f"{self.path} was not read with one target of class labels, but with {self.targets}")
        return torch.nan_to_num(self.y[:, 0], nan=-1).long()

    def column(self, name: str) -> list[Any]:
        """The values of any column of the file."""
        values: list[Any] = self.columns.column(_known(name, self.columns.column_names, self.path)).to_pylist()
        return values

    def select(self, index: Any) -> MoleculeTable:
        """Some of the molecules, in the order given: numbers, a slice or a mask."""
        wanted = index if isinstance(index, slice) or len(index) else slice(0)
        numbers = np.arange(len(self))[wanted if isinstance(wanted, slice) else np.asarray(wanted)].copy()
        return replace(
            self,
            smiles=[self.smiles[i] for i in numbers],
            rows=self.rows[numbers],
            y=None if self.y is None else self.y[torch.from_numpy(numbers)],
            columns=self.columns.take(pa.array(numbers)),
            duplicates=None,
        )

    def write_rejects(self, path: str | os.PathLike[str]) -> None:
        """Write the rows that were left out as CSV: row, text, reason."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(("row", "text", "reason"))
        writer.writerows((r.row, r.text, r.reason) for r in self.rejects)
        write_whole(path, out.getvalue().encode())


def read_table(
    path: str | os.PathLike[str],
    smiles_column: str | None = None,
    target_columns: Sequence[str] | str | None = None,
    *,
    task: Task | None = None,
    classes: Mapping[str, Sequence[str]] | None = None,
    delimiter: str | None = None,
    header: bool = True,
    strict: bool = False,
    other_columns: Sequence[str] = (),
) -> MoleculeTable:
    """Read a table of SMILES. The suffix of the file says how; ``.gz`` may follow it.

    - ``.csv .tsv .tab .txt``: text with a header. Commas, semicolons and tabs between fields are told apart.
    - ``.smi .smiles``: a SMILES and, after a blank, its `name`. A first line that starts with "smiles" is a header.
    - ``.parquet .pq``: Parquet.

    Blank lines, Windows line ends and byte order marks do no harm. A row with the wrong number of fields is left out
    and is in ``table.rejects``. Empty targets, and NA, NaN, null and the like, are NaN in `y`.

    Args:
        path: the file.
        smiles_column: the column of SMILES. By default the one called "smiles", "canonical_smiles" or the like, or else
            the only column of text.
        target_columns: one or more columns to predict; ``()`` for none. By default all columns of numbers, but for
            those whose name ends in "id" or "index".
        task: what targets are. "regression": numbers. "classification": class labels. Labels 0, 1, ... are their own
            class numbers, others are numbered in order. By default a column of numbers is taken as numbers, and a
            column named in `target_columns` that has no number in it as class labels.
        classes: the labels of each class, in order, by column: for data that goes with other data.
        delimiter: what stands between the fields of a text file, if it is not to be guessed.
        header: whether a text file has one. Without, columns are called "column 1", "column 2", ...
        strict: whether a row with the wrong number of fields, or a class label that is not an integer, is an error.
        other_columns: columns that must be there and are read for something else, so that they are no targets.

    Raises:
        TableError: for a file that can not be read, a column that is not there, or a target that is not what it should
            be, with its row.
    """
    source = _Source.at(path, delimiter, header, strict)
    wishes = _Wishes.checked(smiles_column, target_columns, task, classes, strict, other_columns)
    with _reading(source.path):
        chunks = list(source.chunks(_CHUNK))
        plan = _plan(source.path, chunks[0], lambda: iter(chunks), wishes)
    return _as_table(source.path, _joined(chunks), plan)


def iterate_table(
    path: str | os.PathLike[str],
    smiles_column: str | None = None,
    target_columns: Sequence[str] | str | None = None,
    *,
    chunk_rows: int = 65_536,
    task: Task | None = None,
    classes: Mapping[str, Sequence[str]] | None = None,
    delimiter: str | None = None,
    header: bool = True,
    strict: bool = False,
) -> Iterator[MoleculeTable]:
    """Read a table piece by piece, in memory that does not grow with the file.

    All pieces have the same columns and classes. To know them the file is read once before, which is not needed, and
    not done, where `target_columns` are given together with ``task="regression"`` or `classes`.

    Args:
        path: as all other arguments, as in `read_table`.
        chunk_rows: rows of a piece, at the most.
        smiles_column: see there. It is found in the first piece.
        target_columns: see there.
        task: see there.
        classes: see there.
        delimiter: see there.
        header: see there.
        strict: see there.

    Raises:
        TableError: as `read_table`; for a single row when its piece is read.
    """
    if chunk_rows < 1:
        raise ValueError(f"chunk_rows={chunk_rows}: a piece has at least one row")
    source = _Source.at(path, delimiter, header, strict)
    wishes = _Wishes.checked(smiles_column, target_columns, task, classes, strict)
    with _reading(source.path):
        first = next(source.chunks(chunk_rows))
        plan = _plan(source.path, first, lambda: source.chunks(chunk_rows), wishes)
    return _pieces(source, chunk_rows, plan)


def lift_table(
    table: MoleculeTable,
    lifting: Liftable,
    *,
    pack: Callable[..., ComplexStore] | None = None,
    strict: bool = False,
    duplicates: bool = True,
    allow_empty: bool = False,
    threads: int | None = None,
    init: Literal["sum", "mean"] | None = None,
    on_budget: Literal["raise", "skip", "truncate"] = "raise",
) -> tuple[ComplexStore, MoleculeTable]:
    """Lift the molecules of a table.

    Args:
        table: what `read_table` or `iterate_table` gives.
        lifting: as in `cwnet.lift_many`.
        pack: what turns molecules into a store of graphs: a function like `cwnet.chem.pack_molecules`, the default.
        strict: whether a SMILES that does not parse is an error. By default the row is left out, and a warning says so.
        duplicates: whether to look for molecules that are there more than once, which takes about as long as parsing.
        allow_empty: whether there may be no molecule left, as in a small piece of a large table.
        threads: as in `cwnet.lift_many`.
        init: as in `cwnet.lift_many`.
        on_budget: as in `cwnet.lift_many`; rows that are skipped are among the rejects.

    Returns:
        The store with the table's targets as `y`, and the table of just the rows that are in the store, in its order.
        That table has the rows left out in `rejects` and the repeated molecules in `duplicates`.

    Raises:
        TableError: if strict, for a SMILES that does not parse, with its row; or if none does.
    """
    canonical: dict[int, str] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LiftingWarning)  # there is one for all at the end
        base = _packed(table, pack, strict, canonical if duplicates else None)
        unread = {_position(error): error for error in base.skipped}
        kept = np.setdiff1d(np.arange(len(table)), list(unread))
        if table.y is not None:
            base = replace(base, y=table.y[torch.from_numpy(kept)])
        try:
            store = lift_many(base, lifting, threads, init=init, on_budget=on_budget)
        except CwnetError as error:
            if getattr(error, "position", None) is not None:
                error.add_note(f"It is in row {table.rows[kept[_position(error)]]} of {table.path}.")
            raise
    unlifted = {int(kept[_position(error)]): error for error in store.skipped[len(base.skipped) :]}
    kept = np.setdiff1d(kept, list(unlifted))
    rejects = [_rejected(error, table, i) for i, error in sorted([*unread.items(), *unlifted.items()])]
    _check_left(table, kept, rejects, allow_empty)
    good = table.select(kept)
    if duplicates:
        found = _duplicates([canonical[i] for i in kept], good)
        good = replace(good, duplicates=found, notes=(*good.notes, str(found)) if found.groups else good.notes)
    everything = sorted([*table.rejects, *rejects], key=lambda reject: reject.row)
    return replace(store, skipped=()), replace(good, rejects=tuple(everything))


def find_duplicates(table: MoleculeTable) -> Duplicates:
    """The molecules that are in a table more than once. SMILES that do not parse are passed over."""
    canonical: dict[int, str] = {}
    for _ in _with_canonical(table.smiles, canonical):
        pass
    return _duplicates(list(canonical.values()), table.select(list(canonical)))


# ------------------------------------------------------------------------------------------------ files

#: Rows read at once where nothing else is asked for.
_CHUNK = 65_536


@dataclass(frozen=True)
class _Chunk:
    """Some rows of a file, as they are there."""

    rows: Ints
    columns: Any
    rejects: list[Reject]


@dataclass(frozen=True)
class _Source:
    """A file and how to read it."""

    path: Path
    read: Callable[[BinaryIO, int], Iterator[_Chunk]]

    @classmethod
    def at(cls, path: str | os.PathLike[str], delimiter: str | None, header: bool, strict: bool) -> _Source:
        path = Path(path)
        suffix = _plain(path).suffix.lower()
        if suffix in (".parquet", ".pq"):
            return cls(path, partial(_read_parquet, path))
        if suffix in (".smi", ".smiles"):
            return cls(path, partial(_read_text, path, _smi_records, True, strict))
        if suffix not in (".csv", ".tsv", ".tab", ".txt"):
            what = f"the suffix {suffix!r} stands for no table known here" if suffix else "the file name has no suffix"
            known = ".csv .tsv .tab .txt .smi .smiles .parquet .pq"
            raise TableError(f"{what}: rename it to end in one of {known} (.gz may follow)", path)
        if delimiter is None and suffix in (".tsv", ".tab"):
            delimiter = "\t"
        return cls(path, partial(_read_text, path, partial(_csv_records, path, delimiter), header, strict))

    def chunks(self, size: int) -> Iterator[_Chunk]:
        """The rows of the file, up to `size` at a time."""
        rows = 0
        rejects: list[Reject] = []
        with _opened(self.path) as file:
            for chunk in self.read(file, size):
                rows += len(chunk.rows)
                rejects += chunk.rejects[: 1 - len(rejects)]
                yield chunk
        if not rows:
            first = f"; row {rejects[0].row}: {rejects[0].reason}" if rejects else ""
            raise TableError(f"there are no rows in it that can be read{first}", self.path)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Say which file it was that could not be read, and what to do."""
    try:
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise TableError(f"this is not a whole gzip file ({error}): compress it anew", path) from error
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise TableError(f"this is not a whole Parquet file ({error}): write it anew", path) from error
    except OSError as error:
        if error.errno is None:  # Arrow's
            raise TableError(f"this is not a whole Parquet file ({error}): write it anew", path) from error
        raise TableError(f"can not be read: {error.strerror or error}. Check the path", path) from error


#: Rows and their fields; of one that has none, why.
Records = Iterator[tuple[int, "list[str] | _Broken"]]


@dataclass(frozen=True)
class _Broken:
    """A row that can not be told into fields: its text, and why."""

    text: str
    reason: str


def _read_text(
    path: Path, records: Callable[[BinaryIO], Records], header: bool, strict: bool, file: BinaryIO, size: int
) -> Iterator[_Chunk]:
    """Records of text in chunks of columns. Those of the wrong length are rejected."""
    names: list[str] | None = None
    rows: list[int] = []
    kept: list[list[str]] = []
    rejects: list[Reject] = []
    for row, record in records(file):
        if isinstance(record, _Broken):
            if strict or names is None:
                raise TableError(record.reason, path, row)
            rejects.append(Reject(row, record.text, record.reason))
            continue
        if names is None:
            names = _names(record, path, row) if header else [f"column {i}" for i in range(1, len(record) + 1)]
            if header:
                continue
        while len(record) > len(names) and not record[-1].strip():  # spreadsheets write such tails
            record.pop()
        if len(record) == len(names):
            rows.append(row)
            kept.append(record)
        else:
            reason = f"it has {len(record)} fields, and there are {len(names)} columns"
            if strict:
                raise TableError(f"{reason}: {_short(','.join(record))}", path, row)
            rejects.append(Reject(row, ",".join(record), reason))
        if len(rows) == size or len(rejects) == _CHUNK:
            yield _text_chunk(names, rows, kept, rejects)
            rows, kept, rejects = [], [], []
    if names is None:
        raise TableError("the file is empty", path)
    if rows or rejects:
        yield _text_chunk(names, rows, kept, rejects)


def _text_chunk(names: list[str], rows: list[int], records: list[list[str]], rejects: list[Reject]) -> _Chunk:
    columns = list(zip(*records, strict=True)) or [()] * len(names)
    table = pa.table([pa.array(column, type=pa.large_string()) for column in columns], names=names)
    return _Chunk(np.array(rows, dtype=np.int64), table, rejects)


def _names(record: list[str], path: Path, row: int) -> list[str]:
    names = [name.strip() or f"unnamed {i}" for i, name in enumerate(record, start=1)]
    for i, name in enumerate(names):
        if name in names[:i]:
            raise TableError(f"the column {name!r} is there twice: give every column its own name", path, row)
    return names


class _Lines:
    """Lines that can be gone back to: a quotation mark that is not closed takes all that follow for one field."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines, self.again, self.taken = iter(lines), deque[str](), list[str]()

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self.again.popleft() if self.again else next(self.lines)
        self.taken.append(line)
        return line

    def back_to_second(self) -> str:
        """Go back to where the second line was taken. Gives the first."""
        first, *others = self.taken
        self.again.extendleft(reversed(others))
        self.taken.clear()
        return first


def _csv_records(path: Path, delimiter: str | None, file: BinaryIO) -> Records:
    """The records of a CSV file that are not blank, with the line each starts on.

    Where a record can not be told into fields, its first line is given up and reading goes on with the next: so a row
    that is broken costs itself only.
    """
    with io.TextIOWrapper(file, encoding="utf-8-sig", errors="surrogateescape", newline="") as stream:
        head = []
        for line in stream:
            head.append(line)
            if line.strip():
                break
        if delimiter is None:
            delimiter = max(",;\t", key=head[-1].count) if head else ","
        lines = _Lines(itertools.chain(head, stream))
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
        start = 1
        while True:
            try:
                record = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                yield start, _broken(lines.back_to_second(), _why_not_csv(error))
                start += 1
                continue
            if any(value.strip() for value in record):
                whole = _is_text_of_utf8(lines.taken)
                yield start, record if whole else _broken("".join(lines.taken), _NOT_UTF8)
            start += len(lines.taken)
            lines.taken.clear()


_NOT_UTF8 = "this is not text in UTF-8: save it as that"


def _why_not_csv(error: csv.Error) -> str:
    if "field limit" in str(error):
        return f"a field has more than {csv.field_size_limit():,} characters, or a quotation mark is not closed"
    return f"this is not CSV: {error}. Is a quotation mark not closed, or not doubled?"


def _is_text_of_utf8(lines: Iterable[str]) -> bool:
    """Whether there is none of what stands for bytes that are no text."""
    return all(line.isascii() or not _SURROGATE.search(line) for line in lines)


_SURROGATE = re.compile("[\ud800-\udfff]")


def _broken(text: str, reason: str) -> _Broken:
    text = text.strip()
    return _Broken(_SURROGATE.sub("\ufffd", text if len(text) <= 1_000 else f"{text[:1_000]}…"), reason)


def _smi_records(file: BinaryIO) -> Records:
    """The records of a SMI file, its header, written or not, first. Lines that start with # are comments."""
    width, separator = 0, None
    with io.TextIOWrapper(file, encoding="utf-8-sig", errors="surrogateescape") as lines:
        for row, line in enumerate(lines, start=1):
            text = line.strip()
            if not text or text.startswith("#"):  # no SMILES does
                continue
            if not width:
                written = _bare(text.split()[0]) in _SMILES_NAMES
                separator = "\t" if written and "\t" in text else None
                names = [name.strip() for name in text.split(separator)] if written else ["smiles"]
                names += ["name"] * (len(names) == 1)
                width = len(names)
                yield row, names
                if written:
                    continue
            if not _is_text_of_utf8([text]):
                yield row, _broken(text, _NOT_UTF8)
                continue
            fields = [value.strip() for value in text.split(separator, width - 1)]
            yield row, fields + [""] * (width - len(fields))


def _read_parquet(path: Path, file: BinaryIO, size: int) -> Iterator[_Chunk]:
    with ExitStack() as stack:
        if path.suffix.lower() == ".gz":  # Parquet is read from its end, so it is unpacked first
            unpacked = stack.enter_context(tempfile.TemporaryFile())
            shutil.copyfileobj(file, unpacked)
            file = unpacked
        parquet = pq.ParquetFile(file)
        names = _names(parquet.schema_arrow.names, path, 1)
        start = 1
        for batch in parquet.iter_batches(batch_size=size):
            batch.validate(full=True)  # texts that are none are not seen before they are used
            columns = pa.Table.from_batches([batch]).rename_columns(names)
            yield _Chunk(np.arange(start, start + len(batch)), _decoded(columns), [])
            start += len(batch)


def _decoded(columns: Any) -> Any:
    """Dictionaries, as which categories are kept, as what they stand for."""
    for i, of in enumerate(columns.schema):
        if pa.types.is_dictionary(of.type):
            columns = columns.set_column(i, of.name, columns.column(i).cast(of.type.value_type))
    return columns


def _joined(chunks: list[_Chunk]) -> _Chunk:
    return _Chunk(
        np.concatenate([chunk.rows for chunk in chunks]),
        pa.concat_tables([chunk.columns for chunk in chunks]),
        [reject for chunk in chunks for reject in chunk.rejects],
    )


def _pieces(source: _Source, size: int, plan: _Plan) -> Iterator[MoleculeTable]:
    with _reading(source.path):
        for chunk in source.chunks(size):
            yield _as_table(source.path, chunk, plan)


# ------------------------------------------------------------------------------------------------ columns

_SMILES_NAMES = ("smiles", "canonicalsmiles", "isomericsmiles", "rdkitsmiles", "smi", "structure", "molecule", "mol")
_SPLIT_NAMES = ("split", "set", "fold", "scaffoldsplit", "randomsplit")
_COUNTER = re.compile(
    r"(^|[\W_])((?i:id|idx|index|identifier|cid|sid))$|[a-z]ID$|^(?i:unnamed\b)|^__index_level_\d+__$"
)
#: More texts than these are hardly classes, so it has to be said that they are.
_MAX_CLASSES = 100


@dataclass(frozen=True)
class _Wishes:
    """What the caller said about the columns."""

    smiles: str | None
    targets: tuple[str, ...] | None
    task: Task | None
    classes: Mapping[str, tuple[str, ...]]
    strict: bool
    others: tuple[str, ...] = ()

    @classmethod
    def checked(
        cls,
        smiles: str | None,
        targets: Sequence[str] | str | None,
        task: Task | None,
        classes: Mapping[str, Sequence[str]] | None,
        strict: bool,
        others: Sequence[str] = (),
    ) -> _Wishes:
        if task not in (None, "regression", "classification"):
            raise ValueError(f"task={task!r} is not one of 'regression', 'classification', None")
        if isinstance(targets, str):
            targets = [targets]
        known = {name: tuple(_label(str(label)) for label in labels) for name, labels in (classes or {}).items()}
        return cls(smiles, None if targets is None else tuple(targets), task, known, strict, tuple(others))


@dataclass(frozen=True)
class _Plan:
    """Which columns are what. `classes` has the columns of class labels."""

    smiles: str
    targets: tuple[str, ...]
    classes: Mapping[str, tuple[str, ...]]
    notes: tuple[str, ...]


@dataclass
class _Seen:
    """What was met in a column."""

    numbers: bool = False
    text: tuple[int, str] | None = None  # the first that is not a number, and its row
    labels: dict[str, int] = field(default_factory=dict)  # and the first row of each


def _plan(path: Path, first: _Chunk, chunks: Callable[[], Iterable[_Chunk]], wishes: _Wishes) -> _Plan:
    smiles = _smiles_column(path, first, wishes.smiles)
    candidates = _candidates(path, first, smiles, wishes)
    guess = wishes.targets is None
    # What is said to be numbers, or to have these classes, need not be looked at.
    unclear = [n for n in candidates if n not in wishes.classes and (guess or wishes.task != "regression")]
    seen = _survey(chunks, unclear, wishes)
    targets = candidates
    notes = []
    if guess:
        numbers = [n for n in candidates if n in seen and seen[n].numbers]
        targets = [n for n in candidates if n in wishes.classes or (n in numbers and not seen[n].text)]
        notes += [
            f"row {at[0]}: {_not_a_number(name, at[1])}, so the column was not taken"
            for name in numbers
            if (at := seen[name].text) is not None and _is_infinite(at[1])
        ]
        named = ", ".join(map(repr, targets)) or "none"
        notes.append(f"no target columns were named; those of numbers were taken: {named}")
    classes = {}
    for name in targets:
        if name in wishes.classes:
            classes[name] = wishes.classes[name]
        elif name in seen and _has_classes(path, name, seen[name], wishes):
            classes[name] = _numbered(path, name, seen[name], wishes.strict)
            notes += _note(name, classes[name])
    return _Plan(smiles, tuple(targets), classes, tuple(notes))


def _candidates(path: Path, first: _Chunk, smiles: str, wishes: _Wishes) -> list[str]:
    """The columns that were named as targets, or else all that might be some."""
    names = list(first.columns.column_names)
    others = {_known(name, names, path) for name in wishes.others}
    usable = [n for n in names if n != smiles and n not in others and _is_target(first.columns.column(n).type)]
    if wishes.targets is None:
        found = [n for n in usable if not _COUNTER.search(n) and _bare(n) not in _SPLIT_NAMES]
    else:
        found = [_known(name, names, path) for name in dict.fromkeys(wishes.targets)]
    for name in found:
        if name not in usable:
            of = first.columns.column(name).type
            what = "has the SMILES" if name == smiles else f"is of type {of}, neither numbers nor text"
            what = "is one that the model sees" if name in others else what
            raise TableError(f"the column {name!r} {what}, so it can not be a target", path)
    for name in wishes.classes:
        if name not in found:
            raise TableError(f"there are classes for {_known(name, names, path)!r}, which is not a target", path)
    return found


def _survey(chunks: Callable[[], Iterable[_Chunk]], names: list[str], wishes: _Wishes) -> dict[str, _Seen]:
    """What is in the columns. Where targets are to be guessed, those with texts are dropped."""
    seen = {name: _Seen() for name in names}
    if not seen:
        return seen
    for chunk in chunks():
        for name in [*seen]:
            _look(seen[name], chunk, name, every=wishes.task == "classification")
            if wishes.targets is None and seen[name].text and not seen[name].numbers:
                del seen[name]
    return seen


def _note(name: str, classes: tuple[str, ...]) -> list[str]:
    if classes == tuple(map(str, range(len(classes)))):
        return []
    shown = ", ".join(f"{label!r} = {i}" for i, label in enumerate(classes[:8]))
    return [f"the labels of {name!r} were numbered: {shown}{', …' * (len(classes) > 8)}"]


def _smiles_column(path: Path, first: _Chunk, wish: str | None) -> str:
    names: list[str] = list(first.columns.column_names)
    if wish is not None:
        return _known(wish, names, path)
    ways = [[name for name in names if _bare(name) == wanted] for wanted in _SMILES_NAMES]
    ways.append([name for name in names if "smiles" in name.lower()])
    found = next((way for way in ways if way), [])
    found = found or [name for name in names if _is_text(first.columns.column(name))]
    if len(found) == 1:
        return found[0]
    if found:
        raise TableError(f"the SMILES may be in any of {_listed(found)}: say where (smiles_column)", path)
    raise TableError(f"no column has text for SMILES; the columns are {_listed(names)}{_headless(names)}", path)


def _known(name: str, names: list[str], path: Path) -> str:
    """The name, if there is such a column."""
    if name in names:
        return name
    lower = {n.lower(): n for n in reversed(names)}
    near = difflib.get_close_matches(name.lower(), lower, n=1)
    hint = f"; the nearest is {lower[near[0]]!r}" if near else ""
    raise TableError(f"there is no column {name!r}{hint}. The columns are {_listed(names)}{_headless(names)}", path)


def _headless(names: list[str]) -> str:
    numbers = [name for name in names if _number(name) is not None]
    return f". {numbers[0]!r} is no name: has the file no header (header=False)?" if numbers else ""


def _listed(names: list[str]) -> str:
    more = f", … ({len(names)} in all)" if len(names) > 20 else ""
    return ", ".join(map(repr, names[:20])) + more


def _bare(name: str) -> str:
    return re.sub(r"[\W_]", "", name.lower())


def _is_text(column: Any) -> bool:
    """Whether any of its values is a text that is neither a number nor empty."""
    return _is_string(column.type) and bool(_numbers(column)[1].any())


def _is_string(of: Any) -> bool:
    return bool(pa.types.is_string(of) or pa.types.is_large_string(of))


# ------------------------------------------------------------------------------------------------ targets

_EMPTY = ("", "na", "n/a", "nan", "null", "#n/a", "<na>")
_NO_NUMBER = (*_EMPTY, "none", "?", "-", "-nan")
_LARGEST = float(np.finfo(np.float32).max)


def _numbers(column: Any) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """A column as numbers, NaN where empty; and where it is something else than a finite number."""
    if _is_string(column.type):
        text = pc.utf8_trim_whitespace(column)
        empty = pc.is_in(pc.utf8_lower(text), pa.array(_NO_NUMBER, type=column.type))
        filled = pc.if_else(pc.fill_null(empty, True), None, text)
        try:
            values = _float64(pc.cast(filled, pa.float64()))
        except pa.ArrowInvalid:  # it does not say where, nor know every way to write a number
            parsed = [(t, None if t is None else _number(t)) for t in filled.to_pylist()]
            bad = np.array([t is not None and v is None for t, v in parsed])
            return np.array([np.nan if v is None else v for _, v in parsed], dtype=np.float64), bad
        there = pc.is_valid(filled).to_numpy()
    else:
        values = _float64(pc.cast(column, pa.float64(), safe=False))
        there = ~np.isnan(values)
    bad = there & ~(np.abs(values) <= _LARGEST)
    return np.where(bad, np.nan, values), bad


def _float64(column: Any) -> NDArray[np.float64]:
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)


def _number(text: str) -> float | None:
    """The finite number that a text is, if it is one."""
    try:
        value = float(text.replace("_", "x"))  # Python's own 1_000 is not meant
    except ValueError:
        return None
    return value if abs(value) <= _LARGEST else None


def _label(text: str) -> str:
    """A class label; the same integer is the same label, as 1 and 1.0 are."""
    value = _number(text)
    whole = value is not None and abs(value) < 2**53 and value == int(value)
    return str(int(value)) if value is not None and whole else text.strip()


def _labels(column: Any) -> list[str | None]:
    """The class labels of a column, None where empty."""
    texts = [None if v is None else _label(str(v)) for v in column.to_pylist()]
    return [None if t is None or t.lower() in _EMPTY else t for t in texts]


def _look(seen: _Seen, chunk: _Chunk, name: str, every: bool) -> None:
    """Take note of numbers, texts and labels; of every label, or as long as the column may be one of texts."""
    column = chunk.columns.column(name)
    values, bad = _numbers(column)
    seen.numbers = seen.numbers or bool((~np.isnan(values)).any())
    if bad.any() and seen.text is None:
        at = int(np.flatnonzero(bad)[0])
        seen.text = (int(chunk.rows[at]), str(column[at].as_py()).strip())
    if every or not (seen.numbers or len(seen.labels) > _MAX_CLASSES):
        for label, row in zip(_labels(column), chunk.rows, strict=True):
            if label is not None:
                seen.labels.setdefault(label, int(row))


def _is_target(of: Any) -> bool:
    """Whether a column of this type can be numbers or labels."""
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal, pa.types.is_null)
    return _is_string(of) or any(kind(of) for kind in kinds)


def _has_classes(path: Path, name: str, seen: _Seen, wishes: _Wishes) -> bool:
    """Whether a column has class labels and not numbers."""
    if wishes.task == "classification" and seen.labels:
        return True
    if seen.text is None:
        return False
    row, text = seen.text
    if seen.numbers:
        raise TableError(f"{_not_a_number(name, text)} (task='classification', if these are class labels)", path, row)
    if text.startswith("["):
        raise TableError(
            f"{_short(text)} in the column {name!r} is a list: give each task its own column, or say with "
            "--target-level that these are numbers of atoms or bonds",
            path,
            row,
        )
    if len(seen.labels) > _MAX_CLASSES:
        raise TableError(
            f"the column {name!r} has more than {_MAX_CLASSES} texts, such as {_short(text)}: is it a target? "
            "Pass task='classification' if these are class labels",
            path,
            row,
        )
    return True


def _numbered(path: Path, name: str, seen: _Seen, strict: bool) -> tuple[str, ...]:
    """The labels of a column in order: numbers by value, texts by alphabet."""
    texts = [label for label in seen.labels if not re.fullmatch(r"-?\d+", label)]
    if texts and strict:
        raise TableError(
            f"the label {_short(texts[0])} in the column {name!r} is not an integer: number the classes 0, 1, ..., or "
            "have it done (strict=False)",
            path,
            seen.labels[texts[0]],
        )
    numbers = all(_number(label) is not None for label in seen.labels)
    return tuple(sorted(seen.labels, key=float if numbers else str))


def _is_infinite(text: str) -> bool:
    """Whether a text is a number, but none of 32 bits."""
    return bool(re.fullmatch(r"(?i)[-+]?(inf|infinity)|[-+]?\d[\d.]*(e\+?\d+)?", text))


def _not_a_number(name: str, text: str) -> str:
    what = f"{_short(text)} in the column {name!r}"
    if re.fullmatch(r"[-+]?\d+,\d+", text):
        return f"{what} has a decimal comma: write a point"
    if _is_infinite(text):
        return f"{what} is not a finite number of 32 bits: correct it or leave it empty"
    return f"{what} is not a number: correct it or leave it empty"


def _as_table(path: Path, chunk: _Chunk, plan: _Plan) -> MoleculeTable:
    smiles = chunk.columns.column(plan.smiles)
    if not _is_string(smiles.type):
        raise TableError(f"the column {plan.smiles!r} is of type {smiles.type}, and SMILES are text", path)
    values = [_target(path, chunk, name, plan.classes.get(name)) for name in plan.targets]
    return MoleculeTable(
        path=path,
        smiles=["" if text is None else text.strip() for text in smiles.to_pylist()],
        rows=chunk.rows,
        y=torch.from_numpy(np.stack(values, axis=1).astype(np.float32)) if values else None,
        targets=plan.targets,
        classes=plan.classes,
        columns=chunk.columns,
        rejects=tuple(chunk.rejects),
        notes=plan.notes,
    )


def _target(path: Path, chunk: _Chunk, name: str, classes: tuple[str, ...] | None) -> NDArray[np.float64]:
    column = chunk.columns.column(name)
    if classes is None:
        values, bad = _numbers(column)
        for i in np.flatnonzero(bad)[:1]:
            raise TableError(_not_a_number(name, str(column[int(i)].as_py()).strip()), path, int(chunk.rows[i]))
        return values
    number: dict[str | None, float] = {None: np.nan, **{label: float(i) for i, label in enumerate(classes)}}
    labels = _labels(column)
    for label, row in zip(labels, chunk.rows, strict=True):
        if label not in number:
            raise TableError(f"{label!r} in the column {name!r} is not one of its classes {classes}", path, int(row))
    return np.array([number[label] for label in labels], dtype=np.float64)


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:60]}…")


# ------------------------------------------------------------------------------------------------ molecules


def _packed(
    table: MoleculeTable, pack: Callable[..., ComplexStore] | None, strict: bool, canonical: dict[int, str] | None
) -> ComplexStore:
    """The molecules as graphs, those that do not parse in `skipped`."""
    if pack is None:
        from cwnet.chem import pack_molecules

        pack = pack_molecules
    molecules = table.smiles if canonical is None else _with_canonical(table.smiles, canonical)
    try:
        return pack(molecules, on_error="raise" if strict else "skip")
    except GraphError as error:
        row = None if error.position is None else int(table.rows[error.position])
        raise TableError(error.reason, table.path, row) from None


def _with_canonical(smiles: list[str], canonical: dict[int, str]) -> Iterator[Any]:
    """The molecules, and the text itself where there is none; canonical SMILES are put down on the way."""
    from cwnet.chem._read import parse, rdkit_failures, require_rdkit

    chem = require_rdkit()
    for i, text in enumerate(smiles):
        try:
            mol = parse(text)
        except GraphError:
            yield text  # whoever gets it finds the error again, in its place
            continue
        canonical[i] = text
        with suppress(GraphError), rdkit_failures("no canonical SMILES"):
            canonical[i] = chem.MolToSmiles(mol)
        yield mol


def _duplicates(canonical: list[str], table: MoleculeTable) -> Duplicates:
    members: dict[str, list[int]] = {}
    for i, text in enumerate(canonical):
        members.setdefault(text, []).append(i)
    groups = [group for group in members.values() if len(group) > 1]
    rows = tuple(tuple(int(table.rows[i]) for i in group) for group in groups)
    return Duplicates(rows, sum(_conflict(table.y, group) for group in groups))


def _conflict(y: Tensor | None, group: list[int]) -> bool:
    """Whether two molecules of a group have different values of a target that both have."""
    if y is None:
        return False
    values = y[group].numpy()
    low, high = np.where(np.isnan(values), np.inf, values), np.where(np.isnan(values), -np.inf, values)
    return bool((low.min(axis=0) < high.max(axis=0)).any())


def _position(error: CwnetError) -> int:
    return int(getattr(error, "position", None) or 0)


def _rejected(error: CwnetError, table: MoleculeTable, position: int) -> Reject:
    reason = error.reason if isinstance(error, GraphError) else str(error).partition(": ")[2]
    return Reject(int(table.rows[position]), table.smiles[position], reason)


def _check_left(table: MoleculeTable, kept: Ints, rejects: list[Reject], allow_empty: bool) -> None:
    if not rejects:
        return
    first = min(rejects, key=lambda reject: reject.row)
    if not len(kept) and not allow_empty:
        raise TableError(f"no row has a molecule; row {first.row}: {first.reason}. Is it the right column?", table.path)
    many = "1 row was" if len(rejects) == 1 else f"{len(rejects):,} rows were"
    warnings.warn(
        f"{table.path}: {many} left out (see the table's rejects); the first: row {first.row}: {first.reason}",
        LiftingWarning,
        stacklevel=3,
    )
