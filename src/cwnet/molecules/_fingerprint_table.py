"""Fingerprints of tables of any size, piece by piece."""

from __future__ import annotations

import csv
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse, vstack

from cwnet.data import MoleculeTable
from cwnet.errors import CwnetError
from cwnet.molecules import _predict
from cwnet.molecules._fingerprints import Fingerprint
from cwnet.molecules._predict import Counts, rows_of_table
from cwnet.scale._inputs import Readable, find_tables, iterate_tables, map_pieces
from cwnet.scale._pool import Here, Pool

__all__ = ["SUFFIXES", "fingerprint_table"]

#: How the names of files end that can be written.
SUFFIXES = (".npz", ".csv", ".parquet")


def fingerprint_table(
    fingerprint: Fingerprint,
    source: str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    smiles_column: str | None = None,
    header: bool = True,
    pool: Pool | None = None,
) -> Counts:
    """Write the fingerprints of a table, in memory that does not grow with it.

    Rows keep their order, and every row of the table has one in the file. The suffix says what is written:

    - ``.npz``: for NumPy. `row` numbers the rows as in `MoleculeTable.rows`, `readable` is False where a row has no
      fingerprint. Vectors of a model are `fingerprints`, [rows, width], NaN where there is none. Counts of colours are
      a sparse matrix, which `scipy.sparse.load_npz` reads, with empty rows where there are none.
    - ``.csv``, ``.parquet``: the columns of the table, then fp_0, fp_1, ..., empty where there is no fingerprint, and
      `error` with the reason.

    Args:
        fingerprint: a `CWLFingerprint` or a `CINFingerprint`.
        source: a table that `cwnet.data.iterate_table` reads; or several, patterns or folders, of the same columns.
        out: the file, which appears when it is whole.
        smiles_column: the column of SMILES; by default found by name.
        header: whether the table has one.
        pool: workers to share the work among; see `cwnet.scale.open_pool`. By default it is done here.
    """
    path, counts = Path(out), Counts()
    if path.suffix.lower() not in SUFFIXES:
        raise CwnetError(f"{path} can not be written: its name must end in one of {' '.join(SUFFIXES)}")
    names = fingerprint.get_feature_names_out().tolist()
    files = find_tables([source] if isinstance(source, str | Path) else source)
    pieces = Readable(iterate_tables(files, smiles_column, chunk_rows=_predict._CHUNK, header=header))
    with _predict.in_place(path, pieces) as part, ExitStack() as stack:
        sink: _Sink | None = None
        for piece, (vectors, reasons) in map_pieces(pool or Here(), _make, fingerprint, pieces):
            found = _Piece.of(piece, reasons, vectors)
            counts.predicted += int(found.readable.sum())
            counts.unread += int((~found.readable).sum())
            if sink is None:
                sink = stack.enter_context(_opened(path.suffix.lower(), part, found, names, piece.path))
            sink.write(found)
    return counts


def _make(fingerprint: Fingerprint, smiles: Sequence[str]) -> tuple[Any, dict[int, str]]:
    found: list[Any] = []
    reasons: dict[int, str] = {}
    for start, store, some in _predict.readable_parts(fingerprint.featuriser, smiles):
        found.append(fingerprint.of_complexes(store))
        reasons |= {start + i: reason for i, reason in some.items()}
    return vstack(found, format="csr") if issparse(found[0]) else np.concatenate(found), reasons


@dataclass(frozen=True)
class _Piece:
    """Some rows of the table with their fingerprints.

    Attributes:
        rows: their numbers.
        given: the columns of the table.
        readable: which have a fingerprint.
        errors: why the others have none; empty for those that have one.
        vectors: the fingerprints, one for every readable row.
    """

    rows: NDArray[np.int64]
    given: Any
    readable: NDArray[np.bool_]
    errors: list[str]
    vectors: Any

    @classmethod
    def of(cls, piece: MoleculeTable, reasons: dict[int, str], vectors: Any) -> _Piece:
        lines = list(rows_of_table(piece))
        errors = [at if isinstance(at, str) else reasons.get(at, "") for at, _ in lines]
        given = piece.columns
        if piece.rejects:  # which are there in texts only
            columns = zip(*(fields for _, fields in lines), strict=True)
            given = pa.table({name: list(c) for name, c in zip(given.column_names, columns, strict=True)})
        rows = np.sort([*piece.rows.tolist(), *(reject.row for reject in piece.rejects)]).astype(np.int64)
        return cls(rows, given, np.array([not error for error in errors], dtype=bool), errors, vectors)

    @property
    def dense(self) -> NDArray[Any]:
        """The fingerprints as an array, [readable rows, width]: counts are whole numbers."""
        return self.vectors.toarray().astype(np.int32) if issparse(self.vectors) else np.asarray(self.vectors)


# ------------------------------------------------------------------------------------------------ files


class _Sink(Protocol):
    def write(self, found: _Piece) -> None: ...


