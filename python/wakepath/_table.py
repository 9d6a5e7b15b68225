"""Tables of results, for any data frame and for notebooks."""

from collections.abc import Iterable, Iterator, Mapping
from html import escape
from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING, Any

from . import _engine
from ._engine import Error

if TYPE_CHECKING:
    import pandas  # type: ignore[import-not-found, import-untyped, unused-ignore]
    import polars  # type: ignore[import-not-found, unused-ignore]

SHOWN_ROWS = 10
"""Rows of a table in a notebook."""


class Table:
    """A table of results, which polars, pandas, DuckDB and pyarrow take by the Arrow PyCapsule interface.

    `table["policy"]` is a column, and a loop goes over its rows, each a dictionary. It is read when it is asked for, a
    part at a time.
    """

    def __init__(self, table: _engine.Table) -> None:
        """Wrap a table of the engine."""
        self._table = table

    @classmethod
    def _of_rows(cls, name: str, kinds: Mapping[str, str], rows: Iterable[Mapping[str, Any]]) -> "Table":
        """Make one of rows; `kinds` says of each column whether it is text, number, whole or flag."""
        there = list(rows)
        columns = [(column, kind, [row.get(column) for row in there]) for column, kind in kinds.items()]
        return cls(_engine.Table.of_columns(name, columns))

    @property
    def name(self) -> str:
        """What it is called."""
        return self._table.name

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self._table.columns

    def column(self, name: str) -> list[Any]:
        """Give the values of a column. Raises `KeyError`."""
        return self._table.column(name)

    def to_dict(self) -> dict[str, list[Any]]:
        """Give all columns by name."""
        return self._table.to_dict()

    def to_pandas(self) -> "pandas.DataFrame":
        """Make a data frame of pandas, which has to be installed."""
        frame: Any = _installed("pandas").DataFrame
        if hasattr(frame, "from_arrow"):  # since pandas 3, by pyarrow
            try:
                return frame.from_arrow(self)  # type: ignore[no-any-return, unused-ignore]
            except ImportError:
                pass
        return frame(self.to_dict())  # type: ignore[no-any-return, unused-ignore]

    def to_polars(self) -> "polars.DataFrame":
        """Make a data frame of polars, which has to be installed."""
        return _installed("polars").DataFrame(self)  # type: ignore[no-any-return, unused-ignore]

    def __getitem__(self, name: str) -> list[Any]:
        if not isinstance(name, str):
            raise TypeError(f"a table has columns by name, such as table[{self.columns[0]!r}], and there is {name!r}")
        return self._table.column(name)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for part in self._table.parts():
            for values in zip(*part.values(), strict=True):
                yield dict(zip(part, values, strict=True))

    def __len__(self) -> int:
        return len(self._table)

    def __arrow_c_schema__(self) -> object:
        return self._table.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"<wakepath.Table {self.name}: {len(self)} rows of {', '.join(self.columns)}>"

    def _repr_html_(self) -> str:
        rows = [list(row.values()) for row in islice(self, SHOWN_ROWS)]
        return html_table(self.columns, rows, len(self))


def _installed(package: str) -> Any:
    try:
        return import_module(package)
    except ImportError:
        raise Error(f"{package} is not installed: pip install {package}") from None


def html_table(columns: list[str], rows: list[list[Any]], of_rows: int) -> str:
    """Write rows for a notebook, and below them how many there are if that is more."""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    lines = "".join("<tr>" + "".join(f"<td>{_cell(value)}</td>" for value in row) + "</tr>" for row in rows)
    more = f"<p>{len(rows)} of {of_rows} rows</p>" if of_rows > len(rows) else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>{more}"


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.5g}" if abs(value) < 1e5 else f"{value:.0f}"
    return escape(str(value))
