#!/usr/bin/env python3
"""Counts what real programs ask of a disk for each operation: reads, writes, bytes and flushes.

A program of Debian runs on an ext4 file system of its own, on a loop device, so that the device's counters have
nobody else's requests. Everything that was started or mounted is ended and removed again, also after an error. Needs
root and bpftrace.

docs/background/data/recipes.csv has what was measured, docs/guides/recipes.md says what for.

Usage: scripts/recipes.py RECIPE [--clients N] [--operations N] [--csv FILE]
       scripts/recipes.py --list
"""

import argparse
import csv
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from types import FrameType

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


@dataclass(frozen=True)
class Measured:
    """Figures of one measurement; those of the disk are means for an operation."""

    recipe: str
    clients: int
    program: str
    kernel: str
    operations: int
    operations_per_s: float
    cpu_us: float
    appended_bytes: float
    reads: float
    read_bytes: float
    writes: float
    written_bytes: float
    flushes: float
    write_us: float
    flush_us: float


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


@dataclass(frozen=True)
class Load:
    """What a recipe is asked for."""

    disk: Disk
    folder: Path
    clients: int
    operations: int


@dataclass(frozen=True)
class Outcome:
    """A window, the operations that were done in it, and the program's version."""

    window: Window
    operations: int
    program: str
    # Bytes that the program appended to its log, by its own counter.
    appended_bytes: int


def first_match(pattern: str, text: str, what: str) -> str:
    found = re.search(pattern, text)
    if found is None:
        raise RecipeError(f"{what}: nothing in its output matches {pattern!r}")
    return found.group(1)


def as_user(user: str, arguments: list[str]) -> list[str]:
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *arguments]


def postgres(load: Load, script: str) -> Outcome:
    """PostgreSQL with pgbench. No checkpoint comes into the window but the one before."""
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if not versions:
        raise RecipeError("postgres: not installed (postgresql)")
    programs = versions[-1].parent
    data, socket = load.disk.mount / "postgres", load.disk.mount / "socket"
    for folder in (data, socket):
        folder.mkdir()
        shutil.chown(folder, "postgres", "postgres")
    run(as_user("postgres", [str(programs / "initdb"), "-D", str(data), "-A", "trust", "--no-sync"]))
    settings = {
        "listen_addresses": "",
        "unix_socket_directories": str(socket),
        "shared_buffers": "1GB",
        "max_wal_size": "4GB",
        "checkpoint_timeout": "1h",
        "autovacuum": "off",
    }
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    server = Server(as_user("postgres", [str(programs / "postgres"), "-D", str(data), *options]), load.folder / "log")
    connection = ["-h", str(socket), "-U", "postgres"]
    pgbench = ["pgbench", *connection, "postgres"]
    try:
        server.wait_until(lambda: subprocess.run(["pg_isready", *connection], capture_output=True).returncode == 0)
        run([*pgbench, "--initialize", "--quiet", "--scale=20"])
        warm = [*pgbench, f"--builtin={script}", "--no-vacuum", "--client=1"]
        run([*warm, "--transactions=2000"])
        run(["psql", *connection, "-c", "CHECKPOINT", "postgres"])
        window = Window(load.disk, server)
        each = load.operations // load.clients
        position = ["psql", *connection, "-At", "-c", "select pg_current_wal_insert_lsn() - '0/0'", "postgres"]
        before = int(run(position))
        with window.measured():
            run([*pgbench, f"--builtin={script}", "--no-vacuum", f"--client={load.clients}", f"--transactions={each}"])
        appended = int(run(position)) - before
        version = run([str(programs / "postgres"), "--version"]).strip()
    finally:
        server.stop(signal.SIGINT)
    return Outcome(window, each * load.clients, version, appended)


def postgres_commit(load: Load) -> Outcome:
    return postgres(load, "simple-update")


