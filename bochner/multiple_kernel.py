"""Multiple-kernel learning (RFF-GL): which kernels count, and by how much, by group lasso over their stacked features.

The features of all kernels stand side by side, a group for each. Group lasso on a path of penalties brings in one kernel
after the other; held-out rows choose among the penalties, among shares of a ridge penalty (all of it is the plain average
of the kernels), and whether the kernels that are in are fitted again without the shrinkage that chose them. With the
squared loss everything comes from one matrix of moments for each part of the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from bochner.arrays import Array, dense
from bochner.engines import forward, moments, predict
from bochner.features import StackedMap
from bochner.folds import Folds, HeldOut, Rows
from bochner.losses import Loss
from bochner.solvers.group_path import (
    ElasticGroups,
    GroupLassoPath,
    Repeatable,
    falling_alphas,
    path_of_moments,
    solve_path,
)
from bochner.solvers.groups import Groups
from bochner.solvers.least_squares import LeastSquares
from bochner.solvers.normal_equations import CentredMoments, factorise
from bochner.solvers.row_loss import ArrayPasses, RowLoss
from bochner.statistics import Moments

RIDGE_ALPHAS = tuple(np.geomspace(1.0, 1e-9, 10).tolist())
"""Penalties tried where there is nothing but a ridge penalty."""


@dataclass(frozen=True, kw_only=True)
class WeightChoices:
    """How the weights of kernels are chosen."""

    weights: Array
    """The penalty of each kernel in units of alpha: (r,)."""
    shared: bool
    """Whether a kernel is in or out for all targets together."""
    alpha: float | None
    """The penalty; None: chosen on held-out rows."""
    l1_ratios: tuple[float, ...]
    """Shares of the group penalty to choose from; the rest is a ridge penalty."""
    n_alphas: int = 20
    smallest: float = 1e-3
    one_standard_error: bool = False
    """Take the fewest kernels whose error is within one standard error of the least."""
    refits: tuple[bool, ...] = (False,)
    """Whether the chosen kernels are fitted again by ridge regression: yes, no, or both to choose from."""
    tol: float = 1e-6
    max_iter: int = 100


@dataclass(frozen=True)
class Trial:
    """One way to fit, its held-out error on every part of the rows, and what was predicted for those."""

    alpha: float
    l1_ratio: float
    ridge: float | None
    """The penalty of the refit, if there is one."""
    errors: Array
    """Mean loss of each validated part: (k,)."""
    models: list[tuple[Array, Array]]
    """Coefficients (D, c) and intercept (c,) that predicted each of them."""
    n_in: int
    """Kernels (of all targets) that are in, on average."""

    @property
    def error(self) -> float:
        """Mean over the parts."""
        return float(self.errors.mean())

    @property
    def standard_error(self) -> float:
        """Of that mean."""
        return float(self.errors.std(ddof=1) / len(self.errors) ** 0.5) if len(self.errors) > 1 else 0.0


@dataclass(frozen=True)
class LearnedWeights:
    """The end of multiple-kernel learning: a model on stacked features, and how it was chosen."""

    coef: Array
    """(D, c)."""
    intercept: Array
    """(c,)."""
    norms: Array
    """The length of each kernel's coefficients in the group lasso: (r, c) or (r, 1)."""
    gap: Array
    """Duality gaps of the group lasso: (c,) or (1,)."""
    chosen: Trial
    trials: list[Trial]
    path: GroupLassoPath | None
    """The path on all rows that the choice was made on."""
    variance_shares: Array
    """The share of the variance of the predictions that each kernel explains: (r, c)."""
    held_out: HeldOut
    converged: bool
    n_iter: int


class Sums(Protocol):
    """The smooth part of the problem on all rows to fit, and on all but one part of them."""

    def problem(self, without: int | None) -> Repeatable:
        """The problem of all rows, or of all but a part."""

    def path(self, without: int | None, penalties: ElasticGroups, alphas: Array, **options: Any) -> GroupLassoPath:
        """The path of that problem."""

    def error(self, part: int, coef: Array, intercept: Array) -> float:
        """The mean loss of one part of the rows."""


class MomentSums:
    """The squared loss, from the moments of every part."""

    def __init__(self, folds: Folds, feature_map: StackedMap, together: bool) -> None:
        self._together = together
        self.parts = [moments(feature_map, part.X, part.targets, part.weights) for part in folds.parts]
        fitted = range(len(self.parts)) if folds.fitted is None else folds.fitted
        self._fitted = set(fitted)
        total = self.parts[next(iter(fitted))]
        for k in list(fitted)[1:]:
            total = total + self.parts[k]
        self.total: Moments = total

    def centred(self, without: int | None) -> CentredMoments:
        left_out = self.parts[without] if without is not None and without in self._fitted else None
        return CentredMoments(self.total, left_out)

    def problem(self, without: int | None) -> LeastSquares:
        return LeastSquares.of(self.centred(without), together=self._together)

    def path(self, without: int | None, penalties: ElasticGroups, alphas: Array, **options: Any) -> GroupLassoPath:
        centred = self.centred(without)
        if penalties.l1_ratio == 0:
            return _ridge_path(centred, penalties, alphas)
        return path_of_moments(centred, penalties, alphas, **options)

    def error(self, part: int, coef: Array, intercept: Array) -> float:
        return float(self.parts[part].squared_error(coef, intercept).sum()) / self.parts[part].weight


