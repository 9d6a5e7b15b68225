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
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from socket import create_connection
from sqlite3 import connect as connect_to_sqlite
from types import FrameType

from etcd_puts import CHECK_CLIENTS, put_at_fixed_rate
from measured_disk import COMMAND_SECONDS, Disk, RecipeError, Server, Window, run


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
    # What the program counts of its own background work, for each operation.
    background: dict[str, float] = field(default_factory=dict)


def first_match(pattern: str, text: str, what: str) -> str:
    found = re.search(pattern, text)
    if found is None:
        raise RecipeError(f"{what}: nothing in its output matches {pattern!r}")
    return found.group(1)


def as_user(user: str, arguments: list[str]) -> list[str]:
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *arguments]


def postgres(load: Load, checkpoint_seconds: int, before: list[list[str]], extent: list[str]) -> Outcome:
    """PostgreSQL with pgbench's simple-update, after a checkpoint.

    `extent` has pgbench's options for the window; `before` has those of runs between checkpoint and window.
    """
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
        "checkpoint_timeout": f"{checkpoint_seconds}s",
        "autovacuum": "off",
    }
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    server = Server(as_user("postgres", [str(programs / "postgres"), "-D", str(data), *options]), load.folder / "log")
    connection = ["-h", str(socket), "-U", "postgres"]
    pgbench = ["pgbench", *connection, "postgres"]
    try:
        server.wait_until(lambda: subprocess.run(["pg_isready", *connection], capture_output=True).returncode == 0)
        run([*pgbench, "--initialize", "--quiet", "--scale=20"])
        update = [*pgbench, "--builtin=simple-update", "--no-vacuum"]
        run([*update, "--client=1", "--transactions=2000"])
        run(["psql", *connection, "-c", "CHECKPOINT", "postgres"])
        update.append(f"--client={load.clients}")
        for extent_before in before:
            run([*update, *extent_before])
        window = Window(load.disk, server)
        position = ["psql", *connection, "-At", "-c", "select pg_current_wal_insert_lsn() - '0/0'", "postgres"]
        position_before = int(run(position))
        with window.measured():
            text = run([*update, *extent])
        appended = int(run(position)) - position_before
        done = int(first_match(r"transactions actually processed: (\d+)", text, "pgbench"))
        version = run([str(programs / "postgres"), "--version"]).strip()
    finally:
        server.stop(signal.SIGINT)
    return Outcome(window, done, version, appended)


def postgres_commit(load: Load) -> Outcome:
    """No checkpoint comes into the window."""
    return postgres(load, 3600, [], [f"--transactions={load.operations // load.clients}"])


# Seconds from checkpoint to checkpoint: the least that PostgreSQL takes.
CHECKPOINT_SECONDS = 30
# Transactions a second where the disk keeps up. How often a page changes between checkpoints depends on the rate.
CHECKPOINT_RATE = 58


def postgres_checkpoint(load: Load) -> Outcome:
    """Two checkpoints come into the window, each spread over nine tenths of the time until the next.

    Before the window there is a whole one, so that what the window begins with is what it ends with.
    """
    rate = f"--rate={CHECKPOINT_RATE}"
    before = [[rate, f"--time={CHECKPOINT_SECONDS + 5}"]]
    return postgres(load, CHECKPOINT_SECONDS, before, [rate, f"--time={2 * CHECKPOINT_SECONDS}"])


# Who runs a server that refuses to be root. Packages without a service, as mariadb-server-core, bring no user.
UNPRIVILEGED = "nobody"


def mariadb_commit(load: Load) -> Outcome:
    """MariaDB with sysbench: one updated row in a transaction. No dirty page is written in the window."""
    data, socket = load.disk.mount / "mariadb", load.disk.mount / "socket"
    shutil.chown(load.disk.mount, UNPRIVILEGED)
    run(["mariadb-install-db", "--no-defaults", f"--datadir={data}", f"--user={UNPRIVILEGED}", "--skip-test-db"])
    server = Server(
        [
            "mariadbd",
            "--no-defaults",
            f"--datadir={data}",
            f"--user={UNPRIVILEGED}",
            "--skip-networking",
            f"--socket={socket}",
            f"--pid-file={load.disk.mount / 'pid'}",
            "--innodb-buffer-pool-size=512M",
            "--innodb-log-file-size=512M",
        ],
        load.folder / "log",
    )
    client = ["mariadb", "--no-defaults", f"--socket={socket}", "--user=root"]
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
        server.wait_until(lambda: subprocess.run([*client, "-e", "select 1"], capture_output=True).returncode == 0)
        run([*client, "-e", "create database bench"])
        run([*bench, "prepare"])
        run([*bench, "--threads=1", "--events=2000", "run"])
        # The dirty pages of loading are written before the window begins.
        for percent in (0, 90):
            run([*client, "-e", f"set global innodb_max_dirty_pages_pct={percent}"])
            time.sleep(5)
        position = [*client, "-N", "-e", "show status like 'Innodb_lsn_current'"]
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


# Pages of SQLite's log before it is copied into the database, the default, and bytes of such a page with its header.
SQLITE_CHECKPOINT_PAGES = 1000
SQLITE_FRAME_BYTES = 4096 + 24


