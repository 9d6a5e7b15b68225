"""The guest's kernel: Debian's of some version, or an image of one's own."""

import struct
from dataclasses import dataclass
from pathlib import Path

from packages import Packages, RigError

# Debian's meta-package per kernel, and the suite that has it where this machine's does not.
PACKAGED = {
    ("x86", "6.1"): ("linux-image-amd64", None),
    ("x86", "6.1-rt"): ("linux-image-rt-amd64", None),
    ("x86", "6.12"): ("linux-image-6.12-amd64", None),
    ("x86", "7.3"): ("linux-image-amd64", "trixie-backports"),
    ("arm64", "6.1"): ("linux-image-arm64", None),
}


@dataclass(frozen=True)
class Kernel:
    """A kernel with what belongs to it."""

    image: Path
    # Holds lib/modules; None: all that the guest needs is built in.
    modules: Path | None
    release: str
    # What modules are built with: unpacked packages with headers, or the tree that the kernel was built in.
    headers: tuple[Path, ...]


def find_kernel(guest: str, name: str, modules: Path | None) -> Kernel:
    """A version of Debian's, or the path of an image."""
    if (guest, name) in PACKAGED:
        if modules is not None:
            raise RigError(f"--modules belongs to a kernel image of your own, and {name} is Debian's")
        return packaged(guest, name)
    image = Path(name)
    if not image.is_file():
        known = ", ".join(version for of, version in PACKAGED if of == guest)
        raise RigError(f"--kernel {name} is neither a file nor one of Debian's kernels for {guest} ({known})")
    with image.open("rb") as file:
        head = file.read(1 << 16)
    if not is_bootable(guest, head):
        expected = "a bzImage or an ELF image" if guest == "x86" else "an Image or one of gzip"
        raise RigError(f"--kernel {name} is no kernel image for {guest}, which is {expected}")
    return of_ones_own(image, head, modules)


def is_bootable(guest: str, head: bytes) -> bool:
    """Whether a file that begins so is a kernel for QEMU's -kernel."""
    if guest == "x86":
        return head[0x202:0x206] == b"HdrS" or head[:4] == b"\x7fELF"
    return head[56:60] == b"ARM\x64" or head[:2] == b"\x1f\x8b"


def packaged(guest: str, version: str) -> Kernel:
    """Debian's newest kernel of this version."""
    meta, suite = PACKAGED[guest, version]
    packages = Packages("amd64" if guest == "x86" else "arm64", suite)
    package = packages.kernel_image(meta)
    release = package.removeprefix("linux-image-")
    image = modules = packages.unpacked(package)
    if not vmlinuz(image):
        # From Linux 7 on, this is a package without files, for two others.
        image, modules = (packages.unpacked(f"linux-{part}-{release}") for part in ("binary", "modules"))
    headers: tuple[Path, ...] = ()
    if guest == "x86":
        headers = tuple(packages.unpacked(name) for name in packages.headers(release))
    (file,) = vmlinuz(image)
    return Kernel(file, modules, release, headers)


def vmlinuz(package: Path) -> list[Path]:
    """The kernel image in an unpacked package."""
    places = ("boot/vmlinuz-*", "usr/lib/modules/*/vmlinuz")
    return [file for place in places for file in package.glob(place)]


def of_ones_own(image: Path, head: bytes, modules: Path | None) -> Kernel:
    """An image with its beginning, and the folder that `make modules_install` was given, or that of a release in it."""
    version = image_release(head)
    if modules is None:
        return Kernel(image, None, version or "", built_in(image, version))
    folders = [path for path in modules.glob("lib/modules/*") if path.is_dir()]
    if not folders and (modules / "modules.order").is_file():
        folders = [modules]
    fitting = [path for path in folders if version in (None, path.resolve().name)]
    if len(fitting) != 1:
        found = ", ".join(sorted(path.name for path in folders)) or "none"
        raise RigError(
            f"{modules}: no modules of {version or 'one kernel'}, the release of {image} (found: {found}); it is the "
            "folder that `make modules_install INSTALL_MOD_PATH=FOLDER` fills"
        )
    (folder,) = fitting
    build = folder / "build"
    headers = (build.resolve(),) if (build / "Makefile").is_file() else ()
    return Kernel(image, folder, folder.resolve().name, headers)


def built_in(image: Path, version: str | None) -> tuple[Path, ...]:
    """The tree that an image was built in, if it still lies there: arch/x86/boot/bzImage."""
    tree = Path(*image.resolve().parts[:-4])
    release = tree / "include/config/kernel.release"
    there = release.is_file() and release.read_text().strip() == version
    return (tree,) if there else ()


def image_release(head: bytes) -> str | None:
    """The release that an x86 image names in its boot header; None for others."""
    if head[0x202:0x206] != b"HdrS":
        return None
    (at,) = struct.unpack_from("<H", head, 0x20E)
    text = head[0x200 + at :].split(b"\0", 1)[0].decode(errors="replace")
    return text.split(" ", 1)[0] if at else None
