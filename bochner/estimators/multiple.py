"""``MultipleKernelRegressor``, ``MultipleKernelClassifier``: many kernels, of which group lasso keeps those that count."""

from __future__ import annotations

import numbers
import reprlib
import warnings
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from bochner.arrays import Array, dense, fetch, is_foreign
from bochner.calibration import SoftmaxCalibration
from bochner.engines import predict
from bochner.estimators.classifiers import KernelClassifier
from bochner.estimators.folds import cut_rows, is_splitter, split_rows
from bochner.estimators.labels import ScoreClassifier, check_labels
from bochner.estimators.regressors import KernelRegressor, check_targets
from bochner.estimators.validation import all_or_nothing, as_generator, check_option, check_weights
from bochner.estimators.views import is_views, resolve
from bochner.features import FeatureChoices, StackedMap, build_map
from bochner.folds import Folds, Rows
from bochner.kernels import KERNELS, Kernel, get_kernel
from bochner.kernels.bandwidth import median_scale
from bochner.losses import LOSSES, EpsilonLogistic, Loss
from bochner.multiple_kernel import LearnedWeights, WeightChoices, learn_weights
from bochner.standardise import Standardiser

AUTO_FAMILIES, AUTO_FACTORS = ("gaussian", "matern32"), (0.5, 1.0, 2.0)
"""Kernels that kernels="auto" tries on all columns, and on every view: families, and multiples of the median scale."""
AUTO_COLUMNS = 20
"""Most columns of a table of which kernels="auto" gives each a kernel of its own."""
MOST_FEATURES, FEWEST_EACH, MOST_EACH = 4000, 50, 500
"""Features of all kernels together, and of each, where nobody says how many."""
SAMPLE_ROWS = 256
AUTO_RATIOS = (1.0, 0.0)
SCALES = ("median", "given", "learned")


