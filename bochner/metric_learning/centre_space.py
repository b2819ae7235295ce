"""Held-out errors of kernels on data centres at one size, and the steps that a metric takes there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np

from bochner.arrays import Array, dense, fetch64
from bochner.centres import choose_centres
from bochner.criteria import Criterion
from bochner.engines.gradients import outer_product
from bochner.features import CentreMap
from bochner.folds import FoldedRows, Folds, HeldOut, Rows
from bochner.kernels import Kernel, MetricKernel
from bochner.metric_learning.candidates import Candidate, as_kind, moved, rescaled, with_metric
from bochner.metric_learning.stages import Stage
from bochner.solvers.lbfgs import minimise
from bochner.solvers.penalty_search import HIGHEST_PENALTY, LOWEST_PENALTY

Measure = Callable[[HeldOut], float]
"""What candidates are compared by, where that is not the squared error: a number of held-out predictions, to be small."""
GRADIENT_STEPS = 5
"""Steps along the gradient in place of one of outer products."""
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
HELPS = 2e-3
"""Another trial in a direction is made where the last one has lowered the error by this part of it."""
POWERS = (1.0, 0.75, 0.5)
"""Powers p of the metric A A' = G^p that are tried at the first step of every size; the next ones keep the best of them.

Which one is best depends on how well few rows tell directions apart, and small sizes cannot say."""
GIVE_UP = 1.05
"""A step to an error this many times that of the best one ends the steps of a candidate."""
LARGEST_VARIANCE = 1e6
"""Largest variance of the functions that a penalty stands for, as in :mod:`bochner.descent`. Kernels at centres fade away
from them, as random features do not, so that it may be larger."""


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
        with_metric = isinstance(kernel, MetricKernel)
        squares = _squares(kernel.embed(self.sample) if with_metric else self.sample * kernel.scales(self.sample.shape[1]))
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
        start = candidate.penalty_for(self.folds.n)
        found = self.criterion.evaluate(feature_map, start, gradient=gradient, bounds=bounds)
        value = found.value if self.measure is None else self.measure(self.criterion.held_out(feature_map, found))
        tried = replace(candidate, value=value, error=found.value, log_alpha=found.log_alpha, n_rows=self.folds.n)
        return replace(tried, evaluation=found, feature_map=feature_map)

    def best_width(self, candidate: Candidate, factor: float, *, narrower_only: bool = False) -> Candidate:
        """The candidate at the best multiple of its distances: steps of ``factor`` up, or else down.

        Each is made where the one before has lowered the error by the part HELPS.
        """
        return self.width_around(self.evaluate(candidate), factor, narrower_only=narrower_only)

    def width_around(self, candidate: Candidate, factor: float, *, narrower_only: bool = False) -> Candidate:
        """The same of a candidate that has been evaluated here."""
        best = candidate
        for step in (factor,) if narrower_only else (factor, 1 / factor):
            for k in range(1, FARTHEST + 1):
                before = best.value
                trial = self.evaluate(replace(best, kernel=rescaled(candidate.kernel, step**k)))
                if trial.value < before:
                    best = trial
                if not trial.value < (1 - HELPS) * before:
                    break
            if best.value < candidate.value:
                break
        return best

    def gradient_products(self, candidate: Candidate) -> Array:
        """The mean outer product (m, m) of the gradients of a candidate's fit, over some of the rows.

        The fit is one that has not seen the part that it predicts, so that its error stays an honest one.
        """
        feature_map, coef = cast(Any, self.criterion).fitted(candidate.feature_map, candidate.evaluation)
        parts = [part for _, part in self.folds.head(GRADIENT_ROWS).chunks()]
        totals = [float(np.sum(fetch64(part.weights))) for part in parts]
        sums = [
            total * outer_product(feature_map, part.X, coef, part.weights) for part, total in zip(parts, totals, strict=True)
        ]
        return sum(sums) / sum(totals)

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
