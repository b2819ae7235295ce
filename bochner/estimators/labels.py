"""What classifiers by scores share: labels to targets and back, weights of classes, decisions and probabilities."""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from typing import Any

import numpy as np
from scipy.special import entr
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_y

from bochner.arrays import Array, namespace
from bochner.calibration import SoftmaxCalibration
from bochner.engines.dask_rows import is_dask
from bochner.errors import InputError
from bochner.estimators.block_by_block import block_by_block, compared
from bochner.estimators.blocks import as_source, comes_in_blocks, travelling, weights_of
from bochner.estimators.validation import beside_rows, check_lengths, on_host, refuse_missing_targets
from bochner.rows import Block


def check_labels(estimator: Any, X: Array, y: Any) -> Array:
    """Labels (n,) of as many rows as X."""
    if y is None:
        raise InputError(f"{type(estimator).__name__} requires y to be passed, but the target y is None: give y.")
    y = on_host(y)
    refuse_missing_targets(y)
    y = _check_y(y, estimator=estimator)
    if y.dtype.kind == "f" and np.abs(y).max(initial=0.0) >= 2.0**53:
        raise InputError(
            f"y has labels as large as {np.abs(y).max():.17g} as floating-point numbers, as rows in blocks have them, and "
            "these tell whole numbers apart up to 2**53 only: use sklearn.preprocessing.LabelEncoder() to number them."
        )
    check_classification_targets(y)
    check_lengths(X, y, "y")
    return y


def labels_beside(estimator: Any, X: Any, y: Any) -> Array | None:
    """Labels in memory beside rows in blocks; None where they come with the rows, or are Dask's."""
    return None if y is None or is_dask(X) else check_labels(estimator, X, y)


class ClassSums:
    """What a first pass over rows in blocks takes down of their labels: how often each is there, and with what weight.

    ``classes`` are the labels to expect, in any order and more than once, or None.
    """

    def __init__(self, estimator: Any, classes: Any = None) -> None:
        self.estimator = travelling(estimator)
        self._expected = None if classes is None else np.unique(classes)
        self._seen: dict[Any, Array] = {}

    def see(self, block: Block) -> None:
        """One more block."""
        labels, numbers = np.unique(check_labels(self.estimator, block.X, block.y), return_inverse=True)
        weights = weights_of(block)
        sums = [np.bincount(numbers, each, minlength=len(labels)) for each in ((weights > 0).astype(float), weights)]
        for label, *each in zip(labels.tolist(), *sums, strict=True):
            self._seen[label] = self._seen.get(label, np.zeros(2)) + each

    def __add__(self, other: ClassSums) -> ClassSums:
        """The sums over the rows of both."""
        total = copy(self)
        total._seen = {
            label: self._seen.get(label, np.zeros(2)) + other._seen.get(label, np.zeros(2))
            for label in {**self._seen, **other._seen}
        }
        return total

    def state(self) -> dict[str, Array]:
        """What was taken down so far, to go on from with :meth:`restore`."""
        return {"labels": np.array(list(self._seen)), "sums": np.array(list(self._seen.values()))}

    def restore(self, state: dict[str, Array]) -> None:
        """Take over what :meth:`state` gave."""
        self._seen = dict(zip(state["labels"].tolist(), state["sums"], strict=True))

    @property
    def labels(self) -> Array:
        """The labels that were seen, sorted; whole numbers, which blocks have as float64, are whole again."""
        labels = np.unique(np.array(list(self._seen)))
        whole = labels.dtype.kind == "f" and np.all(labels == np.rint(labels)) and np.all(np.abs(labels) < 2.0**53)
        return labels.astype(np.int64) if whole else labels

    @property
    def classes(self) -> Array:
        """The labels to expect, or those that were seen, sorted: (k,)."""
        return self.labels if self._expected is None else self._expected

    @property
    def counts(self) -> Array:
        """Rows of positive weight of each class: (k,)."""
        return self._sums(0)

    @property
    def weights(self) -> Array:
        """The weight of all rows of each class: (k,)."""
        return self._sums(1)

    def _sums(self, which: int) -> Array:
        return np.array([self._seen[label][which] if label in self._seen else 0.0 for label in self.classes.tolist()])


