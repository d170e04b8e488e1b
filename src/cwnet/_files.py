"""Files as a whole: written so that no one sees half of one, read if they are files, and hashed."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

__all__ = ["hash_file", "is_bare", "locked", "open_plain", "read_json", "read_plain", "whole_file", "write_whole"]


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A file to write under another name, which takes its place at the end, when it is whole.

    A link stays, and what it leads to is replaced. What is no file, such as a device or a pipe, is written to.

    Raises:
        OSError: for a folder, or a place where nothing can be written; it names the path that was given.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise OSError(errno.EISDIR, "can not be written: it is a folder", str(path))
    special = target.exists() and not target.is_file()
    folder = Path(tempfile.gettempdir()) if special else target.parent
    part = folder / f".{target.name[:200]}-{secrets.token_hex(4)}.part"
    try:
        part.touch(exist_ok=False)
        yield part
        if special:
            with open(part, "rb") as whole, open(target, "wb") as out:
                shutil.copyfileobj(whole, out)
        else:
            os.replace(part, target)
    except OSError as error:
        if error.errno is None or error.filename not in (None, str(part)):
            raise
        raise OSError(error.errno, f"can not be written: {error.strerror}", str(path)) from error
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def locked(path: Path, wait: bool = True) -> Iterator[None]:
    """Hold a file or a folder for this process alone; others that lock it wait, or give up.

    On Windows, which can not lock a folder, the lock is a file beside it, ``name.lock``.

    Raises:
        BlockingIOError: without `wait`, if another process holds it.
        OSError: where it can not be locked.
    """
    if fcntl is None:
        with _locked_by_a_file(path, wait):
            yield
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe is not waited for
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _locked_by_a_file(path: Path, wait: bool) -> Iterator[None]:
    from filelock import FileLock, Timeout

    lock = FileLock(path.with_name(f"{path.name}.lock"))
    try:
        lock.acquire(timeout=-1 if wait else 0)
    except Timeout:
        raise BlockingIOError(errno.EWOULDBLOCK, "another process holds it", str(path)) from None
    try:
        yield
    finally:
        lock.release()


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file under another name and rename it when it is whole; see `whole_file`."""
    with whole_file(path) as part, open(part, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def is_bare(name: Any) -> bool:
    """Whether a name that was read somewhere is that of a file in the same folder, and leads to no other."""
    return isinstance(name, str) and name not in ("", ".", "..") and not set(name) & set("/\\\0")


def open_plain(path: str | os.PathLike[str]) -> io.BufferedReader:
    """Open a file to read it, if it is one: a pipe may keep one waiting for ever, and a device has no end.

    Raises:
        OSError: for anything else.
    """
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(file).st_mode
    if not stat.S_ISREG(mode):
        os.close(file)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, "is not a plain file but a folder", str(path))
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
