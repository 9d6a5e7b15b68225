"""Commands of the program `wakepath`, which is in the same wheel."""

import json
import os
import signal
import subprocess
import sysconfig
import tempfile
import warnings
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, TextIO

from . import _arguments as check
from ._arguments import ArgumentError, Names, Policy, StrPath
from ._engine import Error, Machine, in_python
from ._progress import Progress, shown

_NAME = "wakepath"

MOST_TIMEOUT_MS = (1 << 24) - 1
"""An entry of an APST table has 24 bits for its timeout."""


class WakepathWarning(UserWarning):
    """What the command line warns of."""


@cache
def program() -> Path:
    """Where the program is that was installed with this package."""
    try:
        files = metadata.files(_NAME) or []
    except metadata.PackageNotFoundError:
        files = []
    installed = [Path(str(file.locate())) for file in files if file.name == _NAME and "bin" in file.parts]
    for path in [*installed, Path(sysconfig.get_path("scripts")) / _NAME]:
        if path.is_file():
            return path.resolve()
    raise Error(f"the program {_NAME} is not where pip puts it: install the wheel again")


def call(*arguments: str, progress: Progress = False, parts: str = "") -> bytes:
    """Run a command; return what it prints, warn of what it warns of, raise what it fails with.

    `progress` is told how many of its parts, called so, are done.
    """
    words = [str(program()), *arguments]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        lines, told = os.pipe()
        with os.fdopen(lines) as how_far:
            try:
                process = subprocess.Popen(
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    pass_fds=[told],
                    env={**os.environ, "WAKEPATH_PROGRESS": f"/proc/self/fd/{told}"},
                )
            finally:
                os.close(told)
            try:
                _show(how_far, progress, parts)
                process.wait()
            except BaseException:
                # Of Ctrl-C a terminal tells it as well, a notebook does not.
                process.send_signal(signal.SIGINT)
                process.wait()
                raise
        out.seek(0)
        err.seek(0)
        printed, said = out.read(), err.read().decode(errors="replace").strip()
    if process.returncode != 0:
        # Of arguments that cannot be, the program says what they may be, and ends with 2.
        kind = ArgumentError if process.returncode == 2 else Error
        raise kind(_failure(said) or f"{_NAME} {arguments[0]} ended with code {process.returncode}")
    for line in said.splitlines():
        text = line.removeprefix(f"{_NAME}: ").removeprefix("warning: ")
        warnings.warn(in_python(text), WakepathWarning, stacklevel=3)
    return printed


def _show(how_far: TextIO, progress: Progress, parts: str) -> None:
    """Show how far a command is, until it ends: it writes `DONE TOTAL`."""
    with ExitStack() as bars:
        tell: Callable[[int], object] | None = None
        for number, line in enumerate(how_far):
            done, total = map(int, line.split())
            if number == 0:
                tell = bars.enter_context(shown(progress, total, parts))
            if tell is not None:
                tell(done)


def _failure(said: str) -> str:
    """The error without the name of the program, or how to call it."""
    own = [line.removeprefix(f"{_NAME}: ") for line in said.splitlines() if line.startswith(f"{_NAME}: ")]
    text = own[-1] if own else said.removeprefix("error: ")
    for how_to in ("\n\nUsage:", "\n\nFor more information"):
        text = text.partition(how_to)[0]
    return in_python(text)


def option(name: str, value: object) -> list[str]:
    """An option; nothing without a value, one for each of several."""
    if value is None or value is False:
        return []
    if value is True:
        return [f"--{name}"]
    if isinstance(value, list):
        return [word for one in value for word in option(name, one)]
    return [f"--{name}={value}"]