def sqlite_insert(load: Load) -> Outcome:
    """SQLite's shell: each insert is a transaction, with a write-ahead log that is synced each time."""
    database = load.disk.mount / "database"
    inserts = load.folder / "inserts.sql"
    insert = "insert into entries (number, text) values (random(), hex(randomblob(40)));\n"

    def run_inserts(number: int, checkpoint_pages: int) -> None:
        inserts.write_text(f"pragma wal_autocheckpoint = {checkpoint_pages};\n" + insert * number)
        run(["sqlite3", "-bail", "-cmd", "pragma synchronous = full", str(database), f".read {inserts}"])

    # The last connection that is closed removes the log: this one keeps it.
    keeper = connect_to_sqlite(database)
    try:
        keeper.execute("pragma journal_mode = wal").fetchall()
        keeper.execute("create table entries (id integer primary key, number integer, text text)")
        keeper.execute("create index by_number on entries (number)")
        # The log has its full length before the window.
        run_inserts(max(load.operations, SQLITE_CHECKPOINT_PAGES), SQLITE_CHECKPOINT_PAGES)
        window = Window(load.disk, None)
        with window.measured():
            run_inserts(load.operations, SQLITE_CHECKPOINT_PAGES)
        # Pages of the log, counted where nothing empties it.
        counted = min(load.operations, 500)
        keeper.execute("pragma wal_checkpoint(truncate)").fetchall()
        run_inserts(counted, 0)
        pages = int(keeper.execute("pragma wal_checkpoint(passive)").fetchone()[1])
    finally:
        keeper.close()
    appended = round(pages * SQLITE_FRAME_BYTES / counted * load.operations)
    version = first_match(r"([\d.]+)", run(["sqlite3", "--version"]), "sqlite3")
    return Outcome(window, load.operations, f"SQLite {version}", appended)


# Where etcd listens for clients.
ETCD_AT = "127.0.0.1:23790"


def etcd_put(load: Load) -> Outcome:
    """The check of etcd itself, 150 puts of 1 KiB a second for a minute. Other numbers of clients do as much."""
    data = load.disk.mount / "etcd"
    peer, client = "http://127.0.0.1:23800", f"http://{ETCD_AT}"
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
            if load.clients == CHECK_CLIENTS:
                subprocess.run([*control, "check", "perf", "--load=s"], capture_output=True, timeout=COMMAND_SECONDS)
            else:
                put_at_fixed_rate(ETCD_AT, load.clients)
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


# Keys of the store, bytes of a value, and bytes of a memory buffer. The buffer and the levels below it are a sixteenth
# of RocksDB's defaults, so that a minute has many compactions.
STORED_KEYS = 500_000
VALUE_BYTES = 400
BUFFER_BYTES = 4 << 20


def rocksdb_compaction(load: Load) -> Outcome:
    """RocksDB's db_bench: half of the operations read a key, half write one, while the store merges its files."""
    window = Window(load.disk, None)
    program = [
        "db_bench",
        f"--db={load.disk.mount / 'rocksdb'}",
        f"--num={STORED_KEYS}",
        f"--value_size={VALUE_BYTES}",
        "--compression_type=none",
        "--bloom_bits=10",
        f"--write_buffer_size={BUFFER_BYTES}",
        f"--target_file_size_base={BUFFER_BYTES}",
        f"--max_bytes_for_level_base={4 * BUFFER_BYTES}",
        # As for data that do not fit into memory: what is counted does not depend on the page cache.
        "--use_direct_reads=true",
        "--use_direct_io_for_flush_and_compaction=true",
        # The log is written in pieces of this size, in place of at some time after its file's end.
        f"--wal_bytes_per_sync={512 << 10}",
    ]
    mixed = [
        *program,
        "--benchmarks=readrandomwriterandom",
        "--use_existing_db=true",
        "--readwritepercent=50",
        f"--threads={load.clients}",
        "--statistics",
    ]
    run([*program, "--benchmarks=filluniquerandom,waitforcompaction"])
    each = load.operations // load.clients
    # The first writes fill the levels until merging keeps pace.
    run([*mixed, f"--reads={each // 4}", f"--writes={each // 4}"])
    with window.measured():
        text = run([*mixed, f"--reads={each}", f"--writes={each}"])
    done = int(first_match(r"readrandomwriterandom.* (\d+) operations", text, "db_bench"))
    version = first_match(r"(RocksDB:\s+version [\d.]+)", text, "db_bench")

    def ticker(name: str) -> int:
        return int(first_match(rf"{re.escape(name)} COUNT : (\d+)", text, "db_bench"))

    def sum_of_times(name: str) -> int:
        return int(first_match(rf"{re.escape(name)} P50 .* SUM : (\d+)", text, "db_bench"))

    def number_of_times(name: str) -> int:
        return int(first_match(rf"{re.escape(name)} P50 .* COUNT : (\d+) SUM", text, "db_bench"))

    background = {
        "flushed_bytes": ticker("rocksdb.flush.write.bytes"),
        "merged_bytes": ticker("rocksdb.compact.write.bytes"),
        "bytes_to_merge": ticker("rocksdb.compact.read.bytes"),
        "flushes_of_buffers": number_of_times("rocksdb.db.flush.micros"),
        "compactions": number_of_times("rocksdb.compaction.times.micros"),
        "compaction_cpu_us": sum_of_times("rocksdb.compaction.times.cpu_micros"),
    }
    return Outcome(
        window,
        done,
        re.sub(r"\s+", " ", version),
        ticker("rocksdb.wal.bytes"),
        {name: round(total / done, 6) for name, total in background.items()},
    )


