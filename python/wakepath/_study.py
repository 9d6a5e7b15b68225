"""Studies: workloads x policy sets x repeats, from a file or built here."""

import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from . import _arguments as check
from . import _engine
from ._arguments import MOST, ArgumentError, Policy, StrPath
from ._engine import Drive, Error, Machine, PolicySet
from ._program import program
from ._progress import Progress, shown
from ._results import Results

Workload = StrPath | Mapping[str, Any]
PolicyItem = Policy | Mapping[str, Any] | Iterable[Policy]
"""A policy set, a table that names one, or one side of a grid."""
Files = tuple[tuple[str, bytes], ...]

_NUMBERS: dict[str, tuple[float, float]] = {
    "level": (0.5, 0.999),
    "margin_percent": (0, 1000),
    "settle_s": (0, 3600),
    "warm_up_s": (0, 1e6),
}
_WHOLE = {"repeats": (1, 100_000), "seed": (0, MOST)}
_WORKLOAD_NUMBERS: dict[str, tuple[float, float]] = {"seconds": (0.001, 1e7), "warm_up_s": _NUMBERS["warm_up_s"]}
_WORKLOAD_WHOLE = {"copies": (1, 4096), "hz": (1, 6250), "instances": (1, 4096)}


class Study:
    """What is compared: each workload under each policy set, so many times.

    A study is a file, or built of the same keys (docs/guides/studies.md has all of them):

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
        file: StrPath | None = None,
        *,
        on: str = "sim",
        folder: StrPath = ".",
        name: str | None = None,
        title: str | None = None,
        machine: "StrPath | Machine | Iterable[StrPath | Machine] | None" = None,
        drive: "StrPath | Drive | Iterable[StrPath | Drive] | None" = None,
        kernel: str | None = None,
        workload: "Workload | Iterable[Workload] | None" = None,
        policy: "Policy | Mapping[str, Any] | Iterable[PolicyItem] | None" = None,
        also: "Policy | Iterable[Policy]" = (),
        repeats: int | None = None,
        seed: int | None = None,
        baseline: Policy | None = None,
        level: float | None = None,
        margin_percent: float | None = None,
        settle_s: float | None = None,
        warm_up_s: float | None = None,
        question: "Mapping[str, Any] | Iterable[Mapping[str, Any]] | None" = None,
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
            policy: policy sets: one, or any series of them. Lists inside make a grid; `{"name": "mine", "set": "menu"}`
                names a set.
            also: policy sets beside those.
            repeats: runs of each workload under each policy, 1 to 100000; 10 if not given.
            seed: of the first repeat, 0 to 2^63 - 1; 1 if not given.
            baseline: the policy that the others are compared with; the first if not given.
            level: confidence level of intervals, 0.5 to 0.999; 0.95 if not given.
            margin_percent: differences of no interest, 0 to 1000 percent; 2 if not given.
            settle_s: seconds to wait after a change of settings, 0 to 3600; 5 if not given.
            warm_up_s: seconds at the beginning of time-based fio jobs that no figure counts, 0 to 10^6; by how long
                they run if not given.
            question: `[[question]]` tables.
            allow_programs: run governors of one's own (`c:`, `exec:`) that a file names. Those of keys and of `also`
                are yours, and run.

        Raises:
            Error: what `wakepath study check` would say.
            ArgumentError: a number that is out of range.
            TypeError: a value of another type.
        """
        if on == "live":
            _name_program()
        if on not in ("sim", "replay", "live"):
            raise ArgumentError(f"on is {check.shown(on)}, and may be 'sim' or 'replay' or 'live'")
        more = [_text(check.policy(one)) for one in check.several("also", also, (str, PolicySet))]
        keys = {
            "name": check.text_or_none("name", name),
            "title": check.text_or_none("title", title),
            "machine": None if machine is None else _list_or_one("machine", machine, Machine),
            "drive": None if drive is None else _list_or_one("drive", drive, Drive),
            "kernel": check.text_or_none("kernel", kernel),
            "repeats": repeats,
            "seed": seed,
            "baseline": None if baseline is None else check.policy(baseline, "baseline"),
            "level": level,
            "margin_percent": margin_percent,
            "settle_s": settle_s,
            "warm_up_s": warm_up_s,
            "workload": None if workload is None else _workloads(workload),
            "policy": None if policy is None else _policies(policy),
            "question": None if question is None else [_table("question", one) for one in _tables(question)],
        }
        given = {key: value for key, value in keys.items() if value is not None}
        _check_numbers(given, _NUMBERS, _WHOLE, "")
        if file is not None:
            if given:
                raise ArgumentError(
                    f"{', '.join(given)}: the file has keys of its own; give a file, or the keys of a study"
                )
            path = check.path("file", file)
            self._plan = _engine.Plan.load(path, on, more, allow_programs=allow_programs)
            return
        if name is None:
            raise TypeError("give the file of a study, or its keys: at least name, workload and policy")
        if more:
            given["also"] = more
        with tempfile.TemporaryDirectory(prefix="wakepath-") as own:
            plain = json.dumps({key: _plain(key, value, own) for key, value in given.items()})
            base = check.path("folder", folder)
            self._plan = _engine.Plan.of_keys(plain, base, on, allow_programs=allow_programs)

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
        into: StrPath | None = None,
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
        jobs = None if jobs is None else check.whole("jobs", jobs, 1, 2**16 - 1)
        shard = check.text_or_none("shard", shard)
        mode = mode_of(resume, force)
        if into is None:
            if shard is not None or mode != "new":
                raise ArgumentError("shard, resume and force are about a directory: give `into`")
            with shown(progress, len(self), "runs") as tell:
                return Results._of(self._plan.run_in_memory(jobs=jobs, progress=tell), self)
        into = check.path("into", into)
        refuse_results(into, mode)
        with shown(progress, len(self), "runs") as tell:
            self._plan.run(into, mode, shard=shard, jobs=jobs, progress=tell)
        return Results(into)

    def __reduce__(self) -> "tuple[Any, tuple[Files, str, bool]]":
        return _of_files, (tuple(sorted(self._plan.files().items())), self._plan.on, self._plan.may_run)


