"""Results: read, written, compared and reported."""

import json
import shutil
import tempfile
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _arguments as check
from . import _engine, _plot
from ._arguments import ArgumentError, Names, Policy, StrPath
from ._comparison import Comparison, load_of
from ._engine import Error
from ._table import Table, html_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes  # type: ignore[import-not-found, unused-ignore]

    from ._study import Study

TABLES = ("metrics", "latency", "attribution", "idle", "frequency", "timeline")


class Results:
    """What a study left behind: a result directory, or runs in memory.

    Each table is a `Table`. Times are whole nanoseconds, latencies of `metrics` microseconds, powers milliwatts;
    `document["metrics"]` has the unit of each metric. It can be pickled: runs in memory go with it, those of a
    directory are read where it is.
    """

    def __init__(self, path: StrPath) -> None:
        """Open results.

        Args:
            path: a result directory; also fio JSON, hyperfine JSON, MMTests logs, or a folder of such files.

        Raises:
            Error: no results there, or of another schema version.
        """
        self._results = _engine.Results.open(check.path("path", path))
        self._study: Study | None = None
        self._copy: tempfile.TemporaryDirectory[str] | None = None

    @classmethod
    def _of(cls, results: _engine.Results, study: "Study") -> "Results":
        made = cls.__new__(cls)
        made._results = results
        made._study = study
        made._copy = None
        return made

    @property
    def name(self) -> str:
        """The name of their study."""
        name: str = self.document["study"]["name"]
        return name

    @property
    def in_memory(self) -> bool:
        """Whether they are in no directory; `write` makes one of them."""
        return self._study is not None

    @property
    def path(self) -> Path:
        """The directory; of runs in memory, the name of their study."""
        return Path(self.name if self.in_memory else self._results.path)

    @property
    def document(self) -> dict[str, Any]:
        """`result.json`: what was compared, on what, with which versions, and what each metric means."""
        document: dict[str, Any] = json.loads(self._results.document())
        return document

    @property
    def metrics(self) -> Table:
        """One number per row: machine, workload, policy, repeat, seed, block, order, metric, value."""
        return self._table("metrics")

    @property
    def latency(self) -> Table:
        """Histograms of latency: bounds in ns, both inclusive, and how many requests."""
        return self._table("latency")

    @property
    def attribution(self) -> Table:
        """Where a request's time goes, in ns, of the mean and of percentiles. The parts add up to the latency."""
        return self._table("attribution")

    @property
    def idle(self) -> Table:
        """Time in ns and entries of each idle state, and how many stays were too deep or too shallow."""
        return self._table("idle")

    @property
    def frequency(self) -> Table:
        """Time powered, in ns, at each frequency, in kHz."""
        return self._table("frequency")

    @property
    def timeline(self) -> Table:
        """A few milliseconds around a request of median latency and around one of the 99th percentile."""
        return self._table("timeline")

    def _table(self, name: str) -> Table:
        return Table(self._results.table(name))

    def compare(
        self,
        *,
        baseline: Policy | None = None,
        metric: Names = (),
        machine: Names = (),
        workload: Names = (),
        minimise: str | None = None,
        maximise: str | None = None,
        minimize: str | None = None,
        maximize: str | None = None,
        keep: Names = (),
        pareto: Names = (),
        top: int | None = None,
        level: float | None = None,
    ) -> Comparison:
        """Compare the policies of these results: `wakepath.compare(self, ...)`."""
        return compare(
            self,
            baseline=baseline,
            metric=metric,
            machine=machine,
            workload=workload,
            minimise=minimise,
            maximise=maximise,
            minimize=minimize,
            maximize=maximize,
            keep=keep,
            pareto=pareto,
            top=top,
            level=level,
        )

    def plot_pareto(
        self,
        x: str = "p99_us",
        y: str = "mean_mw",
        *,
        machine: Names = (),
        workload: Names = (),
        ax: "Axes | None" = None,
    ) -> "Axes":
        """Draw the policies by two metrics, and a line through those that no other one beats in both.

        Of several workloads it is the geometric mean. Needs matplotlib: `pip install 'wakepath[plot]'`.
        """
        compared = self.compare(pareto=[check.text("x", x), check.text("y", y)], machine=machine, workload=workload)
        found = compared["scopes"][-1] if "scopes" in compared else compared
        about = {metric["name"]: metric for metric in self.document["metrics"]}
        return _plot.front(found["points"], [about[name] for name in found["metrics"]], ax, self.name)

    def plot_bars(
        self,
        metric: str = "p99_us",
        *,
        machine: Names = (),
        workload: Names = (),
        level: float | None = None,
        ax: "Axes | None" = None,
    ) -> "Axes":
        """Draw a metric's mean of each policy on each workload, with its interval.

        Needs matplotlib: `pip install 'wakepath[plot]'`.
        """
        compared = self.compare(metric=[check.text("metric", metric)], machine=machine, workload=workload, level=level)
        rows = [{**row, "load": load_of(row)} for row in compared.rows]
        percent = f"{100 * compared['level']:g}"
        return _plot.bars(rows, compared["metrics"][0], ax, f"{self.name}: means with intervals of {percent} %")

    def plot_latency(
        self,
        *,
        machine: str | None = None,
        workload: str | None = None,
        policy: "Policy | Iterable[Policy]" = (),
        ax: "Axes | None" = None,
    ) -> "Axes":
        """Draw which share of requests took longer than a time, of each policy.

        Args:
            machine: of which machine; the first if not given.
            workload: on which workload; the first if not given.
            policy: only these policies.
            ax: the axes to draw on; new ones if not given.

        Raises:
            Error: no such machine, workload or policy; matplotlib is not installed: `pip install 'wakepath[plot]'`.
        """
        document = self.document
        machines = [one["name"] for one in document["machines"]]
        on = _one_of("machine", machine, machines) if machines else None
        load = _one_of("workload", workload, [one["name"] for one in document["workloads"]])
        names = [one["name"] for one in document["policies"]]
        wanted = [_one_of("policy", one, names) for one in check.policies(policy)] or names
        counts: dict[str, dict[int, int]] = {name: {} for name in wanted}
        for part in self._results.table("latency").parts():
            columns = (part[name] for name in ("machine", "workload", "policy", "high_ns", "count"))
            for its_machine, its_load, its_policy, bound, count in zip(*columns, strict=True):
                if its_load == load and on in (None, its_machine) and its_policy in counts:
                    counts[its_policy][bound] = counts[its_policy].get(bound, 0) + count
        return _plot.latency({name: found for name, found in counts.items() if found}, ax, f"{self.name}: {load}")

    def write(self, into: StrPath, *, force: bool = False) -> "Results":
        """Write them to a directory, with the same bytes as if they had been written at once.

        Args:
            into: the directory. Results of a directory are copied to it.
            force: replace results that are there.

        Raises:
            Error: results are there already, or the directory cannot be written.

        Returns:
            The results of that directory.
        """
        into = check.path("into", into)
        mode = "replace" if check.flag("force", force) else "new"
        if mode == "new" and Path(into, "result.json").exists():
            raise Error(f"{into}: results are there already; force=True replaces them")
        if self._study is not None:
            self._study._plan.write(self._results, into, mode)
        elif Path(into).resolve() != self.path.resolve():
            _copy(self.path, Path(into))
        return Results(into)

    def __reduce__(self) -> "tuple[Any, tuple[Any, ...]]":
        if self._study is not None:
            return _from_memory, (self._study, self._results.document(), self._results.runs())
        if self._copy is not None:
            files = (path for path in self.path.rglob("*") if path.is_file())
            return _from_files, ({str(path.relative_to(self.path)): path.read_bytes() for path in files},)
        return Results, (str(self.path.absolute()),)

    def __repr__(self) -> str:
        document = self.document
        counts = ", ".join(_count(document, what) for what in ("machine", "workload", "policy"))
        where = "in memory" if self.in_memory else str(self.path)
        unfinished = "" if document["complete"] else ", not finished"
        repeats = document["repeats"]
        runs = "1 run" if repeats == 1 else f"{repeats} runs"
        return f"<wakepath.Results of {self.name}: {counts}, {runs} each; {where}{unfinished}>"

    def _repr_html_(self) -> str:
        document = self.document
        rows: list[list[Any]] = [
            ["machines", _named(document["machines"])],
            ["workloads", _named(document["workloads"])],
            ["policies", _named(document["policies"])],
            ["baseline", document["baseline"]],
            ["runs each", document["repeats"]],
            ["where", "in memory" if self.in_memory else str(self.path)],
            ["finished", "yes" if document["complete"] else "no"],
        ]
        title = escape(document["study"]["title"])
        return f"<p><b>{title}</b></p>" + html_table(["results", self.name], rows, len(rows))


