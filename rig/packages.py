"""Debian packages for the guests: fetched once with apt-get, unpacked into a cache, never installed."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
SETUP = "scripts/setup-debian.sh installs what the rig needs"


class RigError(Exception):
    """The rig cannot do what was asked; the message says why."""


class UnavailableError(RigError):
    """Something that the rig needs is not there: a program, a package, a network."""


def exit_status(program: str, work: Callable[[], int]) -> int:
    """What `work` returns; 2 if the rig failed, 3 if it lacks something, 130 if a signal ended it.

    The reason goes to standard error.
    """
    # As Ctrl-C does, so that no virtual machine is left behind.
    for ends in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ends, interrupt)
    try:
        return work()
    except KeyboardInterrupt as interrupted:
        print(": ".join([program, "interrupted", *map(str, interrupted.args)]), file=sys.stderr)
        return 130
    except UnavailableError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 3
    except RigError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 2


def interrupt(_signal: int, _frame: object) -> None:
    """Ends what is under way."""
    raise KeyboardInterrupt


def cache_dir() -> Path:
    """`$WAKEPATH_CACHE`, or `.cache` in the repository, as for the kernel sources of the conformance check."""
    return Path(os.environ.get("WAKEPATH_CACHE", REPOSITORY / ".cache")) / "rig"


@contextmanager
def locked(shelf: Path) -> Iterator[None]:
    """Keeps other processes away from a folder of the cache, which is made if need be, until this one is done with it.

    The lock goes with the process: one that was killed leaves nothing to clean up.
    """
    shelf.mkdir(parents=True, exist_ok=True)
    with (shelf / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def run(command: list[str], cwd: Path | None = None) -> str:
    """What a command printed; its complaint as an error when it failed."""
    try:
        done = subprocess.run(
            command, cwd=cwd, env={**os.environ, "LC_ALL": "C"}, capture_output=True, text=True, check=False
        )
    except FileNotFoundError as error:
        raise UnavailableError(f"{command[0]} is not installed; {SETUP}") from error
    if done.returncode != 0:
        complaint = (done.stderr or done.stdout).strip()[-2000:]
        # All that apt is asked for here is there, or cannot be had now.
        kind = UnavailableError if command[0].startswith("apt-") else RigError
        raise kind(f"`{' '.join(command)}` failed:\n{complaint}")
    return done.stdout


def wakepath(program: Path, *arguments: str, given: str | None = None) -> str:
    """What wakepath printed; `given` is its standard input."""
    try:
        done = subprocess.run([str(program), *arguments], input=given, capture_output=True, text=True, check=False)
    except OSError as error:
        raise UnavailableError(f"{program} cannot be run ({error}); build it: cargo build -p wakepath-cli") from error
    if done.returncode != 0:
        raise RigError(f"`wakepath {' '.join(arguments)}` failed:\n{done.stderr.strip()}")
    return done.stdout


def debian_archive() -> str:
    """The archive that this machine gets Debian from."""
    archives = run(["apt-get", "indextargets", "--format", "$(REPO_URI)", "Origin: Debian"]).split()
    plain = [archive for archive in archives if "security" not in archive]
    if not plain or not KEYRING.is_file():
        raise UnavailableError(f"apt knows no archive of Debian's, or there is no {KEYRING}")
    return plain[0]


class Packages:
    """The packages of an architecture and a suite, with their own package lists where these are not this machine's."""

    def __init__(self, architecture: str, suite: str | None = None) -> None:
        self.architecture = architecture
        self.suite = suite
        self.options: list[str] = []
        if suite or architecture != run(["dpkg", "--print-architecture"]).strip():
            self.options = self._private_lists()

    def kernel_image(self, meta: str) -> str:
        """The newest kernel image, which a meta-package stands for."""
        for line in run(["apt-cache", *self.options, "depends", meta]).splitlines():
            name = line.strip().removeprefix("Depends: ")
            if name != line.strip() and name.startswith("linux-image-"):
                return name
        raise UnavailableError(f"apt knows no kernel image that {meta} depends on; run `apt-get update` as root")

    def headers(self, release: str) -> list[str]:
        """The packages with what a module for this kernel of Debian's is built with."""
        # 6.1.0-56-amd64 comes with linux-kbuild-6.1, 6.12.117+deb12-amd64 with linux-kbuild-6.12.117+deb12, and
        # 6.1.0-56-rt-amd64 with linux-headers-6.1.0-56-common-rt.
        flavour = release.removesuffix("-amd64")
        version = flavour.removesuffix("-rt")
        common = f"{version}-common{flavour.removeprefix(version)}"
        kbuild = version.split(".0-")[0]
        return [f"linux-headers-{release}", f"linux-headers-{common}", f"linux-kbuild-{kbuild}"]

    def unpacked(self, package: str) -> Path:
        """The folder that the package's files lie in."""
        version = self._version(package)
        shelf = cache_dir() / self.architecture / package
        place = shelf / version
        with locked(shelf):
            if not place.is_dir():
                self._fetch(f"{package}={version}", place)
        return place

    def _fetch(self, package: str, place: Path) -> None:
        """Unpacks a package into `place`, in the stead of its other versions and of what broken-off downloads left."""
        for older in place.parent.iterdir():
            if older.is_dir():
                shutil.rmtree(older, ignore_errors=True)
        scratch = place.with_name("new")
        scratch.mkdir()
        run(["apt-get", *self.options, "-q", "download", package], cwd=scratch)
        debs = list(scratch.glob("*.deb"))
        if len(debs) != 1:
            raise RigError(f"`apt-get download {package}` left {len(debs)} packages behind")
        tree = scratch / "tree"
        run(["dpkg-deb", "--extract", str(debs[0]), str(tree)])
        tree.rename(place)
        shutil.rmtree(scratch, ignore_errors=True)

    def _version(self, package: str) -> str:
        for line in run(["apt-cache", *self.options, "policy", package]).splitlines():
            field, _, version = line.strip().partition(": ")
            if field == "Candidate" and version != "(none)":
                return version
        raise UnavailableError(f"apt knows no package {package} for {self.architecture}; run `apt-get update` as root")

    def _private_lists(self) -> list[str]:
        """apt-get options for another architecture or suite that leave this machine's own package database alone."""
        root = cache_dir() / "-".join(["apt", self.architecture, *filter(None, [self.suite])])
        options = [
            f"-oAPT::Architecture={self.architecture}",
            f"-oAPT::Architectures={self.architecture}",
            f"-oDir::State::Lists={root}/lists",
            f"-oDir::State::status={root}/status",
            f"-oDir::Cache={root}/cache",
            "-oAPT::Sandbox::User=",
            # Names and versions are enough: no descriptions, no contents.
            "-oAcquire::Languages=none",
            "-oAcquire::IndexTargets::deb::DEP-11::DefaultEnabled=false",
        ]
        if self.suite:
            options += [f"-oDir::Etc::sourcelist={root}/sources.list", f"-oDir::Etc::sourceparts={root}/parts"]
        with locked(root):
            if not (root / "updated").exists():
                self._update(root, options)
        return options

    def _update(self, root: Path, options: list[str]) -> None:
        """Fetches the package lists that the options speak of."""
        for folder in ("lists/partial", "cache/archives/partial", "parts"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        (root / "status").touch()
        if self.suite:
            archive = f"deb [signed-by={KEYRING}] {debian_archive()} {self.suite} main\n"
            (root / "sources.list").write_text(archive)
        run(["apt-get", *options, "-q", "update"])
        (root / "updated").touch()
