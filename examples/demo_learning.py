"""The part of the demo on learning: kernels that follow the data, beside linear models and grid searches."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from demo_figures import TALL, THREE, TWO, matrix, themed
from sklearn.datasets import load_diabetes, load_digits
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from bochner import KernelClassifier, KernelRegressor
from bochner.plots import plot_calibration, plot_history, plot_predictions, plot_relevance, plot_selection
from bochner.report import Section, Table, Text

LEARNED_FEATURES = 500
GAMMAS = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Widths of the grid, as multiples of one over the number of columns."""


def learning() -> Iterator[Section]:
    """Learned kernels: a regression, a classification, and columns that count."""
    print("Learning kernels")
    with threadpool_limits(1, user_api="blas"):  # small problems again
        sections = [diabetes(), digits(), relevant_columns()]
    yield from sections


def diabetes() -> Section:
    """A regression beside a linear one and a grid search, on the same split."""
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    split = train_test_split(X, y, test_size=0.3, random_state=0)
    model, scales = KernelRegressor(random_state=0), KernelRegressor(effort="fast", random_state=0)
    scores = [
        scored("KernelRegressor, all by default", model, split),
        scored('KernelRegressor, effort="fast"', scales, split),
        scored("RBFSampler and Ridge, grid search", grid(Ridge(), X.shape[1], ridge__alpha=[0.01, 0.1, 1, 10]), split),
        scored("Ridge on the standardised columns", make_pipeline(StandardScaler(), Ridge()), split),
    ]
    return Section(
        "Learning: a regression",
        [
            Text(
                f"The diabetes data: {len(split[0])} rows to fit, {len(split[1])} to test. With little effort the kernel "
                "has a scale for each column, which follows the gradient of the held-out error; by default columns may work "
                "together too, and unseen rows choose. The grid search has one scale for all. The target is nearly a linear "
                "function with much noise: a linear model is hard to beat here."
            ),
            Table(["method", "R² on test rows", "time"], scores),
            themed(
                lambda ax: plot_history(scales, ax),
                "Criterion against seconds",
                'Every kernel tried with effort="fast", from few features to many',
                size=THREE,
            ),
            themed(
                lambda ax: plot_selection(model, ax),
                "Errors on unseen rows",
                "What was compared by default: kernels, metrics and finishes",
                size=TALL,
            ),
            themed(
                lambda ax: plot_relevance(model, ax),
                "Relevance of the columns",
                "Which columns the predictions change with",
                size=THREE,
            ),
            themed(
                lambda ax: plot_predictions(model, split[1], split[3], ax),
                "Predicted against true targets",
                "Test rows, with two standard deviations to each side",
                size=THREE,
            ),
        ],
    )


def write_model(path: Path) -> Path:
    """The report of one model, of the diabetes data."""
    print("Writing the report of a model")
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    train, test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=0)
    with threadpool_limits(1, user_api="blas"):
        return KernelRegressor(random_state=0).fit(train, y_train).report(path, test, y_test, title="Diabetes: a model")


def digits() -> Section:
    """A classification and its probabilities, beside a grid search and a linear model."""
    X, y = load_digits(return_X_y=True)
    split = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
    model = KernelClassifier("gaussian", n_features=LEARNED_FEATURES, random_state=0)
    logistic = LogisticRegression(max_iter=1000)
    scores = [
        scored("KernelClassifier, a scale for each column", model, split),
        scored(
            "KernelClassifier, one scale for all",
            KernelClassifier("gaussian", scale="shared", n_features=LEARNED_FEATURES, random_state=0),
            split,
        ),
        scored(
            "RBFSampler and LogisticRegression, grid search",
            grid(logistic, X.shape[1], logisticregression__C=[1, 10, 100]),
            split,
        ),
        scored("LogisticRegression", make_pipeline(StandardScaler(), logistic), split),
    ]
    return Section(
        "Learning: a classification",
        [
            Text(
                f"The digits: {len(split[0])} rows to fit, {len(split[1])} to test, {LEARNED_FEATURES} features each. "
                "Probabilities come from decisions about rows that a model has not seen."
            ),
            Table(["method", "accuracy on test rows", "time"], scores),
            themed(
                lambda ax: plot_calibration(model, split[1], split[3], ax),
                "Reliability curve of the digits",
                "Test rows: how often the predicted class is right, and how many rows are in each bin",
                size=TWO,
            ),
            matrix(
                model.relevance_.reshape(8, 8), "Relevance of each pixel", "Relevance of each pixel: bright ones count most"
            ),
        ],
    )


def relevant_columns() -> Section:
    """Three columns that count among twenty."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1600, 20))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.standard_normal(len(X))
    split = train_test_split(X, y, test_size=1000, random_state=0)
    model = KernelRegressor(n_features=LEARNED_FEATURES, random_state=0)
    sparse = KernelRegressor(n_features=LEARNED_FEATURES, scale_penalty="sparse", random_state=0)
    scores = [
        scored("KernelRegressor", model, split),
        scored("KernelRegressor, sparse scales", sparse, split),
        scored("RBFSampler and Ridge, grid search", grid(Ridge(), X.shape[1], ridge__alpha=[0.01, 0.1, 1, 10]), split),
    ]
    best = 1 - 0.3**2 / float(np.var(y))
    return Section(
        "Learning: which columns count",
        [
            Text(
                f"y = sin(2 x0) + x1 x2 + noise, with 17 more columns that have no say; {len(split[0])} rows to fit. The "
                f"best possible R² is about {best:.2f}. A grid over one shared scale cannot tell the columns apart. The "
                f"sparse penalty gives {int(np.sum(sparse.relevance_ == 0))} columns a relevance of exactly zero."
            ),
            Table(["method", "R² on test rows", "time"], scores),
            themed(lambda ax: plot_relevance(model, ax), "Relevance of the columns", "Without a penalty", size=TALL),
            themed(lambda ax: plot_relevance(sparse, ax), "Relevance, sparse scales", "With a sparse penalty", size=TALL),
        ],
    )


def grid(last: Any, n_columns: int, **choices: Any) -> GridSearchCV:
    """scikit-learn's search over a shared width and a penalty, on as many random features."""
    sampler = RBFSampler(n_components=LEARNED_FEATURES, random_state=0)
    options = {"rbfsampler__gamma": [factor / n_columns for factor in GAMMAS], **choices}
    return GridSearchCV(make_pipeline(StandardScaler(), sampler, last), options, cv=3)


def scored(name: str, model: Any, split: Any) -> list[str]:
    """Name, score on the test rows, and seconds of the fit."""
    train, test, y_train, y_test = split
    start = time.perf_counter()
    model.fit(train, y_train)
    seconds = time.perf_counter() - start
    score = model.score(test, y_test)
    print(f"  {name:48s} {score:.3f} {seconds:6.1f} s")
    return [name, f"{score:.3f}", f"{seconds:.1f} s"]
