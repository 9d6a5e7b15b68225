"""The disk image of a Debian with systemd: made once from Debian's packages, then cached."""

import hashlib
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from packages import KEYRING, SETUP, RigError, UnavailableError, cache_dir, debian_archive, locked, run

SUITE = "bookworm"
# The system, then the tools that the tests look at, and the libraries of the package under test.
PACKAGES = [
    *("systemd-sysv", "udev", "dbus", "kmod", "linux-image-amd64", "initramfs-tools", "zstd", "procps"),
    *("tuned", "tlp", "ansible-core", "python3", "python3-apt", "openssh-server", "libelf1", "zlib1g"),
]
# Nobody logs in, and nothing but the tests is to happen while they look. Tests start TuneD, TLP and sshd.
MASKED_UNITS = [
    *("getty.target", "getty@tty1.service", "serial-getty@ttyS0.service", "systemd-logind.service"),
    *("apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer", "fstrim.timer"),
    "e2scrub_reap.service",
]
# The drivers of the guest's own disks: an initramfs of all drivers takes an emulated CPU long to unpack.
BOOT_MODULES = ["virtio_pci", "virtio_blk", "ext4"]
IMAGE_BYTES = 3 << 30
AGENT_UNIT = """\
[Unit]
Description=Runs commands of the rig
DefaultDependencies=no
After=systemd-udevd.service
Requires=dev-virtio\\x2dports-rig.device
After=dev-virtio\\x2dports-rig.device

[Service]
ExecStart=/usr/local/sbin/rig-agent
Restart=always
"""
# A line is a command in base64; the answer is its exit code and, in base64, what it printed.
AGENT = """\
#!/bin/sh
exec 3<>/dev/virtio-ports/rig
while read -r line <&3; do
    printf '%s' "$line" | base64 -d >/run/rig.command
    sh /run/rig.command >/run/rig.printed 2>&1 </dev/null 3<&-
    status=$?
    printf 'done %s %s\\n' "$status" "$(base64 -w0 /run/rig.printed)" >&3
done
"""


@dataclass(frozen=True)
class SystemdImage:
    """A disk image with the kernel that boots it."""

    disk: Path
    kernel: Path
    initramfs: Path
    # The kernel's, such as 6.1.0-56-amd64.
    release: str


def find_image() -> SystemdImage:
    """The image, from the cache if it was made of the same list."""
    text = repr((SUITE, PACKAGES, MASKED_UNITS, BOOT_MODULES, IMAGE_BYTES, AGENT_UNIT, AGENT))
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    shelf = cache_dir() / "systemd"
    place = shelf / digest
    with locked(shelf):
        if not place.is_dir():
            for older in shelf.iterdir():
                if older.is_dir():
                    shutil.rmtree(older)
            with tempfile.TemporaryDirectory(dir=shelf, prefix="new-") as scratch:
                make_image(Path(scratch))
                ready = Path(scratch) / "ready"
                ready.rename(place)
    release = (place / "release").read_text().strip()
    return SystemdImage(place / "disk.img", place / "vmlinuz", place / "initrd", release)


def make_image(scratch: Path) -> None:
    """Installs Debian's packages into a folder, and makes a disk of it in `scratch`/ready."""
    if shutil.which("mmdebstrap") is None:
        raise UnavailableError(f"mmdebstrap is not installed; {SETUP}")
    root = scratch / "root"
    hook = (
        'mkdir -p "$1/etc/initramfs-tools/conf.d" && echo MODULES=list >"$1/etc/initramfs-tools/conf.d/rig" '
        f'&& printf "%s\\n" {" ".join(BOOT_MODULES)} >"$1/etc/initramfs-tools/modules"'
    )
    archive = f"deb [signed-by={KEYRING}] {debian_archive()} {SUITE} main"
    command = ["mmdebstrap", "--quiet", "--mode=root", "--variant=minbase", f"--include={','.join(PACKAGES)}"]
    # Without documentation, and with nothing that is only for the package manager's comfort.
    command += ["--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/locale/*"]
    command += [f"--essential-hook={hook}", SUITE, str(root), archive]
    try:
        run(command)
    except RigError as error:
        raise UnavailableError(f"no Debian for the guest: {error}") from error
    put_agent(root)
    ready = scratch / "ready"
    ready.mkdir()
    (kernel,) = (root / "boot").glob("vmlinuz-*")
    release = kernel.name.removeprefix("vmlinuz-")
    (ready / "release").write_text(f"{release}\n")
    shutil.copy(kernel, ready / "vmlinuz")
    shutil.copy(root / f"boot/initrd.img-{release}", ready / "initrd")
    disk = ready / "disk.img"
    with disk.open("wb") as image:
        image.truncate(IMAGE_BYTES)
    run(["mkfs.ext4", "-q", "-L", "rig", "-d", str(root), str(disk)])


def put_agent(root: Path) -> None:
    """Puts the program into a root folder that runs the rig's commands, and starts it at boot."""
    agent = root / "usr/local/sbin/rig-agent"
    agent.write_text(AGENT)
    agent.chmod(0o755)
    units = root / "etc/systemd/system"
    (units / "rig-agent.service").write_text(AGENT_UNIT)
    wants = units / "sysinit.target.wants"
    wants.mkdir(exist_ok=True)
    (wants / "rig-agent.service").symlink_to("../rig-agent.service")
    (root / "etc/fstab").write_text("LABEL=rig / ext4 defaults 0 1\n")
    (root / "etc/hostname").write_text("rig\n")
    (root / "var/log/journal").mkdir(exist_ok=True)
    for folder in units.glob("*.wants"):
        for tool in ("tuned.service", "tlp.service", "ssh.service"):
            (folder / tool).unlink(missing_ok=True)
    for unit in MASKED_UNITS:
        (units / unit).unlink(missing_ok=True)
        (units / unit).symlink_to("/dev/null")
