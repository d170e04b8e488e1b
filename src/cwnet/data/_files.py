"""Names of files with data; and files as a whole, which other rooms need as well."""

from __future__ import annotations

import re

from cwnet._files import hash_file, is_bare, locked, open_plain, read_json, read_plain, whole_file, write_whole

__all__ = [
    "TABLES",
    "hash_file",
    "is_bare",
    "locked",
    "open_plain",
    "read_json",
    "read_plain",
    "whole_file",
    "write_whole",
]

#: How the names of tables of molecules end.
TABLES = re.compile(r"\.(csv|tsv|tab|txt|smi|smiles|parquet|pq)(\.gz)?$", re.IGNORECASE)
