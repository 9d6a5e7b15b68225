"""The guest's file system: a folder put together here and handed to the kernel as an initramfs."""

import gzip
import hashlib
import lzma
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from headers import build_module
from kernels import Kernel
from packages import RigError, cache_dir, locked, run


class Initramfs:
    """A guest's files, copied into `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.modules: list[str] = []
        for folder in ("bin", "lib", "lib64", "rig/modules", "usr/bin", "usr/lib"):
            (root / folder).mkdir(parents=True, exist_ok=True)

    def add(self, source: Path, to: str) -> None:
        """Copies a file, or a folder with all in it."""
        target = self.root / to
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
        else:
            shutil.copy(source, target)

    def add_script(self, parts: list[str]) -> None:
        """What the guest is to do, one part after the other."""
        (self.root / "rig/script").write_text("\n".join(parts))

    def add_program(self, program: Path, libraries: Path | None = None) -> None:
        """Copies a program to /usr/bin, with the shared libraries that it needs.

        They are this machine's, or first of all in the folder `libraries`.
        """
        copy = self.root / "usr/bin" / program.name
        # Without debug information, which is most of a debug build and would not fit into the guest's memory.
        run(["strip", "-o", str(copy), str(program)])
        # "not a dynamic executable": linked statically, nothing to add.
        found_in = {**os.environ, **({"LD_LIBRARY_PATH": str(libraries)} if libraries else {})}
        done = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False, env=found_in)
        for line in done.stdout.splitlines():
            if "not found" in line:
                raise RigError(f"a library of {program} is missing: {line.strip()}")
            if found := re.search(r"(/\S+) \(0x", line):
                library = Path(found[1])
                folder = "lib64" if library.name.startswith("ld-linux") else "lib"
                if not (self.root / folder / library.name).exists():
                    self.add(library, f"{folder}/{library.name}")

    def add_modules(self, kernel: Kernel, names: list[str]) -> None:
        """Has modules of a kernel loaded, after those they depend on."""
        found = kernel.modules.rglob("*.ko*") if kernel.modules else ()
        files = {module_name(path): path for path in found}
        for name in names:
            self._add_module(files, name)

    def add_module(self, file: Path, parameters: str = "") -> None:
        """Has a module of our own loaded, after those before it."""
        self.add(file, f"rig/modules/{file.name}")
        self.modules.append(f"{file.name} {parameters}".strip())

    def _add_module(self, files: dict[str, Path], name: str) -> None:
        file = files.get(name)
        # What is not there as a file is built into this kernel.
        if file is None or f"{name}.ko" in self.modules:
            return
        content = module_content(file)
        depends = re.search(rb"\0depends=([^\0]*)\0", content)
        for other in depends[1].decode().split(",") if depends else []:
            self._add_module(files, other.replace("-", "_"))
        (self.root / "rig/modules" / f"{name}.ko").write_bytes(content)
        self.modules.append(f"{name}.ko")

    def pack(self, archive: Path) -> None:
        """Writes the initramfs, uncompressed: unpacking costs an emulated CPU more than reading does."""
        (self.root / "rig/modules/order").write_text("".join(f"{line}\n" for line in self.modules))
        (self.root / "init").chmod(0o755)
        names = "".join(f"{path.relative_to(self.root)}\n" for path in sorted(self.root.rglob("*")))
        with archive.open("wb") as out:
            command = ["cpio", "--create", "--format=newc", "--owner=+0:+0", "--quiet"]
            subprocess.run(command, input=names.encode(), cwd=self.root, stdout=out, check=True)


def module_name(path: Path) -> str:
    """`nvme_core` for `nvme-core.ko.xz`."""
    return path.name.split(".ko")[0].replace("-", "_")


def module_content(file: Path) -> bytes:
    """A kernel module, unpacked."""
    content = file.read_bytes()
    if file.suffix == ".xz":
        return lzma.decompress(content)
    if file.suffix == ".gz":
        return gzip.decompress(content)
    if file.suffix == ".zst":
        return subprocess.run(["zstd", "-dcq", str(file)], capture_output=True, check=True).stdout
    return content


def built_module(source: Path, kernel: Kernel) -> Path:
    """A kernel module built with the kernel's headers; from the cache if its source is as it was."""
    # The tree of a kernel of one's own stays where it is when the kernel is built anew.
    built = kernel.image.stat().st_mtime_ns
    digest = hashlib.sha256(f"{kernel.headers} {kernel.release} {built}".encode())
    for file in sorted(source.iterdir()):
        if file.is_file():
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
    shelf = cache_dir() / "modules" / f"{source.name}-{digest.hexdigest()[:16]}"
    with locked(shelf.parent):
        if not shelf.is_dir():
            with tempfile.TemporaryDirectory(dir=shelf.parent, prefix="new-") as scratch:
                module = build_module(source, kernel, Path(scratch))
                ready = Path(scratch) / "ready"
                ready.mkdir()
                shutil.copy(module, ready)
                ready.rename(shelf)
    (module,) = shelf.glob("*.ko")
    return module
