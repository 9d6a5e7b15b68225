"""The simulation of large sweeps: where the answer is known, and the table of docs/guides/cluster.md."""

import subprocess
import sys
from pathlib import Path

import pytest

from cluster_model import Cluster, Costs, simulate

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "python/scale/cluster_model.py"
FREE = Costs(begin=0, hand_out=0, batch=0, file=0, finish=0)
SMALL = Cluster(cells=40_000, workers=20, cell=0.02, spread=0, files_per_second=float("inf"), wait=0)


def test_without_costs_nothing_is_lost() -> None:
    outcome = simulate(SMALL, FREE)
    assert outcome.cells == SMALL.cells
    assert outcome.simulated == pytest.approx(SMALL.cells * SMALL.cell)
    assert outcome.efficiency == pytest.approx(1, abs=0.01)


def test_a_scheduler_that_is_slower_than_the_workers_sets_the_pace() -> None:
    outcome = simulate(SMALL._replace(batches_per_second=float("inf")), FREE._replace(hand_out=0.2))
    assert outcome.runs == pytest.approx(0.2 * outcome.batches, rel=0.05)
    assert outcome.efficiency < 0.3
    # What a batch costs is of less weight in longer ones.
    longer = simulate(SMALL._replace(batches_per_second=2), FREE._replace(hand_out=0.2))
    assert longer.batches < outcome.batches
    assert longer.efficiency > 1.5 * outcome.efficiency


def test_a_file_system_takes_no_more_than_it_can() -> None:
    outcome = simulate(SMALL._replace(files_per_second=500), FREE)
    assert outcome.runs == pytest.approx(SMALL.cells / 500, rel=0.01)
    assert outcome.files == pytest.approx(outcome.runs, rel=0.01)
    # What is done before and after the runs is no matter of the file system.
    with_tables = simulate(SMALL._replace(files_per_second=500), FREE._replace(begin=1e-3, finish=2e-3))
    assert with_tables.seconds == pytest.approx(outcome.runs + SMALL.cells * 3e-3)


def test_nothing_is_lost_or_made_twice() -> None:
    for workers in (1, 7, 300):
        outcome = simulate(SMALL._replace(cells=12_345, workers=workers, spread=0.5), Costs())
        assert outcome.cells == 12_345
        assert outcome.simulated < workers * outcome.runs
        assert outcome.simulated == pytest.approx(12_345 * SMALL.cell, rel=0.02)


def test_the_table_of_the_page_is_what_it_prints() -> None:
    printed = subprocess.run([sys.executable, MODEL], capture_output=True, text=True, check=True).stdout
    assert f"```text\n{printed}```" in (ROOT / "docs/guides/cluster.md").read_text()
