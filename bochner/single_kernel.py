"""Single-kernel learning (RFF-SKL): the parameters of a kernel by the gradient of held-out error, on random features.

Kernels descend from few features and rows to all of them (:mod:`bochner.descent`). The ridge penalty is chosen anew for
every kernel tried, since it does not carry over from one size to the next, and the final coefficients come from all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from bochner.arrays import Array, dense
from bochner.blas import same_bits
from bochner.criteria import Criterion, Fit, HeldOutError
from bochner.descent import Descent, Level, Plan, Point, choose_ties, count_starts, descend
from bochner.engines.devices import DeviceFolds, DeviceStream
from bochner.features import DrawnAhead, FeatureChoices, FeatureMap, build_map
from bochner.folds import FoldedRows, Folds, HeldOut, Rows
from bochner.kernels import Kernel
from bochner.kernels.ties import SharedScales

SAMPLE_ROWS = 128
DRAWS = 3
"""Draws of the features of the last level, where they are many; the best is kept, since they differ by a few percent."""
SCOUT_FEATURES, SCOUT_ROWS = 256, 2000
TIE_ROWS = 6000
"""Most rows by which it is chosen whether columns share a scale."""
LOWEST_OF_FEW = 1e-6
"""Smallest penalty at few features: with less, kernels so wide that they are near polynomials win, and lead astray."""
LOWEST_IN_FLOAT32 = 1e-6
"""Smallest penalty that sums of float32 products can carry: their relative error is about 1e-7."""


@dataclass(frozen=True)
class LearnedKernel:
    """The end of single-kernel learning: the map, the regression on it, and how it got there."""

    feature_map: FeatureMap
    fit: Fit
    alpha: Any
    value: float
    held_out: HeldOut
    evaluation: Any
    descent: Descent

    @classmethod
    def of(cls, criterion: Criterion, feature_map: FeatureMap, evaluation: Any, descent: Descent) -> LearnedKernel:
        """The regression on a map with the penalty of an evaluation of it."""
        return cls(
            feature_map=feature_map,
            fit=criterion.fit(feature_map, evaluation),
            alpha=np.exp(evaluation.log_alpha).tolist(),
            value=evaluation.value,
            held_out=criterion.held_out(feature_map, evaluation),
            evaluation=evaluation,
            descent=descent,
        )


def default_levels(n_rows: int, n_features: int, n_scales: int) -> tuple[Level, ...]:
    """Small to large: families are tried at 128 and 256 features, compared at 1000, and the best go on from there.

    A family that is clearly worse at any size goes no further. Rows grow with the features, and there are at least 200 for
    each scale, since fewer cannot tell the columns apart. From 4000 features on the fit itself takes so long that there is
    time for more steps, and for two families up to 2000.

    A level is left out where full size costs less than four times as much; cost is rows x features x the fewer of the two.
    The last steps have all features, and as many rows as they can afford; all 40 are taken there where no smaller level is
    left. The regression itself is always fitted on all rows.
    """
    whole, wide = _cost(n_rows, n_features), n_features >= 4_000
    few, some, many = (max(rows, 200 * n_scales) for rows in (2_000, 6_000, 12_000))
    first = Level(128, few, 8, keep=3, lowest_penalty=LOWEST_OF_FEW)
    steps = int(np.clip(n_scales, 12 if wide else 8, 40))  # the more scales, the more there is to learn
    second = Level(256, some, steps, keep=3, lowest_penalty=LOWEST_OF_FEW)
    ladder = [first, second] if few < some else [second]
    if wide:
        ladder += [
            Level(1_000, some, 0, keep=3, factors=(1.0, 1.6), most_validated=2),
            Level(1_000, many, 10, keep=2),
        ]
    else:
        ladder += [
            Level(1_000, max(few, 4_000), 0, keep=1, factors=(1.0, 1.6), most_validated=2),
            Level(1_000, many, 2, most_validated=2),
        ]
    ladder.append(Level(2_000, 24_000, 5, most_validated=2))
    small = [
        level
        for level in ladder
        if level.n_features < n_features and 4 * _cost(min(level.n_rows, n_rows), level.n_features) <= whole
    ]
    if not small:
        return (Level(n_features, n_rows, 40),)
    two_parts = 2 if n_features >= 2_000 and n_rows > 5_000 else None
    if whole < 5e9:
        last = Level(n_features, n_rows, 10)
    elif wide:
        last = Level(n_features, min(n_rows, 32_000), 4, draws=DRAWS)
    elif whole < 5e10 or n_features <= 1_000:
        last = Level(n_features, min(n_rows, 20_000), 5)
    else:
        last = Level(n_features, min(n_rows, 12_000), 1)
    return (*small, replace(last, most_validated=two_parts))


def _cost(n_rows: int, n_features: int) -> float:
    return float(n_rows) * n_features * min(n_rows, n_features)


def learn_kernel(
    folds: FoldedRows,
    plan: Plan,
    rng: np.random.Generator,
    *,
    criterion: Callable[[Any], Criterion] = HeldOutError,
    squared: Callable[[Any], Criterion] = HeldOutError,
    choices: FeatureChoices | None = None,
    other_ties: SharedScales | None = None,
) -> LearnedKernel:
    """Learn a kernel's parameters on ``folds`` of rows and fit the final regression on all rows to fit.

    ``criterion`` makes the held-out error from folds, ``squared`` the one of levels that ask for the squared error,
    ``choices`` says how features are drawn, ``other_ties`` which columns may share a scale instead of those that the plan
    names.
    """
    space = FeatureSpace(folds, criterion, choices or FeatureChoices(), rng, squared)
    if other_ties is not None:
        plan = replace(plan, ties=_choose_ties(space, plan, other_ties))
    with space.drawing_ahead(plan):
        descent = descend(space, plan)
    best = descent.best
    kernel, point = best.kernel, best.point
    objective = cast(FeatureObjective, best.objective)
    whole = best.reached == len(plan.levels)
    if not whole:  # interrupted on the way
        objective = space.objective(kernel, plan.levels[-1])
    if not objective.sees(folds):
        objective = FeatureObjective(objective.feature_map, criterion, folds)
    if best.penalty_was_bounded() or objective is not best.objective:
        point = objective.evaluate(kernel, point.log_alpha, gradient=False, bounds=best.final_bounds(objective))
    return LearnedKernel.of(objective.criterion, objective.feature_map.with_kernel(kernel), point.evaluation, descent)


def _choose_ties(space: FeatureSpace, plan: Plan, other: SharedScales) -> SharedScales:
    """The plan's ties, or the others, by small features of few rows; all trials have the same base points."""
    size = min(SCOUT_FEATURES, plan.levels[-1].n_features)
    level = Level(size, TIE_ROWS, plan.levels[0].max_iter, lowest_penalty=LOWEST_OF_FEW)
    seed = int(space.rng.integers(2**31))

    def space_of(folds: Folds) -> FeatureSpace:
        return FeatureSpace(folds, space.squared, space.choices, np.random.default_rng(seed))

    rows = Rows.stack(space.folds.in_memory.head(TIE_ROWS).to_fit)
    return choose_ties((plan.ties, other), rows, replace(plan, levels=(level,)), space_of)


