"""The notebooks of docs/examples run from top to bottom."""

import json
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "docs/examples"


@pytest.mark.parametrize("notebook", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_runs(notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    pytest.importorskip("polars")
    pytest.importorskip("distributed")
    # In any folder.
    monkeypatch.chdir(tmp_path)
    cells = json.loads(notebook.read_text())["cells"]
    codes = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert len(codes) >= 3
    names: dict[str, object] = {"__name__": "__main__"}
    for number, code in enumerate(codes):
        exec(compile(code, f"{notebook.name}, code cell {number}", "exec"), names)
    pictures = list(tmp_path.glob("*.png"))
    assert all(picture.stat().st_size > 5000 for picture in pictures)
    assert pictures or notebook.stem == "cluster"
