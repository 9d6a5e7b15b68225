"""Results, compared and reported."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import _engine
from ._engine import Error, Table


class Results:
    """What a study left behind: a result directory, or runs in memory.

    Each table is a `Table`, which polars, pandas, DuckDB and pyarrow take as it is. Times are whole nanoseconds,
    latencies of `metrics` microseconds, powers milliwatts; `document["metrics"]` has the unit of each metric.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open results.

        Args:
            path: a result directory; also fio JSON, hyperfine JSON, MMTests logs, or a folder of such files.

        Raises:
            Error: no results there, or of another schema version.
        """
        self._results = _engine.Results.open(os.fspath(path))
        self._copy: object = None

    @classmethod
    def _of(cls, results: _engine.Results) -> "Results":
        made = cls.__new__(cls)
        made._results = results
        made._copy = None
        return made

    @property
    def path(self) -> Path:
        """The directory; of runs in memory, the name of their study."""
        return Path(self._results.path)

    @property
    def document(self) -> dict[str, Any]:
        """`result.json`: what was compared, on what, with which versions, and what each metric means."""
        document: dict[str, Any] = json.loads(self._results.document())
        return document

    @property
    def metrics(self) -> Table:
        """One number per row: machine, workload, policy, repeat, seed, block, order, metric, value."""
        return self._results.table("metrics")

    @property
    def latency(self) -> Table:
        """Histograms of latency: bounds in ns, both inclusive, and how many requests."""
        return self._results.table("latency")

    @property
    def attribution(self) -> Table:
        """Where a request's time goes, in ns, of the mean and of percentiles. The parts add up to the latency."""
        return self._results.table("attribution")

    @property
    def idle(self) -> Table:
        """Time in ns and entries of each idle state, and how many stays were too deep or too shallow."""
        return self._results.table("idle")

    @property
    def frequency(self) -> Table:
        """Time powered, in ns, at each frequency, in kHz."""
        return self._results.table("frequency")

    @property
    def timeline(self) -> Table:
        """A few milliseconds around a request of median latency and around one of the 99th percentile."""
        return self._results.table("timeline")

    def compare(self, **asked: Any) -> "Comparison":
        """Compare the policies of these results: `wakepath.compare(self, ...)`."""
        return compare(self, **asked)

    def __repr__(self) -> str:
        document = self.document
        names = ", ".join(policy["name"] for policy in document["policies"])
        return f"<wakepath.Results of {document['study']['name']}: {names}>"


class Comparison(dict[str, Any]):
    """A comparison: what `wakepath compare --format json` prints, as dictionaries and lists.

    `text` is the JSON itself, to the byte. `rows` has a row per metric, workload and policy. A ranking or a front of a
    study with several machines is a list in JSON, and here under `scopes`: each machine, and all of them at the end.
    """

    def __init__(self, text: str) -> None:
        """Read what the engine says."""
        said = json.loads(text)
        super().__init__({"scopes": said} if isinstance(said, list) else said)
        self.text = text + "\n"

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A row per metric, workload and policy, with the gain over the baseline; empty for a goal or a front."""
        rows: list[dict[str, Any]] = self.get("rows", [])
        return rows


def compare(
    *results: "Results | str | os.PathLike[str]",
    baseline: str | None = None,
    metric: str | Sequence[str] = (),
    machine: str | Sequence[str] = (),
    workload: str | Sequence[str] = (),
    minimise: str | None = None,
    maximise: str | None = None,
    keep: str | Sequence[str] = (),
    pareto: Sequence[str] = (),
    level: float | None = None,
) -> Comparison:
    """Which policy is better, by how much, and how sure that is.

    Args:
        results: results or their directories.
        baseline: the policy that the others are compared with; the study's if not given.
        metric: only these metrics.
        machine: only these machines of studies with several.
        workload: only these workloads.
        minimise: rank the policies by the least of this metric.
        maximise: rank them by the most of this metric.
        keep: with those: conditions on every workload, such as `"p99_us<150"`, in the metric's own unit.
        pareto: the policies that no other one beats in all of these metrics.
        level: confidence level of the intervals, 0.5 to 0.999; the study's if not given.

    Raises:
        Error: nothing to compare, or a name that is not there.
        ValueError: arguments that contradict each other or are out of range.

    Returns:
        What `wakepath compare --format json` prints.
    """
    if not results:
        raise ValueError("nothing to compare: give results or their directories")
    for key, text in (("baseline", baseline), ("minimise", minimise), ("maximise", maximise)):
        no_text(key, text)
    if level is not None and not isinstance(level, (int, float)):
        raise TypeError(f"level: expected a number from 0.5 to 0.999, and there is {level!r}")
    asked = {
        "baseline": baseline,
        "metric": _names("metric", metric),
        "machine": _names("machine", machine),
        "workload": _names("workload", workload),
        "minimise": minimise,
        "maximise": maximise,
        "keep": _names("keep", keep),
        "pareto": _names("pareto", pareto),
        "level": level,
    }
    return Comparison(_engine.compare([_given(r) for r in results], asked))


def report(
    *results: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    baseline: str | None = None,
    force: bool = False,
) -> str:
    """Results as one HTML page, which works offline.

    Args:
        results: result directories.
        output: the file to write; none: the page is only returned.
        baseline: the policy that the others are compared with.
        force: replace the file if it exists.

    Raises:
        Error: no results; the file exists or cannot be written.

    Returns:
        The page.
    """
    if not results:
        raise ValueError("nothing to report: give result directories")
    page = _engine.report([os.fspath(path) for path in results], baseline)
    if output is not None:
        try:
            with Path(output).open("w" if force else "x", encoding="utf-8") as file:
                file.write(page)
        except FileExistsError:
            raise Error(f"{os.fspath(output)}: the file exists; force=True replaces it") from None
        except OSError as error:
            raise Error(f"{os.fspath(output)}: {error.strerror}") from error
    return page


def _given(results: "Results | str | os.PathLike[str]") -> "_engine.Results | str":
    return results._results if isinstance(results, Results) else os.fspath(results)


def no_text(what: str, given: object) -> None:
    """Refuse what is neither text nor left out."""
    if given is not None and not isinstance(given, str):
        raise TypeError(f"{what}: expected a text, and there is {given!r}")


def _names(what: str, given: str | Sequence[str]) -> list[str]:
    names = [given] if isinstance(given, str) else list(given)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"{what}: expected names, and there is {name!r}")
    return names
