"""What a sweep and a call cost beyond their runs: prints the figures of docs/guides/cluster.md beside their limits.

    python python/scale/benchmark.py [CELLS]

Needs the release wheel with Dask. A study of cells that take 20 ms each is run by the threads of one process, as
`wakepath study run --jobs 2` does, and by a LocalCluster of as many worker processes: first in turns, a part at a time;
then all CELLS (10,000 if not given), with one worker killed twice. It fails if a byte differs or a limit is missed.
"""

import hashlib
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, TypeVar

from distributed import Client, LocalCluster

import wakepath
from wakepath import _pool, _sweep

T = TypeVar("T")

JOB = "[reads]\nrw=randread\nbs=4k\ndirect=1\ntime_based\nruntime=1\nrate_iops={rate}\n"
RATES = (500, 1000, 2000, 4000, 8000)
GRID = [["menu", "teo"], ["", "psd"]]
CELL_SECONDS = 0.020
WORKERS = min(2, os.cpu_count() or 1)
TURNS = 5


class Took(NamedTuple):
    """What running a study took."""

    seconds: float
    """Elapsed, without the start of the workers."""
    cpu_seconds: float
    """Of this process: of all that is done, or of client and scheduler."""
    workers_cpu_seconds: float
    """Of worker processes, if they live until the end."""
    peak_mb: float
    """Of this process."""


