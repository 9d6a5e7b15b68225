"""Type checkers know the arguments: what is right passes `mypy --strict`, a slip does not."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

RIGHT = """\
from pathlib import Path

import wakepath

results: wakepath.Results = wakepath.simulate(Path("job.fio"), "rk3399", ("menu", wakepath.PolicySet("teo")), runs=4)
best: str | None = results.compare(minimize="mean_us", keep=["p99_us<150"], top=3).best
means: list[float] = results.compare(metric="mean_us").table["mean"]
names: list[str] = [row["policy"] for row in results.metrics]
page: str = wakepath.report(results, Path("results"), output=Path("page.html"))
swept: wakepath.Results = wakepath.sweep("study.toml", into=Path("there"))
classes: list[object] = wakepath.fleet(Path("captures"), load="db.fio=6h", keep=["p99_us < 150"])["classes"]
machine = wakepath.Machine(Path("m.toml"))
answer: object = wakepath.replay(Path("t.parquet"), (name for name in ["menu"]), machine=machine)
"""
WRONG = """\
import wakepath

results = wakepath.Results("there")
results.compare(minimze="mean_us")
results.compare(minimise=3)
wakepath.compare(results, pareto=3)
wakepath.sweep("study.toml", client=3)
wakepath.sweep("study.toml", resume="yes")
wakepath.fleet("captures", budget="much")
wakepath.simulate("job.fio", "rk3399", "menu", runs="3")
wakepath.Study(name=3)
wakepath.report(3)
"""


def test_slips_are_found(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "right.py").write_text(RIGHT)
    (tmp_path / "wrong.py").write_text(WRONG)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "right.py", "wrong.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "right.py" not in done.stdout, done.stdout
    found = {int(line) for line in re.findall(r"^wrong\.py:(\d+): error", done.stdout, re.MULTILINE)}
    assert found == set(range(4, 13)), done.stdout
