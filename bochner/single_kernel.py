"""Single-kernel learning (RFF-SKL): the parameters of a kernel by the gradient of held-out error, from small to large.

Candidates (kernel families) start at the scale that the held-out error of a wide kernel and a narrow one decides. Each
climbs at a small number of features and rows; the best go on to larger sizes with their scales and their curvature; the
last one takes a few steps at full size. The ridge penalty is chosen anew for every kernel tried, since it does not carry
over from one size to the next, and the final coefficients come from all rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bochner.arrays import Array, dense
from bochner.criteria import Folds, HeldOut, HeldOutError, Rows
from bochner.features import FeatureChoices, FeatureMap, build_map
from bochner.kernels import Kernel
from bochner.kernels.bandwidth import median_scale
from bochner.kernels.ties import SharedScales
from bochner.penalties import NoScalePenalty, ScalePenalty
from bochner.solvers.lbfgs import Memory, minimise
from bochner.solvers.normal_equations import CentredMoments

FARTHEST = 8.0
"""How far the logarithm of a scale may move from its start."""
START_FACTORS = (2.0, 1.0, 0.5, 0.25, 0.1)
"""Multiples of the median scale among which the start is chosen."""
SAMPLE_ROWS = 128
HIGHEST_WHILE_LEARNING = 1e-2
"""Largest penalty while scales are learned: beyond it predictions are nearly constant, and no gradient leads away."""


@dataclass(frozen=True)
class Level:
    """One size at which candidates climb: features, rows, most steps, and how many candidates stay."""

    n_features: int
    n_rows: int
    max_iter: int
    keep: int = 1


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything that single-kernel learning is told.

    ``ties`` says which columns share a scale, ``criterion`` makes the held-out error from the folds.
    """

    families: tuple[Kernel, ...]
    levels: tuple[Level, ...]
    ties: SharedScales
    criterion: Callable[[Folds], Any] = HeldOutError
    choices: FeatureChoices = field(default_factory=FeatureChoices)
    penalty: ScalePenalty = field(default_factory=NoScalePenalty)
    from_median: bool = True
    """Start from the best multiple of the median scale, or from the scales of the families themselves."""
    tol: float = 1e-4
    callback: Callable[[dict[str, Any]], None] | None = None


@dataclass(frozen=True)
class LearnedKernel:
    """The end of single-kernel learning: the map, the regression on it, and how it got there."""

    feature_map: FeatureMap
    coef: Array
    intercept: Array
    alpha: float
    value: float
    held_out: HeldOut
    families: dict[str, dict[str, float]]
    history: list[dict[str, Any]]
    n_iter: int
    converged: bool


def default_levels(n_rows: int, n_features: int) -> tuple[Level, ...]:
    """Small to large: 256 features on 8000 rows, 1024 on 16,000, then full size for as many steps as it can afford.

    A level is left out where full size has less than twice its features. The steps at full size fall with their cost, n d
    times the smaller of the two; all 40 of them are taken there where no smaller level is left.
    """
    small = [Level(256, 8_000, 40, keep=2), Level(1024, 16_000, 12)]
    small = [level for level in small if 2 * level.n_features <= n_features]
    cost = float(n_rows) * n_features * min(n_rows, n_features)
    steps = 6 if cost < 2e10 else 3 if cost < 2e11 else 1
    return (*small, Level(n_features, n_rows, steps if small else 40))


def family_name(kernel: Kernel) -> str:
    """The name of a kernel's family, with what tells it from its siblings."""
    smoothness = getattr(kernel, "nu", None)
    return type(kernel).__name__ + ("" if smoothness is None else f"(nu={smoothness})")


def learn_kernel(folds: Folds, plan: Plan, rng: np.random.Generator) -> LearnedKernel:
    """Learn a kernel's parameters on ``folds`` of rows and fit the final regression on all of them."""
    everyone = [Climber(family, plan, folds, rng) for family in plan.families]
    climbers = everyone
    for level in plan.levels:
        for climber in climbers:
            climber.climb(level)
        climbers = sorted(climbers, key=lambda c: c.value)[: level.keep]
    best = climbers[0]
    evaluation = best.criterion.evaluate(best.feature_map, best.log_alpha, gradient=False)
    alpha = float(np.exp(evaluation.log_alpha))
    solution = CentredMoments(evaluation.totals).solve(alpha)
    basis = evaluation.basis
    return LearnedKernel(
        feature_map=best.feature_map,
        coef=solution.coef if basis is None else basis @ solution.coef,
        intercept=solution.intercept,
        alpha=alpha,
        value=evaluation.value,
        held_out=best.criterion.held_out(best.feature_map, evaluation),
        families={family_name(climber.kernel): climber.summary for climber in everyone},
        history=[record for climber in everyone for record in climber.history],
        n_iter=best.n_iter,
        converged=best.converged,
    )