class ScoreClassifier(ClassifierMixin):
    """A classifier whose scores of the classes become decisions and probabilities by a calibration.

    Subclasses have the parameters loss and class_weight, and give the scores of new rows.
    """

    loss: str
    class_weight: Any
    classes_: Array
    calibration_: SoftmaxCalibration
    _loss_of_shares: float | None = None
    """What predicting the shares of the classes scores, as ``validation_error_`` counts; None in models of earlier files."""

    @abstractmethod
    def _scores(self, X: Any) -> Array:
        """Scores of the classes (n, n_classes) for new rows, before calibration."""

    @block_by_block
    @beside_rows
    def decision_function(self, X: Any) -> Array:
        """Decision values of the rows X (n, m): (n, n_classes), or (n,) for two classes, positive for the second."""
        scores = self._scores(X)
        decisions = self.calibration_.shift(scores)
        return (decisions[:, 1] - decisions[:, 0]) / 2 if len(self.classes_) == 2 else decisions

    @block_by_block
    @beside_rows
    def predict(self, X: Any) -> Array:
        """The class of each row of X (n, m): (n,)."""
        scores = self._scores(X)
        return self.classes_[np.argmax(self.calibration_.shift(scores), axis=1)]

    @block_by_block
    @beside_rows
    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes for each row of X (n, m): (n, n_classes), in the order of ``classes_``."""
        scores = self._scores(X)
        return self.calibration_(scores)

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of the probabilities: (n, n_classes)."""
        probabilities = self.predict_proba(X)
        return namespace(probabilities).log(probabilities.clip(min=np.finfo(np.float64).tiny))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The share of rows whose class is told rightly, as in scikit-learn; X may be rows in blocks."""
        if comes_in_blocks(X):
            y, predictions, sample_weight = compared(self, as_source(X, y, sample_weight))
            return float(accuracy_score(y, predictions, sample_weight=sample_weight))
        found = {"y_true": y, "y_pred": self.predict(X), "sample_weight": sample_weight}
        return float(accuracy_score(**{name: on_host(each) for name, each in found.items()}))

    # -- labels and weights ----------------------------------------------------------------------------------------

    def _prepare_targets(self, sums: ClassSums) -> None:
        """Take over what a first pass took down of the labels."""
        self.classes_ = sums.classes
        self._numbers_of(sums.labels)  # which refuses those that are not among the classes
        self._class_weights = self._weights_of_classes(sums.counts)
        targets = self._indicators(np.arange(len(self.classes_)))
        machine: Any = self  # which standardises targets as it likes
        self._target_standardiser = machine._standardise_targets(targets, sums.weights * self._class_weights)
        self._keep_loss_of_shares(sums.weights * self._class_weights)

    def _keep_loss_of_shares(self, weights: Array) -> None:
        """What the best constant scores, by the weight of all rows of each class (n_classes,)."""
        machine: Any = self  # which has standardised targets by now
        shares = weights / weights.sum()
        if self.loss == "squared":
            targets = machine._target_standardiser(self._indicators(np.arange(len(shares))))
            found = np.mean(shares @ (targets - shares @ targets) ** 2)
        elif self.loss == "multinomial":
            found = entr(shares).sum()
        else:
            columns = shares[1:] if len(shares) == 2 else shares
            found = np.sum(entr(columns) + entr(1 - columns))
        self._loss_of_shares = float(found)

    def _mean_class_weight(self, sums: ClassSums) -> float:
        """The mean over all rows, by their weights, of the weights of their classes."""
        return float(sums.weights @ self._class_weights) / float(sums.weights.sum())

    def _weights_of_classes(self, counts: Array) -> Array:
        """The weight of each class (n_classes,), from the number of rows of positive weight of each (n_classes,)."""
        present = np.flatnonzero(counts)
        if len(present) < 2:
            raise InputError(
                f"y has only one class, {self.classes_[present].tolist()[0]!r}, among rows of positive weight: a classifier "
                "needs at least two classes, so give rows of another."
            )
        class_weights = np.ones(len(self.classes_))
        if not isinstance(self.class_weight, dict | None) and str(self.class_weight) != "balanced":
            raise InputError(
                f"class_weight must be 'balanced', None or a dict of a weight for each class, got {self.class_weight!r}."
            )
        if isinstance(self.class_weight, str):
            class_weights[present] = counts.sum() / (len(present) * counts[present])
        elif self.class_weight is not None:
            unknown = [label for label in self.class_weight if label not in self.classes_.tolist()]
            if unknown and set(self.classes_[present].tolist()) - set(self.class_weight):  # a name that is misspelt
                raise InputError(
                    f"class_weight names the class {unknown[0]!r}, which is not in y: its classes are "
                    f"{', '.join(map(repr, self.classes_.tolist()[:10]))}. Name those."
                )
            known = self.classes_[present]
            class_weights[present] = compute_class_weight(self.class_weight, classes=known, y=known)
            if not np.all(class_weights > 0):
                raise InputError(
                    f"class_weight must give every class a positive weight, got {self.class_weight!r}: "
                    "raise those of zero or less."
                )
        return class_weights

    def _numbers_of(self, y: Array) -> Array:
        """The number of each label's class: (n,)."""
        grows = hasattr(self, "partial_fit")
        self._refuse_unknown(y, ", or name all classes in a first partial_fit(X, y, classes=...)" if grows else "")
        return np.searchsorted(self.classes_, y)

    def _check_validation_targets(self, X: Array, y: Any) -> None:
        self._refuse_unknown(check_labels(self, X, y))

    def _refuse_unknown(self, y: Array, advice: str = "") -> None:
        """An error where labels (n,) are not among the classes; ``advice`` is what to do but to leave them out."""
        unknown = np.setdiff1d(y, self.classes_)
        if not len(unknown):
            return
        one, known = unknown.tolist()[0], self.classes_.tolist()
        if isinstance(one, str) != isinstance(known[0], str):
            raise InputError(
                f"y has labels of type {type(one).__name__}, such as {one!r}, and those of fit are of type "
                f"{type(known[0]).__name__}, such as {known[0]!r}: give all of them the same type."
            )
        raise InputError(
            f"y has labels that the model does not know, such as {one!r}: it knows {', '.join(map(repr, known[:10]))}. "
            f"Leave those rows out{advice}."
        )

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