def apst_plan(
    drive: str | None = None,
    *,
    id_ctrl: StrPath | None = None,
    firmware: str | None = None,
    rule: str | None = None,
    primary_timeout_ms: int | None = None,
    secondary_timeout_ms: int | None = None,
    primary_tolerance_us: int | None = None,
    secondary_tolerance_us: int | None = None,
    max_latency_us: int | None = None,
    no_deepest: bool = False,
) -> dict[str, Any]:
    """Which power states the kernel uses on a drive, and when.

    Args:
        drive: a drive of `Drive.names()`, by its name or words of it that no other drive has; or a
            file with what nvme id-ctrl or smartctl printed.
        id_ctrl: instead, what `nvme id-ctrl` printed: binary, JSON or text.
        firmware: take the table of this firmware revision of a library drive.
        rule: `"current"`, or `"legacy"` for the one before Linux 5.14.
        primary_timeout_ms: idle time before a primary state, 100 if not given; 0 means the legacy rule.
        secondary_timeout_ms: idle time before a secondary state, 2000 if not given; 0 means no such state.
        primary_tolerance_us: highest total latency of a primary state, 15000 if not given.
        secondary_tolerance_us: highest total latency of a secondary state, 100000 if not given.
        max_latency_us: highest exit latency of any state, 100000 if not given; 0 switches APST off.
        no_deepest: plan as for a drive with the no-deepest-state quirk.

    Raises:
        Error: no such drive, or a dump that cannot be read.
        ArgumentError: a number that is out of range.
        TypeError: a value of another type.

    Returns:
        What `wakepath apst plan --format json` prints.
    """
    if (drive is None) == (id_ctrl is None):
        raise ArgumentError("give drive or id_ctrl, one of both")
    if rule not in (None, "current", "legacy"):
        raise ArgumentError(f"rule is {check.shown(rule)}, and may be 'current' or 'legacy'")
    numbers = {
        "primary_timeout_ms": (primary_timeout_ms, MOST_TIMEOUT_MS),
        "secondary_timeout_ms": (secondary_timeout_ms, MOST_TIMEOUT_MS),
        "primary_tolerance_us": (primary_tolerance_us, check.MOST),
        "secondary_tolerance_us": (secondary_tolerance_us, check.MOST),
        "max_latency_us": (max_latency_us, check.MOST),
    }
    arguments = [
        *option("drive", check.text_or_none("drive", drive)),
        *option("id-ctrl", None if id_ctrl is None else check.path("id_ctrl", id_ctrl)),
        *option("firmware", check.text_or_none("firmware", firmware)),
        *option("rule", rule),
        *option("no-deepest", check.flag("no_deepest", no_deepest)),
    ]
    for name, (value, most) in numbers.items():
        if value is not None:
            arguments += option(name.replace("_", "-"), check.whole(name, value, 0, most))
    plan: dict[str, Any] = json.loads(call("apst", "plan", "--format=json", *arguments))
    return plan


def import_trace(
    *files: StrPath,
    output: StrPath,
    hz: int | None = None,
    any_machine: bool = False,
    force: bool = False,
    progress: Progress = None,
) -> dict[str, Any]:
    """Make a recording of traces of trace-cmd, perf or tracefs, in the order of time.

    Args:
        files: `trace.dat`, `perf.data`, their text, or recordings that were not finished.
        output: the recording to write, a Parquet file.
        hz: ticks per second (CONFIG_HZ) of the machine, 1 to 6250, if its timer events do not show it.
        any_machine: make one recording even of different machines.
        force: replace the recording if it is there.
        progress: a count of events: by itself on a terminal and in a notebook; or a function of done and total. That is
            0, because no trace says how many events it has.

    Raises:
        Error: no trace, or a damaged one; the file exists or cannot be written.

    Returns:
        What `wakepath import --format json` prints: the events of each file by name.
    """
    if not files:
        raise ArgumentError("nothing to import: give traces")
    arguments = [
        *option("output", check.path("output", output)),
        *option("hz", None if hz is None else check.whole("hz", hz, 1, 6250)),
        *option("any-machine", check.flag("any_machine", any_machine)),
        *option("force", check.flag("force", force)),
    ]
    paths = [check.path("files", file) for file in files]
    words = ["import", "--format=json", *arguments, "--", *paths]
    summary: dict[str, Any] = json.loads(call(*words, progress=progress, parts="events"))
    return summary


