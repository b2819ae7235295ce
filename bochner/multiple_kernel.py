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
from typing import Any, Literal, cast

import numpy as np

from bochner.arrays import Array
from bochner.engines import predict_folds
from bochner.engines.devices import brought
from bochner.features import StackedMap
from bochner.fold_problems import FoldProblems, Ridges, RowProblems, column_counts
from bochner.folds import FoldedRows, Folds, HeldOut, Rows
from bochner.losses import Loss
from bochner.solvers.group_path import ElasticGroups, GroupLassoPath, falling_alphas, join_pieces
from bochner.solvers.groups import Groups
from bochner.solvers.normal_equations import CentredMoments

RIDGE_ALPHAS = tuple(np.geomspace(1.0, 1e-9, 10).tolist())
"""Penalties tried where there is nothing but a ridge penalty."""
MATRICES = 6
"""Matrices of all pairs of features that are there at a time, beside four for each part of the rows."""

PATIENCE = 3
"""Penalties for which the held-out error may fail to fall before smaller ones are left out."""
HOPELESS = 1.1
"""A refit whose first error is this many times the least one so far is not tried with other penalties."""
NOT_WORTH = 0.01
"""Kernels that lower the held-out error by less than this part of it are left out."""
ROUGH = 1e-3
"""Duality gap, as a part of the objective, that is enough to compare errors on held-out rows."""

Refit = Literal["ridge", "weighted", "joint"]
"""Ridge regression of the kernels that are in: of their plain sum, of their sum weighted by d_t, or of one kernel on the
columns of all of them."""


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
    """The smallest penalty as a part of the largest; where errors still fall there, paths go on."""
    lowest: float | None = None
    """How far they go on, as a part of the largest; None: the square of ``smallest``."""
    one_standard_error: bool = False
    """Take the fewest kernels whose error is within one standard error of the least."""
    refits: tuple[Refit | None, ...] = (None,)
    """How the kernels that are in are fitted again, or not at all; several to choose from."""
    tol: float = 1e-6
    max_iter: int = 100


@dataclass(frozen=True)
class Trial:
    """One way to fit, its held-out error on every part of the rows, and the models that predicted them."""

    alpha: float
    l1_ratio: float
    refit: Refit | None
    ridge: float | None
    """The penalty of the refit, if there is one."""
    errors: Array
    """Mean loss of each validated part: (k,)."""
    models: list[tuple[Array, Array]]
    """Coefficients (D, c) and intercept (c,) that predicted each of them."""
    n_in: float
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
    """The path on all rows at the chosen share: the chosen penalty as exact as asked for, the others to ROUGH."""
    variance_shares: Array
    """The share of the variance of the predictions that each kernel explains: (r, c)."""
    held_out: HeldOut
    converged: bool
    n_iter: int
    cut_short: bool = False
    """Whether the error still fell at the chosen penalty, and no smaller one may be tried."""

    def among(self, chosen: Array) -> LearnedWeights:
        """The same among more kernels, of which these are the ``chosen`` ones, a mask (r,), and the others are out."""
        if chosen.all():
            return self

        def spread(values: Array) -> Array:
            whole = np.zeros((*values.shape[:-2], len(chosen), values.shape[-1]))
            whole[..., chosen, :] = values
            return whole

        path = None if self.path is None else replace(self.path, norms=spread(self.path.norms))
        return replace(self, norms=spread(self.norms), variance_shares=spread(self.variance_shares), path=path)


