"""What a study asks of the laboratory: its cells, read from the result directory of its simulation."""

import json
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from laboratory_machine import Machine, PowerState
from laboratory_rt_app import RtApp, read_rt_app
from laboratory_server import Server, read_server
from packages import RigError


@dataclass(frozen=True)
class Key:
    """Which run, as the results name it."""

    machine: str
    workload: str
    policy: str
    repeat: int

    def __str__(self) -> str:
        """As errors name it."""
        return f"{self.workload} on {self.machine}, {self.policy}, repeat {self.repeat}"


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
    # A fio job, a file of rt-app, or a server.
    job: Path
    rt_app: RtApp | None
    server: Server | None
    machine: Path
    kernel: str
    # Debian's kernel of that version lacks something.
    own_kernel: bool
    # As the study has it, and taken apart.
    policy: str
    policies: tuple[Mechanism, ...]
    # Of the drive under these policies; None: it has none.
    power_states: tuple[PowerState, ...] | None


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


def cells_of(simulated: Path, program: Path) -> list[Cell]:
    """The runs of a simulated study."""
    document = json.loads((simulated / "result.json").read_text())
    workloads = {workload["name"]: workload for workload in document["workloads"]}
    study = tomllib.loads((simulated / "study.toml").read_text())
    entries = {entry["name"]: entry for entry in study["workload"]}
    machines = {machine["name"]: simulated / machine["source"] for machine in document["machines"]}
    sets = {policy["name"]: policy["settings"].get("policy", "") for policy in document["policies"]}
    cells = []
    for file in sorted((simulated / "runs").glob("*.json")):
        key = Key(**json.loads(file.read_text())["key"])
        workload = workloads[key.workload]
        if workload["kind"] not in ("fio", "rt-app", "server"):
            raise RigError(f"workload {key.workload}: the laboratory runs fio jobs, rt-app files and servers")
        if workload["kind"] == "fio" and workload.get("warm_up_s"):
            raise RigError(
                f"workload {key.workload}: the laboratory counts from a job's first request, and the simulation leaves "
                f"out {workload['warm_up_s']:g} s; give the study `warm_up_s = 0`"
            )
        job = simulated / workload["source"]
        policies = parse_set(sets[key.policy])
        machine = Machine(machines[key.machine])
        governor = next((policy for policy in policies if policy.name in GOVERNORS), Mechanism("menu", None, {}))
        cells.append(
            Cell(
                int(file.stem),
                key,
                job,
                read_rt_app(key.workload, job, entries[key.workload]) if workload["kind"] == "rt-app" else None,
                read_server(key.workload, job) if workload["kind"] == "server" else None,
                machines[key.machine],
                # What results call the set has a version only if the study gives one.
                governor.version if governor.version and "@" in key.policy else machine.kernel,
                governor.name not in DEBIANS or machine.hz != DEBIANS_HZ or machine.irq_time,
                sets[key.policy],
                policies,
                machine.power_states(program, apst_options(policies)),
            )
        )
    return cells


def apst_options(policies: tuple[Mechanism, ...]) -> list[str]:
    """What the policies say of a drive's table, as options of `wakepath apst plan`."""
    options = []
    for policy in policies:
        if policy.name == "drive-latency":
            tolerance = policy.keys["tolerance"]
            # As the simulator has it: any is the largest number, auto the kernel's default.
            limit = {"any": str(2**64 - 1), "auto": ""}.get(tolerance, tolerance.removesuffix("us"))
            options += ["--max-latency-us", limit] if limit else []
        elif policy.name == "apst":
            for key, value in policy.keys.items():
                if key == "no_deepest":
                    options += ["--no-deepest"] if value == "on" else []
                elif key != "max_latency_us" or "drive-latency" not in (other.name for other in policies):
                    options += [f"--{key.replace('_', '-')}", value]
    return options
