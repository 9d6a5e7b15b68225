"""Pictures: what is drawn, on which axes, and that anybody can tell the series apart."""

from pathlib import Path
from typing import Any

import pytest

import wakepath
from wakepath import _plot


@pytest.fixture(scope="module")
def results() -> wakepath.Results:
    """Simulate two loads under three policies."""
    pytest.importorskip("matplotlib").use("agg")
    return wakepath.Study(
        name="loads",
        machine="rk3399",
        workload=[{"name": name, "fio": "iowait-rk3399.fio", "seconds": 0.05} for name in ("a", "b")],
        policy=["menu", "teo", "menu + psd"],
        repeats=4,
    ).run()


def test_a_front_has_a_point_for_each_policy(results: wakepath.Results, tmp_path: Path) -> None:
    axes: Any = results.plot_pareto("mean_us", "mean_mw")
    assert len(axes.collections) == 3
    words = "\n".join(text.get_text() for text in axes.texts)
    assert all(policy in words for policy in ("menu", "teo", "menu + psd"))
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("mean latency, us", "power, mW")
    front = [point for point in results.compare(pareto="mean_us,mean_mw")["points"] if point["on_front"]]
    assert len(axes.lines[0].get_xdata()) == len(front)
    axes.get_figure(root=True).savefig(tmp_path / "front.png")


def test_bars_have_their_intervals(results: wakepath.Results) -> None:
    axes: Any = results.plot_bars("mean_us")
    rows = results.compare(metric="mean_us").rows
    assert sorted(bar.get_width() for bar in axes.patches) == sorted(row["mean"] for row in rows)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"]
    low, high = rows[0]["interval"]
    ends = axes.containers[0][2][0].get_segments()[0]
    assert ends[:, 0] == pytest.approx([low, high])
    assert len(results.plot_bars("mean_us", workload="b").patches) == 3


def test_latencies_are_drawn_from_the_fastest_to_the_slowest(results: wakepath.Results) -> None:
    axes = results.plot_latency(workload="b", policy=["teo", "menu"])
    assert [line.get_label() for line in axes.lines] == ["teo", "menu"]
    lines: list[Any] = list(axes.lines)
    for line in lines:
        shares = list(line.get_ydata())
        assert shares == sorted(shares, reverse=True)
        assert shares[0] == 1
    for given in ({"workload": "c"}, {"policy": "ladder"}, {"machine": "laptop"}):
        with pytest.raises(wakepath.Error, match="is called"):
            results.plot_latency(**given)  # type: ignore[arg-type]


def test_axes_of_ones_own_are_drawn_on(results: wakepath.Results) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    axes: Any = pyplot.subplots(1, 3)[1]
    assert results.plot_pareto(ax=axes[0]) is axes[0]
    assert results.plot_bars(ax=axes[1]) is axes[1]
    assert results.plot_latency(ax=axes[2]) is axes[2]


def test_series_differ_in_colour_or_marker() -> None:
    styles = [_plot.style(number) for number in range(50)]
    assert len(set(styles)) == 50


def test_without_matplotlib_the_extra_is_named(results: wakepath.Results, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        raise ImportError(name)

    monkeypatch.setattr(_plot, "import_module", missing)
    with pytest.raises(wakepath.Error, match=r"pip install 'wakepath\[plot\]'"):
        results.plot_bars()
