#!/usr/bin/env python3
"""Writes how far the simulator is from real kernels: docs/background/fidelity.md, from what rig/lab.py left.

The page has goals, the cells that miss theirs, and why; every cell goes to a CSV file beside the page.

Example: rig/fidelity.py target/fidelity/* --cells docs/background/data/fidelity.csv > docs/background/fidelity.md
"""

import argparse
import csv
import json
import math
import statistics
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packages import REPOSITORY, RigError, exit_status

METRICS = ("mean_us", "iops", "p99_us")
# Where the laboratory has times of fsync.
SYNC_METRICS = ("sync_mean_us", "sync_p99_us")
THREAD_METRICS = ("ops_per_s", "wake_mean_us", "wake_p99_us")
# A metric, the share of cells that have to be so near, and how near in %.
GOALS = (
    ("mean_us", 0.5, 3.0),
    ("mean_us", 0.95, 8.0),
    ("iops", 0.5, 3.0),
    ("iops", 0.95, 8.0),
    ("p99_us", 0.9, 10.0),
)
NAMES = {
    "mean_us": "mean latency",
    "iops": "IOPS",
    "p99_us": "p99 latency",
    "ops_per_s": "operations per second",
    "wake_mean_us": "mean wake-up latency",
    "wake_p99_us": "p99 wake-up latency",
}


@dataclass(frozen=True)
class Rate:
    """What older measurements lack: its metric, and how near a cell has to be, in % or by so much."""

    metric: str
    percent: float
    floor: float


# A rate of a few per second rests on a few events: the floor is what they vary by.
TICKLESS = Rate("tickless_per_s", 10.0, 5.0)
FREQUENCIES = (Rate("set_mhz", 5.0, 0.0), Rate("frequency_changes_per_s", 5.0, 2.0))
# Governors that change the frequency.
FOLLOWING = ("schedutil", "ondemand")
# Percentage points between the shares of an idle state.
SHARE_GOAL = 5.0
# A cell is met if what was measured of these is this near, in %, and its shares.
CELL_GOALS = {
    "mean_us": 8.0,
    "iops": 8.0,
    "p99_us": 10.0,
    "ops_per_s": 8.0,
    "wake_mean_us": 8.0,
    "wake_p99_us": 10.0,
}
# Two means of five runs each, from the same distribution, are nearer than so many standard errors in 19 of 20 cases:
# Student's t with 8 degrees of freedom.
CHANCE = 2.31
REASONS = REPOSITORY / "rig/laboratory/reasons.md"


@dataclass(frozen=True)
class Side:
    """A cell in the simulator, or in the laboratory: values of each repeat."""

    metrics: dict[str, list[float]]
    # Shares of the idle states, and of work, of the CPUs' time, in %.
    shares: dict[str, float]
    # The same of each repeat.
    shares_of: list[dict[str, float]]

    def repeats(self, state: str) -> list[float]:
        """The shares of a state in each repeat."""
        return [shares.get(state, 0.0) for shares in self.shares_of]

    def mean(self, metric: str) -> float:
        """Over the repeats."""
        return statistics.fmean(self.metrics[metric])

    def shown(self, metric: str) -> str:
        """The mean, with the spread if there is more than one repeat."""
        values = self.metrics[metric]
        digits = 0 if metric == "iops" else 1
        spread = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
        return f"{statistics.fmean(values):.{digits}f}{spread}"


