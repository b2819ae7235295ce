"""How good a model is on rows that it has not seen, beside two simple ones."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from bochner.arrays import Array
from bochner.cli.tasks import Problem
from bochner.scores import ACCURACY, LOG_LOSS, R2, RMSE, measures, measures_of_classes, measures_of_numbers
from bochner.tables import TableEncoder

SHOWN = {"regression": (R2, RMSE), "classification": (ACCURACY, LOG_LOSS)}
"""The measures of a task, of those that there are; the first is the one to compare."""

LINEAR_ROWS = 20_000
"""Rows that the linear model is fitted on, at most."""
MOST_TESTED = 10_000
"""Rows that are held out, at most."""


def hold_out(problem: Problem, share: float, seed: int) -> tuple[Problem, Problem | None]:
    """Rows to learn from, and rows that are set aside; none where ``share`` is zero. Classes keep their shares."""
    from sklearn.model_selection import train_test_split

    n = min(round(share * problem.n_rows), MOST_TESTED)
    if n < 1 or problem.n_rows - n < 2:
        return problem, None
    classes = problem.y if problem.task == "classification" else None
    if classes is not None:
        counts = np.unique(classes, return_counts=True)[1]
        classes = classes if counts.min() >= 2 and len(counts) <= min(n, problem.n_rows - n) else None
    rows, test = train_test_split(np.arange(problem.n_rows), test_size=n, random_state=seed, stratify=classes)
    return problem.take(np.sort(rows)), problem.take(np.sort(test))


def scores(model: Any, test: Problem) -> dict[str, float]:
    """R squared and root mean squared error, or accuracy and log loss, by name; the first is the one to compare."""
    return _some(measures(model, test.X, test.y, test.weight), SHOWN[test.task])


def baselines(train: Problem, test: Problem, seed: int) -> dict[str, dict[str, float]]:
    """The same scores of the mean or the most frequent class, and of a linear model on the encoded columns."""
    rng = np.random.default_rng(seed)
    some = train
    if train.n_rows > LINEAR_ROWS:
        some = train.take(np.sort(rng.choice(train.n_rows, LINEAR_ROWS, replace=False)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the model has told which columns are left out
        encoder = TableEncoder().fit(some.X)
    (rows, _), (new, _) = encoder.encode(some.X), encoder.encode(test.X)  # the model has told of levels that are new, too
    spread = rows.std(axis=0)
    centre, spread = rows.mean(axis=0), np.where(spread > 0, spread, 1.0)
    rows, new = (rows - centre) / spread, (new - centre) / spread
    if train.task == "regression":
        mean = float(np.average(train.y, weights=train.weight))
        return {
            "mean": _of_numbers(test, np.full(test.n_rows, mean)),
            "linear (ridge)": _of_numbers(test, _ridge(rows, some).predict(new)),
        }
    labels, numbers = np.unique(train.y, return_inverse=True)
    shares = np.bincount(numbers, weights=train.weight) / (len(numbers) if train.weight is None else train.weight.sum())
    linear = _logistic(rows, some)
    return {
        "most frequent class": _of_classes(
            test, np.full(test.n_rows, labels[shares.argmax()]), np.tile(shares, (test.n_rows, 1)), labels
        ),
        "linear (logistic)": _of_classes(test, linear.predict(new), linear.predict_proba(new), linear.classes_),
    }


def _ridge(rows: Array, some: Problem) -> Any:
    from sklearn.linear_model import RidgeCV

    return RidgeCV(np.logspace(-2, 4, 13)).fit(rows, some.y, sample_weight=some.weight)


def _logistic(rows: Array, some: Problem) -> Any:
    from sklearn.linear_model import LogisticRegression

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a baseline that has not converged is one still
        return LogisticRegression(max_iter=300).fit(rows, some.y, sample_weight=some.weight)


def _of_numbers(test: Problem, predicted: Array) -> dict[str, float]:
    return _some(measures_of_numbers(test.y, predicted, test.weight), SHOWN["regression"])


def _of_classes(test: Problem, predicted: Array, shares: Array, classes: Array) -> dict[str, float]:
    return _some(measures_of_classes(test.y, predicted, classes, shares, test.weight), SHOWN["classification"])


def _some(found: dict[str, float], names: tuple[str, ...]) -> dict[str, float]:
    return {name: found[name] for name in names}
