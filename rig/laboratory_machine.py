"""What a guest of the laboratory becomes: a machine file of wakepath's as parameters of the kernel modules."""

import json
import math
import re
import statistics
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packages import RigError, wakepath

# Quantiles of a service time that the drive is given: 128 intervals of the same probability.
POINTS = 129
# As many as the drive takes (MOST_POINTS of rig/drive), where one request in 500 is slow.
POINTS_WITH_SLOW_REQUESTS = 257
# The most CPUs that a guest may have besides that of the drives.
MOST_CPUS = 15
# The most requests that a drive of rig/drive serves at a time, the most drives, and the longest time in ns.
MOST_UNITS = 256
MOST_DRIVES = 16
LONGEST_NS = 2**32 - 1
# Names that rig/module takes.
STATE_NAME = re.compile(r"[^\s,:]{1,15}")
# What changes how long an I/O takes, and a guest does not have: where it lies in a machine file, and what it is.
LACKING = {
    "isolation": "CPUs kept free of other tasks",
    "power_limit": "limits of power",
    "c1_demotion": "demotion of idle states by the hardware",
    "drive.buffer": "a write buffer that fills up",
    "drive.flash": "flash that reads and writes share",
    "drive.reads_by_address": "reads that wait for the unit of their address",
    "drive.read_ahead_kb": "another window of the read-ahead than the kernel's",
    "package.hysteresis_us": "sleep of the whole package",
    "package.entry_us": "sleep of the whole package",
    "package.exit_us": "sleep of the whole package",
    "cluster.idle_state": "idle states of one kind of core",
    "cluster.smt_speedup": "threads that slow each other down",
    "cluster.smt_poll_loss": "threads that slow each other down",
    "cluster.threads_sleep_together": "idle states that threads of a core share",
    "idle_state.cold_start_kcycles": "cold caches after an idle state",
    "idle_state.mwait": "waking up without an interrupt",
    "idle_state.disabled": "states that are switched off from the start (a policy can: `idle-states[disable=...]`)",
}


@dataclass(frozen=True)
class PowerState:
    """A power state of a drive as rig/drive takes it, in us."""

    # After how long without requests the drive begins to enter it.
    idle: int
    entry: int
    exit: int


