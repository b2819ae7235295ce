"""What the parts of ``skl.py`` share: their sizes, synthetic rows, one evaluation of the criterion, lines of progress."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bochner.criteria import HeldOutError
from bochner.features import FeatureChoices, FeatureMap, build_map
from bochner.folds import Folds, Rows
from bochner.kernels import Gaussian

SEED = 0
NOISE = 0.1
HELD_OUT = 0.2
PENALTY_STEP = 0.2
"""An evaluation starts this far from its best log penalty: about the change from one step of learning to the next."""
WARM_UP_ROWS = 64


@dataclass(frozen=True, kw_only=True)
class Config:
    """Sizes of all parts.

    ``most_rows`` cuts the data sets of part a; costly contestants run once, the others ``repeats`` times.
    """

    repeats: int = 3
    most_rows: int | None = None
    fit_features: int = 2000
    rows: tuple[int, ...] = (1_000, 3_000, 10_000, 30_000, 100_000)
    exact_rows: tuple[int, ...] = (300, 1_000, 2_000, 3_000)
    exact_limit_s: float = 180.0
    columns: int = 10
    features: int = 1000
    floor_rows: int = 100_000
    floor_columns: int = 100
    floor_features: int = 3000
    grid: bool = True


def quick_config(*, grid: bool) -> Config:
    """Sizes of a smoke test."""
    return Config(
        repeats=1,
        most_rows=1500,
        fit_features=200,
        rows=(300, 1_000, 3_000),
        exact_rows=(100, 200),
        exact_limit_s=60.0,
        features=200,
        floor_rows=6_000,
        floor_columns=20,
        floor_features=600,
        grid=grid,
    )


def smooth_rows(n: int, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Standard normal rows (n, m) and y = sin(2 u) + cos(v) / 2 + noise, u and v weighted sums of all columns."""
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((n, m))
    falling = 1 / np.arange(1, m + 1)
    signal = np.sin(2 * X @ (falling / np.linalg.norm(falling))) + 0.5 * np.cos(X @ falling[::-1])
    return X, signal + NOISE * rng.standard_normal(n)


def held_out_problem(n: int, m: int, d: int) -> tuple[HeldOutError, FeatureMap]:
    """The criterion of one evaluation, with a fifth of the rows held out, and a Gaussian map of d features."""
    X, y = smooth_rows(n, m)
    return HeldOutError(held_out_folds(X, (y - y.mean()) / y.std())), gaussian_map(m, d)


def held_out_folds(X: np.ndarray, y: np.ndarray) -> Folds:
    """A fifth of the rows, the first ones, held out."""
    rows, held = Rows(X, y[:, None], np.ones(len(y))), round(HELD_OUT * len(y))
    return Folds((rows.take(slice(held, None)), rows.take(slice(0, held))), (1,))


def gaussian_map(m: int, d: int) -> FeatureMap:
    """d features of a Gaussian kernel that is as wide as rows are apart, and can tell some of them from others."""
    kernel = Gaussian(scale=np.full(m, (2 * m) ** -0.5))
    return build_map(kernel, m, FeatureChoices(n_features=d), np.random.default_rng(SEED))


def evaluation_call(n: int, m: int, d: int) -> Callable[[], object]:
    """One evaluation of the criterion and its gradient, as learning does it: its penalty starts near the best one."""
    criterion, feature_map = held_out_problem(n, m, d)
    start = criterion.evaluate(feature_map, gradient=False).log_alpha + PENALTY_STEP
    return lambda: criterion.evaluate(feature_map, start)


def goal(value: float, bound: float, *, at_least: bool = False) -> str:
    """Whether a goal is reached, in words."""
    reached = value >= bound if at_least else value <= bound
    return f"goal at {'least' if at_least else 'most'} {bound:g}: {'reached' if reached else 'not reached'}"


def say(text: str) -> None:
    """A line of progress, with the time of day."""
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)
