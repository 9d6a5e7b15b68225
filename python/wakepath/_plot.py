"""Pictures of results, drawn with matplotlib: `pip install 'wakepath[plot]'`."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._arguments import ArgumentError
from ._engine import Error

if TYPE_CHECKING:
    from matplotlib.axes import Axes  # type: ignore[import-not-found, unused-ignore]

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999933")
"""Colours that people with any colour vision tell apart (Okabe and Ito), with one more."""
MARKERS = "os^Dv<>P"
LABELLED = 12
"""So many points have their names beside them; of more, only those on the front."""


def axes(given: "Axes | None", size: tuple[float, float]) -> Any:
    """Give the axes to draw on: those that were given, or new ones."""
    if given is not None:
        return given
    try:
        pyplot: Any = import_module("matplotlib.pyplot")
    except ImportError:
        raise Error("plots need matplotlib: pip install 'wakepath[plot]'") from None
    return pyplot.subplots(figsize=size, layout="constrained")[1]


def style(number: int) -> tuple[str, str]:
    """Give colour and marker of a series."""
    return COLOURS[number % len(COLOURS)], MARKERS[number // len(COLOURS) % len(MARKERS)]


def title(metric: Mapping[str, Any]) -> str:
    """Name a metric with its unit."""
    return f"{metric['title']}, {metric['unit']}" if metric["unit"] else str(metric["title"])


def legend(axis: Any) -> None:
    """Name the series below the picture, where no line is."""
    axis.legend(fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2, frameon=False)


def front(
    points: Sequence[Mapping[str, Any]], metrics: Sequence[Mapping[str, Any]], ax: "Axes | None", heading: str
) -> "Axes":
    """Draw policies by two metrics, and a line through those that no other one beats."""
    axis = axes(ax, (7.5, 5))
    places: dict[str, tuple[float, float]] = {point["policy"]: tuple(point["values"]) for point in points}
    best = sorted(places[point["policy"]] for point in points if point["on_front"])
    axis.plot(*zip(*best, strict=True), color="#999999", linewidth=1, zorder=1)
    names: dict[tuple[str, ...], list[str]] = {}
    for number, point in enumerate(points):
        colour, marker = style(number)
        x, y = places[point["policy"]]
        on_front = point["on_front"]
        axis.scatter(x, y, s=55, marker=marker, zorder=2, color=colour if on_front else "none", edgecolors=colour)
        if on_front or len(points) <= LABELLED:
            names.setdefault((f"{x:.2g}", f"{y:.2g}"), []).append(point["policy"])
    # Policies that do the same share a place, and would write over each other.
    for alike in names.values():
        text = "\n".join(alike)
        axis.annotate(text, places[alike[0]], textcoords="offset points", xytext=(7, 4), fontsize="small")
    axis.set(xlabel=title(metrics[0]), ylabel=title(metrics[1]), title=heading)
    axis.margins(0.15)
    axis.grid(alpha=0.3)
    return axis  # type: ignore[no-any-return]


def bars(rows: Sequence[Mapping[str, Any]], metric: Mapping[str, Any], ax: "Axes | None", heading: str) -> "Axes":
    """Draw a bar for each policy on each load, with the interval of its mean."""
    policies = list(dict.fromkeys(row["policy"] for row in rows))
    loads = list(dict.fromkeys(row["load"] for row in rows))
    axis = axes(ax, (7.5, 1 + 0.35 * len(policies) * len(loads)))
    height = 0.8 / len(policies)
    for number, policy in enumerate(policies):
        there = [row for row in rows if row["policy"] == policy]
        places = [loads.index(row["load"]) + height * number for row in there]
        means = [row["mean"] for row in there]
        ends = [row["interval"] or (row["mean"], row["mean"]) for row in there]
        reach = [
            [mean - low for mean, (low, _) in zip(means, ends, strict=True)],
            [high - mean for mean, (_, high) in zip(means, ends, strict=True)],
        ]
        axis.barh(places, means, height=0.9 * height, color=style(number)[0], xerr=reach, capsize=3, label=policy)
    axis.set_yticks([place + height * (len(policies) - 1) / 2 for place in range(len(loads))], loads)
    axis.invert_yaxis()
    axis.set(xlabel=title(metric), title=heading)
    axis.grid(axis="x", alpha=0.3)
    axis.set_axisbelow(True)
    if len(policies) > 1:
        legend(axis)
    return axis  # type: ignore[no-any-return]


def latency(histograms: Mapping[str, Mapping[int, int]], ax: "Axes | None", heading: str) -> "Axes":
    """Draw which share of requests took longer: of each policy, counts by the upper bound in ns."""
    if not any(histograms.values()):
        raise ArgumentError("there are no latencies of single requests in these results")
    axis = axes(ax, (7.5, 5))
    least = 1.0
    for number, (policy, counts) in enumerate(histograms.items()):
        total = left = sum(counts.values())
        times, shares = [], []
        for bound, count in sorted(counts.items()):
            times += [bound / 1000, bound / 1000]
            shares += [left / total, (left - count) / total]
            left -= count
        # A share of 0 has no place on this scale.
        least = min(least, 1 / total)
        axis.plot(times[:-1], shares[:-1], color=style(number)[0], label=policy, linewidth=1.5)
    axis.set(
        xscale="log", yscale="log", xlabel="latency, us", ylabel="share of requests that took longer", title=heading
    )
    low, high = axis.get_xlim()
    if high < 20 * low:  # without marks at powers of ten
        axis.xaxis.set_minor_formatter("{x:g}")
        axis.tick_params(axis="x", which="minor", labelsize="small")
    axis.set_ylim(least / 2, 1.3)
    axis.grid(alpha=0.3)
    legend(axis)
    return axis  # type: ignore[no-any-return]
