"""Whoever makes batches of work: the workers of a Dask cluster, an executor, or threads of this process."""

import os
import socket
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeVar

from . import _engine
from ._engine import Error

_T = TypeVar("_T")

Job = Any
"""What all batches have in common: a named tuple."""

Make = Callable[[Any, Any], Any]
"""What workers do: a function of a job and a batch."""

AHEAD = 2
"""Batches per worker that are handed out: it has the next one before it has finished one."""

REFRESH_SECONDS = 2.0
"""How often the number of workers is asked for."""


class Client(Protocol):
    """A `distributed.Client`."""

    @property
    def submit(self) -> Callable[..., Any]:
        """Hand work out."""

    @property
    def scheduler_info(self) -> Callable[..., Any]:
        """Say what workers there are."""


class Cluster(Protocol):
    """A cluster of Dask or dask-jobqueue."""

    @property
    def get_client(self) -> Callable[..., Any]:
        """Make a client of it."""


@cache
def build() -> str:
    """Name this version and build, which results have to be of."""
    digest = sha256(Path(_engine.__file__).read_bytes()).hexdigest()
    return f"{_engine.__version__} build {digest[:12]}"


def refuse_other_build(wanted: str) -> None:
    """Refuse to work for another version or build; workers call it."""
    if build() != wanted:
        raise Error(
            f"worker on {socket.gethostname()}: it has wakepath {build()}, and this is {wanted}; results of two"
            " builds are not put together: install the same wheel everywhere"
        )


@contextmanager
def pool_of(client: Any) -> "Iterator[Pool]":
    """Take whoever there is; without anybody threads of this process, one for each core."""
    if client is None:
        with futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
            yield _Executor(threads)
        return
    if isinstance(client, futures.Executor):
        yield _Executor(client)
        return
    if hasattr(client, "get_client") and not hasattr(client, "submit"):
        client = client.get_client()
    if not all(hasattr(client, name) for name in ("submit", "status", "scheduler_info")):
        raise TypeError(
            f"client is {client!r}, and may be a distributed.Client, a cluster, a concurrent.futures.Executor or None"
        )
    yield _Dask(client)


class Pool:
    """Who makes batches."""

    under_way = 0

    def begin(self, make: Make, job: Job) -> None:
        """Make known what all batches have in common, and the function that makes a batch."""
        raise NotImplementedError

    def workers(self) -> int:
        """How many batches are made at a time."""
        raise NotImplementedError

    def submit(self, batch: Any) -> None:
        """Hand a batch out."""
        raise NotImplementedError

    def finished(self) -> list[Any]:
        """Wait for at least one batch; give what was made of each."""
        raise NotImplementedError

    def end(self) -> None:
        """Call off what is left."""
        raise NotImplementedError


class _Executor(Pool):
    """Any executor of the standard library's kind."""

    def __init__(self, executor: futures.Executor) -> None:
        self.executor = executor
        self.make: Make
        self.job: Job
        self.pending: set[futures.Future[Any]] = set()

    def begin(self, make: Make, job: Job) -> None:
        self.make, self.job = make, job

    def workers(self) -> int:
        return int(getattr(self.executor, "_max_workers", 0) or os.cpu_count() or 1)

    def submit(self, batch: Any) -> None:
        try:
            self.pending.add(self.executor.submit(self.make, self.job, batch))
        except RuntimeError as error:
            raise Error(f"the executor takes no work: {error}; resume=True goes on with another one") from error
        self.under_way = len(self.pending)

    def finished(self) -> list[Any]:
        done, self.pending = futures.wait(self.pending, return_when=futures.FIRST_COMPLETED)
        failed = {future for future in done if future.exception() is not None}
        if failed != done:
            # What was made is not lost by an error beside it, which the next call raises.
            self.pending |= failed
            done -= failed
        self.under_way = len(self.pending)
        try:
            return [future.result() for future in done]
        except futures.BrokenExecutor as error:
            raise Error(f"a worker has died: {error}; resume=True goes on with a new executor") from error

    def end(self) -> None:
        for future in self.pending:
            future.cancel()
        # What has begun ends by itself; whoever goes on must not meet it.
        futures.wait(self.pending)


class _Dask(Pool):
    """A scheduler of Dask."""

    def __init__(self, client: Any) -> None:
        self.client = client
        if getattr(client, "asynchronous", False):
            raise Error("the client is asynchronous; this waits, and needs one with asynchronous=False")
        self._running()
        self.pending: set[Any] = set()
        # `distributed.wait` looks at all that are pending each time that one is done.
        self.done: SimpleQueue[Any] = SimpleQueue()
        self.counted = 0
        self.asked = float("-inf")

    def _running(self) -> None:
        if self.client.status != "running":
            raise Error(
                f"the client is {self.client.status}: its scheduler is not there; resume=True goes on with another one"
            )

    def begin(self, make: Make, job: Job) -> None:
        self.make = make
        # A task and no scattered data: it is made again if the workers that have it die.
        self.job = self.client.submit(type(job), *job, pure=False)

    def workers(self) -> int:
        if time.monotonic() - self.asked > REFRESH_SECONDS:
            self._running()
            self.counted = sum(self._guard(self.client.nthreads).values())
            self.asked = time.monotonic()
        # Without any there is something to do for the first that comes.
        return max(1, self.counted)

    def submit(self, batch: Any) -> None:
        future = self._guard(lambda: self.client.submit(self.make, self.job, batch, pure=False))
        future.add_done_callback(self.done.put)
        self.pending.add(future)
        self.under_way = len(self.pending)

    def finished(self) -> list[Any]:
        done = [self._next()]
        while not self.done.empty():
            done.append(self.done.get())
        made = [future for future in done if future.status == "finished"]
        if made:
            # As with an executor: an error comes with the next call.
            for future in done:
                if future.status != "finished":
                    self.done.put(future)
            done = made
        self.pending.difference_update(done)
        self.under_way = len(self.pending)
        gathered: list[Any] = self._guard(lambda: self.client.gather(done))
        return gathered

    def _next(self) -> Any:
        while True:
            with suppress(Empty):
                return self.done.get(timeout=REFRESH_SECONDS)
            self._running()

    def _guard(self, ask: Callable[[], _T]) -> _T:
        distributed: Any = import_module("distributed")

        try:
            return ask()
        except (futures.CancelledError, distributed.client.ClosedClientError, OSError) as error:
            raise Error(f"the scheduler has gone away: {error}; resume=True goes on with another one") from error
        except distributed.KilledWorker as error:
            raise Error(f"a batch was given up because workers died: {error}; resume=True goes on") from error

    def end(self) -> None:
        if self.pending and self.client.status == "running":
            self.client.cancel(list(self.pending))
