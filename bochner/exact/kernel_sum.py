"""What estimators on a weighted sum of kernels share: their choices and data checked, kernel matrices, scores."""

from __future__ import annotations

import numbers
import reprlib
import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from bochner.arrays import Array, fetch64
from bochner.blas import same_bits
from bochner.errors import InputError, NotEnoughMemoryError
from bochner.estimators.parts import Part, needs_positive
from bochner.estimators.saving import Saved
from bochner.estimators.showing import Showing
from bochner.estimators.validation import check_flags, check_option, check_weights
from bochner.estimators.views import by_name, is_named, resolve
from bochner.exact.kernel_weights import KernelSum, Loss, WeightProblem, minimise
from bochner.kernels import Kernel
from bochner.kernels.bandwidth import median_scale
from bochner.memory import as_bytes, readable
from bochner.standardise import Standardiser

MATRICES = 4
"""Matrices of all pairs of rows that a fit holds beside those of the kernels: their sum, its factor, two on the way."""
MEDIAN_ROWS = 500
"""Rows whose distances make the median."""
ROUNDING = 1e-8
"""How far a kernel matrix may be from its transpose, as a part of its largest entry."""

LARGEST_COST = 1e140
"""Largest product of a cost and a target, of which squares are still numbers."""


class KernelSumMachine(Showing, Saved, BaseEstimator):
    """What the regressor and the classifier share: kernel matrices in, weights and machines on their sum out.

    Subclasses have the parameters kernels, loss, C, scale, standardize, tol, max_iter and max_memory.
    """

    kernel_weights_: Array

    kernels: Any
    loss: str
    C: float
    scale: str
    standardize: bool
    tol: float
    max_iter: int
    max_memory: Any

    # -- fitting ------------------------------------------------------------------------------------------------------

    def _check_choices(self, losses: tuple[str, ...]) -> None:
        """Errors that need no data."""
        check_option("loss", self.loss, losses)
        check_option("scale", self.scale, ("median", "given"))
        check_flags(self, "standardize")
        as_bytes(self.max_memory)  # which refuses what is no size
        for name in ("C", "tol"):
            value = getattr(self, name)
            if not (isinstance(value, numbers.Real) and 0 < float(value) < np.inf):
                raise InputError(f"{name} must be a positive number, got {value!r}.")
        if not (isinstance(self.max_iter, numbers.Integral) and self.max_iter >= 1):
            raise InputError(f"max_iter must be a whole number, one or more, got {self.max_iter!r}.")

    def _check_fit(self, X: Any, sample_weight: Any) -> tuple[list[Array], Array]:
        """The rows of each kernel (n, m_t), or the kernel matrices that are given, and the weights of rows (n,)."""
        if self._precomputed:
            self.kernel_names_, rows = given_grams(X, None)
            for name, gram in zip(self.kernel_names_, rows, strict=True):
                _refuse_unlike_gram(name, gram, len(rows[0]))
        else:
            self.views_, taken = resolve(self, X, self.kernels)
            self.kernel_names_ = list(self.views_.names)
            rows = [fetch64(part) for part in taken]
        return rows, check_weights(sample_weight, rows[0])

    @property
    def _precomputed(self) -> bool:
        return isinstance(self.kernels, str) and self.kernels == "precomputed"

    def _grams(self, rows: list[Array], weights: Array) -> Array:
        """Kernel matrices (r, n', n') of the rows of positive weight. The kernels are kept, in the units of the data."""
        used = np.flatnonzero(weights > 0)
        self._check_memory(len(rows), len(used))
        result = np.empty((len(rows), len(used), len(used)))
        if self._precomputed:
            self._n_fit = len(weights)
            for gram, given in zip(result, rows, strict=True):
                gram[...] = given[np.ix_(used, used)]
            return result
        self.kernels_ = [self._scaled(part, X[used], weights[used]) for part, X in zip(self.views_.parts, rows, strict=True)]
        self.X_fit_ = rows
        for gram, kernel, X in zip(result, self.kernels_, rows, strict=True):
            gram[...] = kernel.exact(X[used], X[used])
        return result

    def _scaled(self, part: Part, X: Array, weights: Array) -> Kernel:
        """The kernel of a part with its scale for the columns as they are: (n, m_t)."""
        kernel = part.kernel
        if part.given:
            return kernel
        spread = np.ones(X.shape[1])
        if self.standardize and kernel.lower == -np.inf:
            spread = Standardiser.of(X, weights / weights.max()).spread
        scale = 1.0
        if self.scale == "median" and kernel.has_bandwidth:
            distinct = np.unique(X / spread, axis=0)  # so that a row of weight two counts as much as two rows
            some = distinct[np.unique(np.linspace(0, len(distinct) - 1, MEDIAN_ROWS).astype(int))]
            scale = median_scale(kernel, some)
        return kernel.replace(scale=scale / spread if self.standardize else scale)

    def _check_memory(self, n_kernels: int, n_rows: int) -> None:
        needed = 8.0 * (n_kernels + MATRICES) * n_rows**2
        there = as_bytes(self.max_memory)
        if needed > there:
            most = int((there / (8 * (n_kernels + MATRICES))) ** 0.5)
            names = ", ".join(map(repr, self.kernel_names_[:3])) + (", ..." if n_kernels > 3 else "")
            raise NotEnoughMemoryError(
                f"{n_rows} rows and {n_kernels} kernels ({names}) need about {readable(needed)} for kernel matrices of all "
                f"pairs, and max_memory is {readable(there)}: fit at most {most} rows, leave out kernels, or "
                "raise max_memory."
            )

    def _costs(self, weights: Array, largest: float = 1.0) -> Array:
        """C times the weights of rows that have one; an error where objectives of targets up to ``largest`` overflow."""
        with np.errstate(over="ignore"):
            costs = float(self.C) * weights[weights > 0]
        if max(float(costs.max()), 1e-12) * max(largest, 1.0) > LARGEST_COST:
            raise InputError(
                f"C times sample_weight reaches {costs.max():.3g} and y {largest:.3g}, and objectives of them overflow: "
                "divide the weights, or y, by a constant."
            )
        return costs

    def _learn(self, grams: Array, losses: list[Loss], weights: Array) -> list[KernelSum]:
        """Weights of the kernels, and the machine on their sum, for each of some losses."""
        problems = [WeightProblem(grams, loss, self.kernel_names_) for loss in losses]
        found = [minimise(problem, tol=float(self.tol), max_iter=int(self.max_iter)) for problem in problems]
        self._weights = np.stack([each.coef for each in found], axis=1)
        self.dual_coef_ = np.zeros((len(weights), len(found)))
        self.dual_coef_[weights > 0] = np.stack([each.dual for each in found], axis=1)
        self.support_ = np.flatnonzero(self.dual_coef_.any(axis=1))
        self.intercept_ = np.array([each.intercept for each in found])
        self.n_iter_ = max(each.n_iter for each in found)
        self.converged_ = all(each.converged for each in found)
        return found

    def _warn_unless_converged(self, found: list[KernelSum]) -> None:
        """Say that the solver ended early; the model is whole by now."""
        if not self.converged_:
            worst = max(each.violation / each.value for each in found if each.value > 0)
            warnings.warn(
                f"The weights of the kernels have a duality gap of {worst:.2g} times the objective after {self.n_iter_} "
                f"steps, and tol is {self.tol:.2g}: raise max_iter or tol, or lower C.",
                ConvergenceWarning,
                stacklevel=4,
            )

    # -- scores -------------------------------------------------------------------------------------------------------

    @same_bits()
    def _scores(self, X: Any) -> Array:
        """sum_t d_t k_t(x, X_fit) a + b of new rows, for each machine: (n, c)."""
        check_is_fitted(self)
        if self._precomputed:
            _, grams = given_grams(X, self.kernel_names_)
            for name, gram in zip(self.kernel_names_, grams, strict=True):
                _refuse_other_shape(name, gram, (len(grams[0]), self._n_fit))
            products = [gram @ (self.dual_coef_ * d) for gram, d in zip(grams, self._weights, strict=True)]
            return np.sum(products, axis=0) + self.intercept_
        rows = [fetch64(part) for part in self.views_.take(self, X)]
        n_rows = rows[0].shape[0]
        n_blocks = int(np.ceil(8.0 * MATRICES * n_rows * max(len(self.support_), 1) / as_bytes(self.max_memory)))
        blocks = np.array_split(np.arange(n_rows), min(n_blocks, n_rows))
        return np.concatenate([self._block_scores([part[block] for part in rows]) for block in blocks])

    def _block_scores(self, rows: list[Array]) -> Array:
        result = np.tile(self.intercept_, (len(rows[0]), 1))
        for t in np.flatnonzero(self._weights.any(axis=1)):
            fitted = self.X_fit_[t][self.support_]
            result += self.kernels_[t].exact(rows[t], fitted) @ (self.dual_coef_[self.support_] * self._weights[t])
        return result

    def kernel_weights_by_name(self) -> dict[str, Any]:
        """The weight of each kernel by its name, largest first: a number, or one for each class."""
        check_is_fitted(self)
        return by_name(self.kernel_names_, self._weights)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = not self._precomputed and needs_positive(self.kernels)
        return tags


