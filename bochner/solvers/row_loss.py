"""The mean loss of B models on the features of the same rows, seen through passes over those rows.

f_b(w) = (1/W) sum_i w_i loss(phi_i w + a, y_ib), the intercept a being the best one for w. For any loss with value, slopes
and curvature. The second moments of the features, times the mean curvature of a problem, stand for its second derivatives
where a rough idea is enough.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, Self

import numpy as np

from bochner.arrays import Array
from bochner.errors import InputTypeError
from bochner.losses import Loss
from bochner.solvers.groups import GroupPenalty
from bochner.solvers.line_search import best_step
from bochner.solvers.normal_equations import CentredMoments
from bochner.solvers.problem import State

MOST_INTERCEPT_STEPS, MOST_HALVINGS = 50, 20
INTERCEPT_TOLERANCE = 1e-14
"""The search for an intercept ends when a step promises to lower the loss by less than this part of it."""
SMALLEST_CURVATURE = 1e-8
"""Smallest mean curvature of a model, in units of the loss's largest."""


class Passes(Protocol):
    """Passes over the features Phi (n, D) of some rows."""

    @property
    def n_columns(self) -> int:
        """D."""

    def there(self, coef: Array) -> Array:
        """Phi coef for coef (D, k): (n, k)."""

    def back(self, values: Array) -> Array:
        """Phi' values for values (n, k): (D, k)."""

    def there_and_back(self, coef: Array, between: Callable[..., Array], *rows: Array) -> Array:
        """Phi' between(Phi coef, *rows) in one pass, block by block of ``rows``, arrays (n, ...): (D, k) for k columns."""

    def columns(self, used: Array) -> Self:
        """The same for some of the columns, a mask (D,)."""


@dataclass(frozen=True)
class ArrayPasses:
    """Features that are there."""

    features: Array

    @property
    def n_columns(self) -> int:
        return int(self.features.shape[1])

    def there(self, coef: Array) -> Array:
        return self.features @ coef

    def back(self, values: Array) -> Array:
        return self.features.T @ values

    def there_and_back(self, coef: Array, between: Callable[..., Array], *rows: Array) -> Array:
        return self.back(between(self.there(coef), *rows))

    def columns(self, used: Array) -> ArrayPasses:
        return self if used.all() else ArrayPasses(self.features[:, used])


