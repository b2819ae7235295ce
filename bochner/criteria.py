"""Held-out error of ridge regression on features: its value, its gradient in the features' map, and its best penalty.

Rows come in parts. Each validated part is predicted by a ridge regression on all the other parts, and the criterion is the
mean squared error of those predictions; hold-out validates one part of two, K-fold validates all of K. Everything is
solved from one set of moments per part (one pass over the rows), and the gradient needs one more pass:

    (B, b) = ridge regression of penalty alpha on all parts but k,   R = Phi B + b - Y
    (P, p) = its adjoint: the inverse of its normal equations times 2 / (N c) (Phi_k' D_k R_k, 1' D_k R_k)
    dJ/dPhi = 2 / (N c) D R B'                         on the rows of part k
            = -D [R P' + (Phi P + p) B']               on the rows of the others

for c targets, weights D = diag(w) and N the weight of all validated rows. These matrices have rank two per target and part;
only a block of rows of them exists at a time.
"""

from __future__ import annotations

import functools
import operator
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Protocol, cast

import numpy as np

from bochner.arrays import Array, dense, double, fetch, fetch_numbers, is_foreign, namespace, place, total
from bochner.blas import one_blas_thread, same_bits
from bochner.engines import fold_moments, forward, predict_folds, pull_back_folds
from bochner.engines.devices import brought
from bochner.features import FeatureGradient, FeatureMap
from bochner.folds import FoldedRows, Folds, HeldOut, Rows
from bochner.solvers.normal_equations import CentredMoments, Spectrum
from bochner.solvers.penalty_search import PENALTIES, PenaltySearch
from bochner.span import Span, few_rows
from bochner.statistics import Moments

FEW_FEATURES = 512
"""Most features whose equations one thread of the host solves, wherever the rows are: it takes less time than to tell
others, or a device, what to do."""

LogPenalty = float | Array
"""The logarithm of the ridge penalty: one number, or one for each target (c,)."""


ROUNDING = 1000 * float(np.finfo(np.float64).eps)
"""Held-out errors of nothing are at most this far below zero, for standardised targets; others have lost their digits."""


@dataclass(frozen=True)
class Evaluation:
    """The criterion at one kernel and its best penalty."""

    value: float
    log_alpha: LogPenalty
    gradient: FeatureGradient | None
    sums: Moments
    """Moments of the rows that the final regression is fitted on, where those rows are."""
    models: dict[int, tuple[Array, Array]]
    """For each validated part, the coefficients (d, c) and intercept (c,) that predict it."""
    basis: Span | None
    """Where there are clearly more features than rows: the rows' span, in whose coordinates the moments are."""

    @cached_property
    def totals(self) -> Moments:
        """The moments in NumPy arrays."""
        return self.sums.on_host()


@dataclass(frozen=True)
class Fit:
    """The model of the rows to fit: coefficients (d, c), intercept (c,), and whether it minimises what it should."""

    coef: Array
    intercept: Array
    converged: bool = True
    at_centres: bool = False
    """Whether the coefficients are those of the kernel at each centre, in place of whitened features."""


class Criterion(Protocol):
    """What is minimised over kernels: a held-out error with its penalty chosen, its gradient, and the fit it leads to."""

    @property
    def folds(self) -> FoldedRows:
        """The rows."""

    def evaluate(
        self,
        feature_map: FeatureMap,
        log_alpha: LogPenalty | None = None,
        *,
        gradient: bool = True,
        bounds: tuple[float, float] = ...,
    ) -> Any:
        """The criterion of a map: an object with ``value``, ``log_alpha`` and ``gradient``."""

    def fit(self, feature_map: FeatureMap, evaluation: Any) -> Fit:
        """The model of the rows to fit, with the penalty of an evaluation."""

    def held_out(self, feature_map: FeatureMap, evaluation: Any) -> HeldOut:
        """Every validated row with its prediction by the model that has not seen it."""