def given_grams(X: Any, names: list[str] | None) -> tuple[list[str], list[Array]]:
    """Names and float64 matrices of X: a dict or a list of matrices, or an array (r, n, n'). ``names`` are those of fit."""
    array = hasattr(X, "ndim")
    if not isinstance(X, list | tuple) and not is_named(X) and not (array and X.ndim == 3):
        what = f"an array of shape {tuple(X.shape)}" if array else type(X).__name__
        raise InputError(
            "With kernels='precomputed', X must be a list or a dict of kernel matrices, or an array (kernels, rows, rows), "
            f"got {what}; give [X] for one matrix."
        )
    if not len(X):
        raise InputError(
            "With kernels='precomputed', X must hold at least one kernel matrix, got none: give a list of them."
        )
    labels = [str(label) for label in X] if is_named(X) else names or [f"kernel{t}" for t in range(len(X))]
    if names is not None and (len(X) != len(names) or set(labels) != set(names)):
        raise InputError(
            f"X must hold a matrix for each kernel of fit, {names}, got {len(X)} for {labels[: len(X)]}: give these."
        )
    matrices = dict(zip(labels, X.values() if is_named(X) else X, strict=True))
    return names or labels, [_matrix(name, matrices[name]) for name in names or labels]


def _matrix(name: str, values: Any) -> Array:
    """One kernel matrix in float64; an error names the kernel."""
    try:
        matrix = fetch64(values) if hasattr(values, "ndim") else np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(
            f"Kernel {name!r}: its matrix must hold numbers, got {reprlib.repr(values)}: give an array of floats."
        ) from None
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise InputError(f"Kernel {name!r}: its matrix must have rows and columns, got shape {matrix.shape}: give a table.")
    if not np.isfinite(matrix).all():
        i, j = np.argwhere(~np.isfinite(matrix))[0]
        raise InputError(f"Kernel {name!r}: its matrix holds {matrix[i, j]} in row {i}, column {j}: give finite numbers.")
    return matrix


