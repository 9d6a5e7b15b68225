"""Debian packages for the guests: fetched once with apt-get, unpacked into a cache, never installed."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
SETUP = "scripts/setup-debian.sh installs what the rig needs"


class RigError(Exception):
    """The rig cannot do what was asked; the message says why."""


class UnavailableError(RigError):
    """Something that the rig needs is not there: a program, a package, a network."""


def exit_status(program: str, work: Callable[[], int]) -> int:
    """What `work` returns; 2 if the rig failed and 3 if it lacks something, with the reason on standard error."""
    try:
        return work()
    except UnavailableError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 3
    except RigError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 2


def cache_dir() -> Path:
    """`$WAKEPATH_CACHE`, or `.cache` in the repository, as for the kernel sources of the conformance check."""
    return Path(os.environ.get("WAKEPATH_CACHE", REPOSITORY / ".cache")) / "rig"


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
        # 6.1.0-56-amd64 comes with linux-kbuild-6.1, 6.12.117+deb12-amd64 with linux-kbuild-6.12.117+deb12.
        version = release.removesuffix("-amd64")
        kbuild = version.split(".0-")[0]
        return [f"linux-headers-{release}", f"linux-headers-{version}-common", f"linux-kbuild-{kbuild}"]

    def unpacked(self, package: str) -> Path:
        """The folder that the package's files lie in."""
        version = self._version(package)
        shelf = cache_dir() / self.architecture / package
        place = shelf / version
        if place.is_dir():
            return place
        shelf.mkdir(parents=True, exist_ok=True)
        scratch = shelf / f"new-{os.getpid()}"
        scratch.mkdir()
        try:
            run(["apt-get", *self.options, "-q", "download", f"{package}={version}"], cwd=scratch)
            debs = list(scratch.glob("*.deb"))
            if len(debs) != 1:
                raise RigError(f"`apt-get download {package}` left {len(debs)} packages behind")
            tree = scratch / "tree"
            run(["dpkg-deb", "--extract", str(debs[0]), str(tree)])
            for older in shelf.iterdir():
                if older != scratch and not older.name.startswith("new-"):
                    shutil.rmtree(older, ignore_errors=True)
            if not place.is_dir():
                tree.rename(place)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        return place

    def _version(self, package: str) -> str:
        for line in run(["apt-cache", *self.options, "policy", package]).splitlines():
            field, _, version = line.strip().partition(": ")
            if field == "Candidate" and version != "(none)":
                return version
        raise UnavailableError(f"apt knows no package {package} for {self.architecture}; run `apt-get update` as root")

    def _private_lists(self) -> list[str]:
        """apt-get options for another architecture or suite that leave this machine's own package database alone."""
        root = cache_dir() / "-".join(["apt", self.architecture, *filter(None, [self.suite])])
        status = root / "status"
        options = [
            f"-oAPT::Architecture={self.architecture}",
            f"-oAPT::Architectures={self.architecture}",
            f"-oDir::State::Lists={root}/lists",
            f"-oDir::State::status={status}",
            f"-oDir::Cache={root}/cache",
            "-oAPT::Sandbox::User=",
            # Names and versions are enough: no descriptions, no contents.
            "-oAcquire::Languages=none",
            "-oAcquire::IndexTargets::deb::DEP-11::DefaultEnabled=false",
        ]
        if self.suite:
            sources = root / "sources.list"
            (root / "parts").mkdir(parents=True, exist_ok=True)
            sources.write_text(f"deb [signed-by={KEYRING}] {debian_archive()} {self.suite} main\n")
            options += [f"-oDir::Etc::sourcelist={sources}", f"-oDir::Etc::sourceparts={root}/parts"]
        if not (root / "updated").exists():
            (root / "lists/partial").mkdir(parents=True, exist_ok=True)
            (root / "cache/archives/partial").mkdir(parents=True, exist_ok=True)
            status.touch()
            run(["apt-get", *options, "-q", "update"])
            (root / "updated").touch()
        return options
