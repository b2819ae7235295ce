"""Held-out error of ridge regression on features: its value, its gradient in the features' map, and its best penalty.

Rows come in parts. Each validated part is predicted by a ridge regression on all the other parts, and the criterion is the
mean squared error of those predictions; hold-out validates one part of two, K-fold validates all of K. Everything is
solved from one set of moments per part (one pass over the rows), and the gradient needs one more pass:

    beta_k = Q_k^-1 B_k,   alpha_k = 2 / (W c) Q_k^-1 Phi_k' W_k R_k,   R = Phi beta + b - Y
    dJ/dPhi = 2 / (W c) W R beta'                      on the rows of part k
            = -W (R alpha' + (Phi alpha) beta')        on the rows of the others

These matrices have rank two per target and part; only a block of rows of them exists at a time.
"""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from bochner.arrays import Array, dense
from bochner.engines import forward, moments, predict, pull_back
from bochner.features import FeatureGradient, FeatureMap
from bochner.solvers.normal_equations import CentredMoments, RidgeSolution
from bochner.solvers.penalty_search import HIGHEST_PENALTY, PenaltySearch
from bochner.statistics import Moments

FEW_ROWS = 1.5
"""Work in the span of the rows where there are this many times more features than rows."""


@dataclass(frozen=True)
class Rows:
    """Rows X (n, m) with targets Y (n, c) and weights (n,), the last two in float64."""

    X: Array
    targets: Array
    weights: Array

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.X.shape[0]

    def take(self, index: Array) -> Rows:
        """Some of the rows."""
        return Rows(self.X[index], self.targets[index], self.weights[index])

    @classmethod
    def stack(cls, parts: list[Rows]) -> Rows:
        """Several sets of rows as one."""
        X = [part.X for part in parts]
        return cls(
            sparse.vstack(X, format="csr") if sparse.issparse(X[0]) else np.concatenate(X),
            np.concatenate([part.targets for part in parts]),
            np.concatenate([part.weights for part in parts]),
        )


@dataclass(frozen=True)
class HeldOut:
    """Rows and what models that have not seen them predict: (n, c)."""

    rows: Rows
    predictions: Array


@dataclass(frozen=True)
class Folds:
    """Parts of the rows, and which of them are predicted from all the others."""

    parts: tuple[Rows, ...]
    validated: tuple[int, ...]

    @property
    def n(self) -> int:
        """Number of rows in all."""
        return sum(part.n for part in self.parts)

    def head(self, n_rows: int) -> Folds:
        """The first rows of every part, in proportion, about ``n_rows`` in all: rows must be in random order."""
        share = min(1.0, n_rows / self.n)
        return Folds(tuple(p.take(slice(0, max(1, int(np.ceil(share * p.n))))) for p in self.parts), self.validated)


@dataclass(frozen=True)
class Evaluation:
    """The criterion at one kernel and its best penalty."""

    value: float
    log_alpha: float
    gradient: FeatureGradient | None
    totals: Moments
    models: dict[int, tuple[Array, Array]]
    """For each validated part, the coefficients (d, c) and intercept (c,) that predict it."""
    basis: Array | None
    """Where there are more features than rows: an orthonormal basis (d, n) of the rows' span, and moments in it."""


