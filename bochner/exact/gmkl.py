"""``GMKLRegressor`` and ``GMKLClassifier``: weights of many kernels on full kernel matrices."""

from __future__ import annotations

import numbers
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import _check_y

from bochner.arrays import Array
from bochner.errors import InputError
from bochner.estimators.labels import check_labels
from bochner.estimators.validation import all_or_nothing, check_lengths, refuse_missing_targets, refuse_text_targets
from bochner.exact.kernel_sum import KernelSumMachine
from bochner.exact.kernel_weights import EpsilonInsensitiveLoss, HingeLoss, Loss, SquaredLoss


def _power_of_two(size: float) -> float:
    """The power of two next to a size, by which nothing is rounded; one for a size of zero."""
    return float(2.0 ** np.clip(np.round(np.log2(size)), -900, 900)) if size > 0 else 1.0


class GMKLRegressor(RegressorMixin, KernelSumMachine):
    """Regression on a weighted sum of kernels, its weights learned on the full kernel matrices (GMKL).

    The generalised multiple kernel learning of Varma and Babu (2009) for a sum of kernels with l1 regularisation,

        min_{w, b, d >= 0}  C sum_i s_i l(y_i, f(x_i)) + 1/2 sum_t |w_t|^2 / d_t + sum_t d_t,    f = sum_t w_t'phi_t + b,

    s_i the weights of rows and phi_t the features of kernel t. Minimised over d first, it is the group lasso
    sum_i s_i l(y_i, f(x_i)) + lambda sum_t |w_t| with lambda = sqrt(2) / C, and d_t = |w_t| / sqrt(2). It is solved by
    projected gradient on d around LIBSVM (or Cholesky, for the squared loss). Its memory is quadratic in the number of rows.

    Parameters
    ----------
    kernels : str, Kernel, list or dict, default="gaussian"
        For a table X: one kernel (a name out of :data:`bochner.kernels.KERNELS` or an object), a list of them, or triples
        ``("name", kernel, columns)``, columns as in scikit-learn's ColumnTransformer. For a list or a dict of tables X: one
        kernel for all, one for each, or triples ``("name", kernel, view)``. Or "precomputed": X is then a list or a
        dict of kernel matrices (n, n), or an array (r, n, n); (r, n_new, n) in predict.
    loss : {"epsilon-insensitive", "squared"}, default="epsilon-insensitive"
        l(y, f) = max(|f - y| - epsilon, 0), or (f - y)^2.
    C : float, default=1.0
        Cost of the loss.
    epsilon : float, default=0.1
        Errors that cost nothing, in the units of y.
    scale : {"median", "given"}, default="median"
        Scale of kernels that are given by name: the median heuristic on their columns, or one. Kernel objects keep theirs.
    standardize : bool, default=True
        Bring columns to unit spread first for kernels that are given by name, but for those of histograms.
    tol : float, default=1e-3
        Largest duality gap, as a part of the objective.
    max_iter : int, default=200
        Most steps of the projected gradient.
    max_memory : float, str or None, default=None
        Bytes that the kernel matrices may take, as a number or text such as "2GB"; None: half of what is free. A fit that
        needs more is refused.

    Attributes
    ----------
    kernel_weights_ : array of shape (n_kernels,)
        The weights d.
    kernel_names_ : list of str
        The names of the kernels.
    kernels_ : list of Kernel
        The kernels, in the units of the data.
    X_fit_ : list of arrays of shape (n_rows, n_columns of the kernel)
        The rows of fit, as each kernel sees them.
    dual_coef_ : array of shape (n_rows, 1)
        The coefficients a: f(x) = sum_t d_t k_t(x, X_fit_) a + b.
    support_ : array of int
        Rows with a coefficient.
    intercept_ : array of shape (1,)
        The intercept b.
    objective_, duality_gap_ : float
        The objective, and how far it may be from its least value.
    n_iter_, converged_
        Steps, counting the start, and whether the gap is below ``tol``.

    Notes
    -----
    LIBSVM holds kernels in single precision. Where that shows in the gap, its solution is refined in double precision by an
    active set method, and so is each further solution, from the one before; LIBSVM is asked again where that fails.
    The size of a kernel counts: multiplied by c, it pays 1 / sqrt(c) as much for the same function.

    scikit-learn's cross-validation cuts tables into rows, not lists of views or of kernel matrices: give it one table.

    Examples
    --------
    >>> from bochner.exact import GMKLRegressor
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> kernels = [("body", "gaussian", [0, 1, 2, 3]), ("blood", "gaussian", slice(4, 10))]
    >>> model = GMKLRegressor(kernels, C=10.0).fit(X[:100], y[:100])
    >>> model.kernel_names_, model.kernel_weights_.shape
    (['body', 'blood'], (2,))
    """

    def __init__(
        self,
        kernels: Any = "gaussian",
        *,
        loss: str = "epsilon-insensitive",
        C: float = 1.0,
        epsilon: float = 0.1,
        scale: str = "median",
        standardize: bool = True,
        tol: float = 1e-3,
        max_iter: int = 200,
        max_memory: float | str | None = None,
    ) -> None:
        self.kernels = kernels
        self.loss = loss
        self.C = C
        self.epsilon = epsilon
        self.scale = scale
        self.standardize = standardize
        self.tol = tol
        self.max_iter = max_iter
        self.max_memory = max_memory

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from a table X (n, m), views or kernel matrices, and targets y (n,), with weights (n,) if given."""
        self._check_choices(("epsilon-insensitive", "squared"))
        if not (isinstance(self.epsilon, numbers.Real) and 0 <= float(self.epsilon) < np.inf):
            raise InputError(f"epsilon must be a number, zero or more, got {self.epsilon!r}.")
        rows, weights = self._check_fit(X, sample_weight)
        targets = self._check_targets(rows[0], y)[weights > 0]
        costs = self._costs(weights)
        centre = float(costs @ targets / costs.sum()) if costs.sum() > 0 else 0.0
        unit = _power_of_two(float(np.abs(targets - centre).max()))  # in which both parts of the objective are counted
        targets = (targets - centre) / unit
        if self.loss == "epsilon-insensitive":
            loss: Loss = EpsilonInsensitiveLoss(targets, costs, float(self.epsilon) / unit)
        else:
            loss = SquaredLoss(targets, self._costs(weights, unit) * unit)
        found = self._learn(self._grams(rows, weights), [loss], weights)
        self._weights = self._weights * unit
        self.intercept_ = self.intercept_ * unit + centre
        self.kernel_weights_ = self._weights[:, 0]
        self.objective_, self.duality_gap_ = found[0].value * unit, found[0].violation * unit
        self._warn_unless_converged(found)
        return self

    def predict(self, X: Any) -> Array:
        """Predicted targets (n,) of new rows, in the form of those of fit."""
        return self._scores(X)[:, 0]

    _for_classes = "bochner.exact.GMKLClassifier"

    def _check_targets(self, X: Array, y: Any) -> Array:
        """Targets (n,) in float64."""
        if y is None:
            raise InputError(f"{type(self).__name__} requires y to be passed, but the target y is None: give y.")
        refuse_missing_targets(y)
        refuse_text_targets(self, y)
        shape = np.asarray(y).shape
        if len(shape) == 2 and shape[1] > 1:
            raise InputError(
                f"y has {shape[1]} columns, and {type(self).__name__} learns one target: fit each by itself, for "
                "instance with sklearn.multioutput.MultiOutputRegressor()."
            )
        y = _check_y(y, y_numeric=True, estimator=self)
        check_lengths(X, y, "y")
        return y.astype(np.float64)


class GMKLClassifier(ClassifierMixin, KernelSumMachine):
    """Classification on a weighted sum of kernels, its weights learned on the full kernel matrices (GMKL).

    The problem of :class:`GMKLRegressor` for labels y = -1 or +1; several classes are each learned against the rest, with
    weights of their own.

    Parameters
    ----------
    loss : {"hinge", "squared"}, default="hinge"
        l(y, f) = max(1 - y f, 0), or (f - y)^2.
    kernels, C, scale, standardize, tol, max_iter, max_memory
        As in :class:`GMKLRegressor`.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The labels.
    kernel_weights_ : array of shape (n_kernels, n_classes)
        The weights d of each class; one column for two classes.
    dual_coef_, intercept_, objective_, duality_gap_
        As in :class:`GMKLRegressor`, with one column or entry for each class, one for two classes.
    kernel_names_, kernels_, X_fit_, support_, n_iter_, converged_
        As in :class:`GMKLRegressor`; ``n_iter_`` is the largest over the classes.

    Examples
    --------
    >>> from bochner.exact import GMKLClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GMKLClassifier([("sepal", "gaussian", [0, 1]), ("petal", "gaussian", [2, 3])]).fit(X, y)
    >>> model.kernel_weights_.shape, bool(model.score(X, y) > 0.9)
    ((2, 3), True)
    """

    def __init__(
        self,
        kernels: Any = "gaussian",
        *,
        loss: str = "hinge",
        C: float = 1.0,
        scale: str = "median",
        standardize: bool = True,
        tol: float = 1e-3,
        max_iter: int = 200,
        max_memory: float | str | None = None,
    ) -> None:
        self.kernels = kernels
        self.loss = loss
        self.C = C
        self.scale = scale
        self.standardize = standardize
        self.tol = tol
        self.max_iter = max_iter
        self.max_memory = max_memory

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from a table X (n, m), views or kernel matrices, and labels y (n,), with weights (n,) if given."""
        self._check_choices(("hinge", "squared"))
        rows, weights = self._check_fit(X, sample_weight)
        self.classes_, labels = np.unique(check_labels(self, rows[0], y)[weights > 0], return_inverse=True)
        if len(self.classes_) < 2:
            raise InputError(
                f"y has only one class, {self.classes_.tolist()[0]!r}, among rows of positive weight: a classifier needs at "
                "least two classes, so give rows of another."
            )
        costs = self._costs(weights)
        ones = range(1, 2) if len(self.classes_) == 2 else range(len(self.classes_))
        make = HingeLoss if self.loss == "hinge" else SquaredLoss
        losses: list[Loss] = [make(np.where(labels == one, 1.0, -1.0), costs) for one in ones]
        found = self._learn(self._grams(rows, weights), losses, weights)
        self.kernel_weights_ = self._weights
        self._shares = np.bincount(labels, weights[weights > 0] / weights.max())
        self.objective_ = np.array([each.value for each in found])
        self.duality_gap_ = np.array([each.violation for each in found])
        self._warn_unless_converged(found)
        return self

    def decision_function(self, X: Any) -> Array:
        """Decision values of new rows: (n, n_classes), or (n,) for two classes, positive for the second."""
        scores = self._scores(X)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> Array:
        """The class of each new row: (n,); of classes whose decision values are the same, the one of the most weight."""
        decisions = self.decision_function(X)
        if decisions.ndim == 1:
            return self.classes_[(decisions > 0).astype(int)]
        shares = getattr(self, "_shares", np.ones(len(self.classes_)))  # models of earlier versions have none
        alike = decisions == decisions.max(axis=1, keepdims=True)
        return self.classes_[np.where(alike, shares, -1.0).argmax(axis=1)]
