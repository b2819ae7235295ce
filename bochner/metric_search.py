"""Learned metrics: by which distances a kernel compares rows, read off the gradients of fits on data centres.

A fit f(x) = sum_c a_c k(x, c) + b on centres c among the rows says in which directions of the columns predictions
change: the average outer product of its gradients, G = (1/n) sum_i grad f(x_i) grad f(x_i)'. The next kernel has the
metric A A' = G, or a smaller power of G, which trusts it less (its diagonal, for one scale a column; its leading directions,
for a low rank), the best multiple of it by the held-out error, and its own fit; a few such steps converge or stop helping.
Families of kernels, starts and kinds of metrics are candidates, which go from few rows and centres to many, fewer
candidates at every stage. (The idea of recursive feature machines, Radhakrishnan et al., 2024.)

The other way to a metric is the gradient of the held-out error itself, which goes back through the regression to the
kernels at the centres: L-BFGS on the entries of the metric, from a start or from what the outer products have found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from bochner.arrays import Array, dense
from bochner.centres import choose_centres
from bochner.criteria import Criterion
from bochner.descent import family_name
from bochner.engines.gradients import outer_product
from bochner.features import CentreMap, FeatureMap
from bochner.folds import FoldedRows, Folds, HeldOut, Rows
from bochner.kernels import Kernel, MetricKernel, StationaryKernel
from bochner.solvers.lbfgs import minimise
from bochner.solvers.penalty_search import HIGHEST_PENALTY, LOWEST_PENALTY

Measure = Callable[[HeldOut], float]
"""What candidates are compared by, where that is not the squared error: a number of held-out predictions, to be small."""
KINDS = ("diagonal", "low-rank", "full")
WAYS = ("products", "gradient", "both")
"""How metrics are learned: by outer products, by the gradient of the held-out error, or by this after those."""
GRADIENT_STEPS = 5
"""Steps along the gradient in place of one of outer products."""
STEP_UNIT = 0.2
"""A metric A becomes A (I + STEP_UNIT T): an entry of T that is one is a large change."""
MOST_CHANGE = 20.0
"""The largest entry of T, and the largest change of the logarithm of a scale in the same units."""
GRADIENT_ROWS = 16_000
"""Most rows over which gradients are averaged."""
SPREAD_ROWS = 256
"""Rows whose distances say how wide a kernel is."""
FIRST_FACTOR, NEXT_FACTOR = 2.0, 1.4
"""By how much distances change from one trial to the next where a start begins, and where a metric is new."""
LARGER_FACTOR = 1.3
"""The same where a kernel comes to a larger size, which carries narrower kernels: wider ones are not tried."""
FARTHEST = 4
"""Most trials in one direction."""
WORTH_A_SEARCH = 2.0
"""A start whose error at its first width is this many times that of the best keeps that width."""
POWERS = (1.0, 0.75, 0.5)
"""Powers p of the metric A A' = G^p that are tried at the first step of every size; the next ones keep the best of them.

