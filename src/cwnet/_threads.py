"""One number of threads for everything: the C++ core, PyTorch's operators, and the kernels that run on its threads."""

from __future__ import annotations

import os

import torch

__all__ = ["get_num_threads", "num_threads", "set_num_threads"]

_default: int | None = None


def set_num_threads(threads: int) -> None:
    """Let the core, PyTorch and the loaders use so many threads from here on, where a call does not say otherwise.

    The environment variable ``CWNET_THREADS`` does the same when cwnet is imported.

    >>> before = get_num_threads()
    >>> set_num_threads(1)
    >>> get_num_threads(), torch.get_num_threads()
    (1, 1)
    >>> set_num_threads(before)
    """
    global _default
    if type(threads) is not int or threads < 1:
        raise ValueError(f"set_num_threads({threads!r}): give a whole number of threads, 1 or more")
    _default = threads
    torch.set_num_threads(threads)


def get_num_threads() -> int:
    """How many threads the core uses where a call does not say: as set, or as many as there are cores to use."""
    if _default is not None:
        return _default
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def num_threads(wanted: int | None) -> int:
    """As many threads as wanted, or as `get_num_threads` says."""
    return wanted or get_num_threads()


def read_environment() -> None:
    """Do what CWNET_THREADS asks for, if it is there."""
    wish = os.environ.get("CWNET_THREADS")
    if not wish:
        return
    if not wish.isascii() or not wish.isdigit() or int(wish) < 1:
        raise ValueError(f"CWNET_THREADS={wish!r} in the environment: give a whole number of threads, 1 or more")
    set_num_threads(int(wish))