@dataclass(frozen=True)
class Compared:
    """A cell on both sides."""

    kernel: str
    job: str
    policy: str
    sim: Side
    lab: Side

    def off(self, metric: str) -> float:
        """By how many percent the simulator is off."""
        return 100 * (self.sim.mean(metric) / self.lab.mean(metric) - 1)

    def chance(self, metric: str) -> bool:
        """Whether runs of either side differ among themselves so much that the two means may be the same."""
        sides = (self.sim.metrics[metric], self.lab.metrics[metric])
        if min(map(len, sides)) < 2:
            return False
        error = math.sqrt(sum(statistics.variance(values) / len(values) for values in sides))
        return abs(self.sim.mean(metric) - self.lab.mean(metric)) <= CHANCE * error

    def near(self, metric: str, limit: float) -> bool:
        """Whether the simulator is within so many percent."""
        return abs(self.off(metric)) <= limit

    def threads(self) -> bool:
        """Whether it runs an rt-app file, which has no I/O latencies."""
        return THREAD_METRICS[0] in self.lab.metrics

    def goals(self) -> dict[str, float]:
        """What of it has to be how near, in %."""
        return {metric: goal for metric, goal in CELL_GOALS.items() if metric in self.lab.metrics}

    def has(self, rate: Rate) -> bool:
        """Whether it was measured."""
        return rate.metric in self.lab.metrics

    def within(self, rate: Rate) -> bool:
        """Whether the simulator is near enough."""
        near = max(rate.floor, rate.percent / 100 * self.lab.mean(rate.metric))
        return abs(self.sim.mean(rate.metric) - self.lab.mean(rate.metric)) <= near

    def follows_load(self) -> bool:
        """Whether its frequency does, and was measured."""
        return any(name in self.policy for name in FOLLOWING) and all(map(self.has, FREQUENCIES))

    def shares_off(self) -> tuple[str, float]:
        """The idle state whose share is furthest off, and by how many points."""
        states = self.lab.shares
        return max(
            ((state, self.sim.shares.get(state, 0.0) - share) for state, share in states.items()),
            key=lambda pair: abs(pair[1]),
        )

    def met(self) -> bool:
        """Whether it is as near as a cell should be."""
        near = all(self.near(metric, goal) for metric, goal in self.goals().items())
        return near and abs(self.shares_off()[1]) <= SHARE_GOAL

    def met_but_for_chance(self) -> bool:
        """As `met`, where a difference that may be chance is none."""
        near = all(self.near(metric, goal) or self.chance(metric) for metric, goal in self.goals().items())
        return near and abs(self.shares_off()[1]) <= max(SHARE_GOAL, self.share_chance())

    def share_chance(self) -> float:
        """How far apart the shares of the state that is furthest off may be by chance, in points."""
        state = self.shares_off()[0]
        sides = (self.sim.repeats(state), self.lab.repeats(state))
        if min(map(len, sides)) < 2:
            return 0.0
        return CHANCE * math.sqrt(sum(statistics.variance(values) / len(values) for values in sides))


def sides(folder: Path) -> dict[tuple[str, str, str], Side]:
    """The cells of a result directory, by machine, workload and policy."""
    runs: defaultdict[tuple[str, str, str], list[dict[str, Any]]] = defaultdict(list)
    for file in sorted((folder / "runs").glob("*.json")):
        run = json.loads(file.read_text())
        key = run["key"]
        runs[key["machine"], key["workload"], key["policy"]].append(run)
    return {key: side(of_cell) for key, of_cell in runs.items()}


def side(runs: list[dict[str, Any]]) -> Side:
    """The repeats of a cell together."""
    metrics: defaultdict[str, list[float]] = defaultdict(list)
    for run in runs:
        for name, value in run["metrics"]:
            metrics[name].append(value)
    return Side(dict(metrics), shares(runs), [shares([run]) for run in runs])


def shares(runs: list[dict[str, Any]]) -> dict[str, float]:
    """Of the CPUs' time in these runs, in %, by idle state."""
    times: defaultdict[str, float] = defaultdict(float)
    for run in runs:
        for row in run["idle"]:
            times[row["state"]] += row["time_ns"]
    whole = sum(times.values()) or 1.0
    return {state: 100 * time / whole for state, time in times.items()}


def compared(folder: Path) -> list[Compared]:
    """The cells of a folder that rig/lab.py left."""
    if not (folder / "lab/result.json").is_file():
        raise RigError(f"{folder}: no results of the laboratory; rig/lab.py leaves them")
    sim, lab = sides(folder / "sim"), sides(folder / "lab")
    if missing := sim.keys() ^ lab.keys():
        raise RigError(f"{folder}: {len(missing)} cells are only simulated or only measured: {sorted(missing)[0]}")
    return [Compared(*key, sim[key], lab[key]) for key in sim]