def mariadb_commit(load: Load) -> Outcome:
    """MariaDB with sysbench: one updated row in a transaction. No dirty page is written in the window."""
    data, socket = load.disk.mount / "mariadb", load.disk.mount / "socket"
    shutil.chown(load.disk.mount, "mysql")
    run(["mariadb-install-db", "--no-defaults", f"--datadir={data}", "--user=mysql", "--skip-test-db"])
    server = Server(
        [
            "mariadbd",
            "--no-defaults",
            f"--datadir={data}",
            "--user=mysql",
            "--skip-networking",
            f"--socket={socket}",
            f"--pid-file={load.disk.mount / 'pid'}",
            "--innodb-buffer-pool-size=512M",
            "--innodb-log-file-size=512M",
        ],
        load.folder / "log",
    )
    connection = ["--no-defaults", f"--socket={socket}", "--user=root"]
    admin = ["mariadb-admin", *connection]
    bench = [
        "sysbench",
        "oltp_update_non_index",
        "--db-driver=mysql",
        f"--mysql-socket={socket}",
        "--mysql-user=root",
        "--mysql-db=bench",
        "--tables=1",
        "--table-size=100000",
        "--time=0",
    ]
    try:
        server.wait_until(lambda: subprocess.run([*admin, "ping"], capture_output=True).returncode == 0)
        run([*admin, "create", "bench"])
        run([*bench, "prepare"])
        run([*bench, "--threads=1", "--events=2000", "run"])
        # The dirty pages of loading are written before the window begins.
        for percent in (0, 90):
            run(["mariadb", *connection, "-e", f"set global innodb_max_dirty_pages_pct={percent}"])
            time.sleep(5)
        position = ["mariadb", *connection, "-N", "-e", "show status like 'Innodb_lsn_current'"]
        window = Window(load.disk, server)
        before = int(run(position).split()[1])
        with window.measured():
            text = run([*bench, f"--threads={load.clients}", f"--events={load.operations}", "run"])
        appended = int(run(position).split()[1]) - before
        done = int(first_match(r"transactions:\s+(\d+)", text, "sysbench"))
        version = run(["mariadbd", "--version"]).strip()
    finally:
        server.stop()
    return Outcome(window, done, version, appended)


def etcd_put(load: Load) -> Outcome:
    """The check of etcd itself: etcdctl puts 150 values of 1 KiB a second for a minute."""
    data = load.disk.mount / "etcd"
    peer, client = "http://127.0.0.1:23800", "http://127.0.0.1:23790"
    server = Server(
        [
            "etcd",
            f"--data-dir={data}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            "--log-level=error",
        ],
        load.folder / "log",
    )
    control = ["etcdctl", f"--endpoints={client}"]
    try:
        server.wait_until(lambda: subprocess.run([*control, "endpoint", "health"], capture_output=True).returncode == 0)
        window = Window(load.disk, server)
        revision_before = etcd_revision(control)
        with window.measured():
            subprocess.run([*control, "check", "perf", "--load=s"], capture_output=True, timeout=COMMAND_SECONDS)
        done = etcd_revision(control) - revision_before
        version = run(["etcd", "--version"]).splitlines()[0]
    finally:
        server.stop()
    return Outcome(window, done, version, 0)


def etcd_revision(control: list[str]) -> int:
    return int(first_match(r'"revision":(\d+)', run([*control, "get", "x", "-w", "json"]), "etcdctl"))


def rocksdb_fillsync(load: Load) -> Outcome:
    """RocksDB's db_bench: each put is synced."""
    window = Window(load.disk, None)
    arguments = [
        "db_bench",
        "--benchmarks=fillsync",
        f"--db={load.disk.mount / 'rocksdb'}",
        f"--threads={load.clients}",
        f"--num={load.operations // load.clients}",
        "--sync=1",
        "--value_size=100",
        "--compression_type=none",
        "--statistics",
    ]
    with window.measured():
        text = run(arguments)
    done = int(first_match(r"fillsync.* (\d+) operations", text, "db_bench"))
    version = first_match(r"(RocksDB:\s+version [\d.]+)", text, "db_bench")
    appended = int(first_match(r"rocksdb.wal.bytes COUNT : (\d+)", text, "db_bench"))
    return Outcome(window, done, re.sub(r"\s+", " ", version), appended)


def redis_everysec(load: Load) -> Outcome:
    """Redis with an append-only file that is synced each second."""
    server = Server(
        [
            "redis-server",
            "--port",
            "0",
            "--unixsocket",
            str(load.folder / "redis"),
            "--dir",
            str(load.disk.mount),
            "--save",
            "",
            "--appendonly",
            "yes",
            "--appendfsync",
            "everysec",
            "--auto-aof-rewrite-percentage",
            "0",
        ],
        load.folder / "log",
    )
    control = ["redis-cli", "-s", str(load.folder / "redis")]
    try:
        server.wait_until(lambda: subprocess.run([*control, "ping"], capture_output=True).returncode == 0)
        window = Window(load.disk, server)
        with window.measured():
            run(
                [
                    "redis-benchmark",
                    "-s",
                    str(load.folder / "redis"),
                    "-t",
                    "set",
                    "-d",
                    "100",
                    "-r",
                    "100000",
                    "-c",
                    str(load.clients),
                    "-n",
                    str(load.operations),
                    "-q",
                ]
            )
        appended = int(first_match(r"aof_current_size:(\d+)", run([*control, "info", "persistence"]), "redis-cli"))
        version = first_match(r"v=([\d.]+)", run(["redis-server", "--version"]), "redis-server")
    finally:
        server.stop()
    return Outcome(window, load.operations, f"Redis {version}", appended)


