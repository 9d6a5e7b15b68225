"""Optuna's TPE and NSGA-II beside `tune` on the spaces of `search_quality`: how many searches find a good set.

Argument: the folder of `cargo run --example search_quality`, whose tables give each set's figures, and how often `tune`
and random search found a good one. Each search has the budget of a search of `tune`. Its first trials are the profiles
and the set in force. A trial costs three runs, as in random search. Optuna gets choices in an order, such as limits, as
numbers, and others as categories. Exit code 1: a sampler finds more than `tune`; 3: Optuna is missing.
"""

import json
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

try:
    import optuna
    from optuna.samplers import BaseSampler, NSGAIISampler, TPESampler
    from optuna.trial import Trial
except ImportError as error:
    print(f"skipped: TPE and NSGA-II beside tune: {error}; scripts/setup-python.sh installs Optuna", file=sys.stderr)
    sys.exit(3)


@dataclass(frozen=True)
class Figures:
    """What three runs of a set say. `excess` is the share beyond the limits, 0 if all are kept."""

    excess: float
    objective: float
    requests: int


@dataclass(frozen=True)
class Space:
    """A space with the figures of its sets."""

    name: str
    # Choices in each dimension, with "no change" as number 0.
    choices: list[int]
    # Whether a dimension's choices from number 1 on are in order, with "no change" as if it came last.
    ordered: list[bool]
    # Sets before the combinations of choices.
    profiles: int
    budget: int
    searches: int
    good: frozenset[int]
    # Searches of tune and of random search that found one of these.
    found_by_tune: int
    found_at_random: int
    # For each first seed and each set; None where the machine refuses the set.
    figures: list[list[Figures | None]]

    @staticmethod
    def read(path: Path) -> "Space":
        """Reads a file that `search_quality` wrote."""
        content = json.loads(path.read_text())
        choices = [count + 1 for count in content["dimensions"]]
        combinations = 1
        for count in choices:
            combinations *= count
        figures = [[Figures(*one) if one else None for one in sets] for sets in content["figures"]]
        return Space(
            name=path.name.removesuffix(".searches.json"),
            choices=choices,
            ordered=content["ordered"],
            profiles=len(figures[0]) - combinations,
            budget=content["budget"],
            searches=content["searches"],
            good=frozenset(content["good"]),
            found_by_tune=content["found"]["tune"],
            found_at_random=content["found"]["random"],
            figures=figures,
        )

    def suggest(self, trial: Trial, dimension: int) -> int:
        """The choice of a trial in a dimension."""
        name, count = str(dimension), self.choices[dimension]
        if self.ordered[dimension]:
            return trial.suggest_int(name, 1, count) % count
        return trial.suggest_categorical(name, range(count))

    def unchanged(self) -> dict[str, int]:
        """The trial that changes nothing."""
        pairs = zip(self.choices, self.ordered, strict=True)
        return {str(index): count if ordered else 0 for index, (count, ordered) in enumerate(pairs)}

    def number_of(self, chosen: Sequence[int]) -> int:
        """The number of the set with these choices."""
        number = 0
        for choice, count in zip(reversed(chosen), reversed(self.choices), strict=True):
            number = number * count + choice
        return self.profiles + number


SAMPLERS: dict[str, Callable[[int], BaseSampler]] = {
    "TPE": lambda seed: TPESampler(seed=seed),
    "NSGA-II": lambda seed: NSGAIISampler(seed=seed),
}


def finds_good_set(space: Space, sampler: str, seed: int) -> bool:
    """Whether the best set of a search, by its own figures, is a good one."""
    figures = space.figures[seed % len(space.figures)]
    spent = 0
    best = (float("inf"), float("inf"), -1)

    def judge(number: int) -> Figures:
        nonlocal spent, best
        found = figures[number]
        if found is None:
            return Figures(1e9, 1e9, 0)
        spent += found.requests
        if spent <= space.budget:
            best = min(best, (found.excess, found.objective, number))
        return found

    def objective(trial: Trial) -> float:
        chosen = [space.suggest(trial, dimension) for dimension in range(len(space.choices))]
        found = judge(space.number_of(chosen))
        trial.set_constraint("excess", found.excess)
        if spent > space.budget:
            trial.study.stop()
        return found.objective

    for profile in range(space.profiles):
        judge(profile)
    study = optuna.create_study(sampler=SAMPLERS[sampler](seed))
    study.enqueue_trial(space.unchanged())
    # A search that draws the same few sets again and again pays for each, so that it ends.
    study.optimize(objective, n_trials=10_000)
    return best[2] in space.good


def count_good_searches(path: Path, sampler: str, seeds: range) -> int:
    """How many of these searches find a good set."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    space = Space.read(path)
    return sum(finds_good_set(space, sampler, seed) for seed in seeds)


def main() -> int:
    """Prints a line for each space."""
    if len(sys.argv) != 2:
        print(f"usage: {Path(sys.argv[0]).name} FOLDER", file=sys.stderr)
        return 2
    paths = sorted(Path(sys.argv[1]).glob("*.searches.json"))
    if not paths:
        print(f"{sys.argv[1]}: no *.searches.json; run the example search_quality first", file=sys.stderr)
        return 1
    names = ["tune", "random", *SAMPLERS]
    print(f"{'searches that find a good set':<30}" + "".join(f"{name:>12}" for name in names))
    worse = 0
    with ProcessPoolExecutor() as pool:
        for path in paths:
            space = Space.read(path)
            parts = [range(first, space.searches, 4) for first in range(4)]
            counts = [space.found_by_tune, space.found_at_random]
            for sampler in SAMPLERS:
                jobs = [pool.submit(count_good_searches, path, sampler, part) for part in parts]
                counts.append(sum(job.result() for job in jobs))
            is_worse = space.found_by_tune < max(counts)
            worse += is_worse
            cells = "".join(f"{f'{count} of {space.searches}':>12}" for count in counts)
            print(f"{space.name:<30}{cells}  no worse: {'NOT MET' if is_worse else 'met'}", flush=True)
    return min(worse, 1)


if __name__ == "__main__":
    sys.exit(main())
