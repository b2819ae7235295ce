"""Candidate kernels on their way down a held-out error, from small sizes to large.

Candidates (families, and several starts of each) take a few steps at a small size; the best go on to a larger one with
their scales, their penalty and what is known of the curvature, until one is left at full size. What an error is, and what
a size is, is up to a *space*: features of rows for :mod:`bochner.single_kernel`, the rows themselves for
:mod:`bochner.exact`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from bochner.arrays import Array
from bochner.errors import InputError
from bochner.folds import Folds, Rows
from bochner.kernels import KERNELS, Kernel, MetricKernel, kernel_name
from bochner.kernels.bandwidth import median_scale
from bochner.kernels.ties import SharedScales
from bochner.penalties import NoScalePenalty, ScalePenalty
from bochner.solvers.lbfgs import Memory, minimise
from bochner.solvers.penalty_search import HIGHEST_PENALTY, LOWEST_PENALTY

FARTHEST = 8.0
"""How far the logarithm of a scale may move from its start."""
START_FACTORS = (2.0, 1.0, 0.5, 0.25, 0.1)
"""Multiples of the median scale among which the starts are chosen."""
LARGEST_VARIANCE = 1e2
"""Largest variance of the functions that a penalty stands for, in units of the target's. A penalty alpha on n rows with a
squared error J is a prior of variance J / (n alpha): without reason, it lets predictions far from the rows explode."""
CLEARLY_WORSE = 1.2
"""A family whose criterion is this many times that of the best one at some size goes no further."""
TOLERANCES = 1e-4, 1e-2
"""A step that promises to lower the error by less than 1/n of it chases chance: a parameter without any effect lowers the
logarithm of an error over n rows by about as much. Steps end there, inside this range."""
NO_SCALE = 1e-12
"""Scale of a column that does not count, relative to the largest: no cosine feels it."""
TRIED_ALONE = 20
"""Most columns whose scale is taken one by one."""
UNSEEN_PARTS, TIE_STEPS = 4, 12
"""Parts of the rows that are left out in turn to choose which columns share a scale, and most steps of each descent."""
HIGHEST_WHILE_LEARNING = 1e-2
"""Largest penalty while scales are learned: beyond it predictions are nearly constant, and no gradient leads away."""


@dataclass(frozen=True)
class Level:
    """One size at which candidates descend: features, rows, most steps, and how many families stay."""

    n_features: int
    """0: the kernel itself, without features."""
    n_rows: int
    max_iter: int
    keep: int = 1
    factors: tuple[float, ...] = (1.0,)
    """Multiples of a candidate's scales among which its start at this size is chosen: more features carry narrower ones."""
    draws: int = 1
    """Random features drawn at this size, of which the best for the kernel that comes here are kept."""
    lowest_penalty: float = LOWEST_PENALTY
    """Smallest ridge penalty to try at this size."""
    most_validated: int | None = None
    """Most parts of the rows that are predicted from the others; each takes a factorisation."""
    squared: bool = False
    """Learn by the squared error at this size, whatever the loss: it takes no iterations."""


@dataclass(frozen=True)
class Point:
    """The criterion at one kernel: its value, its penalty (as a logarithm), its gradient by parameter name."""

    value: float
    log_alpha: Any
    gradient: dict[str, Array]
    evaluation: Any
    """What the value was made from, for whoever fits a model with it."""


class Objective(Protocol):
    """The criterion as a function of the kernel, at one size."""

    @property
    def size(self) -> dict[str, Any]:
        """What a record says of the size: numbers of features and rows, the precision."""

    def evaluate(self, kernel: Kernel, log_alpha: Any, *, gradient: bool, bounds: tuple[float, float]) -> Point:
        """The criterion at a kernel, its penalty searched near ``log_alpha`` inside ``bounds``."""


class Space(Protocol):
    """Where kernels are tried: makes the criterion of any size."""

    n_columns: int

    def sample(self) -> Array:
        """A hundred rows or so, dense."""

    def objective(self, kernel: Kernel, level: Level) -> Objective:
        """The criterion at one size."""

    def scout(self, kernel: Kernel, first: Level) -> Objective:
        """The criterion where starts are compared, at a size before that of the first level."""

    def allows(self, kernel: Kernel) -> bool:
        """Whether all rows are in the kernel's domain."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything that a descent is told."""

    families: tuple[Kernel, ...]
    levels: tuple[Level, ...]
    ties: SharedScales
    """Which columns share a scale."""
    scale_penalty: ScalePenalty = field(default_factory=NoScalePenalty)
    n_starts: int = 2
    """Starts of each family, at multiples of the median scale. Zero: the scales of the families themselves."""
    given: tuple[Kernel, ...] = ()
    """Those of the families that start from their own scales all the same."""
    log_alpha: Any = None
    """Where the search for the penalty starts; None: everywhere."""
    tol: float | None = None
    """A level ends when a step promises to lower the criterion by less than this part of it; None: by what chance does."""
    callback: Callable[[dict[str, Any]], None] | None = None


