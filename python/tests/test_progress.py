"""Bars on terminals and in notebooks."""

import io
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import wakepath
from conftest import TRACES


class Terminal(io.StringIO):
    """Standard error that somebody looks at."""

    def isatty(self) -> bool:
        return True


def study() -> wakepath.Study:
    workload = {"name": "reads", "fio": "iowait-rk3399.fio", "seconds": 0.01}
    return wakepath.Study(name="s", machine="rk3399", workload=workload, policy=["menu", "teo"], repeats=2)


@pytest.fixture
def bars(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Give the bars that are made, by a tqdm that draws nothing."""
    made: list[Any] = []

    class Bar(SimpleNamespace):
        def __init__(self, **options: object) -> None:
            super().__init__(n=0, **options)
            made.append(self)

        def __enter__(self) -> "Bar":
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def update(self, more: int) -> None:
            self.n += more

    module = ModuleType("tqdm.auto")
    module.tqdm = Bar  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tqdm", ModuleType("tqdm"))
    monkeypatch.setitem(sys.modules, "tqdm.auto", module)
    return made


def test_a_terminal_has_a_line_that_is_gone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    study().run()
    drawn = terminal.getvalue().split("\r")
    assert any(line.startswith("#" * 30 + " 4 of 4 runs") for line in drawn)
    assert drawn[-2].strip() == drawn[-1] == ""


def test_where_nobody_looks_nothing_is_drawn(bars: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    study().run()
    monkeypatch.setattr(sys, "stderr", Terminal())
    study().run(progress=False)
    assert not bars
    study().run()
    assert [(bar.n, bar.total, bar.leave) for bar in bars] == [(4, 4, False)]


def test_a_notebook_has_a_bar_that_stays(bars: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = ModuleType("IPython")
    notebook.get_ipython = lambda: SimpleNamespace(config={"IPKernelApp": {}})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    study().run()
    assert [(bar.n, bar.total, bar.unit, bar.leave) for bar in bars] == [(4, 4, " runs", True)]


def test_events_of_unknown_number_are_counted(bars: list[Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    trace = TRACES / "epyc7502-idle-wake-1500MHz.perf-script.txt"
    wakepath.import_trace(trace, output=tmp_path / "one.parquet", hz=250, progress=True)
    assert [(bar.n > 0, bar.total, bar.unit) for bar in bars] == [(True, None, " events")]
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    wakepath.import_trace(trace, output=tmp_path / "two.parquet", hz=250)
    assert any(re.fullmatch(r"[1-9]\d* events *", line) for line in terminal.getvalue().split("\r"))