class HeldOutError:
    """Mean squared error of held-out predictions, as a function of a feature map.

    ``penalty`` is a number that stays, or None: the best one for every map, for each target by itself if ``per_target``.
    """

    def __init__(self, folds: FoldedRows, *, penalty: float | None = None, per_target: bool = False) -> None:
        self.folds = folds
        self.penalty = penalty
        self.per_target = per_target

    def evaluate(
        self,
        feature_map: FeatureMap,
        log_alpha: LogPenalty | None = None,
        *,
        gradient: bool = True,
        bounds: tuple[float, float] = PENALTIES,
    ) -> Evaluation:
        """The criterion of a map, its penalty chosen: near ``log_alpha``, or anywhere in ``bounds``."""
        with same_bits():
            if self._on_device:
                feature_map = feature_map.place(cast(Folds, self.folds).parts[0].X)  # once, for two passes
            basis = self._span(feature_map)
            kept: dict[int, Array] | None = {} if gradient and self._on_device else None
            parts = self._part_moments(feature_map, basis, kept)
            if self._on_device and feature_map.n_features <= FEW_FEATURES:
                parts = [part.on_host() for part in parts]
            totals = functools.reduce(operator.add, parts)
            normaliser = self.folds.n_targets * sum(parts[k].weight for k in self.folds.validated)
            best = self._solve(FoldedMoments(parts, totals, self.folds.validated, normaliser), log_alpha, bounds)
            models = {
                k: FoldModel(_expand(m.coef, basis), m.intercept, _expand(m.adjoint, basis), m.adjoint_intercept)
                for k, m in best.models.items()
            }
            pulled_back = self._gradient(feature_map, self._placed(models), normaliser, kept) if gradient else None
        if self.folds.fitted is not None:
            totals = functools.reduce(operator.add, [parts[k] for k in self.folds.fitted])
        chosen = {k: (fetch(m.coef), fetch(m.intercept)) for k, m in models.items()}
        return Evaluation(best.value, best.log_alpha, pulled_back, totals, chosen, basis)

    def fit(self, feature_map: FeatureMap, evaluation: Evaluation) -> Fit:
        """The model of the rows to fit, with the penalty of an evaluation."""
        return fit_ridge(evaluation)

    def fitted(self, feature_map: FeatureMap, evaluation: Evaluation) -> tuple[FeatureMap, Array]:
        """The map and coefficients on it that predict the first validated part."""
        return feature_map, evaluation.models[self.folds.validated[0]][0]

    def held_out(self, feature_map: FeatureMap, evaluation: Evaluation) -> HeldOut:
        """Every validated row that is in memory with its prediction by the model that has not seen it."""
        predictions = predict_folds(feature_map, brought(self.folds), evaluation.models)
        rows = Rows.stack([self.folds.in_memory.parts[k] for k in predictions])
        return HeldOut(rows, np.concatenate(list(predictions.values())))

    @property
    def _on_device(self) -> bool:
        """Whether all rows are arrays of another library than NumPy, on a device of theirs."""
        return isinstance(self.folds, Folds) and is_foreign(self.folds.parts[0].X)

    def _solve(self, folded: FoldedMoments, log_alpha: LogPenalty | None, bounds: tuple[float, float]) -> FoldedSolution:
        with one_blas_thread() if len(folded.totals.feature_sum) <= FEW_FEATURES else nullcontext():
            if self.penalty is not None:
                return FoldedRidge(folded).at(float(np.log(self.penalty)))
            if self.per_target:
                return FoldedTargets(folded).best(log_alpha, bounds=bounds)
            return FoldedRidge(folded).best(log_alpha, bounds=bounds)

    def _span(self, feature_map: FeatureMap) -> Span | None:
        """The span of the features of all rows, where there are clearly fewer rows than features.

        Not of rows on a device, which would have to leave it, and where products and factors of this size take no time.
        """
        if self._on_device or not (isinstance(self.folds, Folds) and few_rows(self.folds.n, feature_map.n_features)):
            return None
        return Span.of(np.concatenate([dense(forward(feature_map, part.X)) for part in self.folds.parts]))

    def _part_moments(self, feature_map: FeatureMap, basis: Span | None, kept: dict[int, Array] | None) -> list[Moments]:
        if basis is None:
            return fold_moments(feature_map, self.folds, kept)
        parts = [rows for _, rows in self.folds.chunks()]
        coordinates = np.split(basis.coordinates, np.cumsum([part.n for part in parts])[:-1])
        return [Moments.of(some, part.targets, part.weights) for some, part in zip(coordinates, parts, strict=True)]

    def _placed(self, models: dict[int, FoldModel]) -> dict[int, FoldModel]:
        """Models where the rows are."""
        if not self._on_device:
            return models
        there = double(cast(Folds, self.folds).parts[0].X[:0, :])
        return {k: FoldModel(*(place(getattr(m, f.name), there) for f in fields(m))) for k, m in models.items()}

    def _gradient(
        self, feature_map: FeatureMap, models: dict[int, FoldModel], normaliser: float, kept: dict[int, Array] | None
    ) -> FeatureGradient:
        xp = namespace(*(model.coef for model in models.values()))
        right = {k: xp.concat([m.coef, m.adjoint], axis=1) for k, m in models.items()}
        all_right = xp.concat(list(right.values()), axis=1)
        c = self.folds.n_targets

        def in_features(part: int, rows: Rows, features: Array) -> Array:
            if is_foreign(features):  # one product for all models, in one dtype: other libraries than NumPy do not mix them
                factors = place(all_right, like=features)
                products = features @ factors
                each = [products[:, 2 * c * i : 2 * c * (i + 1)] for i in range(len(models))]
            else:
                factors = all_right
                each = [features @ right[k] for k in models]
            left, weights = [], rows.weights[:, None]
            for (k, model), product in zip(models.items(), each, strict=True):
                predictions, sensitivities = product[:, :c], product[:, c:]
                residual = weights * (predictions + model.intercept - rows.targets)
                if k == part:
                    left += [2 / normaliser * residual, xp.zeros_like(residual)]
                else:
                    left += [-weights * (sensitivities + model.adjoint_intercept), -residual]
            slopes = xp.concat(left, axis=1)
            return (place(slopes, like=features) if is_foreign(features) else slopes) @ factors.T

        return pull_back_folds(feature_map, self.folds, in_features, kept)


