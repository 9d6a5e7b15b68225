"""Building kernel modules with the headers of Debian's packages, which expect to be installed, on a newer release."""

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from kernels import Kernel
from packages import Packages, RigError, run

# The release of Debian whose libc programs need that this machine's is too old for.
NEWER = "trixie"
LIBC = re.compile(rb"GLIBC_2\.(\d+)")
# gcc-14 has an option that gcc-12 does not: what it asks for is a matter of speed.
COMPILER = """#!/bin/sh
for option; do
    shift
    case $option in
    -fmin-function-alignment=*) option=-falign-functions=${option#*=} ;;
    esac
    set -- "$@" "$option"
done
exec gcc "$@"
"""


def build_module(source: Path, kernel: Kernel, into: Path) -> Path:
    """Builds a kernel module."""
    (build, *others) = kernel.headers
    if others:
        build = headers_tree(kernel.headers, kernel.release, into)
    work = into / source.name
    shutil.copytree(source, work, dirs_exist_ok=True)
    # Type information of the module itself would need pahole, and nobody here looks at it.
    run(["make", "-C", str(build), f"M={work}", "CONFIG_DEBUG_INFO_BTF_MODULES=", "modules"])
    built = list(work.glob("*.ko"))
    if len(built) != 1:
        raise RigError(f"{source} built {len(built)} modules instead of one")
    return built[0]


def headers_tree(packages: Sequence[Path], release: str, into: Path) -> Path:
    """The folder to build kernel modules with, put together in `into` of unpacked packages.

    Those expect to lie in `/usr/src` and `/usr/lib`, and are told otherwise.
    """
    headers = into / "headers"
    for package in packages:
        shutil.copytree(package / "usr", headers / "usr", symlinks=True, dirs_exist_ok=True)
    build = headers / f"usr/src/linux-headers-{release}"
    makefile = build / "Makefile"
    makefile.write_text(makefile.read_text().replace("/usr/src/", f"{headers}/usr/src/"))
    wanted = build / ".kernelvariables"
    compiler = re.search(r"\)(gcc-\d+)$", wanted.read_text(), re.MULTILINE) if wanted.is_file() else None
    if compiler and shutil.which(compiler[1]) is None:
        ours = into / "compiler"
        ours.write_text(COMPILER)
        ours.chmod(0o755)
        wanted.write_text(f"{wanted.read_text()}\noverride CC = {ours}\n")
    run_with_newer_libc(headers / "usr/lib")
    return build


def run_with_newer_libc(folder: Path) -> None:
    """Has the programs that this machine's libc is too old for run with that of a newer Debian."""
    own = int((os.confstr("CS_GNU_LIBC_VERSION") or "glibc 2.0").split(".")[1])
    programs = [path for path in folder.rglob("*") if path.is_file() and os.access(path, os.X_OK)]
    for program in programs:
        content = program.read_bytes()
        needs = max((int(minor) for minor in LIBC.findall(content)), default=0)
        if not content.startswith(b"\x7fELF") or needs <= own:
            continue
        libc = Packages("amd64", NEWER).unpacked("libc6") / "usr/lib/x86_64-linux-gnu"
        real = program.with_name(f"{program.name}.bin")
        program.rename(real)
        linker = libc / "ld-linux-x86-64.so.2"
        program.write_text(f'#!/bin/sh\nexec {linker} --library-path {libc}:/lib/x86_64-linux-gnu {real} "$@"\n')
        program.chmod(0o755)
