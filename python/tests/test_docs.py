"""The Python of the documentation runs as it stands there, as a script."""

import doctest
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import wakepath
from wakepath import _study

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)

Start = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture(autouse=True)
def my_study(tmp_path: Path) -> None:
    """Write the study, and the fleet with its load, that the pages speak of."""
    shutil.copytree(ROOT / "docs/examples/captured-laptop", tmp_path / "captures/web-01")
    shutil.copy(ROOT / "docs/examples/tutorial.fio", tmp_path / "db.fio")
    study = wakepath.Study(
        name="my-study",
        machine="rk3399",
        workload={"name": "reads", "fio": "iowait-rk3399.fio", "seconds": 0.01},
        policy=["menu", "teo"],
        repeats=4,
    )
    (tmp_path / "my-study.toml").write_text(study.text)


def blocks(page: str) -> list[str]:
    """Give the Python of a page; test_slurm.py has that of Slurm."""
    found = [block for block in BLOCK.findall((ROOT / page).read_text()) if "SLURMCluster" not in block]
    assert found
    return found


def run(python: Start, script: str) -> str:
    """Run a script without a guard of its own."""
    process = python(script)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out


def test_the_blocks_of_the_manual_are_one_script(python: Start, tmp_path: Path) -> None:
    for needed in ("polars", "duckdb", "pyarrow", "matplotlib", "optuna"):
        pytest.importorskip(needed)
    pandas = pytest.importorskip("pandas")
    script = "\n".join(blocks("docs/guides/python.md"))
    if not hasattr(pandas.DataFrame, "from_arrow"):  # before pandas 3
        script = script.replace("pandas.DataFrame.from_arrow(metrics)", "pyarrow.table(metrics).to_pandas()")
    out = run(python, script)
    assert out.startswith("teo\n")
    assert "menuu" in out
    assert (tmp_path / "governors.html").stat().st_size > 100_000
    for picture in ("pareto.png", "bars.png", "latency.png"):
        assert (tmp_path / picture).stat().st_size > 5000


@pytest.mark.parametrize("block", blocks("docs/guides/cluster.md") + blocks("README.md"))
def test_a_block_is_a_script(block: str, python: Start) -> None:
    run(python, block)


@pytest.mark.parametrize("module", [wakepath, _study])
def test_examples_of_the_help_say_what_comes_out(module: object) -> None:
    failed, tried = doctest.testmod(module)  # type: ignore[arg-type]
    assert tried > 0
    assert failed == 0
