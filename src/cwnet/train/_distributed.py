"""Several processes on one run: who is who, and what they tell each other. Alone, all of it does nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from cwnet.train._errors import TrainingError

__all__ = [
    "any_of",
    "from_writer",
    "gathered",
    "is_first",
    "is_writer",
    "joined",
    "launched",
    "peers_watched",
    "rank",
    "summed",
    "together",
    "world_size",
]

#: How long a process waits for the others before it takes them for dead.
_PATIENCE = timedelta(minutes=10)


def world_size() -> int:
    """The number of processes."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """The number of this process."""
    return dist.get_rank() if dist.is_available() and dist.is_initialized() else 0


def together() -> bool:
    """Whether there is more than one process."""
    return world_size() > 1


def is_writer() -> bool:
    """Whether this process writes files and shows progress."""
    return rank() == 0


def is_first() -> bool:
    """Whether this is the first of the processes that torchrun started, also before they meet and after they part."""
    return os.environ.get("RANK", "0") == "0"


def launched() -> bool:
    """Whether torchrun started several processes."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and "RANK" in os.environ


@contextmanager
def joined(device: str | None) -> Iterator[torch.device]:
    """Meet the other processes that torchrun started, if it did; gives the device of this one."""
    cuda = torch.cuda.is_available() if device in (None, "auto") else torch.device(str(device)).type == "cuda"
    if cuda and not torch.cuda.is_available():
        raise TrainingError("there is no GPU that PyTorch can use here: take --device cpu")
    if not cuda:
        place = torch.device("cpu" if device in (None, "auto") else str(device))
    elif launched():
        place = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    else:
        place = torch.device("cuda" if device in (None, "auto") else str(device))
    if place.type == "cuda":
        place = torch.device("cuda", torch.cuda.current_device() if place.index is None else place.index)
    if not launched() or dist.is_initialized():
        yield place
        return
    if place.type == "cuda":
        torch.cuda.set_device(place)
    dist.init_process_group("nccl" if place.type == "cuda" else "gloo", timeout=_PATIENCE)
    try:
        yield place
    finally:
        dist.destroy_process_group()


def summed(tensor: Tensor) -> Tensor:
    """The sum over all processes."""
    if together():
        tensor = tensor.clone()
        dist.all_reduce(tensor)
    return tensor


def gathered(tensor: Tensor) -> Tensor:
    """The tensors of all processes, one below the other: [processes, ...]. They must be of one shape."""
    if not together():
        return tensor[None]
    rows = torch.zeros(world_size(), *tensor.shape, dtype=tensor.dtype, device=tensor.device)
    rows[rank()] = tensor
    return summed(rows)


def any_of(flag: int, device: torch.device) -> int:
    """The largest number that a process has."""
    if not together():
        return flag
    number = torch.tensor(flag, device=device)
    dist.all_reduce(number, op=dist.ReduceOp.MAX)
    return int(number)


def from_writer(value: float, device: torch.device) -> float:
    """The value that the writing process has: processors may round apart from each other."""
    if not together():
        return value
    number = torch.tensor(value, dtype=torch.float64, device=device)
    dist.broadcast(number, src=0)
    return float(number)


@contextmanager
def peers_watched() -> Iterator[None]:
    """Turn the errors of a broken connection into one that says what happened."""
    try:
        yield
    except RuntimeError as error:
        text = str(error)
        broken = isinstance(error, dist.DistError) or "gloo" in text.lower() or "nccl" in text.lower()
        if not together() or not broken:
            raise
        raise TrainingError(
            f"process {rank()} of {world_size()} lost another one: it was killed or ended with an error, see above. "
            "The last checkpoint is whole: start again with --resume"
        ) from error
