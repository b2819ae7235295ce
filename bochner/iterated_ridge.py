"""Held-out error of ridge regression on many centres, by conjugate gradients: no sums of products of features.

In the features phi(x) = L^-1 k(C, x), L L' = k(C, C), of M centres C, the regression of the rows X with weights D of sum W
minimises (1/W) sum_i w_i (phi_i . b + b0 - y_i)^2 + alpha |b|^2. With K = k(X, C), its mean row m = K' D 1 / W and centred
targets y_c, it is

    (G + W alpha I) b = L^-1 K' D y_c,      G v = L^-1 K' D (K a - 1 m'a),  a = L^-T v,      b0 = mean of y - m'L^-T b

and an iteration is two products with K, 4 n M operations for each target, and four triangular solves: against 2 n M^2
operations for G itself. The features of the centres themselves are the rows of L, and centres are like rows, so that
G + W alpha I is about W B, with B = (1/M) L' (I - 11'/M) L + alpha I: a Cholesky factor of B is the preconditioner (Rudi,
Carratino and Rosasco, 2017). M centres span the directions of least variance by chance alone, which B has too little of: a
penalty CAUTION times as large makes up for it, and saves a quarter of the iterations. Ten to fifty do. Penalties are tried
several at a time: K is read once for all of them, one factor serves for penalties that are not far from its own, and the
solutions of some are where others begin.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.linalg import blas

from bochner import tiled
from bochner.arrays import Array, double, dtype_of, fetch, fetch64, gpu_of, is_foreign, namespace, place, solve_rows
from bochner.blas import one_blas_thread, same_bits
from bochner.criteria import FEW_FEATURES, Fit
from bochner.engines.devices import free_room
from bochner.engines.kernel_products import KernelProducts, room_for_values
from bochner.errors import InputError
from bochner.features import CentreMap, FeatureMap
from bochner.folds import FoldedRows, Folds, HeldOut, Rows
from bochner.in_place import SecondFactor
from bochner.solvers.conjugate_gradient import conjugate_gradient
from bochner.solvers.normal_equations import Factor, factorise_fresh
from bochner.solvers.penalty_search import PENALTIES

START = float(np.log(1e-6))
"""Where the search for a penalty begins if nobody says so."""
DECADE = float(np.log(10))
"""Its steps."""
REACH = 1.5 * DECADE
"""How far (in logarithms) the lowest penalty may be from the one that a factor was made for."""
CAUTION = 10.0
"""The penalty of the preconditioner, in units of the lowest one that it is for."""
GAIN = 1e-3
"""Errors that differ by this part or less are equal to the search."""
SEARCH_SLACK = 10.0
"""Penalties that are only tried are solved for less exactly, by this factor."""
ROOM_FOR = 2.2
"""Matrices of the size of L that half of the room on a device must hold; else the preconditioner is put into that of L."""
SINGLE_NOISE = 1e-14
"""About ten times the variance of the rounding of kernel values near one to float32."""


@dataclass(frozen=True)
class IteratedEvaluation:
    """The criterion at one kernel and its best penalty."""

    value: float
    log_alpha: float
    models: dict[int, tuple[Array, Array]]
    """For the validated part, the coefficients (M, c) and intercept (c,) that predict it."""
    predictions: Array
    """Those of its rows: (n, c)."""
    tried: dict[float, float]
    """Held-out errors of all penalties that were tried, by their logarithms; those of the search are less exact."""
    n_iter: int
    """Iterations in all."""
    converged: bool
    """Whether the model is as exact as was asked for."""
    gradient: None = None


class IteratedHeldOutError:
    """Mean squared error of held-out predictions by many centres, as a function of a :class:`CentreMap`.

    The first validated part is predicted from all the others. ``penalty`` is a number that stays, or None: the best one for
    every map. ``tol`` is how far objectives (mean loss + penalty) may be above their minimum, in parts of it, and
    ``max_iter`` the most iterations that one solution may take. ``budget`` is the room for the kernel between rows and
    centres: bytes, text such as "4GB", or None for half of what is free where the rows are. It is kept in the precision of
    the rows where that fits, else rounded to float32 where that fits and the factor L bears it, and else made anew in every
    iteration. (Beside it there are two matrices of the size of L, or on a GPU without room for them L alone.) There
    is no gradient.

    Remembers the kernel values of the latest map until its model is fitted.
    """

    def __init__(
        self,
        folds: FoldedRows,
        *,
        penalty: float | None = None,
        tol: float = 3e-4,
        max_iter: int = 200,
        budget: Any = None,
    ) -> None:
        if not isinstance(folds, Folds):
            raise InputError(
                "Conjugate gradients go over the rows again and again, and these are not in memory at once: use "
                "HeldOutError, which makes its sums in one pass."
            )
        self.folds = folds
        self.penalty, self.tol, self.max_iter, self.budget = penalty, tol, max_iter, budget
        self._latest: tuple[FeatureMap, CentreRidge] | None = None

    def evaluate(
        self,
        feature_map: FeatureMap,
        log_alpha: Any = None,
        *,
        gradient: bool = False,
        bounds: tuple[float, float] = PENALTIES,
    ) -> IteratedEvaluation:
        """The criterion of a map, its penalty chosen: downhill from ``log_alpha`` in ``bounds``."""
        if gradient:
            raise InputError("IteratedHeldOutError has no gradient: use HeldOutError, or evaluate(..., gradient=False).")
        start = START if log_alpha is None else float(np.mean(log_alpha))
        start = float(np.clip(start, *np.log(bounds))) if self.penalty is None else float(np.log(self.penalty))
        with same_bits():
            ridge = self._ridge(feature_map, start)
            held = self.folds.validated[0]
            search = PenaltyTrials(ridge, [k for k in range(self.folds.n_parts) if k != held], held)
            low, high = np.log(bounds)
            best = start if self.penalty is not None else search.downhill(start, max(low, ridge.lowest(start)), high)
            trial = search.exactly(best)
        tried = {each: search.trials[each].value for each in sorted(search.trials)}
        models = {held: (fetch(trial.coef), fetch(trial.intercept))}
        return IteratedEvaluation(trial.value, best, models, fetch(trial.predictions), tried, search.n_iter, trial.converged)

    def fit(self, feature_map: FeatureMap, evaluation: IteratedEvaluation) -> Fit:
        """The model of the rows to fit, with the penalty of an evaluation, from whose coefficients it starts."""
        folds = self.folds
        fitted = [k for k in range(folds.n_parts) if folds.fitted is None or k in folds.fitted]
        ((start, _),) = evaluation.models.values()
        with same_bits():
            ridge = self._ridge(feature_map, evaluation.log_alpha)
            start = place(start, like=ridge.factor)
            solution = ridge.system(fitted).solve([evaluation.log_alpha], start, self.tol)
        self._latest = None
        return Fit(fetch(solution.coef), fetch(solution.intercept), solution.converged and evaluation.converged)

    def fitted(self, feature_map: FeatureMap, evaluation: IteratedEvaluation) -> tuple[FeatureMap, Array]:
        """The map and coefficients on it that predict the first validated part."""
        return feature_map, evaluation.models[self.folds.validated[0]][0]

    def held_out(self, feature_map: FeatureMap, evaluation: IteratedEvaluation) -> HeldOut:
        """Every row of the first validated part with its prediction by the model that has not seen it."""
        ((held, _),) = evaluation.models.items()
        return HeldOut(self.folds.in_memory.parts[held], evaluation.predictions)

    def _ridge(self, feature_map: FeatureMap, log_alpha: float) -> CentreRidge:
        """The kernel values and factors of a map: those of the latest one, if that is it."""
        if not isinstance(feature_map, CentreMap):
            raise InputError(
                f"IteratedHeldOutError is for centres of the kernel, CentreMap, and got {type(feature_map).__name__}: use "
                "HeldOutError."
            )
        if self._latest is None or self._latest[0] is not feature_map:
            self._latest = None  # before others are made
            made = CentreRidge(feature_map, self.folds, log_alpha, self.budget, self.max_iter, self.tol)
            self._latest = feature_map, made
        return self._latest[1]


class CentreRidge:
    """Ridge regressions of some parts of the rows on the features of one map: kernel values, L, and the preconditioner."""

    def __init__(
        self, feature_map: CentreMap, folds: Folds, log_alpha: float, budget: Any, max_iter: int, tol: float
    ) -> None:
        placed = feature_map.place(folds.parts[0].X)
        self.folds, self.tol, self.max_iter = folds, tol, max_iter
        self._threads = few_threads(feature_map.n_features)
        with self._threads():
            self.factor = placed.factor
        self._single_limit = _single_limit(self.factor)
        self.kept = self._precision(dtype_of(folds.parts[0].X), log_alpha, budget)
        self.products = KernelProducts(placed.kernels, [part.X for part in folds.parts], self.kept)
        with self._threads():
            factors = factors_of(self.factor)
        self.precondition = Preconditioner(factors, feature_map.n_features)

    def lowest(self, log_alpha: float) -> float:
        """The logarithm of the lowest penalty that the precision of the kernel values allows; none for rows' own."""
        return -np.inf if self.kept is None or self.kept == self._own else min(log_alpha, self._single_limit)

    def system(self, parts: Sequence[int]) -> CentreSystem:
        """The regression of the rows of some parts."""
        return CentreSystem(self, parts)

    def dual(self, coef: Array) -> Array:
        """L^-T coef: (M, k)."""
        with self._threads():
            return solve_rows(coef.T, self.factor, back=True).T

    def whiten(self, values: Array) -> Array:
        """L^-1 values: (M, k)."""
        with self._threads():
            return solve_rows(values.T, self.factor).T

    def _precision(self, own: np.dtype[Any], log_alpha: float, budget: Any) -> np.dtype[Any] | None:
        """What K is kept in; None: not at all."""
        self._own = own
        room = room_for_values(self.folds.parts[0].X, budget)
        numbers = self.folds.n * self.factor.shape[0]
        if numbers * own.itemsize <= room:
            return own
        single = np.dtype(np.float32)
        return single if numbers * single.itemsize <= room and self._single_limit <= log_alpha - 2 * DECADE else None


