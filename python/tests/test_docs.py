"""The Python of the documentation runs as it stands there."""

import doctest
import re
from pathlib import Path

import pytest

import wakepath
from wakepath import _study

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", ["python.md", "cluster.md"])
def test_the_blocks_of_a_page_run_one_after_another(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for needed in ("polars", "duckdb", "pyarrow", "distributed"):
        pytest.importorskip(needed)
    pandas = pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    small = wakepath.Study(
        name="small",
        machine="rk3399",
        workload={"name": "reads", "fio": "iowait-rk3399.fio", "seconds": 0.01},
        policy=["menu", "teo"],
        repeats=4,
    )
    for name in ("idle-governor.toml", "my-study.toml"):
        Path(name).write_text(small.text)
    text = (DOCS / page).read_text()
    if not hasattr(pandas.DataFrame, "from_arrow"):  # before pandas 3
        text = text.replace("pandas.DataFrame.from_arrow(metrics)", "pyarrow.table(metrics).to_pandas()")
    # test_slurm.py has those of Slurm.
    blocks = [block for block in BLOCK.findall(text) if "SLURMCluster" not in block]
    assert len(blocks) >= 2
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks:
        exec(compile(block, page, "exec"), names)
    assert "menuu" in capsys.readouterr().out or page == "cluster.md"


@pytest.mark.parametrize("module", [wakepath, _study])
def test_examples_of_the_help_say_what_comes_out(module: object) -> None:
    failed, tried = doctest.testmod(module)  # type: ignore[arg-type]
    assert tried > 0
    assert failed == 0
