#!/usr/bin/env python3
"""wakepath-lab: runs a study in guests with real kernels and known hardware, in virtual time (docs/laboratory.md).

Example: rig/lab.py rig/laboratory/fidelity.toml --program target/debug/wakepath -o target/fidelity
"""

import argparse
import json
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from laboratory_guest import GuestRun, run_guest
from laboratory_study import Cell, cells_of
from packages import RigError, exit_status, wakepath


def guests(cells: list[Cell], runs_per_guest: int) -> list[list[Cell]]:
    """Cells that run in the same guest: the same machine and kernel."""
    groups: dict[tuple[str, str, bool], list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.key.machine, cell.kernel, cell.own_kernel), []).append(cell)
    return [group[at : at + runs_per_guest] for group in groups.values() for at in range(0, len(group), runs_per_guest)]


def run_study(options: argparse.Namespace) -> int:
    """Simulates the study, runs it in guests, and leaves both results."""
    out: Path = options.output
    if options.measured and not options.measured.is_file():
        raise RigError(f"--measured {options.measured}: no such file; rig/lab.py leaves runs.jsonl")
    simulated, measured, results = out / "sim", out / "runs.jsonl", out / "lab"
    if out.exists() and not options.force:
        raise RigError(f"{out} exists; --force replaces it")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    wakepath(options.program, "study", "run", str(options.study), "-o", str(simulated))
    if options.measured:
        shutil.copy(options.measured, measured)
    else:
        measure(options, simulated, measured)
    wakepath(options.program, "results", "laboratory", str(simulated), str(measured), "-o", str(results))
    print(f"lab: next: wakepath compare {simulated} {results}")
    return 0


def measure(options: argparse.Namespace, simulated: Path, measured: Path) -> None:
    """Runs the cells in guests, with a line for each."""
    groups = guests(cells_of(simulated, options.program), options.runs_per_guest)
    with measured.open("w") as lines:
        for number, group in enumerate(groups, 1):
            first = group[0]
            kind = "a Linux of our own" if first.own_kernel else "Debian's Linux"
            print(
                f"lab: guest {number} of {len(groups)}: {first.key.machine}, {kind} {first.kernel}, {len(group)} runs"
            )
            sys.stdout.flush()
            guest = GuestRun(
                group,
                simulated,
                measured.parent / f"guest-{number}",
                shift=options.shift,
                timeout_s=options.timeout,
                own_kernels=options.kernels,
                seed=options.seed,
                events=options.trace,
            )
            for run in run_guest(guest):
                lines.write(json.dumps(run) + "\n")
            lines.flush()


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
    parser.add_argument("--force", action="store_true", help="replace the output folder")
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
    parser.add_argument("--runs-per-guest", type=int, default=1000, help="most runs before the guest is started anew")
    parser.add_argument("--timeout", type=float, default=3600, help="seconds after which a guest is given up (3600)")
    parser.add_argument(
        "--kernels",
        type=Path,
        default=None,
        help="folder with kernels of one's own, as rig/own_kernel.py leaves them; for what Debian's lack",
    )
    return parser.parse_args(arguments)


def main() -> int:
    """0: all ran, 2: the laboratory failed, 3: it lacks something."""
    options = parse(sys.argv[1:])
    return exit_status("lab", lambda: run_study(options))


if __name__ == "__main__":
    sys.exit(main())
