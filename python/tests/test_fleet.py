"""Fleets: whoever answers the parts, however often they die, the bytes are those of `wakepath fleet`."""

import html
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import pytest

import wakepath
from conftest import contents
from wakepath import _captures, _fleet, _pool, _program, _remote

EXAMPLES = Path(__file__).parents[2] / "docs/examples"

JOB = """\
[reads]
filename=/dev/nvme0n1
rw=randread
bs=4k
direct=1
thinktime=2000
time_based
runtime=10ms
"""


class Asked(TypedDict):
    """What is asked of the fleet."""

    load: str
    minimise: str
    over: str
    budget: int
    fewest: int
    examine: int
    label: list[str]


ASKED: Asked = {
    "load": "reads.fio=8h",
    "minimise": "mean_us",
    "over": "cpu-latency",
    "budget": 20_000,
    "fewest": 1,
    "examine": 0,
    "label": ["a*=first", "b*=second"],
}
"""Three classes: a1 and a2, b1, and c1 without a label."""

PARTS = 5
"""Three searches and two replays."""


def command(*arguments: str, folder: Path) -> str:
    """Run a command of the program in a folder."""
    words = [str(_program.program()), *arguments]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder with a fleet, a job, and what the command makes of both."""
    place = tmp_path_factory.mktemp("fleet")
    (place / "reads.fio").write_text(JOB)
    for number, name in enumerate(("a1", "a2", "b1", "c1")):
        shutil.copytree(EXAMPLES / "captured-laptop", place / "captures" / name)
        # Without another counter they would be copies.
        (place / "captures" / name / "proc/uptime").write_text(f"{12345 + number}.00 1.00\n")
    record = ("sim", "reads.fio", "--machine=laptop", "--policy=menu", "--record=captures/b1.parquet")
    command(*record, "--seconds=300ms", folder=place)
    (place / "captures/c1.parquet").write_text("no recording")
    options = [f"--{name}={value}" for name, value in ASKED.items() if name != "label"]
    labels = [f"--label={label}" for label in ASKED["label"]]
    printed = command("fleet", "captures", *options, *labels, "-o", "whole", "--format=json", folder=place)
    (place / "whole.json").write_text(printed)
    return place


@pytest.fixture(autouse=True)
def inside(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Stand in that folder: pages show the paths that were given."""
    monkeypatch.chdir(place)
    yield
    shutil.rmtree("out", ignore_errors=True)


def is_whole() -> bool:
    """Whether all files are those of the command, and no others are there."""
    found, whole = contents(Path("out")), contents(Path("whole"))
    assert sorted(found) == sorted(whole) == sorted([*(f"class-{n}.settings.toml" for n in (1, 2, 3)), *FILES])
    return found == whole


FILES = ["fleet.html", "machines.csv"]


class Usage(NamedTuple):
    """What a file system has left."""

    free: int


class Breaks(ThreadPoolExecutor):
    """Takes some parts, and then no more."""

    takes = 2

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> "Future[Any]":
        if self.takes == 0:
            raise RuntimeError("cannot schedule new futures after shutdown")
        self.takes -= 1
        future = super().submit(fn, *args, **kwargs)
        future.exception()
        return future


class Counts(ThreadPoolExecutor):
    """Counts parts."""

    taken = 0

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> "Future[Any]":
        self.taken += 1
        return super().submit(fn, *args, **kwargs)


def test_without_a_client_it_is_the_command(place: Path) -> None:
    told: list[tuple[int, int]] = []
    report = wakepath.fleet("captures", into="out", progress=lambda *of: told.append(of), **ASKED)
    assert report == json.loads((place / "whole.json").read_text())
    assert is_whole()
    assert told == [(done, PARTS) for done in range(1, PARTS + 1)]
    assert [replay["machines"] for replay in report["replays"]] == [[], ["b1"]]
    assert [decision["machines"] for decision in report["decisions"]["decisions"]] == [4]


@pytest.mark.parametrize("executor", [ThreadPoolExecutor(1), ThreadPoolExecutor(11), ProcessPoolExecutor(2)])
def test_any_executor_does(executor: Any) -> None:
    with executor:
        wakepath.fleet("captures", executor, "out", **ASKED)
    assert is_whole()


def test_a_cluster_does_and_the_death_of_a_worker_changes_nothing() -> None:
    distributed = pytest.importorskip("distributed")
    killed: list[int] = []

    def kill(done: int, total: int) -> None:
        if not killed:
            killed.extend(list(client.run(os.getpid).values())[:1])
            os.kill(killed[0], signal.SIGKILL)

    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        wakepath.fleet("captures", client, "out", progress=kill, **ASKED)
        assert is_whole()
        shutil.rmtree("out")
        wakepath.fleet("captures", cluster, "out", **ASKED)
    assert len(killed) == 1
    assert is_whole()


