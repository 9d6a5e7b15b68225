"""Which policy is better: comparisons, rankings and Pareto fronts."""

import json
from collections.abc import Callable, Iterable
from html import escape
from math import exp, log
from typing import Any

from ._arguments import ArgumentError
from ._table import Table, html_table

SHOWN_ROWS = 20
"""Rows of a comparison in a notebook."""

Row = dict[str, Any]


class Comparison(dict[str, Any]):
    """A comparison: what `wakepath compare --format json` prints, as dictionaries and lists.

    `text` is the JSON itself, to the byte, and `table` the same for data frames. A ranking or a front of a study with
    several machines is a list in JSON, and here under `scopes`: each machine, and all of them at the end.
    """

    def __init__(self, text: str, top: int | None = None) -> None:
        """Read what the engine says; a ranking's table has the `top` policies."""
        said = json.loads(text)
        super().__init__({"scopes": said} if isinstance(said, list) else said)
        self.text = text + "\n"
        self.top = top

    @property
    def rows(self) -> list[Row]:
        """A row per metric, workload and policy, with the gain over the baseline; empty for a goal or a front."""
        rows: list[Row] = self.get("rows", [])
        return rows

    @property
    def sentences(self) -> list[str]:
        """The answer in words: to a goal, over all machines; else what is said of each row."""
        over_all = self._over_all
        said: list[str] = over_all.get("sentences", [row["sentence"] for row in self.rows if row["sentence"]])
        return said

    @property
    def best(self) -> str | None:
        """The policy to take, over all workloads and machines: by the goal, or by the mean of the one metric.

        `None` if none surely keeps the conditions of a goal, or has the metric on all workloads.

        Raises:
            ArgumentError: a front, or several metrics: what is best is then for you to say.
        """
        if "candidates" in self._over_all:
            first = next(iter(self._over_all["candidates"]), None)
            return first["policy"] if first is not None and first["holds"] == "surely" else None
        means = self._means()
        loads = set().union(*means.values()) if means else set()
        complete = {policy: of_loads for policy, of_loads in means.items() if of_loads.keys() == loads}
        if not complete:
            return None
        return self._better(complete, key=lambda policy: _over_loads(complete[policy].values()))

    @property
    def best_by_workload(self) -> dict[str, str]:
        """The policy with the best mean on each workload, among those that surely keep the conditions of a goal.

        Of a study with several machines the names are `workload (machine)`.

        Raises:
            ArgumentError: as `best`.
        """
        means = self._means()
        loads = dict.fromkeys(load for of_loads in means.values() for load in of_loads)
        found = {}
        for load in loads:
            there = {policy: of_loads for policy, of_loads in means.items() if load in of_loads}
            found[load] = self._better(there, key=lambda policy, load=load: means[policy][load])  # type: ignore[misc]
        return found

    @property
    def table(self) -> Table:
        """The rows, the ranking or the front, for data frames."""
        name, kinds, rows = self._tabular()
        return Table._of_rows(name, kinds, rows)

    @property
    def _over_all(self) -> dict[str, Any]:
        scopes = self.get("scopes")
        return scopes[-1] if scopes else self

    def _scopes(self) -> list[dict[str, Any]]:
        scopes: list[dict[str, Any]] = self.get("scopes", [self])
        return scopes

    def _metric(self) -> dict[str, Any]:
        """The one metric that decides what is best."""
        if "metric" in self._over_all:
            metric: dict[str, Any] = self._over_all["metric"]
            return metric
        metrics: list[dict[str, Any]] = self.get("metrics", []) if "rows" in self else []
        if len(metrics) != 1:
            raise ArgumentError("best by what? Compare with minimise=, maximise=, or one metric=")
        return metrics[0]

    def _means(self) -> dict[str, dict[str, float]]:
        """The mean of the metric that decides, by policy and by workload on a machine."""
        metric = self._metric()
        means: dict[str, dict[str, float]] = {}
        if "candidates" in self._over_all:
            surely = (one for one in self._over_all["candidates"] if one["holds"] == "surely")
            figures = ((one["policy"], figure) for one in surely for figure in one["figures"])
        else:
            figures = ((row["policy"], row) for row in self.rows if row["metric"] == metric["name"])
        for policy, figure in figures:
            means.setdefault(policy, {})[load_of(figure)] = figure["mean"]
        return means

    def _better(self, policies: Iterable[str], key: Callable[[str], float]) -> str:
        more = self._metric()["better"] == "higher"
        if "goal" in self._over_all:
            more = self._over_all["goal"] == "maximise"
        return max(policies, key=key) if more else min(policies, key=key)

    def _tabular(self) -> tuple[str, dict[str, str], list[Row]]:
        """What is in a table: its name, the kind of each column, the rows."""
        if "candidates" in self._over_all:
            return "ranking", self._with_machine(RANK_KINDS), list(self._ranks())
        if "points" in self._over_all:
            metrics = self._over_all["metrics"]
            kinds = {"policy": "text", **dict.fromkeys(metrics, "number"), "on_front": "flag"}
            return "front", self._with_machine(kinds), list(self._points())
        units = {metric["name"]: metric["unit"] for metric in self.get("metrics", [])}
        kinds = {key: kind for key, kind in ROW_KINDS.items() if key != "machine" or self.get("machines")}
        return "comparison", kinds, [_flat(row, units) for row in self.rows]

    def _with_machine(self, kinds: dict[str, str]) -> dict[str, str]:
        return {"machine": "text", **kinds} if "scopes" in self else kinds

    def _ranks(self) -> Iterable[Row]:
        words = {"surely": "surely kept", "cannot_tell": "cannot tell", "fails": "fails"}
        for scope in self._scopes():
            for rank, one in enumerate(scope["candidates"][: self.top], 1):
                yield {
                    "machine": scope.get("machine"),
                    "rank": rank,
                    "policy": one["policy"],
                    "value": one["value"],
                    "conditions": words[one["holds"]] if scope["keep"] else None,
                    "miss_percent": max(0.0, one["miss_percent"]) if one["condition"] else None,
                }

    def _points(self) -> Iterable[Row]:
        for scope in self._scopes():
            for point in scope["points"]:
                values = dict(zip(scope["metrics"], point["values"], strict=True))
                yield {
                    "machine": scope.get("machine"),
                    "policy": point["policy"],
                    "on_front": point["on_front"],
                    **values,
                }

    def __repr__(self) -> str:
        if "candidates" in self._over_all:
            goal = f"{self._over_all['goal']} {self._over_all['metric']['name']}"
            keep = "".join(f", {condition}" for condition in self._over_all["keep"])
            number = len(self._over_all["candidates"])
            return f"<wakepath.Comparison, {goal}{keep}: {self.best or 'nothing'} of {number} policies>"
        if "points" in self._over_all:
            points = self._over_all["points"]
            on_front = sum(point["on_front"] for point in points)
            metrics = ", ".join(self._over_all["metrics"])
            return f"<wakepath.Comparison, {metrics}: {on_front} of {len(points)} policies on the front>"
        number = len(self.get("policies", []))
        metrics = ", ".join(metric["name"] for metric in self.get("metrics", []))
        return f"<wakepath.Comparison of {number} policies with {self.get('baseline')}: {metrics}>"

    def _repr_html_(self) -> str:
        _, kinds, rows = self._tabular()
        if "on_front" in kinds:
            rows = sorted(rows, key=lambda row: not row["on_front"])
        columns = [column for column in kinds if column not in HIDDEN]
        cells = [[row.get(column) for column in columns] for row in rows[: self.top or SHOWN_ROWS]]
        said = self.sentences if "candidates" in self._over_all else []
        answers = [sentence for answer in self.get("answers", []) for sentence in answer["sentences"]]
        words = "".join(f"<p>{escape(sentence)}</p>" for sentence in [*answers, *said])
        return words + html_table(columns, cells, len(rows))