class FeatureSpace:
    """Kernels tried on their random features: a size is a number of features and of rows."""

    def __init__(
        self,
        folds: FoldedRows,
        criterion: Callable[[Any], Criterion],
        choices: FeatureChoices,
        rng: np.random.Generator,
        squared: Callable[[Any], Criterion] = HeldOutError,
    ) -> None:
        self.folds = folds
        self.criterion = criterion
        self.squared = squared
        self.choices = choices
        self.rng = rng
        self.n_columns = folds.n_columns
        self._ahead: DrawnAhead | None = None

    def sample(self) -> Array:
        return dense(Rows.stack(list(self.folds.in_memory.head(SAMPLE_ROWS).parts)).X).astype(np.float64)

    @contextmanager
    def drawing_ahead(self, plan: Plan) -> Iterator[None]:
        """A context in which a thread draws the maps of a plan, if it has one family, ahead of a device that computes.

        NumPy's BLAS has one thread meanwhile, so that what is drawn does not depend on who else is at work.
        """
        if not isinstance(self.folds, DeviceFolds | DeviceStream) or len(plan.families) > 1:
            yield
            return
        (family,), (first, *others) = plan.families, plan.levels
        starts = count_starts(family, plan)
        levels = [*([self._scouting(first)] if starts else []), *[first] * max(1, starts), *others]
        choices = [self._sized(family, each) for each in levels for _ in range(each.draws)]
        self._ahead = DrawnAhead(self.rng)
        try:
            with same_bits():
                self._ahead.foresee(family, self.n_columns, choices)
                yield
        finally:
            self._ahead.forget()
            self._ahead = None

    def objective(self, kernel: Kernel, level: Level) -> FeatureObjective:
        choices = self._sized(kernel, level)
        if self._ahead is None:
            feature_map = build_map(kernel, self.n_columns, choices, self.rng)
        else:
            feature_map = self._ahead.build(kernel, self.n_columns, choices)
        criterion = self.squared if level.squared else self.criterion
        return FeatureObjective(feature_map, criterion, self.folds.head(level.n_rows, level.most_validated))

    def scout(self, kernel: Kernel, first: Level) -> FeatureObjective:
        return self.objective(kernel, self._scouting(first))

    def _scouting(self, first: Level) -> Level:
        return replace(first, n_features=SCOUT_FEATURES, n_rows=SCOUT_ROWS, max_iter=0, draws=1)

    def _sized(self, kernel: Kernel, level: Level) -> FeatureChoices:
        """How features are drawn at a level; those of an additive kernel are as many as its columns say."""
        return self.choices if kernel.geometry == "additive" else replace(self.choices, n_features=level.n_features)

    def allows(self, kernel: Kernel) -> bool:
        return kernel.contains(self._smallest_value)

    @cached_property
    def _smallest_value(self) -> float:
        return self.folds.smallest_value


