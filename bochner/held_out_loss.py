"""Held-out loss of classifiers on features: its value, its gradient in the features' map, and its best penalty.

Each validated part of the rows is predicted by a model with coefficients B and intercept b that minimise the mean loss on
all the other parts plus alpha |B|^2, and the criterion J is the mean loss of those predictions. Its gradient comes by
implicit differentiation. With R the slopes of the loss in the scores, H the Hessian of the model's own objective and
(P, p) = H^-1 (dJ/dB, dJ/db), weights w that sum to W_v on the validated rows and to W_k on those of model k,

    dJ/dPhi = (1/W_v) w R B'                                     on the rows of part k
            = -(1/W_k) w [R P' + curve(Phi P + p) B']            on the rows of the others
    dJ/dlog alpha = -2 alpha <B, P>

where curve multiplies by the second derivatives of each row's loss. Only a block of rows of dJ/dPhi exists at a time.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bochner.arrays import Array, fetch64
from bochner.criteria import Fit
from bochner.engines import forward, predict, pull_back
from bochner.engines.products import Products, TableFeatures
from bochner.features import FeatureGradient, FeatureMap
from bochner.folds import Folds, HeldOut, Rows
from bochner.losses import Loss
from bochner.solvers.newton import TOLERANCE, PenalisedLoss
from bochner.solvers.penalty_search import PENALTIES, PenaltySearch
from bochner.span import Span, few_rows

KEPT_BYTES = 2**30
"""Features of all rows are kept in memory during one evaluation where they take no more than this; else they are made anew
for every pass."""
SEARCH_TOLERANCE, SEARCH_ADJOINT_TOLERANCE = 1e-5, 1e-3
"""How exactly models and adjoints are solved for at penalties that are only tried; those of the best one are exact."""
DESCENT_STEP = 2.5
"""Step of the logarithm of the penalty in a search over the whole range."""
CLEARLY_WORSE = 1.05
"""That search goes from large penalties to small ones, and ends where the loss is this many times the lowest one seen."""


@dataclass(frozen=True)
class LossEvaluation:
    """The criterion at one kernel and its best penalty."""

    value: float
    log_alpha: float
    gradient: FeatureGradient | None
    models: dict[int, tuple[Array, Array]]
    """For each validated part, the coefficients (d, c) and intercept (c,) that predict it."""
    converged: bool
    """Whether all of them are at their minimum."""


class HeldOutLoss:
    """Mean loss of held-out predictions, as a function of a feature map.

    ``penalty`` is a number that stays, or None: the best one for every map.
    Remembers the coefficients of the latest evaluation: the next one, of a kernel close by, starts from them. They change
    how long it takes, and its result by no more than the solver's tolerance.
    """

    def __init__(self, folds: Folds, loss: Loss, *, penalty: float | None = None) -> None:
        self.folds = folds
        self.loss = loss
        self.penalty = penalty
        self._known: dict[int, Known] = {k: {} for k in folds.validated}

    def evaluate(
        self,
        feature_map: FeatureMap,
        log_alpha: float | None = None,
        *,
        gradient: bool = True,
        bounds: tuple[float, float] = PENALTIES,
    ) -> LossEvaluation:
        """The criterion of a map, its penalty chosen: near ``log_alpha``, or anywhere in ``bounds``."""
        tables, basis = self._tables(feature_map)
        width = feature_map.n_features + 1
        earlier = {
            k: {t: _reduce(coef, basis) for t, coef in known.items() if len(coef) == width}
            for k, known in self._known.items()
        }
        search = FoldedLoss(self.folds, self.loss, tables, earlier)
        log_alpha = search.best(log_alpha, bounds=bounds).log_alpha if self.penalty is None else float(np.log(self.penalty))
        best = search.exactly(log_alpha)
        self._known = {k: {t: _expand(coef, basis) for t, coef in known.items()} for k, known in search.known.items()}
        models = {k: LossModel(_expand(m.coef, basis), _expand(m.adjoint, basis)) for k, m in best.models.items()}
        slope = self._gradient(feature_map, models) if gradient else None
        predictors = {k: (model.coef[:-1], model.coef[-1]) for k, model in models.items()}
        return LossEvaluation(best.value, best.log_alpha, slope, predictors, best.converged)

    def fit(self, feature_map: FeatureMap, evaluation: LossEvaluation) -> Fit:
        """The model of the rows to fit, with the penalty of an evaluation, whose models count for ``converged``."""
        tables, basis = self._tables(feature_map)
        fitted = range(len(tables)) if self.folds.fitted is None else self.folds.fitted
        problem = _problem([self.folds.parts[k] for k in fitted], [tables[k] for k in fitted], self.loss)
        start = np.mean([np.vstack(model) for model in evaluation.models.values()], axis=0)
        result, _ = problem.solve(float(np.exp(evaluation.log_alpha)), _reduce(start, basis))
        coef = _expand(result.coef, basis)
        return Fit(coef[:-1], coef[-1], result.converged and evaluation.converged)

    def held_out(self, feature_map: FeatureMap, evaluation: LossEvaluation) -> HeldOut:
        """Every validated row with its scores by the model that has not seen it."""
        parts = [self.folds.parts[k] for k in self.folds.validated]
        scores = [predict(feature_map, self.folds.parts[k].X, *evaluation.models[k]) for k in self.folds.validated]
        return HeldOut(Rows.stack(parts), np.concatenate(scores))

    def _tables(self, feature_map: FeatureMap) -> tuple[list[TableFeatures], Span | None]:
        """The features of every part; where rows are few, their coordinates in their span, and that span."""
        parts = self.folds.parts
        if 8 * self.folds.n * feature_map.n_features > KEPT_BYTES:
            return [TableFeatures(feature_map, part.X) for part in parts], None
        kept = [forward(feature_map, part.X) for part in parts]
        basis = None
        if few_rows(self.folds.n, feature_map.n_features):
            basis = Span.of(np.concatenate([fetch64(features) for features in kept]))
            kept = np.split(np.ascontiguousarray(basis.coordinates), np.cumsum([part.n for part in parts])[:-1])
        return [TableFeatures(feature_map, part.X, features) for part, features in zip(parts, kept, strict=True)], basis

    def _gradient(self, feature_map: FeatureMap, models: dict[int, LossModel]) -> FeatureGradient:
        loss = self.loss
        held_weight = sum(float(self.folds.parts[k].weights.sum()) for k in models)
        weight = sum(float(part.weights.sum()) for part in self.folds.parts)
        parts = []
        for index, part in enumerate(self.folds.parts):

            def slope(block: slice, features: Array, part: Rows = part, index: int = index) -> Array:
                left, right = [], []
                targets, weights = part.targets[block], part.weights[block, None]
                for k, model in models.items():
                    scores = features @ model.coef[:-1] + model.coef[-1]
                    slopes = weights * loss.slopes(scores, targets)
                    if k == index:
                        left.append(slopes / held_weight)
                        right.append(model.coef[:-1])
                    else:
                        change = features @ model.adjoint[:-1] + model.adjoint[-1]
                        curves = weights * loss.curve(scores, targets, change)
                        rest = weight - float(self.folds.parts[k].weights.sum())
                        left += [-slopes / rest, -curves / rest]
                        right += [model.adjoint[:-1], model.coef[:-1]]
                return np.concatenate(left, axis=1) @ np.concatenate(right, axis=1).T

            parts.append(pull_back(feature_map, part.X, slope))
        return functools.reduce(operator.add, parts)


Known = dict[float, Array]
"""Coefficients with intercept (d + 1, c) by the logarithm of the penalty that they were found at."""


@dataclass(frozen=True)
class LossModel:
    """The model that predicts one part, and the adjoint of its held-out loss: both (d + 1, c), intercept last."""

    coef: Array
    adjoint: Array


@dataclass(frozen=True)
class LossSolution:
    """All parts predicted at one penalty: held-out loss, its derivative in log alpha, the models."""

    value: float
    slope: float
    log_alpha: float
    models: dict[int, LossModel]
    converged: bool
    """Whether all models are at their minimum, as exactly as was asked for."""
    curvature: float | None = None
    """The second derivative in log alpha, which is not known here."""


class FoldedLoss(PenaltySearch):
    """Held-out loss as a function of the penalty alone, for features that stay as they are.

    ``earlier`` holds, for each validated part, coefficients of a kernel close by; ``known`` those found here.
    """

    def __init__(self, folds: Folds, loss: Loss, tables: list[TableFeatures], earlier: dict[int, Known]) -> None:
        self.loss = loss
        self.shape = tables[0].n_features + 1, folds.parts[0].targets.shape[1]
        self.held = {k: (Products([tables[k]]), folds.parts[k]) for k in folds.validated}
        self.problems = {}
        for k in folds.validated:
            others = [j for j in range(len(tables)) if j != k]
            self.problems[k] = _problem([folds.parts[j] for j in others], [tables[j] for j in others], loss)
        self.normaliser = float(sum(part.weights.sum() for _, part in self.held.values()))
        self.earlier = earlier
        self.known: dict[int, Known] = {k: {} for k in folds.validated}

    def best(self, start: float | None, *, bounds: tuple[float, float] = PENALTIES) -> LossSolution:
        """The penalty of least loss near ``start``, or near the best one on the way down from the highest.

        Small penalties cost the most, and each model is a good start for that of the next smaller penalty.
        """
        return super().best(self._descend(bounds) if start is None else start, bounds=bounds)

    def _descend(self, bounds: tuple[float, float]) -> float:
        best = self.at(float(np.log(bounds[1])))
        for log_alpha in np.arange(best.log_alpha, np.log(bounds[0]), -DESCENT_STEP)[1:]:
            trial = self.at(float(log_alpha))
            if trial.value > CLEARLY_WORSE * best.value:
                break
            best = min(best, trial, key=lambda s: s.value)
        return best.log_alpha

    def at(self, log_alpha: float) -> LossSolution:
        """Every part predicted with penalty exp(log_alpha), exactly enough to compare penalties."""
        return self._solve(log_alpha, SEARCH_TOLERANCE, SEARCH_ADJOINT_TOLERANCE)

    def exactly(self, log_alpha: float) -> LossSolution:
        """The same as exactly as its derivatives need it."""
        return self._solve(log_alpha, TOLERANCE, TOLERANCE)

    def _solve(self, log_alpha: float, tol: float, adjoint_tol: float) -> LossSolution:
        alpha = float(np.exp(log_alpha))
        value = slope = 0.0
        models, converged = {}, True
        for k, problem in self.problems.items():
            result, point = problem.solve(alpha, self._start(k, log_alpha), tol=tol)
            self.known[k][log_alpha] = result.coef
            held_value, held_gradient = self._held_out(k, result.coef)
            adjoint = problem.solve_hessian(point, held_gradient, tol=adjoint_tol)
            value += held_value
            slope -= 2 * alpha * float(np.sum(result.coef[:-1] * adjoint[:-1]))
            models[k] = LossModel(result.coef, adjoint)
            converged = converged and result.converged
        return LossSolution(value, slope, log_alpha, models, converged)

    def _held_out(self, k: int, coef: Array) -> tuple[float, Array]:
        """Part k's share of the held-out loss, and its gradient in the coefficients: (d + 1, c)."""
        products, part = self.held[k]
        weights = part.weights / self.normaliser
        values = np.empty(part.n)

        def between(block: slice, scores: Array) -> Array:
            values[block] = self.loss.values(scores, part.targets[block])
            return weights[block, None] * self.loss.slopes(scores, part.targets[block])

        gradient = products.there_and_back(coef, between)
        return float(weights @ values), gradient

    def _start(self, k: int, log_alpha: float) -> Array:
        """Coefficients found at the closest penalty: for these features, or else for earlier ones, or else zeros."""
        known = self.known[k] or self.earlier[k]
        return known[min(known, key=lambda other: abs(other - log_alpha))] if known else np.zeros(self.shape)


def _problem(parts: Sequence[Rows], tables: list[TableFeatures], loss: Loss) -> PenalisedLoss:
    """The model of some parts of the rows."""
    targets = np.concatenate([part.targets for part in parts])
    weights = np.concatenate([part.weights for part in parts])
    return PenalisedLoss(Products(tables), loss, targets, weights)


def _reduce(coef: Array, basis: Span | None) -> Array:
    """Coefficients with intercept (d + 1, c) in the coordinates of a span: (n + 1, c)."""
    return coef if basis is None else np.vstack([basis.reduce(coef[:-1]), coef[-1:]])


def _expand(coef: Array, basis: Span | None) -> Array:
    """The way back: from (n + 1, c) to (d + 1, c)."""
    return coef if basis is None else np.vstack([basis.expand(coef[:-1]), coef[-1:]])
