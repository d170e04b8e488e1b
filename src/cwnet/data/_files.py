"""Files as a whole: written so that no one sees half of one, read if they are files, and hashed."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import re
import secrets
import stat
from pathlib import Path
from typing import Any

__all__ = ["TABLES", "hash_file", "is_bare", "open_plain", "read_json", "read_plain", "write_whole"]

#: How the names of tables of molecules end.
TABLES = re.compile(r"\.(csv|tsv|tab|txt|smi|smiles|parquet|pq)(\.gz)?$", re.IGNORECASE)


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file under another name and rename it when it is whole."""
    path = Path(path)
    part = path.with_name(f".{path.name}-{secrets.token_hex(4)}.part")
    try:
        with open(part, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def is_bare(name: Any) -> bool:
    """Whether a name that was read somewhere is that of a file in the same folder, and leads to no other."""
    return isinstance(name, str) and name not in ("", ".", "..") and not set(name) & set("/\\\0")


def open_plain(path: str | os.PathLike[str]) -> io.BufferedReader:
    """Open a file to read it, if it is one: a pipe may keep one waiting for ever, and a device has no end.

    Raises:
        OSError: for anything else.
    """
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "is not a plain file", str(path))
    return os.fdopen(file, "rb")


def read_plain(path: str | os.PathLike[str], most: int = 2**40) -> bytes:
    """The bytes of a file, if it is one and has no more than `most`.

    Raises:
        OSError: for anything else.
    """
    with open_plain(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise OSError(errno.EFBIG, f"has {size:,} bytes, and at most {most:,} are read", str(path))
        return file.read()


def read_json(path: str | os.PathLike[str], most: int = 2**28) -> Any:
    """What a JSON file holds.

    Raises:
        OSError: if it is not a file of at most `most` bytes.
        ValueError: if it is not JSON.
    """
    try:
        return json.loads(read_plain(path, most))
    except RecursionError:
        raise ValueError("brackets within brackets beyond measure") from None


def hash_file(path: str | os.PathLike[str]) -> str:
    """The BLAKE2b hash of a file's bytes, in hex."""
    with open_plain(path) as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
