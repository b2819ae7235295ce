"""The search for weights of kernels: many ways to fit, each with its error on held-out rows, and the choice among them.

For every share of the ridge penalty:

1. a path of penalties on all rows but one part, for each part in turn, as far down as held-out errors fall;
2. the path of all rows over the same penalties, which says what kernels are in at each of them;
3. every set of kernels on it, fitted again by ridge regression, at penalties from where the last set had its best one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from bochner.arrays import Array
from bochner.fold_problems import FoldProblems, KernelRidges
from bochner.folds import FoldedRows
from bochner.solvers.group_path import ElasticGroups, GroupLassoPath, falling_alphas, join_pieces
from bochner.solvers.groups import Groups

RIDGE_ALPHAS = tuple(np.geomspace(1.0, 1e-9, 10).tolist())
"""Penalties tried where there is nothing but a ridge penalty."""
PATIENCE = 3
"""Penalties for which the held-out error may fail to fall before smaller ones are left out."""
HOPELESS = 1.1
"""A refit whose first error is this many times the least one so far is not tried with other penalties."""
NOT_WORTH = 0.01
"""Kernels that lower the held-out error by less than this part of it are left out."""
ROUGH = 1e-3
"""Duality gap, as a part of the objective, that is enough to compare errors on held-out rows."""

Refit = Literal["ridge", "weighted", "joint", "learned"]
"""Ridge regression of the kernels that are in: of their plain sum, of their sum weighted by d_t, of one kernel on all of
their columns, or of their sum with weights learned on held-out rows."""


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
    learned: bool = False
    """Whether the weights of the kernels of least error are then learned by the gradient of that error."""
    tol: float = 1e-6
    max_iter: int = 100
    n_coordinates: int | None = None
    """Most coordinates of each kernel in place of its features, where rows are few; None: one for each row."""

    @property
    def averages(self) -> bool:
        """Whether the plain sum of all kernels is tried with all of RIDGE_ALPHAS."""
        return 0.0 in self.l1_ratios and self.alpha is None

    def further(self, l1_ratio: float) -> Array:
        """Penalties below the smallest that a path may go on to, as parts of the largest and spaced like the others."""
        if self.alpha is not None or l1_ratio == 0 or self.n_alphas == 1 or self.smallest == 1:
            return np.empty(0)
        lowest, factor = self.lowest or self.smallest**2, self.smallest ** (1 / (self.n_alphas - 1))
        return self.smallest * factor ** np.arange(1, int(np.log(lowest / self.smallest) / np.log(factor) + 1e-6) + 1)

    @property
    def n_paths(self) -> int:
        """How many paths of penalties a search follows, those of all folds together being one."""
        with_refits = any(self.refits) and sum(ratio > 0 for ratio in self.l1_ratios)
        return len(self.l1_ratios) + int(with_refits) + 1


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
    def mean_coef(self) -> Array:
        """Mean over the parts of the coefficients: (D, c)."""
        return np.asarray(np.mean([coef for coef, _ in self.models], axis=0))

    @property
    def standard_error(self) -> float:
        """Of that mean."""
        return float(self.errors.std(ddof=1) / len(self.errors) ** 0.5) if len(self.errors) > 1 else 0.0


def choose(trials: Sequence[Trial], *, one_standard_error: bool) -> Trial:
    """The trial of fewest kernels among those whose error is next to the least, or within a standard error of it."""
    best = min(trials, key=lambda trial: trial.error)
    slack = best.standard_error if one_standard_error else NOT_WORTH * abs(best.error)  # which may be zero but for rounding
    close = [trial for trial in trials if trial.error <= best.error + slack]
    return min(close, key=lambda trial: (trial.n_in, trial.error))


@dataclass
class Progress:
    """How far a search is, for a callback that hears of it."""

    callback: Callable[[dict[str, Any]], None] | None
    paths_done: int = 0
    least: float | None = None
    """The least held-out error so far."""
    _started: float = field(default_factory=time.perf_counter)

    def see(self, trial: Trial) -> None:
        """Take down one more trial."""
        self.least = trial.error if self.least is None else min(self.least, trial.error)

    def tell(self, part: float = 0.0) -> None:
        """Tell the callback what is done: paths, and a part of the next."""
        if self.callback is not None:
            seconds = time.perf_counter() - self._started
            self.callback({"done": self.paths_done + part, "error": self.least, "seconds": seconds})


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


class Search:
    """Ways to fit, compared on held-out rows. The callback hears of every path of penalties."""

    def __init__(
        self,
        folds: FoldedRows,
        problems: FoldProblems,
        groups: Groups,
        choices: WeightChoices,
        callback: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        self.folds, self.problems, self.groups, self.choices = folds, problems, groups, choices
        self.cut_short: set[tuple[float, float]] = set()
        """Shares and last penalties of paths that ended while the error still fell."""
        self._progress = Progress(callback)
        self._tried: dict[float, list[Trial]] = {}
        """Every penalty that was tried, by share."""
        self._paths: dict[float, GroupLassoPath] = {}
        """Paths of all rows over these penalties, by share."""
        self._refitted: set[bytes] = set()
        """Sets of kernels that were fitted again."""
        self._best_ridge: int | None = None
        """Which of RIDGE_ALPHAS was best last; None: not known yet."""

    def trials(self) -> Iterator[Trial]:
        """Every share of the ridge, penalties as far down as errors fall, fitted again or not."""
        for l1_ratio in sorted(self.choices.l1_ratios):
            unrefitted = self._unrefitted(l1_ratio)
            self._tried[l1_ratio] = unrefitted
            path = self._path(l1_ratio) if any(self.choices.refits) and l1_ratio > 0 else None
            if None in self.choices.refits or path is None or not path.norms.any():
                yield from unrefitted  # also where no kernel is in at any penalty
            if l1_ratio == 0 and self.choices.averages:
                self._best_ridge = min(range(len(unrefitted)), key=lambda i: unrefitted[i].error)
            if path is not None:
                for alpha, norms in zip(path.alphas[::-1], path.norms[::-1], strict=True):
                    yield from self._refits(float(alpha), l1_ratio, norms)

    def final(self, chosen: Trial) -> Final:
        """The choice on all rows, with the path that leads to it; none where it is a plain ridge regression."""
        if chosen.l1_ratio == 0:
            path, one = None, self._exact(chosen, None)
        else:
            path = self._path(chosen.l1_ratio)
            i = path.alphas.tolist().index(chosen.alpha)
            one = self._exact(chosen, path.coef[i])
            path = path.replaced(i, one)
        coef, intercept = one.coef[0], one.intercept[0]
        if chosen.refit is not None and chosen.ridge is not None:  # of the kernels of the exact solution, which are told
            coef, intercept = self._ridges(one.norms[0], chosen.refit).model(None, chosen.ridge)
        n_iter = one.n_iter if path is None else path.n_iter
        self._progress.paths_done = self.choices.n_paths
        self._progress.tell()
        return Final(coef, intercept, one.norms[0], one.gap[0], path, bool(one.converged.all()), n_iter)

    # -- paths of penalties -------------------------------------------------------------------------------------------

    def _penalties(self, l1_ratio: float) -> ElasticGroups:
        return ElasticGroups(groups=self.groups, weights=self.choices.weights, l1_ratio=l1_ratio)

    def _alphas(self, l1_ratio: float) -> Array:
        """The penalties to try, falling: (L,)."""
        if self.choices.alpha is not None:
            return np.array([self.choices.alpha])
        if l1_ratio == 0:
            return np.array(RIDGE_ALPHAS)
        return falling_alphas(self.problems.whole, self._penalties(l1_ratio), self.choices.n_alphas, self.choices.smallest)

    def _unrefitted(self, l1_ratio: float) -> list[Trial]:
        """Penalties from the largest down, until the error has not fallen for some of them, or falls no more at the end."""
        alphas, further = self._alphas(l1_ratio), self.choices.further(l1_ratio)
        tried = list(self._walked(l1_ratio, alphas))
        while len(tried) >= len(alphas) and _falls(tried):
            some = alphas[0] * further[len(tried) - len(alphas) :][:PATIENCE]
            if not len(some):
                if len(further):
                    self.cut_short.add((l1_ratio, tried[-1].alpha))
                break
            tried += self._walked(l1_ratio, some, starts=[coef for coef, _ in tried[-1].models])
        self._progress.paths_done += 1
        return tried

    def _walked(self, l1_ratio: float, alphas: Array, starts: list[Array] | None = None) -> Iterator[Trial]:
        """These penalties, until the error has not fallen for some; ``starts`` are the ends of paths to go on with."""
        penalties = self._penalties(l1_ratio)
        walks = [
            self.problems.walk(k, penalties, alphas, start=None if starts is None else starts[i], **self._rough)
            for i, k in enumerate(self.folds.validated)
        ]
        errors: list[float] = []
        for pieces in zip(*walks, strict=True):
            parts = zip(self.folds.validated, pieces, strict=True)
            each = np.stack([self.problems.errors(k, piece.coef, piece.intercept) for k, piece in parts])
            for i, alpha in enumerate(pieces[0].alphas):
                models = [(piece.coef[i], piece.intercept[i]) for piece in pieces]
                n_in = float(np.mean([np.count_nonzero(piece.norms[i]) for piece in pieces]))
                trial = Trial(float(alpha), l1_ratio, None, None, each[:, i], models, n_in)
                self._progress.see(trial)
                errors.append(trial.error)
                yield trial
            self._progress.tell(len(errors) / len(alphas) if starts is None else 1.0)
            if len(errors) - 1 - int(np.argmin(errors)) >= PATIENCE:
                break

    def _path(self, l1_ratio: float) -> GroupLassoPath:
        """The path of all rows to fit over the penalties that were tried, as rough as the others, from where they end."""
        if l1_ratio not in self._paths:
            alphas = np.array([trial.alpha for trial in self._tried[l1_ratio]])
            start = np.stack([trial.mean_coef for trial in self._tried[l1_ratio]])
            pieces = self.problems.walk(None, self._penalties(l1_ratio), alphas, start=start, **self._rough)
            self._paths[l1_ratio] = join_pieces(list(pieces))
            self._progress.paths_done += 1
            self._progress.tell()
        return self._paths[l1_ratio]

    @property
    def _rough(self) -> dict[str, Any]:
        """Options of paths that are compared."""
        return {"tol": max(self.choices.tol, ROUGH), "max_iter": self.choices.max_iter}

    def _exact(self, chosen: Trial, start: Array | None) -> GroupLassoPath:
        """The chosen penalty on all rows, as exact as asked for."""
        options = {"tol": self.choices.tol, "max_iter": self.choices.max_iter}
        penalties = self._penalties(chosen.l1_ratio)
        return next(self.problems.walk(None, penalties, np.array([chosen.alpha]), start=start, **options))

    def refits(self, chosen: Trial, norms: Array) -> Iterator[Trial]:
        """Ridge regressions on kernels that were chosen before, on other features of them."""
        ridge = chosen.alpha if chosen.l1_ratio == 0 else chosen.ridge
        if ridge is not None:
            self._best_ridge = int(np.argmin(np.abs(np.log(np.array(RIDGE_ALPHAS) / ridge))))
        return self._refits(chosen.alpha, chosen.l1_ratio, norms)

    def refitted(self, chosen: Trial, norms: Array) -> tuple[Array, Array]:
        """One of these on all rows: coefficients (D', c) and intercept (c,)."""
        assert chosen.refit is not None
        assert chosen.ridge is not None
        return self._ridges(norms, chosen.refit).model(None, chosen.ridge)

    # -- refits -------------------------------------------------------------------------------------------------------

    def _refits(self, alpha: float, l1_ratio: float, norms: Array) -> Iterator[Trial]:
        """Ridge regressions on the kernels that are in; every set of kernels is tried once, at its smallest alpha."""
        key = (norms > 0).tobytes()
        if key in self._refitted or not norms.any():
            return
        self._refitted.add(key)
        for refit in self.choices.refits:
            if refit is not None and not (refit == "ridge" and norms.all() and self.choices.averages):
                yield from self._refits_of(alpha, l1_ratio, norms, refit)

    def _refits_of(self, alpha: float, l1_ratio: float, norms: Array, refit: Refit) -> list[Trial]:
        """Those of one kind; its matrices go before those of the next come."""
        ridges = self._ridges(norms, refit)

        def trial(ridge: float) -> Trial:
            models = [ridges.model(k, ridge) for k in self.folds.validated]
            errors = [self.problems.error(k, *model) for k, model in zip(self.folds.validated, models, strict=True)]
            found = Trial(alpha, l1_ratio, refit, ridge, np.array(errors), models, int(np.count_nonzero(norms)))
            self._progress.see(found)
            return found

        if l1_ratio == 0 and self.choices.alpha is not None:
            return [trial(alpha)]  # the penalty that was asked for
        if self._best_ridge is None:
            tried = _downhill(trial, len(RIDGE_ALPHAS) // 2)
        else:
            least = np.inf if self._progress.least is None else self._progress.least
            tried = _downhill(trial, self._best_ridge, enough=HOPELESS * least)
        self._best_ridge = min(tried, key=lambda i: tried[i].error)
        return list(tried.values())

    def _ridges(self, norms: Array, refit: Refit) -> KernelRidges:
        return KernelRidges(self.problems, self.groups, norms, weighted=refit == "weighted")


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