def fit_ridge(evaluation: Evaluation) -> Fit:
    """The ridge regression of the moments of an evaluation, at its penalty."""
    centred = CentredMoments(evaluation.sums)
    coef, intercept = centred.coefficients(np.exp(evaluation.log_alpha))
    return Fit(_expand(fetch(coef), evaluation.basis), fetch(intercept))


def _expand(coef: Array, basis: Span | None) -> Array:
    """Coefficients of the features (d, c) from those of the coordinates of the rows' span."""
    return coef if basis is None else basis.expand(coef)


@dataclass(frozen=True)
class FoldModel:
    """The ridge regression that predicts one part, and the adjoint of its held-out error: (d, c) and (c,) each."""

    coef: Array
    intercept: Array
    adjoint: Array
    adjoint_intercept: Array


@dataclass(frozen=True)
class FoldedSolution:
    """All parts predicted at one penalty: held-out error, the models, the error's two derivatives in log alpha."""

    value: float
    log_alpha: LogPenalty
    models: dict[int, FoldModel]
    slope: float | None = None
    curvature: float | None = None
    """Both None where every target has a penalty of its own."""


@dataclass(frozen=True)
class FoldedMoments:
    """The moments of all parts and of their sum, the parts to predict, and what sums of squares are divided by."""

    parts: list[Moments]
    totals: Moments
    validated: tuple[int, ...]
    normaliser: float

    def training(self, k: int) -> CentredMoments:
        """What part ``k`` is predicted from: all the others."""
        if len(self.parts) == 2:
            return CentredMoments(self.parts[1 - k])
        return CentredMoments(self.totals, left_out=self.parts[k])

    def target(self, index: int) -> FoldedMoments:
        """The same with one of the targets."""
        return replace(self, parts=[part.target(index) for part in self.parts], totals=self.totals.target(index))


