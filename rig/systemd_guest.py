"""A Debian guest with systemd, a disk, an NVMe drive and the package, driven line by line by whoever started it.

Each line of standard input is a JSON list, and is answered by a line on standard output:

  ["boot", "PARAMETERS"]    boots with more parameters of the kernel; {}
  ["run", "COMMAND", 60]    runs a shell command for at most so many seconds; {"status": 0, "printed": "..."}
  ["reboot", "PARAMETERS"]  an orderly end, then a boot; {}
  ["cut", "PARAMETERS"]     the power is cut, then a boot; {}
  ["processor", "NAME"]     from the next boot on the processor has this name; {}
  ["sata"]                  from the next boot on there is a SATA disk; {}
  ["plug"]                  puts a virtio disk into a slot of the running guest; {}
  ["unplug"]                has the guest give the disk of the slot back; {}

The disk is a copy of the image, and gone with the end of standard input. Files that --add names lie in /rig. With --ssh
the guest has a network card for the address 10.0.2.15.
"""

import argparse
import base64
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from initramfs import built_module
from kernels import Kernel
from machine import X86_BOARD, last_words
from packages import REPOSITORY, SETUP, Packages, RigError, UnavailableError, exit_status, run
from systemd_image import SystemdImage, find_image

# An emulated CPU takes half a minute; other tests may keep the machine busy.
BOOT_S = 300
# A kernel takes some seconds to let a disk go.
UNPLUG_S = 120
DISK_BYTES = 64 << 20
MODULES = ("rig/module", "rig/cpufreq", "rig/battery")
# Without idle=halt, the ACPI driver takes the place of ours.
KERNEL = "root=/dev/vda rw console=ttyS0 quiet panic=-1 no_timer_check idle=halt intel_idle.max_cstate=0"


class SystemdGuest:
    """A guest and its disks, in a folder that goes with it."""

    def __init__(self, image: SystemdImage, scratch: Path, added: list[Path], ssh_port: int | None) -> None:
        self.image = image
        self.network = "none"
        if ssh_port is not None:
            # The guest reaches nothing; only its port 22 is reached.
            forward = f"hostfwd=tcp:127.0.0.1:{ssh_port}-10.0.2.15:22"
            self.network = f"user,model=virtio-net-pci,restrict=on,{forward}"
        self.scratch = scratch
        self.console = scratch / "console.txt"
        self.disk = scratch / "disk.img"
        run(["cp", "--sparse=always", str(image.disk), str(self.disk)])
        self.payload = payload_disk(image, scratch, added)
        self.drive = empty_disk(scratch / "nvme.img")
        self.sata = empty_disk(scratch / "sata.img")
        self.pluggable = empty_disk(scratch / "pluggable.img")
        self.has_sata = False
        self.monitor = scratch / "monitor"
        self.qemu: subprocess.Popen[bytes] | None = None
        self.agent: socket.socket | None = None
        self.received = b""
        self.board = X86_BOARD

    def boot(self, parameters: str) -> None:
        """Starts the guest, and waits until it runs commands."""
        where = self.scratch / "agent"
        where.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(where))
        listener.listen(1)
        listener.settimeout(BOOT_S)
        command = [
            *("qemu-system-x86_64", *self.board, "-accel", "tcg,thread=single"),
            *("-kernel", str(self.image.kernel), "-initrd", str(self.image.initramfs)),
            *("-append", f"{KERNEL} {parameters}"),
            *("-drive", f"file={self.disk},if=virtio,format=raw,cache=writeback"),
            *("-drive", f"file={self.payload},if=virtio,format=raw,read-only=on"),
            *("-drive", f"file={self.drive},if=none,id=nvme,format=raw,cache=unsafe"),
            *("-device", "nvme,serial=rig,drive=nvme"),
            *("-chardev", f"socket,id=agent,path={where}"),
            *("-device", "virtio-serial-pci", "-device", "virtserialport,chardev=agent,name=rig"),
            *("-device", "virtio-rng-pci", "-nic", self.network, "-no-reboot"),
            *("-blockdev", f"driver=file,filename={self.pluggable},node-name=pluggable"),
            *("-device", "pcie-root-port,id=port0,chassis=1"),
            *("-qmp", f"unix:{self.monitor},server=on,wait=off"),
            *("-display", "none", "-monitor", "none", "-serial", f"file:{self.console}"),
        ]
        if self.has_sata:
            command += ["-drive", f"file={self.sata},if=none,id=sata,format=raw,cache=unsafe"]
            command += ["-device", "ide-hd,drive=sata,bus=ide.0"]
        try:
            self.qemu = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        except FileNotFoundError as error:
            raise UnavailableError(f"{command[0]} is not installed; {SETUP}") from error
        self.agent, _ = listener.accept()
        listener.close()
        self.received = b""
        self.run("mkdir -p /rig && mount -o ro /dev/vdb /rig && systemctl is-system-running --wait", BOOT_S)

    def run(self, command: str, timeout_s: float) -> dict[str, object]:
        """The exit code of a shell command in the guest, and what it printed."""
        if self.agent is None or self.qemu is None:
            raise RigError("the guest does not run")
        self.agent.settimeout(1)
        self.agent.sendall(base64.b64encode(command.encode()) + b"\n")
        until = time.monotonic() + timeout_s
        while b"\n" not in self.received:
            if self.qemu.poll() is not None:
                raise RigError(f"the guest ended during `{command}`; {last_words(self.console)}")
            if time.monotonic() > until:
                raise RigError(f"`{command}` was not done after {timeout_s:g} s; {last_words(self.console)}")
            try:
                self.received += self.agent.recv(1 << 16)
            except TimeoutError:
                continue
        line, _, self.received = self.received.partition(b"\n")
        word, status, printed = (line.decode() + " ").split(" ")[:3]
        if word != "done":
            raise RigError(f"the guest's answer to `{command}` is {line!r}")
        return {"status": int(status), "printed": base64.b64decode(printed).decode(errors="replace")}

    def ask_monitor(self, command: str, *, until: str | None = None, **arguments: str) -> None:
        """Has QEMU's monitor execute a command, and waits for an event that ends it."""
        with socket.socket(socket.AF_UNIX) as monitor:
            monitor.settimeout(UNPLUG_S)
            monitor.connect(str(self.monitor))
            answers = monitor.makefile("rb")
            answers.readline()
            for name, given in (("qmp_capabilities", {}), (command, arguments)):
                monitor.sendall(json.dumps({"execute": name, "arguments": given}).encode() + b"\n")
                answer: dict[str, object] = {"event": ""}
                while "event" in answer:
                    answer = json.loads(answers.readline())
                if "error" in answer:
                    raise RigError(f"QEMU refuses {name}: {answer['error']}")
            while until is not None:
                event = json.loads(answers.readline())
                if event.get("event") == until and event["data"].get("device") == arguments["id"]:
                    break

    def end(self) -> None:
        """Has the guest end in an orderly way."""
        if self.qemu is None:
            raise RigError("the guest does not run")
        self.run("systemctl --no-block poweroff", 60)
        try:
            self.qemu.wait(BOOT_S)
        except subprocess.TimeoutExpired as error:
            raise RigError(f"the guest does not end; {last_words(self.console)}") from error
        self.close()

    def close(self) -> None:
        """Kills the guest, which is what a power cut is to it."""
        if self.qemu is not None:
            self.qemu.kill()
            self.qemu.communicate()
        if self.agent is not None:
            self.agent.close()
        self.qemu = self.agent = None

    def answer(self, request: list[object]) -> dict[str, object]:
        """Does what a line asks for."""
        match request:
            case ["boot", str(parameters)]:
                self.boot(parameters)
            case ["run", str(command), int(timeout_s)]:
                return self.run(command, timeout_s)
            case ["reboot", str(parameters)]:
                self.end()
                self.boot(parameters)
            case ["cut", str(parameters)]:
                self.close()
                self.boot(parameters)
            case ["processor", str(name)]:
                self.board = [f"max,model-id={name}" if word == "max" else word for word in X86_BOARD]
            case ["sata"]:
                self.has_sata = True
            case ["plug"]:
                self.ask_monitor("device_add", driver="virtio-blk-pci", id="plugged", drive="pluggable", bus="port0")
            case ["unplug"]:
                self.ask_monitor("device_del", until="DEVICE_DELETED", id="plugged")
            case _:
                raise RigError(f"no request {request}")
        return {}