def mode_of(resume: bool, force: bool) -> str:
    """What to do with a directory that is there."""
    check.flag("resume", resume)
    check.flag("force", force)
    if resume and force:
        raise ArgumentError("resume goes on with what is there, force replaces it: give one of them")
    return "resume" if resume else "replace" if force else "new"


def refuse_results(into: str, mode: str) -> None:
    """Refuse a directory with results, before anything is begun that takes time."""
    if mode == "new" and Path(into, "result.json").exists():
        raise Error(f"{into}: results are there already; resume=True goes on with them, force=True replaces them")


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
    workload: Workload,
    machine: "StrPath | Machine",
    policy: "Policy | Mapping[str, Any] | Iterable[PolicyItem]" = "",
    *,
    drive: "StrPath | Drive | None" = None,
    kernel: str | None = None,
    seconds: float | None = None,
    warm_up: float | None = None,
    copies: int | None = None,
    fio_options: Mapping[str, Any] | None = None,
    runs: int = 3,
    seed: int = 1,
    jobs: int | None = None,
    into: StrPath | None = None,
    progress: Progress = None,
) -> Results:
    """Simulate one workload on a modelled machine under policy sets.

    Args:
        workload: a fio job (`*.fio`) or an rt-app file (`*.json`), built in or a file; the text of a fio job; or a
            `[[workload]]` table.
        machine: a name of `Machine.names()`, a machine file, or a `Machine`.
        policy: policy sets to compare: one, or any series of them; what a set does not name is as the machine's kernel
            has it.
        drive: the machine's drive instead of its own: a name of `Drive.names()`, a drive file, or a `Drive`.
        kernel: the kernel whose policies bare names mean, such as "7.3"; the machine's if not given.
        seconds: how long each job is simulated for, 0.001 to 10^7.
        warm_up: seconds at the beginning that no figure counts, 0 to 10^6; as the workload has it if not given.
        copies: how often to run an rt-app workload side by side, 1 to 4096.
        fio_options: fio options that hold for every job.
        runs: runs per policy set, each with a seed of its own, 1 to 100000.
        seed: of the first run, 0 to 2^63 - 1; the others count up from it.
        jobs: simulations at a time, 1 to 65535; one per core if not given.
        into: a result directory to write; none: the results stay in memory.
        progress: a bar: by itself on a terminal and in a notebook; or a function of done and total.

    Raises:
        Error: something is not there, or the machine cannot have it.
        ArgumentError: a number that is out of range.
        TypeError: a value of another type.
    """
    table = dict(_workload(workload))
    if fio_options is not None:
        table["fio_options"] = _table("fio_options", fio_options)
    if seconds is not None:
        table["seconds"] = check.number("seconds", seconds, *_WORKLOAD_NUMBERS["seconds"])
    if warm_up is not None:
        table["warm_up_s"] = check.number("warm_up", warm_up, *_WORKLOAD_NUMBERS["warm_up_s"])
    if copies is not None:
        table["copies"] = check.whole("copies", copies, *_WORKLOAD_WHOLE["copies"])
    study = Study(
        name=table.get("name", "simulation"),
        machine=machine,
        drive=drive,
        kernel=kernel,
        workload=table,
        policy=_policies(policy),
        repeats=check.whole("runs", runs, *_WHOLE["repeats"]),
        seed=seed,
    )
    return study.run(into, jobs=jobs, progress=progress)