def _single_limit(factor: Array) -> float:
    """Where rounding K to float32 adds a variance of alpha / 10 to the features of the smallest pivot of L."""
    xp = namespace(factor)
    scale = float(xp.sum(factor**2)) / factor.shape[0]
    pivot = float(xp.min(xp.linalg.diagonal(factor))) ** 2
    return float(np.log(SINGLE_NOISE * scale**2 / pivot))


class Factors(Protocol):
    """Cholesky factors of B = (1/M) L' (I - 11'/M) L + alpha I."""

    def at(self, alpha: float) -> Any:
        """The one of a penalty, to solve with; it may use up those before."""


class OwnMatrix:
    """Factors in a matrix of their own, where B is made anew for each."""

    def __init__(self, factor: Array) -> None:
        self._factor = factor

    def at(self, alpha: float) -> Factor:
        return factorise_fresh(lambda: _second_moments(self._factor), alpha)


class SameMatrix:
    """Factors in the half of its matrix that L leaves, on a device that has no room for others."""

    def __init__(self, factor: Array) -> None:
        self._factor = SecondFactor(factor)

    def at(self, alpha: float) -> SecondFactor:
        while self._factor.make(alpha):  # rounding has made B indefinite
            if not np.isfinite(self._factor.scale):
                raise InputError(
                    "The kernel between the centres is not finite: standardise the columns, or look for huge values."
                )
            alpha = max(10 * alpha, 50 * float(np.finfo(np.float64).eps) * self._factor.scale)
        return self._factor


