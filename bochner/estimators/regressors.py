"""``KernelRegressor``: ridge regression with a kernel that it learns."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import _check_y

from bochner.arrays import Array
from bochner.errors import InputError
from bochner.estimators.block_by_block import block_by_block, compared
from bochner.estimators.blocks import (
    as_source,
    comes_in_blocks,
    learned_in_blocks,
    travelling,
    weights_of,
)
from bochner.estimators.machine import KernelMachine
from bochner.estimators.validation import (
    all_or_nothing,
    beside_rows,
    check_lengths,
    on_host,
    refuse_missing_targets,
    refuse_text_targets,
)
from bochner.kernels import Kernel
from bochner.rows import Block
from bochner.standardise import ColumnSums, Standardiser
from bochner.uncertainty import relative_variances


def check_targets(estimator: Any, X: Array, y: Any) -> tuple[Array, bool]:
    """Targets (n, c) in float64, and whether they came as one column (n,)."""
    if y is None:
        raise InputError(f"{type(estimator).__name__} requires y to be passed, but the target y is None: give y.")
    y = on_host(y)
    refuse_missing_targets(y)
    refuse_text_targets(estimator, y)
    y = _check_y(y, multi_output=True, y_numeric=True, estimator=estimator)
    check_lengths(X, y, "y")
    return y.reshape(len(y), -1).astype(np.float64), y.ndim == 1


def targets_like_fit(estimator: Any, X: Array, y: Any) -> Array:
    """Targets (n, c) in float64 of further rows, shaped like those of fit."""
    targets, one_target = check_targets(estimator, X, y)
    expected = len(estimator._target_standardiser.spread)
    if one_target != estimator._one_target or targets.shape[1] != expected:
        shape = "(n,)" if estimator._one_target else f"(n, {expected})"
        raise InputError(f"y must have the shape {shape} of the y that fit was given, got {np.shape(y)}: reshape it.")
    return targets


def r_squared(estimator: Any, X: Any, y: Any, sample_weight: Any) -> float:
    """The share of the variance of y that an estimator predicts; X may be rows in blocks."""
    if comes_in_blocks(X):
        y, predictions, sample_weight = compared(estimator, as_source(X, y, sample_weight))
    else:
        predictions = estimator.predict(X)
    y, predictions, sample_weight = map(on_host, (y, predictions, sample_weight))
    return float(r2_score(y, predictions, sample_weight=sample_weight))


class TargetSums:
    """What a first pass over rows in blocks takes down of their targets."""

    def __init__(self, estimator: Any) -> None:
        self.estimator = travelling(estimator)
        self.one_target = True
        self.columns = ColumnSums(0)

    def see(self, block: Block) -> None:
        """One more block."""
        targets, self.one_target = check_targets(self.estimator, block.X, block.y)
        if not len(self.columns.mean):
            self.columns = ColumnSums(targets.shape[1])
        self.columns.add(targets, weights_of(block))

    def tell(self, estimator: Any) -> None:
        """Let an estimator know the shape of its targets and how to standardise them."""
        estimator._one_target = self.one_target
        estimator._target_standardiser = Standardiser.of_targets(self.columns)

    def __add__(self, other: TargetSums) -> TargetSums:
        """The sums over the rows of both."""
        total = copy(self)
        total.columns = self.columns + other.columns
        return total

    def state(self) -> dict[str, Array]:
        """What was taken down so far, to go on from with :meth:`restore`."""
        return {"one_target": np.array(self.one_target), **self.columns.state()}

    def restore(self, state: dict[str, Array]) -> None:
        """Take over what :meth:`state` gave."""
        self.one_target = bool(state["one_target"])
        self.columns = ColumnSums(len(state["mean"]))
        self.columns.restore({name: value for name, value in state.items() if name != "one_target"})


class KernelRegressor(RegressorMixin, MultiOutputMixin, KernelMachine):
    """Kernel ridge regression whose kernel is learned, at a cost linear in the number of rows (RFF-SKL).

    Random Fourier features approximate the kernel; its scales, one for each column, follow the gradient of the held-out
    error, and the ridge penalty is the best one for every kernel tried. The regression on the learned features minimises

        (1/W) sum_i w_i (phi_i . beta + b - y_i)^2 + alpha |beta|^2,    W = sum_i w_i,

    on standardised columns and targets; only ratios of the weights w count.

    Parameters
    ----------
    kernel : str, Kernel or list of them, default="auto"
        A name out of :data:`bochner.kernels.KERNELS`, a kernel object, or a list of names and objects: families that are
        tried at small size, the best of which by the criterion is kept. "auto" is Gaussian, Cauchy and Matérn 3/2; where
        metrics are learned, also Matérn 1/2. The scale of a kernel object is where learning starts; a name starts from the
        rows.
    n_features : int, default=None
        Number of random features, even. None: four for each row, at least 256 and at most 4000. Additive kernels have a
        number of their own.
    scale : "auto", "per-column", "shared" or array of shape (n_columns,), default="auto"
        Which columns share a scale: none, all, or those with the same entry, a whole number or a name. "auto": none;
        below 30 rows for each column none or all, whichever predicts rows better that its learning has not seen (see
        ``n_scales_``).
    metric : {"auto", "diagonal", "low-rank", "full"}, default="auto"
        What distances between rows depend on: a scale for each column ("diagonal", the paper), any directions ("full"), or
        few of them ("low-rank", see ``rank``). The last two see interactions of columns; they are learned from the gradients
        of fits on data centres. "auto": diagonal or full, whichever predicts rows better that its learning has not seen.
    rank : int or None, default=None
        Directions of a low-rank metric. None: as many as 99.9 % of the squared gradients lie in.
    metric_by : {"products", "gradient", "both"}, default="products"
        How a metric is learned: by outer products of the gradients of fits; by the gradient of the held-out error in the
        metric itself, which goes to a minimum that is near, and takes about three times as long; or by this after those.
    finish : {"auto", "fourier", "centres"}, default="auto"
        What the final regression is fitted on: random Fourier features, or kernels at data centres (Nyström), which are
        exact where all rows are centres. "auto" tries both on unseen rows; it is "fourier" with
        ``n_features`` or a learned ``spectrum``.
    n_centres : int or None, default=None
        Number of centres. None: all rows up to 10,000 (50,000 with effort="best"), fewer where rows are very many or
        memory is short.
    effort : {"fast", "default", "best"}, default="default"
        How much is tried where ``metric`` or ``finish`` is "auto". "fast" learns scales alone, on random features:
        metric="diagonal", finish="fourier", as every effort does where ``n_features`` or ``spectrum`` asks for features.
        "default" chooses among metrics and finishes, and is more accurate where columns work together or noise is low, for
        several times the time; "best" searches metrics on more rows and has more centres.
    spectrum : {"prior", "mixture", "free"}, default="prior"
        Where the frequencies of a final regression on random features come from: the law of the kernel; a mixture of four
        such laws, each with scales of its own; or each moves freely. The last two are learned after the kernel, held to its
        law by a penalty that unseen rows choose, and kept where these rows are clearly better predicted (see
        ``spectrum_``): fewer features then do as well, for several times the time.
    alpha : float, "per-target" or None, default=None
        Ridge penalty. None: the one of least held-out error for every kernel tried; "per-target": the same for each target
        by itself, not with criterion="loo"; a number stays as it is.
    criterion : {"auto", "kfold", "holdout", "loo"}, default="auto"
        Held-out error to learn by: of all folds in turn, of one part that is held out, or of every row left out in turn
        (in closed form; holds all features in memory). "auto" folds below 50,000 rows and holds out from there on.
    validation : int, float, splitter, list or tuple, default=None
        Number of folds (5), or fraction held out (0.2); either also decides what criterion="auto" means. Or a splitter of
        scikit-learn's kind, or a list of (training rows, validation rows): validation sets must not overlap, and each
        training set must be all the other rows. Or a set of your own, a tuple (X, y) or (X, y, sample_weight): it is only
        validated on, never fitted, and criterion must be "auto" or "holdout".
    scale_penalty : {"none", "squared", "sparse"}, default="none"
        Penalty on the scales of the standardised columns: the sum of their squares, or their sum, which drives those of
        useless columns to zero. It is part of the criterion in ``history_``, not of ``validation_error_``.
    scale_penalty_strength : float, default=1e-3
        Its strength, in units of the mean squared error of the standardised target.
    schedule : {"small-to-large", "full"}, default="small-to-large"
        Learn on few features and rows first (:func:`bochner.single_kernel.default_levels` says which), or at full size
        from the start (the paper).
    standardize : bool, default=True
        Bring the columns to zero mean and unit spread first; those of sparse rows to unit spread only. Kernels of histograms
        leave them as they are.
    sampling : str, default="auto"
        How frequencies are drawn, as in :class:`bochner.FourierFeatures`.
    keep_moments : bool, default=True
        Keep the sums over the training rows, a matrix of n_features squared, which ``partial_fit`` and ``return_std`` need.
    max_memory : float, str or None, default=None
        Most bytes that a fit may hold, as a number or text such as "2GB"; None: half of what is free. Rows that take more
        are gone over in blocks, and ``n_features=None`` takes as many features as there is room for.
    device : str or None, default=None
        Where to compute: "cuda" or "cuda:1", a GPU, or "cpu", all by PyTorch. None: on the host by NumPy; but on its GPU
        where X is a tensor of PyTorch's there. Rows are checked and standardised on the host, sparse ones become dense,
        and either all of them are copied to the device once or, where they do not fit, a block at a time in every pass.
        What is learned is kept in NumPy arrays. criterion="loo" and losses other than the squared one are computed on the
        host, and refuse a device.
    checkpoint : str, Path or None, default=None
        A folder (made if it is not there) in which a fit keeps what it has computed, so that one that is killed goes on and
        has the same result when it is started again with the same parameters and rows. Removed when the fit is done.
    warm_start : bool, default=False
        Start a second fit from the kernel of the first, at full size at once, if ``kernel`` is "auto" or has the family
        learned; another one is learned from its own start. Where metrics are learned, it is one start of several.
    tol : float, default=None
        Learning stops when a step promises to lower the criterion by less than this part of it. None: 1/n for n rows, which
        chance may do, but between 1e-4 and 1e-2; 1e-4 with a scale penalty.
    random_state : int, Generator or None, default=None
        Seed of frequencies and folds.
    verbose : int, default=0
        If not zero, say on standard error how far learning is: in one line on a terminal, else in one line for each level.
    callback : callable, default=None
        Called with a record of every evaluation while scales are learned, as it is kept in ``history_``.

    Attributes
    ----------
    kernel_ : Kernel
        The learned kernel, in the units of the data.
    scale_ : array of shape (n_columns,)
        Its scales.
    metric_ : array of shape (n_columns, n_columns)
        The learned metric M of standardised columns: distances are (x - z) M (x - z)'; see also :meth:`leading_directions`.
        Where the kernel sees directions alone (``kernel_.origin``), M and the scales count up to a factor.
    finish_ : str
        "fourier" or "centres".
    selection_ : list of dict
        What was compared on the way to kernel, metric and finish, in order: stage, kernel, start, metric, finish, size,
        error (mean squared, of the standardised target), alpha, seconds, and whether it was chosen. Empty where nothing was.
        With few rows the same are compared more than once, on other parts of them.
    spectrum_ : list of dict
        What was compared where frequencies were learned: spectrum, strength of the penalty, error on unseen rows, and
        whether it was chosen. Empty where they were not. ``kernel_`` is that of the law.
    relevance_ : array of shape (n_columns,)
        How much predictions change, in root mean square, where a column has the values of other rows, in units of the
        largest: zero for columns that do not count; see also :meth:`relevance_by_name`. Of more than 2000 columns, their
        scales in the same units.
    alpha_ : float, or array of shape (n_targets,)
        Ridge penalty; an array with alpha="per-target".
    validation_error_ : float
        Held-out mean squared error of the standardised target, over all rows that are validated.
    residual_deviation_ : array of shape (n_targets,)
        Root of the held-out mean squared error of each target, in its units.
    feature_map_ : FeatureMap
        From standardised rows to features.
    coef_, intercept_ : arrays of shapes (n_features, n_targets) and (n_targets,)
        The regression on the features, in the units of the targets, fitted on all rows (but not on a validation
        set of your own).
    moments_ : Moments or None
        Sums over the rows fitted so far; None with keep_moments=False, and where centres are many.
    families_ : dict
        The lowest criterion that each kernel family reached while scales were learned, and at which size.
    history_ : list of dict
        Every evaluation of the criterion while scales were learned, in order: kernel, n_features, n_rows, precision
        ("float64", or "float32"), level (counted from 1), criterion, gradient_norm (None where no step was to follow),
        alpha, seconds that learning scales had taken. Where several parts of few rows are set aside in turn, each has
        levels of its own.
    n_scales_ : int
        Number of scales that were learned freely: one for each column, one in all, or one for each group. With a metric,
        the number of columns.
    fit_seconds_ : float
        How long the fit took, and further rows with it.
    n_iter_, converged_
        Steps that the kept kernel took, and whether its last level ended by ``tol``. Of a kernel that ``selection_`` shows
        as chosen, steps are those of the scales the search started from, and all that has to converge is the regression.

    Notes
    -----
    Rows of float32 are learned from in float32, sums over them are kept in float64; from the first penalty below 1e-6 on,
    which sums of float32 products cannot carry, a level goes on in float64. All else is float64. Ctrl-C ends learning
    early, with a warning: the best kernel so far is fitted on all rows.

    Examples
    --------
    >>> from bochner import KernelRegressor
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KernelRegressor("gaussian", random_state=0).fit(X[:300], y[:300])
    >>> bool(model.score(X[300:], y[300:]) > 0.4)
    True
    """

    def __init__(
        self,
        kernel: str | Kernel | Sequence[str | Kernel] = "auto",
        *,
        n_features: int | None = None,
        scale: Any = "auto",
        metric: str = "auto",
        rank: int | None = None,
        metric_by: str = "products",
        finish: str = "auto",
        n_centres: int | None = None,
        effort: str = "default",
        spectrum: str = "prior",
        alpha: float | str | None = None,
        criterion: str = "auto",
        validation: Any = None,
        scale_penalty: str = "none",
        scale_penalty_strength: float = 1e-3,
        schedule: str = "small-to-large",
        standardize: bool = True,
        sampling: str = "auto",
        keep_moments: bool = True,
        max_memory: float | str | None = None,
        device: str | None = None,
        checkpoint: str | Path | None = None,
        warm_start: bool = False,
        tol: float | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callback: Any = None,
    ) -> None:
        self.kernel = kernel
        self.n_features = n_features
        self.scale = scale
        self.metric = metric
        self.rank = rank
        self.metric_by = metric_by
        self.finish = finish
        self.n_centres = n_centres
        self.effort = effort
        self.spectrum = spectrum
        self.alpha = alpha
        self.criterion = criterion
        self.validation = validation
        self.scale_penalty = scale_penalty
        self.scale_penalty_strength = scale_penalty_strength
        self.schedule = schedule
        self.standardize = standardize
        self.sampling = sampling
        self.keep_moments = keep_moments
        self.max_memory = max_memory
        self.device = device
        self.checkpoint = checkpoint
        self.warm_start = warm_start
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    @all_or_nothing
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from rows X (n, m) and targets y (n,) or (n, c), with weights (n,) if given.

        X may be rows in blocks, with their targets and weights: see :func:`bochner.open_rows`. Or X, y and the weights are
        collections of Dask's, and learned from on its cluster.
        """
        if learned_in_blocks(X, self.max_memory):
            learned = self._learn_source(as_source(X, y, sample_weight), TargetSums(self))
        else:
            X, weights = self._check_fit_rows(X, sample_weight)
            targets, self._one_target = check_targets(self, X, y)
            learned = self._learn(X, y, targets, weights)
        held_out = learned.held_out
        share = held_out.rows.weights / held_out.rows.weights.sum()
        square = share @ (held_out.predictions - held_out.rows.targets) ** 2
        self.residual_deviation_ = np.sqrt(square) * self._target_standardiser.spread
        self._warn_if_interrupted(learned.descent)
        return self

    @all_or_nothing
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Add rows to a fitted model: the kernel, its features and the penalty stay, the normal equations grow.

        The first call is a fit, on random features unless ``finish`` is "centres". Needs ``keep_moments``. X may be rows in
        blocks, as in ``fit``.
        """
        if not hasattr(self, "feature_map_"):
            with self._keeping_sums():
                return self.fit(X, y, sample_weight)
        self._grow(X, y, sample_weight)
        return self

    @block_by_block
    @beside_rows
    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predicted targets of the rows X (n, m): (n,) or (n, c) as in fit.

        With ``return_std`` also the standard deviation of a new observation at each row, shaped like the predictions: that
        of the noise, from the held-out error, and that of the coefficients, which grows away from the training rows. Results
        are NumPy arrays, but tensors where X is one on a GPU.
        """
        X = self._check_seen_rows(X)
        outputs = self._outputs(X)
        predictions = outputs[:, 0] if self._one_target else outputs
        if not return_std:
            return predictions
        deviations = self._deviations(X)
        return predictions, deviations[:, 0] if self._one_target else deviations

    @property
    def knows_deviations(self) -> bool:
        """Whether predictions have standard deviations: the model has kept what they are made from."""
        return self.moments_ is not None or self._few_centres is not None

    def _deviations(self, X: Array) -> Array:
        """Standard deviations (n, c) of new observations, in the units of the targets."""
        feature_map, sums = self._few_centres or (self.feature_map_, self.moments_)
        if sums is None:
            raise InputError(
                "return_std needs the sums over the training rows: fit with keep_moments=True, and save a model that is to "
                "keep them with compact=False."
            )
        rows = self._standardised(on_host(X))
        alphas = np.broadcast_to(self.alpha_, len(self.residual_deviation_))
        result = np.empty((rows.shape[0], len(alphas)))
        for alpha in np.unique(alphas):
            relative = np.sqrt(relative_variances(feature_map, rows, sums, float(alpha)))
            result[:, alphas == alpha] = relative[:, None] * self.residual_deviation_[alphas == alpha]
        return result

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The share of the variance of y that is predicted (R squared), as in scikit-learn; X may be rows in blocks."""
        return r_squared(self, X, y, sample_weight)

    def _targets_of(self, X: Array, y: Any) -> Array:
        return targets_like_fit(self, X, y)

    def _prepare_targets(self, sums: TargetSums) -> None:
        sums.tell(self)
