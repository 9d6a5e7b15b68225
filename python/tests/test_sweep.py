"""Sweeps: whoever makes the runs, however often they die, the bytes are those of one process."""

import os
import pickle
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

import wakepath
from conftest import TRACES, contents
from wakepath import _pool, _sweep


def study(seconds: float = 0.01, repeats: int = 5) -> wakepath.Study:
    workloads = [{"name": name, "fio": "iowait-rk3399.fio", "seconds": seconds} for name in ("a", "b")]
    return wakepath.Study(
        name="sweep", machine="rk3399", workload=workloads, policy=["menu", "teo", "menu + psd"], repeats=repeats
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What one process leaves."""
    into = tmp_path_factory.mktemp("whole") / "results"
    study().run(into)
    return contents(into)


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """Start a cluster of two processes."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.mark.parametrize("kind", [ProcessPoolExecutor, ThreadPoolExecutor])
def test_any_executor_does(kind: Any, tmp_path: Path, whole: dict[str, bytes]) -> None:
    told: list[tuple[int, int]] = []
    with kind(2) as executor:
        results = wakepath.sweep(
            study(), executor, tmp_path / "results", progress=lambda done, total: told.append((done, total))
        )
    assert contents(results.path) == whole
    assert told[-1] == (30, 30)


def test_a_cluster_does(client: Any, tmp_path: Path, whole: dict[str, bytes]) -> None:
    assert contents(wakepath.sweep(study(), client, tmp_path / "client").path) == whole
    assert contents(wakepath.sweep(study(), client.cluster, tmp_path / "cluster").path) == whole


def test_a_file_system_of_fsspec_does(tmp_path: Path, whole: dict[str, bytes]) -> None:
    pytest.importorskip("fsspec")
    url = f"file://{tmp_path}/results"
    with ThreadPoolExecutor(2) as executor:
        results = wakepath.sweep(study(), executor, url)
        assert contents(tmp_path / "results") == whole == contents(results.path)
        with pytest.raises(wakepath.Error, match="are there already"):
            wakepath.sweep(study(), executor, url)
        (tmp_path / "results/runs/000003.json").unlink()
        wakepath.sweep(study(), executor, url, resume=True)
        assert contents(tmp_path / "results") == whole
        (tmp_path / "results/runs/999999.json").write_text("")
        (tmp_path / "results/own.txt").write_text("mine")
        wakepath.sweep(study(), executor, url, force=True)
        assert contents(tmp_path / "results") == {**whole, "own.txt": b"mine"}
        with pytest.raises(ValueError, match="one of them"):
            wakepath.sweep(study(), executor, url, force=True, resume=True)
        with pytest.raises(wakepath.Error, match="nosuch"):
            wakepath.sweep(study(), executor, "nosuch://bucket/results")


def test_the_death_of_a_worker_changes_nothing(
    client: Any, tmp_path: Path, whole: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_sweep, "BATCH_SECONDS", 0.01)
    killed: list[int] = []

    def kill(done: int, total: int) -> None:
        if len(killed) < 2 and done >= 5 * (len(killed) + 1):
            # The one that was killed before may still be known, and says nothing.
            pids = [pid for pid in client.run(os.getpid, on_error="ignore").values() if pid not in killed]
            if pids:
                killed.append(pids[0])
                os.kill(pids[0], signal.SIGKILL)

    results = wakepath.sweep(study(), client, tmp_path / "results", progress=kill)
    assert len(set(killed)) == 2
    assert contents(results.path) == whole
    client.wait_for_workers(2, timeout=30)


def test_resume_makes_only_what_is_missing(tmp_path: Path, whole: dict[str, bytes]) -> None:
    made: list[int] = []

    class Breaks(ThreadPoolExecutor):
        """Takes three batches."""

        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> "Future[Any]":
            if len(made) == 3:
                raise RuntimeError("cannot schedule new futures after shutdown")
            made.append(len(args[-1]))
            return super().submit(fn, *args, **kwargs)

    into = tmp_path / "results"
    with Breaks(1) as breaks, pytest.raises(wakepath.Error, match="resume=True"):
        wakepath.sweep(study(), breaks, into)
    there = {path.name: path.stat().st_mtime_ns for path in (into / "runs").iterdir()}
    assert 0 < len(there) < 30
    assert not wakepath.Results(into).document["complete"]
    with ThreadPoolExecutor(2) as executor:
        with pytest.raises(wakepath.Error, match="are there already"):
            wakepath.sweep(study(), executor, into)
        with pytest.raises(wakepath.Error, match="another study"):
            wakepath.sweep(study(seconds=0.02), executor, into, resume=True)
        wakepath.sweep(study(), executor, into, resume=True)
    assert contents(into) == whole
    assert there.items() <= {path.name: path.stat().st_mtime_ns for path in (into / "runs").iterdir()}.items()


def test_another_build_and_another_file_system_are_refused(tmp_path: Path) -> None:
    files = tuple(sorted(study()._plan.files().items()))
    with pytest.raises(wakepath.Error, match="install the same wheel"):
        _sweep.make(_sweep.Job(files, "sim", "0.0.9 build 0", str(tmp_path)), [0])
    with pytest.raises(wakepath.Error, match="all of them share"):
        _sweep.make(_sweep.Job(files, "sim", _pool.build(), str(tmp_path)), [0])
    assert _pool.build().startswith(f"{wakepath.__version__} build ")


def test_recordings_are_replayed_one_in_a_batch(
    tmp_path: Path, program: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for mhz in (1500, 2500):
        trace = TRACES / f"epyc7502-idle-wake-{mhz}MHz.perf-script.txt"
        with pytest.warns(wakepath.WakepathWarning, match="no timer events"):
            wakepath.import_trace(trace, output=f"epyc-{mhz}.parquet", hz=250)
    replays = wakepath.Study(
        name="replays",
        on="replay",
        machine="epyc-7502",
        workload=["epyc-1500.parquet", "epyc-2500.parquet"],
        policy=["menu", "teo", "teo + psd"],
        repeats=4,
    )
    batches: list[list[int]] = []

    class Notes(ThreadPoolExecutor):
        """Remembers batches."""

        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> "Future[Any]":
            batches.append(args[-1])
            return super().submit(fn, *args, **kwargs)

    with Notes(2) as executor:
        wakepath.sweep(replays, executor, "swept")
    assert sorted(map(len, batches)) == [12, 12]
    Path("replays.toml").write_text(replays.text)
    program("study", "run", "replays.toml", "--on", "replay", "-o", "program")
    assert contents(Path("swept")) == contents(Path("program"))
    assert len(pickle.loads(pickle.dumps(replays)).run().metrics) == len(wakepath.Results("swept").metrics)


def test_a_run_that_fails_ends_the_sweep(client: Any, tmp_path: Path) -> None:
    # Its own bytes are of no study.
    broken = wakepath.Study("iowait-rk3399")
    files = tuple((name, content[:40]) for name, content in broken._plan.files().items())
    (tmp_path / "result.json").write_text("")
    future = client.submit(_sweep.make, _sweep.Job(files, "sim", _pool.build(), str(tmp_path)), [0])
    with pytest.raises(wakepath.Error, match=r"study\.toml"):
        future.result()


def test_clients_that_take_no_work_are_refused(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    closed = ThreadPoolExecutor(1)
    closed.shutdown()
    with pytest.raises(wakepath.Error, match="takes no work"):
        wakepath.sweep(study(), closed, tmp_path / "a")
    with pytest.raises(TypeError, match=r"client is 'tcp://localhost'"):
        wakepath.sweep(study(), "tcp://localhost", tmp_path / "b")  # type: ignore[arg-type]
    with distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=None) as cluster:
        client = distributed.Client(cluster)
        client.close()
        with pytest.raises(wakepath.Error, match="the client is closed"):
            wakepath.sweep(study(), client, tmp_path / "c")
    assert not (tmp_path / "c").exists()
    live = wakepath.Study(name="x", on="live", workload={"name": "w", "command": ["true"]}, policy="unchanged")
    with pytest.raises(wakepath.Error, match="measurement"):
        wakepath.sweep(live, ThreadPoolExecutor(1), tmp_path / "d")


def _full_disk(planned: bool) -> None:
    """Let this process write no file of more than some bytes, before or after it has planned the study."""
    _sweep._plan.cache_clear()
    if planned:
        _sweep._plan(tuple(sorted(study()._plan.files().items())), "sim")
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))


