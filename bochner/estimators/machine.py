"""What ``KernelRegressor`` and ``KernelClassifier`` share: from checked rows and targets to a learned kernel."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from bochner.arrays import Array, fetch, is_foreign
from bochner.criteria import Criterion, Folds, HeldOutError, Rows
from bochner.descent import Descent, Level, Plan
from bochner.engines import moments, predict
from bochner.estimators.folds import cut_rows, hold_out, is_splitter, is_validation_set, split_rows
from bochner.estimators.validation import as_generator, check_rows
from bochner.features import FeatureChoices
from bochner.kernels import Kernel, get_kernel
from bochner.kernels.ties import SharedScales
from bochner.leave_one_out import LeaveOneOutError
from bochner.penalties import SCALE_PENALTIES
from bochner.progress import ProgressLine
from bochner.single_kernel import LOWEST_IN_FLOAT32, NO_SCALE, LearnedKernel, default_levels, learn_kernel
from bochner.solvers.normal_equations import CentredMoments
from bochner.standardise import Standardiser

AUTO_KERNELS = ("gaussian", "cauchy", "matern32")
"""Families tried by kernel="auto"."""
MOST_FEATURES = 4000
CRITERIA = ("auto", "holdout", "kfold", "loo")
FULL_STEPS = 60
"""Most steps of schedule="full"."""
SCHEDULES = ("small-to-large", "full")


class KernelMachine(BaseEstimator):
    """A linear model on the features of a kernel whose parameters it learns by the gradient of held-out error."""

    def __init__(
        self,
        kernel: str | Kernel = "auto",
        *,
        n_features: int | None = None,
        scale: Any = "per-column",
        alpha: float | str | None = None,
        criterion: str = "auto",
        validation: Any = None,
        scale_penalty: str = "none",
        scale_penalty_strength: float = 1e-3,
        schedule: str = "small-to-large",
        standardize: bool = True,
        sampling: str = "auto",
        keep_moments: bool = True,
        warm_start: bool = False,
        tol: float = 1e-4,
        random_state: Any = None,
        verbose: int = 0,
        callback: Any = None,
    ) -> None:
        self.kernel = kernel
        self.n_features = n_features
        self.scale = scale
        self.alpha = alpha
        self.criterion = criterion
        self.validation = validation
        self.scale_penalty = scale_penalty
        self.scale_penalty_strength = scale_penalty_strength
        self.schedule = schedule
        self.standardize = standardize
        self.sampling = sampling
        self.keep_moments = keep_moments
        self.warm_start = warm_start
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    # -- fitting ------------------------------------------------------------------------------------------------------

    def _learn(self, X: Array, y: Any, targets: Array, weights: Array) -> LearnedKernel:
        """Learn kernel, penalty and coefficients from rows (n, m), targets (n, c) made from y, and weights (n,)."""
        self._check_choices()
        rng = as_generator(self.random_state)
        before = self.kernel_ if self.warm_start and hasattr(self, "kernel_") else None
        rows = self._prepare(X, targets, weights)
        folds = self._folds(rows, rng, X, y, weights > 0)
        plan = self._plan(folds.n, X.shape[1], before)
        with self._watching(plan) as callback:
            learned = learn_kernel(
                folds,
                replace(plan, callback=callback),
                rng,
                criterion=self._criterion(),
                choices=FeatureChoices(n_features=self.n_features, sampling=self.sampling),
            )
        self.feature_map_ = learned.feature_map
        self._keep_kernel(learned.feature_map.kernel, rows)
        self._keep_descent(learned.descent)
        self._keep(learned, folds)
        return learned

    def _folds(self, rows: Rows, rng: np.random.Generator, X: Array, y: Any, used: Array) -> Folds:
        """Rows in random order, in the parts that ``criterion`` and ``validation`` ask for."""
        if self.criterion in ("auto", "holdout") and is_validation_set(self.validation):
            held, targets, weights = self._check_validation_set(*self.validation)
            held_rows = Rows(self._standardised(held), self._target_standardiser(targets), weights / self._weight_unit)
            return hold_out(rows, rng, held_rows.take(weights > 0))
        if self.criterion != "loo" and is_splitter(self.validation):
            return split_rows(rows, rng, self.validation, X, y, used)
        return cut_rows(rows, rng, self.criterion, self.validation)

    def _check_validation_set(self, X: Any, y: Any, sample_weight: Any = None) -> tuple[Array, Array, Array]:
        """The user's own validation rows (n, m), their targets (n, c) and weights (n,)."""
        try:
            X = _on_host(check_rows(self, X, kernel=self._strictest(), reset=False))
            weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
            targets = self._targets_of(X, y)
            weights = weights * self._weights_of(X, y)
        except ValueError as error:
            raise ValueError(f"The validation set is not like the rows of fit: {error}") from error
        if not (weights > 0).any():
            raise ValueError("The weights of the validation set are all zero.")
        return X, targets, weights

    def _targets_of(self, X: Array, y: Any) -> Array:
        """Targets (n, c) of y, as in fit."""
        raise NotImplementedError

    def _weights_of(self, X: Array, y: Any) -> Array:
        """What multiplies the weights of rows (n,), as in fit."""
        return np.ones(X.shape[0])

    def _criterion(self) -> Callable[[Folds], Criterion]:
        """What makes the held-out error from folds."""
        per_target = self.alpha == "per-target"
        fixed = float(self.alpha) if isinstance(self.alpha, numbers.Real) else None
        if self.criterion == "loo":
            if per_target:
                raise ValueError("alpha='per-target' needs criterion='kfold' or 'holdout', not 'loo'.")
            return partial(LeaveOneOutError, penalty=fixed)
        return partial(HeldOutError, penalty=fixed, per_target=per_target)

    def _prepare(self, X: Array, targets: Array, weights: Array) -> Rows:
        """Rows of positive weight and their targets, standardised, with weights of mean one: only their ratios count."""
        used = weights > 0
        if not used.all():
            X, targets, weights = X[used], targets[used], weights[used]
        self._weight_unit = float(weights.max()) * float((weights / weights.max()).mean())
        weights = weights / weights.max()
        weights = weights / weights.mean()
        as_they_are = not self.standardize or any(np.isfinite(family.lower) for family in self._families())
        self.standardiser_ = Standardiser.identity(X.shape[1]) if as_they_are else Standardiser.of(X, weights)
        self._target_standardiser = self._standardise_targets(targets, weights)
        return Rows(self._standardised(X), self._target_standardiser(targets), weights)

    def _standardise_targets(self, targets: Array, weights: Array) -> Standardiser:
        return Standardiser.of(targets, weights)

    def _standardised(self, X: Array) -> Array:
        """Rows standardised, in float32 where they come so and in float64 otherwise."""
        return self.standardiser_(X if X.dtype == np.float32 else X.astype(np.float64, copy=False))

    def _keep_kernel(self, kernel: Kernel, rows: Rows) -> None:
        """A kernel of standardised rows as fitted attributes, in the units of the data."""
        largest = abs(rows.X).max(axis=0)
        varies = np.ravel(largest.toarray() if sparse.issparse(largest) else largest) > 0
        relevance = np.where(varies, np.asarray(kernel.scale), 0.0)  # a constant column keeps the scale it started with
        relevance = relevance / max(float(relevance.max()), np.finfo(np.float64).tiny)
        self.relevance_ = np.where(relevance <= 2 * NO_SCALE, 0.0, relevance)
        self.kernel_ = kernel.replace(scale=np.asarray(kernel.scale) / self.standardiser_.spread)
        self.scale_ = np.asarray(self.kernel_.scale)

    def _keep_descent(self, descent: Descent) -> None:
        """How the kernel was found, as fitted attributes."""
        self.families_ = descent.families
        self.history_ = descent.history
        self.n_iter_ = descent.best.n_iter
        self.converged_ = descent.best.converged and not descent.interrupted

    def _warn_if_interrupted(self, descent: Descent) -> None:
        """Say that learning ended early; the model is whole by now."""
        if descent.interrupted:
            warnings.warn(
                f"Interrupted after {len(descent.history)} evaluations: the best kernel so far is kept, with an error of "
                f"{descent.best.value:.4g}. fit again with warm_start=True to go on from it.",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _keep(self, learned: LearnedKernel, folds: Folds) -> None:
        """The regression as fitted attributes, in the units of the data."""
        self._keep_coefficients(learned.coef, learned.intercept)
        self.alpha_ = learned.alpha if np.ndim(learned.alpha) == 0 else np.asarray(learned.alpha)
        self.validation_error_ = learned.value
        self.moments_ = None
        if self.keep_moments and hasattr(learned.evaluation, "totals"):
            rows = Rows.stack(folds.to_fit) if learned.evaluation.basis is not None else None
            self.moments_ = (
                learned.evaluation.totals
                if rows is None
                else moments(self.feature_map_, self._exact_enough(rows.X), rows.targets, rows.weights)
            )

    def _keep_coefficients(self, coef: Array, intercept: Array) -> None:
        self.coef_ = coef * self._target_standardiser.spread
        self.intercept_ = self._target_standardiser.undo(intercept)

    def _grow(self, X: Array, targets: Array, weights: Array) -> None:
        """Add rows to the normal equations of a fitted model and solve them again; kernel and penalty stay."""
        if self.moments_ is None:
            raise ValueError("partial_fit needs the sums over earlier rows: fit with keep_moments=True.")
        rows = self._exact_enough(self._standardised(X))
        new = moments(self.feature_map_, rows, self._target_standardiser(targets), weights / self._weight_unit)
        self.moments_ = self.moments_ + new
        self._keep_coefficients(*CentredMoments(self.moments_).coefficients(self.alpha_))

    def _exact_enough(self, rows: Array) -> Array:
        """Rows in float64 where the fitted penalty is one that sums of float32 products cannot carry."""
        return rows.astype(np.float64, copy=False) if np.min(self.alpha_) < LOWEST_IN_FLOAT32 else rows

    def _families(self) -> tuple[Kernel, ...]:
        """The kernels to try, as they are named or given."""
        if isinstance(self.kernel, str) and self.kernel == "auto":
            return tuple(get_kernel(name) for name in AUTO_KERNELS)
        return (get_kernel(self.kernel),)

    def _starts(self, n_columns: int) -> tuple[Kernel, ...]:
        """The same kernels for standardised rows, with one scale for each column."""
        spread = self.standardiser_.spread
        return tuple(family.replace(scale=family.scales(n_columns) * spread) for family in self._families())

    def _check_choices(self) -> None:
        """Errors that need no data."""
        for name, allowed in (("scale_penalty", SCALE_PENALTIES), ("criterion", CRITERIA), ("schedule", SCHEDULES)):
            if name in self.get_params() and getattr(self, name) not in tuple(allowed):
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {getattr(self, name)!r}.")
        for name in ("scale_penalty_strength", "tol"):
            value = getattr(self, name)
            if not (isinstance(value, numbers.Real) and 0 <= float(value) < np.inf):
                raise ValueError(f"{name} must be a number, zero or more, got {value!r}.")
        if not (self.callback is None or callable(self.callback)):
            raise ValueError(f"callback must be a function of one record or None, got {self.callback!r}.")
        chosen = self.alpha is None or (isinstance(self.alpha, str) and self.alpha == "per-target")
        if not chosen and not (isinstance(self.alpha, numbers.Real) and 1e-13 <= float(self.alpha) <= 1e13):
            raise ValueError(
                f"alpha must be a positive number, None (the best one) or 'per-target', got {self.alpha!r}; numbers from "
                "1e-13 to 1e13 make a difference."
            )

    def _plan(self, n_rows: int, n_columns: int, before: Kernel | None) -> Plan:
        """The descent to make; ``before`` is a kernel of earlier rows to start from."""
        families = self._starts(n_columns)
        if self.kernel == "auto" and getattr(self, "sampling", None) == "orthogonal":  # which exists for radial laws only
            families = tuple(family for family in families if family.geometry == "radial")
        levels = self._levels(n_rows, n_columns)
        if before is not None:
            families, levels = self._resumed(before, n_columns), levels[-1:]
        return Plan(
            families=families,
            n_starts=2 if isinstance(self.kernel, str) and before is None else 0,
            levels=levels,
            ties=SharedScales(self._groups(n_columns)),
            penalty=SCALE_PENALTIES[self.scale_penalty](self.scale_penalty_strength),
            tol=self.tol,
        )

    def _levels(self, n_rows: int, n_columns: int) -> tuple[Level, ...]:
        """The sizes to go through."""
        n_features = self.n_features
        if n_features is None:
            n_features = min(MOST_FEATURES, max(256, 4 * n_rows))
        elif (
            isinstance(n_features, numbers.Integral)
            and n_features % 2
            and all(family.geometry != "additive" for family in self._families())
        ):
            raise ValueError(f"n_features must be even, since features come as pairs of cosine and sine, got {n_features}.")
        if self.schedule == "full":
            return (Level(n_features, n_rows, FULL_STEPS),)
        return default_levels(n_rows, n_features, n_columns)

    def _resumed(self, before: Kernel, n_columns: int) -> tuple[Kernel, ...]:
        """The kernel of an earlier fit, for the rows of this one."""
        scales = before.scales(n_columns) if np.size(before.scale) in (1, n_columns) else None
        if scales is None:
            raise ValueError(
                f"warm_start goes on from a kernel of {np.size(before.scale)} columns, and X has {n_columns}: "
                "fit a clone of the model, or set warm_start=False."
            )
        return (before.replace(scale=scales * self.standardiser_.spread),)

    def _watching(self, plan: Plan) -> AbstractContextManager[Any]:
        """A context with the callback of a descent: the user's, behind a progress line if ``verbose``."""
        return closing(ProgressLine(plan.levels, self.callback)) if self.verbose else nullcontext(self.callback)

    def _groups(self, n_columns: int) -> Array:
        """The group of each column (m,): which columns share a scale."""
        if isinstance(self.scale, str):
            if self.scale == "per-column":
                return np.arange(n_columns)
            if self.scale == "shared":
                return np.zeros(n_columns, dtype=int)
            raise ValueError(f"scale must be 'per-column', 'shared' or a group for each column, got {self.scale!r}.")
        groups = np.asarray(self.scale)
        if groups.shape != (n_columns,) or groups.dtype.kind not in "iuUO":
            raise ValueError(
                f"scale says which columns share one: 'per-column', 'shared', or a whole number for each of the {n_columns} "
                f"columns, such as {[0, 0, 1, 2][:n_columns]}, got {self.scale!r}. To start from scales of your own give "
                "kernel an object, such as Gaussian(scale=...)."
            )
        return np.unique(groups, return_inverse=True)[1]

    def _strictest(self) -> Kernel:
        """The kernel with the smallest domain among those to try."""
        return max(self._families(), key=lambda family: family.lower)

    def _check_fit_rows(self, X: Any, sample_weight: Any) -> tuple[Array, Array]:
        """Checked rows, and their weights (n,)."""
        X = _on_host(check_rows(self, X, kernel=self._strictest(), reset=True))
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if not (weights > 0).any():
            raise ValueError("sample_weight is zero for every row: give at least two rows a positive weight.")
        lost = weights < len(weights) * np.finfo(np.float64).eps * weights.max()  # in the rounding of sums with the others
        return X, np.where(lost, 0.0, weights)

    # -- predicting ---------------------------------------------------------------------------------------------------

    def _check_new_rows(self, X: Any) -> Array:
        """Rows like those of the fit."""
        check_is_fitted(self)
        return _on_host(check_rows(self, X, kernel=self.kernel_, reset=False))

    def _decide(self, X: Any) -> Array:
        """Predictions (n, c) for new rows, in the units of the targets."""
        return self._decisions(self._check_new_rows(X))

    def _decisions(self, X: Array) -> Array:
        """The same for checked rows; in float64, also where features are float32."""
        return predict(self.feature_map_, self._standardised(X), self.coef_, self.intercept_).astype(np.float64)

    def relevance_by_name(self) -> dict[str, float]:
        """The relevance of each column by its name, most relevant first."""
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", [f"x{i}" for i in range(self.n_features_in_)])
        order = np.argsort(-self.relevance_, kind="stable")
        return {str(names[i]): float(self.relevance_[i]) for i in order}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _on_host(X: Array) -> Array:
    """Rows as they are, or as NumPy rows where they come from another array library."""
    return fetch(X) if is_foreign(X) else X
