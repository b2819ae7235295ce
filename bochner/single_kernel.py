"""Single-kernel learning (RFF-SKL): the parameters of a kernel by the gradient of held-out error, on random features.

Kernels descend from few features and rows to all of them (:mod:`bochner.descent`). The ridge penalty is chosen anew for
every kernel tried, since it does not carry over from one size to the next, and the final coefficients come from all rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from bochner.arrays import Array, dense
from bochner.criteria import Criterion, Folds, HeldOut, HeldOutError, Rows
from bochner.descent import HIGHEST_WHILE_LEARNING, Descent, Level, Plan, Point, descend
from bochner.features import FeatureChoices, FeatureMap, build_map
from bochner.kernels import Kernel
from bochner.penalties import ScalePenalty
from bochner.solvers.penalty_search import HIGHEST_PENALTY

SAMPLE_ROWS = 128
SCOUT_FEATURES, SCOUT_ROWS = 256, 2000
LOWEST_OF_FEW = 1e-6
"""Smallest penalty at few features: with less, kernels so wide that they are near polynomials win, and lead astray."""
NO_SCALE = 1e-12
"""Scale of a column that does not count, relative to the largest: no cosine feels it."""
LOWEST_IN_FLOAT32 = 1e-6
"""Smallest penalty that sums of float32 products can carry: their relative error is about 1e-7."""


@dataclass(frozen=True)
class LearnedKernel:
    """The end of single-kernel learning: the map, the regression on it, and how it got there."""

    feature_map: FeatureMap
    coef: Array
    intercept: Array
    alpha: Any
    value: float
    held_out: HeldOut
    evaluation: Any
    descent: Descent


def default_levels(n_rows: int, n_features: int, n_columns: int) -> tuple[Level, ...]:
    """Small to large: families are tried at 128 and 256 features, compared at 1000, and the best one goes on from there.

    Rows grow with the features, and there are at least 200 for each column.

    A level is left out where full size costs less than four times as much; cost is rows x features x the fewer of the two.
    The last steps have all features, and as many rows as they can afford; all 40 are taken there where no smaller level is
    left. The regression itself is always fitted on all rows.
    """
    whole = _cost(n_rows, n_features)
    wide = n_features >= 4_000  # which leaves time to look longer at smaller sizes
    few, more = max(2_000, 200 * n_columns), max(6_000, 200 * n_columns)  # rows that can tell the columns apart
    ladder = [
        Level(256, more, int(np.clip(n_columns, 12 if wide else 8, 40)), keep=3, lowest=LOWEST_OF_FEW),
        Level(
            1_000,
            max(more, 6_000) if wide else max(few, 4_000),
            0,
            keep=3 if wide else 1,
            factors=(1.0, 1.6),
            most_validated=2,
        ),
        Level(1_000, max(more, 12_000), 10 if wide else 2, keep=2 if wide else 1, most_validated=None if wide else 2),
        Level(2_000, 24_000, 5, most_validated=2),
    ]
    if few < more:
        ladder.insert(0, Level(128, few, 8, keep=3, lowest=LOWEST_OF_FEW))
    small = [level for level in ladder if 4 * _cost(min(level.n_rows, n_rows), level.n_features) <= whole]
    small = [level for level in small if level.n_features < n_features]
    if not small:
        return (Level(n_features, n_rows, 40),)
    steps = 10 if whole < 5e9 else 5 if whole < 5e10 else 5 if wide else 1
    few_parts = 2 if n_features >= 2_000 and n_rows > 5_000 else None
    rows = n_rows if whole < 5e10 else min(n_rows, 16_000 if wide else 12_000)
    return (*small, Level(n_features, rows, steps, most_validated=few_parts))


def _cost(n_rows: int, n_features: int) -> float:
    return float(n_rows) * n_features * min(n_rows, n_features)


def learn_kernel(
    folds: Folds,
    plan: Plan,
    rng: np.random.Generator,
    *,
    criterion: Callable[[Folds], Criterion] = HeldOutError,
    choices: FeatureChoices | None = None,
) -> LearnedKernel:
    """Learn a kernel's parameters on ``folds`` of rows and fit the final regression on all of them.

    ``criterion`` makes the held-out error from folds, ``choices`` says how features are drawn.
    """
    space = FeatureSpace(folds, criterion, choices or FeatureChoices(), rng)
    descent = descend(space, plan)
    best = descent.best
    kernel, point = without_negligible(best.kernel, plan.penalty), best.point
    objective = cast(FeatureObjective, best.objective)
    whole = best.reached == len(plan.levels)
    if not whole:  # interrupted on the way
        objective = space.objective(kernel, plan.levels[-1])
    if not objective.sees(folds):
        objective = FeatureObjective(objective.feature_map, criterion, folds)
    at_the_cap = np.any(np.exp(point.log_alpha) > 0.99 * HIGHEST_WHILE_LEARNING)
    if at_the_cap or objective is not best.objective or kernel is not best.kernel:
        bounds = best.lowest_penalty(objective), HIGHEST_PENALTY
        point = objective.evaluate(kernel, point.log_alpha, gradient=False, bounds=bounds)
    feature_map = objective.feature_map.with_kernel(kernel)
    coef, intercept = objective.criterion.fit(feature_map, point.evaluation)
    return LearnedKernel(
        feature_map=feature_map,
        coef=coef,
        intercept=intercept,
        alpha=np.exp(point.log_alpha).tolist(),
        value=point.value,
        held_out=objective.criterion.held_out(feature_map, point.evaluation),
        evaluation=point.evaluation,
        descent=descent,
    )


def without_negligible(kernel: Kernel, penalty: ScalePenalty) -> Kernel:
    """The kernel with the scales that a sparse penalty has made negligible at practically zero."""
    scales = np.asarray(kernel.scale)
    negligible = scales < penalty.negligible * scales.max()
    return kernel.replace(scale=np.where(negligible, NO_SCALE * scales.max(), scales)) if negligible.any() else kernel


class FeatureSpace:
    """Kernels tried on their random features: a size is a number of features and of rows."""

    def __init__(
        self,
        folds: Folds,
        criterion: Callable[[Folds], Criterion],
        choices: FeatureChoices,
        rng: np.random.Generator,
    ) -> None:
        self.folds = folds
        self.criterion = criterion
        self.choices = choices
        self.rng = rng
        self.n_columns = folds.parts[0].X.shape[1]

    def sample(self) -> Array:
        return dense(Rows.stack(list(self.folds.head(SAMPLE_ROWS).parts)).X).astype(np.float64)

    def objective(self, kernel: Kernel, level: Level) -> FeatureObjective:
        choices = self.choices
        if kernel.geometry != "additive":  # whose number of features is given by its columns
            choices = replace(choices, n_features=level.n_features)
        feature_map = build_map(kernel, self.n_columns, choices, self.rng)
        return FeatureObjective(feature_map, self.criterion, self.folds.head(level.n_rows, level.most_validated))

    def scout(self, kernel: Kernel) -> FeatureObjective:
        return self.objective(kernel, Level(SCOUT_FEATURES, SCOUT_ROWS, 0))

    def allows(self, kernel: Kernel) -> bool:
        return kernel.contains(self._lowest)

    @cached_property
    def _lowest(self) -> float:
        return min(float(part.X.min()) for part in self.folds.parts)


class FeatureObjective:
    """The held-out error of a kernel's features, with base points that stay."""

    def __init__(self, feature_map: FeatureMap, criterion: Callable[[Folds], Criterion], folds: Folds) -> None:
        self.feature_map = feature_map
        self._make = criterion
        self.criterion = criterion(folds)

    @property
    def size(self) -> dict[str, Any]:
        folds = self.criterion.folds
        precision = str(folds.parts[0].X.dtype)
        return {"n_features": self.feature_map.n_features, "n_rows": folds.n, "precision": precision}

    def sees(self, folds: Folds) -> bool:
        """Whether all rows and all parts of ``folds`` take part."""
        mine = self.criterion.folds
        return mine.n == folds.n and mine.validated == folds.validated

    def evaluate(self, kernel: Kernel, log_alpha: Any, *, gradient: bool, bounds: tuple[float, float]) -> Point:
        """The criterion at a kernel; in float64 from the first penalty on that float32 cannot carry."""
        feature_map = self.feature_map.with_kernel(kernel)
        found = self.criterion.evaluate(feature_map, log_alpha, gradient=gradient, bounds=bounds)
        if self.size["precision"] == "float32" and np.any(np.exp(found.log_alpha) < LOWEST_IN_FLOAT32):
            self.criterion = self._make(self.criterion.folds.astype(np.float64))
            return self.evaluate(kernel, log_alpha, gradient=gradient, bounds=bounds)
        return Point(found.value, found.log_alpha, found.gradient.parameters if found.gradient else {}, found)
