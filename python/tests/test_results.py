"""Results equal those of the command line, and any data frame takes them."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import wakepath
from conftest import contents

Run = Callable[..., str]
RECORDING = Path(__file__).parents[2] / "docs/examples/recorded-guest/reads.parquet"


@pytest.fixture
def results(study_file: Path, tmp_path: Path) -> wakepath.Results:
    """Run the study."""
    return wakepath.Study(study_file).run(tmp_path / "python")


def test_a_study_leaves_what_the_command_line_leaves(results: wakepath.Results, tmp_path: Path, program: Run) -> None:
    program("study", "run", "small.toml", "-o", "program")
    assert contents(results.path) == contents(tmp_path / "program")


def test_simulations_are_those_of_the_command_line(program: Run) -> None:
    job = Path(__file__).parents[2] / "workloads/iowait-rk3399.fio"
    policies = ["menu", "teo + psd"]
    results = wakepath.simulate(job, "rk3399", policies, seconds=0.02, runs=2, seed=5)
    options = [f"--policy={policy}" for policy in policies]
    printed = program(
        "sim", job, "--machine=rk3399", *options, "--seconds=0.02", "--runs=2", "--seed=5", "--format=json"
    )
    expected = [run["latency_us"]["mean"] for result in json.loads(printed)["results"] for run in result["runs"]]
    table = results.metrics.to_dict()
    rows = zip(table["policy"], table["repeat"], table["metric"], table["value"], strict=True)
    means = {(policy, repeat): value for policy, repeat, metric, value in rows if metric == "mean_us"}
    assert [means[policy, repeat] for policy in policies for repeat in (0, 1)] == expected


def test_shards_are_merged_by_the_program(study_file: Path, tmp_path: Path, results: object, program: Run) -> None:
    study = wakepath.Study(study_file)
    for number in (1, 2, 3):
        study.run(tmp_path / f"shard-{number}", shard=f"{number}/3")
    program("results", "merge", "shard-1", "shard-2", "shard-3", "-o", "merged")
    assert contents(tmp_path / "merged") == contents(tmp_path / "python")


@pytest.mark.parametrize(
    ("asked", "options"),
    [
        ({}, []),
        ({"metric": ["mean_us", "p99_us"]}, ["--metric", "mean_us,p99_us"]),
        ({"metric": "p50_us", "baseline": "teo", "level": 0.9}, ["--metric=p50_us", "--baseline=teo", "--level=0.9"]),
        ({"minimise": "mean_us", "keep": "iops>=1"}, ["--minimise=mean_us", "--keep=iops>=1"]),
        ({"pareto": ["mean_us", "p99_us"]}, ["--pareto=mean_us,p99_us"]),
    ],
)
def test_a_comparison_is_that_of_the_command_line(
    results: wakepath.Results, asked: dict[str, object], options: list[str], program: Run
) -> None:
    printed = program("compare", "python", "--format", "json", *options)
    compared = wakepath.compare(results.path, **asked)  # type: ignore[arg-type]
    assert compared.text == printed
    assert compared == json.loads(printed)


def test_each_machine_has_an_answer_of_its_own(tmp_path: Path, program: Run) -> None:
    study = wakepath.Study(
        name="machines",
        machine=["rk3399", wakepath.Machine("laptop")],
        workload={"name": "reads", "fio": "iowait-rk3399.fio", "seconds": 0.01},
        policy=["menu", "teo"],
        repeats=4,
    )
    study.run(tmp_path / "python")
    (tmp_path / "machines.toml").write_text(study.text)
    program("study", "run", "machines.toml", "-o", "program")
    assert contents(tmp_path / "python") == contents(tmp_path / "program")
    ranked = wakepath.compare(tmp_path / "python", minimise="mean_us")
    assert ranked.text == program("compare", "python", "--minimise=mean_us", "--format=json")
    assert [scope.get("machine") for scope in ranked["scopes"]] == ["rk3399", "laptop", None]
    only = wakepath.compare(tmp_path / "python", metric="mean_us", machine="laptop")
    assert only.text == program("compare", "python", "--metric=mean_us", "--machine=laptop", "--format=json")


def test_a_report_is_that_of_the_command_line(
    results: wakepath.Results, tmp_path: Path, program: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    program("report", "python", "-o", "program.html")
    monkeypatch.chdir(tmp_path)
    page = wakepath.report("python", output="python.html")
    assert page == Path("program.html").read_text() == Path("python.html").read_text()
    with pytest.raises(wakepath.Error, match="force=True"):
        wakepath.report("python", output="python.html")
    wakepath.report("python", output="python.html", force=True)


def test_an_explained_recording_opens(tmp_path: Path, program: Run) -> None:
    printed = program("explain", RECORDING, "--output=explain", "--format=json")
    kind = json.loads(printed)["kinds"][0]
    wait = kind["wait"]
    results = wakepath.Results(tmp_path / "explain")
    metrics = results.metrics.to_dict()
    reads = metrics["workload"][0]
    rows = zip(metrics["workload"], metrics["metric"], metrics["value"], strict=True)
    means = {workload: value for workload, metric, value in rows if metric == "mean_us"}
    assert means[reads] == pytest.approx(wait["wait_ns"] / 1e3)
    # Reads that met the shallowest state are a workload of their own.
    assert list(means) == [reads, f"{reads}, C1E met"]

    attribution = results.attribution.to_dict()
    columns = (attribution[name] for name in ("workload", "at", "part", "ns"))
    parts = {part: ns for workload, at, part, ns in zip(*columns, strict=True) if (workload, at) == (reads, "mean")}
    assert sum(parts.values()) == pytest.approx(wait["wait_ns"])
    assert parts["submission"] == pytest.approx(wait["queued_ns"])
    assert parts["waiting to run"] == pytest.approx(wait["hand_over_ns"] + wait["run_queue_ns"])
    latency = results.latency.to_dict()
    counts = zip(latency["workload"], latency["count"], strict=True)
    assert sum(count for workload, count in counts if workload == reads) == kind["requests"]
    assert {"drive", "idle exit, estimated"} <= set(results.timeline["name"])

    compared = results.compare(metric="mean_us")
    assert compared.text == program("compare", "explain", "--metric=mean_us", "--format=json")
    page = wakepath.report(results.path, output=tmp_path / "page.html")
    assert "as recorded, C1E met" in page


def test_runs_in_memory_have_the_same_numbers(results: wakepath.Results, study_file: Path) -> None:
    kept = wakepath.Study(study_file).run()
    for name in ("metrics", "latency", "attribution", "idle", "frequency", "timeline"):
        assert getattr(kept, name).to_dict() == getattr(results, name).to_dict(), name
    assert kept.compare(metric="mean_us")["rows"] == results.compare(metric="mean_us")["rows"]


def test_data_frames_take_the_tables(results: wakepath.Results) -> None:
    metrics = results.metrics
    plain = metrics.to_dict()
    assert len(metrics) == len(plain["value"]) > 0
    assert metrics.column("value") == plain["value"]
    polars = pytest.importorskip("polars")
    assert polars.DataFrame(metrics).to_dict(as_series=False) == plain
    pyarrow = pytest.importorskip("pyarrow")
    assert pyarrow.table(metrics).to_pydict() == plain
    parquet = pytest.importorskip("pyarrow.parquet")
    assert pyarrow.table(metrics) == parquet.read_table(results.path / "metrics.parquet")
    pandas = pytest.importorskip("pandas")
    if hasattr(pandas.DataFrame, "from_arrow"):  # since pandas 3
        assert pandas.DataFrame.from_arrow(metrics).to_dict(orient="list") == plain
    else:
        assert pyarrow.table(metrics).to_pandas().to_dict(orient="list") == plain
    duckdb = pytest.importorskip("duckdb")
    rows = duckdb.sql("select avg(value) from metrics where metric = 'mean_us'").fetchall()
    means = [value for value, name in zip(plain["value"], plain["metric"], strict=True) if name == "mean_us"]
    assert rows[0][0] == pytest.approx(sum(means) / len(means))


def test_a_directory_opens_lazily(results: wakepath.Results) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.scan_parquet(results.path / "metrics.parquet").filter(polars.col("metric") == "p99_us")
    assert frame.collect().height == 8


def test_no_results_and_no_column(results: wakepath.Results, tmp_path: Path) -> None:
    with pytest.raises(wakepath.Error, match="neither a result directory"):
        wakepath.Results(tmp_path)
    with pytest.raises(KeyError, match="there are machine"):
        results.metrics.column("p99")
    with pytest.raises(wakepath.Error, match="no policy is called"):
        results.compare(baseline="ladder")
    with pytest.raises(TypeError, match="metric: expected texts, and there is 3"):
        results.compare(metric=[3])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="level: expected a number"):
        results.compare(level="high")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"baseline: expected a policy set .* there is 3"):
        results.compare(baseline=3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"0\.5 to 0\.999"):
        results.compare(level=float("nan"))
    with pytest.raises(ValueError, match="not both"):
        results.compare(minimise="mean_us", maximise="iops")