def learn_weights(
    folds: FoldedRows,
    feature_map: StackedMap,
    choices: WeightChoices,
    *,
    loss: Loss | None = None,
    max_memory: float = np.inf,
    callback: Callable[[dict[str, Any]], None] | None = None,
) -> LearnedWeights:
    """Choose among the kernels of ``feature_map`` by group lasso; ``loss`` None: the squared one.

    The squared loss takes rows that are not in memory too. Others need them there: features of all rows are kept where they
    fit into what :func:`matrix_bytes` leaves of ``max_memory``. The callback hears of every path of penalties.
    """
    problems: FoldProblems
    if loss is None:
        problems = FoldProblems(folds, feature_map, together=choices.shared)
    else:
        spare = max_memory - matrix_bytes(sum(column_counts(feature_map, folds)), folds.n_parts)
        problems = RowProblems(cast(Folds, folds), feature_map, loss, together=choices.shared, spare=spare)
    groups = Groups(problems.sizes or feature_map.sizes, shared=choices.shared)
    search = Search(folds, problems, groups, choices, callback)
    trials = list(search.trials())
    chosen = _choose(trials, one_standard_error=choices.one_standard_error)
    final = search.final(chosen)
    search.tell_the_end()
    models = zip(folds.validated, chosen.models, strict=True)
    expanded = {k: (problems.expand(coef_k), intercept_k) for k, (coef_k, intercept_k) in models}
    predictions = predict_folds(feature_map, brought(folds), expanded)
    rows = Rows.stack([folds.in_memory.parts[k] for k in predictions])
    return LearnedWeights(
        coef=problems.expand(final.coef),
        intercept=final.intercept,
        norms=final.norms,
        gap=final.gap,
        chosen=chosen,
        trials=trials,
        path=None if final.path is None else _expanded(final.path, problems),
        variance_shares=_variance_shares(problems.centred(None), final.coef, groups),
        held_out=HeldOut(rows, np.concatenate(list(predictions.values()))),
        converged=final.converged,
        n_iter=final.n_iter,
        cut_short=chosen.refit is None and (chosen.l1_ratio, chosen.alpha) in search.cut_short,
    )


def refit_jointly(
    learned: LearnedWeights, folds: FoldedRows, feature_map: StackedMap, choices: WeightChoices
) -> LearnedWeights:
    """The kernels that are in as before, and ridge regression on the features of one kernel in their place."""
    plain = replace(choices, weights=np.ones(1), alpha=None, l1_ratios=(0.0,), refits=(None,))
    joint = learn_weights(folds, feature_map, plain)
    alpha, l1_ratio = learned.chosen.alpha, learned.chosen.l1_ratio

    def told(trial: Trial) -> Trial:
        return replace(trial, alpha=alpha, l1_ratio=l1_ratio, refit="joint", ridge=trial.alpha, n_in=learned.chosen.n_in)

    return replace(
        learned,
        coef=joint.coef,
        intercept=joint.intercept,
        chosen=told(joint.chosen),
        trials=learned.trials + [told(trial) for trial in joint.trials],
        held_out=joint.held_out,
        cut_short=False,
    )


def matrix_bytes(n_features: int, n_parts: int) -> float:
    """What the matrices of all pairs of features take, or of coordinates in their place."""
    return 8.0 * (4 * n_parts + MATRICES) * n_features**2


def n_paths(choices: WeightChoices) -> int:
    """How many paths of penalties a search follows, those of all folds together being one."""
    with_refits = any(choices.refits) and sum(ratio > 0 for ratio in choices.l1_ratios)
    return len(choices.l1_ratios) + int(with_refits) + 1


def _choose(trials: list[Trial], *, one_standard_error: bool) -> Trial:
    """The trial of fewest kernels among those whose error is next to the least, or within a standard error of it."""
    best = min(trials, key=lambda trial: trial.error)
    slack = best.standard_error if one_standard_error else NOT_WORTH * abs(best.error)  # which may be zero but for rounding
    close = [trial for trial in trials if trial.error <= best.error + slack]
    return min(close, key=lambda trial: (trial.n_in, trial.error))


@dataclass(frozen=True)
class Final:
    """The choice on all rows: as in LearnedWeights, with coefficients of a problem."""

    coef: Array
    intercept: Array
    norms: Array
    gap: Array
    path: GroupLassoPath | None
    converged: bool
    n_iter: int


