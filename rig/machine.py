"""The two virtual machines, and running one until it switches itself off."""

import re
import subprocess
import tarfile
import time
from pathlib import Path

from packages import REPOSITORY, SETUP, RigError, UnavailableError, run

CPUS = 2
MEMORY_MIB = 1024
# What a guest may hand back. The file is sparse.
OUT_BYTES = 512 << 20
NVME_BYTES = 256 << 20
# Of a console, as part of an error.
LAST_LINES = 20
ARM64_BOARD = ["-machine", "virt", "-cpu", "cortex-a57", "-smp", str(CPUS), "-m", str(MEMORY_MIB)]
X86_BOARD = ["-machine", "q35", "-cpu", "max", "-smp", str(CPUS), "-m", str(MEMORY_MIB)]


def x86_command(scratch: Path, parameters: str = "", *, shared_vector: bool = False) -> list[str]:
    """QEMU with `nvme_drives`, and with more parameters of the kernel."""
    return [
        "qemu-system-x86_64",
        *X86_BOARD,
        *nvme_drives(scratch, shared_vector=shared_vector),
        # Without idle=halt, the ACPI driver takes the place of ours. On a busy machine the kernel may find the timer
        # too slow at its start, and hang.
        *("-append", f"console=ttyS0 quiet panic=-1 no_timer_check idle=halt intel_idle.max_cstate=0 {parameters}"),
    ]


def nvme_drives(scratch: Path, *, shared_vector: bool) -> list[str]:
    """An emulated NVMe drive, which has a queue for each CPU.

    `shared_vector`: beside it another drive, with a single queue whose interrupt is also that of its own commands.
    """
    drives = [
        *("-drive", f"file={sparse(scratch / 'nvme.img', NVME_BYTES)},if=none,id=nvme,format=raw,cache=unsafe"),
        *("-device", "nvme,serial=rig,drive=nvme"),
    ]
    if shared_vector:
        drives += [
            *("-drive", f"file={sparse(scratch / 'shared.img', NVME_BYTES)},if=none,id=shared,format=raw,cache=unsafe"),
            *("-device", "nvme,serial=shared,drive=shared,max_ioqpairs=1,msix_qsize=1"),
        ]
    return drives


def laboratory_command(cpus: int, shift: int, in_turn_at_hz: int | None) -> list[str]:
    """QEMU in virtual time: an instruction takes 2^shift ns, and time in which all CPUs are idle passes at once.

    One CPU more plays the drives; the scheduler leaves it alone. `in_turn_at_hz` is the kernel's tick rate, where
    rig/guest/init starts the CPUs.
    """
    kernel = [
        *("console=ttyS0", "quiet", "panic=-1", "no_timer_check", "idle=halt", "intel_idle.max_cstate=0"),
        # Reading any other clock costs hundreds of instructions.
        *("tsc=reliable", "clocksource=tsc", "nowatchdog"),
        *(f"isolcpus=domain,managed_irq,{cpus}", "mitigations=off", "random.trust_cpu=on"),
        # The clock of CPUs runs at 1 GHz. What they measure while they take turns would be off.
        *(["maxcpus=1", f"lpj={10**9 // in_turn_at_hz}"] if in_turn_at_hz else []),
    ]
    return [
        "qemu-system-x86_64",
        *("-machine", "q35", "-cpu", "max,+invtsc", "-smp", str(cpus + 1), "-m", str(MEMORY_MIB)),
        *("-icount", f"shift={shift},sleep=off", "-rtc", "clock=vm", "-seed", "1"),
        *("-append", " ".join(kernel)),
    ]


