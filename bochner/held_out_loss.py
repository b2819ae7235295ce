"""Held-out loss of classifiers on features: its value, its gradient in the features' map, and its best penalty.

Each validated part of the rows is predicted by a model with coefficients B and intercept b that minimise the mean loss on
all the other parts plus alpha |B|^2, and the criterion J is the mean loss of those predictions. Its gradient comes by
implicit differentiation. With R the slopes of the loss in the scores, H the Hessian of the model's own objective and
(P, p) = H^-1 (dJ/dB, dJ/db), weights w that sum to W_v on the validated rows and to W_k on those of model k,

    dJ/dPhi = (1/W_v) w R B'                                     on the rows of part k
            = -(1/W_k) w [R P' + curve(Phi P + p) B']            on the rows of the others
    dJ/dlog alpha = -2 alpha <B, P>

where curve multiplies by the second derivatives of each row's loss. Only a block of rows of dJ/dPhi exists at a time. Of
rows that are not in memory, targets and scores are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from bochner.arrays import Array, fetch64
from bochner.criteria import Fit
from bochner.engines import forward, predict, pull_back_folds
from bochner.engines.fold_products import FoldRows, RowNumbers
from bochner.engines.products import TableFeatures, TableRows
from bochner.features import FeatureGradient, FeatureMap
from bochner.folds import FoldedRows, Folds, HeldOut, Rows
from bochner.losses import Loss
from bochner.solvers.newton import TOLERANCE, PenalisedLoss, weighted_slopes
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
ROW_ARRAYS, EACH_PART = 10, 2
"""Numbers for each row and class that are in memory at a time, and those of them for each part that is predicted."""

RowsByPart = TableRows | FoldRows
"""Rows in memory, or not."""


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

    def __init__(self, folds: FoldedRows, loss: Loss, *, penalty: float | None = None) -> None:
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
        rows, basis = self._by_part(feature_map)
        width = feature_map.n_features + 1
        earlier = {
            k: {t: _reduce(coef, basis) for t, coef in known.items() if len(coef) == width}
            for k, known in self._known.items()
        }
        search = FoldedLoss(self.folds, self.loss, rows, earlier)
        log_alpha = search.best(log_alpha, bounds=bounds).log_alpha if self.penalty is None else float(np.log(self.penalty))
        best = search.exactly(log_alpha)
        self._known = {k: {t: _expand(coef, basis) for t, coef in known.items()} for k, known in search.known.items()}
        models = {k: LossModel(_expand(m.coef, basis), _expand(m.adjoint, basis)) for k, m in best.models.items()}
        slope = self._gradient(feature_map, rows, models) if gradient else None
        predictors = {k: (model.coef[:-1], model.coef[-1]) for k, model in models.items()}
        return LossEvaluation(best.value, best.log_alpha, slope, predictors, best.converged)

    def fit(self, feature_map: FeatureMap, evaluation: LossEvaluation) -> Fit:
        """The model of the rows to fit, with the penalty of an evaluation, whose models count for ``converged``."""
        rows, basis = self._by_part(feature_map)
        fitted = tuple(range(self.folds.n_parts)) if self.folds.fitted is None else self.folds.fitted
        problem = _problem(rows, fitted, self.loss)
        start = np.mean([np.vstack(model) for model in evaluation.models.values()], axis=0)
        result, _ = problem.solve(float(np.exp(evaluation.log_alpha)), _reduce(start, basis))
        coef = _expand(result.coef, basis)
        return Fit(coef[:-1], coef[-1], result.converged and evaluation.converged)

    def held_out(self, feature_map: FeatureMap, evaluation: LossEvaluation) -> HeldOut:
        """Every validated row that is in memory with its scores by the model that has not seen it."""
        parts = {k: self.folds.in_memory.parts[k] for k in self.folds.validated}
        scores = [predict(feature_map, part.X, *evaluation.models[k]) for k, part in parts.items()]
        return HeldOut(Rows.stack(list(parts.values())), np.concatenate(scores))

    @cached_property
    def _numbers(self) -> RowNumbers:
        """What is in memory of rows that are not."""
        return RowNumbers.of(self.folds)

    def _by_part(self, feature_map: FeatureMap) -> tuple[RowsByPart, Span | None]:
        """The rows with their features; where rows are few, with their coordinates in their span, and that span."""
        if not isinstance(self.folds, Folds):
            return FoldRows(self._numbers, feature_map), None
        parts = self.folds.parts
        if 8 * self.folds.n * feature_map.n_features > KEPT_BYTES:
            return TableRows(parts, [TableFeatures(feature_map, part.X) for part in parts]), None
        kept = [forward(feature_map, part.X) for part in parts]
        basis = None
        if few_rows(self.folds.n, feature_map.n_features):
            basis = Span.of(np.concatenate([fetch64(features) for features in kept]))
            kept = np.split(np.ascontiguousarray(basis.coordinates), np.cumsum([part.n for part in parts])[:-1])
        tables = [TableFeatures(feature_map, part.X, features) for part, features in zip(parts, kept, strict=True)]
        return TableRows(parts, tables), basis

    def _gradient(self, feature_map: FeatureMap, rows: RowsByPart, models: dict[int, LossModel]) -> FeatureGradient:
        loss = self.loss
        each = [float(rows.weights([k]).sum()) for k in range(self.folds.n_parts)]
        held_weight, weight = sum(each[k] for k in models), sum(each)

        def slope(part: int, some: Rows, features: Array) -> Array:
            left, right = [], []
            weights = some.weights[:, None]
            for k, model in models.items():
                scores = features @ model.coef[:-1] + model.coef[-1]
                slopes = weights * loss.slopes(scores, some.targets)
                if k == part:
                    left.append(slopes / held_weight)
                    right.append(model.coef[:-1])
                else:
                    change = features @ model.adjoint[:-1] + model.adjoint[-1]
                    curves = weights * loss.curve(scores, some.targets, change)
                    rest = weight - each[k]
                    left += [-slopes / rest, -curves / rest]
                    right += [model.adjoint[:-1], model.coef[:-1]]
            return np.concatenate(left, axis=1) @ np.concatenate(right, axis=1).T

        return pull_back_folds(feature_map, self.folds, slope)


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

    def __init__(self, folds: FoldedRows, loss: Loss, rows: RowsByPart, earlier: dict[int, Known]) -> None:
        self.loss, self.rows = loss, rows
        self.shape = rows.n_features + 1, folds.n_targets
        others = {k: [j for j in range(folds.n_parts) if j != k] for k in folds.validated}
        self.problems = {k: _problem(rows, some, loss) for k, some in others.items()}
        self.normaliser = float(rows.weights(folds.validated).sum())
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
        targets, share = self.rows.targets([k]), self.rows.weights([k]) / self.normaliser
        products = self.rows.products([k])
        gradient, scores = products.there_and_back(coef, partial(weighted_slopes, self.loss), targets, share[:, None])
        return float(share @ self.loss.values(scores, targets)), gradient

    def _start(self, k: int, log_alpha: float) -> Array:
        """Coefficients found at the closest penalty: for these features, or else for earlier ones, or else zeros."""
        known = self.known[k] or self.earlier[k]
        return known[min(known, key=lambda other: abs(other - log_alpha))] if known else np.zeros(self.shape)


def row_bytes(n_rows: int, n_outputs: int, n_validated: int) -> float:
    """What is in memory of rows that are not."""
    return 8.0 * n_rows * (n_outputs * (ROW_ARRAYS + EACH_PART * n_validated) + EACH_PART * n_validated)


def _problem(rows: RowsByPart, some: Sequence[int], loss: Loss) -> PenalisedLoss:
    """The model of some parts of the rows."""
    return PenalisedLoss(rows.products(some), loss, rows.targets(some), rows.weights(some))


def _reduce(coef: Array, basis: Span | None) -> Array:
    """Coefficients with intercept (d + 1, c) in the coordinates of a span: (n + 1, c)."""
    return coef if basis is None else np.vstack([basis.reduce(coef[:-1]), coef[-1:]])


def _expand(coef: Array, basis: Span | None) -> Array:
    """The way back: from (n + 1, c) to (d + 1, c)."""
    return coef if basis is None else np.vstack([basis.expand(coef[:-1]), coef[-1:]])
