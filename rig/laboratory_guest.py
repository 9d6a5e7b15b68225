"""A guest in virtual time: put together, run, and what it measured read."""

import json
import re
import shlex
import signal
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from initramfs import Initramfs, built_module
from kernels import Kernel, find_kernel
from laboratory_machine import Machine, PowerState
from laboratory_rt_app import program as rt_app_program
from laboratory_server import server_program
from laboratory_study import GOVERNORS, Cell, Mechanism
from machine import boot, check_memory, laboratory_command, unpack_results
from packages import REPOSITORY, RigError
from packages import run as run_command

from rig import COMMON_MODULES, find_program

# How long rt-app may take to end, in s of the guest.
RT_APP_GRACE_S = 10
DIRECTIONS = ("read", "write")
# What a guest keeps of its drive in its memory of 1 GiB; a file system has all of it.
STORE_MIB = 384
# By kind of file system: the program that makes one, and the kernel's modules.
FILE_SYSTEMS = {"ext4": ("mke2fs", ["crc32c_generic", "ext4"]), "xfs": ("mkfs.xfs", ["crc32c_generic", "xfs"])}
FREQUENCY_GOVERNORS = ("schedutil", "performance", "powersave", "ondemand")


@dataclass(frozen=True)
class GuestRun:
    """Cells of one machine and kernel, and how to run them."""

    cells: list[Cell]
    simulated: Path
    out: Path
    shift: int
    timeout_s: float
    own_kernels: Path | None
    seed: int
    # Trace events of the kernel, as folders below /sys/kernel/tracing/events.
    events: list[str]
    # wakepath itself, which records or gives leases in the guest.
    program: Path
    record: bool
    # Its recordings have the steps of all tasks.
    all_tasks: bool
    # Drives interrupt by interrupts of the kernel's.
    device_interrupts: bool


def run_guest(run: GuestRun) -> list[dict[str, Any]]:
    """Runs the cells; each as a line of `wakepath results laboratory`."""
    machine = Machine(run.cells[0].machine)
    for cell in run.cells:
        if not cell.rt_app and not cell.server:
            check_devices(cell, machine)
    kernel = kernel_for(run, machine)
    with tempfile.TemporaryDirectory(prefix="wakepath-lab-") as folder:
        scratch = Path(folder)
        tree = Initramfs(scratch / "root")
        sourced = add_functions(tree, machine, ["daemon.sh", "laboratory.sh"])
        if run.events:
            (tree.root / "rig/events").write_text(" ".join(run.events))
        (tree.root / "rig/jobs").mkdir(parents=True)
        for cell in run.cells:
            job = cell.rt_app.file(cell.number) if cell.rt_app else seeded(cell, run.seed)
            if not cell.rt_app and not cell.server and (log := log_of(job)):
                tree.add(REPOSITORY / log, log)
                job = job.replace(f"={log}", f"=/{log}")
            (tree.root / f"rig/jobs/{cell.number:06}").write_text(job)
        raid = [f"raid {machine.drives} {machine.chunk_bytes}"] if machine.drives > 1 else []
        uses_rt_app = any(cell.rt_app for cell in run.cells)
        files = [f"file_system {machine.file_system} {STORE_MIB}"] if machine.file_system else []
        prepare = [PREPARE, *raid, *files, *(["calibrate"] if uses_rt_app else [])]
        tree.add_script([*sourced, *prepare, *(script(cell, run.seed) for cell in run.cells), FINISH])
        tree.add_program(find_program("fio"))
        if uses_rt_app:
            tree.add_program(*rt_app_program())
        if any(cell.server for cell in run.cells):
            tree.add_program(server_program(scratch))
        if run.record:
            (tree.root / "rig/record").write_text("--all-tasks" if run.all_tasks else "")
        if run.record or any(by_daemon(policy) for cell in run.cells for policy in cell.policies):
            if not has_type_information(kernel):
                raise RigError(
                    f"{run.cells[0].key}: --record and the daemon take a kernel with type information "
                    f"(CONFIG_DEBUG_INFO_BTF), and {kernel.image} has none; Debian's have"
                )
            tree.add_program(find_program(str(run.program)))
        modules = [*COMMON_MODULES, *(["raid0"] if raid else [])]
        drive = ["device_interrupts=1"] if run.device_interrupts else []
        if machine.file_system:
            maker, needed = FILE_SYSTEMS[machine.file_system]
            tree.add_program(find_program(maker))
            modules += needed
            drive.append(f"store_mib={STORE_MIB}")
        tree.add_modules(kernel, modules)
        add_hardware(tree, kernel, machine, run.seed, drive)
        if any(by_module(policy) for cell in run.cells for policy in cell.policies):
            tree.add(built_module(REPOSITORY / "module", kernel), "rig/psd.ko")
        if any(spins(cell) for cell in run.cells):
            tree.add(built_module(REPOSITORY / "rig/spin", kernel), "rig/spin.ko")
        in_turn = starts_cpus_in_turn(kernel.release)
        if in_turn:
            tree.add(pause_program(scratch), "rig/pause")
        tree.pack(scratch / "initramfs")
        command = laboratory_command(machine.cpus, run.shift, machine.hz if in_turn else None)
        console = boot(command, kernel.image, scratch / "initramfs", scratch, run.timeout_s)
        check_memory(scratch / "console.txt")
        status = unpack_results(scratch, run.out, console)
    check_modules(console, run.out / "dmesg.txt")
    if status != 0:
        log = (run.out / "log.txt").read_text(errors="replace")
        raise RigError(f"the guest's script failed with status {status}:\n{log[-2000:]}")
    runs = [measured(cell, run.out, machine, kernel) for cell in run.cells]
    if run.record:
        recordings = run.out.parent / "recordings"
        recordings.mkdir(exist_ok=True)
        for recording in (run.out / "runs").glob("*.parquet"):
            recording.rename(recordings / recording.name)
    return runs


