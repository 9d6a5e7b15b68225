"""Request servers in the laboratory: what a server file asks of rig/guest/server.c."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packages import REPOSITORY, RigError
from packages import run as run_command


@dataclass(frozen=True)
class Server:
    """A server file as the guest's program takes it."""

    workers: int
    rate: float
    # `fixed` or `poisson`.
    pattern: str
    seconds: float
    # CPU work before and after its calls.
    work_ns: int
    reply_ns: int
    # 0: no read, no log.
    read_bytes: int
    log_bytes: int

    def command(self, cpus: int, seed: int, device: str) -> str:
        """The program's command line; requests interrupt one of so many CPUs."""
        words = (cpus, self.workers, self.rate, self.pattern, self.seconds, seed, self.work_ns, self.reply_ns)
        return " ".join(["server", *map(str, words), device, str(self.read_bytes), str(self.log_bytes)])


def number(value: Any) -> float:
    """A figure with or without its origin."""
    return float(value["value"] if isinstance(value, dict) else value)


def read_server(workload: str, path: Path) -> Server:
    """A workload of a simulated study. Refuses what the guest's program cannot do."""

    def check(asked: dict[str, Any], known: set[str], only: dict[str, Any], where: str) -> None:
        for key, value in asked.items():
            if key not in known and (key not in only or only[key] != value):
                raise RigError(f"workload {workload}: servers of the laboratory have no `{key} = {value}` in {where}")

    content = tomllib.loads(path.read_text())
    check(
        content,
        {"name", "workers", "seconds", "arrivals", "request", "log"},
        {"kind": "server", "warm_up_s": 0},
        "the file",
    )
    arrivals, request, log = content["arrivals"], content["request"], content.get("log", {})
    check(arrivals, {"pattern", "rate"}, {}, "`arrivals`")
    check(request, {"work_us", "reply_us", "disk"}, {"spread": "fixed"}, "`request`")
    calls = request.get("disk", [])
    if len(calls) > 1 or not (calls or log) or "warm_up_s" not in content:
        raise RigError(
            f"workload {workload}: a server of the laboratory has `warm_up_s = 0`, and one `[[request.disk]]`, "
            "a `[log]` or both"
        )
    one_read = {"operation": "read", "direct": True, "calls": 1, "together": False, "share": 1}
    for call in calls:
        check(call, {"bytes"}, one_read, "`[[request.disk]]`")
    shared = {"sync": "each", "block_bytes": 4096, "largest_write_bytes": 1 << 20, "group_commit": True, "work_us": 0}
    check(log, {"bytes"}, shared, "`log`")
    return Server(
        content.get("workers", 1),
        number(arrivals["rate"]),
        arrivals["pattern"],
        content.get("seconds", 10),
        round(number(request["work_us"]) * 1000),
        round(number(request.get("reply_us", 0)) * 1000),
        sum(round(number(call["bytes"])) for call in calls),
        round(number(log["bytes"])) if log else 0,
    )


def server_program(scratch: Path) -> Path:
    """rig/guest/server.c as a program."""
    program = scratch / "server"
    source = str(REPOSITORY / "rig/guest/server.c")
    run_command(["gcc", "-O2", "-static", "-pthread", "-o", str(program), source, "-lm"])
    return program
