"""Where tasks run: here, in processes of this machine, or on a Dask cluster."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from cwnet.errors import CwnetError

__all__ = ["ClusterError", "Pool", "open_pool"]

T = TypeVar("T")

#: Seconds to wait for a scheduler to answer.
_PATIENCE = 5
#: How often a task is sent again whose worker died. One that kills every worker it meets must not go round for ever.
_TRIES = 5
#: Tasks in flight for each worker: one at work, one waiting. Memory is bounded by this.
_AHEAD = 2


class ClusterError(CwnetError, RuntimeError):
    """A cluster that can not be reached, or is gone."""


class Pool(Protocol):
    """Runs tasks."""

    def map(self, function: Callable[..., T], tasks: Iterable[tuple[Any, ...]]) -> Iterator[T]:
        """The results in the order of the tasks. Only so many tasks are taken as can be worked on."""
        ...

    def share(self, value: Any) -> Any:
        """What stands for a value in tasks: it is sent to every worker once, not with every task."""
        ...


class Here:
    """Runs tasks in this process, one after another."""

    def map(self, function: Callable[..., T], tasks: Iterable[tuple[Any, ...]]) -> Iterator[T]:
        return (function(*task) for task in tasks)

    def share(self, value: Any) -> Any:
        return value


class Cluster:
    """Runs tasks on a Dask cluster. A task whose worker dies is done by another.

    Args:
        client: of ``dask.distributed``.
    """

    def __init__(self, client: Any) -> None:
        self.client = client

    def map(self, function: Callable[..., T], tasks: Iterable[tuple[Any, ...]]) -> Iterator[T]:
        waiting = iter(tasks)
        sent: deque[tuple[tuple[Any, ...], Any]] = deque()
        try:
            while True:
                while len(sent) < self._room() and (task := next(waiting, None)) is not None:
                    sent.append((task, self._submit(function, task)))
                if not sent:
                    return
                yield self._result(function, *sent.popleft())
        finally:
            for _, future in sent:
                future.cancel()

    def share(self, value: Any) -> Any:
        return self.client.scatter(value, broadcast=True)

    def _submit(self, function: Callable[..., T], task: tuple[Any, ...]) -> Any:
        return self.client.submit(function, *task, pure=False)

    def _room(self) -> int:
        """Tasks that may be in flight; a cluster may grow and shrink."""
        return int(max(_AHEAD * sum(self.client.ncores().values()), _AHEAD))

    def _result(self, function: Callable[..., T], task: tuple[Any, ...], future: Any) -> T:
        from concurrent.futures import CancelledError

        from distributed.comm.core import CommClosedError
        from distributed.scheduler import KilledWorker

        for tries in range(_TRIES):
            try:
                found: T = future.result()
                return found
            except KilledWorker as error:
                if tries == _TRIES - 1:
                    raise ClusterError(
                        f"a task was sent {_TRIES} times, and every worker that took it died: {error}. Give workers "
                        "more memory, or make shards smaller"
                    ) from None
                future = self._submit(function, task)
            except (CancelledError, CommClosedError, TimeoutError) as error:
                raise ClusterError(
                    f"the scheduler is gone ({type(error).__name__}). What was done is kept: start again to go on"
                ) from None
        raise AssertionError


@contextmanager
def open_pool(workers: int | None = None, scheduler: str | None = None) -> Iterator[Pool]:
    """A place to run tasks.

    Args:
        workers: processes to start on this machine; with 1, the default, all runs in this one.
        scheduler: address of a Dask scheduler, such as ``tcp://10.0.0.1:8786``, instead.

    Raises:
        ClusterError: where no scheduler answers at that address.
    """
    if workers is not None and scheduler is not None:
        raise CwnetError("--workers starts a cluster here and --scheduler names another: give one of the two")
    if workers is not None and workers < 1:
        raise CwnetError(f"--workers {workers}: it takes at least one")
    if scheduler is None and workers in (None, 1):
        yield Here()
        return
    try:
        from dask import config
        from distributed import Client, LocalCluster
    except ImportError:
        raise ClusterError("several workers need Dask: pip install cwnet[scale]") from None
    with config.set({"logging.distributed": "critical"}):
        if scheduler is None:
            with (
                LocalCluster(  # type: ignore[no-untyped-call]
                    n_workers=workers,
                    threads_per_worker=1,
                    processes=True,
                    dashboard_address=":0",
                    silence_logs=logging.CRITICAL,
                ) as cluster,
                Client(cluster) as client,  # type: ignore[no-untyped-call]
            ):
                yield Cluster(client)
            return
        start = time.monotonic()
        try:
            client = Client(scheduler, timeout=_PATIENCE)  # type: ignore[no-untyped-call]
        except (OSError, ValueError, TimeoutError) as error:
            waited = time.monotonic() - start
            raise ClusterError(
                f"--scheduler {scheduler}: no Dask scheduler answers there ({waited:.0f} s; {type(error).__name__}). "
                "Is it running, is the address tcp://HOST:PORT, and may this machine reach it?"
            ) from None
        with client:
            yield Cluster(client)
