"""``KernelClassifier``: kernel ridge classification, all classes at once, with a kernel that it learns."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_y, check_consistent_length

from bochner.arrays import Array
from bochner.calibration import SoftmaxCalibration
from bochner.estimators.machine import KernelMachine


class KernelClassifier(ClassifierMixin, KernelMachine):
    """Classification by kernel ridge regression on class indicators, with a kernel that it learns (RFF-SKL).

    Every class is regressed against the rest on the same features, so that one factorisation serves them all. Decision
    values become probabilities by a softmax that is fitted on held-out decisions; its offsets move the decisions too, so
    that the predicted class is the most probable one.

    Parameters
    ----------
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes; "balanced" makes them weigh the same.
    kernel, n_features, ... : see KernelRegressor
        All other parameters are those of :class:`bochner.KernelRegressor`.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The class labels.
    calibration_ : SoftmaxCalibration
        From decision values to probabilities.
    kernel_, scale_, relevance_, alpha_, validation_error_, families_, history_, n_iter_, converged_
        As in :class:`bochner.KernelRegressor`; the validation error is the mean square over the indicators of all classes.

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
        kernel: Any = "auto",
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
        class_weight: Any = None,
        random_state: Any = None,
        callback: Any = None,
    ) -> None:
        super().__init__(
            kernel,
            n_features=n_features,
            scale=scale,
            criterion=criterion,
            validation=validation,
            scale_penalty=scale_penalty,
            scale_penalty_strength=scale_penalty_strength,
            schedule=schedule,
            standardize=standardize,
            sampling=sampling,
            tol=tol,
            random_state=random_state,
            callback=callback,
        )
        self.class_weight = class_weight

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from rows X (n, m) and labels y (n,), with weights (n,) if given."""
        X, weights, used = self._check_fit_rows(X, sample_weight)
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        y = _check_y(y, estimator=self)
        check_classification_targets(y)
        check_consistent_length(X, y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if not used.all():
            X, labels, weights = X[used], labels[used], weights[used]
        present = np.unique(labels)
        if len(present) < 2:
            raise ValueError(
                f"y has only one class, {self.classes_[present[0]]!r}, among rows of positive weight: a classifier needs "
                "at least two classes."
            )
        if self.class_weight is not None:
            by_class = compute_class_weight(self.class_weight, classes=self.classes_[present], y=self.classes_[labels])
            if not np.all(by_class > 0):
                raise ValueError(f"class_weight must give every class a positive weight, got {self.class_weight!r}.")
            weights = weights * by_class[np.searchsorted(present, labels)]
        targets = 2.0 * (labels[:, None] == np.arange(len(self.classes_))) - 1.0
        learned = self._learn(X, targets, weights)
        held_out = self._target_standardiser.undo(learned.held_out.predictions)
        rows = learned.held_out.rows
        self.calibration_ = SoftmaxCalibration.fit(held_out, np.argmax(rows.targets, axis=1), rows.weights)
        return self

    def decision_function(self, X: Any) -> Array:
        """Decision values of the rows X (n, m): (n, n_classes), or (n,) for two classes, positive for the second."""
        decisions = self._calibrated(X)
        return (decisions[:, 1] - decisions[:, 0]) / 2 if len(self.classes_) == 2 else decisions

    def predict(self, X: Any) -> Array:
        """The class of each row of X (n, m): (n,)."""
        decisions = self._calibrated(X)
        return self.classes_[np.argmax(decisions, axis=1)]

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes for each row of X (n, m): (n, n_classes), in the order of ``classes_``."""
        decisions = self._decide(X)
        return self.calibration_(decisions)

    def _calibrated(self, X: Any) -> Array:
        """Decision values (n, n_classes) in the order of the probabilities."""
        decisions = self._decide(X)
        return self.calibration_.shift(decisions)
