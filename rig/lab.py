#!/usr/bin/env python3
"""wakepath-lab: runs a study in guests with real kernels and known hardware, in virtual time.

docs/background/laboratory.md explains it.

Example: rig/lab.py rig/laboratory/fidelity.toml --program target/debug/wakepath -o target/fidelity
"""

import argparse
import hashlib
import json
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from laboratory_guest import GuestRun, run_guest
from laboratory_replay import replay_studies
from laboratory_study import Cell, Key, cells_of
from packages import RigError, exit_status, wakepath


def guests(cells: list[Cell], runs_per_guest: int) -> list[list[Cell]]:
    """Cells that run in the same guest: the same machine and kernel, and the same repeat.

    What ran before in a guest decides on which CPU its tasks are. So each repeat has an order of its own.
    """
    groups: dict[tuple[str, str, bool, int], list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.key.machine, cell.kernel, cell.own_kernel, cell.key.repeat), []).append(cell)
    for (*_, repeat), group in groups.items():
        if repeat > 0:
            group.sort(key=lambda cell: hashlib.sha256(str(cell.key).encode()).digest())
    return [group[at : at + runs_per_guest] for group in groups.values() for at in range(0, len(group), runs_per_guest)]


def run_study(options: argparse.Namespace) -> int:
    """Simulates the study, runs it in guests, and leaves both results."""
    out: Path = options.output
    if options.measured and not options.measured.is_file():
        raise RigError(f"--measured {options.measured}: no such file; rig/lab.py leaves runs.jsonl")
    simulated, measured, results = out / "sim", out / "runs.jsonl", out / "lab"
    if options.resume:
        if not simulated.is_dir():
            raise RigError(f"--resume: {out} has nothing to go on with; run the study without it")
    else:
        if out.exists() and not options.force:
            raise RigError(f"{out} exists; --force replaces it, --resume goes on with what is missing")
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
    again = ["--resume"] if options.resume else []
    wakepath(options.program, "study", "run", str(options.study), "-o", str(simulated), *again)
    if options.measured:
        shutil.copy(options.measured, measured)
    else:
        measure(options, simulated, measured)
    compared = [simulated, results]
    wakepath(options.program, "results", "laboratory", str(simulated), str(measured), "-o", str(results), "--force")
    if options.record:
        for study, replayed in replay_studies(cells_of(simulated, options.program), out):
            wakepath(options.program, "study", "run", str(study), "--on", "replay", "-o", str(replayed), "--force")
            compared.insert(-1, replayed)
    print(f"lab: next: wakepath compare {' '.join(map(str, compared))}")
    return 0


def finished(measured: Path) -> list[dict[str, Any]]:
    """The runs that an earlier time has left; a line that was cut off counts for nothing."""
    runs = []
    for line in measured.read_text().splitlines() if measured.is_file() else ():
        try:
            runs.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return runs


def measure(options: argparse.Namespace, simulated: Path, measured: Path) -> None:
    """Runs the cells in guests that have not been run yet, with a line for each."""
    cells, done = cells_of(simulated, options.program), finished(measured)
    keys = [Key(**run["key"]) for run in done]
    earlier = len(list(measured.parent.glob("guest-*")))
    groups = guests([cell for cell in cells if cell.key not in keys], options.runs_per_guest)
    try:
        with measured.open("w") as lines:
            lines.writelines(json.dumps(run) + "\n" for run in done)
            for run in runs_of(options, groups, simulated, earlier):
                lines.write(json.dumps(run) + "\n")
                lines.flush()
    except (KeyboardInterrupt, RigError) as error:
        kept = len(finished(measured))
        said = f"{measured} has {kept} of {len(cells)} runs; --resume goes on with the others"
        raise type(error)("\n".join([*map(str, error.args), said])) from error


def runs_of(
    options: argparse.Namespace, groups: list[list[Cell]], simulated: Path, earlier: int
) -> Iterator[dict[str, Any]]:
    """What is measured, guest by guest."""
    for number, group in enumerate(groups, 1):
        first = group[0]
        kind = "a Linux of our own" if first.own_kernel else "Debian's Linux"
        print(f"lab: guest {number} of {len(groups)}: {first.key.machine}, {kind} {first.kernel}, {len(group)} runs")
        sys.stdout.flush()
        guest = GuestRun(
            group,
            simulated,
            options.output / f"guest-{earlier + number}",
            shift=options.shift,
            timeout_s=options.timeout,
            own_kernels=options.kernels,
            seed=options.seed,
            events=options.trace,
            program=options.program,
            record=options.record,
            all_tasks=options.all_tasks,
            device_interrupts=options.device_interrupts,
        )
        yield from run_guest(guest)


def events(text: str) -> list[str]:
    """Names of trace events, as folders: `power/cpu_idle`, or a whole subsystem, `timer`."""
    names = text.split(",")
    if wrong := next((name for name in names if not re.fullmatch(r"\w+(/\w+)?", name)), None):
        raise argparse.ArgumentTypeError(f"`{wrong}` is not a trace event; write it as `power/cpu_idle` or `timer`")
    return names


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", type=Path, help="study file with fio jobs; its machine is what the guest becomes")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder for sim/, lab/ and what guests left")
    parser.add_argument(
        "--program", type=Path, default=Path("target/debug/wakepath"), help="wakepath itself (target/debug/wakepath)"
    )
    parser.add_argument("--measured", type=Path, help="runs.jsonl of an earlier time, in place of running guests")
    again = parser.add_mutually_exclusive_group()
    again.add_argument("--force", action="store_true", help="replace the output folder")
    again.add_argument("--resume", action="store_true", help="go on with the runs that an earlier time did not come to")
    parser.add_argument(
        "--trace",
        type=events,
        default=[],
        metavar="EVENTS",
        help="trace these events of the kernel (sched/sched_switch,power/cpu_idle) into guest-N/runs/*.trace; "
        "tracing takes time, so such a run is not a measurement",
    )
    parser.add_argument("--seed", type=int, default=1, help="of service times and exit latencies (1)")
    parser.add_argument(
        "--shift", type=int, default=0, choices=range(4), help="an instruction takes 2^SHIFT ns of the guest's time (0)"
    )
    parser.add_argument(
        "--record",
        action="store_true",
        help="record each run in its guest, and replay the recordings; takes CPU time there",
    )
    parser.add_argument(
        "--all-tasks", action="store_true", help="with --record, the steps of all tasks, as wakepath record --all-tasks"
    )
    parser.add_argument(
        "--device-interrupts",
        action="store_true",
        help="drives interrupt as devices do (irq_handler_entry), and complete by rq_affinity; takes CPU time",
    )
    parser.add_argument("--runs-per-guest", type=int, default=1000, help="most runs before the guest is started anew")
    parser.add_argument("--timeout", type=float, default=3600, help="seconds after which a guest is given up (3600)")
    parser.add_argument(
        "--kernels",
        type=Path,
        default=None,
        help="folder with kernels of one's own, as rig/own_kernel.py leaves them; for what Debian's lack",
    )
    options = parser.parse_args(arguments)
    if options.all_tasks and not options.record:
        parser.error("--all-tasks is for --record")
    return options


def main() -> int:
    """0: all ran, 2: the laboratory failed, 3: it lacks something."""
    options = parse(sys.argv[1:])
    return exit_status("lab", lambda: run_study(options))


if __name__ == "__main__":
    sys.exit(main())