@dataclass(frozen=True)
class Descent:
    """The end of a descent: the best candidate, what every family reached, every evaluation made."""

    best: Candidate
    families: dict[str, dict[str, float]]
    history: list[dict[str, Any]]
    interrupted: bool

    def after(self, earlier: Descent) -> Descent:
        """The same with the records of an ``earlier`` one before its own, which go on from its levels and seconds."""
        last = earlier.history[-1]
        later = [
            record | {"level": last["level"] + record["level"], "seconds": last["seconds"] + record["seconds"]}
            for record in self.history
        ]
        return replace(self, history=[*earlier.history, *later])


def family_name(kernel: Kernel) -> str:
    """The name of a kernel's family, with what tells it from its siblings."""
    if isinstance(kernel, MetricKernel):
        return f"{family_name(kernel.base)} with a metric"
    smoothness = getattr(kernel, "nu", None)
    return type(kernel).__name__ + ("" if smoothness is None else f"(nu={smoothness})")


def typed_name(family: str) -> str:
    """A family's name in records as people can type it.

    Examples
    --------
    >>> from bochner.descent import typed_name
    >>> [typed_name(family) for family in ("Matern(nu=1.5) with a metric", "SkewedChi2", "Gaussian", "Matern(nu=0.7)")]
    ['matern32 with a metric', 'skewed_chi2', 'Gaussian', 'Matern(nu=0.7)']
    """
    base, *more = family.split(" ", 1)
    if kernel_name(base) is None:
        base = next((name for name, make in KERNELS.items() if family_name(make()) == base), base)
    return " ".join([base, *more])


def descend(space: Space, plan: Plan) -> Descent:
    """Take the candidates of a plan through its levels. Ctrl-C ends it early with the best kernel so far."""
    log = Log(plan.callback)
    everyone: list[Candidate] = []
    interrupted = False
    try:
        everyone += [Candidate(start, plan, log) for family in plan.families for start in _starts(family, space, plan)]
        staying = everyone
        for number, level in enumerate(plan.levels, start=1):
            for candidate in staying:
                candidate.descend(space, level, number)
            staying = _best(staying, level.keep)
        best = staying[0]
        if not best.reached:
            raise InputError("No kernel gave a finite held-out error: check X and y for values at the limits of float64.")
        if plan.scale_penalty.selects:
            best.select_columns()
    except KeyboardInterrupt:
        tried = [candidate for candidate in everyone if candidate.reached]
        if not tried:
            raise
        interrupted = True
        last = max(candidate.reached for candidate in tried)  # errors of different sizes cannot be compared
        best = min((c for c in tried if c.reached == last), key=lambda c: c.value)
    families: dict[str, dict[str, float]] = {}
    for candidate in sorted(everyone, key=lambda c: (-c.reached, c.value)):
        if candidate.reached:
            families.setdefault(family_name(candidate.kernel), candidate.summary)
    return Descent(best, families, log.records, interrupted)


def choose_ties(
    alternatives: Sequence[SharedScales], rows: Rows, plan: Plan, space_of: Callable[[Folds], Space]
) -> SharedScales:
    """Which columns should share a scale: the way whose kernels predict rows best that their learning has not seen.

    Many scales can fit the folds that they are learned on by chance. So every part of the rows is left out in turn, a kernel
    of the first family is learned on folds of the others, by a few steps at the first level, and its error on that part is
    counted.
    """
    level = replace(plan.levels[0], max_iter=min(plan.levels[0].max_iter, TIE_STEPS))
    parts = tuple(rows.take(slice(k, None, UNSEEN_PARTS)) for k in range(UNSEEN_PARTS))
    errors = np.zeros(len(alternatives))
    for unseen in parts:
        others = tuple(part for part in parts if part is not unseen)
        judge = space_of(Folds((Rows.stack(list(others)), unseen), validated=(1,)))
        for i, ties in enumerate(alternatives):
            trial = replace(plan, families=plan.families[:1], levels=(level,), ties=ties, n_starts=1, callback=None)
            descent = descend(space_of(Folds(others, validated=tuple(range(len(others))))), trial)
            if descent.interrupted:
                raise KeyboardInterrupt
            best = descent.best
            if not judge.allows(best.kernel):  # a learned offset that leaves unseen rows outside the domain
                errors[i] += 1  # that of a constant
                continue
            objective = judge.objective(best.kernel, level)
            bounds = best.final_bounds(objective)
            errors[i] += objective.evaluate(best.kernel, best.log_alpha, gradient=False, bounds=bounds).value
    return alternatives[int(np.argmin(errors))]


