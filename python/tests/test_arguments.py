"""What is given in a wrong way: a TypeError or a ValueError, in Python's words and with the caller's names."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import wakepath
from conftest import TRACES
from wakepath import _engine

JOB = "iowait-rk3399.fio"
TRACE = TRACES / "epyc7502-idle-wake-1500MHz.perf-script.txt"


def simulate(**given: Any) -> wakepath.Results:
    return wakepath.simulate(JOB, "rk3399", **{"policy": "menu", "seconds": 0.01, "runs": 1, **given})


def study(**given: Any) -> wakepath.Study:
    workload = {"name": "w", "fio": JOB, "seconds": 0.01}
    keys = {"name": "s", "machine": "rk3399", "workload": workload, "policy": ["menu", "teo"], **given}
    return wakepath.Study(**keys)


def seconds(value: object) -> dict[str, object]:
    return {"workload": {"name": "w", "fio": JOB, "seconds": value}}


@pytest.mark.parametrize(
    ("call", "given", "says"),
    [
        (simulate, {"runs": 0}, "runs is 0, and may be 1 to 100000"),
        (simulate, {"runs": 100_001}, "runs is 100001"),
        (simulate, {"seed": -1}, "seed is -1"),
        (simulate, {"seconds": -1}, "seconds is -1, and may be 0.001 to 10000000"),
        (simulate, {"seconds": float("nan")}, "seconds is nan"),
        (simulate, {"warm_up": -1}, "warm_up is -1, and may be 0 to 1000000"),
        (simulate, {"copies": 0}, "copies is 0, and may be 1 to 4096"),
        (simulate, {"jobs": 0}, "jobs is 0"),
        (study, {"level": 95}, "level is 95, and may be 0.5 to 0.999"),
        (study, {"margin_percent": -1}, "margin_percent is -1"),
        (study, {"settle_s": 3601}, "settle_s is 3601"),
        (study, {"warm_up_s": -1}, "warm_up_s is -1"),
        (study, {"repeats": 0}, "repeats is 0"),
        (study, {"on": "moon"}, "on is 'moon'"),
        (study, seconds(0), "workload: seconds is 0"),
        (study, {"file": "s.toml"}, "give a file, or the keys"),
        (wakepath.apst_plan, {"drive": "sn530", "rule": "new"}, "rule is 'new'"),
        (wakepath.apst_plan, {"drive": "sn530", "id_ctrl": "x"}, "drive or id_ctrl"),
        (wakepath.reproduce, {"runs": 0}, "runs is 0"),
        (wakepath.reproduce, {"jobs": 4097}, "jobs is 4097"),
        (wakepath.replay, {"trace": "t", "hz": 0}, "hz is 0, and may be 1 to 6250"),
        (wakepath.replay, {"trace": "t", "blocks": 3}, "blocks is 3"),
        (wakepath.replay, {"trace": "t", "machine": "m", "states": "s"}, "give one of them"),
        (wakepath.compare, {}, "nothing to compare"),
        (wakepath.report, {}, "nothing to report"),
    ],
)
def test_what_is_out_of_range_is_a_value_error(
    call: Callable[..., object], given: dict[str, object], says: str
) -> None:
    with pytest.raises(ValueError, match=says) as raised:
        call(**given)
    assert isinstance(raised.value, wakepath.Error)
    assert isinstance(raised.value, wakepath.ArgumentError)


@pytest.mark.parametrize(
    ("call", "given", "says"),
    [
        (simulate, {"runs": 1.5}, "runs: expected a whole number, and there is 1.5"),
        (simulate, {"runs": "3"}, "runs: expected a whole number, and there is '3'"),
        (simulate, {"runs": True}, "runs: expected a whole number, and there is True"),
        (simulate, {"runs": None}, "runs: expected a whole number"),
        (simulate, {"seconds": "1"}, "seconds: expected a number, and there is '1'"),
        (simulate, {"seed": "1"}, "seed: expected a whole number"),
        (simulate, {"kernel": 7.3}, "kernel: expected a text, and there is 7.3"),
        (simulate, {"policy": None}, "policy: expected a policy set"),
        (simulate, {"policy": {"menu", "teo"}}, "policy: a set has no order"),
        (simulate, {"policy": {"a": "menu"}}, "a table names one set"),
        (simulate, {"policy": [None]}, "policy: expected a policy set"),
        (simulate, {"policy": b"menu"}, "policy: expected a policy set"),
        (simulate, {"fio_options": 3}, "fio_options: expected a dictionary"),
        (simulate, {"into": 3}, "into: expected a path"),
        (study, {"name": 3}, "name: expected a text"),
        (study, {"machine": 3}, "machine: expected"),
        (study, {"machine": [3]}, "machine: expected a path"),
        (study, {"drive": 3}, "drive: expected"),
        (study, {"baseline": 3}, "baseline: expected a policy set"),
        (study, {"level": "high"}, "level: expected a number"),
        (study, {"question": 3}, "question: expected"),
        (study, {"name": None}, "at least name, workload and policy"),
        (study, seconds("1"), "workload: seconds: expected a number, and there is '1'"),
        (wakepath.Study, {"file": 3}, "file: expected a path"),
        (wakepath.apst_plan, {"drive": 3}, "drive: expected a text"),
        (wakepath.apst_plan, {"drive": "sn530", "no_deepest": "yes"}, "no_deepest: expected True or False"),
        (wakepath.replay, {"trace": 3}, "trace: expected a path"),
        (wakepath.replay, {"trace": "t", "policy": 3}, "policy: expected a policy set"),
        (wakepath.replay, {"trace": "t", "kernel": 6.1}, "kernel: expected"),
        (wakepath.reproduce, {"runs": 1.5}, "runs: expected a whole number"),
        (wakepath.sweep, {"study": "s", "resume": "yes"}, "resume: expected True or False"),
        (wakepath.Machine, {"name": 3}, "name: expected the name of a machine or the path of a file, and there is 3"),
        (wakepath.Drive, {"name": 3}, "name: expected a part of a drive's name"),
    ],
)
def test_another_type_is_a_type_error(call: Callable[..., object], given: dict[str, object], says: str) -> None:
    with pytest.raises(TypeError, match=says):
        call(**given)


def test_results_are_given_by_themselves_or_by_their_path() -> None:
    for call in (wakepath.compare, wakepath.report):
        with pytest.raises(TypeError, match="expected results or their directory, and there is 3"):
            call(3)  # type: ignore[arg-type]


def test_the_ranges_are_those_of_the_engine(program: Callable[..., str], tmp_path: Path) -> None:
    lines = {"repeats": 0, "level": 2, "margin_percent": -1, "settle_s": -1}
    for key, value in lines.items():
        text = (
            f'name = "s"\nmachine = "rk3399"\n{key} = {value}\npolicy = "menu"\n[[workload]]\nname = "w"\nfio = "x"\n'
        )
        (tmp_path / "s.toml").write_text(text.replace('policy = "menu"', 'policy = ["menu"]'))
        said = program("study", "check", "s.toml", fails=True)
        with pytest.raises(wakepath.ArgumentError) as raised:
            study(**{key: value})
        assert str(raised.value).rpartition("may be ")[2] in said


def test_numbers_of_numpy_and_fractions_are_numbers() -> None:
    numpy = pytest.importorskip("numpy")
    plain = simulate(runs=2, seed=3, seconds=0.02)
    other = simulate(runs=numpy.int64(2), seed=numpy.uint8(3), seconds=numpy.float32(0.02))
    assert [row["value"] for row in plain.metrics] == pytest.approx([row["value"] for row in other.metrics], rel=1e-3)
    exact = simulate(runs=2, seed=3, seconds=Fraction(1, 50))
    assert exact.metrics.to_dict() == plain.metrics.to_dict()
    assert len(study(repeats=numpy.int32(4))) == 8
    assert len(study(workload={"name": "w", "fio": JOB, "fio_options": {"rate_iops": numpy.array([100, 200])}})) == 40


def test_policies_come_in_any_series() -> None:
    names = ["menu", "teo"]
    pandas = pytest.importorskip("pandas")
    numpy = pytest.importorskip("numpy")
    pyarrow = pytest.importorskip("pyarrow")
    polars = pytest.importorskip("polars")
    for given in (
        names,
        tuple(names),
        (name for name in names),
        dict.fromkeys(names).keys(),
        map(wakepath.PolicySet, names),
        pandas.Series(names),
        pandas.Index(names),
        numpy.array(names),
        numpy.array(names, dtype=object),
        pyarrow.array(names),
        polars.Series(names),
    ):
        found = study(policy=given, also=(name for name in ["deepest"])).policies
        assert found in (["menu", "teo", "deepest"], ["menu@6.12", "teo@6.12", "deepest"]), given
    assert study(policy="menu").policies == ["menu"]
    assert study(policy=wakepath.PolicySet("menu")).policies == ["menu@6.12"]
    assert study(policy=[pandas.Series(names), numpy.array(["", "psd"])]).policies[-1] == "teo + psd"
    assert study(policy={"name": "mine", "set": "menu"}).policies == ["mine"]
    machines = study(machine=numpy.array(["rk3399", "laptop"]))
    assert len(machines) == 40


def test_paths_are_any_path(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text(wakepath.Machine("rk3399").to_toml())
    assert wakepath.Machine(file) == wakepath.Machine(str(file))
    assert study(machine=file).run().document["machines"][0]["title"] == wakepath.Machine("rk3399").title
    drive = tmp_path / "drive.toml"
    drive.write_text((Path(__file__).parents[2] / "crates/hardware/data/drive_models/sn530.toml").read_text())
    assert wakepath.Drive(drive) == wakepath.Drive("sn530")
    assert "SN530" in simulate(drive=drive).document["machines"][0]["drive"]
    results = study().run(tmp_path / "results")
    page = wakepath.report(results)
    assert page == wakepath.report(results.path, output=tmp_path / "page.html")
    assert wakepath.compare(results.path) == wakepath.compare(results)


@pytest.mark.parametrize(
    ("said", "in_python"),
    [
        (
            "--resume goes on, --force replaces them",
            "resume=True goes on, force=True replaces them",
        ),
        ("(--machine rk3399, `wakepath machine list` has", '(machine="rk3399", `wakepath.Machine.names()` has'),
        ("a recorded system (wakepath machine list); or", "a recorded system (`wakepath.Machine.names()`); or"),
        ("`wakepath drive list` prints them all", "`wakepath.Drive.names()` prints them all"),
        ("give its states (--states FILE.csv)", 'give its states (states="FILE.csv")'),
        ("`wakepath study run --shard 3/64 --resume`", '`wakepath.Study.run(shard="3/64", resume=True)`'),
        ("a recording is replayed: --on replay", 'a recording is replayed: on="replay"'),
        ("name a drive (--drive)", "name a drive (drive)"),
        ("--policy 'menu + schedutil': no", 'policy="menu + schedutil": no'),
        ("invalid value 'x' for '--hz <HZ>': expected", "invalid value 'x' for hz: expected"),
        ("--hz says 250 ticks", "hz says 250 ticks"),
        ("or give --any-machine", "or give any_machine=True"),
        # What Python has not, and options of other programs.
        ("`wakepath replay --calls FILE` writes", "`wakepath replay --calls FILE` writes"),
        ("`wakepath study new x.toml` writes", "`wakepath study new x.toml` writes"),
        ("in version 3 (--terse-version=3)", "in version 3 (--terse-version=3)"),
        ("perf script --ns give them", "perf script --ns give them"),
    ],
)
def test_errors_speak_python(said: str, in_python: str) -> None:
    assert _engine.in_python(said) == in_python


def test_errors_of_the_engine_speak_python(tmp_path: Path) -> None:
    with pytest.raises(wakepath.Error, match=r"`wakepath\.Drive\.names\(\)`"):
        wakepath.Drive("no-such-drive-anywhere")
    with pytest.raises(wakepath.Error, match=r"`wakepath\.Machine\.names\(\)`"):
        wakepath.Machine("nowhere")
    study().run(tmp_path / "there")
    with pytest.raises(wakepath.Error, match="resume=True goes on with them, force=True replaces them"):
        study().run(tmp_path / "there")
    with pytest.raises(wakepath.Error, match=r'machine="rk3399", `wakepath\.Machine\.names\(\)`'):
        recording = tmp_path / "t.parquet"
        with pytest.warns(wakepath.WakepathWarning):
            wakepath.import_trace(TRACE, output=recording, hz=250)
        wakepath.replay(recording)
    # No line of a text that nobody wrote.
    wrong: tuple[dict[str, object], ...] = (
        {"policy": "menuu"},
        {"workload": {"name": "w", "foi": "x"}},
        {"workload": []},
        {"name": "a/b"},
    )
    for keys in wrong:
        with pytest.raises(wakepath.Error) as raised:
            study(**keys)
        assert "study:" not in str(raised.value)
