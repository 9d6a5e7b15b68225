"""Studies that are built, pickled, interrupted, forked, and refused."""

import json
import multiprocessing
import pickle
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import wakepath
from conftest import contents

SHORT = {"name": "reads", "fio": "iowait-rk3399.fio", "seconds": 0.01}


def built(**keys: object) -> wakepath.Study:
    given = {"name": "built", "machine": "rk3399", "workload": SHORT, "policy": ["menu", "teo"], "repeats": 2, **keys}
    return wakepath.Study(**given)  # type: ignore[arg-type]


def test_grids_are_those_of_a_file() -> None:
    study = built(policy=[["menu", wakepath.PolicySet("teo")], ["", "psd"]], also="deepest")
    assert study.policies == ["menu", "menu + psd", "teo@6.12", "teo@6.12 + psd", "deepest"]
    assert len(study) == 10
    assert wakepath.Study("iowait-rk3399", also=["deepest"]).policies[-1] == "deepest"


def test_a_built_study_is_one_of_a_file(tmp_path: Path) -> None:
    study = built(question=[{"metric": "p99_us"}])
    study.run(tmp_path / "built")
    (tmp_path / "built.toml").write_text(study.text)
    wakepath.Study(tmp_path / "built.toml").run(tmp_path / "file")
    assert contents(tmp_path / "built") == contents(tmp_path / "file")


def test_a_machine_of_ones_own() -> None:
    text = wakepath.Machine("rk3399").to_toml().replace('name = "rk3399"', 'name = "mine"')
    mine = wakepath.Machine.from_toml(text)
    assert built(machine=mine).run().document["machines"][0]["name"] == "mine"
    assert pickle.loads(pickle.dumps(mine)).to_toml() == mine.to_toml()
    study = built(machine=wakepath.Machine("laptop"), drive=wakepath.Drive("sn530"))
    assert "SN530" in study.run().document["machines"][0]["drive"]


def test_a_kernel_of_ones_own() -> None:
    of_kernel = built(kernel="7.3").run().metrics.column("value")
    assert of_kernel == built(policy=["menu@7.3", "teo@7.3"]).run().metrics.column("value")


def test_simulate_is_a_study_on_the_spot() -> None:
    results = wakepath.simulate("iowait-rk3399.fio", "rk3399", ["menu", "teo"], seconds=0.01, runs=2)
    assert results.metrics.to_dict() == built(workload={**SHORT, "name": "iowait-rk3399"}).run().metrics.to_dict()
    text = "[job]\nrw=randread\ndirect=1\nruntime=1\ntime_based\n"
    assert wakepath.simulate(text, "rk3399", seconds=0.01, runs=1).document["policies"][0]["name"] == "unchanged"


def test_a_warm_up_is_left_out() -> None:
    def operations(**given: float) -> float:
        results = wakepath.simulate("ping-pong.json", "laptop", seconds=0.4, runs=1, **given)  # type: ignore[arg-type]
        return float(next(row["value"] for row in results.metrics if row["metric"] == "ops_per_s"))

    table = {"name": "ping-pong", "rt_app": "ping-pong.json", "seconds": 0.4, "warm_up_s": 0.2}
    by_table = wakepath.simulate(table, "laptop", runs=1).metrics
    assert operations(warm_up=0.2) == next(row["value"] for row in by_table if row["metric"] == "ops_per_s")
    assert operations(warm_up=0.2) != operations()


def test_simulate_has_the_kernel_of_the_command_line(program: Callable[..., str]) -> None:
    job = Path(__file__).parents[2] / "workloads/iowait-rk3399.fio"
    results = wakepath.simulate(job, "rk3399", ["menu", "teo"], kernel="7.3", seconds=0.02, runs=1)
    options = ["--policy=menu", "--policy=teo", "--kernel=7.3", "--seconds=0.02", "--runs=1", "--format=json"]
    said = json.loads(program("sim", job, "--machine=rk3399", *options))
    means = [row["value"] for row in results.metrics if row["metric"] == "mean_us"]
    assert means == [result["runs"][0]["latency_us"]["mean"] for result in said["results"]]