def add_functions(tree: Initramfs, machine: Machine, files: list[str]) -> list[str]:
    """Adds init, busybox and these files of functions from rig/guest; the lines with which a script takes them in."""
    tree.add(REPOSITORY / "rig/guest/init", "init")
    tree.add(Path("/bin/busybox"), "bin/busybox")
    for file in files:
        tree.add(REPOSITORY / "rig/guest" / file, f"rig/{file}")
    (tree.root / "rig/workers").write_text(" ".join(str(cpu) for cpu in range(machine.cpus)))
    (tree.root / "rig/drive-cpu").write_text(str(machine.cpus))
    return [f". /rig/{file}" for file in files]


def add_hardware(
    tree: Initramfs, kernel: Kernel, machine: Machine, seed: int, drive: list[str], idle: tuple[str, ...] = ()
) -> None:
    """Adds the modules that are the machine's idle states, drives and clocks.

    `drive` and `idle` are more parameters of the drives and of the idle states.
    """
    workers = f"cpus=0-{machine.cpus - 1}"
    for source, parameters in (
        ("module", " ".join(["masked=1", workers, f"seed={seed}", machine.idle_parameters(), *idle])),
        ("drive", " ".join([f"cpu={machine.cpus} seed={seed} {machine.drive_parameters()}", *drive])),
        ("cpufreq", f"{workers} {machine.frequency_parameters()}"),
    ):
        tree.add_module(built_module(REPOSITORY / "rig" / source, kernel), parameters)


def check_modules(console: str, log: Path) -> None:
    """Says which module the guest's kernel did not take, and what the module said about it."""
    if refused := re.findall(r"^rig: insmod (\S+) failed", console, re.MULTILINE):
        lines = re.findall(r"\bwakepath_\w+: .*", log.read_text(errors="replace"))
        # insmod tries twice. All modules of ours taint the kernel.
        said = dict.fromkeys(line for line in lines if "taint" not in line)
        raise RigError(f"the guest's kernel did not take {', '.join(refused)}:\n" + "\n".join(said))


def kernel_for(run: GuestRun, machine: Machine) -> Kernel:
    """Debian's kernel of the cells' version, or one of our own where Debian's lacks something."""
    first = run.cells[0]
    version = first.kernel
    if not first.own_kernel:
        return find_kernel("x86", version, None)
    if run.own_kernels is None:
        raise RigError(
            f"{first.key}: Debian's kernels lack its governor, tick rate or accounting of interrupt time; "
            "rig/own_kernel.py builds one that has it, and --kernels FOLDER names where"
        )
    folder = run.own_kernels / f"{version}-{machine.hz}{'-irqtime' if machine.irq_time else ''}"
    release = folder / "build/include/config/kernel.release"
    if not release.is_file():
        accounting = " --irq-time" if machine.irq_time else ""
        raise RigError(f"{folder}: no kernel; rig/own_kernel.py {version} --hz {machine.hz}{accounting} builds it")
    return Kernel(folder / "build/arch/x86/boot/bzImage", None, release.read_text().strip(), (folder / "build",))