def _best(candidates: list[Candidate], keep: int) -> list[Candidate]:
    """The best candidate of each family, of the ``keep`` best families, without those clearly worse than the best."""
    of_family: dict[str, Candidate] = {}
    for candidate in sorted(candidates, key=lambda c: (-c.reached, c.value)):
        of_family.setdefault(family_name(candidate.kernel), candidate)
    best, *others = of_family.values()
    return [best, *(other for other in others[: keep - 1] if other.value <= CLEARLY_WORSE * best.value)]


class Log:
    """Records of all evaluations, each handed to the callback as it comes."""

    def __init__(self, callback: Callable[[dict[str, Any]], None] | None) -> None:
        self.records: list[dict[str, Any]] = []
        self.callback = callback
        self.started = time.perf_counter()

    def add(self, record: dict[str, Any]) -> None:
        """Keep a record, with the seconds since the beginning."""
        record["seconds"] = time.perf_counter() - self.started
        self.records.append(record)
        if self.callback is not None:
            self.callback(record)


class Candidate:
    """One kernel on its way down."""

    objective: Objective
    point: Point
    """The best kernel of the last level: the function that it was the best of, and its value there."""
    value: float
    """The criterion there, scale penalty included."""
    error: float
    """The criterion there without the scale penalty; a quarter of it where a larger size begins, which may lower it."""

    def __init__(self, start: Kernel, plan: Plan, log: Log) -> None:
        self.plan = plan
        self.log = log
        self.kernel = start
        self.value = np.inf
        self.error = 0.4  # a guess, of which a quarter counts until a kernel has been tried
        self.log_alpha = plan.log_alpha
        self.reached = 0
        self.n_iter = 0
        self.converged = False
        self._memory = Memory()
        self._centre = plan.ties.project(start.theta)

    @property
    def summary(self) -> dict[str, Any]:
        """The criterion reached, and the size at which it was."""
        return {"criterion": self.value, **self.objective.size}

    def descend(self, space: Space, level: Level, number: int) -> None:
        """Lower the criterion at one size, the ``number``-th."""
        self.error /= 4
        objective = self._drawn(space, level)
        kernel, lowest = self._rescaled(objective, level), np.inf

        def value_and_gradient(free: Array) -> tuple[float, Array]:
            nonlocal lowest
            trial = kernel.with_theta(self.plan.ties.expand(free))
            if not space.allows(trial):
                return np.inf, np.zeros_like(free)  # a learned offset that leaves some rows outside the domain
            bounds = self._bounds(objective, level)
            point = objective.evaluate(trial, self.log_alpha, gradient=level.max_iter > 0, bounds=bounds)
            value, gradient = self._with_scale_penalty(trial, point)
            if value < lowest:
                lowest = value
                self.kernel, self.point, self.value, self.log_alpha = trial, point, value, point.log_alpha
                self.objective, self.reached, self._searched = objective, number, bounds
                self.error = point.value
            self._record(trial, point, value, gradient, objective, number)  # last: a callback may raise KeyboardInterrupt
            return value, gradient

        result = minimise(
            value_and_gradient,
            self.plan.ties.project(kernel.theta),
            bounds=(self._centre - FARTHEST, self._centre + FARTHEST),
            max_iter=level.max_iter,
            tol=float(np.clip(1 / objective.size["n_rows"], *TOLERANCES)) if self.plan.tol is None else self.plan.tol,
            memory=self._memory,
        )
        self.n_iter += result.n_iter
        self.converged = result.converged

    def select_columns(self) -> None:
        """Take their scale from columns that do not need one: as many of the smallest as can go at once, then one by one.

        A parameter without effect lowers the logarithm of an error over n rows by about 2/n, so as much may be lost for
        each scale that goes.
        """
        ties, before = self.plan.ties, self.value
        order = np.argsort(ties.project(self.kernel.theta)[: ties.n_groups], kind="stable")

        def go(gone: Array) -> bool:
            scales = np.asarray(self.kernel.scale)
            kernel = self.kernel.replace(scale=np.where(np.isin(ties.groups, gone), NO_SCALE * scales.max(), scales))
            point = self.objective.evaluate(kernel, self.log_alpha, gradient=False, bounds=self._searched)
            value = point.value + self.plan.scale_penalty.value(np.asarray(kernel.scale))
            may_go = value <= before * np.exp(2 * len(gone) / self.objective.size["n_rows"])
            if may_go:
                self.kernel, self.point, self.log_alpha = kernel, point, point.log_alpha
                self.value, self.error = value, point.value
            return bool(may_go)

        together, too_many = 0, len(order)
        while together + 1 < too_many:
            tried = (together + too_many) // 2
            together, too_many = (tried, too_many) if go(order[:tried]) else (together, tried)
        gone = order[:together]
        for group in order[together : together + TRIED_ALONE]:
            if len(gone) + 1 < len(order) and go(np.append(gone, group)):
                gone = np.append(gone, group)

    def lowest_penalty(self, objective: Objective) -> float:
        """The smallest penalty that stands for functions of a reasonable size, at the error reached so far."""
        lowest = min(self.error, 1.0) / (LARGEST_VARIANCE * objective.size["n_rows"])
        return float(np.clip(lowest, LOWEST_PENALTY, HIGHEST_WHILE_LEARNING))

    def penalty_was_bounded(self) -> bool:
        """Whether the penalty of the best kernel lies at an end of where it was searched."""
        low, high = self._searched
        alpha = np.exp(self.log_alpha)
        return bool(np.any((alpha < 1.01 * low) | (alpha > 0.99 * high)))

    def final_bounds(self, objective: Objective) -> tuple[float, float]:
        """Where the penalty of the final regression is searched: nothing is learned from it, so it may be large."""
        return self.lowest_penalty(objective), HIGHEST_PENALTY

    def _bounds(self, objective: Objective, level: Level) -> tuple[float, float]:
        """Where the penalty is searched while scales are learned."""
        return max(level.lowest_penalty, self.lowest_penalty(objective)), HIGHEST_WHILE_LEARNING

    def _drawn(self, space: Space, level: Level) -> Objective:
        """The criterion at one size: the lowest of several draws, which differ by chance alone."""
        objectives = [space.objective(self.kernel, level) for _ in range(level.draws)]
        if len(objectives) == 1:
            return objectives[0]
        points = [
            drawn.evaluate(self.kernel, self.log_alpha, gradient=False, bounds=self._bounds(drawn, level))
            for drawn in objectives
        ]
        best = int(np.argmin([point.value for point in points]))
        self.log_alpha = points[best].log_alpha
        return objectives[best]

    def _rescaled(self, objective: Objective, level: Level) -> Kernel:
        """The kernel with the best multiple of its scales."""
        kernels = [self.kernel.replace(scale=factor * np.asarray(self.kernel.scale)) for factor in level.factors]
        if len(kernels) == 1:
            return self.kernel
        bounds = self._bounds(objective, level)
        points = [objective.evaluate(kernel, self.log_alpha, gradient=False, bounds=bounds) for kernel in kernels]
        best = int(np.argmin([point.value for point in points]))
        self.log_alpha = points[best].log_alpha
        return kernels[best]

    def _with_scale_penalty(self, kernel: Kernel, point: Point) -> tuple[float, Array]:
        """Criterion and penalty on the scales together, and their gradient in the free parameters (zeros if not known)."""
        scales, penalty = np.asarray(kernel.scale), self.plan.scale_penalty
        value = point.value + penalty.value(scales)
        if not point.gradient:
            return value, np.zeros_like(self._centre)
        parameters = {**point.gradient, "scale": point.gradient["scale"] + penalty.gradient(scales)}
        return value, self.plan.ties.reduce(kernel.unconstrain(parameters))

    def _record(
        self, kernel: Kernel, point: Point, value: float, gradient: Array, objective: Objective, number: int
    ) -> None:
        self.log.add(
            {
                "kernel": family_name(kernel),
                **objective.size,
                "level": number,
                "criterion": value,
                "gradient_norm": float(np.linalg.norm(gradient)) if point.gradient else None,
                "alpha": np.exp(point.log_alpha).tolist(),
            }
        )


def count_starts(family: Kernel, plan: Plan) -> int:
    """Multiples of the median scale that a family starts from; zero: from its own scales."""
    given = any(family is one for one in plan.given)
    return 0 if given or not family.has_bandwidth else min(plan.n_starts, len(START_FACTORS))


def _starts(family: Kernel, space: Space, plan: Plan) -> list[Kernel]:
    """The family at its best multiple of the median scale, at the median scale itself, and at the next best multiples."""
    if not count_starts(family, plan):
        return [family.replace(scale=family.scales(space.n_columns))]
    median = median_scale(family, space.sample())
    kernels = [family.replace(scale=np.full(space.n_columns, factor * median)) for factor in START_FACTORS]
    scout = space.scout(kernels[0], plan.levels[0])
    values = [
        scout.evaluate(kernel, None, gradient=False, bounds=(plan.levels[0].lowest_penalty, HIGHEST_PENALTY)).value
        for kernel in kernels
    ]
    order = np.argsort(values, kind="stable").tolist()
    order.insert(1, START_FACTORS.index(1.0))  # errors of isotropic kernels say little where few columns count
    return [kernels[i] for i in dict.fromkeys(order)][: plan.n_starts]