def factors_of(factor: Array) -> Factors:
    """In a matrix of their own where there is room for it."""
    gpu = gpu_of(factor)
    beside = gpu is None or ROOM_FOR * 8 * len(factor) ** 2 <= free_room(gpu)
    return OwnMatrix(factor) if beside else SameMatrix(factor)


class Preconditioner:
    """(1/W) B^-1 at CAUTION times the lowest penalty, which takes most iterations: made anew where that moves far."""

    def __init__(self, factors: Factors, size: int) -> None:
        self._threads = few_threads(size)
        self._factors = factors
        self._at = np.inf
        self._factor: Any = None

    def near(self, logs: Sequence[float], weight: float) -> Callable[[Array], Array]:
        """What multiplies residuals (M, k) for penalties of these logarithms, and rows of a sum W of weights."""
        lowest = min(logs)
        if self._factor is None or abs(lowest - self._at) > REACH:
            self._factor, self._at = None, lowest
            with self._threads():
                self._factor = self._factors.at(CAUTION * float(np.exp(lowest)))
        factor = self._factor

        def multiply(residual: Array) -> Array:
            with self._threads():
                return factor.solve(residual) / weight

        return multiply


def few_threads(n_centres: int) -> Callable[[], AbstractContextManager[None]]:
    """Contexts with one thread of BLAS for matrices of few centres, and with those that are allowed for others."""
    return one_blas_thread if n_centres <= FEW_FEATURES else nullcontext