@dataclass(frozen=True)
class RowLoss:
    """The smooth part of B group lasso problems of c outputs each."""

    matrix: Array
    """Centred second moments of the features, over W: (D, D)."""
    passes: Passes
    loss: Loss
    targets: Array
    """(n, B, c)."""
    share: Array
    """w_i / W: (n, 1, 1)."""
    single = False

    @classmethod
    def of(
        cls, passes: Passes, loss: Loss, targets: Array, weights: Array, moments: CentredMoments, *, together: bool
    ) -> RowLoss:
        """One problem of all targets (n, c) ``together``, as a loss of all scores of a row needs it, or one of each."""
        together = together or loss.shift_free
        each = targets[:, None, :] if together else targets[:, :, None]
        return cls(moments.gram() / moments.weight, passes, loss, each, (weights / weights.sum())[:, None, None])

    def zero(self) -> Array:
        """Coefficients of zero: (D, B, c)."""
        return np.zeros((len(self.matrix), *self.targets.shape[1:]))

    def repeat(self, times: int) -> RowLoss:
        """The problems over again, for as many penalties."""
        return replace(self, targets=np.tile(self.targets, (1, times, 1)))

    def take(self, problems: Array) -> RowLoss:
        """Some of the problems."""
        return replace(self, targets=self.targets[:, problems])

    def at(self, coef: Array) -> State:
        """The problems at coefficients (D, B, c)."""
        return self._settled(coef, self._there(coef), np.zeros((1, *coef.shape[1:])))

    def values(self, state: State) -> Array:
        """f of each problem: (B,)."""
        return self._value(_known(state.scores))

    def model_scale(self, state: State) -> Array:
        """The mean curvature of each problem: (B,)."""
        mean = np.mean(np.sum(self.share * self._rows(self.loss.curvature, _known(state.scores)), axis=0), axis=1)
        return np.maximum(mean, SMALLEST_CURVATURE * self.loss.bound)

    def curvature(self, state: State, used: Array, matrix: Array) -> RowCurvature:
        """Second derivatives among the columns ``used``, a mask (D,)."""
        return RowCurvature.of(self, self.passes.columns(used), _known(state.scores))

    def follow_model(self, state: State, direction: Array, penalty: GroupPenalty) -> State:
        """The end of a direction (D, B, c) where it lowers the objective, and else the least objective along it."""
        change = self._there(direction)
        end = self._settled(state.coef + direction, _known(state.scores) + change, _known(state.intercept))
        here, there = (self.values(point) + penalty.value(point.coef) for point in (state, end))
        worse = np.flatnonzero(~(there <= here))
        if len(worse):
            rest = self.take(worse)
            nearer = rest._along(state.take(worse), direction[:, worse], change[:, worse], penalty.take(worse))
            end = end.replaced(worse, nearer)
        return end

    def move(self, state: State, direction: Array, penalty: GroupPenalty) -> State:
        """The least objective along a direction (D, B, c)."""
        return self._along(state, direction, self._there(direction), penalty)

    def gaps(self, state: State, penalty: GroupPenalty) -> Array:
        """How far each objective is from its minimum at most: (B,).

        The dual point is a multiple of the slopes of the loss: as they are, which leaves the gap of the penalty and its
        conjugate, or shrunk until the penalty's constraints hold (the ridge taken for a loss of its own).
        """
        as_they_are = penalty.conjugate_gap(state.coef, state.slopes)
        factor = penalty.largest_factor(state.slopes - penalty.ridge[:, None] * state.coef)
        slopes = factor[:, None] * self._rows(self.loss.slopes, _known(state.scores))
        dual = -self._mean(self._rows(self.loss.conjugate, slopes))
        dual -= 0.5 * penalty.ridge * factor**2 * np.sum(state.coef**2, axis=(0, 2))
        shrunk = self.values(state) + penalty.value(state.coef) - dual
        return np.maximum(np.minimum(as_they_are, shrunk), 0.0)

    def response(self, scores: Array, change: Array) -> Array:
        """How the best intercept answers a small change (n, B, c) of the scores: (1, B, c)."""
        bent = np.sum(self.curve(scores, change), axis=0)
        return -np.einsum("bij,bj->bi", self.intercept_inverse(scores), bent)[None]

    def intercept_inverse(self, scores: Array) -> Array:
        """The inverse of the second derivatives in the intercept: (B, c, c)."""
        smallest = SMALLEST_CURVATURE * self.loss.bound
        units = np.eye(scores.shape[2])
        if not self.loss.shift_free:
            curvature = np.sum(self.share * self._rows(self.loss.curvature, scores), axis=0)
            return units / np.maximum(curvature, smallest)[:, :, None]
        columns = [np.sum(self.curve(scores, np.broadcast_to(unit, scores.shape)), axis=0) for unit in units]
        matrices = np.stack(columns, axis=2)
        size = np.maximum(np.trace(matrices, axis1=1, axis2=2), smallest)[:, None, None]
        values, vectors = np.linalg.eigh(matrices / size)
        inverted = np.where(values > 1e-12, 1 / np.maximum(values, 1e-12), 0.0) / size[:, :, 0]
        return (vectors * inverted[:, None, :]) @ np.swapaxes(vectors, 1, 2)

    def curve(self, scores: Array, change: Array) -> Array:
        """Shares times second derivatives of the loss times a change (n, B, c): (n, B, c)."""
        return self.share * self._rows(self.loss.curve, scores, change)

    def _along(self, state: State, direction: Array, change: Array, penalty: GroupPenalty) -> State:
        """The least objective along a direction whose scores change by (n, B, c), the intercept going along."""
        scores = _known(state.scores)
        answer = self.response(scores, change)
        change = change + answer
        weighted = self.share * change

        def smooth(size: Array) -> tuple[Array, Array]:
            there = scores + size[:, None] * change
            return (
                np.sum(weighted * self._rows(self.loss.slopes, there), axis=(0, 2)),
                np.sum(weighted * self._rows(self.loss.curve, there, change), axis=(0, 2)),
            )

        size = best_step(state.coef, direction, penalty, smooth)[:, None]
        moved, intercept = scores + size * change, _known(state.intercept) + size * answer
        end = self._settled(state.coef + size * direction, moved, intercept)
        here, there = (self.values(point) + penalty.value(point.coef) for point in (state, end))
        worse = np.flatnonzero(~(there <= here))  # by rounding, or where nothing curves
        return end.replaced(worse, state.take(worse)) if len(worse) else end

    def _settled(self, coef: Array, scores: Array, intercept: Array) -> State:
        """The state of coefficients from their scores (n, B, c): with the best intercept, and the slopes there."""
        shift = self._best_shift_of_all(scores) if self.loss.shift_free else self._best_shift_of_each(scores)
        scores = scores + shift
        slopes = self.share * self._rows(self.loss.slopes, scores)
        back = self.passes.back(slopes.reshape(len(slopes), -1)).reshape(coef.shape)
        return State(coef, -back, scores, intercept + shift)

    def _best_shift_of_each(self, scores: Array) -> Array:
        """What to add to all scores of each output to lower its loss the most: (1, B, c), by Newton steps in a bracket."""
        shift, reach = np.zeros(scores.shape[1:]), np.ones(scores.shape[1:])
        low, high = np.full_like(shift, -np.inf), np.full_like(shift, np.inf)
        tiny = np.finfo(np.float64).tiny
        for _ in range(2 * MOST_INTERCEPT_STEPS):
            there = scores + shift
            slopes = np.sum(self.share * self._rows(self.loss.slopes, there), axis=0)
            curvature = np.sum(self.share * self._rows(self.loss.curvature, there), axis=0)
            low, high = np.where(slopes <= 0, shift, low), np.where(slopes >= 0, shift, high)
            with np.errstate(over="ignore"):
                step = -slopes / np.maximum(curvature, tiny)
            step = np.where(np.abs(step) < reach, step, -np.sign(slopes) * reach)
            target = shift + step
            inside = (target >= low) & (target <= high)
            with np.errstate(invalid="ignore"):
                target = np.where(inside, target, 0.5 * (low + high))
            if np.all(np.abs(target - shift) <= INTERCEPT_TOLERANCE * (1 + np.abs(shift))):
                break
            reach = np.where(np.abs(step) < reach, reach, 2 * reach)
            shift = target
        return shift[None]

    def _best_shift_of_all(self, scores: Array) -> Array:
        """What to add to the scores of each problem, output by output, where outputs share a loss: (1, B, c)."""
        shift, value = np.zeros((1, *scores.shape[1:])), self._value(scores)
        for _ in range(MOST_INTERCEPT_STEPS):
            there = scores + shift
            slopes = np.sum(self.share * self._rows(self.loss.slopes, there), axis=0)
            step = -np.einsum("bij,bj->bi", self.intercept_inverse(there), slopes)
            promise = -np.sum(step * slopes, axis=1)
            if not np.any(promise > INTERCEPT_TOLERANCE * (value + INTERCEPT_TOLERANCE)):
                break
            for _ in range(MOST_HALVINGS):
                new = self._value(there + step)
                worse = new > value + INTERCEPT_TOLERANCE * (value + self.loss.bound)  # by more than rounding
                if not worse.any():
                    break
                step = np.where(worse[:, None], 0.5 * step, step)
            shift, value = shift + np.where(worse[:, None], 0.0, step), np.where(worse, value, new)
        return shift

    def _there(self, coef: Array) -> Array:
        """Scores (n, B, c) of coefficients (D, B, c), without intercept; where all of these are zero, they take no pass."""
        if not coef.any():
            return np.zeros((len(self.share), *coef.shape[1:]))
        return self.passes.there(coef.reshape(len(coef), -1)).reshape(-1, *coef.shape[1:])

    def _value(self, scores: Array) -> Array:
        return self._mean(self._rows(self.loss.values, scores))

    def _mean(self, values: Array) -> Array:
        """The weighted mean over rows of (n, B): (B,)."""
        return self.share[:, 0, 0] @ values

    def _rows(self, function: Callable[..., Array], scores: Array, *others: Array) -> Array:
        """A function of the loss, row by row of scores (n, B, c): (n, B), or (n, B, c)."""
        flat = [array.reshape(-1, scores.shape[2]) for array in (scores, self.targets, *others)]
        found = function(*flat)
        return found.reshape(scores.shape[: found.ndim + 1])