class HeldOutError:
    """Mean squared error of held-out predictions, as a function of a feature map."""

    def __init__(self, folds: Folds) -> None:
        self.folds = folds
        outputs = folds.parts[0].targets.shape[1]
        self.normaliser = outputs * float(sum(folds.parts[k].weights.sum() for k in folds.validated))

    def evaluate(
        self,
        feature_map: FeatureMap,
        log_alpha: float | None = None,
        *,
        gradient: bool = True,
        highest: float = HIGHEST_PENALTY,
    ) -> Evaluation:
        """The criterion of a map, its penalty chosen: near ``log_alpha``, or on the whole range up to ``highest``."""
        basis = self._span(feature_map)
        parts = [self._moments(feature_map, part, basis) for part in self.folds.parts]
        totals = functools.reduce(operator.add, parts)
        ridge = FoldedRidge(parts, totals, self.folds.validated, self.normaliser)
        best = ridge.best(log_alpha, highest=highest)
        slope = self._gradient(feature_map, best, basis) if gradient else None
        models = {k: (_expand(m.solution.coef, basis), m.solution.intercept) for k, m in best.models.items()}
        return Evaluation(best.value, best.log_alpha, slope, totals, models, basis)

    def held_out(self, feature_map: FeatureMap, evaluation: Evaluation) -> HeldOut:
        """Every validated row with its prediction by the model that has not seen it."""
        parts = [self.folds.parts[k] for k in self.folds.validated]
        predictions = [predict(feature_map, self.folds.parts[k].X, *evaluation.models[k]) for k in self.folds.validated]
        return HeldOut(Rows.stack(parts), np.concatenate(predictions))

    def _span(self, feature_map: FeatureMap) -> Array | None:
        """Orthonormal basis (d, n) of the features of all rows, where there are clearly fewer rows than features."""
        if FEW_ROWS * self.folds.n > feature_map.n_features:
            return None
        return span_of(np.concatenate([dense(forward(feature_map, part.X)) for part in self.folds.parts]))

    def _moments(self, feature_map: FeatureMap, part: Rows, basis: Array | None) -> Moments:
        if basis is None:
            return moments(feature_map, part.X, part.targets, part.weights)
        return Moments.of(forward(feature_map, part.X) @ basis, part.targets, part.weights)

    def _gradient(self, feature_map: FeatureMap, best: FoldedSolution, basis: Array | None) -> FeatureGradient:
        models = {
            k: (_expand(m.solution.coef, basis), m.solution.intercept, _expand(m.adjoint, basis), m.adjoint_intercept)
            for k, m in best.models.items()
        }
        parts = []
        for index, part in enumerate(self.folds.parts):

            def slope(block: slice, features: Array, part: Rows = part, index: int = index) -> Array:
                left, right = [], []
                weights = part.weights[block, None]
                for k, (coef, intercept, adjoint, adjoint_intercept) in models.items():
                    residual = weights * (features @ coef + intercept - part.targets[block])
                    if k == index:
                        left.append(2 / self.normaliser * residual)
                        right.append(coef)
                    else:
                        left += [-residual, -weights * (features @ adjoint + adjoint_intercept)]
                        right += [adjoint, coef]
                return np.concatenate(left, axis=1) @ np.concatenate(right, axis=1).T

            parts.append(pull_back(feature_map, part.X, slope))
        return functools.reduce(operator.add, parts)


def span_of(features: Array) -> Array | None:
    """Orthonormal basis (d, n) of the rows of ``features`` (n, d), or None where that would not make them much shorter.

    Ridge coefficients lie in the span of the rows, so that nothing is lost by working in it.
    """
    if FEW_ROWS * features.shape[0] > features.shape[1]:
        return None
    return np.linalg.qr(features.T)[0]


def _expand(coef: Array, basis: Array | None) -> Array:
    """Coefficients of the features (d, c) from those in a basis of the rows' span."""
    return coef if basis is None else basis @ coef


@dataclass(frozen=True)
class FoldModel:
    """The ridge regression that predicts one part, and the adjoint of its held-out error."""

    solution: RidgeSolution
    adjoint: Array
    adjoint_intercept: Array


@dataclass(frozen=True)
class FoldedSolution:
    """All parts predicted at one penalty: held-out error, its derivative in log alpha, the models."""

    value: float
    slope: float
    log_alpha: float
    models: dict[int, FoldModel]


class FoldedRidge(PenaltySearch):
    """Held-out error as a function of the penalty alone, from the moments of the parts."""

    def __init__(self, parts: list[Moments], totals: Moments, validated: tuple[int, ...], normaliser: float) -> None:
        self.parts = {k: parts[k] for k in validated}
        self.centred = {k: CentredMoments(totals - parts[k]) for k in validated}
        self.normaliser = normaliser

    def at(self, log_alpha: float) -> FoldedSolution:
        """Every part predicted with penalty exp(log_alpha)."""
        value = slope = 0.0
        models = {}
        for k, centred in self.centred.items():
            solution = centred.solve(float(np.exp(log_alpha)))
            value += float(self.parts[k].squared_error(solution.coef, solution.intercept).sum()) / self.normaliser
            with_features, with_one = self.parts[k].residual_products(solution.coef, solution.intercept)
            adjoint, adjoint_intercept = solution.adjoint(
                2 / self.normaliser * with_features, 2 / self.normaliser * with_one
            )
            slope -= centred.moments.weight * solution.alpha * float(np.sum(adjoint * solution.coef))
            models[k] = FoldModel(solution, adjoint, adjoint_intercept)
        return FoldedSolution(value if value >= 0 else np.inf, slope, log_alpha, models)