def arm64_command(scratch: Path, *, shared_vector: bool = False) -> list[str]:
    """QEMU whose device tree has idle states, with `nvme_drives`."""
    tree = scratch / "virt.dtb"
    source = scratch / "virt.dts"
    run(["qemu-system-aarch64", *ARM64_BOARD, "-machine", f"dumpdtb={tree}", "-nographic"])
    states = (REPOSITORY / "rig/arm64/idle-states.dtsi").read_text()
    source.write_text(run(["dtc", "-q", "-I", "dtb", "-O", "dts", str(tree)]) + states)
    run(["dtc", "-q", "-I", "dts", "-O", "dtb", "-o", str(tree), str(source)])
    return [
        "qemu-system-aarch64",
        *ARM64_BOARD,
        *("-dtb", str(tree), "-append", "console=ttyAMA0 quiet panic=-1"),
        *nvme_drives(scratch, shared_vector=shared_vector),
    ]


def sparse(path: Path, size: int) -> Path:
    """A disk image full of nothing."""
    with path.open("wb") as image:
        image.truncate(size)
    return path


def boot(command: list[str], kernel: Path, initramfs: Path, scratch: Path, timeout_s: float) -> str:
    """Runs the guest until it is off; what it said on its console."""
    out = sparse(scratch / "out.img", OUT_BYTES)
    console = scratch / "console.txt"
    full = [
        *command,
        *("-kernel", str(kernel), "-initrd", str(initramfs)),
        *("-drive", f"file={out},if=none,id=out,format=raw,cache=unsafe", "-device", "virtio-blk-pci,drive=out"),
        # The kernel must not wait for randomness, and nobody plugs in a network.
        *("-device", "virtio-rng-pci", "-nic", "none"),
        # One thread for all CPUs: with several, one may run code that another has just patched, as hooks do, and the
        # kernel dies of an int3 that is no longer there.
        *("-accel", "tcg,thread=single", "-display", "none", "-monitor", "none", "-no-reboot"),
        *("-serial", f"file:{console}"),
    ]
    started = time.monotonic()
    try:
        done = subprocess.run(full, capture_output=True, text=True, timeout=timeout_s, check=False)
    except FileNotFoundError as error:
        raise UnavailableError(f"{full[0]} is not installed; {SETUP}") from error
    except subprocess.TimeoutExpired as error:
        raise RigError(f"the guest was not done after {timeout_s:g} s; {last_words(console)}") from error
    if done.returncode != 0:
        raise RigError(f"{full[0]} failed: {done.stderr.strip()}; {last_words(console)}")
    print(f"rig: the guest ran for {time.monotonic() - started:.1f} s")
    return console.read_text(errors="replace")


def last_words(console: Path) -> str:
    """The end of what the guest said, and first of all why its kernel gave up, if it did."""
    text = console.read_text(errors="replace") if console.exists() else ""
    if not text.strip():
        return "it said nothing on its console"
    panic = re.search(r"Kernel panic - (.*)", text)
    reason = f"its kernel panicked, {panic[1].strip()}; " if panic else ""
    last = "\n".join(text.rstrip().splitlines()[-LAST_LINES:])
    return f"{reason}its console ends with:\n{last}"


def check_memory(console: Path) -> None:
    """Says so where a guest's kernel killed something because there was no memory left."""
    text = console.read_text(errors="replace")
    if killed := re.findall(r"Out of memory: Killed process \d+ \((.+?)\)", text):
        names = " and ".join(dict.fromkeys(killed))
        said = last_words(console)
        raise RigError(f"the guest ran out of its {MEMORY_MIB} MiB of memory, and {names} was killed; {said}")


def unpack_results(scratch: Path, into: Path, console: str) -> int:
    """Puts the guest's /out into a folder; the exit status of its script."""
    into.mkdir(parents=True, exist_ok=True)
    (into / "console.txt").write_text(console)
    try:
        with tarfile.open(scratch / "out.img", "r:") as archive:
            archive.extractall(into, filter="data")
    except tarfile.TarError as error:
        last = last_words(into / "console.txt")
        raise RigError(f"the guest handed nothing back ({error}); {last}") from error
    status = into / "status.txt"
    # There but empty: the guest had no memory left to write it to.
    if not status.exists() or not status.read_text().strip():
        raise RigError(f"the guest ended before its script did; {last_words(into / 'console.txt')}")
    return int(status.read_text())