def test_a_pickled_study_runs_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "own.fio").write_text("[job]\nrw=randread\ndirect=1\nruntime=1\ntime_based\n")
    study = built(workload={"name": "own", "fio": "own.fio", "seconds": 0.01}, folder=tmp_path)
    there = pickle.dumps(study)
    study.run(tmp_path / "here")
    (tmp_path / "own.fio").unlink()
    pickle.loads(there).run(tmp_path / "there")
    assert contents(tmp_path / "here") == contents(tmp_path / "there")


def test_threads_and_forks_run_as_well() -> None:
    study = built()
    expected = study.run().metrics.to_dict()
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(study.run().metrics.to_dict())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 3
    # The threads of the parent's pool are not in the child.
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply_async(_metrics, (study,)).get(timeout=60) == expected


def _metrics(study: wakepath.Study) -> dict[str, list[object]]:
    return study.run().metrics.to_dict()


def test_other_threads_go_on_and_progress_is_told() -> None:
    study = built(workload={**SHORT, "seconds": 0.3}, repeats=4)
    turns = 0
    over = threading.Event()

    def count() -> None:
        nonlocal turns
        while not over.wait(0.001):
            turns += 1

    counting = threading.Thread(target=count)
    counting.start()
    told: list[tuple[int, int]] = []
    started = time.monotonic()
    study.run(progress=lambda done, total: told.append((done, total)))
    took = time.monotonic() - started
    over.set()
    counting.join()
    assert turns > took / 0.02, "other threads stood still"
    assert told[-1] == (8, 8)
    assert told == sorted(told)


def test_what_a_progress_function_raises_calls_the_run_off() -> None:
    def refuse(done: int, total: int) -> None:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        built(workload={**SHORT, "seconds": 1000}).run(progress=refuse)
    with pytest.raises(TypeError, match="progress is 'yes'"):
        built().run(progress="yes")  # type: ignore[arg-type]