# Bytes of a file that nginx serves, and where nginx listens.
SERVED_BYTES = 64 << 10
SERVED_AT = "127.0.0.1:18080"

# nginx as installed, but for what would write outside of the folder.
NGINX_SETTINGS = """
daemon off;
user www-data;
worker_processes 2;
pid {folder}/nginx.pid;
events {{ }}
http {{
    sendfile on;
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen {address};
        root {files};
    }}
}}
"""

# Asks for one file after the other, each once, and ends wrk with the last reply: wrk itself ends after a time.
NGINX_CLIENT = """
local asked, answered = 0, 0

function request()
    asked = asked + 1
    return wrk.format("GET", "/" .. asked)
end

function response(status)
    if status ~= 200 then
        io.stderr:write("status " .. status .. "\\n")
        os.exit(1)
    end
    answered = answered + 1
    if answered == {operations} then
        print("all answered")
        os.exit(0)
    end
end
"""


def nginx_static(load: Load) -> Outcome:
    """A web server, nginx, with wrk: of the files that wrk asks for, every second one is in the page cache."""
    files = load.disk.mount / "files"
    files.mkdir()
    # wrk asks for some more files than get their reply.
    names = [files / str(number) for number in range(1, load.operations + load.clients + 2)]
    content = os.urandom(SERVED_BYTES)
    for name in names:
        name.write_bytes(content)
    run(["sync", "-f", str(files)])
    for name in names[::2]:
        drop_from_page_cache(name)
    settings, client = load.folder / "nginx.conf", load.folder / "client.lua"
    settings.write_text(NGINX_SETTINGS.format(folder=load.folder, address=SERVED_AT, files=files))
    client.write_text(NGINX_CLIENT.replace("{operations}", str(load.operations)))
    server = Server(["nginx", "-p", str(load.folder), "-c", str(settings)], load.folder / "log")
    try:
        server.wait_until(lambda: listens(SERVED_AT))
        window = Window(load.disk, server)
        with window.measured():
            wrk = ["wrk", "--threads=1", f"--connections={load.clients}", "--duration=600s", f"--script={client}"]
            first_match("(all answered)", run([*wrk, f"http://{SERVED_AT}/"]), "wrk")
        version = first_match(r"nginx version: (\S+)", run(["nginx", "-v"]), "nginx")
    finally:
        server.stop()
    return Outcome(window, load.operations, version, 0)


def drop_from_page_cache(name: Path) -> None:
    with name.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def listens(address: str) -> bool:
    host, _, port = address.partition(":")
    try:
        create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True


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
    "postgres-commit": Recipe(postgres_commit, 8, 8_000, "PostgreSQL, a transaction of pgbench's simple-update"),
    "postgres-checkpoint": Recipe(postgres_checkpoint, 1, 0, "the same beside a checkpoint each 30 s"),
    "mariadb-commit": Recipe(mariadb_commit, 8, 8_000, "MariaDB, a transaction of sysbench that updates a row"),
    "sqlite-insert": Recipe(sqlite_insert, 1, 8_000, "SQLite, a transaction that inserts a row, in WAL mode"),
    "etcd-put": Recipe(etcd_put, CHECK_CLIENTS, 0, "etcd, a put of etcdctl check perf --load=s"),
    "rocksdb-fillsync": Recipe(rocksdb_fillsync, 1, 8_000, "RocksDB, a put of db_bench fillsync"),
    "rocksdb-compaction": Recipe(rocksdb_compaction, 4, 400_000, "RocksDB, a get or put of db_bench beside compaction"),
    "nginx-static": Recipe(nginx_static, 8, 16_000, "nginx, a GET of wrk for 64 KiB, of which half are in memory"),
    "redis-everysec": Recipe(redis_everysec, 8, 1_000_000, "Redis, a SET with appendfsync everysec"),
}


def measure(name: str, clients: int | None, operations: int | None) -> tuple[Measured, dict[str, float]]:
    """Figures of a recipe, and what its program counts of its background work."""
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
        return figures(name, load.clients, outcome), outcome.background
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
        # Five decimals would leave one digit of a flush each second beside 38,000 operations.
        return float(f"{total / operations:.6g}")

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
        measured, background = measure(arguments.recipe, arguments.clients, arguments.operations)
    except RecipeError as error:
        print(f"recipes: {arguments.recipe}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    print(json.dumps(asdict(measured) | background, indent=2))
    if arguments.csv:
        add_to_csv(arguments.csv, measured)
    return 0


if __name__ == "__main__":
    sys.exit(main())