class RowSums:
    """Any other loss, by passes over the features of all rows, which are kept."""

    def __init__(self, folds: Folds, feature_map: StackedMap, loss: Loss, together: bool) -> None:
        self._loss, self._together = loss, together
        self._folds = folds
        self._features = [dense(forward(feature_map, part.X)).astype(np.float64, copy=False) for part in folds.parts]
        self._fitted = range(len(folds.parts)) if folds.fitted is None else folds.fitted

    def problem(self, without: int | None) -> RowLoss:
        some = [k for k in self._fitted if k != without]
        X = np.concatenate([self._features[k] for k in some])
        targets, weights = (
            np.concatenate([getattr(self._folds.parts[k], name) for k in some]) for name in ("targets", "weights")
        )
        centred = CentredMoments(Moments.of(X, targets, weights))
        return RowLoss.of(ArrayPasses(X), self._loss, targets, weights, centred, together=self._together)

    def path(self, without: int | None, penalties: ElasticGroups, alphas: Array, **options: Any) -> GroupLassoPath:
        return solve_path(self.problem(without), penalties, alphas, **options)

    def error(self, part: int, coef: Array, intercept: Array) -> float:
        rows = self._folds.parts[part]
        losses = self._loss.values(self._features[part] @ coef + intercept, rows.targets)
        return float(rows.weights @ losses) / float(rows.weights.sum())


def learn_weights(
    folds: Folds,
    feature_map: StackedMap,
    choices: WeightChoices,
    *,
    loss: Loss | None = None,
) -> LearnedWeights:
    """Choose among the kernels of ``feature_map`` by group lasso; ``loss`` None: the squared one."""
    groups = Groups(feature_map.sizes, shared=choices.shared)
    sums: Any = (
        MomentSums(folds, feature_map, choices.shared) if loss is None else RowSums(folds, feature_map, loss, choices.shared)
    )
    search = Search(folds, sums, groups, choices)
    trials = list(search.trials())
    chosen = _choose(trials, one_standard_error=choices.one_standard_error)
    path = search.final_path(chosen)
    coef, intercept, norms, gap = search.final_model(chosen, path)
    held_out = [
        (folds.parts[k], predict(feature_map, folds.parts[k].X, *model))
        for k, model in zip(folds.validated, chosen.models, strict=True)
    ]
    return LearnedWeights(
        coef=coef,
        intercept=intercept,
        norms=norms,
        gap=gap,
        chosen=chosen,
        trials=trials,
        path=path,
        variance_shares=_variance_shares(feature_map, Rows.stack(folds.to_fit), coef, groups),
        held_out=HeldOut(Rows.stack([rows for rows, _ in held_out]), np.concatenate([p for _, p in held_out])),
        converged=path is None or bool(path.converged.all()),
        n_iter=0 if path is None else path.n_iter,
    )


def _choose(trials: list[Trial], *, one_standard_error: bool) -> Trial:
    """The trial of least error, or the one of fewest kernels whose error is within a standard error of that."""
    best = min(trials, key=lambda trial: trial.error)
    if not one_standard_error:
        return best
    close = [trial for trial in trials if trial.error <= best.error + best.standard_error]
    return min(close, key=lambda trial: (trial.n_in, trial.error))