def page(cells: list[Compared], others: list[Compared], models: list[Compared]) -> str:
    """The page as markdown; the goals are those of `cells`."""
    met = sum(cell.met() for cell in cells)
    perhaps = sum(cell.met_but_for_chance() for cell in cells)
    jobs = [cell for cell in cells if not cell.threads()]
    threads = [cell for cell in cells if cell.threads()]
    lines = [
        "# Fidelity: the simulator beside real kernels",
        "",
        "Generated by `make lab`; [laboratory.md](laboratory.md) says how. Real kernels run real fio and rt-app",
        "on idle states and drives of known latency, in virtual time. The simulator gets the same job, policy set and",
        "machine file. What an I/O costs a CPU comes from one run, of reads with only C1 on, and from traces; nothing",
        "from other cells.",
        "",
        f"**{met} of {len(cells)} cells meet all goals of a cell**; {perhaps} if what may be chance counts as met,",
        "which `perhaps` marks. These are the goals:",
        "",
        "- a job: mean latency and IOPS within 8 %, p99 within 10 %",
        "- an rt-app file: operations per second and mean wake-up latency within 8 %, p99 within 10 %",
        f"- both: the share of each idle state within {SHARE_GOAL:g} points of the CPUs' time",
        "",
        "Each figure is the mean of the repeats, with their standard deviation behind ±. Each repeat of the real cells",
        "has a guest of its own, in which the cells run in another order; fio has another seed, too. A difference may",
        f"be chance if it is less than {CHANCE:g} standard errors of the difference of the means. Five repeats each of",
        "the same distribution are that near in 19 of 20 cases.",
        "",
        "| goal | cells that have to | cells that do | with those that may be chance | |",
        "|---|---|---|---|---|",
    ]
    for metric, share, limit in GOALS:
        near = [cell.near(metric, limit) for cell in jobs]
        either = [one or cell.chance(metric) for one, cell in zip(near, jobs, strict=True)]
        lines.append(goal(f"{NAMES[metric]} within {limit:g} %", share, near, either))
    near = [abs(cell.shares_off()[1]) <= SHARE_GOAL for cell in cells]
    either = [abs(cell.shares_off()[1]) <= max(SHARE_GOAL, cell.share_chance()) for cell in cells]
    lines.append(goal(f"share of each state within {SHARE_GOAL:g} points", 1.0, near, either))
    ticks = [cell for cell in cells if cell.has(TICKLESS)]
    clocks = [cell for cell in cells if cell.follows_load()]
    near = [tickless_met(cell) for cell in ticks]
    either = [tickless_met(cell) or cell.chance(TICKLESS.metric) for cell in ticks]
    lines.append(goal(f"tickless idle periods within {TICKLESS.percent:g} %", 1.0, near, either))
    near = [frequencies_met(cell) for cell in clocks]
    either = [all(cell.within(rate) or cell.chance(rate.metric) for rate in FREQUENCIES) for cell in clocks]
    lines.append(goal(f"frequencies within {FREQUENCIES[0].percent:g} %", 1.0, near, either))
    lines += [
        "",
        *(off_by(metric, jobs) for metric in METRICS),
        *(off_by(metric, threads) for metric in THREAD_METRICS if threads),
        "- tickless idle periods are those that a CPU begins with its tick stopped, per second",
        f"  (`{TICKLESS.metric}`). They have to be within {TICKLESS.percent:g} % or {TICKLESS.floor:g} per second.",
        f"  {len(ticks)} of {len(cells)} cells were measured since they are counted",
        f"- frequencies are those of {len(clocks)} cells with schedutil. The mean over time of the one that is set",
        f"  (`{FREQUENCIES[0].metric}`) has to be within {FREQUENCIES[0].percent:g} %. Its changes per",
        f"  second (`{FREQUENCIES[1].metric}`) have to be within {FREQUENCIES[1].percent:g} % or",
        f"  {FREQUENCIES[1].floor:g} per second",
    ]
    lines += kernel_table(cells)
    lines += off_table(cells)
    if others:
        met = sum(cell.met() for cell in others)
        lines += [
            "",
            "## Jobs outside the suite",
            "",
            "The model was not adjusted to these, and they have another seed. "
            f"{met} of {len(others)} cells meet all goals of a cell.",
        ]
    if models:
        lines += model_table(models)
    if REASONS.is_file():
        lines += ["", REASONS.read_text().rstrip()]
    return "\n".join(lines) + "\n"


