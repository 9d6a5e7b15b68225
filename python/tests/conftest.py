"""What the tests share: a study that takes no time, and the program of the command line."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from wakepath import _program

TRACES = Path(__file__).parents[2] / "crates/trace/tests/data"

STUDY = """\
name = "small"
machine = "rk3399"
repeats = 4
policy = ["menu", "teo"]
[[workload]]
name = "reads"
fio = "iowait-rk3399.fio"
seconds = 0.02
[[question]]
metric = "mean_us"
"""


@pytest.fixture
def study_file(tmp_path: Path) -> Path:
    """Write the study."""
    file = tmp_path / "small.toml"
    file.write_text(STUDY)
    return file


@pytest.fixture
def program(tmp_path: Path) -> Callable[..., str]:
    """Run a command of the program in the test's folder; return what it prints."""

    def run(*arguments: object, fails: bool = False) -> str:
        words = [str(_program.program()), *map(str, arguments)]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.returncode != 0) == fails, done.stderr
        return done.stderr if fails else done.stdout

    return run


@pytest.fixture
def python(tmp_path: Path) -> Callable[[str], subprocess.Popen[str]]:
    """Start a script of its own."""

    def start(text: str) -> subprocess.Popen[str]:
        script = tmp_path / "script.py"
        script.write_text(text)
        return subprocess.Popen(
            [sys.executable, script], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    return start


def contents(folder: Path) -> dict[str, bytes]:
    """Read all files of a folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}