def starts_cpus_in_turn(release: str) -> bool:
    """Whether a kernel, before 6.5, waits for a CPU that starts in a loop in which QEMU lets no other CPU run."""
    major, minor = (int(part) for part in release.split(".")[:2])
    return (major, minor) < (6, 5)


def pause_program(scratch: Path) -> Path:
    """rig/guest/pause.c as a program."""
    program = scratch / "pause"
    run_command(["gcc", "-O2", "-nostdlib", "-static", "-o", str(program), str(REPOSITORY / "rig/guest/pause.c")])
    return program


def has_type_information(kernel: Kernel) -> bool:
    """Whether eBPF programs of wakepath's find their way about it; of a kernel of one's own its configuration tells."""
    if kernel.modules is not None:
        return True
    return "CONFIG_DEBUG_INFO_BTF=y" in (kernel.headers[0] / ".config").read_text()


# Before the first run. The drives' interrupts come to the CPU that submitted.
PREPARE = """
if [ "$(cat /sys/devices/system/cpu/isolated)" != "$(cat /rig/drive-cpu)" ]; then
    echo "this kernel does not keep the CPU of the drives free (CONFIG_CPU_ISOLATION)"
    exit 1
fi
address=$(grep ' [Tt] tick_nohz_tick_stopped$' /proc/kallsyms | cut -d ' ' -f 1)
if [ -z "$address" ]; then
    echo "this kernel does not say where its tick_nohz_tick_stopped() is (CONFIG_KALLSYMS)"
    exit 1
fi
echo 0x$address >/sys/module/wakepath_idle/parameters/tick_stopped
for queue in /sys/block/drive*/queue; do
    echo 2 >$queue/rq_affinity
    echo none >$queue/scheduler
done
clocksource=/sys/devices/system/clocksource/clocksource0/current_clocksource
# The kernel calibrates the clock in its first second, and changes to it then.
for wait in $(seq 50); do
    [ "$(cat $clocksource)" = tsc-early ] || break
    usleep 100000
done
trusted=$(cat $clocksource)
"""
# Behind the last run. Each reading of a slower clock takes time from the jobs.
FINISH = """
if [ "$(cat $clocksource)" != "$trusted" ]; then
    echo "the kernel has changed its clocksource from $trusted to $(cat $clocksource) (dmesg.txt says why)"
    exit 1
fi
"""


def script(cell: Cell, seed: int) -> str:
    """What the guest does for a run."""
    governor, frequency, lines = "menu", "performance", []
    for policy in cell.policies:
        if policy.name in GOVERNORS:
            governor = policy.name
        elif policy.name in FREQUENCY_GOVERNORS:
            frequency = policy.name
        elif policy.name in ("apst", "drive-latency"):
            # The cell has the power states that follow.
            continue
        else:
            lines.append(setting(policy))
    if spins(cell):
        lines.append(f"spins {spin_turn_ns(cell)}")
    if cell.power_states is not None:
        lines.append(power_states(cell.power_states))
    number = f"{cell.number:06}"
    share = 0.8
    if cell.rt_app:
        seconds: float = cell.rt_app.seconds
        lines.append(f"calibrated {number}")
        program = f"timeout -s KILL {cell.rt_app.seconds + RT_APP_GRACE_S} rt-app /rig/jobs/{number}"
    elif cell.server:
        seconds = cell.server.seconds
        machine = Machine(cell.machine)
        program = cell.server.command(machine.cpus, seed + cell.key.repeat, machine.device)
    else:
        job = cell.job.read_text()
        seconds, share = watched_part(job)
        fio = f"fio --output-format=json+ --output=/out/runs/{number}.fio /rig/jobs/{number}"
        program = f"{environment_that_copies_by_vectors(job)}{fio}"
    watched = round(share * 1e6 * seconds)
    # What fails is then below the name of its run.
    named = f"echo {shlex.quote(f'run {number}: {cell.key.workload}, {cell.key.policy}')}"
    return "\n".join([named, f"fresh {governor} {frequency}", *lines, f"measure {number} {watched} {program}"])