def off_by(metric: str, cells: list[Compared]) -> str:
    """How far these cells are off, where it was measured."""
    off = [abs(cell.off(metric)) for cell in cells if metric in cell.lab.metrics]
    return f"- {NAMES[metric]}: off by {statistics.median(off):.1f} % in the median, {max(off):.0f} % at most"


def tickless_met(cell: Compared) -> bool:
    """The goal of stopped ticks."""
    return cell.within(TICKLESS)


def frequencies_met(cell: Compared) -> bool:
    """The goal of frequency requests."""
    return all(map(cell.within, FREQUENCIES))


def goal(name: str, share: float, near: list[bool], either: list[bool]) -> str:
    """The row of a goal that this share of the cells has to meet, and those that do, without and with chance."""
    if not near:
        return f"| {name} | {share:.0%} | not measured | | |"
    verdict = "met" if sum(near) >= share * len(near) else "not met"
    does, may = sum(near) / len(near), sum(either) / len(either)
    return f"| {name} | {share:.0%} | {does:.0%} | {may:.0%} | {verdict} |"


def verdict(cell: Compared) -> str:
    """Whether a cell meets its goals, or would but for chance."""
    return "met" if cell.met() else "perhaps" if cell.met_but_for_chance() else "not met"


def kernel_table(cells: list[Compared]) -> list[str]:
    """How many cells of each kernel meet their goals."""
    lines = [
        "",
        "## By kernel",
        "",
        "[fidelity.csv](data/fidelity.csv) has every cell, with its mean and spread on both sides.",
        "",
        "| kernel | cells | met | perhaps | not met |",
        "|---|---|---|---|---|",
    ]
    for kernel in dict.fromkeys(cell.kernel for cell in cells):
        verdicts = [verdict(cell) for cell in cells if cell.kernel == kernel]
        counts = (str(verdicts.count(word)) for word in ("met", "perhaps", "not met"))
        lines.append(f"| {kernel} | {len(verdicts)} | {' | '.join(counts)} |")
    return lines


def off_table(cells: list[Compared]) -> list[str]:
    """The cells that do not meet their goals: by how many percent each figure is off."""
    lines = [
        "",
        "## Cells that are off",
        "",
        "Mean latency (of wake-ups, for rt-app files) and p99 are off by so many percent, the share of an idle",
        "state by so many points.",
        "",
        "| kernel | job | policy | mean | p99 | idle share | |",
        "|---|---|---|---|---|---|---|",
    ]
    for cell in cells:
        if cell.met():
            continue
        mean, tail = ("wake_mean_us", "wake_p99_us") if cell.threads() else ("mean_us", "p99_us")
        state, points = cell.shares_off()
        off = [f"{cell.off(name):+.1f}" if name in cell.lab.metrics else "" for name in (mean, tail)]
        row = [cell.kernel, cell.job, cell.policy, *off, f"{state} {points:+.1f}", verdict(cell)]
        lines.append(f"| {' | '.join(row)} |")
    return lines


def near_count(cells: list[Compared], metric: str) -> str:
    """In how many of the cells that measured a metric it is near: `N of M`."""
    measured = [cell for cell in cells if metric in cell.lab.metrics and metric in cell.sim.metrics]
    limit = CELL_GOALS.get(metric, CELL_GOALS["mean_us"])
    return f"{sum(cell.near(metric, limit) for cell in measured)} of {len(measured)}"


