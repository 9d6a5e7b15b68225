"""What a sweep costs beyond its runs: prints the figures of docs/cluster.md.

    python python/benchmark.py [CELLS]

Runs the same study by threads of one process, and by a LocalCluster of as many worker processes, one of which is killed
twice, and compares the bytes.
"""

import hashlib
import os
import resource
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from distributed import Client, LocalCluster

import wakepath

JOB = "[reads]\nrw=randread\nbs=4k\ndirect=1\ntime_based\nruntime=1\nrate_iops={rate}\n"
RATES = (500, 1000, 2000, 4000, 8000)
GRID = [["menu", "teo"], ["", "psd"]]


def study(cells: int) -> wakepath.Study:
    """Build a study of so many cells."""
    workloads = [{"name": f"{rate}/s", "fio_job": JOB.format(rate=rate), "seconds": 1.0} for rate in RATES]
    repeats = max(1, cells // (len(RATES) * 4))
    return wakepath.Study(name="cells", machine="rk3399", workload=workloads, policy=GRID, repeats=repeats)


def digest(folder: Path) -> str:
    """Digest all files of a folder."""
    sums = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            sums.update(str(path.relative_to(folder)).encode() + path.read_bytes())
    return sums.hexdigest()


def swept(study: wakepath.Study, workers: int, into: Path, kills: int) -> float:
    """Sweep, kill a worker so often; return how long it took."""
    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster,  # type: ignore[no-untyped-call]
        Client(cluster) as client,  # type: ignore[no-untyped-call]
    ):
        killed: list[int] = []

        def tell(done: int, total: int) -> None:
            if len(killed) < kills and done > total * (len(killed) + 1) / (kills + 2):
                pids: dict[Any, int] = client.run(os.getpid, on_error="ignore")
                alive = [pid for pid in pids.values() if pid not in killed]
                if alive:
                    killed.append(alive[0])
                    os.kill(killed[-1], signal.SIGKILL)

        started = time.perf_counter()
        wakepath.sweep(study, client, into, progress=tell)
        return time.perf_counter() - started


def main() -> None:
    """Print the figures."""
    cells = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    workers = min(2, os.cpu_count() or 1)
    measured = study(cells)
    with tempfile.TemporaryDirectory() as folder:
        one, many, deaths = (Path(folder, name) for name in ("one", "many", "deaths"))
        started = time.perf_counter()
        measured.run(one, jobs=workers)
        alone = time.perf_counter() - started
        together = swept(measured, workers, many, 0)
        killed = swept(measured, workers, deaths, 2)
        same = digest(one) == digest(many) == digest(deaths)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    runs = len(measured)
    print(f"{runs} cells, {1e3 * alone * workers / runs:.1f} ms each, {workers} workers")
    print(f"one process, {workers} threads: {alone:.1f} s")
    print(f"LocalCluster, {workers} workers: {together:.1f} s, {alone / together:.2f} of the throughput")
    print(f"overhead of a cell: {1e3 * (together - alone) * workers / runs:.2f} ms")
    print(f"one worker killed twice: {killed:.1f} s, {alone / killed:.2f} of the throughput")
    print(f"same bytes: {same}")
    print(f"scheduler and client: {peak:.0f} MB at most")
    tiny = wakepath.Study(
        name="tiny",
        machine="rk3399",
        workload={"name": "w", "fio_job": "[j]\nrw=randread\ndirect=1\nnumber_ios=1\nsize=1m\n"},
        policy="menu",
        repeats=1,
    )
    times = []
    for _ in range(200):
        started = time.perf_counter()
        tiny.run()
        times.append(time.perf_counter() - started)
    print(f"a call that simulates one request: {1e6 * sorted(times)[100]:.0f} us")
    if not same:
        sys.exit("the results differ")


if __name__ == "__main__":
    main()