def environment_that_copies_by_vectors(job: str) -> str:
    """For a job that maps its file: has the C library copy any size by vectors.

    Each byte of `rep movsb` is an instruction in QEMU.
    """
    if not re.search(r"^ioengine\s*=\s*mmap$", job, re.MULTILINE):
        return ""
    return "env GLIBC_TUNABLES=glibc.cpu.x86_rep_movsb_threshold=0x40000000 "


def spins(cell: Cell) -> bool:
    """A program and a kernel thread that spin without pauses."""
    is_fio = cell.rt_app is None and cell.server is None
    return is_fio and bool(re.search(r"^sqthread_poll\b", cell.job.read_text(), re.MULTILINE))


def spin_turn_ns(cell: Cell) -> int:
    """After how long the program of a cell that spins lets others run."""
    text = cell.job.read_text()
    for line in ("cpus_allowed=0", "sqthread_poll_cpu=1"):
        if line not in text.splitlines():
            raise RigError(f"workload {cell.key.workload}: a job of the laboratory with sqthread_poll needs `{line}`")
    turn = Machine(cell.machine).spin_turn_ns
    if turn == 0:
        raise RigError(f"machine {cell.key.machine}: sqthread_poll needs `emulator.spin_turn_us`, such as 5")
    return turn


def by_module(policy: Mechanism) -> bool:
    """Leases by the kernel module."""
    return policy.name == "psd" and policy.keys.get("rule") == "module"


def by_daemon(policy: Mechanism) -> bool:
    """Leases by `wakepath daemon`."""
    return policy.name == "psd" and policy.keys.get("rule") == "daemon"


def setting(policy: Mechanism) -> str:
    """What else a policy changes in the guest."""
    if policy.name == "cpu-latency" and set(policy.keys) == {"limit"}:
        us = int(policy.keys["limit"].removesuffix("us"))
        return f"limit {us:08x}"
    if policy.name == "idle-states" and set(policy.keys) == {"disable"}:
        return f"disable {shlex.join(policy.keys['disable'].split(','))}"
    if by_daemon(policy):
        # The daemon's configuration has no rule: its own is the only one.
        keys = ",".join(f"{key}={value}" for key, value in policy.keys.items() if key != "rule")
        return f"daemon {shlex.quote(f'psd[{keys}]' if keys else 'psd')}"
    if by_module(policy) and set(policy.keys) <= {"rule", "timeout", "ceiling"}:
        timeout, ceiling = policy.keys.get("timeout", "3ms"), policy.keys.get("ceiling", "20us")
        if timeout.endswith("ms") and ceiling.endswith("us"):
            return f"leases {int(timeout.removesuffix('ms'))} {int(ceiling.removesuffix('us'))}"
    raise RigError(f"the laboratory cannot have {policy.name}[{', '.join(policy.keys)}]")


def power_states(states: tuple[PowerState, ...]) -> str:
    """Those of the drives, as the guest sets them."""
    columns = ([state.idle for state in states], [state.entry for state in states], [state.exit for state in states])
    return " ".join(["power_states", str(len(states)), *(",".join(map(str, column)) for column in columns)])


def seeded(cell: Cell, seed: int) -> str:
    """The job of a cell; the first repeat with the first seed has fio's own."""
    number = seed + cell.key.repeat
    job = cell.job.read_text()
    return job if number == 1 else f"[global]\nrandseed={number}\n{job}"


def check_devices(cell: Cell, machine: Machine) -> None:
    """Each process of a job has to use what the simulator takes for its drives."""
    of_all: list[str] = []
    used: dict[str, list[str]] = {}
    section = ""
    for line in cell.job.read_text().splitlines():
        if match := re.fullmatch(r"\s*\[(.+)\]\s*", line):
            section = match[1]
            if section != "global":
                used[section] = of_all or [section]
        elif match := re.fullmatch(r"\s*(?:filename|replay_redirect)\s*=\s*(.+?)\s*", line):
            names = re.split(r"(?<!\\):", match[1])
            if section == "global":
                of_all = names
            else:
                used[section] = names
    for name, devices in used.items():
        if machine.file_system:
            if not all(re.fullmatch(r"/mnt/file[0-3]", device) for device in devices):
                raise RigError(
                    f"workload {cell.key.workload}: job `{name}` uses {' and '.join(devices)}; the files of a guest "
                    "with a file system are /mnt/file0 to /mnt/file3"
                )
        elif devices != [machine.device]:
            raise RigError(
                f"workload {cell.key.workload}: job `{name}` uses {' and '.join(devices)}; machine {machine.name} has "
                f"{machine.drives} drive(s), which jobs of the laboratory name {machine.device}"
            )