@contextmanager
def _opened(suffix: str, part: Path, first: _Piece, names: Sequence[str], source: Path) -> Iterator[_Sink]:
    """What writes pieces into the file."""
    if suffix == ".npz":
        with tempfile.TemporaryDirectory(dir=part.parent, prefix=f"{part.name}-") as folder, ExitStack() as files:
            sink = _Npz(Path(folder), files, issparse(first.vectors), len(names))
            yield sink
            sink.finish(part)
        return
    _predict.check_names(first.given.column_names, [*names, _predict.ERROR], source)
    if suffix == ".csv":
        with open(part, "w", encoding="utf-8", newline="") as file:
            yield _Csv(file, first, names)
        return
    kind = pa.int32() if issparse(first.vectors) else pa.float32()
    fields = [*first.given.schema, *(pa.field(name, kind) for name in names), pa.field(_predict.ERROR, pa.string())]
    with pq.ParquetWriter(part, pa.schema(fields)) as writer:
        yield _Parquet(writer, pa.schema(fields))


class _Csv:
    def __init__(self, file: Any, first: _Piece, names: Sequence[str]) -> None:
        self.writer, self.empty = csv.writer(file, lineterminator="\n"), [""] * len(names)
        self.writer.writerow([*first.given.column_names, *names, _predict.ERROR])

    def write(self, found: _Piece) -> None:
        vectors = iter(found.dense.tolist())
        columns = [column.to_pylist() for column in found.given.columns]
        for i, error in enumerate(found.errors):
            values = self.empty if error else [_predict.shown(value) for value in next(vectors)]
            self.writer.writerow(["" if c[i] is None else c[i] for c in columns] + values + [error])


class _Parquet:
    def __init__(self, writer: Any, schema: Any) -> None:
        self.writer, self.schema = writer, schema

    def write(self, found: _Piece) -> None:
        dense = found.dense
        whole = np.zeros((len(found.rows), dense.shape[1]), dense.dtype)
        whole[found.readable] = dense
        vectors = [pa.array(column, mask=~found.readable) for column in np.ascontiguousarray(whole.T)]
        columns = [*found.given.columns, *vectors, pa.array(found.errors)]
        self.writer.write_table(pa.table(columns, schema=self.schema))


class _Npz:
    """Arrays grow in files of their own, and are put together in the end, when their lengths are known."""

    def __init__(self, folder: Path, files: ExitStack, sparse: bool, width: int) -> None:
        self.sparse, self.width, self.count, self.filled = sparse, width, 0, 0
        kinds = {"row": np.int64, "readable": np.bool_}
        if sparse:
            kinds |= {"data": np.float32, "indices": np.int32, "indptr": np.int64}
        else:
            kinds["fingerprints"] = np.float32
        self.kinds = {name: np.dtype(kind) for name, kind in kinds.items()}
        self.files: dict[str, BinaryIO] = {name: files.enter_context((folder / name).open("w+b")) for name in kinds}
        if sparse:
            self._add("indptr", np.zeros(1))

    def _add(self, name: str, values: NDArray[Any]) -> None:
        self.files[name].write(np.ascontiguousarray(values, dtype=self.kinds[name]).tobytes())

    def write(self, found: _Piece) -> None:
        self._add("row", found.rows)
        self._add("readable", found.readable)
        self.count += len(found.rows)
        if not self.sparse:
            whole = np.full((len(found.rows), self.width), np.nan, dtype=np.float32)
            whole[found.readable] = found.vectors
            self._add("fingerprints", whole)
            return
        counts: csr_array = found.vectors
        lengths = np.zeros(len(found.rows), dtype=np.int64)
        lengths[found.readable] = np.diff(counts.indptr)
        self._add("data", counts.data)
        self._add("indices", counts.indices)
        self._add("indptr", self.filled + np.cumsum(lengths))
        self.filled += int(counts.nnz)

    def finish(self, part: Path) -> None:
        """Write the file as NumPy does, without holding an array in memory."""
        shapes: dict[str, tuple[int, ...]] = dict.fromkeys(("row", "readable"), (self.count,))
        shapes |= {"data": (self.filled,), "indices": (self.filled,), "indptr": (self.count + 1,)}
        shapes["fingerprints"] = (self.count, self.width)
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for name, file in self.files.items():
                file.seek(0)
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    _write_head(member, self.kinds[name], shapes[name])
                    shutil.copyfileobj(file, member)
            for name, small in self._about().items():
                with archive.open(f"{name}.npy", "w") as member:
                    np.lib.format.write_array(member, small)

    def _about(self) -> dict[str, NDArray[Any]]:
        """What `scipy.sparse.load_npz` wants to know."""
        return {"format": np.array(b"csr"), "shape": np.array([self.count, self.width])} if self.sparse else {}


def _write_head(file: Any, kind: np.dtype[Any], shape: tuple[int, ...]) -> None:
    head = {"descr": np.lib.format.dtype_to_descr(kind), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, head)