@pytest.mark.parametrize(
    ("planned", "says"),
    [
        # Both of the first two may have failed before either is looked at.
        (True, r"runs/00000\d\.json: File too large"),
        (False, r"wakepath-.*/\S+: File too large; .* set TMPDIR"),
    ],
)
def test_a_full_disk_on_a_worker_is_an_error_and_resume_goes_on(
    tmp_path: Path, whole: dict[str, bytes], planned: bool, says: str
) -> None:
    into = tmp_path / "results"
    with (
        ProcessPoolExecutor(1, initializer=_full_disk, initargs=(planned,)) as executor,
        pytest.raises(wakepath.Error, match=says),
    ):
        wakepath.sweep(study(), executor, into)
    assert not list((into / "runs").iterdir())
    with ProcessPoolExecutor(1) as executor:
        wakepath.sweep(study(), executor, into, resume=True)
    assert contents(into) == whole


def test_where_nothing_can_be_written_is_an_error() -> None:
    with ThreadPoolExecutor(1) as executor:
        with pytest.raises(wakepath.Error, match="/proc/results: "):
            wakepath.sweep(study(), executor, "/proc/results")
        with pytest.raises(TypeError, match="into: expected a path, and there is 3"):
            wakepath.sweep(study(), executor, 3)  # type: ignore[arg-type]