def _from_memory(study: "Study", document: str, runs: str) -> Results:
    return Results._of(_engine.Results.in_memory(document, runs), study)


def _from_files(files: dict[str, bytes]) -> Results:
    copy = tempfile.TemporaryDirectory(prefix="wakepath-")
    for name, content in files.items():
        path = Path(copy.name, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    results = Results(copy.name)
    results._copy = copy
    return results


def _copy(results: Path, into: Path) -> None:
    """Copy a result directory; its document comes last, which says that the rest is there."""
    document = results / "result.json"
    if not document.is_file():
        raise Error(f"{results}: these are results of another program; copy them as files")
    if (into / "result.json").exists():
        (into / "result.json").unlink()
        shutil.rmtree(into / "runs", ignore_errors=True)
    try:
        shutil.copytree(results, into, ignore=shutil.ignore_patterns("result.json"), dirs_exist_ok=True)
        shutil.copyfile(document, into / "result.json")
    except (OSError, shutil.Error) as error:
        raise Error(f"{into}: {error}") from error


def _one_of(what: str, name: str | None, known: list[str]) -> str:
    """Take one of the names that there are; the first if none is given."""
    if name is None:
        return known[0]
    if check.text(what, name) not in known:
        raise Error(f"no {what} is called `{name}`; there are {', '.join(known)}")
    return name


def _count(document: dict[str, Any], what: str) -> str:
    several = {"policy": "policies"}.get(what, f"{what}s")
    number = len(document[several])
    return f"{number} {what if number == 1 else several}"


def _named(things: list[dict[str, Any]]) -> str:
    """Name the first of them."""
    names = [thing["name"] for thing in things]
    more = f", and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(names[:8]) + more


def compare(
    *results: Results | StrPath,
    baseline: Policy | None = None,
    metric: Names = (),
    machine: Names = (),
    workload: Names = (),
    minimise: str | None = None,
    maximise: str | None = None,
    minimize: str | None = None,
    maximize: str | None = None,
    keep: Names = (),
    pareto: Names = (),
    top: int | None = None,
    level: float | None = None,
) -> Comparison:
    """Which policy is better, by how much, and how sure that is.

    Several names are a list, or one text with commas between them.

    Args:
        results: results or their directories.
        baseline: the policy that the others are compared with; the study's if not given.
        metric: only these metrics.
        machine: only these machines of studies with several.
        workload: only these workloads.
        minimise: rank the policies by the least of this metric.
        maximise: rank them by the most of this metric.
        minimize: the same as `minimise`.
        maximize: the same as `maximise`.
        keep: with those: conditions on every workload, such as `"p99_us<150"`, in the metric's own unit.
        pareto: the policies that no other one beats in all of these metrics.
        top: most policies of a ranking in `table` and in a notebook; all if not given. The JSON has all.
        level: confidence level of the intervals, 0.5 to 0.999; the study's if not given.

    Raises:
        Error: nothing to compare, or a name that is not there.
        ArgumentError: arguments that contradict each other or are out of range.
        TypeError: a value of another type.

    Returns:
        What `wakepath compare --format json` prints.
    """
    if not results:
        raise ArgumentError("nothing to compare: give results or their directories")
    given = [_given("results", one) for one in results]
    asked = {
        "baseline": None if baseline is None else check.policy(baseline, "baseline"),
        "metric": check.names("metric", metric),
        "machine": _known("machine", machine, results),
        "workload": _known("workload", workload, results),
        "minimise": _spelt("minimise", minimise, "minimize", minimize),
        "maximise": _spelt("maximise", maximise, "maximize", maximize),
        "keep": check.texts("keep", keep),
        "pareto": check.names("pareto", pareto),
        "level": None if level is None else check.number("level", level, 0.5, 0.999),
    }
    goals = [name for name in ("minimise", "maximise", "pareto") if asked[name]]
    if len(goals) > 1:
        raise ArgumentError(f"{' and '.join(goals)}: give one of them, not both")
    if asked["keep"] and goals not in (["minimise"], ["maximise"]):
        raise ArgumentError("keep: say what is wanted among what keeps it: minimise or maximise")
    top = None if top is None else check.whole("top", top, 1, 2**32 - 1)
    return Comparison(_engine.compare(given, asked), top)


def report(
    *results: Results | StrPath,
    output: StrPath | None = None,
    baseline: Policy | None = None,
    force: bool = False,
) -> str:
    """Results as one HTML page, which works offline.

    Args:
        results: results or their directories.
        output: the file to write; none: the page is only returned.
        baseline: the policy that the others are compared with.
        force: replace the file if it exists.

    Raises:
        Error: no results; the file exists or cannot be written.

    Returns:
        The page.
    """
    if not results:
        raise ArgumentError("nothing to report: give results or their directories")
    check.flag("force", force)
    target = None if output is None else check.path("output", output)
    if target is not None and not force and Path(target).exists():
        raise Error(f"{target}: the file exists; force=True replaces it")
    given = [_given("results", one) for one in results]
    page = _engine.report(given, None if baseline is None else check.policy(baseline, "baseline"))
    if target is not None:
        try:
            with Path(target).open("w" if force else "x", encoding="utf-8") as file:
                file.write(page)
        except FileExistsError:
            raise Error(f"{target}: the file exists; force=True replaces it") from None
        except OSError as error:
            raise Error(f"{target}: {error.strerror}") from error
    return page


def _given(what: str, results: Results | StrPath) -> "_engine.Results | str":
    if isinstance(results, Results):
        return results._results
    try:
        return check.path(what, results)
    except TypeError:
        raise TypeError(f"{what}: expected results or their directory, and there is {check.shown(results)}") from None


def _known(what: str, names: Names, results: Iterable[Results | StrPath]) -> list[str]:
    """Take names of machines or workloads, which may have commas of their own."""
    if isinstance(names, str) and "," in names:
        for one in results:
            document = one.document if isinstance(one, Results) else Results(one).document
            if any(names == there["name"] for there in document[f"{what}s"]):
                return [names]
    return check.names(what, names)


def _spelt(name: str, value: str | None, other_name: str, other: str | None) -> str | None:
    """Take an argument that has two spellings."""
    if value is not None and other is not None:
        raise ArgumentError(f"{name} and {other_name} are the same: give one of them")
    return check.text_or_none(name, value) if other is None else check.text(other_name, other)
