#!/usr/bin/env python3
"""Runs `wakepath calibrate` in a guest of the laboratory, whose hardware takes known times.

docs/background/laboratory.md explains it.

Example: rig/lab_calibrate.py rig/laboratory/debian-6.12.toml -o target/calibrated -- --budget 20s --size 32m
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from initramfs import Initramfs
from kernels import find_kernel
from laboratory_guest import FINISH, PREPARE, add_functions, add_hardware, power_states
from laboratory_machine import Machine, PowerState
from machine import boot, check_memory, laboratory_command, unpack_results
from packages import RigError, exit_status

from rig import COMMON_MODULES, find_program

# Of the drive, kept in the guest's memory of 1 GiB; the file system has all of it.
STORE_MIB = 256
# Calibrating keeps CPUs in POLL for most of its time. With the kernel's POLL an emulator takes fifty times as long.
POLL_BURST_NS = 500


def run_guest(options: argparse.Namespace) -> int:
    """Puts the guest together and runs it; what it measured is in the output folder."""
    machine = Machine(options.machine)
    kernel = find_kernel("x86", machine.kernel, None)
    out: Path = options.output
    if out.exists() and not options.force:
        raise RigError(f"{out} exists; --force replaces it")
    shutil.rmtree(out, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="wakepath-lab-") as folder:
        scratch = Path(folder)
        tree = Initramfs(scratch / "root")
        sourced = add_functions(tree, machine, ["laboratory.sh", "calibrate.sh"])
        for number, job in enumerate(options.job):
            tree.add(job, f"rig/jobs/{number}.fio")
        jobs = " ".join(f"--job /rig/jobs/{number}.fio" for number in range(len(options.job)))
        work = f"calibrate_guest {STORE_MIB << 10} {jobs} {' '.join(options.options)}"
        tree.add_script([*sourced, PREPARE, "fresh menu performance", power_states(options.sleep), work, FINISH])
        for program in (str(options.program), "fio", "mke2fs"):
            tree.add_program(find_program(program))
        tree.add_modules(kernel, [*COMMON_MODULES, "crc32c_generic", "ext4"])
        add_hardware(tree, kernel, machine, 1, [f"store_mib={STORE_MIB}"], (f"poll_burst_ns={POLL_BURST_NS}",))
        tree.pack(scratch / "initramfs")
        command = laboratory_command(machine.cpus, 0, None)
        console = boot(command, kernel.image, scratch / "initramfs", scratch, options.timeout)
        check_memory(scratch / "console.txt")
        status = unpack_results(scratch, out, console)
    if status != 0:
        logs = [out / name for name in ("log.txt", "calibration.txt")]
        said = "\n".join(log.read_text(errors="replace")[-2000:] for log in logs if log.exists())
        raise RigError(f"the guest's script failed with status {status}:\n{said}")
    print(f"lab: {out}/machine.toml is what the guest says of itself, and {out}/calibration.json what it measured")
    return 0


def sleep_state(text: str) -> PowerState:
    """A power state of the drive: after so long without requests, entry and exit, in us."""
    parts = text.split(":")
    if len(parts) != 3 or not all(part.isdigit() for part in parts):
        raise argparse.ArgumentTypeError(f"`{text}` is not IDLE:ENTRY:EXIT in us, such as 50000:1000:2000")
    return PowerState(*map(int, parts))


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("machine", type=Path, help="complete machine file: what the guest becomes")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder for what the guest leaves")
    parser.add_argument(
        "--program", type=Path, default=Path("target/debug/wakepath"), help="wakepath itself (target/debug/wakepath)"
    )
    parser.add_argument(
        "--job", type=Path, action="append", default=[], help="fio job to predict in place of the usual ones"
    )
    parser.add_argument(
        "--sleep",
        type=sleep_state,
        action="append",
        default=[],
        metavar="IDLE:ENTRY:EXIT",
        help="a power state that the drive enters after IDLE us without requests; entry and exit in us",
    )
    parser.add_argument("--force", action="store_true", help="replace the output folder")
    parser.add_argument("--timeout", type=float, default=3600, help="seconds after which the guest is given up (3600)")
    parser.epilog = "Behind -- come options of `wakepath calibrate`, as --budget and --size."
    at = arguments.index("--") if "--" in arguments else len(arguments)
    options = parser.parse_args(arguments[:at])
    options.options = arguments[at + 1 :]
    return options


def main() -> int:
    """0: calibrated, 2: the laboratory failed, 3: it lacks something."""
    options = parse(sys.argv[1:])
    return exit_status("lab", lambda: run_guest(options))


if __name__ == "__main__":
    sys.exit(main())
