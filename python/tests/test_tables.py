"""Tables, comparisons and results as people use them in Python and in notebooks."""

import pickle
from pathlib import Path

import pytest

import wakepath
from conftest import contents

WORKLOADS = [{"name": name, "fio": "iowait-rk3399.fio", "seconds": 0.05} for name in ("a", "b, c")]


@pytest.fixture(scope="module")
def results() -> wakepath.Results:
    """Run a study that stays in memory."""
    return study().run()


def study(machine: object = "rk3399") -> wakepath.Study:
    return wakepath.Study(
        name="small",
        machine=machine,  # type: ignore[arg-type]
        workload=WORKLOADS,
        policy=["menu", "teo"],
        repeats=4,
    )


def test_a_table_has_columns_and_rows(results: wakepath.Results) -> None:
    table = results.metrics
    plain = table.to_dict()
    assert table["policy"] == table.column("policy") == plain["policy"]
    rows = list(table)
    assert len(rows) == len(table)
    assert [row["value"] for row in rows] == plain["value"]
    assert rows[0].keys() == plain.keys()
    with pytest.raises(KeyError, match="no column is called `p99`"):
        table["p99"]
    with pytest.raises(TypeError, match="columns by name"):
        table[0]  # type: ignore[index]
    assert repr(table).startswith(f"<wakepath.Table metrics: {len(rows)} rows of machine, ")
    html = table._repr_html_()
    assert html.count("<tr>") == 11
    assert f"10 of {len(rows)} rows" in html


def test_a_table_becomes_a_data_frame(results: wakepath.Results) -> None:
    polars = pytest.importorskip("polars")
    pandas = pytest.importorskip("pandas")
    for table in (results.metrics, results.compare(metric="mean_us").table):
        assert table.to_polars().to_dict(as_series=False) == table.to_dict()
        assert len(table.to_pandas()) == len(pandas.DataFrame(table)) == len(table)
        assert polars.DataFrame(table).columns == table.columns


def test_a_comparison_says_what_is_best(results: wakepath.Results) -> None:
    for compared in (
        results.compare(minimise="mean_us"),
        results.compare(minimize="mean_us"),
        results.compare(maximize="iops"),
        results.compare(metric="mean_us"),
    ):
        assert compared.best == "teo"
        assert compared.best_by_workload == {"a": "teo", "b, c": "teo"}
    assert results.compare(minimise="mean_us", keep="mean_us<1").best is None
    assert results.compare(minimise="mean_us", keep="mean_us<1").best_by_workload == {}
    assert results.compare(minimise="mean_us").sentences[0].startswith("teo: ")
    with pytest.raises(wakepath.ArgumentError, match="best by what"):
        _ = results.compare(metric="mean_us,iops").best
    with pytest.raises(wakepath.ArgumentError, match="best by what"):
        _ = results.compare(pareto="mean_us,mean_mw").best
    with pytest.raises(wakepath.ArgumentError, match="the same"):
        results.compare(minimise="mean_us", minimize="mean_us")
    with pytest.raises(wakepath.ArgumentError, match="not both"):
        results.compare(minimise="mean_us", pareto="mean_us")
    with pytest.raises(wakepath.ArgumentError, match="minimise or maximise"):
        results.compare(keep="mean_us<1")


def test_each_machine_has_a_best_policy_of_its_own() -> None:
    compared = study(["rk3399", "laptop"]).run().compare(minimise="mean_us")
    assert compared.best == "teo"
    assert list(compared.best_by_workload) == ["a (rk3399)", "b, c (rk3399)", "a (laptop)", "b, c (laptop)"]
    assert {row["machine"] for row in compared.table} == {"rk3399", "laptop", None}


def test_names_are_split_as_on_the_command_line(results: wakepath.Results) -> None:
    assert results.compare(pareto="mean_us,mean_mw") == results.compare(pareto=["mean_us", "mean_mw"])
    assert results.compare(metric="mean_us, iops") == results.compare(metric=("mean_us", "iops"))
    # A workload may have a comma in its name.
    assert results.compare(workload="b, c")["workloads"] == ["b, c"]
    assert results.compare(workload=iter(["a", "b, c"]))["workloads"] == ["a", "b, c"]


