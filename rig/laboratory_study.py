"""What a study asks of the laboratory: its cells, read from the result directory of its simulation."""

import json
import math
import re
import statistics
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packages import RigError

# Quantiles of a service time that the drive is given: 128 intervals of the same probability.
POINTS = 129
# The most states that a kernel's table has, POLL among them (CPUIDLE_STATE_MAX).
MOST_STATES = 10
# The most CPUs that a guest may have besides that of the drives.
MOST_CPUS = 15


@dataclass(frozen=True)
class Key:
    """Which run, as the results name it."""

    machine: str
    workload: str
    policy: str
    repeat: int


@dataclass(frozen=True)
class Mechanism:
    """One of a policy set: `menu@6.12`, `cpu-latency[limit=20us]`."""

    name: str
    version: str | None
    keys: dict[str, str]


GOVERNORS = ("menu", "teo", "ladder", "haltpoll")
# Those that Debian's kernels have, and their ticks per second.
DEBIANS_HZ = 250
DEBIANS = ("menu", "ladder", "haltpoll")


@dataclass(frozen=True)
class Cell:
    """A run that the laboratory is to make."""

    number: int
    key: Key
    job: Path
    machine: Path
    kernel: str
    # Debian's kernel of that version lacks something.
    own_kernel: bool
    policies: tuple[Mechanism, ...]


def parse_set(text: str) -> tuple[Mechanism, ...]:
    """A policy set as wakepath prints it."""
    found = []
    for part in filter(None, text.split(" + ")):
        match = re.fullmatch(r"([a-z-]+|io_uring)(?:@([^\[]+))?(?:\[(.*)\])?", part.strip())
        if match is None:
            raise RigError(f"policy set `{text}`: cannot read `{part}`")
        # A value may be a list with commas: `disable=C3,C6`.
        pairs = (pair.split("=", 1) for pair in re.split(r",(?=[a-z_]+=)", match[3] or "") if pair)
        found.append(Mechanism(match[1], match[2], {key.strip(): value.strip() for key, value in pairs}))
    return tuple(found)


def cells_of(simulated: Path) -> list[Cell]:
    """The runs of a simulated study."""
    document = json.loads((simulated / "result.json").read_text())
    workloads = {workload["name"]: workload for workload in document["workloads"]}
    machines = {machine["name"]: simulated / machine["source"] for machine in document["machines"]}
    sets = {policy["name"]: policy["settings"].get("policy", "") for policy in document["policies"]}
    cells = []
    for file in sorted((simulated / "runs").glob("*.json")):
        key = Key(**json.loads(file.read_text())["key"])
        workload = workloads[key.workload]
        if workload["kind"] != "fio":
            raise RigError(f"workload {key.workload}: the laboratory runs fio jobs, not {workload['kind']}")
        policies = parse_set(sets[key.policy])
        machine = Machine(machines[key.machine])
        governor = next((policy for policy in policies if policy.name in GOVERNORS), Mechanism("menu", None, {}))
        cells.append(
            Cell(
                int(file.stem),
                key,
                simulated / workload["source"],
                machines[key.machine],
                # What results call the set has a version only if the study gives one.
                governor.version if governor.version and "@" in key.policy else machine.kernel,
                governor.name not in DEBIANS or machine.hz != DEBIANS_HZ or machine.irq_time,
                policies,
            )
        )
    return cells


class Machine:
    """What the guest becomes: a machine file of wakepath's, complete as its results keep it."""

    def __init__(self, path: Path) -> None:
        self.toml: dict[str, Any] = tomllib.loads(path.read_text())
        self.name: str = self.toml["name"]
        self.kernel = str(self.toml.get("kernel", "6.12"))
        self.hz = int(number(self.toml, "hz", 250))
        self.irq_time = bool(number(self.toml, "irq_time_accounting", 0))
        self.cpus = sum(int(number(cluster, "cpus", 1)) for cluster in self.toml["cluster"])
        self.states: list[dict[str, Any]] = self.toml["idle_state"]
        self.drive: dict[str, Any] = self.toml["drive"]
        if self.cpus > MOST_CPUS:
            raise RigError(f"machine {self.name}: {self.cpus} CPUs, and a guest has at most {MOST_CPUS}")
        if len(self.states) > MOST_STATES or not self.states[0].get("polling"):
            raise RigError(
                f"machine {self.name}: a guest has POLL and up to {MOST_STATES - 1} more idle states, and this machine "
                + (f"has {len(self.states)}" if self.states[0].get("polling") else "does not begin with a polling one")
            )
        if any(state.get("scope", "cpu") != "cpu" for state in self.states):
            raise RigError(f"machine {self.name}: a guest has no idle states of a whole cluster")

    def idle_parameters(self) -> str:
        """Of rig/module."""
        states = []
        for state in self.states[1:]:
            exit_ns = number(state, "true_exit_us", 0) * 1000
            figures = [
                number(state, "exit_latency_us", 0),
                number(state, "target_residency_us", 0),
                exit_ns,
                number(state, "true_entry_us", 0) * 1000,
                number(state, "exit_spread", 0) * exit_ns,
            ]
            states.append(":".join([state["name"], *(str(round(figure)) for figure in figures)]))
        return f"states={','.join(states)}"

    def drive_parameters(self) -> str:
        """Of rig/drive."""
        spread = number(self.drive, "spread", 0)
        parameters = [
            f"drives={int(number(self.drive, 'count', 1))}",
            f"units={int(number(self.drive, 'parallel_units', 1))}",
            f"read_ns={quantiles(number(self.drive, 'read_service_us', 80) * 1000, spread)}",
            f"write_ns={quantiles(number(self.drive, 'write_service_us', 20) * 1000, spread)}",
        ]
        path = self.toml["io_path"].get("completion", {})
        for name, parameter in (("queues", "queues"), ("coalesce", "coalesce"), ("cpu", "completion_cpu")):
            if name in path:
                parameters.append(f"{parameter}={int(number(path, name, 0))}")
        if "coalesce_us" in path:
            parameters.append(f"coalesce_ns={int(number(path, 'coalesce_us', 0) * 1000)}")
        return " ".join(parameters)

    def frequency_parameters(self) -> str:
        """Of rig/cpufreq."""
        cluster = self.toml["cluster"][0]
        frequencies = ",".join(str(int(opp["khz"])) for opp in cluster["opps"])
        shared = int(number(cluster, "clock_cpus", self.cpus))
        return f"khz={frequencies} clock_cpus={shared} latency_us={round(number(cluster, 'transition_latency_us', 0))}"


def number(table: dict[str, Any], key: str, default: float) -> float:
    """A figure, plain or with its origin."""
    value = table.get(key, default)
    if isinstance(value, dict):
        value = value["value"]
    return float(value)


def quantiles(mean: float, spread: float) -> str:
    """A service time as the drive takes it: log-normal of this mean and relative spread, as the simulator has it."""
    if spread == 0:
        return str(round(mean))
    variance = math.log(1 + spread * spread)
    normal = statistics.NormalDist(math.log(mean) - variance / 2, math.sqrt(variance))
    at = [min(max(point / (POINTS - 1), 0.0005), 0.9995) for point in range(POINTS)]
    return ",".join(str(round(math.exp(normal.inv_cdf(p)))) for p in at)