@dataclass
class Search:
    """Ways to fit, compared on held-out rows."""

    folds: Folds
    sums: Any
    groups: Groups
    choices: WeightChoices
    _refitted: set[bytes] = field(default_factory=set)
    """Sets of kernels that were fitted again."""

    def penalties(self, l1_ratio: float) -> ElasticGroups:
        """What a path penalises by."""
        return ElasticGroups(groups=self.groups, weights=self.choices.weights, l1_ratio=l1_ratio)

    @cached_property
    def _whole(self) -> Repeatable:
        return self.sums.problem(None)

    def alphas(self, l1_ratio: float) -> Array:
        """The penalties to try, falling: (L,)."""
        if self.choices.alpha is not None:
            return np.array([self.choices.alpha])
        if l1_ratio == 0:
            return np.array(RIDGE_ALPHAS)
        return falling_alphas(self._whole, self.penalties(l1_ratio), self.choices.n_alphas, self.choices.smallest)

    def trials(self) -> Iterator[Trial]:
        """Every share of the ridge, every penalty, fitted again or not."""
        for l1_ratio in self.choices.l1_ratios:
            alphas = self.alphas(l1_ratio)
            paths = [self._path(k, l1_ratio, alphas) for k in self.folds.validated]
            for i, alpha in enumerate(alphas):
                if False in self.choices.refits or l1_ratio == 0:
                    models = [(path.coef[i], path.intercept[i]) for path in paths]
                    n_in = int(np.mean([np.count_nonzero(path.norms[i]) for path in paths]))
                    yield Trial(float(alpha), l1_ratio, None, self._errors(models), models, n_in)
            if True in self.choices.refits and l1_ratio > 0:
                whole = self._path(None, l1_ratio, alphas)
                for i, alpha in enumerate(alphas):
                    yield from self._refits(float(alpha), l1_ratio, whole.norms[i])

    def _path(self, without: int | None, l1_ratio: float, alphas: Array) -> GroupLassoPath:
        options = {"tol": self.choices.tol, "max_iter": self.choices.max_iter}
        return self.sums.path(without, self.penalties(l1_ratio), alphas, **options)

    def _errors(self, models: list[tuple[Array, Array]]) -> Array:
        """The mean loss of each validated part: (k,)."""
        return np.array([self.sums.error(k, *model) for k, model in zip(self.folds.validated, models, strict=True)])

    def _refits(self, alpha: float, l1_ratio: float, norms: Array) -> Iterator[Trial]:
        """Ridge regressions on the kernels that are in; every set of kernels is tried once, at its largest alpha."""
        inside = norms > 0
        key = inside.tobytes()
        if key in self._refitted or not inside.any():
            return
        self._refitted.add(key)
        for ridge in RIDGE_ALPHAS:
            models = [self._ridge(k, inside, ridge) for k in self.folds.validated]
            yield Trial(alpha, l1_ratio, ridge, self._errors(models), models, int(np.count_nonzero(inside)))

    def _ridge(self, without: int | None, inside: Array, ridge: float) -> tuple[Array, Array]:
        """Ridge regression of each target on the kernels that are in for it (r, c) or (r, 1)."""
        centred = self.sums.centred(without)
        coef = np.zeros(centred.cross.shape)
        if inside.shape[1] == 1:
            inside = np.broadcast_to(inside, (len(inside), coef.shape[1]))
        for support in np.unique(inside, axis=1).T:
            targets = np.flatnonzero((inside == support[:, None]).all(axis=0))
            if support.any():
                coef[np.ix_(self.groups.spread(support), targets)] = _ridge_on(
                    centred, self.groups.spread(support), targets, ridge
                )
        return coef, centred.target_mean - centred.mean @ coef

    def final_path(self, chosen: Trial) -> GroupLassoPath | None:
        """The path on all rows that leads to the choice and on; none where the choice is a plain ridge regression."""
        if chosen.l1_ratio == 0:
            return None
        return self._path(None, chosen.l1_ratio, self.alphas(chosen.l1_ratio))

    def final_model(self, chosen: Trial, path: GroupLassoPath | None) -> tuple[Array, Array, Array, Array]:
        """Coefficients, intercept, lengths of the kernels and gaps of the choice, on all rows."""
        if path is None:
            one = self._path(None, 0.0, np.array([chosen.alpha]))
            return one.coef[0], one.intercept[0], one.norms[0], one.gap[0]
        i = int(np.argmin(np.abs(np.log(path.alphas / chosen.alpha))))
        norms, gap = path.norms[i], path.gap[i]
        if chosen.ridge is None:
            return path.coef[i], path.intercept[i], norms, gap
        return *self._ridge(None, norms > 0, chosen.ridge), norms, gap


def _ridge_path(centred: CentredMoments, penalties: ElasticGroups, alphas: Array) -> GroupLassoPath:
    """The path without a group penalty, a factorisation for each penalty (ten cost a third of an eigendecomposition)."""
    coef = np.stack([centred.solve(float(alpha)).coef for alpha in alphas])
    norms = penalties.groups.norms(coef.transpose(1, 0, 2)).transpose(1, 0, 2)
    each = (len(alphas), norms.shape[2])
    return GroupLassoPath(
        alphas=alphas,
        coef=coef,
        intercept=centred.target_mean - np.einsum("d,ldc->lc", centred.mean, coef),
        norms=norms,
        value=np.full(each, np.nan),
        gap=np.zeros(each),
        converged=np.ones(each, dtype=bool),
        n_iter=1,
    )


def _ridge_on(centred: CentredMoments, columns: Array, targets: Array, ridge: float) -> Array:
    """Coefficients of ridge regression on some columns, a mask (D,), for some targets: (q, k)."""
    gram = centred.gram()[np.ix_(columns, columns)]
    return factorise(gram, centred.weight * ridge).solve(centred.cross[np.ix_(columns, targets)])


def _variance_shares(feature_map: StackedMap, rows: Rows, coef: Array, groups: Groups) -> Array:
    """cov(f_t, f) / var(f) of the predictions f = sum_t f_t over the rows: (r, c); zeros where f is constant."""
    parts = np.zeros((coef.shape[0], len(groups) * coef.shape[1]))
    for t, some in enumerate(groups.slices):
        parts[some, t :: len(groups)] = coef[some]
    each = predict(feature_map, rows.X, parts, np.zeros(parts.shape[1])).astype(np.float64)
    each = each.reshape(rows.n, coef.shape[1], len(groups))
    share = (rows.weights / rows.weights.sum())[:, None, None]
    each = each - np.sum(share * each, axis=0)
    whole = each.sum(axis=2, keepdims=True)
    variance = np.sum(share * whole**2, axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(variance > 0, np.sum(share * each * whole, axis=0) / variance, 0.0).T
