"""Fleets: surveyed here; each class's search and each recording's replay by whoever there is."""

import json
import os
import shutil
import socket
import warnings
from collections.abc import Iterator
from concurrent import futures
from contextlib import ExitStack, suppress
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from . import _arguments as check
from . import _captures, _engine
from ._arguments import ArgumentError, Names, StrPath
from ._captures import Captures
from ._engine import Error
from ._pool import AHEAD, Client, Cluster, Pool, build, pool_of, refuse_other_build
from ._program import WakepathWarning
from ._progress import Progress, shown
from ._remote import Remote
from ._study import mode_of

ANSWERS = "answers"
"""The folder of answers, until all are there."""

MOST_MACHINES = 2**16 - 1
"""The largest `fewest` and `examine`, as on the command line."""


def fleet(
    folder: StrPath,
    client: Client | Cluster | futures.Executor | None = None,
    into: StrPath | None = None,
    *,
    load: Names = (),
    minimise: str = "mean_mw",
    keep: Names = (),
    over: Names = (),
    label: Names = (),
    only: Names = (),
    budget: int = 400_000,
    seed: int = 1,
    seconds: float | None = None,
    fewest: int = 3,
    examine: int = 5,
    resume: bool = False,
    force: bool = False,
    progress: Progress = None,
) -> dict[str, Any]:
    """Find the classes of many machines, what stands out, and settings for each class, on all cores or on a cluster.

    This process reads the captures. Workers search for each class and replay each recording; they read loads and
    recordings by the path that they have here. Order, number and death of workers change nothing.

    Args:
        folder: the folder of captures, as for `wakepath fleet`, or one of fsspec, such as `"s3://bucket/captures"`. A
            copy without recordings goes into a temporary folder; a worker copies each recording that it replays.
        client: a `distributed.Client`, a cluster object of Dask or dask-jobqueue, or any `concurrent.futures.Executor`;
            none: threads of this process, one for each core.
        into: a folder for the files of `wakepath fleet -o`, to the byte: on any file system, or of fsspec, such as
            `"s3://bucket/fleet"`; none: nothing is written.
        load: loads with their hours per day, such as `"db.fio=6h"`; none: classes get no settings.
        minimise: the metric to make small.
        keep: conditions that each set keeps, such as `"p99_us <= +5%"`.
        over: what may be changed, as for `wakepath tune`.
        label: labels by patterns of machines' names, such as `"rack1/*=web"`; classes differ in labels.
        only: patterns of machines' names; no other machines count.
        budget: requests to simulate for each class, and for each machine that its set is tried on, 1 to 2^63 - 1.
        seed: the start of all seeds, 0 to 2^63 - 1.
        seconds: the longest time that each job is simulated for, 0.001 to 10^7.
        fewest: a class with fewer machines joins the nearest one, 1 to 65535.
        examine: machines of a class that are examined as by doctor, 0 to 65535.
        resume: go on with what an interrupted call left in `into`.
        force: replace a survey that is there.
        progress: a bar: by itself on a terminal and in a notebook; or a function of done and total parts.

    Raises:
        Error: a folder without captures; a load that cannot be read, or that a worker does not see; a worker of another
            version or build; a client that is closed or whose scheduler went away. Answers that are there stay in
            `into`, and `resume=True` goes on.
        ArgumentError: a number that is out of range, or arguments that contradict each other.
        TypeError: a value of another type.

    Returns:
        What `wakepath fleet --format json` prints.
    """
    mode = mode_of(resume, force)
    place = check.path("folder", folder)
    asked: dict[str, Any] = {
        "folder": place,
        "label": check.texts("label", label),
        "only": check.texts("only", only),
        "load": check.texts("load", load),
        "minimise": check.text("minimise", minimise),
        "keep": check.texts("keep", keep),
        "over": check.names("over", over),
        "budget": check.whole("budget", budget, 1, check.MOST),
        "seed": check.whole("seed", seed, 0, check.MOST),
        "at_most_ns": None if seconds is None else round(check.number("seconds", seconds, 0.001, 1e7) * 1e9),
        "fewest": check.whole("fewest", fewest, 1, MOST_MACHINES),
        "examine": check.whole("examine", examine, 0, MOST_MACHINES),
    }
    if not asked["load"] and (asked["keep"] or asked["over"]):
        raise ArgumentError("keep and over are about loads: give `load`")
    store = None if into is None else _store(check.path("into", into))
    if store is None and mode != "new":
        raise ArgumentError("resume and force are about a folder: give `into`")
    if store is not None and mode == "new":
        _refuse_survey(store)
    with ExitStack() as stack:
        pool = None if client is None else stack.enter_context(pool_of(client))
        captures = stack.enter_context(_captures.copied(place)) if "://" in place else None
        survey = _survey(asked, captures)
        for note in survey.notes:
            warnings.warn(note, WakepathWarning, stacklevel=2)
        if store is not None:
            _begin(store, mode)
        answers = _answers(survey.parts(), captures, pool, store, progress)
    text, files = survey.report(answers)
    if store is not None:
        for name, content in files:
            store.write(name, content.encode())
        store.remove_folder(ANSWERS)
    report: dict[str, Any] = json.loads(text)
    return report


