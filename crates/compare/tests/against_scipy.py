"""What SciPy says of the series that against_scipy.rs compares.

Reads a list of {"mean": NAME, "baseline": [...], "series": [...]} from standard input and prints a list with, for each,
both means, BCa's 95 % interval of the ratio of the means, the p-value of Welch's test on logarithms, and Hedges' g.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
from scipy import stats  # type: ignore[import-untyped]

MEANS: dict[str, Any] = {"arithmetic": np.mean, "harmonic": stats.hmean, "geometric": stats.gmean}


def hedges_g(a: Any, b: Any) -> float:
    freedom = len(a) + len(b) - 2
    pooled = np.sqrt((np.var(a) * len(a) + np.var(b) * len(b)) / freedom)
    return float((np.mean(b) - np.mean(a)) / pooled * (1 - 3 / (4 * freedom - 1)))


def compare(case: dict[str, Any]) -> dict[str, Any]:
    a, b = np.array(case["baseline"]), np.array(case["series"])
    mean = MEANS[case["mean"]]
    interval = stats.bootstrap(
        (a, b),
        lambda x, y, axis: mean(y, axis=axis) / mean(x, axis=axis),
        n_resamples=4999,
        vectorized=True,
        method="BCa",
        rng=np.random.default_rng(1),
    ).confidence_interval
    return {
        "means": [float(mean(a)), float(mean(b))],
        "interval": [(float(ratio) - 1) * 100 for ratio in interval],
        "p_value": float(stats.ttest_ind(np.log(a), np.log(b), equal_var=False).pvalue),
        "effect": hedges_g(a, b),
    }


if __name__ == "__main__":
    print(json.dumps([compare(case) for case in json.load(sys.stdin)]))
