"""Measures of how well a model predicts rows with known targets, as rows of a table: a name, and a number in words."""

from __future__ import annotations

from typing import Any

import numpy as np

from bochner.arrays import Array, fetch64
from bochner.errors import InputError

TINY = 1e-15


def scores(model: Any, X: Any, y: Any) -> list[list[str]]:
    """Pairs (measure, value) for a fitted regressor or classifier on rows X with targets y."""
    return _of_classes(model, X, np.asarray(y)) if hasattr(model, "classes_") else _of_numbers(model, X, y)


def _of_numbers(model: Any, X: Any, y: Any) -> list[list[str]]:
    predicted, true = fetch64(model.predict(X)), fetch64(np.asarray(y))
    if predicted.shape != true.shape:
        raise InputError(f"y has shape {true.shape} and the predictions have shape {predicted.shape}: give a y of theirs.")
    error = predicted - true
    found = [
        ["R\u00b2, share of the variance that is predicted", f"{_explained(true, predicted):.4f}"],
        ["root mean squared error", f"{np.sqrt(np.mean(error**2)):.4g}"],
        ["mean absolute error", f"{np.mean(np.abs(error)):.4g}"],
    ]
    if getattr(model, "moments_", None) is not None:
        deviation = fetch64(model.predict(X, return_std=True)[1])
        inside = np.mean(np.abs(error) <= 2 * deviation)
        found.append(["rows within two standard deviations (about 95 % are expected)", f"{inside:.1%}"])
    return found


def _explained(true: Array, predicted: Array) -> float:
    """R squared, the mean over targets; of targets without spread one where they are predicted exactly, else zero."""
    missed, spread = np.sum((predicted - true) ** 2, axis=0), np.sum((true - np.mean(true, axis=0)) ** 2, axis=0)
    share = missed / np.where(spread > 0, spread, 1.0)
    return float(np.mean(np.where(spread > 0, 1 - share, np.where(missed > 0, 0.0, 1.0))))


def _of_classes(model: Any, X: Any, y: Array) -> list[list[str]]:
    right = np.asarray(model.predict(X)) == y
    found = [
        ["accuracy", f"{np.mean(right):.4f}"],
        ["mean share of rows found, over classes", f"{np.mean([np.mean(right[y == c]) for c in np.unique(y)]):.4f}"],
    ]
    if hasattr(model, "predict_proba"):
        probabilities = fetch64(model.predict_proba(X))
        true = y[:, None] == np.asarray(model.classes_)[None, :]
        log_loss = -np.mean(np.log(np.maximum(np.sum(probabilities * true, axis=1), TINY)))
        brier = np.mean(np.sum((probabilities - true) ** 2, axis=1))
        found += [["log loss of the probabilities", f"{log_loss:.4f}"], ["Brier score", f"{brier:.4f}"]]
    return found


def class_scores(model: Any, X: Any, y: Any) -> list[list[str]]:
    """For each class: its name, its rows, rows predicted as it, how many of these are right, and of its rows are found."""
    predicted, true = np.asarray(model.predict(X)), np.asarray(y)
    rows = []
    for label in model.classes_:
        is_it, said = true == label, predicted == label
        both = np.sum(is_it & said)
        shares = [f"{both / total:.1%}" if (total := int(np.sum(mask))) else "\u2013" for mask in (said, is_it)]
        rows.append([str(label), f"{int(is_it.sum()):,}", f"{int(said.sum()):,}", *shares])
    return rows