def _survey(asked: dict[str, Any], captures: Captures | None) -> _engine.Fleet:
    if captures is None:
        return _engine.Fleet.survey({**asked, "shown": None})
    try:
        return _engine.Fleet.survey({**asked, "folder": captures.copy, "shown": captures.url})
    except Error as error:
        raise Error(captures.as_user_knows(str(error))) from error


class _Local:
    """A folder of this machine. Files appear whole."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def __str__(self) -> str:
        return str(self.folder)

    def has(self, name: str) -> bool:
        return (self.folder / name).exists()

    def read(self, name: str) -> bytes | None:
        try:
            return (self.folder / name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Error(f"{self.folder / name}: {error.strerror}") from error

    def write(self, name: str, content: bytes) -> None:
        target = self.folder / name
        part = target.with_name(f".wakepath-{os.getpid()}-{target.name}")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                part.write_bytes(content)
                part.replace(target)
            finally:
                part.unlink(missing_ok=True)
        except OSError as error:
            raise Error(f"{target}: {error.strerror}") from error

    def remove_folder(self, name: str) -> None:
        try:
            with suppress(FileNotFoundError):
                shutil.rmtree(self.folder / name)
        except OSError as error:
            raise Error(f"{self.folder / name}: {error.strerror}") from error


def _store(into: str) -> _Local | Remote:
    return Remote(into) if "://" in into else _Local(into)


def _refuse_survey(store: _Local | Remote) -> None:
    """Refuse a folder with a survey, finished or not, before anything is begun."""
    if any(store.has(name) for name in (*_engine.fleet_files(), ANSWERS)):
        raise Error(f"{store}: a survey is there already; resume=True goes on with it, force=True replaces it")


def _begin(store: _Local | Remote, mode: str) -> None:
    """Find out before any long work whether the folder can be written."""
    if mode == "replace":
        store.remove_folder(ANSWERS)
    store.write(f"{ANSWERS}/build", build().encode())


def _answers(
    parts: list[str],
    captures: Captures | None,
    pool: Pool | None,
    store: _Local | Remote | None,
    progress: Progress,
) -> list[str]:
    """Take the answers that are there, have the others made, and keep each as soon as it is there."""
    keys = [_key(part if captures is None else captures.identify(part)) for part in parts]
    answers: dict[str, str] = {}
    if store is not None:
        for key in keys:
            kept = (store.read(f"{ANSWERS}/{key}.toml") or b"").decode(errors="replace")
            if _engine.is_fleet_answer(kept):
                answers[key] = kept
    missing = {key: part for key, part in zip(keys, parts, strict=True) if key not in answers}
    with shown(progress, len(parts), "parts") as tell:
        for key, answer in _made(pool, captures, missing):
            if store is not None:
                store.write(f"{ANSWERS}/{key}.toml", answer.encode())
            answers[key] = answer
            if tell is not None:
                tell(len(answers))
    return [answers[key] for key in keys]


def _key(part: str) -> str:
    """Name the answer to a part: another build, load, recording or setting makes another name."""
    return sha256(f"{build()}\n{part}".encode()).hexdigest()[:32]


def _made(pool: Pool | None, captures: Captures | None, missing: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Have parts answered; give each answer with its name as soon as it is there."""
    if not missing:
        return
    if pool is None:
        for key, part in missing.items():
            yield key, _answer(part, captures, None)
        return
    # Where there are fewer parts than workers, each takes more cores; the answer does not depend on it.
    job = Job(build(), max(1, pool.workers() // len(missing)), captures and captures.for_workers())
    pool.begin(answer_part, job)
    try:
        left = iter(missing.items())
        while True:
            for batch in islice(left, max(0, AHEAD * pool.workers() - pool.under_way)):
                pool.submit(batch)
            if not pool.under_way:
                return
            yield from pool.finished()
    finally:
        pool.end()


class Job(NamedTuple):
    """What all parts have in common."""

    build: str
    threads: int
    captures: Captures | None = None


def answer_part(job: Job, batch: tuple[str, str]) -> tuple[str, str]:
    """Answer a part; this is what workers do."""
    refuse_other_build(job.build)
    key, part = batch
    for file in _engine.fleet_part_files(part):
        is_fetched = job.captures is not None and job.captures.name_of(file) is not None
        if not is_fetched and not Path(file).is_file():
            raise Error(
                f"worker on {socket.gethostname()}: there is no {file}; workers read loads and recordings, which have"
                " to be on a file system that all of them share"
            )
    return key, _answer(part, job.captures, job.threads)


def _answer(part: str, captures: Captures | None, threads: int | None) -> str:
    """Answer a part: with its own copy of recordings that only fsspec reaches."""
    if captures is None:
        return _engine.answer_fleet_part(part, threads=threads)
    with captures.fetched(part) as own:
        return _engine.answer_fleet_part(own, threads=threads)
