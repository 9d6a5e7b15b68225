"""Studies: workloads x policy sets x repeats, from a file or built here."""

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from hashlib import sha256
from operator import index
from pathlib import Path
from typing import Any

from . import _engine
from ._engine import Drive, Error, Machine, PolicySet
from ._progress import Progress, shown
from ._results import Results

Path_ = str | os.PathLike[str]
Policy = str | PolicySet
Grid = Policy | Mapping[str, Any] | Sequence[Policy]
Files = tuple[tuple[str, bytes], ...]


class Study:
    """What is compared: each workload under each policy set, so many times.

    A study is a file, or built of the same keys (docs/studies.md has all of them):

    >>> study = Study(
    ...     name="governors",
    ...     machine="rk3399",
    ...     workload="iowait-rk3399.fio",
    ...     policy=[["menu", "teo"], ["", "psd"]],
    ...     repeats=4,
    ... )
    >>> len(study)
    16

    It can be pickled: what it names goes with it, so that it runs elsewhere.
    """

    def __init__(
        self,
        file: Path_ | None = None,
        *,
        on: str = "sim",
        folder: Path_ = ".",
        name: str | None = None,
        title: str | None = None,
        machine: "str | Machine | Sequence[str | Machine] | None" = None,
        drive: "str | Drive | Sequence[str | Drive] | None" = None,
        kernel: str | None = None,
        workload: "Path_ | Mapping[str, Any] | Sequence[Path_ | Mapping[str, Any]] | None" = None,
        policy: "Policy | Sequence[Grid] | None" = None,
        also: "Policy | Sequence[Policy]" = (),
        repeats: int | None = None,
        seed: int | None = None,
        baseline: str | None = None,
        level: float | None = None,
        margin_percent: float | None = None,
        settle_s: float | None = None,
        question: Sequence[Mapping[str, Any]] | None = None,
        allow_programs: bool = False,
    ) -> None:
        """Read a study file, or build a study.

        Args:
            file: a study file, or the name of a built-in study. All keys but `on` and `also` are then the file's own.
            on: `"sim"` for the simulator, `"replay"` for recordings, `"live"` to measure this machine.
            folder: where paths in the keys count from.
            name: what directories are called by.
            title: what it is about.
            machine: what is simulated: a name of `Machine.names()`, a machine file, or a `Machine`.
            drive: the machine's drive instead of its own.
            kernel: the kernel whose policies bare names mean, such as "7.3"; the machine's if not given.
            workload: fio jobs (`*.fio`) and rt-app files (`*.json`), built in or files; recordings (`*.parquet`) to
                replay; or `[[workload]]` tables.
            policy: policy sets; lists inside make a grid, tables name a set.
            also: policy sets beside those.
            repeats: runs of each workload under each policy, 1 to 100000; 10 if not given.
            seed: of the first repeat, 0 to 2^63 - 1; 1 if not given.
            baseline: the policy that the others are compared with; the first if not given.
            level: confidence level of intervals, 0.5 to 0.999; 0.95 if not given.
            margin_percent: differences of no interest, 0 to 1000 percent; 2 if not given.
            settle_s: seconds to wait after a change of settings, 0 to 3600; 5 if not given.
            question: `[[question]]` tables.
            allow_programs: run governors of one's own (`c:`, `exec:`) that a file names. Those of keys and of `also` are
                yours, and run.

        Raises:
            Error: what `wakepath study check` would say.
            TypeError, ValueError: a value that no study has.
        """
        more = [_text(one) for one in _several(also)]
        keys = {
            "name": name,
            "title": title,
            "machine": machine,
            "drive": drive,
            "kernel": kernel,
            "repeats": repeats,
            "seed": seed,
            "baseline": baseline,
            "level": level,
            "margin_percent": margin_percent,
            "settle_s": settle_s,
            "workload": None if workload is None else [_workload(one) for one in _several(workload)],
            "policy": None if policy is None else [_policy(one) for one in _several(policy)],
            "question": question,
        }
        given = {key: value for key, value in keys.items() if value is not None}
        if file is not None:
            if given:
                raise ValueError(
                    f"{', '.join(given)}: the file has keys of its own; give a file, or the keys of a study"
                )
            self._plan = _engine.Plan.load(os.fspath(file), on, more, allow_programs=allow_programs)
            return
        if more:
            given["also"] = more
        with tempfile.TemporaryDirectory(prefix="wakepath-") as own:
            text = json.dumps(_plain("study", given, own))
            self._plan = _engine.Plan.of_keys(text, os.fspath(folder), on, allow_programs=allow_programs)

    @property
    def name(self) -> str:
        """What directories are called by."""
        return self._plan.name

    @property
    def workloads(self) -> list[str]:
        """The names of the workloads."""
        return self._plan.workloads

    @property
    def policies(self) -> list[str]:
        """The names of the policy sets."""
        return self._plan.policies

    @property
    def repeats(self) -> int:
        """Runs of each workload under each policy."""
        return self._plan.repeats

    @property
    def notes(self) -> list[str]:
        """What was accepted and a reader should know of."""
        return self._plan.notes

    @property
    def text(self) -> str:
        """The study as a file has it."""
        return self._plan.text

    def __len__(self) -> int:
        """How many runs it has."""
        return len(self._plan)

    def __repr__(self) -> str:
        return f"<wakepath.Study {self.name}: {len(self)} runs>"

    def run(
        self,
        into: Path_ | None = None,
        *,
        shard: str | None = None,
        resume: bool = False,
        force: bool = False,
        jobs: int | None = None,
        progress: Progress = None,
    ) -> Results:
        """Run it on this machine. Ctrl-C ends it; what is finished stays in the directory.

        Args:
            into: the result directory, to the byte as `wakepath study run` writes it; none: the results stay in memory.
            shard: one of several equal parts, such as `"3/64"`; `wakepath results merge` puts them together.
            resume: go on with a study that was interrupted.
            force: replace results that are there.
            jobs: simulations at a time, 1 to 65535; one per core if not given. The result does not depend on it.
            progress: a bar: by itself on a terminal and in a notebook; or a function of done and total.

        Raises:
            Error: a run that fails, or a directory that cannot be written.
        """
        if jobs is not None and not 1 <= index(jobs) < 2**16:
            raise ValueError(f"jobs is {jobs}, and may be 1 to 65535")
        if into is None and (shard is not None or resume or force):
            raise ValueError("shard, resume and force are about a directory: give `into`")
        with shown(progress, len(self), "runs") as tell:
            if into is None:
                return Results._of(self._plan.run_in_memory(jobs=jobs, progress=tell))
            into = folder(into)
            self._plan.run(into, mode_of(resume, force), shard=shard, jobs=jobs, progress=tell)
        return Results(into)

    def __reduce__(self) -> "tuple[Any, tuple[Files, str, bool]]":
        return _of_files, (tuple(sorted(self._plan.files().items())), self._plan.on, self._plan.may_run)


