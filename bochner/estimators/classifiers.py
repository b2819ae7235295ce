"""``KernelClassifier``: kernel ridge classification, all classes at once, with a kernel that it learns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_y, check_consistent_length

from bochner.arrays import Array
from bochner.calibration import SoftmaxCalibration
from bochner.criteria import Criterion
from bochner.descent import Level
from bochner.estimators.machine import KernelMachine
from bochner.estimators.validation import all_or_nothing, check_option, check_weights, refuse_missing_targets
from bochner.folds import Folds
from bochner.held_out_loss import HeldOutLoss
from bochner.kernels import Kernel
from bochner.losses import LOSSES
from bochner.standardise import Standardiser

LOSS_STEPS = 3
"""Steps by a loss without closed form, at full size, after a descent by the squared error."""


def _has_normal_equations(estimator: Any) -> bool:
    if estimator.loss != "squared":
        raise AttributeError(f"partial_fit needs loss='squared', and loss is {estimator.loss!r}.")
    return True


class KernelClassifier(ClassifierMixin, KernelMachine):
    """Classification on the features of a kernel that it learns (RFF-SKL).

    With the squared loss, every class is regressed against the rest on the same features, so that one factorisation serves
    them all. Decision values become probabilities by a softmax that is fitted on held-out decisions; its offsets move the
    decisions too, so that the predicted class is the most probable one.

    Parameters
    ----------
    loss : {"squared", "logistic", "multinomial"}, default="squared"
        The loss to fit and to validate by. "logistic" takes each class against the rest, "multinomial" is the softmax over
        all classes; both need an iterative solver and take several times as long as "squared".
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes; "balanced" makes them weigh the same.
    kernel, n_features, ... : see KernelRegressor
        All other parameters are those of :class:`bochner.KernelRegressor`.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The class labels.
    calibration_ : SoftmaxCalibration
        From scores to probabilities.
    validation_error_ : float
        Mean held-out loss; for the squared loss, of the standardised class indicators.
    kernel_, scale_, relevance_, alpha_, families_, history_, n_iter_, converged_
        As in :class:`bochner.KernelRegressor`.

    Examples
    --------
    >>> from bochner import KernelClassifier
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> model = KernelClassifier("gaussian", random_state=0).fit(X[::2], y[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.9)
    True
    """

    def __init__(
        self,
        kernel: str | Kernel = "auto",
        *,
        loss: str = "squared",
        n_features: int | None = None,
        scale: Any = "auto",
        alpha: float | str | None = None,
        criterion: str = "auto",
        validation: Any = None,
        scale_penalty: str = "none",
        scale_penalty_strength: float = 1e-3,
        schedule: str = "small-to-large",
        standardize: bool = True,
        sampling: str = "auto",
        class_weight: Any = None,
        keep_moments: bool = True,
        warm_start: bool = False,
        tol: float | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callback: Any = None,
    ) -> None:
        self.kernel = kernel
        self.loss = loss
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
        self.class_weight = class_weight
        self.keep_moments = keep_moments
        self.warm_start = warm_start
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from rows X (n, m) and labels y (n,), with weights (n,) if given."""
        X, weights = self._check_fit_rows(X, sample_weight)
        self.classes_, labels = np.unique(self._check_labels(X, y), return_inverse=True)
        return self._fit_labels(X, y, labels, weights)

    @available_if(_has_normal_equations)
    @all_or_nothing
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Add rows to a fitted model: the kernel, its features, the penalty and the calibration stay.

        The first call is a fit; ``classes`` names the labels to come, where that call does not have them all. Needs
        ``keep_moments`` and the squared loss.
        """
        if not hasattr(self, "feature_map_"):
            X, weights = self._check_fit_rows(X, sample_weight)
            labels = self._check_labels(X, y)
            self.classes_ = np.unique(labels if classes is None else classes)
            return self._fit_labels(X, y, self._numbers_of(labels), weights)
        X = self._check_new_rows(X)
        weights = check_weights(sample_weight, X)
        self._grow(X, self._targets_of(X, y), weights * self._weights_of(X, y))
        return self

    def decision_function(self, X: Any) -> Array:
        """Decision values of the rows X (n, m): (n, n_classes), or (n,) for two classes, positive for the second."""
        scores = self._scores(X)
        decisions = self.calibration_.shift(scores)
        return (decisions[:, 1] - decisions[:, 0]) / 2 if len(self.classes_) == 2 else decisions

    def predict(self, X: Any) -> Array:
        """The class of each row of X (n, m): (n,)."""
        scores = self._scores(X)
        return self.classes_[np.argmax(self.calibration_.shift(scores), axis=1)]

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes for each row of X (n, m): (n, n_classes), in the order of ``classes_``."""
        scores = self._scores(X)
        return self.calibration_(scores)

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of the probabilities: (n, n_classes)."""
        return np.log(np.maximum(self.predict_proba(X), np.finfo(np.float64).tiny))

    # -- fitting ------------------------------------------------------------------------------------------------------

    def _fit_labels(self, X: Array, y: Any, labels: Array, weights: Array) -> Self:
        """Learn from rows (n, m), numbers of their classes (n,) and weights (n,)."""
        present = np.unique(labels[weights > 0])
        if len(present) < 2:
            raise ValueError(
                f"y has only one class, {self.classes_[present].tolist()[0]!r}, among rows of positive weight: a classifier "
                "needs at least two classes."
            )
        self._class_weights = np.ones(len(self.classes_))
        if not isinstance(self.class_weight, dict | None) and str(self.class_weight) != "balanced":
            raise ValueError(
                f"class_weight must be 'balanced', None or a dict of a weight for each class, got {self.class_weight!r}."
            )
        if self.class_weight is not None:
            known = self.classes_[labels[weights > 0]]
            self._class_weights[present] = compute_class_weight(self.class_weight, classes=self.classes_[present], y=known)
            if not np.all(self._class_weights > 0):
                raise ValueError(f"class_weight must give every class a positive weight, got {self.class_weight!r}.")
        learned = self._learn(X, y, self._indicators(labels), weights * self._class_weights[labels])
        held_out = learned.held_out
        chosen = self._columns_of(self._target_standardiser.undo(held_out.rows.targets)).argmax(axis=1)
        scores = self._columns_of(self._target_standardiser.undo(held_out.predictions))
        self.calibration_ = SoftmaxCalibration.fit(scores, chosen, held_out.rows.weights)
        self._warn_if_interrupted(learned.descent)
        return self

    def _criterion(self) -> Callable[[Folds], Criterion]:
        if self.loss == "squared":
            return super()._criterion()
        if self.criterion == "loo":
            raise ValueError(f"criterion='loo' has a closed form for loss='squared' only, and loss is {self.loss!r}.")
        if isinstance(self.alpha, str):
            raise ValueError(f"alpha='per-target' needs loss='squared', and loss is {self.loss!r}.")
        return partial(HeldOutLoss, loss=LOSSES[self.loss], penalty=None if self.alpha is None else float(self.alpha))

    def _levels(self, n_rows: int, n_columns: int) -> tuple[Level, ...]:
        levels = super()._levels(n_rows, n_columns)
        if self.loss == "squared" or self.schedule == "full":
            return levels
        return *(replace(level, squared=True) for level in levels), replace(levels[-1], max_iter=LOSS_STEPS)

    def _check_choices(self) -> None:
        super()._check_choices()
        check_option("loss", self.loss, ("squared", *LOSSES))

    def _standardise_targets(self, targets: Array, weights: Array) -> Standardiser:
        if self.loss == "squared":
            return super()._standardise_targets(targets, weights)
        return Standardiser.identity(targets.shape[1])

    def _check_labels(self, X: Array, y: Any) -> Array:
        """Labels (n,) of as many rows as X."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        refuse_missing_targets(y)
        y = _check_y(y, estimator=self)
        check_classification_targets(y)
        check_consistent_length(X, y)
        return y

    def _numbers_of(self, y: Array) -> Array:
        """The number of each label's class: (n,)."""
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(
                f"y has labels that the model does not know, such as {unknown[:1].tolist()[0]!r}: it knows "
                f"{', '.join(map(repr, self.classes_[:10].tolist()))}. Leave those rows out, or name all classes in a first "
                "partial_fit(X, y, classes=...)."
            )
        return np.searchsorted(self.classes_, y)

    def _targets_of(self, X: Array, y: Any) -> Array:
        return self._indicators(self._numbers_of(self._check_labels(X, y)))

    def _weights_of(self, X: Array, y: Any) -> Array:
        """The class weight of each row: (n,)."""
        return self._class_weights[self._numbers_of(self._check_labels(X, y))]

    # -- between classes and columns ----------------------------------------------------------------------------------

    def _indicators(self, labels: Array) -> Array:
        """Targets (n, c): +1 in the column of a row's class and -1 elsewhere, 0 for the multinomial loss.

        Two classes share one column, +1 for the second of them.
        """
        member = labels[:, None] == np.arange(len(self.classes_))
        if self.loss == "multinomial":
            return member.astype(np.float64)
        targets = 2.0 * member - 1.0
        return targets[:, 1:] if len(self.classes_) == 2 else targets

    def _columns_of(self, targets: Array) -> Array:
        """One column for each class (n, n_classes) from targets or predictions."""
        return np.concatenate([-targets, targets], axis=1) if targets.shape[1] == 1 else targets

    def _scores(self, X: Any) -> Array:
        """Scores of the classes (n, n_classes) for new rows, before calibration."""
        return self._columns_of(self._outputs(self._check_new_rows(X)))