def _text(policy: str) -> str:
    return policy or "unchanged"


def _policies(given: object) -> list[Any]:
    return [_policy(one) for one in check.several("policy", given, (str, PolicySet, Mapping), check.POLICIES)]


def _policy(given: object) -> Any:
    if isinstance(given, Mapping):
        unknown = set(given) - {"name", "set", "settings"}
        if unknown:
            raise TypeError(
                f"policy: there is {check.shown(dict(given))}, and a table names one set:"
                ' {"name": "mine", "set": "menu + psd"}; several sets are a list'
            )
        return dict(given)
    if isinstance(given, (str, PolicySet)) or not isinstance(given, Iterable) or isinstance(given, bytes):
        return _text(check.policy(given))
    # A part of a grid may be empty.
    return [check.policy(one) for one in check.several("policy", given, ())]


def _workloads(given: object) -> list[Mapping[str, Any]]:
    tables = [_workload(one) for one in check.several("workload", given, (str, os.PathLike, Mapping))]
    for table in tables:
        _check_numbers(table, _WORKLOAD_NUMBERS, _WORKLOAD_WHOLE, "workload: ")
    return tables


def _workload(given: object) -> Mapping[str, Any]:
    if isinstance(given, Mapping):
        return given
    if not isinstance(given, (str, os.PathLike)):
        there = check.shown(given)
        raise TypeError(f"workload: expected a file, the text of a fio job or a table, and there is {there}")
    job = check.path("workload", given)
    if "\n" in job:
        return {"name": "job", "fio_job": job}
    kind = {".json": "rt_app", ".parquet": "recording"}.get(Path(job).suffix, "fio")
    return {"name": Path(job).stem, kind: job}


def _tables(given: object) -> list[Any]:
    return check.several("question", given, (Mapping,))


def _table(what: str, given: object) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise TypeError(f"{what}: expected a dictionary, and there is {check.shown(given)}")
    return given


def _list_or_one(what: str, given: object, kind: type) -> Any:
    found = check.several(what, given, (str, os.PathLike, kind))
    for one in found:
        if not isinstance(one, kind):
            check.path(what, one)
    return given if isinstance(given, (str, os.PathLike, kind)) else found


def _check_numbers(
    given: Mapping[str, Any],
    numbers: Mapping[str, tuple[float, float]],
    wholes: Mapping[str, tuple[int, int]],
    before: str,
) -> None:
    for key, limits in numbers.items():
        if given.get(key) is not None:
            check.number(f"{before}{key}", given[key], *limits)
    for key, ends in wholes.items():
        if given.get(key) is not None:
            check.whole(f"{before}{key}", given[key], *ends)


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
        return {check.text(key, k): _plain(f"{key}.{k}", v, folder) for k, v in value.items() if v is not None}
    if isinstance(value, (list, tuple)):
        return [_plain(key, one, folder) for one in value]
    if hasattr(value, "tolist") and not isinstance(value, (str, bytes)):
        return _plain(key, value.tolist(), folder)  # a number or an array of numpy
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        raise ArgumentError(f"{key} is {value}, which is no number that a study can have")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ArgumentError(f"{key} is {value}, and whole numbers of a study have 64 bits")
    if isinstance(value, (str, int, float, bool)):
        return value
    raise TypeError(f"{key}: a study has text, numbers, lists and tables, and there is {check.shown(value)}")


def _kept(machine: Machine, folder: str) -> str:
    """A file of a machine that no name leads to, for as long as the study is planned."""
    content = machine.to_toml().encode()
    file = Path(folder, f"{sha256(content).hexdigest()[:16]}.toml")
    _write(file, content)
    return str(file)


def _write(file: Path, content: bytes) -> None:
    """Write a file that is needed for as long as the study is planned."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    except OSError as error:
        # A write that fails does not say of which file.
        raise Error(
            f"{file}: {error.strerror}; a study is planned from files in the temporary folder: make room there, or set"
            " TMPDIR to another folder"
        ) from error


def _name_program() -> None:
    """Have live studies that lease latency start the daemon of this package."""
    # Without the wheel the engine looks in PATH.
    with suppress(Error):
        os.environ.setdefault("WAKEPATH_PROGRAM", str(program()))