def folder(into: Path_) -> str:
    """The path of a result directory."""
    if not isinstance(into, (str, os.PathLike)):
        raise TypeError(f"into: expected a directory, and there is {into!r}")
    if not os.fspath(into):
        raise ValueError("into: expected a directory, and there is an empty text")
    return os.fspath(into)


def mode_of(resume: bool, force: bool) -> str:
    """What to do with a directory that is there."""
    if resume and force:
        raise ValueError("resume goes on with what is there, force replaces it: give one of them")
    return "resume" if resume else "replace" if force else "new"


def _of_files(files: Files, on: str, allow_programs: bool) -> Study:
    study = Study.__new__(Study)
    study._plan = plan_of(files, on, allow_programs)
    return study


def plan_of(files: Files, on: str = "sim", allow_programs: bool = False) -> _engine.Plan:
    """Plan a study from its own files."""
    with tempfile.TemporaryDirectory(prefix="wakepath-") as folder:
        for name, content in files:
            _write(Path(folder, name), content)
        return _engine.Plan.load(f"{folder}/study.toml", on, [], allow_programs=allow_programs)


def simulate(
    workload: "Path_ | Mapping[str, Any]",
    machine: "str | Machine",
    policy: "Policy | Sequence[Grid]" = "",
    *,
    drive: "str | Drive | None" = None,
    seconds: float | None = None,
    copies: int | None = None,
    fio_options: Mapping[str, Any] | None = None,
    runs: int = 3,
    seed: int = 1,
    jobs: int | None = None,
    into: Path_ | None = None,
    progress: Progress = None,
) -> Results:
    """Simulate one workload on a modelled machine under policy sets.

    Args:
        workload: a fio job (`*.fio`) or an rt-app file (`*.json`), built in or a file; the text of a fio job; or a
            `[[workload]]` table.
        machine: a name of `Machine.names()`, a recorded system, a machine file, or a `Machine`.
        policy: policy sets to compare; what a set does not name is as the machine's kernel has it.
        drive: the machine's drive instead of its own.
        seconds: how long each job is simulated for, 0.001 to 10^7.
        copies: how often to run an rt-app workload side by side.
        fio_options: fio options that hold for every job.
        runs: runs per policy set, each with a seed of its own, 1 to 100000.
        seed: of the first run; the others count up from it.
        jobs: simulations at a time; one per core if not given.
        into: a result directory to write; none: the results stay in memory.
        progress: a bar: by itself on a terminal and in a notebook; or a function of done and total.

    Raises:
        Error: something is not there, or the machine cannot have it.
        TypeError, ValueError: a value of the wrong type or out of range.
    """
    table = dict(_workload(workload))
    own = {"seconds": seconds, "copies": copies, "fio_options": fio_options}
    table.update((key, value) for key, value in own.items() if value is not None)
    study = Study(
        name=table.get("name", "simulation"),
        machine=machine,
        drive=drive,
        workload=table,
        policy=policy,
        repeats=runs,
        seed=seed,
    )
    return study.run(into, jobs=jobs, progress=progress)


