"""rt-app in the laboratory: its file as rt-app 1.0 takes it, and what its logs say."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packages import Packages, RigError

# Where rt-app's log of a run is in a guest, below /out/runs.
LOGS = "{number:06}.rt-app"
# Of each thread, kept in memory until it ends: 12,000 lines per MiB.
LOG_MIB = 4
# Phases that it has room for; rt-app overwrites the oldest.
MOST_LINES = LOG_MIB * 2**20 // 88
# Events that may put a thread to sleep without the log saying for how long it then took to wake up.
UNLOGGED = ("sleep", "lock", "wait", "sync", "barrier", "suspend", "sem_wait")


@dataclass(frozen=True)
class RtApp:
    """A file of rt-app."""

    content: dict[str, Any]
    seconds: int
    # After the start of the watched time, what ends before is not counted.
    warm_up_us: int

    @property
    def first(self) -> tuple[str, dict[str, Any]]:
        """The task whose loops are the operations."""
        tasks: dict[str, dict[str, Any]] = self.content["tasks"]
        return next(iter(tasks.items()))

    def rows_per_loop(self) -> int | None:
        """Lines of a thread's log for each time that it goes through its phases; None: it never comes to their end."""
        loops = [phase["loop"] for phase in self.first[1]["phases"].values()]
        return None if -1 in loops else sum(loops)

    def logs_wake_ups(self) -> bool:
        """Whether a line of the log has the latency of one wake-up, and there are no others."""
        for phase in self.first[1]["phases"].values():
            kinds = [name.rstrip("0123456789") for name in phase]
            if kinds.count("timer") > 1 or any(kind in UNLOGGED for kind in kinds):
                return False
        return True

    def file(self, number: int) -> str:
        """As the guest runs it; the guest puts its own calibration in."""
        log = {"logdir": f"/out/runs/{LOGS.format(number=number)}", "log_basename": "thread", "log_size": LOG_MIB}
        of_all = {"duration": self.seconds, "calibration": "CPU0", "lock_pages": False} | log
        return json.dumps(self.content | {"global": of_all}, indent=1)

    def measured(self, runs: Path, number: int, watched_ns: tuple[int, int]) -> dict[str, Any]:
        """The logs of the first task's threads as wakepath reads them. Counted is what ends in the watched time."""
        name, task = self.first
        folder = runs / LOGS.format(number=number)
        files = [folder / f"thread-{name}-{thread}.log" for thread in range(task["instance"])]
        try:
            logs = [file.read_text() for file in files]
        except OSError as error:
            raise RigError(f"rt-app left no log: {error}") from error
        if any(log.count("\n") > MOST_LINES for log in logs):
            raise RigError(f"rt-app's log of a thread has room for {MOST_LINES} phases; give fewer `seconds`")
        begin, end = watched_ns
        return {
            "logs": ["\n".join(" ".join(line.split()) for line in log.splitlines()) for log in logs],
            "from_us": begin // 1000 + self.warm_up_us,
            "to_us": end // 1000,
            "rows_per_loop": self.rows_per_loop(),
            "logs_wake_ups": self.logs_wake_ups(),
        }


def read_rt_app(workload: str, path: Path, entry: dict[str, Any]) -> RtApp:
    """A workload of a simulated study; `entry` is what the study says of it. Refuses what rt-app 1.0 cannot do."""

    def refuse(why: str) -> RigError:
        return RigError(f"workload {workload}: {why}")

    content = json.loads(path.read_text())
    seconds = entry.get("seconds", content["global"]["duration"])
    if seconds != int(seconds) or seconds < 1:
        raise refuse("rt-app runs for whole seconds; give `seconds` in the study, or a `duration` in the file")
    if entry.get("copies", 1) != 1:
        raise refuse("the laboratory runs an rt-app file once; write the tasks of all `copies` into the file")
    tasks = content["tasks"]
    if "instances" in entry:
        next(iter(tasks.values()))["instance"] = entry["instances"]
    for name, task in tasks.items():
        if "/" in name:
            raise refuse(f"task `{name}`: rt-app names a file after it, so it cannot have a `/`")
        for phase in task["phases"].values():
            if "policy" in phase:
                raise refuse(f"task `{name}`: rt-app 1.0 takes a policy or priority of a whole task, not of a phase")
            if any(key.startswith(("sem_post", "sem_wait")) for key in phase):
                raise refuse(f"task `{name}`: rt-app 1.0 has no `sem_post` and `sem_wait`")
            if any(key.startswith("iorun") for key in phase):
                raise refuse(f"task `{name}`: `iorun` writes to the page cache in rt-app, and to the drive here")
    return RtApp(content, int(seconds), round(entry.get("warm_up_s", 0) * 1e6))


def program() -> tuple[Path, Path]:
    """Debian's rt-app, and a folder with the library that this machine may lack."""
    packages = Packages("amd64")
    libraries = packages.unpacked("libjson-c5") / "usr/lib/x86_64-linux-gnu"
    return packages.unpacked("rt-app") / "usr/bin/rt-app", libraries
