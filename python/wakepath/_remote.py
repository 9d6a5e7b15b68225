"""Folders that only fsspec reaches: result directories, the files of a fleet."""

import os
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from ._engine import Error


class Remote:
    """A folder of a file system of fsspec. Files appear whole: each is put in one piece."""

    def __init__(self, url: str) -> None:
        """Find its file system."""
        self.url = url.rstrip("/")
        try:
            fsspec: Any = import_module("fsspec")
            self.files, self.folder = fsspec.core.url_to_fs(self.url)
        except (ImportError, ValueError, OSError) as error:
            raise Error(f"{url}: {error}") from error

    def __str__(self) -> str:
        return self.url

    def there(self) -> bool:
        """Whether it holds results."""
        return self.has("result.json")

    def has(self, name: str) -> bool:
        """Whether there is such a file or folder."""
        return bool(self.files.exists(f"{self.folder}/{name}"))

    def remove(self) -> None:
        """Remove their runs and tables; whatever else is in the folder stays."""
        for path in self.files.find(self.folder):
            name = os.path.relpath(path, self.folder)
            if name.startswith("runs/") or (name.endswith(".parquet") and "/" not in name):
                self.files.rm_file(path)

    def get(self, copy: str) -> None:
        """Copy all files here."""
        for path in self.files.find(self.folder):
            target = Path(copy, os.path.relpath(path, self.folder))
            target.parent.mkdir(parents=True, exist_ok=True)
            self.files.get_file(path, str(target))

    def put(self, copy: str) -> None:
        """Copy all files there; what says that the results are complete comes last."""
        paths = sorted(path for path in Path(copy).rglob("*") if path.is_file())
        for path in sorted(paths, key=lambda path: path.name == "result.json"):
            self.write(str(path.relative_to(copy)), path.read_bytes())

    def get_runs(self, runs: Iterable[int], copy: str) -> None:
        """Copy these runs here."""
        for run in runs:
            name = f"runs/{run:06}.json"
            self.files.get_file(f"{self.folder}/{name}", str(Path(copy, name)))

    def put_runs(self, runs: list[int], copy: str) -> None:
        """Copy these runs there."""
        for run in runs:
            name = f"runs/{run:06}.json"
            self.write(name, Path(copy, name).read_bytes())

    def read(self, name: str) -> bytes | None:
        """Read a file, if it is there."""
        try:
            return bytes(self.files.cat_file(f"{self.folder}/{name}"))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Error(f"{self.url}/{name}: {error}") from error

    def write(self, name: str, content: bytes) -> None:
        """Write a file in one piece."""
        target = f"{self.folder}/{name}"
        try:
            self.files.makedirs(target.rpartition("/")[0], exist_ok=True)
            self.files.pipe_file(target, content)
        except OSError as error:
            raise Error(f"{self.url}/{name}: {error}") from error

    def remove_folder(self, name: str) -> None:
        """Remove a folder with all that is in it."""
        with suppress(FileNotFoundError):
            self.files.rm(f"{self.folder}/{name}", recursive=True)
