"""Multiple-kernel learning (RFF-GL): which kernels count, and by how much, by group lasso over their stacked features.

The features of all kernels stand side by side, a group for each. Group lasso on a path of penalties brings in one kernel
after the other; held-out rows choose among the penalties, among shares of a ridge penalty (all of it is the plain average
of the kernels), and whether the kernels that are in are fitted again without the shrinkage that chose them. With the
squared loss everything comes from one matrix of moments for each part of the rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from bochner.arrays import Array
from bochner.engines import predict
from bochner.features import StackedMap
from bochner.fold_problems import FoldProblems, RowProblems
from bochner.folds import Folds, HeldOut, Rows
from bochner.losses import Loss
from bochner.solvers.group_path import ElasticGroups, GroupLassoPath, Repeatable, falling_alphas
from bochner.solvers.groups import Groups
from bochner.solvers.normal_equations import CentredMoments, factorise

RIDGE_ALPHAS = tuple(np.geomspace(1.0, 1e-9, 10).tolist())
"""Penalties tried where there is nothing but a ridge penalty."""
MATRICES = 6
"""Matrices of all pairs of features that are there at a time, beside one for each part of the rows."""

Refit = Literal["ridge", "weighted"]
"""Ridge regression of the kernels that are in: of their plain sum, or of their sum weighted by d_t."""


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
    refits: tuple[Refit | None, ...] = (None,)
    """How the kernels that are in are fitted again, or not at all; several to choose from."""
    tol: float = 1e-6
    max_iter: int = 100


@dataclass(frozen=True)
class Trial:
    """One way to fit, its held-out error on every part of the rows, and what was predicted for those."""

    alpha: float
    l1_ratio: float
    refit: Refit | None
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


def learn_weights(
    folds: Folds,
    feature_map: StackedMap,
    choices: WeightChoices,
    *,
    loss: Loss | None = None,
    max_memory: float = np.inf,
    callback: Callable[[dict[str, Any]], None] | None = None,
) -> LearnedWeights:
    """Choose among the kernels of ``feature_map`` by group lasso; ``loss`` None: the squared one.

    Features of all rows are kept where the loss needs them and they fit into what :func:`matrix_bytes` leaves of
    ``max_memory``. The callback hears of every path of penalties.
    """
    problems: FoldProblems
    if loss is None:
        problems = FoldProblems(folds, feature_map, together=choices.shared)
    else:
        spare = max_memory - matrix_bytes(feature_map.n_features, len(folds.parts))
        problems = RowProblems(folds, feature_map, loss, together=choices.shared, spare=spare)
    groups = Groups(problems.sizes or feature_map.sizes, shared=choices.shared)
    search = Search(folds, problems, groups, choices, callback)
    trials = list(search.trials())
    chosen = _choose(trials, one_standard_error=choices.one_standard_error)
    path = search.final_path(chosen)
    coef, intercept, norms, gap = search.final_model(chosen, path)
    held_out = [
        (folds.parts[k], predict(feature_map, folds.parts[k].X, problems.expand(coef_k), intercept_k))
        for k, (coef_k, intercept_k) in zip(folds.validated, chosen.models, strict=True)
    ]
    return LearnedWeights(
        coef=problems.expand(coef),
        intercept=intercept,
        norms=norms,
        gap=gap,
        chosen=chosen,
        trials=trials,
        path=None if path is None else _expanded(path, problems),
        variance_shares=_variance_shares(problems.centred(None), coef, groups),
        held_out=HeldOut(Rows.stack([rows for rows, _ in held_out]), np.concatenate([p for _, p in held_out])),
        converged=path is None or bool(path.converged.all()),
        n_iter=0 if path is None else path.n_iter,
    )


def matrix_bytes(n_features: int, n_parts: int) -> float:
    """What the matrices of all pairs of features take."""
    return 8.0 * (n_parts + MATRICES) * n_features**2


def n_paths(folds: Folds, choices: WeightChoices) -> int:
    """How many paths of penalties a search follows."""
    with_refits = any(choices.refits) and sum(ratio > 0 for ratio in choices.l1_ratios)
    return len(choices.l1_ratios) * len(folds.validated) + int(with_refits) + 1


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
    problems: FoldProblems
    groups: Groups
    choices: WeightChoices
    callback: Callable[[dict[str, Any]], None] | None = None
    _refitted: set[bytes] = field(default_factory=set)
    """Sets of kernels that were fitted again."""
    _started: float = field(default_factory=time.perf_counter)
    _done: int = 0
    _least: float | None = None
    """The least held-out error so far."""

    def penalties(self, l1_ratio: float) -> ElasticGroups:
        """What a path penalises by."""
        return ElasticGroups(groups=self.groups, weights=self.choices.weights, l1_ratio=l1_ratio)

    @cached_property
    def _whole(self) -> Repeatable:
        return self.problems.problem(None)

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
                if None in self.choices.refits or l1_ratio == 0:
                    models = [(path.coef[i], path.intercept[i]) for path in paths]
                    n_in = int(np.mean([np.count_nonzero(path.norms[i]) for path in paths]))
                    yield self._trial(float(alpha), l1_ratio, models, n_in)
            if any(self.choices.refits) and l1_ratio > 0:
                whole = self._path(None, l1_ratio, alphas)
                for i in reversed(range(len(alphas))):
                    yield from self._refits(float(alphas[i]), l1_ratio, whole.norms[i])

    def _path(self, without: int | None, l1_ratio: float, alphas: Array) -> GroupLassoPath:
        options = {"tol": self.choices.tol, "max_iter": self.choices.max_iter}
        path = self.problems.path(without, self.penalties(l1_ratio), alphas, **options)
        self._done += 1
        if self.callback is not None:
            what = "paths of penalties" if len(alphas) > 1 else "penalties"
            seconds = time.perf_counter() - self._started
            self.callback({"what": what, "done": self._done, "error": self._least, "seconds": seconds})
        return path

    def _trial(
        self,
        alpha: float,
        l1_ratio: float,
        models: list[tuple[Array, Array]],
        n_in: int,
        refit: Refit | None = None,
        ridge: float | None = None,
    ) -> Trial:
        """A way to fit, with the errors of its models on the parts that they have not seen."""
        errors = [self.problems.error(k, *model) for k, model in zip(self.folds.validated, models, strict=True)]
        trial = Trial(alpha, l1_ratio, refit, ridge, np.array(errors), models, n_in)
        self._least = trial.error if self._least is None else min(self._least, trial.error)
        return trial

    def _refits(self, alpha: float, l1_ratio: float, norms: Array) -> Iterator[Trial]:
        """Ridge regressions on the kernels that are in; every set of kernels is tried once, at its smallest alpha."""
        key = (norms > 0).tobytes()
        if key in self._refitted or not norms.any():
            return
        self._refitted.add(key)
        for refit in (kind for kind in self.choices.refits if kind is not None):
            for ridge in RIDGE_ALPHAS:
                models = [self._ridge(k, norms, refit, ridge) for k in self.folds.validated]
                yield self._trial(alpha, l1_ratio, models, int(np.count_nonzero(norms)), refit, ridge)

    def _ridge(self, without: int | None, norms: Array, refit: Refit, ridge: float) -> tuple[Array, Array]:
        """Ridge regression of each target on the kernels that are in for it, by their lengths (r, c) or (r, 1)."""
        centred = self.problems.centred(without)
        coef = np.zeros(centred.cross.shape)
        roots = np.sqrt(norms / np.maximum(norms.max(axis=0), np.finfo(np.float64).tiny))
        roots = np.broadcast_to(roots if refit == "weighted" else norms > 0, (len(norms), coef.shape[1]))
        for root in np.unique(roots, axis=1).T:
            targets = np.flatnonzero((roots == root[:, None]).all(axis=0))
            if root.any():
                coef[:, targets] = _ridge_on(centred, self.groups.spread(root).astype(np.float64), targets, ridge)
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
        if chosen.refit is None or chosen.ridge is None:
            return path.coef[i], path.intercept[i], norms, gap
        return *self._ridge(None, norms, chosen.refit, chosen.ridge), norms, gap


def _ridge_on(centred: CentredMoments, root: Array, targets: Array, ridge: float) -> Array:
    """Coefficients of ridge regression on columns times ``root`` (D,), for some targets, in units of the columns: (D, k)."""
    used = root > 0
    some = root[used][:, None]
    gram = centred.gram()[np.ix_(used, used)] * some * some.T
    coef = np.zeros((len(root), len(targets)))
    coef[used] = some * factorise(gram, centred.weight * ridge).solve(some * centred.cross[np.ix_(used, targets)])
    return coef


def _expanded(path: GroupLassoPath, problems: FoldProblems) -> GroupLassoPath:
    """A path with coefficients of the features."""
    return replace(path, coef=problems.expand(path.coef.transpose(1, 0, 2)).transpose(1, 0, 2))


def _variance_shares(centred: CentredMoments, coef: Array, groups: Groups) -> Array:
    """cov(f_t, f) / var(f) of the predictions f = sum_t f_t over the rows: (r, c); zeros where f is constant."""
    covariances = np.add.reduceat(coef * (centred.gram() @ coef), groups.starts, axis=0)
    variance = covariances.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(variance > 0, covariances / variance, 0.0)
