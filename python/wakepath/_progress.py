"""How far long work is: a bar of tqdm where it is installed, else a line on a terminal."""

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

Progress = bool | Callable[[int, int], object] | None
"""Whether to show a bar, `None` where somebody looks; or what is told how many parts of how many are done."""


@contextmanager
def shown(progress: Progress, total: int, what: str) -> Iterator[Callable[[int], object] | None]:
    """Give what to call with the number of finished parts, if anybody wants to know. A total of 0 is not known."""
    if callable(progress):
        told = progress
        yield lambda done: told(done, total)
        return
    if progress is not None and not isinstance(progress, bool):
        raise TypeError(f"progress is {progress!r}, and may be True, False, None or a function of done and total")
    in_notebook = _in_notebook()
    if not (in_notebook or sys.stderr.isatty() if progress is None else progress):
        yield None
        return
    try:
        with warnings.catch_warnings():
            # Without ipywidgets it draws with letters, which is all right.
            warnings.simplefilter("ignore")
            tqdm: Any = import_module("tqdm.auto").tqdm
    except ImportError:
        line = _Line(total, what)
        try:
            yield line.draw
        finally:
            line.end()
        return
    with tqdm(total=total or None, unit=f" {what}", leave=in_notebook) as bar:
        yield lambda done: bar.update(done - bar.n)


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    running = shell.get_ipython() if shell is not None else None
    return running is not None and "IPKernelApp" in running.config


class _Line:
    """One line, drawn again and again."""

    def __init__(self, total: int, what: str) -> None:
        self.total = total
        self.what = what
        self.started = time.monotonic()
        self.drawn = ""

    def draw(self, done: int) -> None:
        if not self.total:
            self._write(f"{done} {self.what}")
            return
        share = done / self.total
        bar = ("#" * round(30 * share)).ljust(30, ".")
        left = (time.monotonic() - self.started) * (1 - share) / share if share else None
        self._write(f"{bar} {done} of {self.total} {self.what}" + ("" if left is None else f", {left:.0f} s left"))

    def _write(self, text: str) -> None:
        if text != self.drawn:
            sys.stderr.write("\r" + text.ljust(len(self.drawn)))
            sys.stderr.flush()
            self.drawn = text

    def end(self) -> None:
        if self.drawn:
            sys.stderr.write("\r" + " " * len(self.drawn) + "\r")
            sys.stderr.flush()