def runtime_s(job: str) -> float:
    """How long a job says it runs."""
    found = re.findall(r"^runtime\s*=\s*(\d+)(ms|s|)$", job, re.MULTILINE)
    if not found:
        raise RigError("a job of the laboratory needs `runtime` in s or ms, with `time_based`")
    return max(int(value) / (1000 if unit == "ms" else 1) for value, unit in found)


def watched_part(job: str) -> tuple[float, float]:
    """How long a job surely runs, in s, and the share of that for which idle states are watched."""
    if steady := re.search(r"^ss_dur\s*=\s*(\d+)s$", job, re.MULTILINE):
        return float(steady[1]), 0.8
    return runtime_s(job), 0.5 if log_of(job) else 0.7 if ends_by_size(job) else 0.8


def log_of(job: str) -> str | None:
    """The log that a job replays: a path in the repository, which the guest has below its root."""
    found = re.search(r"^read_iolog=(\S+)$", job, re.MULTILINE)
    return found[1] if found else None


@dataclass(frozen=True)
class Watched:
    """What was counted in the window of a run; times are those of the guest in ns."""

    # Of the first request; 0: there was none.
    first: int
    begin: int
    end: int
    # By index of the idle state: the differences of the kernel's counters, summed over the CPUs.
    idle: dict[int, dict[str, int]]
    # Idle periods that began with the tick stopped.
    tickless: int


def watched(path: Path) -> Watched:
    """What the modules said after a run: the drive of its window, and the idle driver of the counters at both ends."""
    lines = [line.split() for line in path.read_text().splitlines()]
    window, *edges = [dict(zip(words[::2], map(int, words[1::2]), strict=True)) for words in lines]
    tickless = 0
    idle: dict[int, dict[str, int]] = {}
    for counts in edges:
        sign = 1 if counts.pop("edge") else -1
        if "tickless" in counts:
            tickless += sign * counts["tickless"]
            continue
        sums = idle.setdefault(counts.pop("state"), dict.fromkeys(counts, 0))
        for name, count in counts.items():
            sums[name] += sign * count
    return Watched(window["first_ns"], window["begin_ns"], window["end_ns"], idle, tickless)


def check_window(cell: Cell, window: Watched, ran_ns: int) -> None:
    """The counters say something about a job only while it runs; `ran_ns` is how long it did, by its own account."""
    if not window.end or window.end > window.first + ran_ns:
        raise RigError(
            f"{cell.key}: the job was over after {ran_ns / 1e9:.2f} s, and idle states are to be watched for longer; "
            "give it `time_based`, so that it runs for its whole `runtime`"
        )


def frequencies(log: str, begin: int, end: int, machine: Machine) -> dict[str, float]:
    """The clocks between two times, from the driver's log of requests since they were at their lowest."""
    khz_time = changes = 0
    now = dict.fromkeys(range(0, machine.cpus, machine.clock_cpus), (begin, machine.slowest_khz))
    for line in log.splitlines():
        if line == "full":
            raise RigError("the log of frequency requests is full: rig/cpufreq has room for 131,072")
        at, cpu, khz = (int(word) for word in line.split())
        clock = cpu // machine.clock_cpus * machine.clock_cpus
        since, before = now[clock]
        if at < end:
            until = max(at, begin)
            khz_time += before * (until - since)
            changes += at >= begin and khz != before
            now[clock] = (until, khz)
    khz_time += sum(khz * (end - since) for since, khz in now.values())
    return {
        "set_mhz": khz_time / (end - begin) / len(now) / 1e3,
        "frequency_changes_per_s": changes * 1e9 / (end - begin),
    }


def directions(job: dict[str, Any]) -> list[dict[str, Any]]:
    """Of a job that fio reports, those in which it did anything."""
    return [job[way] for way in DIRECTIONS if way in job]


