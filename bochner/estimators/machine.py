"""What ``KernelRegressor`` and ``KernelClassifier`` share: from checked rows and targets to a learned kernel."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from bochner.arrays import Array, fetch, is_foreign
from bochner.criteria import Folds, HeldOutError, Rows
from bochner.engines import predict
from bochner.estimators.validation import as_generator, check_rows
from bochner.features import FeatureChoices
from bochner.kernels import Kernel, get_kernel
from bochner.kernels.ties import SharedScales
from bochner.leave_one_out import LeaveOneOutError
from bochner.penalties import SCALE_PENALTIES
from bochner.single_kernel import LearnedKernel, Level, Plan, default_levels, learn_kernel
from bochner.standardise import Standardiser

AUTO_KERNELS = ("gaussian", "cauchy", "matern32")
"""Families tried by kernel="auto"."""
MOST_FEATURES = 4000
FOLDS = 5
CRITERIA = ("auto", "holdout", "kfold", "loo")
SCHEDULES = ("small-to-large", "full")
LARGE = 50_000
"""Rows from which criterion="auto" holds out one part instead of folding all."""


class KernelMachine(BaseEstimator):
    """A linear model on the features of a kernel whose parameters it learns by the gradient of held-out error."""

    def __init__(
        self,
        kernel: str | Kernel = "auto",
        *,
        n_features: int | None = None,
        scale: Any = "per-column",
        criterion: str = "auto",
        validation: float | int | None = None,
        scale_penalty: str = "none",
        scale_penalty_strength: float = 1e-3,
        schedule: str = "small-to-large",
        standardize: bool = True,
        sampling: str = "auto",
        tol: float = 1e-4,
        random_state: Any = None,
        callback: Any = None,
    ) -> None:
        self.kernel = kernel
        self.n_features = n_features
        self.scale = scale
        self.criterion = criterion
        self.validation = validation
        self.scale_penalty = scale_penalty
        self.scale_penalty_strength = scale_penalty_strength
        self.schedule = schedule
        self.standardize = standardize
        self.sampling = sampling
        self.tol = tol
        self.random_state = random_state
        self.callback = callback

    # -- fitting ------------------------------------------------------------------------------------------------------

    def _learn(self, X: Array, targets: Array, weights: Array) -> LearnedKernel:
        """Learn kernel, penalty and coefficients from rows (n, m), targets (n, c) and positive weights (n,)."""
        rng = as_generator(self.random_state)
        rows = self._prepare(X, targets, weights)
        learned = learn_kernel(self._folds(rows, rng), self._plan(rows.n, X.shape[1]), rng)
        self.feature_map_ = learned.feature_map
        self._keep_kernel(learned.feature_map.kernel, rows)
        self._keep(learned)
        return learned

    def _prepare(self, X: Array, targets: Array, weights: Array) -> Rows:
        """Rows and targets standardised, in float64, with weights of mean one: only their ratios count."""
        self._check_choices()
        weights = weights / weights.max()
        weights = weights / weights.mean()
        as_they_are = not self.standardize or any(np.isfinite(family.lower) for family in self._families())
        self.standardiser_ = Standardiser.identity(X.shape[1]) if as_they_are else Standardiser.of(X, weights)
        self._target_standardiser = Standardiser.of(targets, weights)
        return Rows(self.standardiser_(X.astype(np.float64, copy=False)), self._target_standardiser(targets), weights)

    def _keep_kernel(self, kernel: Kernel, rows: Rows) -> None:
        """A kernel of standardised rows as fitted attributes, in the units of the data."""
        largest = abs(rows.X).max(axis=0)
        varies = np.ravel(largest.toarray() if sparse.issparse(largest) else largest) > 0
        relevance = np.where(varies, np.asarray(kernel.scale), 0.0)  # a constant column keeps the scale it started with
        self.relevance_ = relevance / max(float(relevance.max()), np.finfo(np.float64).tiny)
        self.kernel_ = kernel.replace(scale=np.asarray(kernel.scale) / self.standardiser_.spread)
        self.scale_ = np.asarray(self.kernel_.scale)

    def _keep(self, learned: LearnedKernel) -> None:
        """The regression as fitted attributes, in the units of the data."""
        spread = self._target_standardiser.spread
        self.coef_ = learned.coef * spread
        self.intercept_ = self._target_standardiser.undo(learned.intercept)
        self.alpha_ = learned.alpha
        self.validation_error_ = learned.value
        self.families_ = learned.families
        self.history_ = learned.history
        self.n_iter_ = learned.n_iter
        self.converged_ = learned.converged

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
        if self.scale_penalty not in tuple(SCALE_PENALTIES):
            raise ValueError(f"scale_penalty must be one of {', '.join(SCALE_PENALTIES)}, got {self.scale_penalty!r}.")
        if self.criterion not in CRITERIA:
            raise ValueError(f"criterion must be one of {', '.join(CRITERIA)}, got {self.criterion!r}.")
        for name in ("scale_penalty_strength", "tol"):
            value = getattr(self, name)
            if not (isinstance(value, numbers.Real) and 0 <= float(value) < np.inf):
                raise ValueError(f"{name} must be a number, zero or more, got {value!r}.")
        if not (self.callback is None or callable(self.callback)):
            raise ValueError(f"callback must be a function of one record or None, got {self.callback!r}.")

    def _plan(self, n_rows: int, n_columns: int) -> Plan:
        if self.schedule not in SCHEDULES:
            raise ValueError(f"schedule must be one of {', '.join(SCHEDULES)}, got {self.schedule!r}.")
        choices = FeatureChoices(n_features=self.n_features, sampling=self.sampling)
        families = self._starts(n_columns)
        if self.kernel == "auto" and self.sampling == "orthogonal":  # which exists for radial laws only
            families = tuple(family for family in families if family.geometry == "radial")
        n_features = self.n_features
        if n_features is None:
            n_features = min(MOST_FEATURES, max(256, 4 * n_rows))
        elif n_features % 2 and all(family.geometry != "additive" for family in self._families()):
            raise ValueError(f"n_features must be even, since features come as pairs of cosine and sine, got {n_features}.")
        full = (Level(n_features, n_rows, 60),)
        return Plan(
            families=families,
            from_median=isinstance(self.kernel, str),
            levels=default_levels(n_rows, n_features) if self.schedule == "small-to-large" else full,
            ties=SharedScales(self._groups(n_columns)),
            criterion=LeaveOneOutError if self.criterion == "loo" else HeldOutError,
            choices=choices,
            penalty=SCALE_PENALTIES[self.scale_penalty](self.scale_penalty_strength),
            tol=self.tol,
            callback=self.callback,
        )

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

    def _folds(self, rows: Rows, rng: np.random.Generator) -> Folds:
        """Rows in random order, in the parts that the criterion asks for."""
        n = rows.n
        if n < 2:
            raise ValueError(f"Learning a kernel needs at least two rows, got {n} sample.")
        shuffled = rng.permutation(n)
        criterion = self.criterion
        if criterion == "auto" and self.validation is not None:
            criterion = "kfold" if isinstance(self.validation, numbers.Integral) else "holdout"
        elif criterion == "auto":
            criterion = "kfold" if n < LARGE else "holdout"
        if criterion == "loo":
            if self.validation is not None:
                raise ValueError(f"validation={self.validation!r}, but 'loo' leaves out every row in turn: leave it out.")
            return Folds((rows.take(shuffled),), (0,))
        if criterion == "kfold":
            folds = FOLDS if self.validation is None else self.validation
            if not isinstance(folds, numbers.Integral) or folds < 2:
                raise ValueError(f"validation must be a whole number of folds, at least 2, for 'kfold', got {folds!r}.")
            if self.validation is not None and folds > n:
                raise ValueError(f"validation asks for {folds} folds of {n} rows: use at most {n}.")
            parts = np.array_split(shuffled, min(int(folds), n))
            return Folds(tuple(rows.take(part) for part in parts), tuple(range(len(parts))))
        fraction = 0.2 if self.validation is None else self.validation
        if not (isinstance(fraction, numbers.Real) and 0 < fraction < 1):
            raise ValueError(f"validation must be a fraction between 0 and 1 for 'holdout', got {fraction!r}.")
        held = min(n - 1, max(1, round(fraction * n)))
        return Folds((rows.take(shuffled[held:]), rows.take(shuffled[:held])), (1,))

    def _check_fit_rows(self, X: Any, sample_weight: Any) -> tuple[Array, Array, Array]:
        """Checked rows, their weights (n,), and which rows have a positive weight."""
        strictest = max(self._families(), key=lambda family: family.lower)
        X = _on_host(check_rows(self, X, kernel=strictest, reset=True))
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        used = weights > 0
        if not used.any():
            raise ValueError("sample_weight is zero for every row: give at least two rows a positive weight.")
        return X, weights, used

    # -- predicting ---------------------------------------------------------------------------------------------------

    def _check_new_rows(self, X: Any) -> Array:
        """Rows like those of the fit."""
        check_is_fitted(self)
        return _on_host(check_rows(self, X, kernel=self.kernel_, reset=False))

    def _decide(self, X: Any) -> Array:
        """Predictions (n, c) for new rows, in the units of the targets."""
        X = self._check_new_rows(X).astype(np.float64, copy=False)
        return predict(self.feature_map_, self.standardiser_(X), self.coef_, self.intercept_)

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
