"""``MultipleKernelRegressor``, ``MultipleKernelClassifier``: many kernels, of which group lasso keeps those that count."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin

from bochner.arrays import Array
from bochner.calibration import SoftmaxCalibration
from bochner.estimators.block_by_block import block_by_block
from bochner.estimators.blocks import as_source, mapped_in_blocks
from bochner.estimators.classifiers import KernelClassifier
from bochner.estimators.labels import ClassSums, ScoreClassifier, check_labels, labels_beside
from bochner.estimators.multiple_machine import MultipleKernelMachine
from bochner.estimators.regressors import KernelRegressor, TargetSums, check_targets, r_squared, targets_like_fit
from bochner.estimators.validation import all_or_nothing, beside_rows, check_option, check_weights
from bochner.folds import HeldOut
from bochner.losses import LOSSES, EpsilonLogistic, Loss
from bochner.standardise import Standardiser, column_sums


class MultipleKernelRegressor(RegressorMixin, MultiOutputMixin, MultipleKernelMachine):
    """Regression on the features of many kernels, of which group lasso keeps those that count (RFF-GL).

    The features of kernel t on its own columns are F_t; the coefficients minimise

        mean loss(y, sum_t F_t w_t + b) + alpha (l1_ratio sum_t eta_t |w_t| + (1 - l1_ratio) |w|^2),

    with alpha and l1_ratio chosen on held-out rows. Kernels with w_t = 0 are out.

    Parameters
    ----------
    kernels : "auto", str, Kernel, list or dict, default="auto"
        For one table: triples ``("name", kernel, columns)`` with columns as in ColumnTransformer; or a list of kernels on
        all columns. For a list or dict of views as X: one kernel for all views, one for each, or triples with the name or
        number of a view. Rows in blocks are one table, with columns by name or number. "auto" is a dictionary of families
        and widths on all columns (or on each view), and on each column by itself where they are at most 20, or on groups of
        columns whose names begin with the same word.
    loss : {"squared", "epsilon-logistic"}, default="squared"
        "epsilon-logistic" is a smooth epsilon-insensitive loss: none within epsilon of the target, and nearly the distance
        beyond, the bend between them being 1 / gamma wide; both in units of standardised targets.
    epsilon, gamma : float
        Those of loss="epsilon-logistic".
    n_features : int or list of int, optional
        Random features of each kernel, one number or one for each of them; by default as many as make 4000 in all, or four
        for each row where these are fewer, at least 50 and at most 2000. Where some kernels turn out to be out, the others
        share their features, and weights are learned once more. With kernels="auto" it is 1000 in all at first, and then
        2000. Up to 4000 rows, with the squared loss and a refit, the last ridge regression has two features of each kernel
        for each row, if memory allows, which make it next to exact; weights of kernels other than "auto" are then learned on
        half as many as above, unless more cost nothing.
    n_coordinates : int, optional
        Where rows are in memory and a kernel has at least 1.2 features for each, coordinates of the rows take the place of
        its features in all that is solved: by default one for each row, by which nothing is lost, or at most so many, those
        of the first principal directions of the features. With them, many features of some thousand rows cost little more
        than few; the model is one on the features all the same.
    scale : {"median", "given", "learned", "learned-per-column"}, default="median"
        Scales of kernels that come as names: the median heuristic, the kernel's default, or single-kernel learning on its
        own columns, of one scale for all of them or one for each (with kernels="auto": one kernel on all columns or on each
        view, its family learned too). Kernels that come as objects keep their own. Scales are learned from all rows, so that
        held-out errors are optimistic afterwards, those of a scale for each column the most.
    alpha : float, optional
        The penalty; by default chosen on held-out rows among ``n_alphas`` from the smallest that keeps every kernel out
        down to ``smallest`` of it. It is in units of standardised targets.
    l1_ratio : float, list or "auto", default="auto"
        The share of the group penalty, or several to choose from; "auto" is 1 and 0, the plain average of the kernels, or 1
        where alpha is given.
    n_alphas, smallest : int, float
        How many penalties are tried, and the smallest of them as a part of the largest. Where the held-out error still falls
        there, by more than 1 % in three penalties, smaller ones follow with the same spacing, down to ``smallest**2``
        (for the squared loss only).
    penalty_weights : list or dict, optional
        eta, the penalty of each kernel relative to the others.
    shared_weights : bool, default=True
        Whether a kernel is in or out for all targets together.
    selection : {"best", "one-standard-error"}, default="best"
        The fewest kernels within 1 % of the least held-out error, or within one standard error of it.
    refit : {"auto", "ridge", "weighted", "joint", "learned", None, False}, default="auto"
        Fit the chosen kernels again by ridge regression, which does not shrink kernels against each other: on their plain
        sum ("ridge"), on their sum weighted by d_t ("weighted"), on one kernel of all their columns ("joint", of radial
        kernels of one family; of Gaussian kernels it is their product; where l1_ratio is "auto", also of all kernels, if
        that is clearly better, less those that are not missed), never, or as held-out rows say. "learned" is ridge
        regression on the kernels of least held-out error, with weights that are learned by the gradient of that error: it
        takes their weight from kernels which fit rows that they have seen and not others. "auto" does not try it. For the
        squared loss only. Where rows are few, it is done once more on more features (see ``n_features``).
    validation : int, float, splitter, tuple or None, default=None
        Number of folds, the part of the rows to hold out, a splitter of scikit-learn such as GroupKFold or a list of pairs
        (fitted, validated) of row numbers, or a set of your own, (X, y) or (X, y, sample_weight), on which nothing is
        fitted; five folds by default, a fifth of the rows from 50,000 on.
    standardize, sampling, random_state
        As in :class:`bochner.KernelRegressor`.
    tol, max_iter : float, int
        The duality gap of the model that is kept, as a part of its objective (a thousandth is enough where penalties are
        compared), and most rounds of the solver.
    max_memory : float, str or None, default=None
        Bytes for matrices of all pairs of features, as a number or text such as "2GB"; None: half of what is free. Fit
        refuses more features than that, and keeps those of all rows, if the loss needs them, where there is room. Rows in
        files that are mapped to memory (numpy.memmap) are gone over in blocks where they take more; rows in blocks always
        are: their scales come from a sample, and held-out predictions are those of the sample. With another loss than the
        squared one they are read into memory where there is room; where there is none, their scores must still fit.
    device : str or None, default=None
        Where moments and predictions are computed: "cuda", "cuda:1" or "cpu" by PyTorch, None by NumPy on the host. The
        paths of penalties are followed on the host. For loss="squared" only.
    checkpoint : str, Path or None, default=None
        A folder in which a fit on rows in blocks keeps the sums of its passes, so that one that is killed goes on and has
        the same result when it is started again with the same parameters and rows (one on rows in memory begins anew, with
        the same seed). Removed when the fit is done.
    verbose : int, default=0
        1 shows progress on the standard error stream.

    Attributes
    ----------
    kernel_names_ : array of shape (n_kernels,)
    kernel_weights_ : array of shape (n_kernels, 1) or (n_kernels, n_targets)
        d_t = |w_t| / 2^(1/2) of the group lasso; zero for kernels that are out. In units of the target, or of standardised
        targets where several share their weights. Where all kernels are joined to one, each has the weight of that one.
    explained_variance_ : array of shape (n_kernels, n_targets)
        The share of the variance of the predictions that comes from each kernel; shares sum to one.
    alpha_, l1_ratio_, refit_, refit_alpha_
        What was chosen; the last two are None without a refit.
    duality_gap_ : array
        How far the group lasso is from its minimum at most.
    path_ : GroupLassoPath or None
        The penalties that were tried, on all rows, in units of standardised targets: the chosen one to ``tol``, the others
        roughly. Its coefficients are of the features that weights were learned on, of which a refit may have others (one
        joint kernel, or more of each). None where plain averaging, or one kernel in place of all, won.
    trials_ : list of dict
        The held-out error of everything that was tried.
    validation_error_ : float
        The least of those errors: the mean loss of held-out rows (and of targets, if squared), in units of standardised
        targets; the mean over folds.
    kernels_, feature_map_
        All kernels with their scales, in units of the data; and the random features that ``coef_`` belongs to: of all of
        them, of those that are in, or of one joint kernel.
    coef_, intercept_ : arrays of shape (n_stacked_features, n_targets) and (n_targets,)
    n_iter_, converged_ : int, bool
        Rounds of the solver on all rows, and whether the model that is kept is as exact as ``tol`` asks for.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from bochner import MultipleKernelRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> kernels = [("body", "gaussian", [0, 1, 2, 3]), ("blood", "gaussian", slice(4, 10))]
    >>> model = MultipleKernelRegressor(kernels, n_features=50, random_state=0).fit(X, y)
    >>> sorted(model.kernel_weights_by_name())
    ['blood', 'body']
    """

    _learner = KernelRegressor
    _for_classes = "bochner.MultipleKernelClassifier"

    def __init__(
        self,
        kernels: Any = "auto",
        *,
        loss: str = "squared",
        epsilon: float = 0.1,
        gamma: float = 10.0,
        n_features: int | Sequence[int] | None = None,
        n_coordinates: int | None = None,
        scale: str = "median",
        alpha: float | None = None,
        l1_ratio: Any = "auto",
        penalty_weights: Any = None,
        shared_weights: bool = True,
        n_alphas: int = 20,
        smallest: float = 1e-3,
        selection: str = "best",
        refit: Any = "auto",
        validation: Any = None,
        standardize: bool = True,
        sampling: str = "auto",
        tol: float = 1e-5,
        max_iter: int = 100,
        max_memory: float | str | None = None,
        device: str | None = None,
        checkpoint: str | Path | None = None,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.kernels = kernels
        self.loss = loss
        self.epsilon = epsilon
        self.gamma = gamma
        self.n_features = n_features
        self.n_coordinates = n_coordinates
        self.scale = scale
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.penalty_weights = penalty_weights
        self.shared_weights = shared_weights
        self.n_alphas = n_alphas
        self.smallest = smallest
        self.selection = selection
        self.refit = refit
        self.validation = validation
        self.standardize = standardize
        self.sampling = sampling
        self.tol = tol
        self.max_iter = max_iter
        self.max_memory = max_memory
        self.device = device
        self.checkpoint = checkpoint
        self.verbose = verbose
        self.random_state = random_state

    @all_or_nothing
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from rows X, a table (n, m) or views, and targets y (n,) or (n, c), with weights (n,) if given.

        X may be rows in blocks, with their targets and weights (:func:`bochner.open_rows`), or X, y and the weights
        collections of Dask's.
        """
        if mapped_in_blocks(X, self.max_memory):
            self._learn_source(as_source(X, y, sample_weight), TargetSums(self))
        else:
            parts = self._resolve(X)
            weights = check_weights(sample_weight, parts[0])
            targets, self._one_target = check_targets(self, parts[0], y)
            self._learn(parts, y, targets, weights)
        self._warn_if_rough()
        return self

    @block_by_block
    @beside_rows
    def predict(self, X: Any) -> Array:
        """Predicted targets of rows like those of fit, which may come in blocks: (n,) or (n, c)."""
        outputs = self._outputs(X)
        return outputs[:, 0] if self._one_target else outputs

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The share of the variance of y that is predicted (R squared), as in scikit-learn; X may be rows in blocks."""
        return r_squared(self, X, y, sample_weight)

    def _prepare_targets(self, sums: TargetSums) -> None:
        sums.tell(self)

    def _targets_of(self, X: Array, y: Any) -> tuple[Array, Array]:
        return targets_like_fit(self, X, y), np.ones(X.shape[0])

    def _loss(self) -> Loss | None:
        return None if self.loss == "squared" else EpsilonLogistic(epsilon=self.epsilon, gamma=self.gamma)

    def _standardise_targets(self, targets: Array, weights: Array) -> Standardiser:
        return Standardiser.of_targets(column_sums(targets, weights))

    def _check_choices(self) -> None:
        super()._check_choices()
        check_option("loss", self.loss, ("squared", "epsilon-logistic"))


class MultipleKernelClassifier(ScoreClassifier, MultipleKernelMachine):
    """Classification on the features of many kernels, of which group lasso keeps those that count (RFF-GL).

    Every class against the rest with the squared or the logistic loss, or all at once with the multinomial one. The squared
    loss takes one pass over the rows for all classes, the others as many as their solver takes steps. Probabilities come
    from a softmax that is fitted on held-out decisions.

    Parameters
    ----------
    loss : {"squared", "logistic", "multinomial"}, default="squared"
        The loss to fit and to validate by.
    shared_weights : bool, default=True
        Whether a kernel is in or out for all classes together; False: a weight for each kernel and class.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes.
    kernels, n_features, scale, alpha, ... : see MultipleKernelRegressor
        All other parameters are those of :class:`bochner.MultipleKernelRegressor`.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    kernel_weights_ : array of shape (n_kernels, 1) or (n_kernels, n_classes), one column for two classes
        (the multinomial loss has two)
    kernel_names_, kernels_, explained_variance_, alpha_, l1_ratio_, refit_, refit_alpha_, duality_gap_, path_, trials_, ...
        As in :class:`bochner.MultipleKernelRegressor`.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from bochner import MultipleKernelClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> kernels = [("first", "gaussian", slice(0, 6)), ("rest", "gaussian", slice(6, 13))]
    >>> model = MultipleKernelClassifier(kernels, n_features=50, random_state=0).fit(X[::2], y[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.9)
    True
    """

    _learner = KernelClassifier

    def __init__(
        self,
        kernels: Any = "auto",
        *,
        loss: str = "squared",
        n_features: int | Sequence[int] | None = None,
        n_coordinates: int | None = None,
        scale: str = "median",
        alpha: float | None = None,
        l1_ratio: Any = "auto",
        penalty_weights: Any = None,
        shared_weights: bool = True,
        n_alphas: int = 20,
        smallest: float = 1e-3,
        selection: str = "best",
        refit: Any = "auto",
        validation: Any = None,
        standardize: bool = True,
        sampling: str = "auto",
        class_weight: Any = None,
        tol: float = 1e-5,
        max_iter: int = 100,
        max_memory: float | str | None = None,
        device: str | None = None,
        checkpoint: str | Path | None = None,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.kernels = kernels
        self.loss = loss
        self.n_features = n_features
        self.n_coordinates = n_coordinates
        self.scale = scale
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.penalty_weights = penalty_weights
        self.shared_weights = shared_weights
        self.n_alphas = n_alphas
        self.smallest = smallest
        self.selection = selection
        self.refit = refit
        self.validation = validation
        self.standardize = standardize
        self.sampling = sampling
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.max_memory = max_memory
        self.device = device
        self.checkpoint = checkpoint
        self.verbose = verbose
        self.random_state = random_state

    @all_or_nothing
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from rows X, a table (n, m) or views, and labels y (n,), with weights (n,) if given.

        X may be rows in blocks, with their labels and weights (:func:`bochner.open_rows`), or X, y and the weights
        collections of Dask's.
        """
        if mapped_in_blocks(X, self.max_memory):
            source = as_source(X, y, sample_weight)
            learned = self._learn_source(source, ClassSums(self, labels_beside(self, X, y)))
        else:
            parts = self._resolve(X)
            weights = check_weights(sample_weight, parts[0])
            self.classes_, labels = np.unique(check_labels(self, parts[0], y), return_inverse=True)
            self._class_weights = self._weights_of_classes(np.bincount(labels[weights > 0], minlength=len(self.classes_)))
            weights = weights * self._class_weights[labels]
            learned = self._learn(parts, y, self._indicators(labels), weights)
            self._keep_loss_of_shares(np.bincount(labels, weights, minlength=len(self.classes_)))
        self.calibration_ = SoftmaxCalibration.fit(*self._decisions(learned.held_out), learned.held_out.rows.weights)
        self._warn_if_rough()
        return self

    def _scores(self, X: Any) -> Array:
        return self._columns_of(self._outputs(X))

    def _targets_of(self, X: Array, y: Any) -> tuple[Array, Array]:
        labels = self._numbers_of(check_labels(self, X, y))
        return self._indicators(labels), self._class_weights[labels]

    def _decisions(self, held_out: HeldOut) -> tuple[Array, Array]:
        """Decision values (n, k) and classes (n,) of held-out rows."""
        scores, targets = (self._columns_of(values) for values in (held_out.predictions, held_out.rows.targets))
        return scores.astype(np.float64), targets.argmax(axis=1)

    def _losses(self, held_out: HeldOut) -> Array:
        """One where the class is told wrongly."""
        scores, classes = self._decisions(held_out)
        return (scores.argmax(axis=1) != classes).astype(np.float64)

    def _loss(self) -> Loss | None:
        return None if self.loss == "squared" else LOSSES[self.loss]

    def _check_choices(self) -> None:
        super()._check_choices()
        check_option("loss", self.loss, ("squared", *LOSSES))
