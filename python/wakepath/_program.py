"""Commands of the program `wakepath`, which is in the same wheel."""

import json
import os
import signal
import subprocess
import sysconfig
import tempfile
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, TextIO

from ._engine import Error
from ._progress import Progress, shown
from ._results import no_text

_NAME = "wakepath"


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
        raise Error(_failure(said) or f"{_NAME} {arguments[0]} ended with code {process.returncode}")
    for line in said.splitlines():
        text = line.removeprefix(f"{_NAME}: ").removeprefix("warning: ")
        warnings.warn(text, WakepathWarning, stacklevel=3)
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
    return text


def option(name: str, value: object) -> list[str]:
    """An option; nothing without a value, one for each of several."""
    if value is None or value is False:
        return []
    if value is True:
        return [f"--{name}"]
    if isinstance(value, (list, tuple)):
        return [word for one in value for word in option(name, one)]
    return [f"--{name}={value}"]


def apst_plan(
    drive: str | None = None,
    *,
    id_ctrl: str | os.PathLike[str] | None = None,
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
        drive: a drive of the library, by any part of its name that no other drive has.
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
        Error: no such drive, or a value out of range.

    Returns:
        What `wakepath apst plan --format json` prints.
    """
    for key, text in (("drive", drive), ("firmware", firmware), ("rule", rule)):
        no_text(key, text)
    arguments = [
        *option("drive", drive),
        *option("id-ctrl", None if id_ctrl is None else os.fspath(id_ctrl)),
        *option("firmware", firmware),
        *option("rule", rule),
        *option("primary-timeout-ms", primary_timeout_ms),
        *option("secondary-timeout-ms", secondary_timeout_ms),
        *option("primary-tolerance-us", primary_tolerance_us),
        *option("secondary-tolerance-us", secondary_tolerance_us),
        *option("max-latency-us", max_latency_us),
        *option("no-deepest", no_deepest),
    ]
    plan: dict[str, Any] = json.loads(call("apst", "plan", "--format=json", *arguments))
    return plan


def import_trace(
    *files: str | os.PathLike[str],
    output: str | os.PathLike[str],
    hz: int | None = None,
    any_machine: bool = False,
    force: bool = False,
    progress: Progress = None,
) -> dict[str, Any]:
    """Make a recording of traces of trace-cmd, perf or tracefs, in the order of time.

    Args:
        files: `trace.dat`, `perf.data`, their text, or recordings that were not finished.
        output: the recording to write, a Parquet file.
        hz: ticks per second (CONFIG_HZ) of the machine, if its timer events do not show it.
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
        raise ValueError("nothing to import: give traces")
    arguments = [
        *option("output", os.fspath(output)),
        *option("hz", hz),
        *option("any-machine", any_machine),
        *option("force", force),
    ]
    paths = [os.fspath(file) for file in files]
    words = ["import", "--format=json", *arguments, "--", *paths]
    summary: dict[str, Any] = json.loads(call(*words, progress=progress, parts="events"))
    return summary


def replay(
    trace: str | os.PathLike[str],
    policy: "object | Sequence[object]" = (),
    *,
    machine: str | None = None,
    kernel: str | Sequence[str] = (),
    hz: int | None = None,
    ran: str | None = None,
    progress: Progress = None,
) -> dict[str, Any]:
    """What other idle governors would have chosen on a recorded load, and what it would have cost.

    Args:
        trace: a recording of `wakepath record` or `import_trace`.
        policy: idle governors, and psd around them if wanted; menu and teo of Linux 6.1 and 6.12 if not given.
        machine: a machine whose idle states, latencies and power to take.
        kernel: each governor as each of these kernels has it.
        hz: ticks per second (CONFIG_HZ), instead of what the recording or the machine says.
        ran: the governor that ran; what the recording says if not given.
        progress: a bar: by itself on a terminal and in a notebook; or a function of done and total.

    Raises:
        Error: no recording, or a policy that cannot act on one.

    Returns:
        What `wakepath replay --format json` prints.
    """
    no_text("machine", machine)
    no_text("ran", ran)
    policies = list(policy) if isinstance(policy, (list, tuple)) else [policy]
    kernels = [kernel] if isinstance(kernel, str) else list(kernel)
    arguments = [
        *option("policy", [str(one) for one in policies]),
        *option("machine", machine),
        *option("kernel", ",".join(kernels) or None),
        *option("hz", hz),
        *option("ran", ran),
    ]
    words = ["replay", "--format=json", *arguments, "--", os.fspath(trace)]
    answer: dict[str, Any] = json.loads(call(*words, progress=progress, parts="percent"))
    return answer


def reproduce(part: str = "all", *, runs: int | None = None, jobs: int | None = None, progress: Progress = None) -> Any:
    """Simulate published experiments and set the result beside what was published.

    Args:
        part: which experiment; `wakepath reproduce --help` lists them.
        runs: runs per policy set.
        jobs: simulations at a time, 1 to 4096; one per core if not given.
        progress: a bar: by itself on a terminal and in a notebook; or a function of done and total.

    Raises:
        Error: no such experiment.

    Returns:
        What `wakepath reproduce --format json` prints.
    """
    arguments = [*option("runs", runs), *option("jobs", jobs)]
    return json.loads(call("reproduce", part, "--format=json", *arguments, progress=progress, parts="runs"))
