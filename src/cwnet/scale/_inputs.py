"""Tables of molecules by name: a file, a pattern or a folder."""

from __future__ import annotations

import glob
import gzip
import os
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from cwnet.data import MoleculeTable, TableError, iterate_table
from cwnet.data._files import TABLES, open_plain
from cwnet.errors import CwnetError
from cwnet.scale._pool import Pool

__all__ = ["Readable", "count_rows", "find_tables", "iterate_tables", "map_pieces"]

T = TypeVar("T")


def find_tables(inputs: Iterable[str | Path]) -> list[Path]:
    """The tables that are meant, in order: files as given, those of a folder or a pattern by name.

    Raises:
        CwnetError: where nothing is found, or a table is meant twice.
    """
    found: list[Path] = []
    for given in inputs:
        path = Path(given)
        if os.path.isdir(given):  # which takes any text, however long
            some = sorted(file for file in path.iterdir() if file.is_file() and TABLES.search(file.name))
        elif os.path.exists(given):
            some = [path]
        else:
            some = sorted(Path(name) for name in _matches(str(given)) if TABLES.search(name))
        if not some:
            what = "no table in this folder" if os.path.isdir(given) else "there is no such file, folder or pattern"
            raise CwnetError(f"{given}: {what}. Tables end in .csv .tsv .smi .parquet, also with .gz")
        found += some
    for file in found:
        if found.count(file) > 1:
            raise CwnetError(f"{file} is given twice: each row would be there twice")
    return found


def _matches(pattern: str) -> list[str]:
    """The files of a pattern; none for what can not be one."""
    with suppress(OSError, ValueError):
        return glob.glob(pattern, recursive=True)
    return []


def count_rows(path: Path) -> int:
    """About how many rows a table has, for a bar that tells how long it takes; 0 where it can not be told."""
    with suppress(
        OSError, EOFError, UnicodeDecodeError, zlib.error, pa.ArrowException
    ):  # who reads the table says what is wrong with it
        return _count_rows(path)
    return 0


def _count_rows(path: Path) -> int:
    plain = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    if plain.suffix.lower() in (".parquet", ".pq"):
        if plain != path:
            return 0
        import pyarrow.parquet as pq

        return int(pq.ParquetFile(path).metadata.num_rows)
    count = 0
    with open_plain(path) as raw, gzip.open(raw, "rb") if plain != path else raw as file:
        while piece := file.read(1 << 20):
            count += piece.count(b"\n")
    return count


def iterate_tables(files: Iterable[Path], smiles_column: str | None, **options: Any) -> Iterator[MoleculeTable]:
    """The pieces of several tables one after another, in the way of `cwnet.data.iterate_table`.

    Raises:
        CwnetError: where a table has other columns than the first.
    """
    names: list[str] | None = None
    for file in files:
        for piece in iterate_table(file, smiles_column, (), **options):
            names = names or list(piece.columns.column_names)
            if list(piece.columns.column_names) != names:
                raise CwnetError(
                    f"{file} has the columns {', '.join(piece.columns.column_names)}, and the table before it "
                    f"{', '.join(names)}: give tables of the same columns"
                )
            yield piece


class Readable(Iterator[MoleculeTable]):
    """The pieces of tables up to where one can not be read on, as where a gzip file is cut off.

    Attributes:
        rows: of the pieces so far.
        problem: what is wrong with what follows them; None if nothing is.
    """

    def __init__(self, pieces: Iterator[MoleculeTable]) -> None:
        self.rows, self._pieces = 0, pieces
        self.problem: TableError | None = None

    def __next__(self) -> MoleculeTable:
        try:
            piece = next(self._pieces)
        except TableError as error:
            if not self.rows:
                raise
            self.problem = error
            raise StopIteration from None
        self.rows += len(piece) + len(piece.rejects)
        return piece

    def check(self, kept: str) -> None:
        """Raise what went wrong, if something did, and say where the rows before it are."""
        if self.problem is not None:
            raise CwnetError(f"{self.problem}. The {self.rows:,} rows before are in {kept}") from self.problem


def map_pieces(
    pool: Pool,
    function: Callable[[Any, Any], T],
    tool: Any,
    pieces: Iterable[MoleculeTable],
    read: Callable[[MoleculeTable], Any] = lambda piece: piece.smiles,
) -> Iterator[tuple[MoleculeTable, T]]:
    """Every piece with ``function(tool, read(piece))``, in order; by default its SMILES are read.

    The tool, such as a model, is sent to workers once.
    """
    sent: deque[MoleculeTable] = deque()
    everywhere = pool.share(tool)

    def tasks() -> Iterator[tuple[Any, ...]]:
        for piece in pieces:
            sent.append(piece)
            yield everywhere, read(piece)

    for found in pool.map(function, tasks()):
        yield sent.popleft(), found
