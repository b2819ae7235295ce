"""Measures of how well predictions meet known targets: numbers by name, and rows of a table for people.

Weights count as repetition, as everywhere: a row of weight two is that row twice.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bochner.arrays import Array, fetch64
from bochner.errors import InputError

TINY = float(np.finfo(np.float64).eps)
"""What a probability of zero counts as in logarithms, as in scikit-learn."""
R2, RMSE, MAE = "R2", "RMSE", "MAE"
ACCURACY, BALANCED, LOG_LOSS, BRIER = "accuracy", "balanced accuracy", "log loss", "Brier score"
IN_WORDS = {
    R2: "R\u00b2, share of the variance that is predicted",
    RMSE: "root mean squared error",
    MAE: "mean absolute error",
    ACCURACY: "accuracy",
    BALANCED: "mean share of rows found, over classes",
    LOG_LOSS: "log loss of the probabilities",
    BRIER: "Brier score",
}
"""What the measures are, for those who do not know their names."""
DASH = "\u2013"


def measures_of_numbers(true: Array, predicted: Array, weight: Array | None = None) -> dict[str, float]:
    """R squared, root mean squared error and mean absolute error of predictions (n,) or (n, c)."""
    error = predicted - true
    squares, sizes = (np.average(each, axis=0, weights=weight) for each in (error**2, np.abs(error)))
    spread = np.average((true - np.average(true, axis=0, weights=weight)) ** 2, axis=0, weights=weight)
    share = squares / np.where(spread > 0, spread, 1.0)
    explained = np.where(spread > 0, 1 - share, np.where(squares > 0, 0.0, 1.0))  # as scikit-learn has it
    return {R2: float(np.mean(explained)), RMSE: float(np.sqrt(np.mean(squares))), MAE: float(np.mean(sizes))}


def measures_of_classes(
    true: Array, predicted: Array, classes: Array, probabilities: Array | None = None, weight: Array | None = None
) -> dict[str, float]:
    """Accuracy, its mean over classes, and, given probabilities (n, c) of the classes, log loss and Brier score.

    The last is the sum over all classes, which for two is twice that of one of them.
    """
    true, classes = np.asarray(true), np.asarray(classes)
    weight = np.ones(len(true)) if weight is None else weight
    right = np.asarray(predicted) == true
    shares = [np.average(right[of], weights=weight[of]) for c in np.unique(true) if weight[of := true == c].sum() > 0]
    found = {ACCURACY: float(np.average(right, weights=weight)), BALANCED: float(np.mean(shares))}
    if probabilities is not None:
        is_it = true[:, None] == classes[None, :]  # a class that the model does not know has no probability
        of_true = np.sum(probabilities * is_it, axis=1)
        missed = np.sum((probabilities - is_it) ** 2, axis=1) + ~is_it.any(axis=1)
        found[LOG_LOSS] = float(np.average(-np.log(np.maximum(of_true, TINY)), weights=weight))
        found[BRIER] = float(np.average(missed, weights=weight))
    return found


def measures(model: Any, X: Any, y: Any, sample_weight: Any = None) -> dict[str, float]:
    """The measures by name of a fitted regressor or classifier on rows X with targets y."""
    weight = None if sample_weight is None else fetch64(np.asarray(sample_weight))
    if hasattr(model, "classes_"):
        probabilities = fetch64(model.predict_proba(X)) if hasattr(model, "predict_proba") else None
        return measures_of_classes(np.asarray(y), model.predict(X), model.classes_, probabilities, weight)
    predicted, true = fetch64(model.predict(X)), fetch64(np.asarray(y))
    if predicted.shape != true.shape:
        raise InputError(f"y has shape {true.shape} and the predictions have shape {predicted.shape}: give a y of theirs.")
    return measures_of_numbers(true, predicted, weight)


def scores(model: Any, X: Any, y: Any, sample_weight: Any = None) -> list[list[str]]:
    """Pairs (measure in words, value) for a fitted regressor or classifier on rows X with targets y."""
    in_units = (RMSE, MAE)
    found = measures(model, X, y, sample_weight)
    rows = [[IN_WORDS[name], f"{value:.4g}" if name in in_units else f"{value:.4f}"] for name, value in found.items()]
    if getattr(model, "knows_deviations", False):
        predicted, deviation = map(fetch64, model.predict(X, return_std=True))
        inside = np.average(np.abs(predicted - np.asarray(y)) <= 2 * deviation, axis=0, weights=sample_weight)
        rows.append(["rows within two standard deviations (about 95 % are expected)", f"{np.mean(inside):.1%}"])
    return rows


def class_scores(model: Any, X: Any, y: Any, sample_weight: Any = None) -> list[list[str]]:
    """For each class: its name, its rows, rows predicted as it, how many of these are right, and of its rows are found."""
    predicted, true = np.asarray(model.predict(X)), np.asarray(y)
    weight = np.ones(len(true)) if sample_weight is None else np.asarray(sample_weight)
    rows = []
    for label in model.classes_:
        is_it, said = true == label, predicted == label
        both = weight[is_it & said].sum()
        shares = [f"{both / total:.1%}" if (total := weight[mask].sum()) > 0 else DASH for mask in (said, is_it)]
        rows.append([str(label), f"{int(is_it.sum()):,}", f"{int(said.sum()):,}", *shares])
    return rows