def empty_disk(path: Path) -> Path:
    """A disk image of nothing but zeros."""
    with path.open("wb") as image:
        image.truncate(DISK_BYTES)
    return path


def payload_disk(image: SystemdImage, scratch: Path, added: list[Path]) -> Path:
    """A disk with the added files, and with the modules of the rig for the guest's kernel."""
    folder = scratch / "payload"
    folder.mkdir()
    for file in added:
        shutil.copy(file, folder)
    packages = Packages("amd64")
    headers = tuple(packages.unpacked(name) for name in packages.headers(image.release))
    kernel = Kernel(image.kernel, None, image.release, headers)
    for source in MODULES:
        shutil.copy(built_module(REPOSITORY / source, kernel), folder)
    disk = scratch / "payload.img"
    size = sum(file.stat().st_size for file in folder.iterdir())
    with disk.open("wb") as image_file:
        image_file.truncate(size + (16 << 20))
    run(["mkfs.ext4", "-q", "-d", str(folder), str(disk)])
    return disk


def serve(added: list[Path], ssh_port: int | None) -> int:
    """Answers the lines of standard input until it ends."""
    missing = [str(path) for path in added if not path.is_file()]
    if missing:
        raise RigError(f"no file {', '.join(missing)}")
    image = find_image()
    with tempfile.TemporaryDirectory(prefix="wakepath-systemd-") as folder:
        guest = SystemdGuest(image, Path(folder), added, ssh_port)
        try:
            for line in sys.stdin:
                print(json.dumps(guest.answer(json.loads(line))), flush=True)
        finally:
            guest.close()
    return 0


def main() -> int:
    """Runs the guest; 0: all lines were answered, 2: the rig failed, 3: the rig lacks something."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--add", action="append", default=[], type=Path, help="file to have in the guest's /rig")
    parser.add_argument("--ssh", type=int, metavar="PORT", help="port at 127.0.0.1 for the guest's port 22")
    options = parser.parse_args()
    return exit_status("systemd_guest", lambda: serve(options.add, options.ssh))


if __name__ == "__main__":
    sys.exit(main())