def test_ctrl_c_stops_a_run(python: Callable[[str], "subprocess.Popen[str]"], tmp_path: Path) -> None:
    process = python(
        "import wakepath\n"
        "study = wakepath.Study(name='long', machine='rk3399', workload={'name': 'w', 'fio': 'iowait-rk3399.fio',"
        " 'seconds': 10000}, policy='menu')\n"
        "print('runs', flush=True)\n"
        "try:\n    study.run('long')\n"
        "except KeyboardInterrupt:\n    print('stopped')\n"
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "runs\n"
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (out, err) == ("stopped\n", "")
    assert not wakepath.Results(tmp_path / "long").document["complete"]


def test_resume_does_what_is_missing(tmp_path: Path) -> None:
    study = built()
    study.run(tmp_path / "whole")
    study.run(tmp_path / "part")
    (tmp_path / "part/runs/000002.json").unlink()
    with pytest.raises(wakepath.Error, match="resume=True goes on with them, force=True replaces them"):
        study.run(tmp_path / "part")
    study.run(tmp_path / "part", resume=True)
    assert contents(tmp_path / "part") == contents(tmp_path / "whole")
    with pytest.raises(wakepath.Error, match="another study"):
        built(seed=7).run(tmp_path / "part", resume=True)
    built(repeats=3).run(tmp_path / "part", resume=True)
    with pytest.raises(ValueError, match="one of them"):
        study.run(tmp_path / "part", resume=True, force=True)


@pytest.mark.parametrize(
    ("keys", "kind", "says"),
    [
        ({"machine": "rk3399x"}, wakepath.Error, "rk3399"),
        ({"machine": 3}, TypeError, "machine: expected one or a list of them, and there is 3"),
        ({"policy": "menuu"}, wakepath.Error, "menu"),
        ({"policy": 3}, TypeError, "policy: expected a policy set"),
        ({"policy": []}, wakepath.Error, "nothing to compare"),
        ({"workload": []}, wakepath.Error, "nothing to run"),
        ({"workload": 3}, TypeError, "workload: expected"),
        ({"workload": "nowhere.fio"}, wakepath.Error, "nowhere.fio"),
        ({"workload": {"name": "w", "foi": "x"}}, wakepath.Error, "did you mean `fio`"),
        ({"workload": {**SHORT, "seconds": float("nan")}}, ValueError, "workload: seconds is nan, and may be"),
        ({"level": float("inf")}, ValueError, "level is inf, and may be 0.5 to 0.999"),
        ({"repeats": 0}, ValueError, "repeats is 0, and may be 1 to 100000"),
        ({"repeats": 2.5}, TypeError, "repeats: expected a whole number, and there is 2.5"),
        ({"seed": 2**63}, ValueError, "seed is 9223372036854775808, and may be 0"),
        ({"seed": -1}, ValueError, "seed is -1"),
        ({"seed": b"1"}, TypeError, "there is b'1'"),
        ({"name": "a/b"}, wakepath.Error, "name"),
        ({"on": "moon"}, ValueError, "'sim' or 'replay' or 'live'"),
    ],
)
def test_what_no_study_has_is_refused(keys: dict[str, object], kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        built(**keys)


def test_what_a_run_cannot_have_is_refused(tmp_path: Path) -> None:
    study = built()
    with pytest.raises(wakepath.Error, match="no such file"):
        wakepath.Study(tmp_path / "nowhere.toml")
    with pytest.raises(ValueError, match="keys of its own"):
        wakepath.Study("iowait-rk3399", repeats=3)
    for jobs in (0, -1, 10**6):
        with pytest.raises(ValueError, match=f"jobs is {jobs}, and may be 1 to 65535"):
            study.run(jobs=jobs)
    with pytest.raises(TypeError, match=r"jobs: expected a whole number, and there is 2\.0"):
        study.run(jobs=2.0)  # type: ignore[arg-type]
    for into in (3, b"results"):
        with pytest.raises(TypeError, match="into: expected a path"):
            study.run(into)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="there is an empty text"):
        study.run("")
    with pytest.raises(ValueError, match="give `into`"):
        study.run(resume=True)
    with pytest.raises(wakepath.Error, match="shard"):
        study.run(tmp_path / "x", shard="3/2")
    (tmp_path / "file").write_text("")
    with pytest.raises(wakepath.Error, match="file"):
        study.run(tmp_path / "file")
    with pytest.raises(wakepath.Error, match="/proc/results: "):
        study.run("/proc/results")


def test_an_interpreter_that_ends_does_not_wait_for_a_run_of_a_thread(
    python: Callable[[str], "subprocess.Popen[str]"],
) -> None:
    process = python(
        "import threading, time, wakepath\n"
        "study = wakepath.Study(name='long', machine='rk3399', workload={'name': 'w', 'fio': 'iowait-rk3399.fio',"
        " 'seconds': 10000}, policy='menu')\n"
        "threading.Thread(target=study.run, daemon=True).start()\n"
        "time.sleep(0.3)\n"
        "print('ends')\n"
    )
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "ends\n", "")


def test_a_run_while_the_interpreter_ends_is_made_or_refused(
    python: Callable[[str], "subprocess.Popen[str]"],
) -> None:
    process = python(
        "import atexit, wakepath\n"
        "study = wakepath.Study(name='s', machine='rk3399', workload={'name': 'w', 'fio': 'iowait-rk3399.fio',"
        " 'seconds': 0.01}, policy='menu', repeats=1)\n"
        "atexit.register(lambda: print(len(study.run().metrics) > 0))\n"
        "class Late:\n"
        "    def __del__(self):\n"
        "        try:\n            print(len(study.run().metrics) > 0)\n"
        "        except wakepath.Error as error:\n            print(error)\n"
        "late = Late()\n"
    )
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert out in ("True\nTrue\n", "True\nthe interpreter is shutting down\n")


def test_errors_have_the_words_of_the_command_line(tmp_path: Path, program: Callable[..., str]) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text('name = "x"\nmachine = "rk3399"\npolicy = ["menuu"]\n[[workload]]\nname = "w"\nfio = "x.fio"\n')
    said = program("study", "check", file, fails=True)
    with pytest.raises(wakepath.Error) as raised:
        wakepath.Study(file)
    assert said == f"wakepath: {raised.value}\n"
