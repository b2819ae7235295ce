"""Part c of ``skl.py``: one evaluation of the criterion beside the matrix products it cannot do without."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from harness import TimerOptions, markdown_table, time_in_turn
from scipy import linalg
from scipy.linalg.blas import dsyrk
from skl_common import HELD_OUT, SEED, Config, evaluation_call, goal, say
from skl_process import in_process

MOST_FLOORS = 1.5
"""The goal, for one evaluation over its floor."""
FLOOR_BLOCK = 2796
"""Rows of a block of the floor: 64 MiB of 3000 features."""
GRAM = ("Gram matrix, NumPy", "Gram matrix, dsyrk")
"""The same sum in two ways, of which the floor counts the faster."""


def floor(config: Config) -> dict[str, Any]:
    """One evaluation with its gradient, and the parts of its floor, in turn."""
    n, m, d = config.floor_rows, config.floor_columns, config.floor_features
    say(f"c: peak memory of one evaluation, {n} x {m}, d = {d}")
    peak = in_process("evaluation", n, m, d)["peak_bytes"]
    say("c: one evaluation and the parts of its floor, in turn")
    calls = floor_calls(n, m, d)
    timings = time_in_turn({"evaluation": evaluation_call(n, m, d), **calls}, TimerOptions(repeats=config.repeats))
    entries = {name: timing.to_dict() for name, timing in timings.items()}
    return {"rows": n, "columns": m, "features": d, "peak_bytes": peak, "held_out": HELD_OUT, "times": entries}


def floor_calls(n: int, m: int, d: int) -> dict[str, Callable[[], object]]:
    """Each matrix product of an evaluation by itself, in blocks of rows and into memory that is already there.

    The features are numbers of a random block, the same for every block of rows: a product takes no note of their values.
    """
    rng = np.random.default_rng(SEED)
    b, f = min(FLOOR_BLOCK, n), d // 2
    X = rng.standard_normal((n, m))
    features, angles = rng.standard_normal((b, d)), np.empty((b, f))
    frequencies, coef = rng.standard_normal((m, f)), rng.standard_normal((d, 2))
    gram, lower = np.empty((d, d)), np.zeros((d, d), order="F")
    turned, predictions = np.empty((m, f)), np.empty((b, 2))
    held = round(HELD_OUT * n)
    positive = np.asfortranarray(features.T @ features + n * np.eye(d))

    def blocks(product: Callable[[slice, int], object]) -> Callable[[], None]:
        def call() -> None:
            for start in range(0, n, b):
                rows = slice(start, min(start + b, n))
                product(rows, rows.stop - start)

        return call

    def predict(rows: slice, k: int) -> None:
        width = 1 if rows.stop <= held else 2  # rows held out meet the coefficients, the others the adjoint too
        np.matmul(features[:k], coef[:, :width], out=predictions[:k, :width])

    forward = blocks(lambda rows, k: np.matmul(X[rows], frequencies, out=angles[:k]))
    return {
        "X G, first pass": forward,
        GRAM[0]: blocks(lambda _, k: np.matmul(features[:k].T, features[:k], out=gram)),
        GRAM[1]: blocks(lambda _, k: dsyrk(1.0, features[:k].T, beta=1.0, c=lower, overwrite_c=1)),
        "Cholesky factor, one": lambda: linalg.cholesky(positive, lower=True, check_finite=False),
        "X G, second pass": forward,
        "features times coefficients": blocks(predict),
        "X' T of the gradient": blocks(lambda rows, k: np.matmul(X[rows].T, angles[:k], out=turned)),
    }


def slower_gram(times: Mapping[str, Mapping[str, float]]) -> str:
    """The way to make the Gram matrix that the floor leaves out."""
    return max(GRAM, key=lambda name: times[name]["best_s"])


def floor_seconds(times: Mapping[str, Mapping[str, float]], key: str) -> float:
    """The sum of all parts of the floor, with the faster Gram matrix."""
    return sum(entry[key] for name, entry in times.items() if name not in ("evaluation", slower_gram(times)))


def floor_table(results: Mapping[str, Any]) -> str:
    """The parts of the floor, their sum, the evaluation, its ratio, and whether the goal is reached."""
    times = results["times"]
    slower = slower_gram(times)
    keys = ("median_s", "best_s")
    sums = {key: floor_seconds(times, key) for key in keys}
    rows = [
        [name + (" (slower, not counted)" if name == slower else ""), *(f"{times[name][key]:.3f}" for key in keys)]
        for name in times
        if name != "evaluation"
    ]
    rows.append(["floor: their sum", *(f"{sums[key]:.3f}" for key in keys)])
    rows.append(["one evaluation with its gradient", *(f"{times['evaluation'][key]:.3f}" for key in keys)])
    ratios = {key: times["evaluation"][key] / sums[key] for key in keys}
    rows.append(["evaluation / floor", *(f"{ratios[key]:.2f}" for key in keys)])
    features_gb = 8e-9 * results["rows"] * results["features"]
    verdict = (
        f"- {results['rows']:,} x {results['columns']}, d = {results['features']}, float64: an evaluation takes "
        f"{ratios['best_s']:.2f} times its floor (best times), {goal(ratios['best_s'], MOST_FLOORS)}. Its peak of memory is "
        f"{results['peak_bytes'] / 1e9:.2f} GB; all features at once would be {features_gb:.2f} GB."
    )
    return f"{markdown_table(['', 'median s', 'best s'], rows)}\n\n{verdict}"
