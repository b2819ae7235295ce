"""Held-out error of kernel ridge regression with every row as a centre, by a factor of the whole kernel matrix.

With weights D of sum W, the function f(x) = sum_i a_i k(x, x_i) + b that minimises (1/W) sum_i w_i (f(x_i) - y_i)^2 +
alpha |f|^2 (the norm is that of the kernel, without b) solves

    [ K + S   1 ] [ a ]   [ y ]
    [ 1'      0 ] [ b ] = [ 0 ],      S = W alpha D^-1,

and its derivatives in log alpha solve the same system with -S a, and then with -S (a + 2 a'), on the right. One factor of
K + S, a third of n^3 operations, gives all of them, so that a few Newton steps find the best penalty. On a GPU this takes
less time than sums of products of ten thousand centres, as long as there is room for two matrices of all pairs of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from array_api_compat import device

from bochner.arrays import Array, double, fetch, fetch64, fetch_numbers, is_foreign, namespace
from bochner.criteria import Fit
from bochner.errors import InputError
from bochner.features import FeatureMap
from bochner.features.centres import CentreKernels
from bochner.folds import Folds, HeldOut, Rows
from bochner.kernels import Kernel
from bochner.solvers.normal_equations import Factor, factorise_fresh
from bochner.solvers.penalty_search import PENALTIES, PenaltySearch

KEPT_BYTES = 2**32
"""A kernel matrix no larger is kept from one penalty to the next."""
BLOCK_BYTES = 2**28
"""Size of a block of the kernel matrix, of which a few are there while one is made."""
START = float(np.log(1e-6))
"""Where the search for a penalty begins if nobody says so."""


@dataclass(frozen=True)
class FullEvaluation:
    """The criterion at one kernel and its best penalty."""

    value: float
    log_alpha: float
    predictions: Array
    """Those of the rows of the validated part: (n, c)."""
    dual: Array
    """The coefficients of the kernel at each row of the other parts: (k, c)."""
    gradient: None = None


class FullHeldOutError:
    """Mean squared error of held-out predictions by all other rows, as a function of the kernel of a map of centres.

    The first validated part is predicted from all the others. There is no gradient. The coefficients of a fit belong to the
    kernel at the rows themselves, in the order of the parts to fit. The penalty is searched until another step, which is
    another factorisation, promises to lower the error by less than the part ``precision`` of it.
    """

    def __init__(self, folds: Any, *, precision: float = 1e-3) -> None:
        if not isinstance(folds, Folds):
            raise InputError(
                "A kernel matrix of all rows needs them in memory at once, and these come in blocks: use HeldOutError, "
                "which makes its sums in one pass."
            )
        self.folds = folds
        self.precision = precision

    def evaluate(
        self,
        feature_map: FeatureMap,
        log_alpha: Any = None,
        *,
        gradient: bool = False,
        bounds: tuple[float, float] = PENALTIES,
    ) -> FullEvaluation:
        """The criterion of the map's kernel, its penalty chosen: by Newton steps from ``log_alpha`` in ``bounds``."""
        if gradient:
            raise InputError("FullHeldOutError has no gradient: use HeldOutError, or evaluate(..., gradient=False).")
        held = self.folds.validated[0]
        others = [part for k, part in enumerate(self.folds.parts) if k != held]
        search = FullPenalties(FullRidge(_kernel_of(feature_map), others), self.folds.parts[held])
        search.precision = self.precision
        best = search.best(START if log_alpha is None else float(np.mean(log_alpha)), bounds=bounds)
        return FullEvaluation(best.value, best.log_alpha, best.predictions, best.dual)

    def fitted(self, feature_map: FeatureMap, evaluation: FullEvaluation) -> tuple[CentreKernels, Array]:
        """What predicts the validated part: the kernel at each row of the other parts, and its coefficients."""
        rows = [part.X for k, part in enumerate(self.folds.parts) if k != self.folds.validated[0]]
        centres = namespace(rows[0]).concat([double(some) for some in rows], axis=0)
        return CentreKernels(_kernel_of(feature_map), centres), evaluation.dual

    def fit(self, feature_map: FeatureMap, evaluation: FullEvaluation) -> Fit:
        """The model of the rows to fit, with the penalty of an evaluation: coefficients of the kernel at each of them."""
        ridge = FullRidge(_kernel_of(feature_map), self.folds.to_fit)
        dual, intercept = ridge.solve(evaluation.log_alpha).coefficients
        return Fit(fetch(dual), fetch(intercept), at_centres=True)

    def held_out(self, feature_map: FeatureMap, evaluation: FullEvaluation) -> HeldOut:
        """Every row of the first validated part with its prediction by the model that has not seen it."""
        return HeldOut(self.folds.in_memory.parts[self.folds.validated[0]], evaluation.predictions)


def _kernel_of(feature_map: FeatureMap) -> Kernel:
    kernel: Kernel = feature_map.kernel
    return kernel