def study(cells: int, seconds: float = 1.0) -> wakepath.Study:
    """Build a study of at least so many cells, each of which simulates so many seconds."""
    workloads = [{"name": f"{rate}/s", "fio_job": JOB.format(rate=rate), "seconds": seconds} for rate in RATES]
    repeats = -(-cells // (len(RATES) * 4))
    return wakepath.Study(name="cells", machine="rk3399", workload=workloads, policy=GRID, repeats=repeats)


def timed(work: Callable[[], object]) -> Took:
    """Do the work."""
    started, cpu = time.perf_counter(), time.process_time()
    work()
    took = time.perf_counter() - started, time.process_time() - cpu, 0.0
    status = Path("/proc/self/status").read_text().splitlines()
    [peak] = [int(line.split()[1]) for line in status if line.startswith("VmHWM:")]
    return Took(*took, peak / 1024)


def threads(cells: int, seconds: float, into: str) -> Took:
    """Run the study by threads of one process."""
    measured = study(cells, seconds)
    return timed(lambda: measured.run(into, jobs=WORKERS))


def sweep(cells: int, seconds: float, into: str, kills: int, batch_seconds: float = _sweep.BATCH_SECONDS) -> Took:
    """Sweep it, and kill a worker so often."""
    measured = study(cells, seconds)
    _sweep.BATCH_SECONDS = batch_seconds
    with (
        LocalCluster(n_workers=WORKERS, threads_per_worker=1, dashboard_address=None) as cluster,  # type: ignore[no-untyped-call]
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

        client.run(_pool.build)  # has the package loaded, as a cluster that is not new has
        before = client.run(time.process_time)
        took = timed(lambda: wakepath.sweep(measured, client, into, progress=tell))
        after = client.run(time.process_time)
    assert len(killed) == kills, "no worker was killed"
    return took._replace(workers_cpu_seconds=sum(after.values()) - sum(before.values()))


def apart(function: Callable[..., T], *arguments: object) -> T:
    """Call it in a process of its own, whose memory has seen nothing else."""
    with ProcessPoolExecutor(1, get_context("spawn")) as executor:
        return executor.submit(function, *arguments).result()


def digest(folder: str) -> str:
    """Digest all files of a folder."""
    sums = hashlib.sha256()
    for path in sorted(Path(folder).rglob("*")):
        if path.is_file():
            sums.update(str(path.relative_to(folder)).encode() + path.read_bytes())
    return sums.hexdigest()


class Figures:
    """Figures beside their limits."""

    def __init__(self) -> None:
        self.missed: list[str] = []

    def tell(self, what: str, value: float, unit: str, least: float | None = None, most: float | None = None) -> None:
        limit = f" (at least {least:g})" if least is not None else f" (at most {most:g})" if most is not None else ""
        print(f"{what}: {value:.4g} {unit}{limit}".replace(" (", "  (", 1), flush=True)
        if (least is not None and value < least) or (most is not None and value > most):
            self.missed.append(what)


def simulated_seconds() -> float:
    """How long a cell has to simulate to take CELL_SECONDS of a CPU."""
    trial = study(200)
    return CELL_SECONDS / (timed(lambda: trial.run(jobs=1)).cpu_seconds / len(trial))


def in_turns(figures: Figures, folder: str, cells: int, seconds: float) -> None:
    """Both ways, one after the other, as often as TURNS says: what else the machine does is then of little weight."""
    shares, overheads = [], []
    for turn in range(TURNS):
        one, many = f"{folder}/threads-{turn}", f"{folder}/sweep-{turn}"
        alone = apart(threads, cells, seconds, one)
        together = apart(sweep, cells, seconds, many, 0)
        shares.append(alone.seconds / together.seconds)
        overheads.append(together.cpu_seconds + together.workers_cpu_seconds - alone.cpu_seconds)
    print(f"{TURNS} turns of {cells} cells on {WORKERS} workers, medians:")
    figures.tell("  sweep / threads of one process, throughput", median(shares), "", least=0.9)
    figures.tell("  overhead of a cell, CPU time of all processes", 1e3 * median(overheads) / cells, "ms", most=2)


def with_deaths(figures: Figures, folder: str, cells: int, seconds: float) -> bool:
    """All cells, with a worker that is killed twice; whether the bytes are the same."""
    one, many = f"{folder}/threads", f"{folder}/sweep"
    alone = apart(threads, cells, seconds, one)
    together = apart(sweep, cells, seconds, many, 2)
    print(f"{cells} cells, a worker killed twice: {together.seconds:.1f} s; one process: {alone.seconds:.1f} s")
    figures.tell("  sweep / threads of one process, throughput", alone.seconds / together.seconds, "", least=0.9)
    figures.tell("  memory of scheduler and client", together.peak_mb, "MB", most=300)
    same = digest(one) == digest(many)
    print(f"  same bytes: {'yes' if same else 'no'}")
    return same


def parts(figures: Figures, folder: str) -> None:
    """What a sweep is made of, as CPU time, which does not depend on what else the machine does."""
    print("parts of a sweep, CPU time (input of python/scale/cluster_model.py):")
    into, measured = f"{folder}/parts", study(1000)
    cells = len(measured)
    measured.run(jobs=1)  # the first one also starts threads
    run = timed(lambda: measured.run(jobs=1)).cpu_seconds / cells
    begun = measured._plan.begin(into, "new")
    missing = list(_sweep.Runs(begun.missing))
    many = study(100_000)
    listed = timed(lambda: many._plan.begin(f"{folder}/many", "new").missing).cpu_seconds / len(many)
    made = timed(lambda: measured._plan.make(missing, into)).cpu_seconds / cells
    batch = median(timed(lambda: measured._plan.make(missing[:1], into)).cpu_seconds for _ in range(50))
    finished = timed(begun.finish).cpu_seconds / cells
    few = 400
    scheduled = apart(sweep, few, 1.0, f"{folder}/ones", 0, 1e-9).cpu_seconds / few
    figures.tell("  client: a cell that is to be made", 1e6 * listed, "us")
    figures.tell("  client and scheduler: a batch", 1e3 * scheduled, "ms")
    figures.tell("  worker: a batch", 1e3 * batch, "ms")
    figures.tell("  worker: a file", 1e3 * (made - run), "ms")
    figures.tell("  client: a cell in the tables", 1e3 * finished, "ms")
    size = sum(path.stat().st_size for path in Path(into, "runs").iterdir()) / cells
    figures.tell("  a file", size / 1e3, "kB")


def calls(figures: Figures) -> None:
    """What a call from Python takes beside what the engine does for it."""
    tiny = wakepath.Study(
        name="tiny",
        machine="rk3399",
        workload={"name": "w", "fio_job": "[j]\nrw=randread\ndirect=1\nnumber_ios=1\nsize=1m\n"},
        policy="menu",
        repeats=1,
    )
    whole, beside = [], []
    for _ in range(1000):
        started = time.perf_counter()
        results = tiny.run()
        took = time.perf_counter() - started
        whole.append(1e6 * took)
        beside.append(1e6 * (took - results._results.seconds))
    print("a call that simulates one request, median of 1000:")
    figures.tell("  whole", median(whole), "us")
    figures.tell("  without the engine's work", median(beside), "us", most=50)


def main() -> None:
    """Print the figures."""
    cells = len(study(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000))
    figures = Figures()
    calls(figures)
    with tempfile.TemporaryDirectory() as folder:
        parts(figures, folder)
        seconds = simulated_seconds()
        print(f"a cell simulates {seconds:.1f} s and takes {1e3 * CELL_SECONDS:.0f} ms")
        in_turns(figures, folder, max(200, cells // 10), seconds)
        same = with_deaths(figures, folder, cells, seconds)
    if not same:
        sys.exit("the results differ")
    if figures.missed:
        sys.exit("missed: " + "; ".join(what.strip() for what in figures.missed))


if __name__ == "__main__":
    main()