Which one is best depends on how well few rows tell directions apart, and small sizes cannot say."""
BEST_FAMILIES = 2
"""Families whose metrics grow at the first stage, for each start: the best ones as they are."""
GIVE_UP = 1.05
"""A step to an error this many times that of the best one ends the steps of a candidate."""
CLEARLY_WORSE = 1.5
"""A candidate whose error is this many times that of the best one goes no further."""
LARGEST_VARIANCE = 1e6
"""Largest variance of the functions that a penalty stands for, as in :mod:`bochner.descent`. Kernels at centres fade away
from them, as random features do not, so that it may be larger."""
KEPT_SHARE = 0.999
"""The part of the trace of G that a low rank keeps, where nobody says how many directions."""


@dataclass(frozen=True)
class Stage:
    """One size: rows, centres among them, most steps of each candidate, how many candidates stay.

    One whose error is ``worse`` times that of the best goes no further. The best width is searched for starts that have
    hope, or for ``every`` one.
    """

    n_rows: int
    n_centres: int
    steps: int
    keep: int
    worse: float = CLEARLY_WORSE
    every: bool = False


@dataclass(frozen=True)
class Candidate:
    """A kernel, where it comes from, and its held-out error at the size where it was tried last."""

    kernel: Kernel
    start: str
    """Where it began: "isotropic", "scales" (by the gradient of the held-out error), "evidence", "units" or "together"."""
    kind: str
    """"given", as it started; "diagonal", "low-rank" or "full"."""
    value: float = np.inf
    """What candidates are compared by: the squared error, or the measure of the space that they were tried in."""
    error: float = np.inf
    """The squared error."""
    log_alpha: Any = None
    gain: float = 0.0
    """By which part the last step lowered its error."""
    power: float | None = None
    """One of POWERS; None: not chosen yet."""
    evaluation: Any = field(default=None, repr=False)
    feature_map: FeatureMap | None = field(default=None, repr=False)

    @property
    def recipe(self) -> tuple[str, str, str]:
        """What is needed to learn it again on other rows."""
        return family_name(base_of(self.kernel)), self.start, self.kind

    @property
    def is_descended(self) -> bool:
        """Whether it is the kernel of a descent, as it came from there."""
        return (self.start, self.kind) == ("scales", "given")


def base_of(kernel: Kernel) -> Kernel:
    """The kernel inside a metric, or itself."""
    return kernel.base if isinstance(kernel, MetricKernel) else kernel


def can_have_metric(kernel: Kernel) -> bool:
    """Whether a kernel is one of distances and nothing else, so that these may be those of a metric."""
    return kernel.geometry == "radial" and not kernel.has_input_map and kernel.learnable == ("scale",)


def rescaled(kernel: Kernel, factor: float) -> Kernel:
    """The kernel with distances multiplied by a number."""
    if isinstance(kernel, MetricKernel):
        return kernel.rescaled(factor)
    return kernel.replace(scale=factor * np.asarray(kernel.scale))


def with_metric(kernel: Kernel, G: Array, kind: str, rank: int | None = None, power: float = 1.0) -> Kernel:
    """The kernel's family with the metric A A' = G^power of a kind, G (m, m) the mean outer product of gradients."""
    base = cast(StationaryKernel, base_of(kernel).replace(scale=1.0))
    half = power / 2
    if kind == "diagonal":
        scales = np.maximum(np.diagonal(G), 0.0) ** half
        return base.replace(scale=np.maximum(scales, 1e-12 * max(float(scales.max()), np.finfo(np.float64).tiny)))
    values, vectors = np.linalg.eigh(G)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    if kind == "low-rank":
        shares = np.cumsum(values) / max(float(values.sum()), np.finfo(np.float64).tiny)
        rank = int(np.searchsorted(shares, KEPT_SHARE) + 1) if rank is None else rank
        return MetricKernel(base=base, metric=vectors[:, :rank] * values[:rank] ** half)
    return MetricKernel(base=base, metric=vectors * values**half @ vectors.T)


def as_kind(kernel: Kernel, kind: str, n_columns: int, rank: int | None = None) -> Kernel:
    """The kernel as one of a kind of metric: with the same distances, or with those along its strongest directions."""
    if kind == "diagonal":
        return base_of(kernel).replace(scale=kernel.scales(n_columns))
    metric = kernel.metric if isinstance(kernel, MetricKernel) else np.diag(kernel.scales(n_columns))
    if kind == "low-rank" and rank is not None and rank < metric.shape[1]:
        vectors, strengths, _ = np.linalg.svd(metric, full_matrices=False)
        metric = vectors[:, :rank] * strengths[:rank]
    return MetricKernel(base=cast(StationaryKernel, base_of(kernel)).replace(scale=1.0), metric=metric)


def moved(kernel: Kernel, change: Array) -> tuple[Kernel, Callable[[Array], Array]]:
    """A kernel changed by numbers without units, none of which change nothing; and how gradients in theta become theirs.

    A metric A becomes A (I + STEP_UNIT T), T the numbers; logarithms of scales change by STEP_UNIT times the numbers.
    """
    if not isinstance(kernel, MetricKernel):
        return kernel.with_theta(kernel.theta + STEP_UNIT * change), lambda gradient: STEP_UNIT * gradient
    metric, rank = kernel.metric, kernel.metric.shape[1]

    def back(gradient: Array) -> Array:
        return np.asarray(STEP_UNIT * (metric.T @ gradient.reshape(metric.shape)).ravel())

    return kernel.replace(metric=metric @ (np.eye(rank) + STEP_UNIT * change.reshape(rank, rank))), back


class CentreSpace:
    """Held-out errors of kernels on centres among the rows, at one size.

    While kernels are searched one part of the rows is predicted, and centres are others. For a ``last`` fit
    ``most_validated`` parts are, and centres are any rows that are fitted, or ``every_row`` of them, in order.
    """

    def __init__(
        self,
        folds: FoldedRows,
        stage: Stage,
        criterion: Callable[[Any], Criterion],
        rng: np.random.Generator,
        *,
        most_validated: int = 1,
        last: bool = False,
        every_row: bool = False,
        measure: Measure | None = None,
    ) -> None:
        head = folds.head(stage.n_rows, most_validated).astype(np.float64)
        self.folds = head.pooled() if isinstance(head, Folds) and not (last or every_row) else head
        self.criterion = criterion(self.folds)
        self.measure = measure
        host = self.folds.in_memory
        others = [part for k, part in enumerate(host.parts) if k not in host.validated]
        fitted = last or every_row or not others
        rows = dense(Rows.stack(host.to_fit if fitted else others).X).astype(np.float64, copy=False)
        self.centres = rows if every_row else rows[choose_centres(rows, min(stage.n_centres, len(rows)), rng)]
        self.sample = rows[: 2 * SPREAD_ROWS]

    @property
    def size(self) -> dict[str, int]:
        """What a record says of the size."""
        return {"n_rows": self.folds.n, "n_centres": len(self.centres)}

    def width(self, kernel: Kernel) -> float:
        """The median distance of rows as the kernel sees them."""
        seen = kernel.metric if isinstance(kernel, MetricKernel) else np.diag(kernel.scales(self.sample.shape[1]))
        squares = _squares(self.sample @ seen)
        if not np.any(squares > 0):  # rows that are all alike, for which any width does
            return 1.0
        middle = float(np.sqrt(np.median(squares)))
        return middle if middle > 0 else float(np.sqrt(np.median(squares[squares > 0])))

    def evaluate(self, candidate: Candidate, *, gradient: bool = False) -> Candidate:
        """The candidate with its error here."""
        feature_map = CentreMap(candidate.kernel, self.centres)
        error = min(candidate.error, 1.0) / 4
        lowest = float(np.clip(error / (LARGEST_VARIANCE * self.folds.n), LOWEST_PENALTY, 1e-2))
        bounds = lowest, HIGHEST_PENALTY
        found = self.criterion.evaluate(feature_map, candidate.log_alpha, gradient=gradient, bounds=bounds)
        value = found.value if self.measure is None else self.measure(self.criterion.held_out(feature_map, found))
        tried = replace(candidate, value=value, error=found.value, log_alpha=found.log_alpha)
        return replace(tried, evaluation=found, feature_map=feature_map)

    def best_width(self, candidate: Candidate, factor: float, *, narrower_only: bool = False) -> Candidate:
        """The candidate at the best multiple of its distances: steps of ``factor`` up, or else down, while they help."""
        return self.width_around(self.evaluate(candidate), factor, narrower_only=narrower_only)

    def width_around(self, candidate: Candidate, factor: float, *, narrower_only: bool = False) -> Candidate:
        """The same of a candidate that has been evaluated here."""
        best = candidate
        for step in (factor,) if narrower_only else (factor, 1 / factor):
            before = best.value
            for k in range(1, FARTHEST + 1):
                trial = self.evaluate(replace(best, kernel=rescaled(candidate.kernel, step**k)))
                if trial.value >= best.value:
                    break
                best = trial
            if best.value < before:
                break
        return best

    def gradient_products(self, candidate: Candidate) -> Array:
        """The mean outer product (m, m) of the gradients of a candidate's fit, over some of the rows.

        The fit is one that has not seen the part that it predicts, so that its error stays an honest one.
        """
        feature_map, coef = cast(Any, self.criterion).fitted(candidate.feature_map, candidate.evaluation)
        parts = [part for _, part in self.folds.head(GRADIENT_ROWS).chunks()]
        sums = [part.n * outer_product(feature_map, part.X, coef, part.weights) for part in parts]
        return sum(sums) / sum(part.n for part in parts)

    def improve(
        self,
        candidate: Candidate,
        kind: str,
        steps: int,
        rank: int | None = None,
        way: str = "products",
        *,
        must: bool = False,
    ) -> Candidate:
        """The best of a candidate (unless it ``must`` be of the kind, and is not) and of its next metrics of one kind.

        They are learned in one of WAYS.
        """
        start = replace(candidate, value=np.inf) if must and candidate.kind != kind else candidate
        found = start if way == "gradient" else self._by_products(start, kind, steps, rank)
        return found if way == "products" else self.descend(found, kind, GRADIENT_STEPS * steps, rank)

    def descend(self, candidate: Candidate, kind: str, steps: int, rank: int | None = None) -> Candidate:
        """The best of a candidate and of what steps along the gradient of the held-out error in its metric find.

        A kernel that is not of the kind yet becomes so first, with the same distances; one of a low rank, with the columns
        of the largest scales.
        """
        start = as_kind(candidate.kernel, kind, self.sample.shape[1], rank)
        best = candidate

        def value_and_gradient(change: Array) -> tuple[float, Array]:
            nonlocal best
            kernel, back = moved(start, change)
            trial = self.evaluate(replace(best, kernel=kernel, kind=kind), gradient=True)
            if trial.value < best.value:
                best = replace(trial, gain=_gain(trial, candidate))
            return trial.error, back(kernel.unconstrain(trial.evaluation.gradient.named().parameters))

        far = np.full(len(start.theta) if not isinstance(start, MetricKernel) else start.metric.shape[1] ** 2, MOST_CHANGE)
        minimise(value_and_gradient, np.zeros_like(far), bounds=(-far, far), max_iter=steps, tol=1 / self.folds.n)
        return best

    def _by_products(self, candidate: Candidate, kind: str, steps: int, rank: int | None) -> Candidate:
        best = current = candidate
        for _ in range(steps):
            grown = self._grown(current, kind, rank)
            current = self.width_around(min(grown, key=lambda each: each.value), NEXT_FACTOR)
            if current.value < best.value:
                best = replace(current, gain=_gain(current, best))
            elif current.value > GIVE_UP * best.value:
                break
        return best

    def _grown(self, candidate: Candidate, kind: str, rank: int | None) -> list[Candidate]:
        """The next metrics of a candidate, as wide as it is: of its power, or of all powers where it has none yet."""
        width, G = self.width(candidate.kernel), self.gradient_products(candidate)
        grown = []
        for power in POWERS if candidate.power is None else (candidate.power,):
            kernel = with_metric(candidate.kernel, G, kind, rank, power)
            kernel = rescaled(kernel, width / self.width(kernel))
            grown.append(self.evaluate(replace(candidate, kernel=kernel, kind=kind, power=power)))
        return grown


def _gain(new: Candidate, old: Candidate) -> float:
    """By which part of the old one the new error is lower; nothing where the old one does not count."""
    return 1 - new.value / old.value if np.isfinite(old.value) else 0.0


def _squares(rows: Array) -> Array:
    """Squared distances between the first and the second half of some rows."""
    half = len(rows) // 2
    one, two = rows[:half], rows[half : 2 * half]
    return np.maximum(np.sum(one**2, axis=1)[:, None] + np.sum(two**2, axis=1) - 2 * one @ two.T, 0.0)


@dataclass(frozen=True)
class Starts:
    """What candidates are made of: families of kernels, and by the names of starts scales (m,) of standardised columns.

    Or metrics (m, r) of them, which are for radial families.
    """

    families: tuple[Kernel, ...]
    scales: dict[str, Array]
    metrics: dict[str, Array] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """Those of all starts."""
        return [*self.scales, *self.metrics]

    def candidates(self) -> list[Candidate]:
        """Every family with every start."""
        with_scales = [
            Candidate(family.replace(scale=np.maximum(scales, 1e-6 * float(scales.max()))), start, "given")
            for family in self.families
            for start, scales in self.scales.items()
        ]
        bases = [cast(StationaryKernel, each.replace(scale=1.0)) for each in self.families if can_have_metric(each)]
        with_metrics = [
            Candidate(MetricKernel(base=base, metric=metric), start, "given")
            for base in bases
            for start, metric in self.metrics.items()
        ]
        return with_scales + with_metrics

    def only(self, recipe: tuple[str, str, str]) -> Starts:
        """The family and the start of a recipe alone."""
        family, start, _ = recipe
        families = tuple(each for each in self.families if family_name(each) == family)
        scales, metrics = ({start: some[start]} if start in some else {} for some in (self.scales, self.metrics))
        return Starts(families, scales, metrics)


def search(
    folds: FoldedRows,
    starts: Starts,
    stages: Sequence[Stage],
    kinds: Sequence[str],
    *,
    criterion: Callable[[Any], Criterion],
    rng: np.random.Generator,
    rank: int | None = None,
    way: str = "products",
    must: bool = False,
    every_row: bool = False,
    measure: Measure | None = None,
    begin: Callable[[CentreSpace], None] | None = None,
    record: Callable[[CentreSpace, Candidate, int], None] | None = None,
) -> list[Candidate]:
    """Take all candidates through the stages: those that stay at the end, the best first, with its width of that size.

    At the first stage every start is tried as it is, and a metric of each kind grows from it; at the next ones each goes on
    with its own kind. Centres are some of the rows of a stage, or ``every_row``. ``way`` is one of WAYS. A start that stays
    as it was is a candidate too, unless the metric ``must`` be of one of the kinds.
    """
    staying: list[Candidate] = []
    for number, stage in enumerate(stages, start=1):
        space = CentreSpace(folds, stage, criterion, rng, every_row=every_row, measure=measure)
        if begin is not None:
            begin(space)
        if number == 1:
            tried = _first_stage(space, starts, stage, kinds, rank, way, must=must)
        else:
            larger = [space.best_width(replace(each, power=None), LARGER_FACTOR, narrower_only=True) for each in staying]
            tried = [
                each if each.kind == "given" else space.improve(each, each.kind, stage.steps, rank, way) for each in larger
            ]
        staying = best_of(tried, stage.keep, stage.worse)
        if record is not None:
            for candidate in sorted(tried, key=lambda each: each.value):
                record(space, candidate, number)
    return staying


def _first_stage(
    space: CentreSpace, starts: Starts, stage: Stage, kinds: Sequence[str], rank: int | None, way: str, *, must: bool
) -> list[Candidate]:
    """Every start of every family, and the metrics that grow from those of the best families."""
    given: list[Candidate] = []
    for candidate in starts.candidates():
        known = [each.log_alpha for each in given if each.recipe[0] == candidate.recipe[0]]
        unit = rescaled(candidate.kernel, 1 / space.width(candidate.kernel))
        given.append(space.evaluate(replace(candidate, kernel=unit, log_alpha=known[0] if known else None)))
    hopeful = given if stage.every else _with_hope(given)
    given = [space.width_around(each, FIRST_FACTOR) if any(each is one for one in hopeful) else each for each in given]
    grown = []
    for start in starts.names:
        radial = [each for each in given if each.start == start and can_have_metric(base_of(each.kernel))]
        for candidate in sorted(radial, key=lambda each: each.value)[:BEST_FAMILIES]:
            some = _kinds_from(candidate, kinds)
            grown += [space.improve(candidate, kind, stage.steps, rank, way, must=must) for kind in some]
    return grown if must else [*given, *grown]


def _with_hope(candidates: list[Candidate]) -> list[Candidate]:
    """Candidates that are not far behind the best: of each start a few."""
    least = min(each.value for each in candidates)
    near = sorted((each for each in candidates if each.value <= WORTH_A_SEARCH * least), key=lambda each: each.value)
    of_start = {each.start: [other for other in near if other.start == each.start] for each in near}
    return [each for some in of_start.values() for each in some[:BEST_FAMILIES]]


def _kinds_from(candidate: Candidate, kinds: Sequence[str]) -> list[str]:
    """Kinds of metric that grow from a start; scales that were learned are not learned again."""
    return [kind for kind in kinds if kind != "diagonal" or candidate.start == "isotropic" or len(kinds) == 1]


def best_of(candidates: Sequence[Candidate], keep: int, worse: float = CLEARLY_WORSE) -> list[Candidate]:
    """The best candidates, each recipe once, without those whose error is ``worse`` times that of the best."""
    of_recipe: dict[tuple[str, str, str], Candidate] = {}
    for candidate in sorted(candidates, key=lambda each: each.value):
        of_recipe.setdefault(candidate.recipe, candidate)
    ordered = list(of_recipe.values())
    return [each for each in ordered[:keep] if each.value <= worse * ordered[0].value]