@dataclass
class Search:
    """Ways to fit, compared on held-out rows."""

    folds: FoldedRows
    problems: FoldProblems
    groups: Groups
    choices: WeightChoices
    callback: Callable[[dict[str, Any]], None] | None = None
    cut_short: set[tuple[float, float]] = field(default_factory=set)
    """Shares and last penalties of paths that ended while the error still fell."""
    _refitted: set[bytes] = field(default_factory=set)
    """Sets of kernels that were fitted again."""
    _started: float = field(default_factory=time.perf_counter)
    _last_ridges: tuple[Any, list[Ridges | None]] = (None, [])
    """The last set of kernels that was fitted again, and its regressions: one for all targets, or one for each."""
    _tried: dict[float, Array] = field(default_factory=dict)
    """Penalties that were tried, by share."""
    _paths: dict[tuple[float, bytes], GroupLassoPath] = field(default_factory=dict)
    """Paths of all rows."""
    _told: int = 0
    """Paths that are done."""
    _least: float | None = None
    """The least held-out error so far."""
    _best_ridge: int | None = None
    """Which of RIDGE_ALPHAS was best last; None: not known yet."""

    def penalties(self, l1_ratio: float) -> ElasticGroups:
        """What a path penalises by."""
        return ElasticGroups(groups=self.groups, weights=self.choices.weights, l1_ratio=l1_ratio)

    @property
    def _averaged(self) -> bool:
        """Whether the plain sum of all kernels is tried with all of RIDGE_ALPHAS."""
        return 0.0 in self.choices.l1_ratios and self.choices.alpha is None

    def alphas(self, l1_ratio: float) -> Array:
        """The penalties to try, falling: (L,)."""
        if self.choices.alpha is not None:
            return np.array([self.choices.alpha])
        if l1_ratio == 0:
            return np.array(RIDGE_ALPHAS)
        return falling_alphas(self.problems.whole, self.penalties(l1_ratio), self.choices.n_alphas, self.choices.smallest)

    def trials(self) -> Iterator[Trial]:
        """Every share of the ridge, penalties as far down as errors fall, fitted again or not."""
        for l1_ratio in sorted(self.choices.l1_ratios):
            tried = list(self._unrefitted(l1_ratio))
            alphas = self._tried[l1_ratio] = np.array([trial.alpha for trial in tried])
            whole = self._path(l1_ratio, alphas) if any(self.choices.refits) and l1_ratio > 0 else None
            if None in self.choices.refits or whole is None or not whole.norms.any():
                yield from tried  # also where no kernel is in at any penalty
            if l1_ratio == 0 and self._averaged:
                self._best_ridge = min(range(len(tried)), key=lambda i: tried[i].error)
            for alpha, norms in [] if whole is None else zip(alphas[::-1], whole.norms[::-1], strict=True):
                yield from self._refits(float(alpha), l1_ratio, norms)

    def _unrefitted(self, l1_ratio: float) -> Iterator[Trial]:
        """Penalties from the largest down, until the error has not fallen for some of them, or falls no more at the end."""
        alphas, further = self.alphas(l1_ratio), self._further(l1_ratio)
        tried: list[Trial] = []
        for trial in self._walked(l1_ratio, alphas, len(alphas)):
            tried.append(trial)
            yield trial
        while len(tried) >= len(alphas) and _falls(tried):
            some = alphas[0] * further[len(tried) - len(alphas) :][:PATIENCE]
            if not len(some):
                self.cut_short |= {(l1_ratio, tried[-1].alpha)} if len(further) else set()
                break
            for trial in self._walked(l1_ratio, some, 0, [coef for coef, _ in tried[-1].models]):
                tried.append(trial)
                yield trial
        self._told += 1

    def _further(self, l1_ratio: float) -> Array:
        """Penalties below the smallest, as parts of the largest and spaced like the others."""
        n_alphas, smallest = self.choices.n_alphas, self.choices.smallest
        if self.choices.alpha is not None or l1_ratio == 0 or n_alphas == 1 or smallest == 1:
            return np.empty(0)
        lowest, factor = self.choices.lowest or smallest**2, smallest ** (1 / (n_alphas - 1))
        return smallest * factor ** np.arange(1, int(np.log(lowest / smallest) / np.log(factor) + 1e-6) + 1)

    def _walked(self, l1_ratio: float, alphas: Array, whole: int, starts: list[Array] | None = None) -> Iterator[Trial]:
        """These penalties, until the error has not fallen for some; they are those of a ``whole`` path, or zero: its end."""
        penalties = self.penalties(l1_ratio)
        walks = [
            self.problems.walk(k, penalties, alphas, start=None if starts is None else starts[i], **self._rough)
            for i, k in enumerate(self.folds.validated)
        ]
        errors: list[float] = []
        for pieces in zip(*walks, strict=True):
            for i, alpha in enumerate(pieces[0].alphas):
                models = [(piece.coef[i], piece.intercept[i]) for piece in pieces]
                n_in = float(np.mean([np.count_nonzero(piece.norms[i]) for piece in pieces]))
                trial = self._trial(float(alpha), l1_ratio, models, n_in)
                errors.append(trial.error)
                yield trial
            self._tell(len(errors) / whole if whole else 1.0)
            if len(errors) - 1 - int(np.argmin(errors)) >= PATIENCE:
                break

    def _path(self, l1_ratio: float, alphas: Array) -> GroupLassoPath:
        """The path of all rows to fit, as rough as the others."""
        key = l1_ratio, alphas.tobytes()
        if key in self._paths:
            return self._paths[key]
        self._paths[key] = join_pieces(list(self.problems.walk(None, self.penalties(l1_ratio), alphas, **self._rough)))
        self._told += 1
        self._tell(0.0)
        return self._paths[key]

    @property
    def _rough(self) -> dict[str, Any]:
        """Options of paths that are compared."""
        return {"tol": max(self.choices.tol, ROUGH), "max_iter": self.choices.max_iter}

    def _exact(self, chosen: Trial, start: Array | None) -> GroupLassoPath:
        """The chosen penalty on all rows, as exact as asked for."""
        options = {"tol": self.choices.tol, "max_iter": self.choices.max_iter}
        penalties = self.penalties(chosen.l1_ratio)
        return next(self.problems.walk(None, penalties, np.array([chosen.alpha]), start=start, **options))

    def _tell(self, part: float) -> None:
        """Tell the callback what is done: paths, and a part of the next."""
        if self.callback is not None:
            seconds = time.perf_counter() - self._started
            self.callback({"done": self._told + part, "error": self._least, "seconds": seconds})

    def tell_the_end(self) -> None:
        """Tell the callback that all paths are done."""
        self._told = n_paths(self.choices)
        self._tell(0.0)

    def _trial(
        self,
        alpha: float,
        l1_ratio: float,
        models: list[tuple[Array, Array]],
        n_in: float,
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
        for refit in self.choices.refits:
            if refit is None or (refit == "ridge" and norms.all() and self._averaged):
                continue

            def trial(ridge: float, refit: Refit = refit) -> Trial:
                models = [self._ridge(k, norms, refit, ridge) for k in self.folds.validated]
                return self._trial(alpha, l1_ratio, models, int(np.count_nonzero(norms)), refit, ridge)

            if self._best_ridge is None:
                tried = _downhill(trial, len(RIDGE_ALPHAS) // 2)
            else:
                least = np.inf if self._least is None else self._least
                tried = _downhill(trial, self._best_ridge, enough=HOPELESS * least)
            self._best_ridge = min(tried, key=lambda i: tried[i].error)
            yield from tried.values()

    def _ridge(self, without: int | None, norms: Array, refit: Refit, ridge: float) -> tuple[Array, Array]:
        """Ridge regression of each target on the kernels that are in for it, by their lengths (r, c) or (r, 1)."""
        key = refit, norms.tobytes()
        if key != self._last_ridges[0]:
            roots = np.sqrt(norms / np.maximum(norms.max(axis=0), np.finfo(np.float64).tiny))
            roots = roots if refit == "weighted" else (norms > 0).astype(np.float64)
            each, which = np.unique(roots, axis=1, return_inverse=True)
            ridges = [Ridges(self.problems, self.groups.spread(root)) if root.any() else None for root in each.T]
            self._last_ridges = key, [ridges[i] for i in which.ravel()]
        mean = self.problems.centred(without).target_mean
        ridges = self._last_ridges[1] * (len(mean) if norms.shape[1] == 1 else 1)
        fitted = {each: each.model(without, ridge) for each in set(ridges) if each is not None}
        coef, intercept = np.zeros((self.groups.n_columns, len(mean))), mean.copy()
        for target, one in enumerate(ridges):
            if one is not None:
                coef[:, target], intercept[target] = fitted[one][0][:, target], fitted[one][1][target]
        return coef, intercept

    def final(self, chosen: Trial) -> Final:
        """The choice on all rows, with the path that leads to it; none where it is a plain ridge regression."""
        if chosen.l1_ratio == 0:
            one = self._exact(chosen, None)
            return Final(
                one.coef[0], one.intercept[0], one.norms[0], one.gap[0], None, bool(one.converged.all()), one.n_iter
            )
        path = self._path(chosen.l1_ratio, self._tried[chosen.l1_ratio])
        i = path.alphas.tolist().index(chosen.alpha)
        one = self._exact(chosen, path.coef[i])
        pieces = [path.part(slice(0, i)), one, path.part(slice(i + 1, None))]
        path = replace(join_pieces([piece for piece in pieces if len(piece.alphas)]), n_iter=path.n_iter + one.n_iter)
        coef, intercept = one.coef[0], one.intercept[0]
        if chosen.refit is not None and chosen.ridge is not None:  # of the kernels of the exact solution, which are told
            coef, intercept = self._ridge(None, one.norms[0], chosen.refit, chosen.ridge)
        return Final(coef, intercept, one.norms[0], one.gap[0], path, bool(one.converged.all()), path.n_iter)


def _downhill(trial: Callable[[float], Trial], start: int, enough: float = np.inf) -> dict[int, Trial]:
    """Trials of RIDGE_ALPHAS, by their numbers: from ``start`` to either side, as long as the error falls.

    Only the first where its error is above ``enough``.
    """
    tried = {start: trial(RIDGE_ALPHAS[start])}
    if tried[start].error > enough:
        return tried
    for step in (1, -1):
        i = start
        while 0 <= i + step < len(RIDGE_ALPHAS):
            tried[i + step] = trial(RIDGE_ALPHAS[i + step])
            if tried[i + step].error >= tried[i].error:
                break
            i += step
    return tried


def _falls(tried: list[Trial]) -> bool:
    """Whether the error of the last trial is next to the least, and falls: it is clearly below that PATIENCE before it."""
    errors = [trial.error for trial in tried]
    before = errors[-1 - PATIENCE : -1]
    return bool(before) and errors[-1] <= (1 + NOT_WORTH) * min(errors) and errors[-1] < (1 - NOT_WORTH) * before[0]


def _expanded(path: GroupLassoPath, problems: FoldProblems) -> GroupLassoPath:
    """A path with coefficients of the features."""
    return replace(path, coef=problems.expand(path.coef.transpose(1, 0, 2)).transpose(1, 0, 2))


def _variance_shares(centred: CentredMoments, coef: Array, groups: Groups) -> Array:
    """cov(f_t, f) / var(f) of the predictions f = sum_t f_t over the rows: (r, c); zeros where f is constant."""
    covariances = np.add.reduceat(coef * (centred.gram() @ coef), groups.starts, axis=0)
    variance = covariances.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(variance > 0, covariances / variance, 0.0)