class FeatureObjective:
    """The held-out error of a kernel's features, with base points that stay."""

    def __init__(self, feature_map: FeatureMap, criterion: Callable[[Any], Criterion], folds: FoldedRows) -> None:
        self.feature_map = feature_map
        self._make = criterion
        self._use(folds)

    @property
    def size(self) -> dict[str, Any]:
        folds = self.criterion.folds
        precision = str(folds.dtype)
        return {"n_features": self.feature_map.n_features, "n_rows": folds.n, "precision": precision}

    def _use(self, folds: FoldedRows) -> None:
        self.criterion = self._make(folds)
        there = isinstance(folds, DeviceFolds)
        self._placed = self.feature_map.place(cast(Folds, folds).parts[0].X) if there else self.feature_map  # once

    def sees(self, folds: FoldedRows) -> bool:
        """Whether all rows and all parts of ``folds`` take part."""
        mine = self.criterion.folds
        return mine.n == folds.n and mine.validated == folds.validated

    def evaluate(self, kernel: Kernel, log_alpha: Any, *, gradient: bool, bounds: tuple[float, float]) -> Point:
        """The criterion at a kernel; in float64 from the first penalty on that float32 cannot carry."""
        feature_map = self._placed.with_kernel(kernel)
        found = self.criterion.evaluate(feature_map, log_alpha, gradient=gradient, bounds=bounds)
        if self.size["precision"] == "float32" and np.any(np.exp(found.log_alpha) < LOWEST_IN_FLOAT32):
            self._use(self.criterion.folds.astype(np.float64))
            return self.evaluate(kernel, log_alpha, gradient=gradient, bounds=bounds)
        return Point(found.value, found.log_alpha, found.gradient.parameters if found.gradient else {}, found)
