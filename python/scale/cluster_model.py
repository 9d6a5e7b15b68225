"""Large sweeps on paper: a simulation of scheduler, batches and file system.

Prints the table of docs/guides/cluster.md.

    python python/scale/cluster_model.py

What a batch, a file and a table cost was measured by python/scale/benchmark.py; what a shared file system bears is
assumed. How many runs a batch has is asked of the package itself.
"""

from heapq import heapify, heapreplace
from random import Random
from typing import NamedTuple

from wakepath import _pool, _sweep


class Costs(NamedTuple):
    """Seconds of one CPU beside the simulations, as docs/guides/cluster.md has them."""

    begin: float = 0.1e-6
    """Client: a cell, before the first one is handed out."""
    hand_out: float = 4e-3
    """Client and scheduler: a batch, to hand it out and to take its line."""
    batch: float = 0.16e-3
    """Worker: a batch."""
    file: float = 0.5e-3
    """Worker: a run, to write its file."""
    finish: float = 0.11e-3
    """Client: a run, to put it into the tables."""


class Cluster(NamedTuple):
    """A sweep and what it runs on."""

    cells: int = 10_000_000
    workers: int = 1000
    cell: float = 0.020
    """Mean time of a cell, in seconds."""
    spread: float = 0.5
    """Standard deviation of a cell's time, as a share of its mean."""
    files_per_second: float = 20_000
    """What the file system that all share takes from all workers."""
    wait: float = 2e-3
    """What a worker waits until the file system has a file, in seconds."""
    batches_per_second: float = _sweep.BATCHES_PER_SECOND
    """What makes batches longer than a second."""
    seed: int = 1


class Outcome(NamedTuple):
    """What came of it."""

    cells: int
    begin: float
    """Seconds until the first batch."""
    runs: float
    """Seconds from there to the last run."""
    finish: float
    """Seconds from there to the tables."""
    batches: int
    simulated: float
    """Seconds of workers that went into simulations."""
    scheduler: float
    """Seconds that client and scheduler were at work during the runs."""
    files: float
    """Seconds that the file system was at work."""
    workers: int

    @property
    def seconds(self) -> float:
        """From begin to end."""
        return self.begin + self.runs + self.finish

    @property
    def efficiency(self) -> float:
        """The share of the workers' time that went into simulations."""
        return self.simulated / (self.workers * self.seconds)


def simulate(cluster: Cluster, costs: Costs) -> Outcome:
    """Go through a sweep batch by batch."""
    random = Random(cluster.seed)
    own = max(1, cluster.workers)
    clock = scheduler = files = 0.0
    """When client and scheduler, and the file system, have done all that they know of."""
    at_scheduler = at_files = simulated = 0.0
    left, made, seconds, batches = cluster.cells, 0, 0.0, 0
    # Per worker: when it ends a batch, which one, and when the next ones arrive.
    waiting: list[list[tuple[float, int]]] = [[] for _ in range(own)]

    def hand_out(worker: int, now: float) -> None:
        nonlocal scheduler, at_scheduler, left, batches
        if not left:
            return
        size = min(left, size_of(cluster, cluster.cells - made, made, seconds))
        left -= size
        batches += 1
        scheduler = max(scheduler, now) + costs.hand_out
        at_scheduler += costs.hand_out
        waiting[worker].append((scheduler, size))

    def work(worker: int, now: float) -> tuple[float, int, int, float]:
        nonlocal files, at_files, simulated
        if not waiting[worker]:
            return (float("inf"), worker, 0, 0.0)
        arrived, size = waiting[worker].pop(0)
        start = max(now, arrived)
        mean, spread = size * cluster.cell, size**0.5 * cluster.cell * cluster.spread
        own_time = max(0.1 * mean, random.gauss(mean, spread))
        simulated += own_time
        took = own_time + costs.batch + size * (costs.file + cluster.wait)
        # It writes all the time; the file system takes no more than it can.
        files = max(files, start) + size / cluster.files_per_second
        at_files += size / cluster.files_per_second
        end = max(start + took, files)
        return (end, worker, size, end - start)

    for _ in range(_pool.AHEAD):
        for worker in range(own):
            hand_out(worker, 0.0)
    busy = [work(worker, 0.0) for worker in range(own)]
    heapify(busy)
    while busy[0][2]:
        clock, worker, size, took = busy[0]
        made += size
        seconds += took
        hand_out(worker, clock)
        heapreplace(busy, work(worker, clock))
    return Outcome(
        cells=made,
        begin=cluster.cells * costs.begin,
        runs=clock,
        finish=cluster.cells * costs.finish,
        batches=batches,
        simulated=simulated,
        scheduler=at_scheduler,
        files=at_files,
        workers=own,
    )


def size_of(cluster: Cluster, left: int, made: int, seconds: float) -> int:
    """Runs of a batch, as the package has it."""
    return _sweep.batch_size(cluster.workers, left, made, seconds, cluster.batches_per_second)


ROWS = [
    ("cells of 20 ms, batches of a second", Cluster(batches_per_second=float("inf"))),
    ("cells of 20 ms", Cluster()),
    ("cells of 20 ms, 100,000 files/s", Cluster(files_per_second=100_000)),
    ("cells of 0.1 s", Cluster(cell=0.1)),
    ("cells of 0.5 s", Cluster(cell=0.5)),
    ("cells of 0.5 s, 1,000 files/s", Cluster(cell=0.5, files_per_second=1000)),
    ("100 workers, cells of 20 ms", Cluster(workers=100)),
]


def main() -> None:
    """Print the table."""
    print(f"{'':36}  begin     runs   tables  scheduler  files  efficiency")
    for name, cluster in ROWS:
        out = simulate(cluster, Costs())
        times = f"{out.begin:5.0f} s{out.runs:7.0f} s{out.finish:7.0f} s"
        print(f"{name:36}{times}{out.scheduler / out.runs:10.0%}{out.files / out.runs:8.0%}{out.efficiency:10.2f}")


if __name__ == "__main__":
    main()
