"""A disk for one program, and what the program asks of it in a window of time.

An ext4 file system on a loop device has nobody else's requests. The window counts them, and the program's CPU time.
"""

import json
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

SECTOR = 512
IMAGE_GIB = 6
# Programs start within this time, or the measurement fails.
START_SECONDS = 60
# The tracer is attached after this time.
TRACER_SECONDS = 5
COMMAND_SECONDS = 900


class RecipeError(Exception):
    """What stopped a measurement, as one line."""


# Counts requests as the loop device gets them, and their times. The counters in sysfs do not do: there, an empty
# request that asks for a flush is a write.
TRACER = """
tracepoint:block:block_rq_issue /args->dev == $1/ {
    $kind = args->nr_sector == 0 ? 2 : (strncmp(args->rwbs, "R", 1) == 0 ? 0 : 1);
    @calls[$kind] = count();
    @sectors[$kind] = sum(args->nr_sector);
    @kind[args->sector] = $kind + 1;
    @begun[args->sector] = nsecs;
}
tracepoint:block:block_rq_complete /args->dev == $1 && @kind[args->sector] > 0/ {
    @ns[@kind[args->sector] - 1] = sum(nsecs - @begun[args->sector]);
    delete(@kind[args->sector]);
    delete(@begun[args->sector]);
}
END { clear(@kind); clear(@begun); }
"""


@dataclass(frozen=True)
class DiskCalls:
    """Requests of one kind: their number, bytes, and time in ns."""

    calls: int = 0
    bytes: int = 0
    time_ns: int = 0

    def mean_us(self) -> float:
        return round(self.time_ns / 1000 / max(self.calls, 1), 1)


def run(arguments: list[str], folder: Path | None = None) -> str:
    """Runs a command to its end and returns what it printed."""
    try:
        done = subprocess.run(
            arguments, cwd=folder, capture_output=True, text=True, timeout=COMMAND_SECONDS, stdin=subprocess.DEVNULL
        )
    except FileNotFoundError as error:
        raise RecipeError(f"{arguments[0]}: not installed") from error
    except subprocess.TimeoutExpired as error:
        raise RecipeError(f"{arguments[0]}: not done after {COMMAND_SECONDS} s") from error
    if done.returncode != 0:
        end = (done.stderr or done.stdout).strip().splitlines()
        raise RecipeError(f"{arguments[0]}: exit code {done.returncode}: {end[-1] if end else 'no message'}")
    return done.stdout + done.stderr


class Disk:
    """An ext4 file system on a loop device."""

    def __init__(self, folder: Path) -> None:
        self.image = folder / "disk.img"
        self.mount = folder / "disk"
        self.device = ""

    def set_up(self) -> None:
        with self.image.open("wb") as image:
            image.truncate(IMAGE_GIB << 30)
        self.mount.mkdir()
        features = "lazy_itable_init=0,lazy_journal_init=0"
        run(["mkfs.ext4", "-q", "-F", "-E", features, str(self.image)])
        self.device = run(["losetup", "--find", "--show", "--direct-io=on", str(self.image)]).strip()
        run(["mount", "-o", "noatime", self.device, str(self.mount)])

    def take_down(self) -> None:
        if os.path.ismount(self.mount):
            for _ in range(20):
                if subprocess.run(["umount", str(self.mount)], capture_output=True).returncode == 0:
                    break
                time.sleep(0.5)
        if self.device:
            subprocess.run(["losetup", "--detach", self.device], capture_output=True)

    def flush_ms(self) -> int:
        """Time of all flushes so far in ms."""
        numbers = Path("/sys/block", Path(self.device).name, "stat").read_text().split()
        if len(numbers) < 17:
            raise RecipeError(f"{self.device}: this kernel counts no flushes")
        return int(numbers[16])


def stat_fields(process: int) -> list[str]:
    """Fields of a process in /proc from its state on; none if the process has ended."""
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return []
    return text.rpartition(")")[2].split()