class FullRidge:
    """The regression of some rows on the kernel at each of them, for any penalty."""

    def __init__(self, kernel: Kernel, parts: Sequence[Rows]) -> None:
        xp = namespace(parts[0].X)
        self.kernel = kernel
        self.rows = kernel.embed(xp.concat([double(part.X) for part in parts], axis=0))
        self.targets = xp.concat([double(part.targets) for part in parts], axis=0)
        weights = xp.concat([double(part.weights) for part in parts], axis=0)
        self.weight = float(xp.sum(weights))
        least = np.finfo(np.float64).tiny ** 0.5 * self.weight  # rows without weight: any coefficient but zero is dear
        self.spread = self.weight / xp.clip(weights, min=least)

    def solve(self, log_alpha: float) -> FullSolution:
        """The regression of one penalty."""
        shift = float(np.exp(log_alpha)) * self.spread
        factor = factorise_fresh(lambda: self._shifted(shift), 0.0)
        return FullSolution(factor, self.targets, shift)

    def at(self, rows: Array) -> Array:
        """The kernel between other rows and these: (k, n)."""
        xp = namespace(rows)
        out = xp.empty((rows.shape[0], self.rows.shape[0]), dtype=self.rows.dtype, device=device(self.rows))
        self._fill(out, self.kernel.embed(double(rows)))
        return out

    def _shifted(self, shift: Array) -> Array:
        """The kernel matrix of the rows plus diag(shift), a fresh one."""
        n = self.rows.shape[0]
        matrix = namespace(self.rows).asarray(self._kept, copy=True) if 8 * n**2 <= KEPT_BYTES else self._matrix()
        if is_foreign(matrix):
            diagonal = namespace(matrix).linalg.diagonal(matrix)
            diagonal[...] = diagonal + shift
        else:
            matrix[np.diag_indices(n)] += shift
        return matrix

    def _matrix(self) -> Array:
        n = self.rows.shape[0]
        out = namespace(self.rows).empty((n, n), dtype=self.rows.dtype, device=device(self.rows))
        self._fill(out, self.rows)
        return out

    @cached_property
    def _kept(self) -> Array:
        return self._matrix()

    def _fill(self, out: Array, rows: Array) -> None:
        step = max(1, BLOCK_BYTES // (8 * out.shape[1]))
        for start in range(0, rows.shape[0], step):
            out[start : start + step, :] = self.kernel.between(rows[start : start + step, :], self.rows)


class FullSolution:
    """Coefficients (n, c) and intercept (c,) of one penalty, and their derivatives in its logarithm."""

    def __init__(self, factor: Factor, targets: Array, shift: Array) -> None:
        xp = namespace(targets)
        self._factor, self._shift = factor, shift[:, None]
        ones = xp.ones_like(targets[:, :1])
        solved = factor.solve(xp.concat([targets, ones], axis=1))
        self._ones = solved[:, -1:]
        self.coefficients = self._bordered(solved[:, :-1])

    def derivatives(self) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        """The first and the second ones, of coefficients and intercept."""
        dual, _ = self.coefficients
        first = self._bordered(self._factor.solve(-self._shift * dual))
        second = self._bordered(self._factor.solve(-self._shift * (dual + 2 * first[0])))
        return first, second

    def _bordered(self, solved: Array) -> tuple[Array, Array]:
        """The solution with coefficients that add up to zero, from Q^-1 times the right side."""
        xp = namespace(solved)
        intercept = xp.sum(solved, axis=0) / xp.sum(self._ones)
        return solved - self._ones * intercept, intercept


@dataclass(frozen=True)
class FullTrial:
    """The held-out error of one penalty with its derivatives in log alpha, predictions (n, c) and coefficients (k, c)."""

    value: float
    log_alpha: float
    slope: float
    curvature: float
    predictions: Array
    dual: Array


class FullPenalties(PenaltySearch):
    """Held-out error of some rows, as a function of the penalty alone."""

    def __init__(self, ridge: FullRidge, held: Rows) -> None:
        self.ridge = ridge
        self.between = ridge.at(held.X)
        weights = double(held.weights)[:, None]
        self.targets, self.shares = double(held.targets), weights / (namespace(weights).sum(weights) * held.targets.shape[1])

    def at(self, log_alpha: float) -> FullTrial:
        solution, xp = self.ridge.solve(log_alpha), namespace(self.between)
        first, second = solution.derivatives()
        (dual, intercept), (slopes, slope_0), (bends, bend_0) = solution.coefficients, first, second
        c = dual.shape[1]
        products = self.between @ xp.concat([dual, slopes, bends], axis=1)
        predictions, change = products[:, :c] + intercept, products[:, c : 2 * c] + slope_0
        residual, bend = predictions - self.targets, products[:, 2 * c :] + bend_0
        value = xp.sum(self.shares * residual**2)
        slope = 2 * xp.sum(self.shares * residual * change)
        curvature = 2 * xp.sum(self.shares * (change**2 + residual * bend))
        numbers = fetch_numbers([value, slope, curvature]).tolist()
        found = numbers if np.isfinite(numbers).all() else [np.inf, 0.0, 0.0]
        return FullTrial(found[0], log_alpha, found[1], found[2], fetch64(predictions), dual)
