"""Captures in a folder that only fsspec reaches: copied here, but for recordings, which go to whoever replays them."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from . import _engine
from ._engine import Error
from ._remote import Remote

MOST_FILES = 2_000_000
"""Files of captures that are copied: a thousand for each of 2,000 machines."""

MOST_BYTES = 8 << 30
"""Bytes of captures that are copied, without recordings."""

DEEPEST = 32
"""The deepest file; captures have files of sysfs in their folders."""

DOCUMENT = "result.json"
"""What a result directory has: its tables are Parquet, but no recordings."""


class Captures(NamedTuple):
    """A folder of captures that fsspec reaches, and its copy in the process that surveys it."""

    url: str
    copy: str
    """Absolute path of the copy, which has no recordings, but empty files of their names and sizes."""

    identities: dict[str, str]
    """What tells whether a recording has changed, by its path below the folder."""

    def for_workers(self) -> "Captures":
        """What workers need of it."""
        return self._replace(identities={})

    def name_of(self, path: str) -> str | None:
        """Name a file of the copy by its path below the folder; none: it is not in the copy."""
        name = os.path.relpath(path, self.copy)
        return None if name.startswith(os.pardir) else name

    def as_user_knows(self, text: str) -> str:
        """Name the folder in a text as the user does."""
        return text.replace(self.copy, self.url)

    def identify(self, part: str) -> str:
        """Make a text of a part that is the same for every copy, as long as the folder has the same recordings."""
        names = filter(None, map(self.name_of, _engine.fleet_part_files(part)))
        identities = [f"{name} {self.identities.get(name)}" for name in names]
        return "\n".join([self.as_user_knows(part), *identities])

    @contextmanager
    def fetched(self, part: str) -> Iterator[str]:
        """Copy the recordings that a part reads, for as long as it is answered; give the part that reads the copies."""
        names = [name for file in _engine.fleet_part_files(part) if (name := self.name_of(file)) is not None]
        if not names:
            yield part
            return
        remote = Remote(self.url)
        with _here() as here:
            for name in names:
                _fetch(remote, name, Path(here, name))
            yield _engine.move_fleet_part_files(part, self.copy, here)


@contextmanager
def copied(url: str) -> Iterator[Captures]:
    """Copy a folder of captures without its recordings; the copy goes at the end."""
    remote = Remote(url)
    with _here() as here:
        yield Captures(remote.url, here, _copy(remote, here))


@contextmanager
def _here() -> Iterator[str]:
    """Make a temporary folder whose path has no links."""
    with TemporaryDirectory(prefix="wakepath-fleet-") as folder:
        yield str(Path(folder).resolve())


def _copy(remote: Remote, here: str) -> dict[str, str]:
    """Copy all files but recordings, in one call, so that file systems of networks copy several at a time."""
    found = _listed(remote)
    results = {str(PurePosixPath(name).parent) for name in found if PurePosixPath(name).name == DOCUMENT}
    recordings = {
        name
        for name in found
        if name.endswith(".parquet") and not results.intersection(map(str, PurePosixPath(name).parents))
    }
    small = sorted(found.keys() - recordings)
    _refuse_too_much(remote, sum(_size(found[name]) for name in small))
    with _said(remote.url):
        for name in found:
            Path(here, name).parent.mkdir(parents=True, exist_ok=True)
        if small:
            remote.files.get([f"{remote.folder}/{name}" for name in small], [f"{here}/{name}" for name in small])
        for name in recordings:
            target = Path(here, name)
            target.touch()
            os.truncate(target, _size(found[name]))
            # No time: it would be another one in each copy.
            os.utime(target, ns=(0, 0))
        return {name: str(remote.files.ukey(f"{remote.folder}/{name}")) for name in recordings}


def _listed(remote: Remote) -> dict[str, dict[str, Any]]:
    """List the files below a folder by their names there, with what its file system says about each."""
    found: dict[str, dict[str, Any]] = {}
    with _said(remote.url):
        listed = remote.files.find(remote.folder, maxdepth=DEEPEST, detail=True)
        if not listed and not remote.files.exists(remote.folder):
            raise FileNotFoundError("no such folder")
        for path, about in listed.items():
            if about.get("islink"):
                # As in a folder of this machine, where links are not followed.
                continue
            name = os.path.relpath(path, remote.folder)
            if any(part in ("", ".", "..") or "\0" in part for part in name.split("/")):
                raise ValueError(f"{name!r} is no name of a file")
            found[name] = about
            if len(found) > MOST_FILES:
                raise ValueError(f"more than {MOST_FILES} files")
    return found


def _size(about: dict[str, Any]) -> int:
    return max(0, int(about.get("size") or 0))


def _fetch(remote: Remote, name: str, target: Path) -> None:
    """Copy a recording."""
    with _said(f"{remote.url}/{name}"):
        path = f"{remote.folder}/{name}"
        target.parent.mkdir(parents=True, exist_ok=True)
        size = _size(remote.files.info(path))
        free = shutil.disk_usage(target.parent).free
        if size > free // 2:
            raise ValueError(
                f"{size} bytes, and {target.parent} has {free} bytes left, of which half may be used; TMPDIR names"
                " another folder"
            )
        remote.files.get_file(path, str(target))


def _refuse_too_much(remote: Remote, size: int) -> None:
    if size > MOST_BYTES:
        raise Error(f"{remote.url}: {size} bytes without recordings, more than the {MOST_BYTES} of any fleet")


@contextmanager
def _said(what: str) -> Iterator[None]:
    """Name the file or folder in whatever its file system raises."""
    try:
        yield
    except (OSError, ValueError, NotImplementedError) as error:
        raise Error(f"{what}: {error}") from error