class FoldedRidge(PenaltySearch):
    """Held-out error as a function of the penalty alone, from the moments of the parts.

    Each trial is a factorisation, a third of d^3 operations: the few that a search takes cost less than the one
    eigendecomposition (about nine d^3) from which all penalties could be read off.

    With shift W alpha, S = A_c + shift I and adjoint a = (2/N) S^-1 w for the products w of features and residuals, the
    derivatives in log alpha are beta' = -shift S^-1 beta, J' = -shift <a, beta> and
    J'' = (2/N) |Phi_k beta'|^2 + J' - 2 shift <a, beta'>. ``spectra`` of the training parts spare the factorisations.
    """

    def __init__(self, folded: FoldedMoments, spectra: dict[int, Spectrum] | None = None) -> None:
        self.folded = folded
        self.training = {k: folded.training(k) for k in folded.validated}
        self.spectra = spectra or {}

    def at(self, log_alpha: float) -> FoldedSolution:
        """Every part predicted with penalty exp(log_alpha)."""
        solved = [self._part(k, log_alpha) for k in self.folded.validated]
        numbers = fetch_numbers([number for part in solved for number in part[:3]])  # the only wait for a device
        value, slope, curvature = np.sum(numbers.reshape(-1, 3), axis=0).tolist()
        models = {k: part[3] for k, part in zip(self.folded.validated, solved, strict=True)}
        value = max(value, 0.0) if value >= -ROUNDING else np.inf
        return FoldedSolution(value, log_alpha, models, slope, curvature)

    def _part(self, k: int, log_alpha: float) -> tuple[Array, Array, Array, FoldModel]:
        """The error of one part, its two derivatives in log alpha, and the model that predicts it."""
        part, unit, centred = self.folded.parts[k], 2 / self.folded.normaliser, self.training[k]
        solution = centred.solve(float(np.exp(log_alpha)), self.spectra.get(k))
        shift = centred.weight * solution.alpha
        value = total(part.squared_error(solution.coef, solution.intercept)) / self.folded.normaliser
        with_features, with_one = part.residual_products(solution.coef, solution.intercept)
        adjoint, adjoint_intercept, change = solution.adjoint_and_change(unit * with_features, unit * with_one)
        slope = -shift * total(adjoint * solution.coef)
        curvature = unit * total(part.square(change, -centred.mean @ change))
        curvature = curvature + (slope - 2 * shift * total(adjoint * change))
        return value, slope, curvature, FoldModel(solution.coef, solution.intercept, adjoint, adjoint_intercept)


class FoldedTargets:
    """The same with a penalty for each target: one eigendecomposition for each part gives the errors of all penalties."""

    def __init__(self, folded: FoldedMoments) -> None:
        self.folded = folded
        self.spectra = {k: folded.training(k).spectrum() for k in folded.validated}

    def best(self, start: LogPenalty | None, *, bounds: tuple[float, float] = PENALTIES) -> FoldedSolution:
        """Every part predicted with the best penalty of each target; ``start`` (c,) says where to look."""
        n_targets = len(self.folded.totals.target_sum)
        starts = [None] * n_targets if start is None else np.broadcast_to(start, n_targets)
        chosen = [FoldedRidge(self.folded.target(j), self.spectra).best(starts[j], bounds=bounds) for j in range(n_targets)]
        xp = namespace(self.folded.totals.gram)
        models = {
            k: FoldModel(
                xp.concat([s.models[k].coef for s in chosen], axis=1),
                xp.concat([s.models[k].intercept for s in chosen]),
                xp.concat([s.models[k].adjoint for s in chosen], axis=1),
                xp.concat([s.models[k].adjoint_intercept for s in chosen]),
            )
            for k in self.folded.validated
        }
        log_alpha = np.array([s.log_alpha for s in chosen])
        return FoldedSolution(sum(s.value for s in chosen), log_alpha, models)