def replay(
    trace: StrPath,
    policy: "Policy | Iterable[Policy]" = (),
    *,
    machine: "StrPath | Machine | None" = None,
    states: StrPath | None = None,
    kernel: Names = (),
    hz: int | None = None,
    ran: Policy | None = None,
    blocks: int | None = None,
    allow_programs: bool = False,
    progress: Progress = None,
) -> dict[str, Any]:
    """What other idle governors would have chosen on a recorded load, and what it would have cost.

    Args:
        trace: a recording of `wakepath record` or `import_trace`.
        policy: idle governors, and psd around them if wanted; menu and teo of Linux 6.1 and 6.12 if not given.
        machine: a machine whose idle states, latencies and power to take: a name of `Machine.names()`, a machine file,
            or a `Machine`.
        states: instead: a CSV file of idle states, with name, exit_latency_ns, target_residency_ns, polling, disabled.
        kernel: each governor as each of these kernels has it: a list, or one text with commas.
        hz: ticks per second (CONFIG_HZ), 1 to 6250, instead of what the recording or the machine says.
        ran: the governor that ran; what the recording says if not given.
        blocks: blocks of equal time, whose differences the intervals come from, 4 to 1000; 10 if not given.
        allow_programs: run governors of one's own (`c:`, `exec:`) also where this kernel cannot confine them.
        progress: a bar: by itself on a terminal and in a notebook; or a function of done and total.

    Raises:
        Error: no recording, or a policy that cannot act on one.
        ArgumentError: a number that is out of range, or arguments that contradict each other.
        TypeError: a value of another type.

    Returns:
        What `wakepath replay --format json` prints.
    """
    kernels = check.names("kernel", kernel)
    if machine is not None and states is not None:
        raise ArgumentError("machine and states both say which idle states there are: give one of them")
    arguments = [
        *option("policy", check.policies(policy)),
        *option("states", None if states is None else check.path("states", states)),
        *option("kernel", ",".join(kernels) or None),
        *option("hz", None if hz is None else check.whole("hz", hz, 1, 6250)),
        *option("ran", None if ran is None else check.policy(ran, "ran")),
        *option("blocks", None if blocks is None else check.whole("blocks", blocks, 4, 1000)),
        *option("allow-programs", check.flag("allow_programs", allow_programs)),
    ]
    with tempfile.TemporaryDirectory(prefix="wakepath-") as own:
        named = None if machine is None else _machine(machine, own)
        words = ["replay", "--format=json", *arguments, *option("machine", named), "--", check.path("trace", trace)]
        answer: dict[str, Any] = json.loads(call(*words, progress=progress, parts="percent"))
    return answer


def _machine(machine: "StrPath | Machine", folder: str) -> str:
    """The name or the file of a machine; one that has neither gets a file."""
    if not isinstance(machine, Machine):
        return check.path("machine", machine)
    name = machine._named()
    if name is not None:
        return name
    file = Path(folder, "machine.toml")
    file.write_text(machine.to_toml(), encoding="utf-8")
    return str(file)


def reproduce(part: str = "all", *, runs: int | None = None, jobs: int | None = None, progress: Progress = None) -> Any:
    """Simulate published experiments and set the result beside what was published.

    Args:
        part: which experiment; `wakepath reproduce --help` lists them.
        runs: runs per policy set, 1 to 100000.
        jobs: simulations at a time, 1 to 4096; one per core if not given.
        progress: a bar: by itself on a terminal and in a notebook; or a function of done and total.

    Raises:
        Error: no such experiment.
        ArgumentError: a number that is out of range.
        TypeError: a value of another type.

    Returns:
        What `wakepath reproduce --format json` prints.
    """
    arguments = [
        *option("runs", None if runs is None else check.whole("runs", runs, 1, 100_000)),
        *option("jobs", None if jobs is None else check.whole("jobs", jobs, 1, 4096)),
    ]
    part = check.path("part", part)
    return json.loads(call("reproduce", part, "--format=json", *arguments, progress=progress, parts="runs"))
