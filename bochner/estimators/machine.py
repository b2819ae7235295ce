"""What ``KernelRegressor`` and ``KernelClassifier`` share: from checked rows and targets to a learned kernel."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from bochner.arrays import Array
from bochner.criteria import Folds, Rows
from bochner.engines import predict
from bochner.estimators.validation import as_generator, check_rows
from bochner.features import FeatureChoices
from bochner.kernels import Gaussian, Kernel, get_kernel
from bochner.penalties import SCALE_PENALTIES
from bochner.single_kernel import LearnedKernel, Level, Plan, default_levels, learn_kernel
from bochner.standardise import Standardiser

AUTO_KERNELS = ("gaussian", "cauchy", "matern32")
"""Families tried by kernel="auto"."""
MOST_FEATURES = 4000
FOLDS = 5
CRITERIA = ("auto", "holdout", "kfold")
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
        families = self._families()
        rng = as_generator(self.random_state)
        bounded = any(np.isfinite(family.lower) for family in families)
        identity = bounded or not self.standardize
        self.standardiser_ = Standardiser.identity(X.shape[1]) if identity else Standardiser.of(X, weights)
        self._target_standardiser = Standardiser.of(targets, weights)
        rows = Rows(self.standardiser_(X.astype(np.float64, copy=False)), self._target_standardiser(targets), weights)
        learned = learn_kernel(self._folds(rows, rng), self._plan(families, rows.n, X.shape[1]), rng)
        self._keep(learned)
        return learned

    def _keep(self, learned: LearnedKernel) -> None:
        """The learned kernel as fitted attributes, in the units of the data."""
        self.feature_map_ = learned.feature_map
        kernel = learned.feature_map.kernel
        self.relevance_ = np.asarray(kernel.scale) / np.max(kernel.scale)
        self.kernel_ = kernel.replace(scale=np.asarray(kernel.scale) / self.standardiser_.spread)
        self.scale_ = np.asarray(self.kernel_.scale)
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
        if isinstance(self.kernel, str) and self.kernel == "auto":
            return tuple(get_kernel(name) for name in AUTO_KERNELS)
        return (get_kernel(self.kernel),)

    def _plan(self, families: tuple[Kernel, ...], n_rows: int, n_columns: int) -> Plan:
        if self.scale_penalty not in SCALE_PENALTIES:
            raise ValueError(f"scale_penalty must be one of {', '.join(SCALE_PENALTIES)}, got {self.scale_penalty!r}.")
        if self.schedule not in SCHEDULES:
            raise ValueError(f"schedule must be one of {', '.join(SCHEDULES)}, got {self.schedule!r}.")
        n_features = self.n_features
        if n_features is None:
            n_features = min(MOST_FEATURES, max(256, 4 * n_rows))
        choices = FeatureChoices(n_features=n_features, sampling=self.sampling)
        full = (Level(n_features, n_rows, 60),)
        return Plan(
            families=families,
            levels=default_levels(n_rows, n_features) if self.schedule == "small-to-large" else full,
            groups=self._groups(n_columns),
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
        if groups.shape != (n_columns,):
            raise ValueError(
                f"scale gives groups of shape {groups.shape} and X has {n_columns} columns: give one group for each column, "
                "such as [0, 0, 1]."
            )
        return np.unique(groups, return_inverse=True)[1]

    def _folds(self, rows: Rows, rng: np.random.Generator) -> Folds:
        """Rows in random order, in the parts that the criterion asks for."""
        if self.criterion not in CRITERIA:
            raise ValueError(f"criterion must be one of {', '.join(CRITERIA)}, got {self.criterion!r}.")
        n = rows.n
        if n < 2:
            raise ValueError(f"Learning a kernel needs at least two rows, got {n} sample.")
        shuffled = rng.permutation(n)
        criterion = self.criterion if self.criterion != "auto" else ("kfold" if n < LARGE else "holdout")
        if criterion == "kfold":
            folds = FOLDS if self.validation is None else self.validation
            if not isinstance(folds, numbers.Integral) or folds < 2:
                raise ValueError(f"validation must be a whole number of folds, at least 2, for 'kfold', got {folds!r}.")
            if self.validation is not None and folds > n:
                raise ValueError(f"validation asks for {folds} folds of {n} rows: use at most {n}.")
            parts = np.array_split(shuffled, min(int(folds), n))
            return Folds(tuple(rows.take(part) for part in parts), tuple(range(len(parts))))
        fraction = 0.2 if self.validation is None else self.validation
        if not 0 < fraction < 1:
            raise ValueError(f"validation must be a fraction between 0 and 1 for 'holdout', got {fraction!r}.")
        held = min(n - 1, max(1, round(fraction * n)))
        return Folds((rows.take(shuffled[held:]), rows.take(shuffled[:held])), (1,))

    def _check_fit_rows(self, X: Any, sample_weight: Any) -> tuple[Array, Array, Array]:
        """Checked rows, their weights (n,), and which rows have a positive weight."""
        strictest = max(self._families(), key=lambda family: family.lower)
        X = check_rows(self, X, kernel=strictest, reset=True)
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        used = weights > 0
        if not used.any():
            raise ValueError("sample_weight is zero for every row: give at least two rows a positive weight.")
        return X, weights, used

    # -- predicting ---------------------------------------------------------------------------------------------------

    def _decide(self, X: Any) -> Array:
        """Predictions (n, c) for new rows, in the units of the targets."""
        check_is_fitted(self)
        X = check_rows(self, X, kernel=Gaussian() if self.kernel_.lower == -np.inf else self.kernel_, reset=False)
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