class MultipleKernelMachine(BaseEstimator):
    """A linear model on the stacked features of many kernels, of which group lasso chooses some."""

    kernels: Any
    loss: str
    n_features: int | None
    scale: str
    alpha: float | None
    l1_ratio: Any
    penalty_weights: Any
    shared_weights: bool
    n_alphas: int
    smallest: float
    selection: str
    refit: Any
    validation: Any
    standardize: bool
    sampling: str
    tol: float
    max_iter: int
    random_state: Any

    # -- fitting ------------------------------------------------------------------------------------------------------

    def _learn(self, parts: list[Array], X: Any, y: Any, targets: Array, weights: Array) -> LearnedWeights:
        """Learn from the rows (n, m_t) of each kernel, targets (n, c) made from y, and weights (n,)."""
        rng = as_generator(self.random_state)
        used = weights > 0
        parts = [part if used.all() else part[used] for part in parts]
        weights = weights[used] / weights[used].mean()
        self._standardisers = [self._standardiser(part, kernel, weights) for part, kernel in self._with_kernels(parts)]
        self._target_standardiser = self._standardise_targets(targets[used], weights)
        stacked = self._stacked(parts)
        kernels = self._scaled(parts, y, used, rng)
        self.feature_map_ = self._build(kernels, rng)
        rows = Rows(stacked, self._target_standardiser(targets[used]), weights)
        learned = learn_weights(
            self._folds(rows, rng, X, y, used), self.feature_map_, self._choices(len(kernels)), loss=self._loss()
        )
        self._keep(learned, kernels)
        return learned

    def _resolve(self, X: Any) -> list[Array]:
        """The rows of each kernel, checked; the kernels become fitted attributes."""
        self._check_choices()
        automatic = isinstance(self.kernels, str) and self.kernels == "auto"
        kernels, self._factors = (self.kernels, []) if not automatic else _dictionary(X, learned=self.scale == "learned")
        self._views, parts = resolve(self, X, kernels)
        self.kernel_names_ = np.array(self._views.names, dtype=object)
        return [_on_host(part) for part in parts]

    def _with_kernels(self, parts: list[Array]) -> zip[tuple[Array, Kernel]]:
        return zip(parts, self._views.kernels, strict=True)

    def _standardiser(self, part: Array, kernel: Kernel, weights: Array) -> Standardiser:
        as_they_are = not self.standardize or np.isfinite(kernel.lower)
        return Standardiser.identity(part.shape[1]) if as_they_are else Standardiser.of(part, weights)

    def _stacked(self, parts: list[Array]) -> Array:
        """The standardised rows of all kernels side by side."""
        rows = [standardiser(part) for standardiser, part in zip(self._standardisers, parts, strict=True)]
        if all(sparse.issparse(part) for part in rows):
            return sparse.hstack(rows, format="csr")
        dtype = np.result_type(*(part.dtype for part in rows))
        return np.concatenate([dense(part) for part in rows], axis=1).astype(dtype, copy=False)

    def _scaled(self, parts: list[Array], y: Any, used: Array, rng: np.random.Generator) -> list[Kernel]:
        """The kernels of standardised rows, each with its scale."""
        factors = self._factors or [1.0] * len(parts)
        kernels = []
        for number, (part, given) in enumerate(zip(parts, self._views.parts, strict=True)):
            standardiser, kernel = self._standardisers[number], given.kernel
            if given.given or self.scale == "given":
                kernels.append(kernel.replace(scale=kernel.scales(part.shape[1]) * standardiser.spread))
            elif self.scale == "learned":
                kernels.append(self._learned_kernel(kernel, part, np.asarray(y)[used], standardiser, rng))
            elif kernel.has_bandwidth:
                sample = dense(standardiser(part[rng.permutation(part.shape[0])[:SAMPLE_ROWS]])).astype(np.float64)
                kernels.append(kernel.replace(scale=factors[number] * median_scale(kernel, sample)))
            else:
                kernels.append(kernel)
        return kernels

    def _learned_kernel(
        self, kernel: Kernel, part: Array, y: Array, standardiser: Standardiser, rng: np.random.Generator
    ) -> Kernel:
        """A kernel learned on its own columns by single-kernel learning."""
        kind = KernelClassifier if isinstance(self, ScoreClassifier) else KernelRegressor
        family = "auto" if isinstance(self.kernels, str) and self.kernels == "auto" else _name_of(kernel)
        model = kind(family, n_features=self.n_features, standardize=self.standardize, random_state=int(rng.integers(2**31)))
        learned = model.fit(part, y).kernel_
        return learned.replace(scale=np.asarray(learned.scale) * standardiser.spread)

    def _build(self, kernels: list[Kernel], rng: np.random.Generator) -> StackedMap:
        """Random features of every kernel, side by side."""
        each = self.n_features
        if each is None:
            each = int(np.clip(MOST_FEATURES // len(kernels) // 2 * 2, FEWEST_EACH, MOST_EACH))
        maps = []
        for kernel, standardiser in zip(kernels, self._standardisers, strict=True):
            size = None if kernel.geometry == "additive" else each
            choices = FeatureChoices(n_features=size, sampling=self.sampling)
            maps.append(build_map(kernel, len(standardiser.spread), choices, rng))
        return StackedMap(tuple(maps))

    def _folds(self, rows: Rows, rng: np.random.Generator, X: Any, y: Any, used: Array) -> Folds:
        if is_splitter(self.validation):
            return split_rows(rows, rng, self.validation, np.zeros(len(used)), y, used)
        return cut_rows(rows, rng, "auto", self.validation)

    def _choices(self, n_kernels: int) -> WeightChoices:
        """What the search for weights is told."""
        weights = np.ones(n_kernels) if self.penalty_weights is None else self._penalty_weights(n_kernels)
        ratios = tuple(np.atleast_1d(self.l1_ratio).astype(float)) if not isinstance(self.l1_ratio, str) else AUTO_RATIOS
        if isinstance(self.l1_ratio, str) and self.alpha is not None:
            ratios = AUTO_RATIOS[:1]  # one number cannot be the penalty of both
        refits = {"auto": (False, True), "ridge": (True,), None: (False,)}[self.refit]
        return WeightChoices(
            weights=weights,
            shared=bool(self.shared_weights),
            alpha=None if self.alpha is None else float(self.alpha),
            l1_ratios=ratios,
            n_alphas=self.n_alphas,
            smallest=self.smallest,
            one_standard_error=self.selection == "one-standard-error",
            refits=refits if self._loss() is None else (False,),
            tol=self.tol,
            max_iter=self.max_iter,
        )

    def _penalty_weights(self, n_kernels: int) -> Array:
        """The penalty of each kernel, from a list in their order or a dict by name."""
        given = self.penalty_weights
        if isinstance(given, dict):
            unknown = sorted(set(given) - set(self.kernel_names_))
            if unknown:
                raise ValueError(
                    f"penalty_weights names the kernel {unknown[0]!r}, which is not one of {self.kernel_names_.tolist()}."
                )
            given = [given.get(name, 1.0) for name in self.kernel_names_]
        weights = np.asarray(given, dtype=np.float64)
        if weights.shape != (n_kernels,) or not (np.isfinite(weights).all() and np.all(weights > 0)):
            raise ValueError(
                f"penalty_weights must be a positive number for each of the {n_kernels} kernels, in their order or by name, "
                f"got {reprlib.repr(self.penalty_weights)}."
            )
        return weights

    def _loss(self) -> Loss | None:
        """The loss, or None for the squared one."""
        raise NotImplementedError

    def _standardise_targets(self, targets: Array, weights: Array) -> Standardiser:
        """Targets of zero mean and unit spread, unless they are classes."""
        return Standardiser.identity(targets.shape[1])

    def _keep(self, learned: LearnedWeights, kernels: list[Kernel]) -> None:
        """What was learned, as fitted attributes in the units of the data."""
        spread = self._target_standardiser.spread
        self.coef_ = learned.coef * spread
        self.intercept_ = self._target_standardiser.undo(learned.intercept)
        unit = spread if learned.norms.shape[1] == len(spread) else np.ones(1)
        self.kernel_weights_ = learned.norms * unit / np.sqrt(2)
        self.kernels_ = [
            kernel.replace(scale=np.asarray(kernel.scale) / standardiser.spread)
            for kernel, standardiser in zip(kernels, self._standardisers, strict=True)
        ]
        self.alpha_, self.l1_ratio_ = learned.chosen.alpha, learned.chosen.l1_ratio
        self.refit_alpha_ = learned.chosen.ridge
        self.duality_gap_ = learned.gap
        self.path_ = learned.path
        self.trials_ = [
            {
                "alpha": trial.alpha,
                "l1_ratio": trial.l1_ratio,
                "refit_alpha": trial.ridge,
                "error": trial.error,
                "standard_error": trial.standard_error,
                "kernels_in": trial.n_in,
            }
            for trial in learned.trials
        ]
        self.validation_error_ = learned.chosen.error
        self.explained_variance_ = learned.variance_shares
        self.n_iter_ = max(learned.n_iter, 1)
        self.converged_ = learned.converged
        if not learned.converged:
            warnings.warn(
                f"The group lasso did not reach tol={self.tol:g} in max_iter={self.max_iter} rounds: its duality gap is "
                f"up to {np.max(learned.gap):.3g}. Raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _check_choices(self) -> None:
        check_option("scale", self.scale, SCALES)
        check_option("selection", self.selection, ("best", "one-standard-error"))
        if self.refit not in ("auto", "ridge", None):
            raise ValueError(f"refit must be 'auto', 'ridge' or None, got {self.refit!r}.")
        if self.refit == "ridge" and self.loss != "squared":
            raise ValueError(f"refit='ridge' needs loss='squared', and loss is {self.loss!r}: leave refit out, or use None.")
        for name, low, high in (("alpha", 0.0, np.inf), ("tol", 0.0, np.inf), ("smallest", 0.0, 1.0)):
            value = getattr(self, name)
            if value is None and name == "alpha":
                continue
            if not (isinstance(value, numbers.Real) and low < float(value) <= high and float(value) < np.inf):
                raise ValueError(f"{name} must be a positive number{' up to 1' if high == 1 else ''}, got {value!r}.")
        ratios: list[Any] = [] if isinstance(self.l1_ratio, str) else list(np.atleast_1d(self.l1_ratio))
        if (isinstance(self.l1_ratio, str) and self.l1_ratio != "auto") or not all(0 <= float(r) <= 1 for r in ratios):
            raise ValueError(f"l1_ratio must be 'auto', or one number or several from 0 to 1, got {self.l1_ratio!r}.")
        for name in ("n_alphas", "max_iter"):
            value = getattr(self, name)
            if not (isinstance(value, numbers.Integral) and int(value) >= 1):
                raise ValueError(f"{name} must be a whole number, at least 1, got {value!r}.")

    # -- predicting ---------------------------------------------------------------------------------------------------

    def _outputs(self, X: Any) -> Array:
        """Predictions (n, c) of new rows, in the units of the targets."""
        check_is_fitted(self)
        parts = [_on_host(part) for part in self._views.take(self, X)]
        return predict(self.feature_map_, self._stacked(parts), self.coef_, self.intercept_).astype(np.float64)

    def kernel_weights_by_name(self) -> dict[str, Any]:
        """The weight of each kernel by its name, largest first: a number, or one for each target or class."""
        check_is_fitted(self)
        order = np.argsort(-self.kernel_weights_.max(axis=1), kind="stable")
        shown = [row.tolist() if len(row) > 1 else float(row[0]) for row in self.kernel_weights_]
        return {str(self.kernel_names_[t]): shown[t] for t in order}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


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
        number of a view. "auto" is a dictionary of families and widths on all columns (or on each view), and on each
        column by itself where they are at most 20.
    loss : {"squared", "epsilon-logistic"}, default="squared"
        "epsilon-logistic" is a smooth epsilon-insensitive loss: none within epsilon of the target, and nearly the distance
        beyond, the bend between them being 1 / gamma wide; both in units of standardised targets.
    n_features : int, optional
        Random features of each kernel; by default as many as make 4000 in all, at least 50 and at most 500.
    scale : {"median", "given", "learned"}, default="median"
        Scales of kernels that come as names: the median heuristic, the kernel's default, or single-kernel learning on its
        own columns (with kernels="auto": one kernel on all columns or on each view, its family learned too). Kernels that
        come as objects keep their own.
    alpha : float, optional
        The penalty; by default chosen on held-out rows among ``n_alphas`` from the smallest that keeps every kernel out
        down to ``smallest`` of it. It is in units of standardised targets.
    l1_ratio : float, list or "auto", default="auto"
        The share of the group penalty, or several to choose from; "auto" is 1 and 0, the plain average of the kernels, or 1
        where alpha is given.
    penalty_weights : list or dict, optional
        eta, the penalty of each kernel relative to the others.
    shared_weights : bool, default=True
        Whether a kernel is in or out for all targets together.
    selection : {"best", "one-standard-error"}, default="best"
        The least held-out error, or the fewest kernels within one standard error of it.
    refit : {"auto", "ridge", None}, default="auto"
        Fit the chosen kernels again by ridge regression, which does not shrink kernels against each other: if held-out rows
        say so, always, or never. For the squared loss only.
    validation : int, float, splitter or None, default=None
        Number of folds, or the part of the rows to hold out; five folds by default, a fifth from 50,000 rows on.
    standardize, sampling, random_state
        As in :class:`bochner.KernelRegressor`.
    tol, max_iter : float, int
        The duality gap to reach, as a part of the objective, and most rounds of the solver.

    Attributes
    ----------
    kernel_names_ : array of shape (n_kernels,)
    kernel_weights_ : array of shape (n_kernels, 1) or (n_kernels, n_targets)
        d_t = |w_t| / 2^(1/2) of the group lasso; zero for kernels that are out.
    explained_variance_ : array of shape (n_kernels, n_targets)
        The share of the variance of the predictions that comes from each kernel; shares sum to one.
    alpha_, l1_ratio_, refit_alpha_ : float
        What was chosen; ``refit_alpha_`` is None without a refit.
    duality_gap_ : array
        How far the group lasso is from its minimum at most.
    path_ : GroupLassoPath or None
        All penalties on all rows; None where plain averaging won.
    trials_ : list of dict
        The held-out error of everything that was tried.

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

    def __init__(
        self,
        kernels: Any = "auto",
        *,
        loss: str = "squared",
        epsilon: float = 0.1,
        gamma: float = 10.0,
        n_features: int | None = None,
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
        random_state: Any = None,
    ) -> None:
        self.kernels = kernels
        self.loss = loss
        self.epsilon = epsilon
        self.gamma = gamma
        self.n_features = n_features
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
        self.random_state = random_state

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from rows X, a table (n, m) or views, and targets y (n,) or (n, c), with weights (n,) if given."""
        parts = self._resolve(X)
        weights = check_weights(sample_weight, parts[0])
        targets, self._one_target = check_targets(self, parts[0], y)
        self._learn(parts, X, y, targets, weights)
        return self

    def predict(self, X: Any) -> Array:
        """Predicted targets of rows like those of fit: (n,) or (n, c)."""
        outputs = self._outputs(X)
        return outputs[:, 0] if self._one_target else outputs

    def _loss(self) -> Loss | None:
        return None if self.loss == "squared" else EpsilonLogistic(epsilon=self.epsilon, gamma=self.gamma)

    def _standardise_targets(self, targets: Array, weights: Array) -> Standardiser:
        return Standardiser.of(targets, weights)

    def _check_choices(self) -> None:
        super()._check_choices()
        check_option("loss", self.loss, ("squared", "epsilon-logistic"))


class MultipleKernelClassifier(ScoreClassifier, MultipleKernelMachine):
    """Classification on the features of many kernels, of which group lasso keeps those that count (RFF-GL).

    Every class against the rest with the squared or the logistic loss, or all at once with the multinomial one, all from one
    pass over the rows. Probabilities come from a softmax that is fitted on held-out decisions.

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
    kernel_names_, explained_variance_, alpha_, l1_ratio_, refit_alpha_, duality_gap_, path_, trials_
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

    def __init__(
        self,
        kernels: Any = "auto",
        *,
        loss: str = "squared",
        n_features: int | None = None,
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
        random_state: Any = None,
    ) -> None:
        self.kernels = kernels
        self.loss = loss
        self.n_features = n_features
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
        self.random_state = random_state

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from rows X, a table (n, m) or views, and labels y (n,), with weights (n,) if given."""
        parts = self._resolve(X)
        weights = check_weights(sample_weight, parts[0])
        self.classes_, labels = np.unique(check_labels(self, parts[0], y), return_inverse=True)
        class_weights = self._weights_of_classes(labels, weights)
        learned = self._learn(parts, X, y, self._indicators(labels), weights * class_weights[labels])
        held_out = learned.held_out
        chosen = self._columns_of(held_out.rows.targets).argmax(axis=1)
        self.calibration_ = SoftmaxCalibration.fit(
            self._columns_of(held_out.predictions.astype(np.float64)), chosen, held_out.rows.weights
        )
        return self

    def _scores(self, X: Any) -> Array:
        return self._columns_of(self._outputs(X))

    def _loss(self) -> Loss | None:
        return None if self.loss == "squared" else LOSSES[self.loss]

    def _check_choices(self) -> None:
        super()._check_choices()
        check_option("loss", self.loss, ("squared", *LOSSES))


def _name_of(kernel: Kernel) -> str:
    """The name of a built-in kernel that came as a name."""
    return next(name for name in KERNELS if repr(get_kernel(name)) == repr(kernel))


def _dictionary(X: Any, *, learned: bool) -> tuple[list[tuple[str, str, Any]], list[float]]:
    """Kernels by name, and multiples of the median scale, of kernels="auto"; those to be learned are one for each view."""
    kernels: list[tuple[str, str, Any]] = []
    factors: list[float] = []
    wholes: list[tuple[str, Any]] = [("", slice(None))]
    if is_views(X):
        wholes = [(f"{label}, ", label) for label in (X if isinstance(X, dict) else range(len(X)))]
    if learned:
        return [(prefix.removesuffix(", ") or "all", "gaussian", where) for prefix, where in wholes], []
    for prefix, where in wholes:
        for family in AUTO_FAMILIES:
            for factor in AUTO_FACTORS:
                kernels.append((f"{prefix}{family} x {factor:g}", family, where))
                factors.append(factor)
    shape: tuple[int, ...] = () if is_views(X) else tuple(X.shape if hasattr(X, "shape") else np.shape(X))
    n_columns = shape[-1] if len(shape) == 2 else 0
    if 1 < n_columns <= AUTO_COLUMNS:
        names = list(getattr(X, "columns", range(n_columns)))
        kernels += [(f"column {name}", "gaussian", [i]) for i, name in enumerate(names)]
        factors += [1.0] * n_columns
    return kernels, factors


def _on_host(X: Array) -> Array:
    """Rows as they are, or as NumPy rows where they come from another array library."""
    return fetch(X) if is_foreign(X) else X