class Machine:
    """A machine file, complete as wakepath's results keep it."""

    def __init__(self, path: Path) -> None:
        self.toml: dict[str, Any] = tomllib.loads(path.read_text())
        self.name: str = self.toml["name"]
        self.kernel = str(self.toml.get("kernel", "6.12"))
        self.hz = int(number(self.toml, "hz", 250))
        self.irq_time = bool(number(self.toml, "irq_time_accounting", 0))
        self.cpus = sum(int(number(cluster, "cpus", 1)) for cluster in self.toml["cluster"])
        cluster = self.toml["cluster"][0]
        self.spin_turn_ns = round(number(self.toml.get("emulator", {}), "spin_turn_us", 0) * 1000)
        self.clock_cpus = int(number(cluster, "clock_cpus", self.cpus))
        self.slowest_khz = int(cluster["opps"][0]["khz"])
        self.states: list[dict[str, Any]] = self.toml["idle_state"]
        self.drive: dict[str, Any] = self.toml["drive"]
        self.drives = int(number(self.drive, "count", 1))
        self.chunk_bytes = int(number(self.drive, "chunk_kib", 0)) * 1024
        # What a job of the simulator's drives uses.
        self.device = "/dev/drive0" if self.drives == 1 else "/dev/md_drives"
        # None: jobs use the drives themselves.
        self.file_system: str | None = self.toml.get("file_system", {}).get("kind")
        self._check()

    def _check(self) -> None:
        """Refuses what a guest cannot have."""
        if self.cpus > MOST_CPUS:
            raise RigError(f"machine {self.name}: {self.cpus} CPUs, and a guest has at most {MOST_CPUS}")
        if not self.states[0].get("polling"):
            raise RigError(
                f"machine {self.name}: the first idle state of a guest is POLL, and this machine does not begin with "
                "a polling one"
            )
        if any(state.get("scope", "cpu") != "cpu" for state in self.states):
            raise RigError(f"machine {self.name}: a guest has no idle states of a whole cluster")
        for state in self.states[1:]:
            check_state_name(self.name, state["name"])
        if len(self.toml["cluster"]) > 1:
            raise RigError(f"machine {self.name}: {len(self.toml['cluster'])} clusters, and a guest has one")
        for place, what in LACKING.items():
            if has(self.toml, place.split(".")):
                raise RigError(f"machine {self.name}: a guest cannot have `{place}`: {what}")
        if number(self.toml["io_path"].get("completion", {}), "same_cpu_share", 1) < 1:
            raise RigError(
                f"machine {self.name}: a guest cannot have `io_path.completion.same_cpu_share`: a queue interrupts "
                "always the same CPU"
            )
        if self.drives > MOST_DRIVES:
            raise RigError(f"machine {self.name}: {self.drives} drives, and a guest has at most {MOST_DRIVES}")
        if self.file_system and self.drives > 1:
            raise RigError(f"machine {self.name}: {self.drives} drives, and a file system of a guest is on one")
        units = int(number(self.drive, "parallel_units", 1))
        if units > MOST_UNITS:
            raise RigError(f"machine {self.name}: {units} parallel units, and a guest's drive has at most {MOST_UNITS}")

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
        parameters = [
            f"drives={self.drives}",
            f"units={int(number(self.drive, 'parallel_units', 1))}",
            f"read_ns={self._service('read_service_us', 80)}",
            f"write_ns={self._service('write_service_us', 20)}",
            f"flush_ns={self._flush()}",
            # As the simulator: to program the flash takes what it takes in a flush.
            f"forced_ns={self._flush()}",
            f"link_kbs={self._rates('mb_per_s')}",
            f"stream_kbs={self._rates('stream_mb_per_s')}",
        ]
        path = self.toml["io_path"].get("completion", {})
        for name, parameter in (
            ("queues", "queues"),
            ("poll_queues", "poll_queues"),
            ("coalesce", "coalesce"),
            ("cpu", "completion_cpu"),
        ):
            if name in path:
                parameters.append(f"{parameter}={int(number(path, name, 0))}")
        if "coalesce_us" in path:
            parameters.append(f"coalesce_ns={int(number(path, 'coalesce_us', 0) * 1000)}")
        return " ".join(parameters)

    def _service(self, key: str, default: float) -> str:
        mean = number(self.drive, key, default) * 1000
        slow = number(self.drive, key.replace("service", "p999"), 0) * 1000
        spread = number(self.drive, "spread", 0)
        points = quantiles_with_slow_requests(mean, spread, slow) if slow else quantiles(mean, spread)
        if points[-1] > LONGEST_NS:
            raise RigError(
                f"machine {self.name}: drive.{key} and its spread give more than 4 s, a guest's longest time"
            )
        return ",".join(str(point) for point in points)

    def _flush(self) -> int:
        time = round(number(self.drive, "flush_us", 0) * 1000)
        if time > LONGEST_NS:
            raise RigError(f"machine {self.name}: drive.flush_us is more than 4 s, a guest's longest time")
        return time

    def _rates(self, key: str) -> str:
        """Of reads and writes in kB/s; 0: not limited."""
        rates = (min(round(number(self.drive, f"{way}_{key}", 0) * 1000), LONGEST_NS) for way in ("read", "write"))
        return ",".join(str(rate) for rate in rates)

    def power_states(self, program: Path, options: list[str]) -> tuple[PowerState, ...] | None:
        """Those that the drive enters by itself, by wakepath's own plan of the kernel's table; None: it has none."""
        power = self._power()
        if power is None:
            return None
        rest = round(number(power, "rest_exit_us", 0))
        # The rest is left while the drive leaves its power state.
        found = [PowerState(round(number(power, "rest_after_ms", 0) * 1000), 0, rest)] if rest else []
        targets = {entry["state"]: entry for entry in plan(program, power["declared"], options)}
        now = state = 0
        while (entry := targets.get(state)) and entry["target"] and entry["target"] > state:
            state = entry["target"]
            true = power["states"][state]
            enters, leaves = round(number(true, "entry_us", 0)), round(number(true, "exit_us", 0))
            now += entry["timeout_ms"] * 1000
            found.append(PowerState(now, enters, max(leaves, rest)))
            now += enters
        if now * 1000 > 2**63 or any(max(of.idle, of.entry, of.exit) > LONGEST_NS for of in found):
            raise RigError(f"machine {self.name}: a guest's drive enters no power state after more than 71 minutes")
        return tuple(found)

    def _power(self) -> dict[str, Any] | None:
        """The drive's table `power`; where a file has only what a drive declares, what that means."""
        declared = self.drive.get("declared")
        if declared is None:
            return self.drive.get("power")
        times = ("entry", "exit")
        states = [{f"{time}_us": state[f"{time}_latency_us"] for time in times} for state in declared["states"]]
        return {"declared": declared, "states": states}

    def frequency_parameters(self) -> str:
        """Of rig/cpufreq."""
        cluster = self.toml["cluster"][0]
        frequencies = ",".join(str(int(opp["khz"])) for opp in cluster["opps"])
        latency_us = round(number(cluster, "transition_latency_us", 0))
        return f"khz={frequencies} clock_cpus={self.clock_cpus} latency_us={latency_us}"


