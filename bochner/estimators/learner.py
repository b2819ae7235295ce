"""What all kernel learners share: their choices and data checked, rows standardised and cut into folds, what was learned."""

from __future__ import annotations

import numbers
import reprlib
import warnings
from abc import abstractmethod
from contextlib import AbstractContextManager, closing, nullcontext
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from bochner.arrays import Array
from bochner.descent import NO_SCALE, TOLERANCES, UNSEEN_PARTS, Descent, Level, Plan, family_name
from bochner.effects import MOST_COLUMNS, total_effects
from bochner.errors import InputError
from bochner.estimators.encoding import column_names, origin_names
from bochner.estimators.folds import (
    EXPECTED,
    about_validation_set,
    cut_rows,
    hold_out,
    is_splitter,
    is_validation_set,
    split_rows,
)
from bochner.estimators.saving import Saved
from bochner.estimators.showing import Showing
from bochner.estimators.validation import (
    check_flags,
    check_option,
    check_rows,
    check_verbose,
    check_weights,
    on_host,
    relative_weights,
)
from bochner.folds import FoldedRows, Folds, Rows
from bochner.kernels import Kernel, MetricKernel, get_kernel
from bochner.kernels.ties import SharedScales
from bochner.metric_learning import as_kind, base_of
from bochner.penalties import SCALE_PENALTIES
from bochner.progress import DescentLine, Follower, StepLine, Work
from bochner.standardise import Standardiser, column_sums

AUTO_KERNELS = ("gaussian", "cauchy", "matern32")
"""Families tried by kernel="auto"."""
FEW_ROWS = 30
"""With fewer rows for each column, scale="auto" doubts whether they can tell the columns apart."""
CRITERIA = ("auto", "holdout", "kfold", "loo")