def process_with_descendants(first: int) -> list[int]:
    """A process, its children, their children, and so on."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        if stat := stat_fields(int(folder.name)):
            children.setdefault(int(stat[1]), []).append(int(folder.name))
    found = [first]
    for process in found:
        found.extend(children.get(process, []))
    return found


class Server:
    """A server of one's own, in a session of its own."""

    def __init__(self, arguments: list[str], log: Path) -> None:
        with log.open("w") as output:
            try:
                self.process = subprocess.Popen(
                    arguments, stdout=output, stderr=output, stdin=subprocess.DEVNULL, start_new_session=True
                )
            except FileNotFoundError as error:
                raise RecipeError(f"{arguments[0]}: not installed") from error
        self.name = Path(arguments[0]).name
        self.log = log

    def wait_until(self, answers: Callable[[], bool]) -> None:
        end = time.monotonic() + START_SECONDS
        while not answers():
            if self.process.poll() is not None or time.monotonic() > end:
                lines = self.log.read_text(errors="replace").strip().splitlines()
                raise RecipeError(f"{self.name} does not answer: {lines[-1] if lines else 'no message'}")
            time.sleep(0.2)

    def cpu_seconds(self) -> float:
        """CPU time of the server's processes, with those of its children that have ended."""
        stats = [stat_fields(process) for process in process_with_descendants(self.process.pid)]
        ticks = sum(int(ticks) for stat in stats for ticks in stat[11:15])
        return ticks / os.sysconf("SC_CLK_TCK")

    def stop(self, sent: signal.Signals = signal.SIGTERM) -> None:
        if self.process.poll() is None:
            self.process.send_signal(sent)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait(10)


@dataclass
class Window:
    """What is measured while a program does its operations."""

    disk: Disk
    server: Server | None
    reads: DiskCalls = DiskCalls()
    writes: DiskCalls = DiskCalls()
    flushes: DiskCalls = DiskCalls()
    seconds: float = 0.0
    cpu: float = 0.0

    @contextmanager
    def measured(self) -> Iterator[None]:
        run(["sync", "-f", str(self.disk.mount)])
        tracer = self.start_tracer()
        try:
            cpu, flush_ms = self.cpu_seconds(), self.disk.flush_ms()
            began = time.monotonic()
            yield
            self.seconds = time.monotonic() - began
            self.cpu = self.cpu_seconds() - cpu
            flush_ms = self.disk.flush_ms() - flush_ms
            tracer.send_signal(signal.SIGINT)
            printed = tracer.communicate(timeout=START_SECONDS)[0]
        except subprocess.TimeoutExpired as error:
            raise RecipeError("bpftrace does not end") from error
        finally:
            if tracer.poll() is None:
                tracer.kill()
                tracer.wait(10)
        self.reads, self.writes, flushes = calls_by_kind(printed)
        # The block layer begins and ends a flush under another request's name.
        self.flushes = replace(flushes, time_ns=flush_ms * 1_000_000)

    def cpu_seconds(self) -> float:
        """CPU time of the server so far; without one, of the commands that have ended."""
        if self.server:
            return self.server.cpu_seconds()
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        return ended.ru_utime + ended.ru_stime

    def start_tracer(self) -> subprocess.Popen[str]:
        device = Path(self.disk.device).stat().st_rdev
        # As tracepoints have device numbers: 12 bits of major number, 20 of minor number.
        number = os.major(device) << 20 | os.minor(device)
        program = ["bpftrace", "-q", "-f", "json", "-e", TRACER, str(number)]
        try:
            tracer = subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        except FileNotFoundError as error:
            raise RecipeError("bpftrace: not installed") from error
        time.sleep(TRACER_SECONDS)
        if tracer.poll() is not None:
            raise RecipeError("bpftrace cannot trace requests here")
        return tracer


def calls_by_kind(printed: str) -> list[DiskCalls]:
    """Reads, writes and flushes from what the tracer printed at its end."""
    maps: dict[str, dict[str, int]] = {}
    for line in printed.splitlines():
        entry = json.loads(line) if line.startswith("{") else {}
        if entry.get("type") == "map":
            maps.update(entry["data"])
    names = ("@calls", "@sectors", "@ns")
    calls, sectors, times = ([maps.get(name, {}).get(kind, 0) for kind in "012"] for name in names)
    return [DiskCalls(*each) for each in zip(calls, (number * SECTOR for number in sectors), times, strict=True)]
