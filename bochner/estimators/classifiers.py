"""``KernelClassifier``: kernel ridge classification, all classes at once, with a kernel that it learns."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if

from bochner.arrays import Array
from bochner.calibration import SoftmaxCalibration
from bochner.criteria import Criterion
from bochner.descent import Level
from bochner.errors import InputError
from bochner.estimators.blocks import FirstPass, as_source, learned_in_blocks, refuse_many_rows
from bochner.estimators.labels import ClassSums, ScoreClassifier, check_labels, labels_beside
from bochner.estimators.machine import KernelMachine
from bochner.estimators.predicted import refuse_device
from bochner.estimators.validation import all_or_nothing, check_option
from bochner.folds import HeldOut
from bochner.held_out_loss import HeldOutLoss, row_bytes
from bochner.kernels import Kernel
from bochner.losses import LOSSES
from bochner.single_kernel import LearnedKernel
from bochner.standardise import Standardiser

LOSS_STEPS = 3
"""Steps by a loss without closed form, at full size, after a descent by the squared error."""


def _has_normal_equations(estimator: Any) -> bool:
    if estimator.loss != "squared":
        raise AttributeError(f"partial_fit needs loss='squared', and loss is {estimator.loss!r}.")
    return True


class KernelClassifier(ScoreClassifier, KernelMachine):
    """Classification on the features of a kernel that it learns (RFF-SKL).

    With the squared loss, every class is regressed against the rest on the same features, so that one factorisation serves
    them all. Decision values become probabilities by a softmax that is fitted on held-out decisions; its offsets move the
    decisions too, so that the predicted class is the most probable one.

    Parameters
    ----------
    loss : {"squared", "logistic", "multinomial"}, default="squared"
        The loss to fit and to validate by. "logistic" takes each class against the rest, "multinomial" is the softmax over
        all classes; both need an iterative solver and take several times as long as "squared". Rows in blocks are read
        into memory where there is room, and else gone over many times; their scores must fit in memory.
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
        Mean held-out loss; for the squared loss, of the standardised class indicators, where predicting the shares of the
        classes scores 1.
    selection_ : list of dict
        What was compared on the way to kernel, metric and finish; errors are log losses.
    kernel_, scale_, metric_, finish_, relevance_, alpha_, families_, history_, n_iter_, converged_
        As in :class:`bochner.KernelRegressor`. With an iterative solver, ``converged_`` is False also where that ended
        early, and a warning says so.

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
        kernel: str | Kernel | Sequence[str | Kernel] = "auto",
        *,
        loss: str = "squared",
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
        class_weight: Any = None,
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
        self.loss = loss
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
        self.class_weight = class_weight
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
        """Learn from rows X (n, m) and labels y (n,), with weights (n,) if given.

        X may be rows in blocks, with their labels and weights: see :func:`bochner.open_rows`. Or X, y and the weights are
        collections of Dask's, and learned from on its cluster.
        """
        if learned_in_blocks(X, self.max_memory):
            return self._finish(self._learn_blocks(X, y, None, sample_weight))
        X, weights = self._check_fit_rows(X, sample_weight)
        self.classes_, labels = np.unique(check_labels(self, X, y), return_inverse=True)
        return self._finish(self._fit_labels(X, y, labels, weights))

    @available_if(_has_normal_equations)
    @all_or_nothing
    def partial_fit(self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None) -> Self:
        """Add rows to a fitted model: the kernel, its features, the penalty and the calibration stay.

        The first call is a fit, on random features unless ``finish`` is "centres"; ``classes`` names the labels to come,
        where that call does not have them all. Needs ``keep_moments`` and the squared loss. X may be rows in blocks, as in
        ``fit``.
        """
        if hasattr(self, "feature_map_"):
            self._grow(X, y, sample_weight)
            return self
        with self._keeping_sums():
            return self._finish(self._learn_first(X, y, classes, sample_weight))

    # -- fitting ------------------------------------------------------------------------------------------------------

    def _learn_first(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> LearnedKernel:
        """Learn from the first of many rows; ``classes`` are all labels, where they are known."""
        if learned_in_blocks(X, self.max_memory):
            return self._learn_blocks(X, y, classes, sample_weight)
        X, weights = self._check_fit_rows(X, sample_weight)
        labels = check_labels(self, X, y)
        self.classes_ = np.unique(labels if classes is None else classes)
        return self._fit_labels(X, y, self._numbers_of(labels), weights)

    def _fit_labels(self, X: Array, y: Any, labels: Array, weights: Array) -> LearnedKernel:
        """Learn from rows (n, m), numbers of their classes (n,) and weights (n,)."""
        self._class_weights = self._weights_of_classes(np.bincount(labels[weights > 0], minlength=len(self.classes_)))
        weights = weights * self._class_weights[labels]
        learned = self._learn(X, y, self._indicators(labels), weights)
        self._keep_loss_of_shares(np.bincount(labels, weights, minlength=len(self.classes_)))
        return learned

    def _learn_blocks(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> LearnedKernel:
        """Learn from rows in blocks; ``classes`` are all labels, where they are known."""
        source = as_source(X, y, sample_weight)
        return self._learn_source(source, ClassSums(self, labels_beside(self, X, y) if classes is None else classes))

    def _finish(self, learned: LearnedKernel) -> Self:
        """Probabilities from held-out decisions, and warnings: the last thing that a fit does."""
        self.calibration_ = SoftmaxCalibration.fit(*self._decisions(learned.held_out))
        self._warn_if_interrupted(learned.descent)
        self._warn_unless_solved(learned)
        return self

    def _decisions(self, held_out: HeldOut) -> tuple[Array, Array, Array]:
        """Held-out scores (n, n_classes) with numbers of the true classes and weights of the rows, (n,) each."""
        true = self._columns_of(self._target_standardiser.undo(held_out.rows.targets)).argmax(axis=1)
        scores = self._columns_of(self._target_standardiser.undo(held_out.predictions))
        return scores, true, held_out.rows.weights

    def _measure(self, held_out: HeldOut) -> float:
        """The log loss of held-out rows: between metrics the squared error prefers those that are sure of easy rows."""
        return SoftmaxCalibration.log_loss(*self._decisions(held_out))

    def _warn_unless_solved(self, learned: LearnedKernel) -> None:
        """Say that coefficients are not those of least loss; the model is whole by now."""
        if not learned.fit.converged:
            warnings.warn(
                f"Newton's method ended before the least {self.loss} loss at alpha={self.alpha_:.2g}: coefficients or "
                "held-out scores are not exact. Give a larger alpha.",
                ConvergenceWarning,
                stacklevel=5,
            )

    def _prepare_source(self, first: FirstPass, are_sparse: bool) -> None:
        super()._prepare_source(first, are_sparse)
        self._weight_unit *= self._mean_class_weight(first.targets)

    def _criterion(self) -> Callable[[Any], Criterion]:
        if self.loss == "squared":
            return super()._criterion()
        if self.criterion == "loo":
            raise InputError(
                f"criterion='loo' has a closed form for loss='squared' only, and loss is {self.loss!r}: use "
                "criterion='kfold', or that loss."
            )
        if isinstance(self.alpha, str):
            raise InputError(f"alpha='per-target' needs loss='squared', and loss is {self.loss!r}: use alpha=None.")
        return partial(HeldOutLoss, loss=LOSSES[self.loss], penalty=None if self.alpha is None else float(self.alpha))

    @property
    def _has_log(self) -> bool:
        return self.loss == "squared"  # other losses start from the coefficients of the evaluation before

    def _levels(self, n_rows: int, n_columns: int) -> tuple[Level, ...]:
        levels = super()._levels(n_rows, n_columns)
        if self.loss == "squared" or self.schedule == "full":
            return levels
        return *(replace(level, squared=True) for level in levels), replace(levels[-1], max_iter=LOSS_STEPS)

    def _check_choices(self) -> None:
        super()._check_choices()
        check_option("loss", self.loss, ("squared", *LOSSES))
        if self.loss != "squared":
            refuse_device(self, f"loss={self.loss!r}", "loss='squared'")
        if self.checkpoint is not None and self.loss != "squared" and self.schedule == "full":
            raise InputError(
                f"checkpoint keeps evaluations of the squared error, and with loss={self.loss!r} and schedule='full' there "
                "are none: use schedule='small-to-large', or checkpoint=None."
            )

    @property
    def loss_name(self) -> str:
        return self.loss

    @property
    def _makes_many_passes(self) -> bool:
        return self.loss != "squared"

    def _refuse_many_rows(self, n_rows: int, n_outputs: int, n_validated: int, limit: float) -> None:
        if self.loss != "squared":
            refuse_many_rows(row_bytes(n_rows, n_outputs, n_validated), limit / 2, n_rows, self.loss)

    @property
    def _computed_on_host(self) -> bool:
        return super()._computed_on_host or self.loss != "squared"

    def _standardise_targets(self, targets: Array, weights: Array) -> Standardiser:
        if self.loss == "squared":
            return super()._standardise_targets(targets, weights)
        return Standardiser.identity(targets.shape[1])

    def _targets_of(self, X: Array, y: Any) -> Array:
        return self._indicators(self._numbers_of(check_labels(self, X, y)))

    def _weights_of(self, X: Array, y: Any) -> Array:
        """The class weight of each row: (n,)."""
        return self._class_weights[self._numbers_of(check_labels(self, X, y))]

    def _scores(self, X: Any) -> Array:
        """Scores of the classes (n, n_classes) for new rows, before calibration."""
        return self._columns_of(self._outputs(self._check_seen_rows(X)))