def _second_moments(factor: Array) -> Array:
    """(1/M) L' (I - 11'/M) L, (M, M): of NumPy's, the lower triangle."""
    size = factor.shape[0]
    mean = namespace(factor).sum(factor, axis=0) / size
    if is_foreign(factor):
        return factor.T @ factor / size - mean[:, None] * mean
    product = tiled.squares_of_triangle(factor)
    product *= 1 / size
    return blas.dsyr(-1.0, mean, lower=1, a=product, overwrite_a=1)


@dataclass(frozen=True)
class CentreSolution:
    """Coefficients (M, J c) and intercepts (J c,) for J penalties, and whether they are as exact as was asked for."""

    coef: Array
    intercept: Array
    converged: bool
    n_iter: int


class CentreSystem:
    """The normal equations of one set of rows, for any penalty."""

    def __init__(self, ridge: CentreRidge, parts: Sequence[int]) -> None:
        rows = [ridge.folds.parts[k] for k in parts]
        xp = namespace(ridge.factor)
        targets = xp.concat([double(part.targets) for part in rows], axis=0)
        self.ridge, self.parts = ridge, list(parts)
        self.weights = xp.concat([double(part.weights) for part in rows], axis=0)[:, None]
        self.weight = float(xp.sum(self.weights))
        self.target_mean = xp.sum(self.weights * targets, axis=0) / self.weight
        centred = targets - self.target_mean
        weighted = self.weights * centred
        self.squares = xp.sum(weighted * centred, axis=0)
        sums = ridge.products.back(self.parts, xp.concat([weighted, self.weights / self.weight], axis=1))
        self.right, self.mean = ridge.whiten(sums[:, :-1]), sums[:, -1]

    def times(self, vectors: Array) -> Array:
        """G v: (M, k)."""
        dual = self.ridge.dual(vectors)
        centre = self.mean @ dual
        sums = self.ridge.products.there_and_back(self.parts, dual, lambda s, w: w * (s - centre), self.weights)
        return self.ridge.whiten(sums)

    def start(self, known: Sequence[Array], logs: Sequence[float]) -> Array:
        """For each penalty the coefficients of the least objective that some known ones (M, c) add up to: (M, J c)."""
        xp, c, n_known = namespace(self.right), self.right.shape[1], len(known)
        products = self.times(xp.concat(list(known), axis=1))
        columns: list[list[Array]] = [[] for _ in logs]
        for j in range(c):
            basis = xp.stack([coef[:, j] for coef in known], axis=1)
            squares = fetch64(basis.T @ products[:, [k * c + j for k in range(n_known)]])
            right, lengths = fetch64(basis.T @ self.right[:, j]), fetch64(basis.T @ basis)
            for column, log_alpha in zip(columns, logs, strict=True):
                matrix = squares + self.weight * np.exp(log_alpha) * lengths
                sound = np.isfinite(matrix).all() and np.isfinite(right).all()
                shares = np.linalg.lstsq(matrix, right)[0] if sound else np.zeros(n_known)
                column.append(basis @ place(shares, like=basis))
        return xp.stack([each for column in columns for each in column], axis=1)

    def solve(self, logs: Sequence[float], start: Array | None, tol: float) -> CentreSolution:
        """The regressions of penalties of these logarithms, side by side; ``start`` (M, J c) are coefficients."""
        xp, c = namespace(self.right), self.right.shape[1]
        result = conjugate_gradient(
            self.times,
            xp.concat([self.right] * len(logs), axis=1),
            precondition=self.ridge.precondition.near(logs, self.weight),
            shifts=self.weight * np.repeat(np.exp(logs), c),
            start=start,
            squares=xp.concat([self.squares] * len(logs)),
            tol=(tol / CAUTION) ** 0.5,  # what is left of the residual may weigh so much more with the penalty itself
            max_iter=self.ridge.max_iter,
        )
        target_means = xp.concat([self.target_mean] * len(logs))
        intercept = target_means - self.mean @ self.ridge.dual(result.coef)
        return CentreSolution(result.coef, intercept, result.converged, result.n_iter)