class KernelLearner(Showing, Saved, BaseEstimator):
    """An estimator that learns a kernel's parameters by the gradient of held-out error, on features or without.

    Subclasses have the parameters kernel, scale, alpha, criterion, validation, scale_penalty, scale_penalty_strength,
    standardize, warm_start, tol, verbose and callback.
    """

    kernel: Any
    scale: Any
    alpha: Any
    criterion: str
    validation: Any
    scale_penalty: str
    scale_penalty_strength: float
    standardize: bool
    warm_start: bool
    tol: float | None
    verbose: int
    callback: Any

    @abstractmethod
    def _levels(self, n_rows: int, n_columns: int) -> tuple[Level, ...]:
        """The sizes to go through."""

    @property
    def _automatic(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "auto"

    def _listed(self) -> tuple[str | Kernel, ...]:
        """The names and objects that ``kernel`` stands for."""
        if self._automatic:
            return AUTO_KERNELS
        if not isinstance(self.kernel, list | tuple):
            return (self.kernel,)
        if not len(self.kernel):
            raise InputError(
                "A kernel is needed, and kernel is empty: give the families to try, such as ['gaussian', 'matern32'], or "
                "one kernel."
            )
        return tuple(self.kernel)

    def _families(self) -> tuple[Kernel, ...]:
        """The kernels to try, as they are named or given."""
        return tuple(get_kernel(kernel) for kernel in self._listed())

    def _strictest(self) -> Kernel:
        """The kernel with the smallest domain among those to try."""
        return max(self._families(), key=lambda family: family.lower)

    def _starts(self, n_columns: int) -> tuple[Kernel, ...]:
        """The same kernels for standardised rows, with one scale for each column."""
        spread = self.standardiser_.spread
        return tuple(family.replace(scale=family.scales(n_columns) * spread) for family in self._families())

    def _are_given(self) -> list[bool]:
        """Which of the kernels to try came as objects, with scales of their own."""
        return [any(family is kernel for kernel in self._listed()) for family in self._families()]

    def _check_choices(self) -> None:
        """Errors that need no data."""
        check_option("scale_penalty", self.scale_penalty, tuple(SCALE_PENALTIES))
        check_option("criterion", self.criterion, CRITERIA)
        check_flags(self, "standardize", "warm_start")
        check_verbose(self.verbose)
        if any(isinstance(kernel, MetricKernel) for kernel in self._families()):
            raise InputError(
                "kernel must have no metric of its own, since that is what a fit learns, got a MetricKernel: give its base, "
                "such as Gaussian(), and metric='full'. FourierFeatures has features of a MetricKernel as it is."
            )
        for name, or_none in (("scale_penalty_strength", ""), ("tol", "None, or ")):
            value = getattr(self, name)
            if not (or_none and value is None) and not (isinstance(value, numbers.Real) and 0 <= float(value) < np.inf):
                raise InputError(f"{name} must be {or_none}a number, zero or more, got {value!r}.")
        if not (self.callback is None or callable(self.callback)):
            raise InputError(f"callback must be a function of one record or None, got {self.callback!r}.")
        chosen = self.alpha is None or (isinstance(self.alpha, str) and self.alpha == "per-target")
        if not chosen and not (isinstance(self.alpha, numbers.Real) and 1e-13 <= float(self.alpha) <= 1e13):
            raise InputError(
                f"alpha must be a positive number, None (the best one) or 'per-target', got {self.alpha!r}; numbers from "
                "1e-13 to 1e13 make a difference."
            )

    def _check_fit_rows(self, X: Any, sample_weight: Any) -> tuple[Array, Array]:
        """Checked rows, and their weights (n,)."""
        X = on_host(check_rows(self, X, kernel=self._strictest(), reset=True))
        return X, check_weights(sample_weight, X)

    def _check_validation_set(self, X: Any, y: Any, sample_weight: Any = None) -> tuple[Array, Array, Array]:
        """The user's own validation rows (n, m), their targets (n, c) and weights (n,)."""
        with about_validation_set():
            X = on_host(check_rows(self, X, kernel=self._strictest(), reset=False))
            weights = check_weights(sample_weight, X)
            self._check_validation_targets(X, y)
            return X, self._targets_of(X, y), weights * self._weights_of(X, y)

    def _check_validation_targets(self, X: Array, y: Any) -> None:
        """Errors of targets that fit does not take for validation, beside those of all further targets."""

    def _check_new_rows(self, X: Any) -> Array:
        """Rows like those of the fit."""
        check_is_fitted(self)
        return on_host(check_rows(self, X, kernel=self.kernel_, reset=False))

    def _prepare(self, X: Array, targets: Array, weights: Array) -> Rows:
        """Rows of positive weight and their targets, standardised, with weights of mean one: only their ratios count."""
        used = weights > 0
        if not used.all():
            X, targets, weights = X[used], targets[used], weights[used]
        weights, self._weight_unit = relative_weights(weights)
        self.standardiser_ = Standardiser.identity(X.shape[1]) if self._as_they_are else Standardiser.of(X, weights)
        self._target_standardiser = self._standardise_targets(targets, weights)
        return Rows(self._standardised(X), self._target_standardiser(targets), weights)

    @property
    def _as_they_are(self) -> bool:
        """Whether kernels see their columns without standardising them."""
        return not self.standardize or any(np.isfinite(family.lower) for family in self._families())

    def _standardised(self, X: Array) -> Array:
        """Rows standardised, in float32 where they come so and in float64 otherwise."""
        return self.standardiser_(X if X.dtype == np.float32 else X.astype(np.float64, copy=False))

    def _standardise_targets(self, targets: Array, weights: Array) -> Standardiser:
        return Standardiser.of_targets(column_sums(targets, weights))

    def _targets_of(self, X: Array, y: Any) -> Array:
        """Targets (n, c) of y, as in fit."""
        raise NotImplementedError

    def _weights_of(self, X: Array, y: Any) -> Array:
        """What multiplies the weights of rows (n,), as in fit."""
        return np.ones(X.shape[0])

    def _folds(self, rows: Rows, rng: np.random.Generator, X: Array, y: Any, used: Array) -> Folds:
        """Rows in random order, in the parts that ``criterion`` and ``validation`` ask for."""
        if is_validation_set(self.validation):
            if self.criterion not in ("auto", "holdout"):
                raise InputError(
                    f"validation is a set of your own, and criterion={self.criterion!r} validates on the rows of fit: "
                    "give criterion='auto' or 'holdout'."
                )
            held, targets, weights = self._check_validation_set(*self.validation)
            held_rows = Rows(self._standardised(held), self._target_standardiser(targets), weights / self._weight_unit)
            return hold_out(rows, rng, held_rows)
        if isinstance(self.validation, str) and self.validation in CRITERIA[1:]:
            raise InputError(
                f"validation must be {EXPECTED}, and {self.validation!r} is a criterion: write "
                f"criterion={self.validation!r}."
            )
        if self.criterion != "loo" and is_splitter(self.validation):
            return split_rows(rows, rng, self.validation, X, y, used)
        return cut_rows(rows, rng, self.criterion, self.validation)

    def _plan(self, n_rows: int, n_columns: int, before: Kernel | None) -> Plan:
        """The descent to make; ``before`` is a kernel of earlier rows to start from."""
        families, levels = self._starts(n_columns), self._levels(n_rows, n_columns)
        given = tuple(family for family, own in zip(families, self._are_given(), strict=True) if own)
        if before is not None:
            families, levels = (as_kind(self._resumed(before, n_columns), "diagonal", n_columns),), levels[-1:]
        penalty = SCALE_PENALTIES[self.scale_penalty](self.scale_penalty_strength)
        regularised = self.scale_penalty != "none" and self.scale_penalty_strength > 0
        return Plan(
            families=families,
            n_starts=2 if before is None else 0,
            given=given,
            levels=levels,
            ties=SharedScales(self._groups(n_columns)),
            scale_penalty=penalty,
            tol=TOLERANCES[0] if self.tol is None and regularised else self.tol,
        )

    def _earlier_kernel(self) -> Kernel | None:
        """The kernel of an earlier fit to go on from: with warm_start, where ``kernel`` asks for no other family."""
        if not (self.warm_start and hasattr(self, "kernel_")):
            return None
        asked = {family_name(family) for family in self._families()}  # none of which has a metric
        return self.kernel_ if self._automatic or family_name(base_of(self.kernel_)) in asked else None

    def _resumed(self, before: Kernel, n_columns: int) -> Kernel:
        """The kernel of an earlier fit, for the standardised rows of this one."""
        has_metric = isinstance(before, MetricKernel)
        width = len(before.metric) if isinstance(before, MetricKernel) else np.size(before.scale)
        if width != n_columns and (has_metric or width != 1):
            raise InputError(
                f"warm_start goes on from a kernel of {width} columns, and X has {n_columns}: "
                "fit a clone of the model, or set warm_start=False."
            )
        centre, spread = self.standardiser_.centre, self.standardiser_.spread
        if isinstance(before, MetricKernel):
            return before.before(-centre / spread, 1 / spread)
        return before.replace(scale=before.scales(n_columns) * spread)

    def _other_ties(self, folds: FoldedRows, plan: Plan) -> SharedScales | None:
        """With scale="auto" all columns may share a scale, where rows may be too few for scales of their own.

        Scales that are given stay apart, and a sparse penalty needs them so.
        """
        n_rows, n_columns = folds.n_to_fit, len(plan.ties.groups)
        few = n_columns > 1 and 2 * UNSEEN_PARTS <= n_rows < FEW_ROWS * n_columns
        chosen = isinstance(self.scale, str) and self.scale == "auto"
        if not chosen or not few or plan.n_starts == 0 or plan.given or self.scale_penalty == "sparse":
            return None
        return SharedScales(np.zeros(n_columns, dtype=int))

    def _groups(self, n_columns: int) -> Array:
        """The group of each column (m,): which columns share a scale."""
        if isinstance(self.scale, str):
            check_option("scale", self.scale, ("auto", "per-column", "shared"))
            return np.zeros(n_columns, dtype=int) if self.scale == "shared" else np.arange(n_columns)
        try:
            groups = np.asarray(self.scale)
        except ValueError:  # lists of different lengths
            groups = np.empty(0)
        names = groups.dtype.kind == "O" and all(isinstance(group, str | numbers.Integral) for group in groups.ravel())
        if groups.shape != (n_columns,) or not (names or groups.dtype.kind in "iuU"):
            raise InputError(
                f"scale says which columns share one: 'auto', 'per-column', 'shared', or a whole number or a name for each "
                f"of the {n_columns} columns, such as {[0, 0, 1, 2][:n_columns]} or {['a', 'a', 'b', 'c'][:n_columns]}, got "
                f"{reprlib.repr(self.scale)}. To start from scales of your own give kernel an object, such as "
                "Gaussian(scale=...)."
            )
        return np.unique(groups.astype(str) if names else groups, return_inverse=True)[1]

    def _watching(self, plan: Plan, n_before: int = 0, began: float | None = None) -> AbstractContextManager[Any]:
        """A context with the callback of a descent: the user's, behind a progress line if ``verbose``.

        It may come after ``n_before`` other steps, which ``began`` then.
        """
        if isinstance(self.callback, Follower):
            self.callback.begins(Work(plan))
        if not self.verbose:
            return nullcontext(self.callback)
        return closing(DescentLine(plan.levels, self.callback, work=Work(plan), n_before=n_before, began=began))

    def _watching_steps(self) -> AbstractContextManager[Any]:
        """The same where learning is many descents and searches."""
        return closing(StepLine(self.callback)) if self.verbose else nullcontext(self.callback)

    def _keep_kernel(self, kernel: Kernel) -> None:
        """A kernel of standardised rows as fitted attributes, in the units of the data."""
        n_columns = len(self.standardiser_.spread)
        if isinstance(kernel, MetricKernel):
            self.metric_ = kernel.outer
            self.kernel_: Kernel = kernel.before(self.standardiser_.centre, self.standardiser_.spread)
        else:
            self.metric_ = np.diag(kernel.scales(n_columns) ** 2)
            self.kernel_ = kernel.replace(scale=np.asarray(kernel.scale) / self.standardiser_.spread)
        self.scale_ = np.asarray(self.kernel_.scales(n_columns))

    def _keep_relevance(self, rows: Rows, rng: np.random.Generator) -> None:
        """How much predictions change with each column, in units of the most: (m,); of very many columns, their scales."""
        scales = self.scale_ * self.standardiser_.spread
        largest = abs(rows.X).max(axis=0)
        varies = np.ravel(largest.toarray() if sparse.issparse(largest) else largest) > 0
        if len(scales) <= MOST_COLUMNS:
            relevance = np.sqrt(total_effects(self._outputs_of, rows.X, rng))
        else:
            relevance = np.where(varies, scales, 0.0)  # a constant column keeps the scale it started with
        out = scales <= 2 * NO_SCALE * max(float(np.max(scales, where=varies, initial=0.0)), np.finfo(np.float64).tiny)
        relevance = np.where(out, 0.0, relevance)
        self.relevance_ = relevance / max(float(relevance.max()), np.finfo(np.float64).tiny)

    @abstractmethod
    def _outputs_of(self, rows: Array) -> Array:
        """Predictions (n, c) of standardised rows, in units of standardised targets."""

    def _keep_descent(self, descent: Descent) -> None:
        """How the kernel was found, as fitted attributes."""
        self.families_ = descent.families
        self.history_ = descent.history
        self.n_scales_ = descent.best.plan.ties.n_groups
        self.n_iter_ = descent.best.n_iter
        self.converged_ = descent.best.converged and not descent.interrupted

    def _warn_if_interrupted(self, descent: Descent) -> None:
        """Say that learning ended early; the model is whole by now."""
        if descent.interrupted:
            warnings.warn(
                f"Interrupted after {len(descent.history)} evaluations: the best kernel so far is kept, with an error of "
                f"{descent.best.value:.4g}. fit again with warm_start=True to go on from it.",
                ConvergenceWarning,
                stacklevel=5,
            )

    def leading_directions(self, k: int = 3) -> list[dict[str, Any]]:
        """The k directions of standardised columns in which the kernel changes most, strongest first.

        Each has its ``strength`` (the scale of the kernel along it), its ``share`` of the squares of all of them, and
        ``weights``: a unit vector by the names of the columns, the largest first. Where the kernel sees rows brought to one
        length (``kernel_.origin``), strengths count up to a factor.
        """
        check_is_fitted(self)
        squares, vectors = np.linalg.eigh(self.metric_)
        squares = np.maximum(squares, 0.0)
        names, total = self._column_names(), max(float(squares.sum()), np.finfo(np.float64).tiny)
        found = []
        for j in range(len(squares) - 1, max(-1, len(squares) - 1 - k), -1):
            vector = vectors[:, j] * np.sign(vectors[np.abs(vectors[:, j]).argmax(), j])
            weights = {names[i]: float(vector[i]) for i in np.argsort(-np.abs(vector), kind="stable")}
            found.append({"strength": float(squares[j] ** 0.5), "share": float(squares[j] / total), "weights": weights})
        return found

    def _column_names(self) -> list[str]:
        return column_names(self)

    def relevance_by_name(self, by: str = "encoded") -> dict[str, float]:
        """The relevance of each column by its name, most relevant first.

        Of a table with categories or dates these are the columns that it was encoded to, such as "city=Rome"; with
        ``by="column"`` each column of the table has the sum of theirs, in units of the largest.
        """
        check_is_fitted(self)
        check_option("by", by, ("encoded", "column"))
        names, relevance = self._column_names(), self.relevance_
        if by == "column":
            origins = origin_names(self)
            names = list(dict.fromkeys(origins))
            sums = np.array([sum(self.relevance_[[each == name for each in origins]]) for name in names])
            relevance = sums / max(float(sums.max()), np.finfo(np.float64).tiny)
        order = np.argsort(-relevance, kind="stable")
        return {names[i]: float(relevance[i]) for i in order}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