def test_a_comparison_is_a_table_and_short_in_words(results: wakepath.Results) -> None:
    rows = results.compare(metric="mean_us")
    assert [row["policy"] for row in rows.table] == [row["policy"] for row in rows.rows]
    assert rows.table["mean"] == [row["mean"] for row in rows.rows]
    ranking = results.compare(minimise="mean_us", top=1)
    assert [(row["rank"], row["policy"]) for row in ranking.table] == [(1, "teo")]
    assert ranking.text == results.compare(minimise="mean_us").text
    front = results.compare(pareto="mean_us,mean_mw").table
    assert set(front.columns) == {"policy", "mean_us", "mean_mw", "on_front"}
    assert any(front["on_front"])
    for compared in (rows, ranking, results.compare(pareto="mean_us,mean_mw"), results.compare()):
        assert len(repr(compared)) < 300
        assert "<table>" in compared._repr_html_()
        again = pickle.loads(pickle.dumps(compared))
        assert (again, again.text, again.best if compared is ranking else None) == (
            compared,
            compared.text,
            "teo" if compared is ranking else None,
        )


def test_results_are_short_in_words_and_say_where_they_are(results: wakepath.Results, tmp_path: Path) -> None:
    assert repr(results) == ("<wakepath.Results of small: 1 machine, 2 workloads, 2 policies, 4 runs each; in memory>")
    assert (results.name, results.path, results.in_memory) == ("small", Path("small"), True)
    written = results.write(tmp_path / "small")
    assert repr(written).endswith(f"; {tmp_path}/small>")
    assert (written.name, written.path, written.in_memory) == ("small", tmp_path / "small", False)
    assert "b, c" in results._repr_html_()
    assert results.document["complete"]


def test_results_in_memory_are_written_later(results: wakepath.Results, tmp_path: Path) -> None:
    at_once = study().run(tmp_path / "at-once")
    later = results.write(tmp_path / "later")
    assert contents(later.path) == contents(at_once.path)
    with pytest.raises(wakepath.Error, match="force=True replaces them"):
        results.write(tmp_path / "later")
    results.write(tmp_path / "later", force=True)
    copied = at_once.write(tmp_path / "copied")
    assert contents(copied.path) == contents(at_once.path)
    assert contents(at_once.write(tmp_path / "copied", force=True).path) == contents(at_once.path)
    assert "interrupted" not in wakepath.report(results)


def test_results_are_pickled(results: wakepath.Results, tmp_path: Path) -> None:
    again = pickle.loads(pickle.dumps(results))
    for name in ("metrics", "latency", "attribution", "idle", "frequency", "timeline"):
        assert getattr(again, name).to_dict() == getattr(results, name).to_dict(), name
    assert again.document == results.document
    assert again.compare(minimise="mean_us") == results.compare(minimise="mean_us")
    written = results.write(tmp_path / "written")
    assert contents(again.write(tmp_path / "again").path) == contents(written.path)
    assert pickle.loads(pickle.dumps(written)).metrics.to_dict() == results.metrics.to_dict()


def test_machines_and_drives_are_equal_by_what_they_are() -> None:
    board = wakepath.Machine("rk3399")
    assert board == wakepath.Machine("rk3399")
    assert board == wakepath.Machine.from_toml(board.to_toml())
    assert board != wakepath.Machine("laptop")
    assert len({board, wakepath.Machine("rk3399"), wakepath.Machine("laptop")}) == 2
    assert wakepath.Drive("sn530") == wakepath.Drive("SDBPNPZ-256G-1006") != wakepath.Drive("760p")
    assert len({wakepath.Drive("sn530"), wakepath.Drive("sn530")}) == 1


def test_what_can_be_named_is_listed() -> None:
    machines = wakepath.Machine.names()
    assert len(machines) == len(set(machines)) > 20
    assert all(wakepath.Machine(name).name for name in machines)
    drives = wakepath.Drive.names()
    assert len(drives) > 900
    assert all(wakepath.Drive(name).name for name in drives[::50])