@dataclass(frozen=True)
class RowCurvature:
    """Second derivatives of mean losses, the intercept answering every change.

    With C the second derivatives of the loss of each row, times its share, and G = Phi' C 1, they are
    Phi' C Phi - G (1' C 1)^-1 G': one pass over the rows for each product.
    """

    problem: RowLoss
    passes: Passes
    scores: Array
    pulls: Array
    """G: (q, B, c), or (q, B, c, c) where the outputs of a row share a loss."""
    intercept_inverse: Array
    """(B, c, c)."""

    @classmethod
    def of(cls, problem: RowLoss, passes: Passes, scores: Array) -> RowCurvature:
        """Those at some scores (n, B, c)."""
        rows = scores, problem.targets, problem.share
        pulls = passes.there_and_back(np.empty((passes.n_columns, 0)), partial(_pulls, problem.loss), *rows)
        outputs = scores.shape[1:] + (scores.shape[2:] if problem.loss.shift_free else ())
        return cls(problem, passes, scores, pulls.reshape(-1, *outputs), problem.intercept_inverse(scores))

    def __call__(self, direction: Array) -> Array:
        rows = self.scores, self.problem.targets, self.problem.share
        flat = direction.reshape(len(direction), -1)
        bent = self.passes.there_and_back(flat, partial(_bent, self.problem.loss), *rows).reshape(direction.shape)
        pull, back = ("qbij,qbi->bj", "qbij,bj->qbi") if self.pulls.ndim == 4 else ("qbj,qbj->bj", "qbj,bj->qbj")
        answer = np.einsum("bij,bj->bi", self.intercept_inverse, np.einsum(pull, self.pulls, direction))
        return bent - np.einsum(back, self.pulls, answer)

    def take(self, problems: Array) -> RowCurvature:
        """Those of some of the problems."""
        scores, pulls = self.scores[:, problems], self.pulls[:, problems]
        return RowCurvature(self.problem.take(problems), self.passes, scores, pulls, self.intercept_inverse[problems])


def _bent(loss: Loss, change: Array, scores: Array, targets: Array, share: Array) -> Array:
    """Shares times second derivatives of the loss times a change (n, B c) of scores (n, B, c): (n, B c)."""
    flat = (array.reshape(-1, scores.shape[2]) for array in (scores, targets, change))
    return (share * loss.curve(*flat).reshape(scores.shape)).reshape(change.shape)


def _pulls(loss: Loss, _: Array, scores: Array, targets: Array, share: Array) -> Array:
    """The same times a change of each output by one: of all of them together (n, B c), or of one by one (n, B c c)."""
    one_by_one = np.eye(scores.shape[2]) if loss.shift_free else np.ones((1, scores.shape[2]))
    flat = len(scores), scores.shape[1] * scores.shape[2]
    bent = [_bent(loss, np.broadcast_to(one, scores.shape).reshape(flat), scores, targets, share) for one in one_by_one]
    return np.stack(bent, axis=2).reshape(len(scores), -1)


def _known(array: Array | None) -> Array:
    """An array that states of these problems always have."""
    if array is None:
        raise InputTypeError("expected a state with scores and intercept, got one without: use one that this problem made")
    return array