def check_state_name(machine: str, name: str) -> None:
    """Refuses what rig/module does not take as the name of an idle state."""
    if not STATE_NAME.fullmatch(name):
        raise RigError(
            f"machine {machine}: idle state `{name}`: a name in a guest has at most 15 characters, "
            "no space, comma or colon"
        )


def plan(program: Path, declared: dict[str, Any], options: list[str]) -> list[dict[str, Any]]:
    """The entries of the table that the kernel would give a drive."""
    described = [
        {
            "flags": 2 * state.get("non_operational", False),
            "entry_lat": state["entry_latency_us"],
            "exit_lat": state["exit_latency_us"],
            # The plan goes by latencies alone.
            **dict.fromkeys(("max_power", "idle_power", "idle_scale", "active_power", "active_scale"), 0),
            **dict.fromkeys(("read_tput", "read_lat", "write_tput", "write_lat"), 0),
        }
        for state in declared["states"]
    ]
    dump = {"mn": declared["model"], "fr": "", "npss": declared["npss"], "psds": described}
    if "apsta" in declared:
        dump["apsta"] = int(declared["apsta"])
    told = wakepath(program, "apst", "plan", "--id-ctrl", "-", "--format", "json", *options, given=json.dumps(dump))
    planned = json.loads(told)
    entries: list[dict[str, Any]] = planned["entries"] if planned["apste"] else []
    return entries


def has(table: Any, keys: list[str]) -> bool:
    """Whether a machine file gives anything but nothing here; in lists of tables, any of them."""
    if isinstance(table, list) and table and isinstance(table[0], dict):
        return any(has(one, keys) for one in table)
    if keys:
        return isinstance(table, dict) and keys[0] in table and has(table[keys[0]], keys[1:])
    if isinstance(table, dict) and "value" in table:
        table = table["value"]
    return bool(table)


def number(table: dict[str, Any], key: str, default: float) -> float:
    """A figure, plain or with its origin."""
    value = table.get(key, default)
    if isinstance(value, dict):
        value = value["value"]
    return float(value)


def quantiles(mean: float, spread: float, count: int = POINTS) -> list[int]:
    """A service time as the drive takes it: log-normal of this mean and relative spread, as the simulator has it."""
    if spread == 0:
        return [round(mean)] if count == POINTS else [round(mean)] * count
    variance = math.log(1 + spread * spread)
    normal = statistics.NormalDist(math.log(mean) - variance / 2, math.sqrt(variance))
    at = [min(max(point / (count - 1), 0.0005), 0.9995) for point in range(count)]
    return [round(math.exp(normal.inv_cdf(p))) for p in at]


def quantiles_with_slow_requests(mean: float, spread: float, p999: float) -> list[int]:
    """As quantiles, but the slowest 0.4 % reach from the others' longest over the 99.9th percentile; the mean stays."""
    points = quantiles(mean, spread, POINTS_WITH_SLOW_REQUESTS)
    width = 1 / (POINTS_WITH_SLOW_REQUESTS - 1)
    # Where the 99.9th percentile lies between the last two points.
    along = 1 - 0.001 / width
    before = points[-2]
    # Times between two points grow evenly. All but the last point are scaled by one factor.
    usual = (sum(points[:-1]) - points[0] / 2 + (before - before / along) / 2) * width
    factor = (mean - p999 / along / 2 * width) / usual
    scaled = [round(point * factor) for point in points[:-1]]
    return [*scaled, round(scaled[-1] + (p999 - scaled[-1]) / along)]
