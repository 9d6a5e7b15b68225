"""The scripts of docs/guides/cluster.md on a real Slurm: a sweep whose workers are its jobs, and a job array."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import slurm
import wakepath
from conftest import contents

PAGE = (Path(__file__).parents[2] / "docs/guides/cluster.md").read_text()


@pytest.fixture(scope="module")
def configuration(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Start Slurm."""
    if slurm.missing():
        pytest.skip(f"Slurm: {', '.join(slurm.missing())} not installed (scripts/setup-debian.sh)")
    with slurm.running(tmp_path_factory.mktemp("slurm"), cpus=4) as configuration:
        yield configuration


@pytest.fixture
def folder(configuration: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a folder with the study of the page, where Slurm and this Python's programs are found."""
    monkeypatch.setenv("SLURM_CONF", str(configuration))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    monkeypatch.chdir(tmp_path)
    study = wakepath.Study(
        name="my-study",
        machine="rk3399",
        workload={"name": "reads", "fio": "iowait-rk3399.fio", "seconds": 0.02},
        policy=["menu", "teo"],
        repeats=5,
    )
    Path("my-study.toml").write_text(study.text)
    study.run("whole")
    return tmp_path


def block(language: str, has: str) -> str:
    """Give the block of the page in which something stands."""
    blocks: list[str] = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    [found] = [block for block in blocks if has in block]
    return found


def made_small(text: str, sizes: dict[str, str]) -> str:
    """Replace the sizes of a large cluster, all of which the page has to have."""
    for large, small in sizes.items():
        assert large in text
        text = text.replace(large, small)
    return text


def test_the_jobs_of_slurm_are_the_workers_of_a_sweep(folder: Path) -> None:
    pytest.importorskip("dask_jobqueue")
    sizes = {"cores=32": "cores=2", "processes=32": "processes=2", '"64GB"': '"2GB"', "jobs=10": "jobs=2"}
    script = made_small(block("python", "SLURMCluster"), sizes).replace("/shared/", f"{folder}/swept/")
    Path("sweep.py").write_text(script)
    done = subprocess.run([sys.executable, "sweep.py"], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert contents(folder / "swept/my-study") == contents(folder / "whole")


def test_a_job_array_makes_the_same_bytes(folder: Path) -> None:
    Path("array.sh").write_text(made_small(block("sh", "#SBATCH"), {"1-64": "1-3"}))
    commands = made_small(block("sh", "sbatch"), {"-of-64": "-of-3"})
    done = subprocess.run(["sh", "-ec", commands], capture_output=True, text=True, timeout=120, check=False)
    logs = "".join(log.read_text() for log in folder.glob("slurm-*.out"))
    assert done.returncode == 0, done.stderr + logs
    assert contents(folder / "my-study-sim") == contents(folder / "whole")
