"""Learned spectra: frequencies that leave the law they were drawn from, as far as that helps on rows they have not seen.

Frequencies are g = s * h, with base points h drawn once from the law of the kernel. Learning scales moves them all alike.
Here the points themselves change, by numbers without units that are zero at the start:

- "free": h + u, every frequency by itself: the features become a network of one hidden layer, started from the kernel;
- "mixture": h * exp(u_g), with numbers u_g for each column and each of GROUPS groups of frequencies: the law becomes a
  mixture of as many laws, each with scales of its own (spectral mixtures).

So many numbers would fit the rows they are validated on. The mean of their squares is therefore penalised, in units of the
error at the start; several strengths are tried, each from where the stronger one ended, and rows that were set aside choose
between them and the frequencies as they were, which stay unless others are better there by more than a standard error, and
then on the held-out parts of all rows too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from bochner.arrays import Array, fetch64
from bochner.criteria import Criterion
from bochner.errors import InputError
from bochner.features import FourierMap
from bochner.folds import FoldedRows, Folds, Rows, clearly_less
from bochner.kernels import Kernel, MetricKernel
from bochner.metric_learning import unseen_parts
from bochner.single_kernel import LearnedKernel
from bochner.solvers.lbfgs import minimise
from bochner.solvers.penalty_search import PENALTIES

SPECTRA = ("prior", "mixture", "free")
GROUPS = 4
STRENGTHS = (1.0, 0.1, 0.01)
"""Strengths of the penalty, the strongest first."""
AS_DRAWN = float("inf")
"""The strength at which nothing moves."""
STEPS = 12
"""Most steps at each strength."""
SPECTRUM_ROWS = 8000
"""Most rows that frequencies are learned from."""
FARTHEST = 6.0
"""The largest change of any number."""


@dataclass(frozen=True)
class SpectrumChoice:
    """The map with the chosen frequencies, and what was compared: strengths, and errors on unseen rows."""

    feature_map: FourierMap
    ladder: list[dict[str, Any]]


@dataclass(frozen=True)
class Points:
    """Base points h (r, f) as a function of numbers that are learned, which are zero at the start."""

    start: Array
    kind: str

    @property
    def n_numbers(self) -> int:
        """How many are learned."""
        return self.start.size if self.kind == "free" else GROUPS * self.start.shape[0]

    def at(self, numbers: Array) -> Array:
        """The points (r, f)."""
        if self.kind == "free":
            return self.start + numbers.reshape(self.start.shape)
        return self.start * np.exp(self._of_each(numbers))

    def back(self, gradient: Array, numbers: Array) -> Array:
        """The gradient in the numbers, from that in the points (r, f)."""
        if self.kind == "free":
            return gradient.ravel()
        each = gradient * self.at(numbers)
        return np.stack([each[:, group::GROUPS].sum(axis=1) for group in range(GROUPS)]).ravel()

    def _of_each(self, numbers: Array) -> Array:
        """The number of every entry: frequencies g, g + GROUPS, ... are of group g."""
        return numbers.reshape(GROUPS, -1)[np.arange(self.start.shape[1]) % GROUPS].T


LEAST_ROWS = 10
"""Rows below which frequencies cannot be learned: some are set aside, and the others are cut into parts."""


def with_spectrum(
    learned: LearnedKernel,
    folds: FoldedRows,
    kind: str,
    *,
    criterion: Callable[[Any], Criterion],
    place: Callable[[Folds], FoldedRows],
) -> tuple[LearnedKernel, list[dict[str, Any]]]:
    """What was learned, with other frequencies where these are clearly better, and the ladder of what was compared."""
    if folds.in_memory.n < LEAST_ROWS:
        raise InputError(
            f"spectrum={kind!r} is chosen on rows set aside, and there are {folds.in_memory.n} rows of positive weight: "
            f"give at least {LEAST_ROWS}, or use spectrum='prior'."
        )
    feature_map, log_alpha = cast(FourierMap, learned.feature_map), np.log(learned.alpha)
    found = learn_spectrum(folds.in_memory, feature_map, log_alpha, kind, criterion=criterion, place=place)
    if found.feature_map is feature_map:
        return learned, found.ladder
    made = criterion(folds)
    before, evaluation = (
        made.evaluate(each, log_alpha, gradient=False, bounds=PENALTIES) for each in (feature_map, found.feature_map)
    )
    if evaluation.value >= before.value:
        return learned, [record | {"chosen": record["strength"] == AS_DRAWN} for record in found.ladder]
    return LearnedKernel.of(made, found.feature_map, evaluation, learned.descent), found.ladder


def learn_spectrum(
    folds: Folds,
    feature_map: FourierMap,
    log_alpha: Any,
    kind: str,
    *,
    criterion: Callable[[Any], Criterion],
    place: Callable[[Folds], FoldedRows],
) -> SpectrumChoice:
    """Frequencies of one of the SPECTRA from those of ``feature_map``, learned on rows in memory; ``place`` puts them."""
    learned_on, unseen = next(unseen_parts(folds))
    some = learned_on.head(SPECTRUM_ROWS)
    points = Points(np.asarray(feature_map.points, dtype=np.float64), kind)
    learner = criterion(place(some).astype(np.float64))
    judge = criterion(place(Folds((Rows.stack(list(some.parts)), unseen), validated=(1,))).astype(np.float64))
    maps = {AS_DRAWN: feature_map}
    numbers = np.zeros(points.n_numbers)
    for strength in STRENGTHS:
        numbers = _descend(learner, feature_map, points, numbers, strength, log_alpha)
        maps[strength] = replace(feature_map, points=points.at(numbers).astype(feature_map.points.dtype))
    losses, ladder = {}, []
    for strength, each in maps.items():
        found = judge.evaluate(each, log_alpha, gradient=False, bounds=PENALTIES)
        held_out = judge.held_out(each, found)
        losses[strength] = np.mean((held_out.predictions - held_out.rows.targets) ** 2, axis=1)
        name = "prior" if strength == AS_DRAWN else kind
        ladder.append({"spectrum": name, "strength": strength, "error": float(found.value)})
    best = min(maps, key=lambda strength: float(unseen.weights @ losses[strength]))
    chosen = best if clearly_less(losses[best], losses[AS_DRAWN], unseen.weights) else AS_DRAWN
    for record in ladder:
        record["chosen"] = record["strength"] == chosen
    return SpectrumChoice(maps[chosen], ladder)


def _descend(
    criterion: Criterion, feature_map: FourierMap, points: Points, start: Array, strength: float, log_alpha: Any
) -> Array:
    """The numbers of least held-out error plus penalty, from some that are near."""
    unit = 0.0

    def value_and_gradient(numbers: Array) -> tuple[float, Array]:
        nonlocal log_alpha, unit
        trial = replace(feature_map, points=points.at(numbers))
        found = criterion.evaluate(trial, log_alpha, gradient=True, bounds=PENALTIES)
        if not np.isfinite(found.value):  # where a part cannot be predicted at all
            return found.value, np.zeros_like(numbers)
        log_alpha, unit = found.log_alpha, unit or found.value
        slopes = to_points(feature_map.kernel, fetch64(cast(Any, found.gradient).frequencies))
        mean_square = float(np.mean(numbers**2))
        gradient = points.back(slopes, numbers) + 2 * unit * strength / len(numbers) * numbers
        return found.value + unit * strength * mean_square, gradient

    far = np.full(len(start), FARTHEST)
    return minimise(value_and_gradient, start, bounds=(-far, far), max_iter=STEPS, tol=1 / criterion.folds.n).coef


def to_points(kernel: Kernel, gradient: Array) -> Array:
    """The gradient in base points h (r, f) from that in frequencies g (m, f): g = s * h, or A h under a metric."""
    if isinstance(kernel, MetricKernel):
        return np.asarray(kernel.metric.T @ gradient)
    return np.asarray(kernel.scales(len(gradient))[:, None] * gradient)
