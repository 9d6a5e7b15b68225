#!/usr/bin/env python3
"""Runs a script in a virtual machine with a stock Debian kernel and real idle states (docs/background/laboratory.md).

Example: rig/rig.py x86 --kernel 6.1 --program target/debug/wakepath --out target/rig rig/guest/look.sh
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from initramfs import Initramfs, built_module
from kernels import Kernel, find_kernel
from laboratory_machine import check_state_name
from machine import arm64_command, boot, unpack_results, x86_command
from packages import REPOSITORY, SETUP, Packages, RigError, UnavailableError, exit_status, wakepath

# The disk that results travel on, and randomness.
COMMON_MODULES = ["virtio_pci", "virtio_blk", "virtio_rng"]
IDLE_MODULE = Path("rig/module")
# The driver of KVM guests, which needs KVM below it: ours by its name and with its state, as rig/module takes them.
HALTPOLL = "name=haltpoll states=haltpoll:1:1"
# What trace-cmd needs in a guest of another architecture than this machine's.
ARM64_PACKAGES = ["busybox-static", "trace-cmd", "libtraceevent1", "libtracefs1", "libzstd1", "libc6"]


def x86_guest(tree: Initramfs, kernel: Kernel, options: argparse.Namespace) -> None:
    """Programs of this machine, an NVMe drive, and idle states."""
    tree.add(Path("/bin/busybox"), "bin/busybox")
    for program in ["fio", "trace-cmd", "perf", *options.program]:
        tree.add_program(find_program(program))
    tree.add_modules(kernel, [*COMMON_MODULES, "nvme", *options.load])
    if options.idle_driver == "haltpoll":
        states = HALTPOLL
    else:
        states = idle_states(options.wakepath, options.machine) if options.machine else ""
    sources = [*([] if options.idle_driver == "none" else [IDLE_MODULE]), *options.module]
    if not kernel.headers:
        # Without our idle driver, the guest has the idle states that its kernel finds by itself.
        names = ", ".join(str(source) for source in sources)
        print(f"rig: nothing to build modules with (no `build` in --modules, no tree around the image): no {names}")
        return
    for source in sources:
        tree.add_module(built_module(REPOSITORY / source, kernel), states if source == IDLE_MODULE else "")


def arm64_guest(tree: Initramfs, kernel: Kernel) -> None:
    """Debian's own programs for the architecture, and NVMe drives; idle states come with the device tree."""
    packages = Packages("arm64")
    for name in ARM64_PACKAGES:
        for part in ("bin", "lib", "usr/bin", "usr/lib"):
            folder = packages.unpacked(name) / part
            if folder.is_dir():
                tree.add(folder, part)
    tree.add_modules(kernel, [*COMMON_MODULES, "nvme"])


def idle_states(program: Path, machine: str) -> str:
    """The declared states of a machine, a recorded system or a driver's table as rig/module takes them."""
    states = []
    for line in wakepath(program, "machine", "show", machine, "--format", "states").splitlines():
        name, exit_ns, residency_ns, polling, _ = line.split(",")
        if polling == "0":
            check_state_name(machine, name)
            states.append(f"{name}:{-(-int(exit_ns) // 1000)}:{-(-int(residency_ns) // 1000)}")
    return f"states={','.join(states)}"


def find_program(name: str) -> Path:
    """A path as it is; a bare name as the shell would find it."""
    found = shutil.which(name)
    if found is None:
        raise UnavailableError(f"no program {name}; {SETUP}")
    return Path(found).resolve()


def run_guest(options: argparse.Namespace) -> int:
    """Puts the guest together, runs it; the exit status of its script."""
    if options.machine and options.guest != "x86":
        raise RigError("--machine is for x86: the idle states of arm64 are in its device tree")
    if (options.append or options.idle_driver != "states") and options.guest != "x86":
        raise RigError("--append and --idle-driver are for x86")
    if options.machine and options.idle_driver != "states":
        raise RigError(f"--machine has idle states of its own, and --idle-driver {options.idle_driver} others or none")
    missing = [str(path) for path in options.script if not path.is_file()]
    if missing:
        raise RigError(f"no script {', '.join(missing)}")
    kernel = find_kernel(options.guest, options.kernel, options.modules)
    with tempfile.TemporaryDirectory(prefix="wakepath-rig-") as folder:
        scratch = Path(folder)
        tree = Initramfs(scratch / "root")
        tree.add(REPOSITORY / "rig/guest/init", "init")
        tree.add_script([path.read_text() for path in options.script])
        for item in options.add:
            tree.add(Path(item), f"rig/{Path(item).name}")
        if options.guest == "x86":
            x86_guest(tree, kernel, options)
            command = x86_command(scratch, options.append, shared_vector=options.shared_vector)
        else:
            arm64_guest(tree, kernel)
            command = arm64_command(scratch, shared_vector=options.shared_vector)
        tree.pack(scratch / "initramfs")
        console = boot(command, kernel.image, scratch / "initramfs", scratch, options.timeout)
        return unpack_results(scratch, options.out, console)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("guest", choices=["x86", "arm64"])
    parser.add_argument(
        "script", type=Path, nargs="+", help="shell scripts to run in the guest; what they leave in /out comes back"
    )
    parser.add_argument(
        "--kernel",
        default="6.1",
        help="Debian's 6.1 (default) or, for x86, 6.1-rt (PREEMPT_RT), 6.12 or 7.3; or an image of your own",
    )
    parser.add_argument(
        "--modules", type=Path, help="folder with that image's modules, as `make modules_install` filled it"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for what comes back: log.txt, /out, console")
    parser.add_argument("--program", action="append", default=[], help="program of this machine to have in the guest")
    parser.add_argument("--add", action="append", default=[], help="file or folder to have in the guest's /rig")
    parser.add_argument(
        "--load", action="append", default=[], help="x86: module of the guest's kernel to load, such as dm_crypt"
    )
    parser.add_argument(
        "--machine",
        help="x86: whose declared idle states it has: a name of `wakepath machine list` or a file",
    )
    parser.add_argument(
        "--idle-driver",
        choices=["states", "haltpoll", "none"],
        default="states",
        help="x86: several states (default); the name and the one state of a KVM guest's driver; or no driver",
    )
    parser.add_argument(
        "--wakepath",
        type=Path,
        default=REPOSITORY / "target/debug/wakepath",
        help="the program that knows machines (target/debug/wakepath)",
    )
    parser.add_argument(
        "--module", action="append", default=[], type=Path, help="folder with a kernel module to build and load, too"
    )
    parser.add_argument("--append", default="", help="x86: more parameters for the kernel, such as threadirqs")
    parser.add_argument(
        "--shared-vector",
        action="store_true",
        help="a second NVMe drive, with one queue that shares its interrupt with the controller's own commands",
    )
    parser.add_argument("--timeout", type=float, default=110, help="seconds after which the guest is given up (110)")
    return parser.parse_args(arguments)


def main() -> int:
    """Runs the guest; 0: its script succeeded, 1: it failed, 2: the rig failed, 3: the rig lacks something."""
    options = parse(sys.argv[1:])
    return exit_status("rig", lambda: run_script(options))


def run_script(options: argparse.Namespace) -> int:
    """Runs the guest, and shows the end of its script's log if that failed; 0: it succeeded, 1: it failed."""
    status = run_guest(options)
    if status != 0:
        log = (options.out / "log.txt").read_text(errors="replace")
        print(f"rig: the guest's script failed with status {status}:\n{log[-4000:]}", file=sys.stderr)
    return 1 if status else 0


if __name__ == "__main__":
    sys.exit(main())