def model_table(cells: list[Compared]) -> list[str]:
    """The cells of single models: how many are near, and a row for each with its mean latencies, real and simulated."""
    goals = [near_count(cells, metric) for metric in ("mean_us", "iops", "sync_mean_us")]
    shares_near = sum(abs(cell.shares_off()[1]) <= SHARE_GOAL for cell in cells)
    lines = [
        "",
        "## Single models compared with real kernels",
        "",
        "Mean latency in us, real and simulated. "
        f"It is within {CELL_GOALS['mean_us']:g} % in {goals[0]} cells, IOPS in {goals[1]},",
        f"the mean time of fsync in {goals[2]}. "
        f"The share of each idle state is within {SHARE_GOAL:g} points in {shares_near} of {len(cells)}.",
        "",
        "| machine | job | policy | real | simulated | off by % |",
        "|---|---|---|---|---|---|",
    ]
    for cell in cells:
        off = f"{cell.off('mean_us'):+.1f}"
        row = [cell.kernel, cell.job, cell.policy, cell.lab.shown("mean_us"), cell.sim.shown("mean_us"), off]
        lines.append(f"| {' | '.join(row)} |")
    return lines


def write_cells(file: Path, suites: dict[str, list[Compared]]) -> None:
    """Write a line for each figure of each cell: its mean and standard deviation, simulated and real."""
    header = ("suite", "kernel", "job", "policy", "figure", "simulated", "sd", "real", "real_sd", "verdict")
    with file.open("w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        for suite, cells in suites.items():
            for cell in cells:
                key = (suite, cell.kernel, cell.job, cell.policy)
                for figure, simulated, real in figures(cell):
                    writer.writerow([*key, figure, *spread(simulated), *spread(real), verdict(cell)])


def figures(cell: Compared) -> list[tuple[str, list[float], list[float]]]:
    """The compared figures of a cell by name, with the repeats of both sides: metrics, and shares of states in %."""
    rates = (TICKLESS, *(FREQUENCIES if cell.follows_load() else ()))
    names = (*METRICS, *SYNC_METRICS, *THREAD_METRICS, *(rate.metric for rate in rates))
    found = [name for name in names if name in cell.lab.metrics and name in cell.sim.metrics]
    metrics = [(name, cell.sim.metrics[name], cell.lab.metrics[name]) for name in found]
    states = [(f"share of {state}", cell.sim.repeats(state), cell.lab.repeats(state)) for state in cell.lab.shares]
    return metrics + states


def spread(values: list[float]) -> tuple[str, str]:
    """The mean and the standard deviation; the latter is empty for a single repeat."""
    deviation = f"{statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.2f}", deviation


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="+", help="what rig/lab.py left: sim/ and lab/")
    parser.add_argument("--others", type=Path, nargs="*", default=[], help="the same of jobs outside the suite")
    parser.add_argument(
        "--models", type=Path, nargs="*", default=[], help="the same of models that have cells of their own"
    )
    parser.add_argument("--cells", type=Path, help="write every cell to this file, as CSV")
    parser.add_argument("--exit-code", action="store_true", help="exit with 1 if a cell does not meet its goals")
    return parser.parse_args(arguments)


def main() -> int:
    """0: written; 1: a cell does not meet its goals; 2: the results cannot be read."""
    options = parse(sys.argv[1:])

    def work() -> int:
        cells, others, models = (
            [cell for folder in folders for cell in compared(folder)]
            for folders in (options.folder, options.others, options.models)
        )
        if options.cells:
            write_cells(options.cells, {"suite": cells, "outside": others, "models": models})
        print(page(cells, others, models), end="")
        return 1 if options.exit_code and not all(cell.met() for cell in cells) else 0

    return exit_status("fidelity", work)


if __name__ == "__main__":
    sys.exit(main())
