"""Files as a whole: written so that no one sees half of one, and hashed."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from pathlib import Path

__all__ = ["TABLES", "hash_file", "write_whole"]

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


def hash_file(path: Path) -> str:
    """The BLAKE2b hash of a file's bytes, in hex."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