def test_a_file_system_of_fsspec_does(place: Path) -> None:
    pytest.importorskip("fsspec")
    url = f"file://{place}/out"
    with Breaks(1) as breaks, pytest.raises(wakepath.Error, match="resume=True"):
        wakepath.fleet("captures", breaks, url, **ASKED)
    with Counts(2) as executor:
        with pytest.raises(wakepath.Error, match="a survey is there already"):
            wakepath.fleet("captures", executor, url, **ASKED)
        assert executor.taken == 0
        wakepath.fleet("captures", executor, url, resume=True, **ASKED)
        assert is_whole()
        wakepath.fleet("captures", executor, url, force=True, **ASKED)
    assert is_whole()
    with pytest.raises(wakepath.Error, match="nosuch"):
        wakepath.fleet("captures", into="nosuch://bucket/fleet", **ASKED)


@pytest.fixture(params=["file", "memory"])
def url(request: pytest.FixtureRequest, place: Path) -> str:
    """Name the captures as fsspec does."""
    fsspec: Any = pytest.importorskip("fsspec")
    if request.param == "file":
        return f"file://{place}/captures"
    memory = fsspec.filesystem("memory")
    if not memory.exists("/captures"):
        memory.put(f"{place}/captures", "/captures", recursive=True)
    return "memory://captures"


def as_local(found: bytes, url: str) -> bytes:
    """Name the captures as the command does, without its options, which Python's call does not show."""
    called, commanded = f'wakepath.fleet("{url}")', "wakepath fleet captures"
    text = found.decode().replace(called, commanded).replace(escape(called), commanded)
    text = re.sub(rf"{commanded}[^\n<]*", commanded, text)
    return text.replace(escape(url), "captures").replace(url, "captures").encode()


def escape(text: str) -> str:
    """Escape a text as the page does."""
    return html.escape(text).replace("/", "&#x2f;")