def ends_by_size(job: str) -> bool:
    """Whether a job is over before its `runtime`, when it has read back what it wrote."""
    return bool(re.search(r"^verify\s*=", job, re.MULTILINE)) and not re.search(r"^time_based", job, re.MULTILINE)


def trimmed(fio: dict[str, Any], job: str, files: bool) -> dict[str, Any]:
    """Of what fio printed, what wakepath reads.

    A job that reads back what it wrote syncs in between. Both directions then get the whole job's `runtime`: the rate
    of its I/Os is taken over the longest one.
    """
    percentiles = ("50.000000", "90.000000", "99.000000", "99.900000")

    def times(of: dict[str, Any]) -> dict[str, Any]:
        kept: dict[str, Any] = {name: of[name] for name in ("max", "mean", "N", "bins") if name in of}
        if "percentile" in of:
            kept["percentile"] = {name: of["percentile"][name] for name in percentiles}
        return kept

    def direction(of: dict[str, Any], whole: dict[str, int]) -> dict[str, Any]:
        kept: dict[str, Any] = {name: of[name] for name in ("io_bytes", "runtime", "total_ios")} | whole
        return kept | {name: times(of[name]) for name in ("lat_ns", "clat_ns")}

    def syncs(reported: dict[str, Any]) -> dict[str, Any]:
        """Calls of fsync; only a machine with a file system asks for their times."""
        kept = reported.get("sync", {})
        if not files or not kept.get("total_ios"):
            return {}
        return {"sync": {"total_ios": kept["total_ios"], "lat_ns": times(kept["lat_ns"])}}

    jobs = [
        {name: reported[name] for name in ("jobname", "groupid", "error")}
        | {
            way: direction(reported[way], {"runtime": reported["job_runtime"]} if ends_by_size(job) else {})
            for way in DIRECTIONS
            if reported[way]["total_ios"]
        }
        | syncs(reported)
        for reported in fio["jobs"]
    ]
    return {"fio version": fio["fio version"], "jobs": jobs}


def measured(cell: Cell, out: Path, machine: Machine, kernel: Kernel) -> dict[str, Any]:
    """A run as wakepath reads it."""
    runs = out / "runs"
    name = f"{cell.number:06}"
    failed = runs / f"{name}.failed"
    if failed.exists():
        complaint = (runs / f"{name}.err").read_text(errors="replace").strip()[-500:]
        how = failed.read_text().strip()
        if cell.rt_app and how == f"status {128 + signal.SIGKILL}":
            raise RigError(
                f"{cell.key}: rt-app did not end {RT_APP_GRACE_S} s after its duration: in rt-app 1.0 threads that "
                "wait for each other may not hear of the end, and a `sync` or `resume` for which nobody waits is lost"
            )
        program = "rt-app" if cell.rt_app else "the server" if cell.server else "fio"
        raise RigError(f"{cell.key}: {program} failed, {how}: {complaint}".removesuffix(": "))
    window = watched(runs / f"{name}.watched")
    idle = [
        {
            "state": state["name"],
            "time_us": window.idle[index]["time_ns"] // 1000,
            **{counter: window.idle[index][counter] for counter in ("usage", "above", "below")},
        }
        for index, state in enumerate(machine.states)
    ]
    did: dict[str, Any]
    if cell.rt_app:
        did = {"rt_app": cell.rt_app.measured(runs, cell.number, (window.begin, window.end))}
    else:
        # A server reports as fio does.
        printed = runs / (f"{name}.out" if cell.server else f"{name}.fio")
        fio = trimmed(json.loads(printed.read_text()), cell.job.read_text(), machine.file_system is not None)
        ran_ns = 1_000_000 * max(way["runtime"] for job in fio["jobs"] for way in directions(job))
        check_window(cell, window, ran_ns)
        at = {"begin_ns": window.begin - window.first, "end_ns": window.end - window.first, "job_ns": ran_ns}
        did = {"fio": json.dumps(fio, separators=(",", ":")), "window": at}
    watched_ns = window.end - window.begin
    return {
        "key": asdict(cell.key),
        **did,
        "watched_ns": watched_ns,
        "idle": idle,
        "cpus": machine.cpus,
        "metrics": {
            "tickless_per_s": window.tickless * 1e9 / watched_ns,
            **frequencies((runs / f"{name}.frequency").read_text(), window.begin, window.end, machine),
        },
        "tools": {"kernel": f"Linux {kernel.release}"},
    }