@dataclass(frozen=True)
class Trial:
    """The held-out error of one penalty, the model, and its predictions (n, c)."""

    value: float
    coef: Array
    intercept: Array
    predictions: Array
    converged: bool


class PenaltyTrials:
    """Held-out errors of penalties, each with a start from those that are known."""

    def __init__(self, ridge: CentreRidge, training: Sequence[int], held: int) -> None:
        self.ridge, self.held = ridge, held
        self.system = ridge.system(training)
        self.trials: dict[float, Trial] = {}
        self.n_iter = 0

    def downhill(self, start: float, low: float, high: float) -> float:
        """The logarithm of the best penalty: decades downhill from ``start``, half of one, and a parabola at the end.

        Of penalties whose errors are equal to within GAIN the largest counts as the best, which is the easiest to solve.
        """
        self._try([start, start + DECADE], low, high)
        if self._best(GAIN) == max(self.trials):
            self._try([min(self.trials) - DECADE], low, high)
        while True:
            before, best = len(self.trials), self._best(GAIN)
            if best == max(self.trials):
                self._try([best + DECADE, best + 2 * DECADE], low, high)
            elif best == min(self.trials):
                self._try([best - DECADE], low, high)  # one at a time: the lower, the more iterations
            if len(self.trials) == before:
                break
        above = self._vertex() > best or best == low
        self._try([best + DECADE / 2 if above else best - DECADE / 2], low, high)
        return self._vertex()

    def exactly(self, log_alpha: float) -> Trial:
        """The model of one penalty as exact as was asked for."""
        (trial,) = self._solved([log_alpha], self.ridge.tol)
        self.trials[log_alpha] = trial
        return trial

    def _best(self, gain: float = 0.0) -> float:
        """The largest of the penalties whose errors are the least, to within a part of it."""
        least = min(trial.value for trial in self.trials.values())
        return max(each for each, trial in self.trials.items() if trial.value <= (1 + gain) * least)

    def _vertex(self) -> float:
        """The lowest point of the parabola through the best penalty and its neighbours, or the best one at an end."""
        known, best = sorted(self.trials), self._best()
        i = known.index(best)
        if i in (0, len(known) - 1):
            return best
        (a, b, c), (fa, fb, fc) = known[i - 1 : i + 2], (self.trials[each].value for each in known[i - 1 : i + 2])
        left, right = (fa - fb) / (b - a), (fc - fb) / (c - b)
        if not (np.isfinite(left + right) and left + right > 0):
            return best
        return float(np.clip(b + 0.5 * (left * (c - b) - right * (b - a)) / (left + right), a, c))

    def _try(self, logs: Sequence[float], low: float, high: float) -> None:
        """Those of the penalties that are new, in bounds."""
        new = sorted({float(np.clip(each, low, high)) for each in logs} - set(self.trials))
        if new:
            self.trials.update(zip(new, self._solved(new, SEARCH_SLACK * self.ridge.tol), strict=True))

    def _solved(self, logs: Sequence[float], tol: float) -> list[Trial]:
        c = self.system.right.shape[1]
        start = self.system.start([trial.coef for trial in self.trials.values()], logs) if self.trials else None
        solution = self.system.solve(logs, start, tol)
        self.n_iter += solution.n_iter
        scores = self.ridge.products.there([self.held], self.ridge.dual(solution.coef)) + solution.intercept
        trials = []
        for some in (slice(j * c, (j + 1) * c) for j in range(len(logs))):
            model = solution.coef[:, some], solution.intercept[some], scores[:, some]
            trials.append(Trial(self._error(scores[:, some]), *model, solution.converged))
        return trials

    def _error(self, predictions: Array) -> float:
        part: Rows = self.ridge.folds.parts[self.held]
        weights, targets = fetch64(part.weights)[:, None], fetch64(part.targets)
        error = np.sum(weights * (fetch64(predictions) - targets) ** 2) / (weights.sum() * targets.shape[1])
        return float(error) if np.isfinite(error) else np.inf