def _refuse_unlike_gram(name: str, gram: Array, n_rows: int) -> None:
    """An error where a matrix of fit is not square or not symmetric, or its diagonal is negative."""
    if gram.shape != (n_rows, n_rows):
        raise InputError(
            f"Kernel {name!r}: its matrix must be of all pairs of rows, ({n_rows}, {n_rows}), got shape "
            f"{gram.shape}: give kernel(X, X)."
        )
    largest = float(np.abs(gram).max())
    apart = float(np.abs(gram - gram.T).max())
    if apart > ROUNDING * largest:
        raise InputError(
            f"Kernel {name!r}: its matrix must be symmetric, and differs from its transpose by {apart:.3g}: "
            "give (K + K.T) / 2."
        )
    if np.diagonal(gram).min() < 0:
        raise InputError(
            f"Kernel {name!r}: its matrix has {np.diagonal(gram).min():.3g} on its diagonal, as no kernel has: "
            "check how it was made."
        )


def _refuse_other_shape(name: str, gram: Array, expected: tuple[int, int]) -> None:
    if gram.shape != expected:
        raise InputError(
            f"Kernel {name!r}: its matrix must have one row for each new row ({expected[0]}) and one column for each row of "
            f"fit ({expected[1]}), got shape {gram.shape}: give kernel(X_new, X)."
        )