ROW_KINDS = {
    "metric": "text",
    "unit": "text",
    "machine": "text",
    "workload": "text",
    "policy": "text",
    "baseline": "text",
    "runs": "whole",
    "mean": "number",
    "mean_low": "number",
    "mean_high": "number",
    "deviation": "number",
    "gain_percent": "number",
    "low_percent": "number",
    "high_percent": "number",
    "p": "number",
    "corrected_p": "number",
    "effect": "number",
    "significant": "flag",
    "verdict": "text",
    "warnings": "text",
}
"""The columns of a comparison; those that `wakepath compare --format csv` has, too, have its names."""

RANK_KINDS = {
    "rank": "whole",
    "policy": "text",
    "value": "number",
    "conditions": "text",
    "miss_percent": "number",
}
"""The columns of a ranking."""

HIDDEN = {"baseline", "deviation", "p", "corrected_p", "effect", "significant", "warnings"}
"""Columns that a notebook does not show."""


def _flat(row: Row, units: dict[str, str]) -> Row:
    gain = row["gain"] or {}
    low, high = gain.get("interval") or (None, None)
    mean_low, mean_high = row["interval"] or (None, None)
    return {
        "unit": units.get(row["metric"]),
        **{key: row.get(key) for key in ("metric", "machine", "workload", "policy", "baseline", "runs", "mean")},
        **{key: row[key] for key in ("deviation", "corrected_p", "significant")},
        "mean_low": mean_low,
        "mean_high": mean_high,
        "gain_percent": gain.get("percent"),
        "low_percent": low,
        "high_percent": high,
        "p": gain.get("p_value"),
        "effect": gain.get("effect"),
        "verdict": row["sentence"],
        "warnings": "; ".join(row["warnings"]),
    }


def load_of(figure: Row) -> str:
    """Name a workload on its machine as the sentences do."""
    machine = figure.get("machine")
    return f"{figure['workload']} ({machine})" if machine else str(figure["workload"])


def _over_loads(values: Iterable[float]) -> float:
    """Give the geometric mean over workloads, whose sizes differ; the arithmetic one where a value is no ratio."""
    means = list(values)
    if all(mean > 0 for mean in means):
        return exp(sum(map(log, means)) / len(means))
    return sum(means) / len(means)
