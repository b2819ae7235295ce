"""``KernelRidgeGD``: kernel ridge regression on the full kernel matrix, with a kernel learned by gradient descent."""

from __future__ import annotations

import time
from typing import Any, Self

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin

from bochner.arrays import Array, dense
from bochner.criteria import Folds
from bochner.estimators.machine import KernelMachine
from bochner.estimators.regressors import check_targets
from bochner.estimators.validation import as_generator
from bochner.exact.criterion import ExactHeldOutError, ExactRidge
from bochner.kernels import Kernel
from bochner.kernels.bandwidth import median_scale
from bochner.kernels.ties import SharedScales
from bochner.penalties import SCALE_PENALTIES
from bochner.single_kernel import FARTHEST, HIGHEST_WHILE_LEARNING, SAMPLE_ROWS, START_FACTORS, family_name
from bochner.solvers.lbfgs import minimise

MATRICES = 6
"""Matrices of all pairs of rows that a fit holds at its peak: kernel, training part, factor, gradient, two of its own."""
SCOUT_ROWS = 1000
"""Rows on which the start and the family are chosen."""


class KernelRidgeGD(RegressorMixin, MultiOutputMixin, KernelMachine):
    """Kernel ridge regression whose kernel is learned by the gradient of held-out error, without approximation (KRR-GD).

    The exact counterpart of :class:`bochner.KernelRegressor`: the gradient method of Chapelle et al. (2002) with kernel
    ridge regression. Its cost is cubic in the number of rows, its memory quadratic.

    Parameters
    ----------
    max_iter : int, default=40
        Most steps.
    max_memory : float, default=8e9
        Bytes that the kernel matrices may take; a fit that needs more is refused.
    kernel, scale, ... : see KernelRegressor
        All other parameters are those of :class:`bochner.KernelRegressor`.

    Attributes
    ----------
    dual_coef_ : array of shape (n_rows, n_targets)
        Weights of the training rows.
    X_fit_ : array of shape (n_rows, n_columns)
        The training rows, standardised.
    kernel_, scale_, relevance_, alpha_, validation_error_, families_, history_, n_iter_, converged_
        As in :class:`bochner.KernelRegressor`.

    Examples
    --------
    >>> from bochner.exact import KernelRidgeGD
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KernelRidgeGD("gaussian", random_state=0).fit(X[:100], y[:100])
    >>> model.dual_coef_.shape
    (100, 1)
    """

    def __init__(
        self,
        kernel: str | Kernel = "auto",
        *,
        scale: Any = "per-column",
        criterion: str = "auto",
        validation: float | int | None = None,
        scale_penalty: str = "none",
        scale_penalty_strength: float = 1e-3,
        standardize: bool = True,
        max_iter: int = 40,
        max_memory: float = 8e9,
        tol: float = 1e-4,
        random_state: Any = None,
        callback: Any = None,
    ) -> None:
        self.kernel = kernel
        self.scale = scale
        self.criterion = criterion
        self.validation = validation
        self.scale_penalty = scale_penalty
        self.scale_penalty_strength = scale_penalty_strength
        self.standardize = standardize
        self.max_iter = max_iter
        self.max_memory = max_memory
        self.tol = tol
        self.random_state = random_state
        self.callback = callback

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from rows X (n, m) and targets y (n,) or (n, c), with weights (n,) if given."""
        X, weights, used = self._check_fit_rows(X, sample_weight)
        targets, self._one_target = check_targets(self, X, y)
        self._check_memory(int(used.sum()))
        if self.criterion == "loo":
            raise ValueError("criterion='loo' is not available for exact kernel matrices: use 'kfold' or 'holdout'.")
        rows = self._prepare(dense(X)[used], targets[used], weights[used])
        self._descend(self._starts(rows.X.shape[1]), self._folds(rows, as_generator(self.random_state)))
        return self

    def predict(self, X: Any) -> Array:
        """Predicted targets of the rows X (n, m): (n,) or (n, c) as in fit."""
        rows = dense(self._check_new_rows(X)).astype(np.float64)
        kernel = self.kernel_.replace(scale=self.kernel_.scale * self.standardiser_.spread)
        predictions = self._target_standardiser.undo(
            kernel.exact(self.standardiser_(rows), self.X_fit_) @ self.dual_coef_ + self._intercept
        )
        return predictions[:, 0] if self._one_target else predictions

    def _descend(self, families: tuple[Kernel, ...], folds: Folds) -> None:
        """Start every family on few rows, take the best one down the gradient on all, and solve for all rows."""
        self.history_: list[dict[str, Any]] = []
        self.families_ = {}
        scouted = []
        few = folds.head(SCOUT_ROWS)
        for family in families:
            kernel = self._start(family, few)
            kernel, value = self._minimise(kernel, few)
            self.families_[family_name(kernel)] = {"criterion": value, "n_rows": few.n}
            scouted.append((value, kernel))
        kernel = min(scouted, key=lambda pair: pair[0])[1]
        if folds.n > few.n:
            kernel, _ = self._minimise(kernel, folds)
        criterion = ExactHeldOutError(folds)
        evaluation = criterion.evaluate(kernel, gradient=False)
        self.alpha_ = float(np.exp(evaluation.log_alpha))
        self.validation_error_ = evaluation.value
        ridge = ExactRidge.of(evaluation.gram, criterion.rows, self.alpha_)
        self.X_fit_, self.dual_coef_, self._intercept = criterion.rows.X, ridge.dual, ridge.intercept
        self._keep_kernel(kernel, criterion.rows)

    def _start(self, family: Kernel, folds: Folds) -> Kernel:
        """The family at the multiple of the median scale with the least held-out error, one scale per column."""
        X = folds.parts[0].X
        if not (family.has_bandwidth and isinstance(self.kernel, str)):
            return family.replace(scale=family.scales(X.shape[1]))
        median = median_scale(family, X[:SAMPLE_ROWS])
        criterion = ExactHeldOutError(folds)
        trials = [family.replace(scale=np.full(X.shape[1], factor * median)) for factor in START_FACTORS]
        return min(trials, key=lambda kernel: criterion.evaluate(kernel, gradient=False).value)

    def _minimise(self, kernel: Kernel, folds: Folds) -> tuple[Kernel, float]:
        """The kernel after gradient descent on the held-out error of ``folds``, and that error."""
        ties = SharedScales(self._groups(folds.parts[0].X.shape[1]))
        penalty = SCALE_PENALTIES[self.scale_penalty](self.scale_penalty_strength)
        criterion = ExactHeldOutError(folds)
        started = time.perf_counter()
        log_alpha = None

        def value_and_gradient(free: Array) -> tuple[float, Array]:
            nonlocal log_alpha
            trial = kernel.with_theta(ties.expand(free))
            evaluation = criterion.evaluate(trial, log_alpha, highest=HIGHEST_WHILE_LEARNING)
            log_alpha = evaluation.log_alpha
            scales = np.asarray(trial.scale)
            parameters = dict(evaluation.gradient)
            parameters["scale"] = parameters["scale"] + penalty.gradient(scales)
            gradient = ties.reduce(trial.unconstrain(parameters))
            value = evaluation.value + penalty.value(scales)
            record = {
                "kernel": family_name(trial),
                "n_rows": folds.n,
                "criterion": value,
                "gradient_norm": float(np.linalg.norm(gradient)),
                "alpha": float(np.exp(log_alpha)),
                "seconds": time.perf_counter() - started,
            }
            self.history_.append(record)
            if self.callback is not None:
                self.callback(record)
            return value, gradient

        start = ties.project(kernel.theta)
        bounds = (start - FARTHEST, start + FARTHEST)
        result = minimise(value_and_gradient, start, bounds=bounds, max_iter=self.max_iter, tol=self.tol)
        self.n_iter_, self.converged_ = result.n_iter, result.converged
        return kernel.with_theta(ties.expand(result.coef)), result.value

    def _check_memory(self, n_rows: int) -> None:
        needed = 8.0 * MATRICES * n_rows**2
        if needed > self.max_memory:
            most = int((self.max_memory / (8 * MATRICES)) ** 0.5)
            raise ValueError(
                f"{n_rows} rows need about {needed / 1e9:.1f} GB for kernel matrices of all pairs, and max_memory is "
                f"{self.max_memory / 1e9:.1f} GB: fit at most {most} rows, raise max_memory, or use "
                "bochner.KernelRegressor, whose memory does not grow with the rows."
            )