def test_a_sweep_in_a_fork_that_has_swept_before(tmp_path: Path, whole: dict[str, bytes]) -> None:
    # The threads that made the tables are not in the child.
    with ThreadPoolExecutor(2) as executor:
        wakepath.sweep(study(), executor, tmp_path / "parent")
    with ProcessPoolExecutor(1, get_context("fork")) as fork:
        fork.submit(_sweep_alone, tmp_path / "child").result(timeout=60)
    assert contents(tmp_path / "child") == contents(tmp_path / "parent") == whole


def _sweep_alone(into: Path) -> None:
    with ThreadPoolExecutor(1) as executor:
        wakepath.sweep(study(), executor, into)


def test_a_scheduler_that_goes_away_is_told_of(tmp_path: Path, whole: dict[str, bytes]) -> None:
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None)
    client = distributed.Client(cluster, timeout="5s")
    into = tmp_path / "results"

    def close(done: int, total: int) -> None:
        cluster.close()

    with pytest.raises(wakepath.Error, match="resume=True"):
        wakepath.sweep(study(), client, into, progress=close)
    client.close()
    with ThreadPoolExecutor(1) as executor:
        wakepath.sweep(study(), executor, into, resume=True)
    assert contents(into) == whole


def test_without_a_client_it_takes_this_machine(
    python: Callable[[str], "subprocess.Popen[str]"], tmp_path: Path, whole: dict[str, bytes]
) -> None:
    (tmp_path / "small.toml").write_text(study().text)
    process = python("import wakepath\nprint(len(wakepath.sweep('small.toml').metrics))\n")
    out, err = process.communicate(timeout=120)
    assert int(out) > 0, err
    assert err == ""
    assert contents(tmp_path / "results") == whole


def test_without_a_client_it_writes_into_a_file_system_of_fsspec(tmp_path: Path, whole: dict[str, bytes]) -> None:
    pytest.importorskip("fsspec")
    wakepath.sweep(study(), into=f"file://{tmp_path}/results")
    assert contents(tmp_path / "results") == whole


def test_results_that_are_there_are_found_before_anything_is_started(tmp_path: Path) -> None:
    wakepath.sweep(study(), into=tmp_path / "results")

    class Nothing(ThreadPoolExecutor):
        """Takes no batch."""

        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> "Future[Any]":
            raise AssertionError("something was started")

    with Nothing(1) as executor, pytest.raises(wakepath.Error, match="resume=True goes on with them"):
        # A study that is not there is not looked for, either.
        wakepath.sweep("nowhere.toml", executor, tmp_path / "results")


def test_ctrl_c_ends_a_sweep_without_a_client(python: Callable[[str], "subprocess.Popen[str]"], tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(study(seconds=10000, repeats=10).text)
    process = python(
        "import wakepath\n"
        "print('begins', flush=True)\n"
        "try:\n    wakepath.sweep('small.toml')\n"
        "except KeyboardInterrupt:\n    print('stopped')\n"
    )
    assert process.stdout is not None
    assert process.stdout.readline()
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (out, err) == ("stopped\n", "")


def test_ctrl_c_ends_a_sweep_and_leaves_what_is_finished(
    python: Callable[[str], "subprocess.Popen[str]"], tmp_path: Path
) -> None:
    (tmp_path / "small.toml").write_text(study(seconds=1, repeats=1000).text)
    process = python(
        "import wakepath\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(2) as executor:\n"
        "    try:\n        wakepath.sweep('small.toml', executor, progress=lambda *done: print(*done, flush=True))\n"
        "    except KeyboardInterrupt:\n        print('stopped')\n"
    )
    assert process.stdout is not None
    assert process.stdout.readline()
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert out.endswith("stopped\n"), err
    assert any((tmp_path / "results/runs").iterdir())