def _several(given: Any) -> list[Any]:
    """What may be one thing or a list of them."""
    if isinstance(given, (list, tuple)):
        return list(given)
    return [given]


def _text(policy: object) -> str:
    if isinstance(policy, (str, PolicySet)):
        return str(policy) or "unchanged"
    raise TypeError(f"policy: expected a policy set such as 'menu + psd', and there is {policy!r}")


def _policy(policy: object) -> Any:
    if isinstance(policy, Mapping):
        return dict(policy)
    if isinstance(policy, (list, tuple)):
        # A part of a grid may be empty.
        return [str(one) if isinstance(one, PolicySet) else one for one in policy]
    return _text(policy)


def _workload(workload: object) -> Mapping[str, Any]:
    if isinstance(workload, Mapping):
        return workload
    if not isinstance(workload, (str, os.PathLike)):
        raise TypeError(f"workload: expected a file, the text of a fio job or a table, and there is {workload!r}")
    text = os.fspath(workload)
    if "\n" in text:
        return {"name": "job", "fio_job": text}
    kind = {".json": "rt_app", ".parquet": "recording"}.get(Path(text).suffix, "fio")
    return {"name": Path(text).stem, kind: text}


def _plain(key: str, value: object, folder: str) -> Any:
    """A value as a study file can have it."""
    if isinstance(value, Machine):
        return value._named() or _kept(value, folder)
    if isinstance(value, Drive):
        return value._named()
    if isinstance(value, PolicySet):
        return str(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return {str(k): _plain(f"{key}.{k}", v, folder) for k, v in value.items() if v is not None}
    if isinstance(value, (list, tuple)):
        return [_plain(key, one, folder) for one in value]
    if hasattr(value, "item") and not isinstance(value, (str, bytes)):
        value = value.item()  # a number of numpy
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        raise ValueError(f"{key} is {value}, which is no number that a study can have")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError(f"{key} is {value}, and whole numbers of a study have 64 bits")
    if isinstance(value, (str, int, float, bool)):
        return value
    raise TypeError(f"{key}: a study has text, numbers, lists and tables, and there is {value!r}")


def _kept(machine: Machine, folder: str) -> str:
    """A file of a machine that no name leads to, for as long as the study is planned."""
    text = machine.to_toml()
    path = Path(folder, f"{sha256(text.encode()).hexdigest()[:16]}.toml")
    _write(path, text.encode())
    return str(path)


def _write(path: Path, content: bytes) -> None:
    """Write a file that is needed for as long as the study is planned."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        # A write that fails does not say of which file.
        raise Error(
            f"{path}: {error.strerror}; a study is planned from files in the temporary folder: make room there, or set"
            " TMPDIR to another folder"
        ) from error
