#!/usr/bin/env python3
"""Builds a small kernel for the laboratory from Debian's sources, with what Debian's images lack.

docs/background/laboratory.md explains it.

Example: rig/own_kernel.py 6.12 --hz 1000 --out .cache/kernels
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from packages import REPOSITORY, SETUP, Packages, RigError, UnavailableError, exit_status

# The suite that has the sources, where this machine's does not.
SOURCES = {"6.1": None, "6.12": None, "7.3": "trixie-backports"}
FRAGMENT = REPOSITORY / "rig/kernels/laboratory.config"
TICKS = (100, 250, 300, 1000)
# Trace events and kprobes, which cost the kernel time even where they are off.
TRACING = (
    "CONFIG_FTRACE=y\nCONFIG_ENABLE_DEFAULT_TRACERS=y\nCONFIG_KPROBES=y\nCONFIG_KPROBE_EVENTS=y\nCONFIG_KALLSYMS=y\n"
)
TOOLS = ("make", "gcc", "flex", "bison", "bc", "tar", "xz")


def build(options: argparse.Namespace) -> int:
    """Builds the kernel, unless the same one is there."""
    name = f"{options.version}-{options.hz}{'-irqtime' if options.irq_time else ''}"
    shelf: Path = options.out / name
    packages = Packages("amd64", SOURCES[options.version])
    source = packages.unpacked(f"linux-source-{options.version}")
    fragment = configuration(options)
    stamp = hashlib.sha256(f"{source.name}\n{fragment}".encode()).hexdigest()
    if (shelf / "stamp").is_file() and (shelf / "stamp").read_text() == stamp:
        print(f"own_kernel: {shelf} is there")
        return 0
    require_tools()
    shutil.rmtree(shelf, ignore_errors=True)
    tree = shelf / "build"
    tree.mkdir(parents=True)
    (archive,) = source.glob("usr/src/linux-source-*.tar.xz")
    step(["tar", "-xJf", str(archive), "-C", str(tree), "--strip-components=1"], shelf)
    (shelf / "fragment").write_text(fragment)
    step(["make", "-C", str(tree), f"KCONFIG_ALLCONFIG={shelf.resolve()}/fragment", "allnoconfig"], shelf)
    check(fragment, (tree / ".config").read_text())
    # Modules of our own link against what is built in: there are no others.
    step(["make", "-C", str(tree), f"-j{options.jobs}", "bzImage", "modules_prepare"], shelf)
    shutil.copy(tree / "vmlinux.symvers", tree / "Module.symvers")
    for path in tree.rglob("*.o"):
        if path.is_relative_to(tree / "scripts") or path.is_relative_to(tree / "tools"):
            continue
        path.unlink()
    (shelf / "stamp").write_text(stamp)
    print(f"own_kernel: {shelf} is built")
    return 0


def configuration(options: argparse.Namespace) -> str:
    """The configuration on top of none."""
    fragment = FRAGMENT.read_text() + f"CONFIG_HZ_{options.hz}=y\n"
    accounting = "IRQ_TIME_ACCOUNTING" if options.irq_time else "TICK_CPU_ACCOUNTING"
    tracing = TRACING if options.trace else ""
    return f"{fragment}CONFIG_{accounting}=y\n{tracing}"


def check(fragment: str, made: str) -> None:
    """Every option asked for is there: Kconfig drops what lacks something else."""
    lines = set(made.splitlines())
    missing = [line for line in fragment.splitlines() if line.endswith("=y") and line not in lines]
    if missing:
        raise RigError(f"this kernel's configuration cannot have {', '.join(missing)}")


def require_tools() -> None:
    """Says before the build what it would miss in its middle."""
    missing = [program for program in TOOLS if shutil.which(program) is None]
    if missing:
        raise UnavailableError(f"{', '.join(missing)} not installed; {SETUP}")


def step(command: list[str], shelf: Path) -> None:
    """A step, with what it says in a log."""
    log = shelf / "log"
    with log.open("a") as out:
        try:
            done = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, check=False)
        except FileNotFoundError as error:
            raise UnavailableError(f"{command[0]} is not installed") from error
    if done.returncode != 0:
        raise RigError(f"`{' '.join(command)}` failed; the end of {log}:\n{log.read_text(errors='replace')[-2000:]}")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version", choices=sorted(SOURCES), help="whose sources")
    parser.add_argument("--hz", type=int, choices=TICKS, default=250, help="ticks per second (250)")
    parser.add_argument("--irq-time", action="store_true", help="with CONFIG_IRQ_TIME_ACCOUNTING")
    parser.add_argument(
        "--trace", action="store_true", help="with trace events, for lab.py --trace; another --out keeps both kernels"
    )
    parser.add_argument("--out", type=Path, default=REPOSITORY / ".cache/kernels", help="folder (.cache/kernels)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="compilers at a time")
    return parser.parse_args(arguments)


def main() -> int:
    """0: it is there, 2: it could not be built, 3: something is missing."""
    options = parse(sys.argv[1:])
    return exit_status("own_kernel", lambda: build(options))


if __name__ == "__main__":
    sys.exit(main())