def test_captures_that_only_fsspec_reaches_do(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    whole = {name: as_local(content, url) for name, content in contents(Path("whole")).items()}
    report = wakepath.fleet(url, into="out", **ASKED)
    assert as_local(json.dumps(report).encode(), url) == json.dumps(json.loads(Path("whole.json").read_text())).encode()
    assert {name: as_local(content, url) for name, content in contents(Path("out")).items()} == whole
    # Processes know no memory of others.
    kind = ProcessPoolExecutor if url.startswith("file") else ThreadPoolExecutor
    with kind(2) as executor:
        assert wakepath.fleet(url, executor, **ASKED) == report
    assert list(tmp_path.iterdir()) == []


def test_resume_knows_recordings_that_only_fsspec_reaches(place: Path) -> None:
    fsspec: Any = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    memory.put(f"{place}/captures", "/others", recursive=True)
    with Breaks(1) as breaks, pytest.raises(wakepath.Error, match="resume=True"):
        wakepath.fleet("memory://others", breaks, "out", **ASKED)
    with Counts(1) as executor:
        wakepath.fleet("memory://others", executor, "out", resume=True, **ASKED)
        assert executor.taken == PARTS - Breaks.takes
    with Breaks(1) as breaks, pytest.raises(wakepath.Error, match="resume=True"):
        breaks.takes = PARTS - 1
        wakepath.fleet("memory://others", breaks, "out", force=True, **ASKED)
    # Other files of the same names and sizes: the replay that is there is not theirs.
    for name in ("b1", "c1"):
        file = f"/others/{name}.parquet"
        memory.pipe_file(file, bytes(len(memory.cat_file(file))))
    with Counts(1) as executor:
        wakepath.fleet("memory://others", executor, "out", resume=True, **ASKED)
        assert executor.taken == 2


def test_a_folder_that_fsspec_does_not_find_or_that_is_too_large_is_refused(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("fsspec")
    for folder, says in (
        ("memory://nowhere", "^memory://nowhere: no such folder"),
        ("nosuch://bucket/captures", "nosuch"),
        (f"file://{place}/captures/a1", "^file://.*captures/a1: is a capture itself"),
    ):
        with pytest.raises(wakepath.Error, match=says):
            wakepath.fleet(folder, **ASKED)
    url = f"file://{place}/captures"
    for limit, says in (("MOST_FILES", "more than 3 files"), ("MOST_BYTES", "more than the 3 of any fleet")):
        with monkeypatch.context() as limited:
            limited.setattr(_captures, limit, 3)
            with pytest.raises(wakepath.Error, match=says):
                wakepath.fleet(url, **ASKED)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(free=1))
    with pytest.raises(wakepath.Error, match=r"captures/[bc]1\.parquet: [0-9]+ bytes, and .* has 1 bytes left"):
        wakepath.fleet(url, **ASKED)


def test_names_that_lead_out_of_the_folder_are_refused() -> None:
    class Hostile:
        """A file system whose list of files leads elsewhere."""

        def find(self, folder: str, **_: Any) -> dict[str, dict[str, Any]]:
            return {f"{folder}/../../etc/passwd": {"size": 1}}

    remote = _remote.Remote("memory://hostile")
    remote.files = Hostile()
    with pytest.raises(wakepath.Error, match=r"^memory://hostile: '\.\./etc/passwd' is no name of a file"):
        _captures._listed(remote)


def test_resume_answers_only_what_is_missing() -> None:
    def interrupt(done: int, total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        wakepath.fleet("captures", into="out", progress=interrupt, **ASKED)
    answers = sorted(Path("out/answers").glob("*.toml"))
    assert len(answers) == 3
    # One that a full disk has cut off is made again.
    answers[0].write_text(answers[0].read_text()[:5])
    with pytest.raises(wakepath.Error, match="out: a survey is there already; resume=True goes on with it"):
        wakepath.fleet("captures", into="out", **ASKED)
    with Counts(2) as executor:
        wakepath.fleet("captures", executor, "out", resume=True, **ASKED)
        assert executor.taken == PARTS - 2
    assert is_whole()


def test_answers_of_another_question_are_not_taken() -> None:
    other: Asked = {**ASKED, "budget": 21_000}
    with Breaks(1) as breaks, pytest.raises(wakepath.Error, match="resume=True"):
        wakepath.fleet("captures", breaks, "out", **other)
    assert len(list(Path("out/answers").glob("*.toml"))) == 2
    with Counts(1) as executor:
        wakepath.fleet("captures", executor, "out", resume=True, **ASKED)
        assert executor.taken == PARTS
    assert is_whole()


def test_a_file_that_a_worker_does_not_see_is_an_error_and_resume_goes_on() -> None:
    class Loses(ThreadPoolExecutor):
        """Loses a recording before the parts are answered."""

        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> "Future[Any]":
            if Path("captures/b1.parquet").exists():
                Path("captures/b1.parquet").rename("lost")
            return super().submit(fn, *args, **kwargs)

    try:
        says = r"there is no /.*/captures/b1\.parquet; .* share"
        with Loses(1) as executor, pytest.raises(wakepath.Error, match=says):
            wakepath.fleet("captures", executor, "out", **ASKED)
    finally:
        Path("lost").rename("captures/b1.parquet")
    wakepath.fleet("captures", into="out", resume=True, **ASKED)
    assert is_whole()


def test_another_build_is_refused() -> None:
    with pytest.raises(wakepath.Error, match="install the same wheel"):
        _fleet.answer_part(_fleet.Job("0.0.9 build 0", 1), ("key", "part"))


def test_without_loads_there_are_no_decisions() -> None:
    report = wakepath.fleet("captures", only="a*", examine=0)
    assert [len(found["machines"]) for found in report["classes"]] == [2]
    assert (report["decisions"], report["replays"]) == (None, [])
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("folder", "asked", "says"),
    [
        ("nowhere", {}, "^nowhere: No such file"),
        (".", {"only": "x*"}, "no name among those of"),
        ("captures/a1", {}, "is a capture itself"),
        ("captures", {"label": "first"}, "label: 'first': expected a pattern and a label"),
        ("captures", {"only": "a["}, r"only: 'a\[': "),
        ("captures", {"load": "nowhere.fio"}, r"nowhere\.fio: "),
        ("captures", {"load": "reads.fio=25h"}, "hours per day are 0 to 24"),
        ("captures", {"load": "reads.fio", "keep": "p99_us ?"}, r"^p99_us \?: "),
        ("captures", {"load": "reads.fio", "minimise": "speed"}, "^speed: "),
        ("captures", {"keep": "p99_us < 150"}, "give `load`"),
        ("captures", {"resume": True}, "give `into`"),
        ("captures", {"into": "/proc/fleet"}, "^/proc/fleet/answers/build: "),
        ("captures", {"load": "reads.fio", "budget": 0}, "budget is 0, and may be 1 to"),
        ("captures", {"fewest": 0}, "fewest is 0, and may be 1 to 65535"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_searched(folder: str, asked: dict[str, Any], says: str) -> None:
    with Counts(1) as executor, pytest.raises(wakepath.Error, match=says):
        wakepath.fleet(folder, executor, **asked)
    assert executor.taken == 0


def test_a_call_that_is_refused_leaves_nothing() -> None:
    with pytest.raises(wakepath.Error, match=r"nowhere\.fio"):
        wakepath.fleet("captures", into="out", load="nowhere.fio")
    with pytest.raises(TypeError, match="client is 'tcp://localhost'"):
        wakepath.fleet("captures", "tcp://localhost", "out")  # type: ignore[arg-type]
    assert not Path("out").exists()


def test_values_of_another_type_are_refused() -> None:
    for asked in ({"load": 3}, {"budget": "much"}, {"examine": 1.5}, {"minimise": None}, {"into": 3}):
        with pytest.raises(TypeError):
            wakepath.fleet("captures", **asked)


def test_what_was_made_is_not_lost_by_an_error_beside_it() -> None:
    def make(job: None, batch: int) -> int:
        if batch == 1:
            raise wakepath.Error("broken")
        return batch

    with ThreadPoolExecutor(1) as executor, _pool.pool_of(executor) as pool:
        pool.begin(make, None)
        for batch in range(3):
            pool.submit(batch)
        # A thread takes one after the other: all three are done.
        executor.submit(int).result()
        assert sorted(pool.finished()) == [0, 2]
        with pytest.raises(wakepath.Error, match="broken"):
            pool.finished()
