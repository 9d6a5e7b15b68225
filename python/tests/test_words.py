"""The rest of the command line's words."""

import json
import pickle
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import wakepath
from conftest import TRACES
from wakepath import _program

Run = Callable[..., str]


def test_the_program_is_in_the_wheel() -> None:
    said = subprocess.run([_program.program(), "--version"], capture_output=True, text=True, check=True).stdout
    assert said == f"wakepath {wakepath.__version__}\n"


def test_policy_sets() -> None:
    both = wakepath.PolicySet("menu@6.12") + "psd[timeout=3ms]"
    assert str(both) == "menu@6.12 + psd[timeout=3ms]"
    assert both.policies == ["menu@6.12", "psd[timeout=3ms]"]
    assert both == wakepath.PolicySet(str(both)) == pickle.loads(pickle.dumps(both))
    assert len({both, wakepath.PolicySet(str(both)), wakepath.PolicySet("teo")}) == 2
    assert (len(wakepath.PolicySet()), repr(both)) == (0, "PolicySet('menu@6.12 + psd[timeout=3ms]')")
    for wrong in ("menuu", "menu + teo", "psd[timout=3ms]"):
        with pytest.raises(wakepath.Error):
            wakepath.PolicySet(wrong)
    assert "psd" + wakepath.PolicySet("menu") == wakepath.PolicySet("psd + menu")
    assert str(wakepath.PolicySet("tuned[balanced]") + "psd") == "tuned[balanced] + psd"
    for other in (3, None, ["psd"]):
        with pytest.raises(TypeError):
            both + other  # type: ignore[operator]
    with pytest.raises(TypeError):
        wakepath.PolicySet(3)  # type: ignore[arg-type]


def test_machines_and_drives(tmp_path: Path) -> None:
    board = wakepath.Machine("rk3399")
    assert (board.name, board.cpus) == ("rk3399", 6)
    assert "rk3399" in wakepath.Machine.names()
    assert board.idle_states[0]
    (tmp_path / "own.toml").write_text(board.to_toml())
    own = wakepath.Machine(str(tmp_path / "own.toml"))
    assert own.to_toml() == board.to_toml() == pickle.loads(pickle.dumps(board)).to_toml()
    drive = wakepath.Drive("sn530")
    assert drive.sleeps
    assert drive.capacity > 10**9
    assert pickle.loads(pickle.dumps(drive)).name == drive.name
    for kind in (wakepath.Machine, wakepath.Drive):
        with pytest.raises(wakepath.Error, match="nowhere"):
            kind("nowhere")
    with pytest.raises(wakepath.Error, match="machine"):
        wakepath.Machine.from_toml("name = 3")


def test_apst_plans_are_those_of_the_command_line(program: Run) -> None:
    plan = wakepath.apst_plan("Intel 760p 256GB", max_latency_us=25_000, rule="legacy")
    printed = program(
        "apst", "plan", "--drive=Intel 760p 256GB", "--max-latency-us=25000", "--rule=legacy", "--format=json"
    )
    assert plan == json.loads(printed)
    with pytest.raises(ValueError, match="primary_timeout_ms is 16777216, and may be 0 to 16777215"):
        wakepath.apst_plan("Intel 760p 256GB", primary_timeout_ms=1 << 24)
    with pytest.raises(TypeError, match="max_latency_us: expected a whole number, and there is nan"):
        wakepath.apst_plan("Intel 760p 256GB", max_latency_us=float("nan"))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="drive: expected a text, and there is 3"):
        wakepath.apst_plan(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="give drive or id_ctrl"):
        wakepath.apst_plan()


def test_recordings_are_replayed_as_by_the_command_line(tmp_path: Path, program: Run) -> None:
    trace = TRACES / "epyc7502-idle-wake-1500MHz.perf-script.txt"
    out = tmp_path / "epyc.parquet"
    read: list[tuple[int, int]] = []
    summary = wakepath.import_trace(trace, output=out, hz=250, progress=lambda *of: read.append(of))
    assert read
    assert 0 < read[-1][0] <= sum(file["events"] for file in summary["files"])
    assert {total for _, total in read} == {0}
    recording = wakepath.Recording(out)
    assert recording.events == summary["recorded_events"] > 100
    assert recording.metadata["source"]
    with pytest.raises(wakepath.Error, match="the file exists"):
        wakepath.import_trace(trace, output=out)
    answer = wakepath.replay(recording, ["menu", wakepath.PolicySet("teo") + "psd"], machine="epyc-7502")
    printed = program(
        "replay", "epyc.parquet", "--policy=menu", "--policy=teo + psd", "--machine=epyc-7502", "--format=json"
    )
    assert answer == json.loads(printed)
    told: list[tuple[int, int]] = []
    assert wakepath.replay(recording, "menu", machine="epyc-7502", progress=lambda *of: told.append(of))
    assert told == sorted(told)
    assert told[-1] == (100, 100)
    by_kernel = wakepath.replay(out, "menu", kernel=["6.1", "7.3"], machine="epyc-7502")
    assert len(by_kernel["policies"]) >= 2
    assert pickle.loads(pickle.dumps(recording)).events == recording.events
    with pytest.raises(wakepath.Error, match=r"nowhere\.parquet"):
        wakepath.Recording(tmp_path / "nowhere.parquet")
    with pytest.raises(wakepath.Error, match="does not act on a recording"):
        wakepath.replay(recording, "menu + schedutil", machine="epyc-7502")


EXPERIMENT = """\
name = "mine"
title = "What I have measured"
source = "my desk"
machine = "rk3399"
policy = ["menu", "teo"]
[[workload]]
name = "reads"
fio = "iowait-rk3399.fio"
seconds = 0.01
[[published]]
name = "iops"
title = "IOPS"
metric = "iops"
row = [{ policy = "menu", value = 4500 }]
[[expect]]
text = "there are requests"
of = "iops"
above = 0
"""


def test_the_progress_of_experiments_is_told(tmp_path: Path) -> None:
    file = str(tmp_path / "mine.toml")
    Path(file).write_text(EXPERIMENT)
    told: list[tuple[int, int]] = []
    wakepath.reproduce(file, runs=2, progress=lambda *of: told.append(of))
    assert told == sorted(told)
    assert told[-1] == (4, 4)

    def refuse(done: int, total: int) -> None:
        raise RuntimeError(f"{done} of {total} are enough")

    with pytest.raises(RuntimeError, match="1 of 100000 are enough"):
        wakepath.reproduce(file, runs=50_000, jobs=1, progress=refuse)
    with pytest.raises(TypeError, match="progress is 'yes'"):
        wakepath.reproduce(file, runs=2, progress="yes")  # type: ignore[arg-type]


def test_an_unknown_experiment_is_refused() -> None:
    with pytest.raises(wakepath.Error, match="nowhere"):
        wakepath.reproduce("nowhere")


def test_warnings_are_those_of_the_program(tmp_path: Path) -> None:
    trace = tmp_path / "trace.txt"
    lines = (TRACES / "epyc7502-idle-wake-1500MHz.perf-script.txt").read_text().splitlines(keepends=True)
    # The first event of a CPU is in the middle of an idle period.
    trace.write_text("".join(lines[1:]))
    with pytest.warns(wakepath.WakepathWarning):
        wakepath.import_trace(trace, output=tmp_path / "out.parquet", hz=250)
