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

from bochner.arrays import Array
from bochner.criteria import Criterion
from bochner.descent import family_name
from bochner.folds import FoldedRows
from bochner.kernels import Kernel, MetricKernel, StationaryKernel
from bochner.metric_learning.candidates import Candidate, base_of, can_have_metric, rescaled
from bochner.metric_learning.centre_space import FIRST_FACTOR, LARGER_FACTOR, CentreSpace, Measure
from bochner.metric_learning.room import with_fewer
from bochner.metric_learning.stages import ALIKE, CLEARLY_WORSE, Stage

WORTH_A_SEARCH = 2.0
"""A start whose error at its first width is this many times that of the best keeps that width."""
BEST_FAMILIES = 2
"""Families whose metrics grow at the first stage, for each start: the best ones as they are."""


@dataclass(frozen=True)
class Starts:
    """What candidates are made of: families of kernels, and by the names of starts scales (m,) of standardised columns.

    Or metrics of them, whose bases are to be radial families.
    """

    families: tuple[Kernel, ...]
    scales: dict[str, Array]
    metrics: dict[str, MetricKernel] = field(default_factory=dict)

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
            Candidate(metric.replace(base=base), start, "given") for base in bases for start, metric in self.metrics.items()
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
    criterion: Callable[[Stage], Callable[[Any], Criterion]],
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
    with its own kind. ``criterion`` says what makes the held-out errors of a stage. Centres are some of its rows, or
    ``every_row``. ``way`` is one of WAYS. A start that stays as it was is a candidate too, unless the metric ``must`` be of
    one of the kinds. A stage that a device has no room for becomes a smaller one.
    """
    staying: list[Candidate] = []

    def take(stage: Stage) -> tuple[CentreSpace, list[Candidate]]:
        space = CentreSpace(folds, stage, criterion(stage), rng, every_row=every_row, measure=measure)
        if begin is not None:
            begin(space)
        if not staying:
            return space, _first_stage(space, starts, stage, kinds, rank, way, must=must)
        larger = [space.best_width(replace(each, power=None), LARGER_FACTOR, narrower_only=True) for each in staying]
        return space, [
            each if each.kind == "given" else space.improve(each, each.kind, stage.steps, rank, way) for each in larger
        ]

    for number, stage in enumerate(stages, start=1):
        space, tried = with_fewer(stage, folds.n, take)
        staying = best_of(tried, stage.keep, stage.worse, alike=ALIKE if number > 1 else None)
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


def best_of(
    candidates: Sequence[Candidate], keep: int, worse: float = CLEARLY_WORSE, alike: float | None = None
) -> list[Candidate]:
    """The best candidates, each recipe once, without those whose error is ``worse`` times that of the best.

    Of metrics of one family and kind, from several starts, only the best is kept of those ``alike`` in their errors.
    """
    of_recipe: dict[tuple[str, str, str], Candidate] = {}
    for candidate in sorted(candidates, key=lambda each: each.value):
        of_recipe.setdefault(candidate.recipe, candidate)
    ordered = list(of_recipe.values())
    found: list[Candidate] = []
    for each in ordered[:keep]:
        same = [one for one in found if each.kind != "given" and _form(one) == _form(each)]
        known = alike is not None and any(each.value <= (1 + alike) * one.value for one in same)
        if each.value <= worse * ordered[0].value and not known:
            found.append(each)
    return found


def _form(candidate: Candidate) -> tuple[str, str, bool]:
    """Family and kind of metric, and whether it sees directions alone."""
    return candidate.recipe[0], candidate.kind, getattr(candidate.kernel, "origin", None) is None
