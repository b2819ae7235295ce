"""``KernelRidgeGD``: kernel ridge regression on the full kernel matrix, with a kernel learned by gradient descent."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin

from bochner.arrays import Array, dense
from bochner.blas import same_bits
from bochner.descent import Candidate, Level, Point, choose_ties, descend
from bochner.errors import InputError, NotEnoughMemoryError
from bochner.estimators.learner import KernelLearner
from bochner.estimators.regressors import check_targets, targets_like_fit
from bochner.estimators.validation import all_or_nothing, as_generator
from bochner.exact.criterion import ExactHeldOutError, ExactRidge
from bochner.folds import Folds, Rows
from bochner.kernels import Kernel
from bochner.memory import as_bytes, readable

MATRICES = 6
"""Matrices of all pairs of rows that a fit holds at its peak: kernel, training part, factor, gradient, two of its own."""
SAMPLE_ROWS, SCOUT_ROWS = 128, 500
FAMILY_ROWS = 1000
"""Rows on which the family is chosen."""


class KernelRidgeGD(RegressorMixin, MultiOutputMixin, KernelLearner):
    """Kernel ridge regression whose kernel is learned by the gradient of held-out error, without approximation (KRR-GD).

    The exact counterpart of :class:`bochner.KernelRegressor`: the gradient method of Chapelle et al. (2002) with kernel
    ridge regression. Its cost is cubic in the number of rows, its memory quadratic.

    Parameters
    ----------
    kernel, scale, alpha, criterion, validation, scale_penalty, scale_penalty_strength, standardize, warm_start, tol, \
    random_state, verbose, callback
        As in :class:`bochner.KernelRegressor`. There is no criterion="loo" and no alpha="per-target". The same random_state
        cuts the same folds there and here.
    max_iter : int, default=40
        Most steps of each start at each of two sizes: 1000 rows, which are skipped up to 2000 rows, and all rows.
    max_memory : float, str or None, default=None
        Bytes that the kernel matrices may take, as a number or text such as "2GB"; None: half of what is free. A fit that
        needs more is refused.

    Attributes
    ----------
    dual_coef_ : array of shape (n_rows, n_targets)
        Weights of the training rows, for standardised targets.
    X_fit_ : array of shape (n_rows, n_columns)
        The training rows, standardised, in the order of the folds.
    kernel_, scale_, relevance_, alpha_, validation_error_, families_, history_, n_iter_, converged_
        As in :class:`bochner.KernelRegressor`; records of ``history_`` have n_rows only.

    Notes
    -----
    Rows of any precision are learned from in float64. There is no ``partial_fit`` and no ``return_std``.

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
        kernel: str | Kernel | Sequence[str | Kernel] = "auto",
        *,
        scale: Any = "auto",
        alpha: float | None = None,
        criterion: str = "auto",
        validation: Any = None,
        scale_penalty: str = "none",
        scale_penalty_strength: float = 1e-3,
        standardize: bool = True,
        max_iter: int = 40,
        max_memory: float | str | None = None,
        warm_start: bool = False,
        tol: float | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callback: Any = None,
    ) -> None:
        self.kernel = kernel
        self.scale = scale
        self.alpha = alpha
        self.criterion = criterion
        self.validation = validation
        self.scale_penalty = scale_penalty
        self.scale_penalty_strength = scale_penalty_strength
        self.standardize = standardize
        self.max_iter = max_iter
        self.max_memory = max_memory
        self.warm_start = warm_start
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from rows X (n, m) and targets y (n,) or (n, c), with weights (n,) if given."""
        X, weights = self._check_fit_rows(X, sample_weight)
        targets, self._one_target = check_targets(self, X, y)
        self._check_choices()
        self._check_memory(int((weights > 0).sum()))
        if self.alpha == "per-target":
            raise InputError("alpha='per-target' is not available for exact kernel matrices: fit each target by itself.")
        if self.criterion == "loo":
            raise InputError("criterion='loo' is not available for exact kernel matrices: use 'kfold' or 'holdout'.")
        before = self._earlier_kernel()
        rng = as_generator(self.random_state)
        rows = self._prepare(dense(X), targets, weights)
        folds = self._folds(rows, rng, X, y, weights > 0)
        self._check_memory(folds.n)  # with the rows of a validation set
        plan = self._plan(folds.n, X.shape[1], before)
        other_ties = self._other_ties(folds, plan)
        if other_ties is not None:
            rows_to_try = Rows.stack(folds.head(FAMILY_ROWS).to_fit)
            chosen = choose_ties((plan.ties, other_ties), rows_to_try, plan, lambda some: ExactSpace(some, self._penalty))
            plan = replace(plan, ties=chosen)
        with self._watching(plan) as callback:
            descent = descend(ExactSpace(folds, self._penalty), replace(plan, callback=callback))
        self._keep_descent(descent)
        self._finish(descent.best, folds)
        self._keep_relevance(rows, rng)
        self._warn_if_interrupted(descent)
        return self

    @same_bits()
    def predict(self, X: Any) -> Array:
        """Predicted targets of the rows X (n, m): (n,) or (n, c) as in fit."""
        rows = self._standardised(dense(self._check_new_rows(X)))
        predictions = self._target_standardiser.undo(self._outputs_of(rows) + self._intercept)
        return predictions[:, 0] if self._one_target else predictions

    def _outputs_of(self, rows: Array) -> Array:
        kernel = self.kernel_.replace(scale=self.kernel_.scale * self.standardiser_.spread)
        n_blocks = int(np.ceil(8 * MATRICES * len(rows) * len(self.X_fit_) / as_bytes(self.max_memory)))
        blocks = np.array_split(rows, min(n_blocks, len(rows)))
        return np.concatenate([kernel.exact(block, self.X_fit_) @ self.dual_coef_ for block in blocks])

    @property
    def _penalty(self) -> float | None:
        """The penalty that is given, if any."""
        return None if self.alpha is None else float(self.alpha)

    def _levels(self, n_rows: int, n_columns: int) -> tuple[Level, ...]:
        few = (Level(0, FAMILY_ROWS, self.max_iter),) if n_rows > 2 * FAMILY_ROWS else ()
        return (*few, Level(0, n_rows, self.max_iter))

    def _finish(self, best: Candidate, folds: Folds) -> None:
        """The regression of the rows to fit, with the best penalty of the learned kernel."""
        criterion = ExactHeldOutError(folds, penalty=self._penalty)
        bounds = best.final_bounds(ExactObjective(criterion))
        evaluation = criterion.evaluate(best.kernel, best.log_alpha, gradient=False, bounds=bounds)
        rows = Rows.stack(folds.to_fit)
        gram = evaluation.gram if folds.fitted is None else best.kernel.exact(rows.X, rows.X)
        self.alpha_ = float(np.exp(evaluation.log_alpha))
        self.validation_error_ = evaluation.value
        ridge = ExactRidge.of(gram, rows, self.alpha_)
        self.X_fit_, self.dual_coef_, self._intercept = rows.X, ridge.dual, ridge.intercept
        self._keep_kernel(best.kernel)

    def _standardised(self, X: Array) -> Array:
        return self.standardiser_(X.astype(np.float64, copy=False))

    def _targets_of(self, X: Array, y: Any) -> Array:
        return targets_like_fit(self, X, y)

    def _check_choices(self) -> None:
        super()._check_choices()
        if not (isinstance(self.max_iter, numbers.Integral) and self.max_iter >= 0):
            raise InputError(f"max_iter must be a whole number, zero or more, got {self.max_iter!r}.")
        as_bytes(self.max_memory)  # which refuses what is no size

    def _check_memory(self, n_rows: int) -> None:
        needed = 8.0 * MATRICES * n_rows**2
        there = as_bytes(self.max_memory)
        if needed > there:
            most = int((there / (8 * MATRICES)) ** 0.5)
            raise NotEnoughMemoryError(
                f"{n_rows} rows need about {readable(needed)} for kernel matrices of all pairs, and max_memory is "
                f"{readable(there)}: fit at most {most} rows, raise max_memory, or use "
                "bochner.KernelRegressor, whose memory does not grow with the rows."
            )


class ExactSpace:
    """Kernels tried on the matrix of all pairs of rows: a size is a number of rows."""

    def __init__(self, folds: Folds, penalty: float | None) -> None:
        self.folds = folds
        self.penalty = penalty
        self.n_columns = folds.parts[0].X.shape[1]
        self.smallest_value = min(float(part.X.min()) for part in folds.parts)

    def sample(self) -> Array:
        return Rows.stack(list(self.folds.head(SAMPLE_ROWS).parts)).X

    def objective(self, kernel: Kernel, level: Level) -> ExactObjective:
        return ExactObjective(ExactHeldOutError(self.folds.head(level.n_rows), penalty=self.penalty))

    def scout(self, kernel: Kernel, first: Level) -> ExactObjective:
        return self.objective(kernel, Level(0, SCOUT_ROWS, 0))

    def allows(self, kernel: Kernel) -> bool:
        return kernel.contains(self.smallest_value)


class ExactObjective:
    """The held-out error of kernel ridge regression as a function of the kernel."""

    def __init__(self, criterion: ExactHeldOutError) -> None:
        self.criterion = criterion
        self.size = {"n_rows": criterion.rows.n}

    def evaluate(self, kernel: Kernel, log_alpha: Any, *, gradient: bool, bounds: tuple[float, float]) -> Point:
        """The criterion at a kernel, its penalty searched near ``log_alpha`` inside ``bounds``."""
        found = self.criterion.evaluate(kernel, log_alpha, gradient=gradient, bounds=bounds)
        return Point(found.value, found.log_alpha, found.gradient, None)