@dataclass(frozen=True)
class Recipe:
    """A program and a load."""

    measure: Callable[[Load], Outcome]
    clients: int
    operations: int
    title: str


RECIPES = {
    "postgres-commit": Recipe(postgres_commit, 8, 8_000, "PostgreSQL, pgbench's simple-update"),
    "mariadb-commit": Recipe(mariadb_commit, 8, 8_000, "MariaDB, one updated row in a transaction"),
    "etcd-put": Recipe(etcd_put, 50, 0, "etcd, etcdctl check perf --load=s"),
    "rocksdb-fillsync": Recipe(rocksdb_fillsync, 1, 8_000, "RocksDB, db_bench fillsync"),
    "redis-everysec": Recipe(redis_everysec, 8, 1_000_000, "Redis, appendfsync everysec"),
}


def measure(name: str, clients: int | None, operations: int | None) -> Measured:
    recipe = RECIPES[name]
    base = Path("/var/tmp/wakepath-recipes")
    base.mkdir(exist_ok=True)
    base.chmod(0o755)
    folder = Path(tempfile.mkdtemp(dir=base))
    folder.chmod(0o755)
    disk = Disk(folder)
    try:
        disk.set_up()
        load = Load(disk, folder, clients or recipe.clients, operations or recipe.operations)
        outcome = recipe.measure(load)
        return figures(name, load.clients, outcome)
    finally:
        disk.take_down()
        shutil.rmtree(folder, ignore_errors=True)
        if not any(base.iterdir()):
            base.rmdir()


def figures(name: str, clients: int, outcome: Outcome) -> Measured:
    window, operations = outcome.window, outcome.operations
    if operations <= 0:
        raise RecipeError(f"{name}: no operation was done")

    def for_each(total: float) -> float:
        return round(total / operations, 5)

    return Measured(
        recipe=name,
        clients=clients,
        program=outcome.program,
        kernel=os.uname().release.split("-")[0],
        operations=operations,
        operations_per_s=round(operations / window.seconds, 1),
        cpu_us=round(window.cpu / operations * 1e6, 1),
        appended_bytes=for_each(outcome.appended_bytes),
        reads=for_each(window.reads.calls),
        read_bytes=for_each(window.reads.bytes),
        writes=for_each(window.writes.calls),
        written_bytes=for_each(window.writes.bytes),
        flushes=for_each(window.flushes.calls),
        write_us=window.writes.mean_us(),
        flush_us=window.flushes.mean_us(),
    )


def add_to_csv(path: Path, measured: Measured) -> None:
    """Replaces the row of the same recipe and clients, or adds one."""
    names = [field.name for field in fields(Measured)]
    rows: list[dict[str, str]] = []
    if path.exists():
        with path.open(newline="") as text:
            rows = list(csv.DictReader(text))
    new = {name: str(value) for name, value in asdict(measured).items()}
    kept = [row for row in rows if (row["recipe"], row["clients"]) != (new["recipe"], new["clients"])]
    ordered = sorted([*kept, new], key=lambda row: (list(RECIPES).index(row["recipe"]), int(row["clients"])))
    with path.open("w", newline="") as text:
        writer = csv.DictWriter(text, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(ordered)


def stop_on_signal(number: int, _frame: FrameType | None) -> None:
    raise RecipeError(f"stopped by signal {number}")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("recipe", nargs="?", choices=list(RECIPES))
    parser.add_argument("--list", action="store_true", help="list the recipes")
    parser.add_argument("--clients", type=int, help="clients at once")
    parser.add_argument("--operations", type=int, help="operations of all clients together")
    parser.add_argument("--csv", type=Path, help="also add the figures to this file")
    arguments = parser.parse_args()
    if arguments.list or arguments.recipe is None:
        for name, recipe in RECIPES.items():
            print(f"{name:20} {recipe.title}")
        return 0
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop_on_signal)
    try:
        if os.geteuid() != 0:
            raise RecipeError("needs root, for a loop device")
        measured = measure(arguments.recipe, arguments.clients, arguments.operations)
    except RecipeError as error:
        print(f"recipes: {arguments.recipe}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    print(json.dumps(asdict(measured), indent=2))
    if arguments.csv:
        add_to_csv(arguments.csv, measured)
    return 0


if __name__ == "__main__":
    sys.exit(main())