class Climber:
    """One candidate: a kernel on its way from size to size."""

    feature_map: FeatureMap
    criterion: Any

    def __init__(self, family: Kernel, plan: Plan, folds: Folds, rng: np.random.Generator) -> None:
        self.plan = plan
        self.folds = folds
        self.rng = rng
        self.memory = Memory()
        self.history: list[dict[str, Any]] = []
        self.n_iter = 0
        self.converged = False
        self.value = np.inf
        self.log_alpha: float | None = None
        self.kernel = self._start(family)
        self.centre = self.plan.ties.project(self.kernel.theta)

    @property
    def summary(self) -> dict[str, float]:
        """The criterion reached, and the size at which it was."""
        return {"criterion": self.value, "n_features": self.feature_map.n_features, "n_rows": self.criterion.folds.n}

    def climb(self, level: Level) -> None:
        """Lower the criterion at one size."""
        self._begin(level)
        before = len(self.history)
        result = minimise(
            self._value_and_gradient,
            self.plan.ties.project(self.kernel.theta),
            bounds=(self.centre - FARTHEST, self.centre + FARTHEST),
            max_iter=level.max_iter,
            tol=self.plan.tol,
            memory=self.memory,
        )
        self.kernel = self.kernel.with_theta(self.plan.ties.expand(result.coef))
        self.feature_map = self.feature_map.with_kernel(self.kernel)
        self.value = result.value
        best = min(self.history[before:], key=lambda record: record["criterion"])  # the last trial may be another
        self.log_alpha = float(np.log(best["alpha"]))
        self.n_iter += result.n_iter
        self.converged = result.converged

    def _start(self, family: Kernel) -> Kernel:
        """The family at its best multiple of the median scale, one scale per column."""
        n_columns = self.folds.parts[0].X.shape[1]
        if not (self.plan.from_median and family.has_bandwidth):
            return family.replace(scale=family.scales(n_columns))
        median = median_scale(family, dense(Rows.stack(list(self.folds.head(SAMPLE_ROWS).parts)).X))
        criterion = self.plan.criterion(self.folds.head(4000))
        choices = replace(self.plan.choices, n_features=256)
        trials = []
        seed = int(self.rng.integers(2**32))
        for factor in START_FACTORS:
            kernel = family.replace(scale=np.full(n_columns, factor * median))
            feature_map = build_map(kernel, n_columns, choices, np.random.default_rng(seed))
            trials.append((criterion.evaluate(feature_map, gradient=False).value, kernel))
        return min(trials, key=lambda trial: trial[0])[1]

    def _begin(self, level: Level) -> None:
        self.started = time.perf_counter()
        self.criterion = self.plan.criterion(self.folds.head(level.n_rows))
        choices = self.plan.choices
        if self.kernel.geometry != "additive":  # whose number of features is given by its columns
            choices = replace(choices, n_features=level.n_features)
        self.feature_map = build_map(self.kernel, self.folds.parts[0].X.shape[1], choices, self.rng)

    def _value_and_gradient(self, point: Array) -> tuple[float, Array]:
        kernel = self.kernel.with_theta(self.plan.ties.expand(point))
        if kernel.lower > -np.inf and not all(_inside(kernel, part.X) for part in self.folds.parts):
            return np.inf, np.zeros_like(point)  # a learned offset that leaves some rows outside the domain
        evaluation = self.criterion.evaluate(
            self.feature_map.with_kernel(kernel), self.log_alpha, highest=HIGHEST_WHILE_LEARNING
        )
        self.log_alpha = evaluation.log_alpha
        scales = np.asarray(kernel.scale)
        parameters = dict(evaluation.gradient.parameters) if evaluation.gradient else {}
        parameters["scale"] = parameters["scale"] + self.plan.penalty.gradient(scales)
        gradient = self.plan.ties.reduce(kernel.unconstrain(parameters))
        value = evaluation.value + self.plan.penalty.value(scales)
        self._record(value, gradient)
        return value, gradient

    def _record(self, value: float, gradient: Array) -> None:
        record = {
            "kernel": family_name(self.kernel),
            "n_features": self.feature_map.n_features,
            "n_rows": self.criterion.folds.n,
            "criterion": value,
            "gradient_norm": float(np.linalg.norm(gradient)),
            "alpha": float(np.exp(self.log_alpha or 0.0)),
            "seconds": time.perf_counter() - self.started,
        }
        self.history.append(record)
        if self.plan.callback is not None:
            self.plan.callback(record)


def _inside(kernel: Kernel, X: Array) -> bool:
    """Whether all values of X (n, m) are in the kernel's domain."""
    lowest = X.min()
    return bool(lowest > kernel.lower if kernel.open_below else lowest >= kernel.lower)
