"""Slurm on this machine alone: one controller, one node, no accounts, no rights."""

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NEEDED = ("slurmctld", "slurmd", "sbatch")

# Of one user, on one machine: nobody has to be told from anybody else, and no control groups are needed.
CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
SlurmctldPort={controller}
SlurmdPort={node}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_min_interval=100000
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=64000 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> list[str]:
    """What of Slurm is not installed."""
    return [program for program in NEEDED if _program(program) is None]


def _program(name: str) -> str | None:
    # Daemons are where only root's shell looks.
    return shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")


@contextmanager
def running(folder: Path, cpus: int) -> Iterator[Path]:
    """Start a cluster of one node; give its configuration, which `SLURM_CONF` has to name."""
    host = socket.gethostname().partition(".")[0]
    with socket.socket() as one, socket.socket() as other:
        for free in (one, other):
            free.bind(("127.0.0.1", 0))
        controller, node = (free.getsockname()[1] for free in (one, other))
    for name in ("state", "spool"):
        (folder / name).mkdir()
    configuration = folder / "slurm.conf"
    configuration.write_text(
        CONFIGURATION.format(
            host=host, user=getpass.getuser(), controller=controller, node=node, folder=folder, cpus=cpus
        )
    )
    environment = {**os.environ, "SLURM_CONF": str(configuration)}
    daemons: list[subprocess.Popen[bytes]] = []
    try:
        for name in ("slurmctld", "slurmd"):
            with (folder / f"{name}.log").open("wb") as log:
                daemons.append(subprocess.Popen([str(_program(name)), "-D"], env=environment, stdout=log, stderr=log))
        _wait_for_node(folder, environment)
        yield configuration
    finally:
        subprocess.run(["scancel", f"--user={getpass.getuser()}"], env=environment, check=False)
        for daemon in reversed(daemons):
            daemon.terminate()
            daemon.wait(timeout=30)


def _wait_for_node(folder: Path, environment: dict[str, str]) -> None:
    ends = time.monotonic() + 60
    while time.monotonic() < ends:
        state = subprocess.run(
            ["sinfo", "--noheader", "--format=%T"], env=environment, capture_output=True, text=True, check=False
        ).stdout.strip()
        if state == "idle":
            return
        time.sleep(0.1)
    logs = "\n".join(log.read_text(errors="replace")[-2000:] for log in sorted(folder.glob("*.log")))
    raise TimeoutError(f"the node of Slurm is not ready after 60 s:\n{logs}")
