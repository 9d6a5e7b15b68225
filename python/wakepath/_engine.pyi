"""The engine: Rust. What is not in `wakepath` itself may change."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, final

from typing_extensions import Self

__all__ = [
    "Drive",
    "Error",
    "Fleet",
    "Machine",
    "Parts",
    "Plan",
    "PolicySet",
    "Recording",
    "Results",
    "Table",
    "TableParts",
    "__version__",
    "answer_fleet_part",
    "builtin_studies",
    "compare",
    "fleet_files",
    "fleet_part_files",
    "in_python",
    "is_fleet_answer",
    "move_fleet_part_files",
    "report",
]
__version__: str

class Error(Exception):
    """What wakepath cannot do, and why: what the command line prints, with the arguments and functions of Python."""

@final
class Machine:
    """A machine that can be simulated: a built-in one, a recorded system, or a file (docs/reference/machines.md).

    Two machines are equal if their files would be.
    """

    def __new__(cls, name: str | os.PathLike[str]) -> Self:
        """Find a machine by its name, or read a file if the name ends in `.toml`. Raises `Error`."""
    @staticmethod
    def from_toml(text: str) -> Machine:
        """Read the text of a machine file. Raises `Error`."""
    @staticmethod
    def names() -> list[str]:
        """The built-in machines, then the recorded systems that can be simulated."""
    @property
    def name(self) -> str:
        """Its short name."""
    @property
    def title(self) -> str:
        """What it is."""
    @property
    def cpus(self) -> int:
        """How many CPUs it has."""
    @property
    def idle_states(self) -> list[str]:
        """Its idle states, shallowest first."""
    @property
    def drive(self) -> Drive:
        """Its drive."""
    def to_toml(self) -> str:
        """The machine, complete, as a file that can be changed and read again."""
    def _named(self) -> str | None: ...
    def __eq__(self, value: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Drive:
    """A drive that a machine can have. Two drives are equal if all their figures are."""

    def __new__(cls, name: str | os.PathLike[str]) -> Self:
        """Find a drive of the library by a part of its name, or read a drive model file. Raises `Error`."""
    @staticmethod
    def names() -> list[str]:
        """The drives of the library."""
    @property
    def name(self) -> str:
        """What it is."""
    @property
    def capacity(self) -> int:
        """Its size in bytes."""
    @property
    def sleeps(self) -> bool:
        """Whether it has power states."""
    def to_dict(self) -> dict[str, Any]:
        """All figures, each with where it comes from."""
    def _named(self) -> str: ...
    def __eq__(self, value: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class PolicySet:
    """Policies that hold together, such as `menu@6.12 + psd[timeout=3ms]` (docs/reference/policies.md).

    >>> PolicySet("menu") + "psd"
    PolicySet('menu@6.12 + psd')
    """

    def __new__(cls, text: str = "") -> Self:
        """Parse a set. Raises `Error`."""
    @property
    def policies(self) -> list[str]:
        """Its policies, each by its full name."""
    def __add__(self, value: str | PolicySet, /) -> PolicySet: ...
    def __radd__(self, value: str, /) -> PolicySet: ...
    def __len__(self) -> int: ...
    def __eq__(self, value: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Recording:
    """A recording of a machine at work. The file is Parquet: any reader of it has the events."""

    def __new__(cls, path: str | os.PathLike[str]) -> Self:
        """Read what a recording says of itself. Raises `Error`."""
    @property
    def path(self) -> Path: ...
    @property
    def events(self) -> int:
        """How many events it has."""
    @property
    def metadata(self) -> dict[str, Any]:
        """All that it says of itself: machine, kernel, idle states, what was recorded and lost."""
    def __fspath__(self) -> str: ...

@final
class Table:
    @staticmethod
    def of_columns(name: str, columns: list[tuple[str, str, list[Any]]]) -> Table: ...
    @property
    def name(self) -> str: ...
    @property
    def columns(self) -> list[str]: ...
    def column(self, name: str) -> list[Any]: ...
    def to_dict(self) -> dict[str, list[Any]]: ...
    def parts(self) -> TableParts: ...
    def __len__(self) -> int: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class TableParts:
    def __iter__(self) -> Self: ...
    def __next__(self) -> dict[str, list[Any]]: ...

@final
class Results:
    @staticmethod
    def open(path: str) -> Results: ...
    @property
    def path(self) -> str: ...
    @property
    def is_in_memory(self) -> bool: ...
    @property
    def seconds(self) -> float: ...
    @staticmethod
    def in_memory(document: str, runs: str) -> Results: ...
    def runs(self) -> str: ...
    def document(self) -> str: ...
    def table(self, name: str) -> Table: ...

@final
class Plan:
    @staticmethod
    def load(path: str, on: str, more: list[str], *, allow_programs: bool = False) -> Plan: ...
    @staticmethod
    def of_keys(keys: str, folder: str, on: str, *, allow_programs: bool = False) -> Plan: ...
    @property
    def name(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def on(self) -> str: ...
    @property
    def repeats(self) -> int: ...
    @property
    def workloads(self) -> list[str]: ...
    @property
    def policies(self) -> list[str]: ...
    @property
    def notes(self) -> list[str]: ...
    @property
    def may_run(self) -> bool: ...
    def __len__(self) -> int: ...
    def files(self) -> dict[str, bytes]: ...
    def run(
        self,
        into: str,
        mode: str,
        *,
        shard: str | None,
        jobs: int | None,
        progress: Callable[[int], object] | None,
    ) -> int: ...
    def run_in_memory(self, *, jobs: int | None, progress: Callable[[int], object] | None) -> Results: ...
    def write(self, results: Results, into: str, mode: str) -> None: ...
    def begin(self, into: str, mode: str) -> Parts: ...
    def together(self, runs: list[int]) -> list[list[int]]: ...
    def make(self, runs: list[int], into: str) -> None: ...

@final
class Parts:
    @property
    def missing(self) -> list[tuple[int, int]]: ...
    def finish(self) -> None: ...
    def close(self) -> None: ...

@final
class Fleet:
    @staticmethod
    def survey(asked: Mapping[str, object]) -> Fleet: ...
    @property
    def notes(self) -> list[str]: ...
    def parts(self) -> list[str]: ...
    def report(self, answers: list[str]) -> tuple[str, list[tuple[str, str]]]: ...

def answer_fleet_part(part: str, *, threads: int | None) -> str: ...
def builtin_studies() -> list[str]: ...
def compare(results: list[Results | str], asked: Mapping[str, object]) -> str: ...
def fleet_files() -> list[str]: ...
def fleet_part_files(part: str) -> list[str]: ...
def in_python(text: str) -> str: ...
def is_fleet_answer(text: str) -> bool: ...
def move_fleet_part_files(part: str, old: str, new: str) -> str: ...
def report(results: list[Results | str], baseline: str | None) -> str: ...
