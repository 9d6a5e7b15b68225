"""Studies on many machines: what is missing, in batches, made by whoever there is."""

import socket
import tempfile
import time
from collections.abc import Iterator
from concurrent import futures
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from . import _arguments as check
from . import _engine
from ._arguments import StrPath
from ._engine import Error
from ._pool import AHEAD, Client, Cluster, Pool, build, pool_of, refuse_other_build
from ._progress import Progress, shown
from ._remote import Remote
from ._results import Results
from ._study import Files, Study, mode_of, plan_of, refuse_results

BATCH_SECONDS = 1.0
"""How long a batch should take: what a scheduler does for it is then of no weight."""

BATCHES_PER_SECOND = 100.0
"""Batches that a scheduler is asked for: it takes some milliseconds for each, so many workers get longer ones."""

Line = tuple[int, float]
"""What comes back of a batch: its runs, and how long they took, in seconds."""


def sweep(
    study: Study | StrPath,
    client: Client | Cluster | futures.Executor | None = None,
    into: StrPath = "results",
    *,
    resume: bool = False,
    force: bool = False,
    progress: Progress = None,
    allow_programs: bool = False,
) -> Results:
    """Run a study on all cores or on a cluster. The results have the same bytes as those of `wakepath study run`.

    The workers of a cluster write finished runs into the directory, which all of them have to see by the same path;
    through the scheduler goes a line per batch. Order, number and death of workers change nothing.

    Args:
        study: a study, its file, or the name of a built-in one. It is simulated or replayed.
        client: a `distributed.Client`, a cluster object of Dask or dask-jobqueue, or any `concurrent.futures.Executor`;
            none: threads of this process, one for each core.
        into: the result directory, or a folder of any file system of fsspec, such as `"s3://bucket/results"`.
        resume: go on with what is missing.
        force: replace results that are there.
        progress: a bar: by itself on a terminal and in a notebook; or a function of done and total.
        allow_programs: run governors of one's own (`c:`, `exec:`) that a study file names, on the workers.

    Raises:
        Error: a run that fails; a worker of another version or build; a client that is closed or whose scheduler went
            away; a directory that cannot be written, or that a worker does not see. What is finished stays, and
            `resume=True` goes on.
    """
    mode = mode_of(resume, force)
    path = check.path("into", into)
    remote = Remote(path) if "://" in path else None
    if remote is None:
        refuse_results(path, mode)
    elif mode == "new" and remote.there():
        raise Error(f"{remote}: results are there already; resume=True goes on with them, force=True replaces them")
    if not isinstance(study, Study):
        study = Study(study, allow_programs=allow_programs)
    if remote is not None:
        return _remote(study, client, remote, mode, progress)
    if client is None and study._plan.on != "live":
        return study.run(path, resume=resume, force=force, progress=progress)
    directory = Path(path).absolute()
    with pool_of(client) as pool:
        parts = study._plan.begin(str(directory), mode)
        try:
            _fill(study, pool, Runs(parts.missing), str(directory), progress)
            parts.finish()
        finally:
            parts.close()
    return Results(directory)


def _remote(study: Study, client: Any, remote: Remote, mode: str, progress: Progress) -> Results:
    """Sweep into a file system that only fsspec knows: here is a copy that is begun and finished."""
    copy = tempfile.TemporaryDirectory(prefix="wakepath-")
    with pool_of(client) as pool:
        if remote.there() and mode == "resume":
            remote.get(copy.name)
        elif remote.there():
            remote.remove()
        parts = study._plan.begin(copy.name, mode)
        try:
            missing = Runs(parts.missing)
            remote.put(copy.name)
            _fill(study, pool, missing, str(remote), progress)
            remote.get_runs(missing, copy.name)
            parts.finish()
            remote.put(copy.name)
        finally:
            parts.close()
    results = Results(copy.name)
    results._copy = copy
    return results


class Runs:
    """Indices of runs, millions of which take no memory."""

    def __init__(self, ranges: list[tuple[int, int]]) -> None:
        self.ranges = [range(*one) for one in ranges]

    def __len__(self) -> int:
        return sum(map(len, self.ranges))

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(self.ranges)


def _fill(study: Study, pool: Pool, missing: Runs, into: str, progress: Progress) -> None:
    there = len(study) - len(missing)
    job = Job(tuple(sorted(study._plan.files().items())), study._plan.on, build(), into)
    # The blocks of a recording are made in one go.
    groups = study._plan.together(list(missing)) if study._plan.on == "replay" else None
    with shown(progress, len(study), "runs") as tell:
        for done in _made(pool, job, missing, groups):
            if tell is not None:
                tell(there + done)


def batch_size(workers: int, left: int, made: int, seconds: float, per_second: float = BATCHES_PER_SECOND) -> int:
    """How many runs a batch has, when so many runs were made in so many seconds of workers, and so many are left."""
    # The first batches only tell how long a run takes; the last ones must not leave workers idle.
    length = max(BATCH_SECONDS, workers / per_second)
    wanted = int(length * made / seconds) if seconds else 1
    most = -(-left // (AHEAD * workers))
    return max(1, min(wanted, most))


def _made(pool: Pool, job: "Job", missing: Runs, groups: list[list[int]] | None) -> Iterator[int]:
    """Have the runs made, in groups if there are any; give the number that is done each time that it changes."""
    left = iter(missing)
    left_groups = iter(groups or [])
    total, made, seconds = len(missing), 0, 0.0
    pool.begin(make, job)
    try:
        while True:
            while pool.under_way < AHEAD * pool.workers():
                size = batch_size(pool.workers(), total - made, made, seconds)
                alone = list(islice(left, size)) if groups is None else []
                batch = alone or next(left_groups, [])
                if not batch:
                    break
                pool.submit(batch)
            if not pool.under_way:
                return
            for runs, took in pool.finished():
                made += runs
                seconds += took
            yield made
    finally:
        pool.end()


class Job(NamedTuple):
    """What all batches have in common."""

    files: Files
    on: str
    build: str
    into: str


def make(job: Job, runs: list[int]) -> Line:
    """Make these runs; this is what workers do."""
    refuse_other_build(job.build)
    remote = Remote(job.into) if "://" in job.into else None
    if not (Path(job.into, "result.json").is_file() if remote is None else remote.there()):
        raise Error(
            f"worker on {socket.gethostname()}: there is no {job.into}; workers write into the result directory, which"
            " has to be on a file system that all of them share"
        )
    started = time.perf_counter()
    if remote is None:
        _plan(job.files, job.on).make(runs, job.into)
    else:
        with tempfile.TemporaryDirectory(prefix="wakepath-") as own:
            Path(own, "runs").mkdir()
            _plan(job.files, job.on).make(runs, own)
            remote.put_runs(runs, own)
    return len(runs), time.perf_counter() - started


@lru_cache(maxsize=2)
def _plan(files: Files, on: str) -> _engine.Plan:
    # Whoever began the directory has asked the user.
    return plan_of(files, on, allow_programs=True)
