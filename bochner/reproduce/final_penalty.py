"""The last ridge regression with a learned kernel: its penalty is that of the highest held-out accuracy.

Scales are learned by the squared error, whose best penalty is larger than that of the most accurate answers. Every part of
the training images is predicted from the others, with the penalty that learning ended at and with smaller and larger ones;
the accuracy is that of the rows which show a class. The regression on all rows has as large a penalty on the *sum* of
squares as those which were compared, hence a smaller one on their mean.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bochner.arrays import Array
from bochner.exact import KernelRidgeGD
from bochner.exact.criterion import ExactRidge
from bochner.folds import Rows
from bochner.reproduce.protocol import Training, labels_of
from bochner.solvers.normal_equations import CentredMoments
from bochner.statistics import Moments

FACTORS = tuple(10.0 ** (k / 2) for k in range(-3, 2))
"""Multiples of the penalty that learning ended at."""
Parts = Sequence[tuple[Array, Array]]
Scores = Callable[[Array], Array]
"""From rows (k, m) to scores (k, c)."""


@dataclass(frozen=True)
class Final:
    """The regression on all rows: its penalty on the mean of squares, and its scores."""

    alpha: float
    scores: Scores


def final_regression(model: Any, X: Array, training: Training, parts: Parts) -> Final:
    """That of a fitted KernelRegressor, or KernelRidgeGD, on the rows X (n, m) of a training set in these parts."""
    make = OnMatrix if isinstance(model, KernelRidgeGD) else OnFeatures
    regression = make(model, X, training, parts)
    labels = labels_of(training.rows.worth)
    alphas = [float(model.alpha_) * factor for factor in FACTORS]
    found = [held_out_accuracy(labels, regression.held_out(alpha)) for alpha in alphas]
    best = alphas[int(np.argmax(found))]
    fitted = np.mean([training.weights[some].sum() for some, _ in parts]) / training.weights.sum()
    return Final(best * float(fitted), regression.scores(best * float(fitted)))


def held_out_accuracy(labels: Array, scores: Array) -> float:
    """The accuracy of scores (n, c) of the rows that show a class, over the classes that occur; labels (n,) may be -1."""
    shown = labels >= 0
    classes, numbers = np.unique(labels[shown], return_inverse=True)
    answers = scores[shown].argmax(axis=1)
    right = np.bincount(numbers, weights=answers == labels[shown], minlength=len(classes))
    return float(np.mean(right / np.bincount(numbers, minlength=len(classes))))


class OnFeatures:
    """Ridge regressions on the features of a learned kernel."""

    def __init__(self, model: Any, X: Array, training: Training, parts: Parts) -> None:
        self.feature_map, self.parts = model.feature_map_, parts
        self.features = self.feature_map.forward(X)
        each = [self._moments(training, held) for _, held in parts]
        self.moments, self.left_out = sum(each[1:], start=each[0]), each

    def _moments(self, training: Training, index: Array) -> Moments:
        return Moments.of(self.features[index], training.targets[index], training.weights[index])

    def held_out(self, alpha: float) -> Array:
        """Scores (n, c) of every row, from a regression on the other parts."""
        scores = np.empty((len(self.features), self.moments.cross.shape[1]))
        for (_, held), own in zip(self.parts, self.left_out, strict=True):
            solution = CentredMoments(self.moments, own).solve(alpha)
            scores[held] = self.features[held] @ solution.coef + solution.intercept
        return scores

    def scores(self, alpha: float) -> Scores:
        """Those of the regression on all rows."""
        solution = CentredMoments(self.moments).solve(alpha)
        return lambda Z: self.feature_map.forward(Z) @ solution.coef + solution.intercept


class OnMatrix:
    """Ridge regressions on the matrix of a learned kernel."""

    def __init__(self, model: Any, X: Array, training: Training, parts: Parts) -> None:
        self.kernel, self.parts = model.kernel_, parts
        self.rows = Rows(X.astype(np.float64), training.targets, training.weights)
        self.gram = self.kernel.exact(self.rows.X, self.rows.X)

    def held_out(self, alpha: float) -> Array:
        """Scores (n, c) of every row, from a regression on the other parts."""
        scores = np.empty(self.rows.targets.shape)
        for fitted, held in self.parts:
            ridge = ExactRidge.of(self.gram[np.ix_(fitted, fitted)], self.rows.take(fitted), alpha)
            scores[held] = self.gram[np.ix_(held, fitted)] @ ridge.dual + ridge.intercept
        return scores

    def scores(self, alpha: float) -> Scores:
        """Those of the regression on all rows."""
        ridge = ExactRidge.of(self.gram, self.rows, alpha)
        return lambda Z: self.kernel.exact(Z.astype(np.float64), self.rows.X) @ ridge.dual + ridge.intercept
