"""The recordings of the laboratory's runs as studies to replay: beside what was simulated and what was measured."""

import json
from collections.abc import Iterator
from pathlib import Path

from laboratory_study import GOVERNORS, Cell

# Blocks of time that a recording is cut into: enough for an interval.
BLOCKS = 10


def replay_studies(cells: list[Cell], out: Path) -> Iterator[tuple[Path, Path]]:
    """Writes a study for each machine; yields it, and where its results belong.

    A workload is replayed as it was recorded under the first policy that it ran with. The other policies that can act
    on a recording are asked what they would have done.
    """
    machines = list(dict.fromkeys(cell.key.machine for cell in cells))
    for machine in machines:
        name = "replay" if len(machines) == 1 else f"replay-{machine}"
        study = out / f"{name}.toml"
        study.write_text(replay_study(name, [cell for cell in cells if cell.key.machine == machine], out))
        yield study, out / name


def replay_study(name: str, cells: list[Cell], out: Path) -> str:
    """A study file for the recordings of one machine."""
    machine = cells[0].machine.relative_to(out)
    lines = [f"name = {toml(name)}", f"machine = {toml(str(machine))}", f"repeats = {BLOCKS}"]
    sets = {"recorded": "unchanged"} | {cell.key.policy: cell.policy for cell in cells if can_replay(cell)}
    for policy, of in sets.items():
        lines += ["", "[[policy]]", f"name = {toml(policy)}", f"set = {toml(of)}"]
    first: dict[str, Cell] = {}
    for cell in cells:
        first.setdefault(cell.key.workload, cell)
    for workload, cell in first.items():
        lines += ["", "[[workload]]", f"name = {toml(workload)}", f'recording = "recordings/{cell.number:06}.parquet"']
    return "\n".join(lines) + "\n"


def can_replay(cell: Cell) -> bool:
    """Whether all of its policies can act on a recording: an idle governor, and leases."""
    return all(policy.name in (*GOVERNORS, "psd") for policy in cell.policies)


def toml(text: str) -> str:
    """A string of TOML; JSON's are."""
    return json.dumps(text, ensure_ascii=False)
