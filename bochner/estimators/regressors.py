"""``KernelRegressor``: ridge regression with a kernel that it learns."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import _check_y, check_consistent_length

from bochner.arrays import Array
from bochner.estimators.machine import KernelMachine


def check_targets(estimator: Any, X: Array, y: Any) -> tuple[Array, bool]:
    """Targets (n, c) in float64, and whether they came as one column (n,)."""
    if y is None:
        raise ValueError(f"{type(estimator).__name__} requires y to be passed, but the target y is None.")
    y = _check_y(y, multi_output=True, y_numeric=True, estimator=estimator)
    check_consistent_length(X, y)
    return y.reshape(len(y), -1).astype(np.float64), y.ndim == 1


class KernelRegressor(RegressorMixin, MultiOutputMixin, KernelMachine):
    """Kernel ridge regression whose kernel is learned, at a cost linear in the number of rows (RFF-SKL).

    Random Fourier features approximate the kernel; its scales, one for each column, follow the gradient of the held-out
    error, and the ridge penalty is the best one for every kernel tried. Columns are standardised inside.

    Parameters
    ----------
    kernel : str or Kernel, default="auto"
        A name out of :data:`bochner.kernels.KERNELS`, a kernel object, or "auto": several families are tried at small size
        and the best by the criterion is kept (see ``families_``): Gaussian, Cauchy and Matérn 3/2. The scale of a kernel
        object is where learning starts; a name starts from the rows.
    n_features : int, default=None
        Number of random features, even. None: four for each row, at least 256 and at most 4000.
    scale : "per-column", "shared" or array of shape (n_columns,), default="per-column"
        Which columns share a scale: none, all, or those with the same entry.
    criterion : {"auto", "kfold", "holdout", "loo"}, default="auto"
        Held-out error to learn by: of all folds in turn, of one part that is held out, or of every row left out in turn
        (in closed form; holds all features in memory). "auto" folds up to 50,000 rows.
    validation : int or float, default=None
        Number of folds (5), or fraction held out (0.2); either also decides what criterion="auto" means.
    scale_penalty : {"none", "squared", "sparse"}, default="none"
        Penalty on the scales: their squares, or their sum, which drives those of useless columns to zero.
    scale_penalty_strength : float, default=1e-3
        Its strength, in units of the mean squared error of the standardised target.
    schedule : {"small-to-large", "full"}, default="small-to-large"
        Learn on few features and rows first, or at full size from the start (the paper).
    standardize : bool, default=True
        Bring the columns to zero mean and unit spread first. Kernels of histograms leave them as they are.
    sampling : str, default="auto"
        How frequencies are drawn, as in :class:`bochner.FourierFeatures`.
    tol : float, default=1e-4
        Learning stops when a step promises to lower the criterion by less than this part of it.
    random_state : int, Generator or None, default=None
        Seed of frequencies and folds.
    callback : callable, default=None
        Called with a record of every evaluation of the criterion, as it is kept in ``history_``.

    Attributes
    ----------
    kernel_ : Kernel
        The learned kernel, in the units of the data.
    scale_ : array of shape (n_columns,)
        Its scales.
    relevance_ : array of shape (n_columns,)
        Scales of the standardised columns, the largest one; see also :meth:`relevance_by_name`.
    alpha_ : float
        Ridge penalty.
    validation_error_ : float
        Held-out mean squared error of the standardised target.
    families_ : dict
        The best criterion that each kernel family reached, and at which size.
    history_ : list of dict
        Every evaluation of the criterion: kernel, sizes, criterion, gradient norm, penalty, seconds.
    n_iter_, converged_
        Steps taken, and whether the last level ended by ``tol``.

    Examples
    --------
    >>> from bochner import KernelRegressor
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KernelRegressor("gaussian", random_state=0).fit(X[:300], y[:300])
    >>> bool(model.score(X[300:], y[300:]) > 0.4)
    True
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from rows X (n, m) and targets y (n,) or (n, c), with weights (n,) if given."""
        X, weights, used = self._check_fit_rows(X, sample_weight)
        targets, self._one_target = check_targets(self, X, y)
        if not used.all():
            X, targets, weights = X[used], targets[used], weights[used]
        self._learn(X, targets, weights)
        return self

    def predict(self, X: Any) -> Array:
        """Predicted targets of the rows X (n, m): (n,) or (n, c) as in fit."""
        decisions = self._decide(X)
        return decisions[:, 0] if self._one_target else decisions
