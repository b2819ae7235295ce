"""The pictures that suit a fitted model, and one figure of them all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from bochner.errors import InputError
from bochner.estimators.encoding import seen_width
from bochner.plots.axes import Axes, given_or_new
from bochner.plots.learned import (
    plot_calibration,
    plot_history,
    plot_metric,
    plot_predictions,
    plot_relevance,
)
from bochner.plots.selection import compared, plot_selection
from bochner.plots.sizes import draw_feature_errors, feature_errors, features_in_words
from bochner.plots.spectrum import column_names, plot_directions, plot_frequencies, plot_learned_kernel
from bochner.plots.weights import plot_kernel_weights, plot_path

CELL = (4.6, 3.6)
"""Width and height of a picture in a figure of several, in inches."""
ACROSS = 3
BELOW = 16
"""Points between axes and their title where a legend stands there."""
SQUARED_MOST = 4000
"""Features up to which the error with fewer of them is drawn unasked: each size is a regression."""


@dataclass(frozen=True)
class Picture:
    """A picture that suits a model: what it is about, a sentence that says what it shows, and what draws it on axes."""

    topic: str
    """"learned", "quality" or "choice"."""
    title: str
    caption: str
    draw: Callable[[Axes], Axes]
    rows: int = 1
    """How many bars or names it has: tall pictures have many."""
    draws_above: bool = False
    """Whether something stands above its axes, where the title would be."""


def pictures(model: Any, X: Any = None, y: Any = None) -> list[Picture]:
    """The pictures that suit a fitted model; of how well it predicts where rows X and their targets y are given."""
    if (X is None) != (y is None):
        raise InputError("X and y come together: give rows that the model has not seen, and their targets, or neither.")
    found = [*_of_weights(model), *_of_kernel(model), *_of_search(model)]
    found += [] if X is None else list(_of_rows(model, X, y))
    if not found:
        raise InputError(f"There is nothing to draw of this {type(model).__name__}: give a model of bochner's after fit.")
    return found


def plot_model(model: Any, X: Any = None, y: Any = None) -> Any:
    """A figure of the pictures that suit a fitted model: what was learned, how, and, given rows X and y, how well.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from bochner import KernelRegressor
    >>> from bochner.plots import plot_model
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = KernelRegressor("gaussian", n_features=32, random_state=0).fit(X[::2], y[::2])
    >>> len(plot_model(model, X[1::2], y[1::2]).axes) >= 6
    True
    """
    chosen = pictures(model, X, y)
    across = min(ACROSS, len(chosen))
    down = -(-len(chosen) // across)
    figure = given_or_new(None).figure  # which says what to install where there is no Matplotlib
    figure.clear()
    figure.set_size_inches(CELL[0] * across, CELL[1] * down)
    axes = np.ravel(figure.subplots(down, across))
    for ax, picture in zip(axes, chosen, strict=False):
        picture.draw(ax)
        if not ax.get_title():
            ax.set_title(picture.title, pad=BELOW if picture.draws_above else None)
    for ax in axes[len(chosen) :]:
        ax.remove()
    return figure


def _of_weights(model: Any) -> Iterator[Picture]:
    if hasattr(model, "kernel_weights_"):
        yield Picture(
            "learned",
            "weights of the kernels",
            "How much each kernel counts: zero where it is out.",
            lambda ax: plot_kernel_weights(model, ax),
            rows=len(model.kernel_names_),
        )
    if getattr(model, "path_", None) is not None:
        yield Picture(
            "choice",
            "path of penalties",
            "How kernels come in as the penalty falls; the dotted line is the penalty that was chosen.",
            lambda ax: plot_path(model, ax),
        )


def _of_kernel(model: Any) -> Iterator[Picture]:
    if hasattr(model, "relevance_"):
        yield Picture(
            "learned",
            "relevance of the columns",
            "How much predictions change where a column has the values of other rows, in units of the largest.",
            lambda ax: plot_relevance(model, ax),
            rows=min(20, len(model.relevance_by_name(by="column"))),
        )
    if hasattr(model, "kernel_") and getattr(model.kernel_, "origin", None) is None:
        first, *second = leading_columns(model, 2)
        yield Picture(
            "learned",
            "kernel of one column",
            f"The kernel as {column_names(model)[first]} changes, and nothing else.",
            lambda ax: plot_learned_kernel(model, ax, first),
        )
        if second:
            yield Picture(
                "learned",
                "kernel of two columns",
                f"The kernel as {column_names(model)[first]} and {column_names(model)[second[0]]} change.",
                lambda ax: plot_learned_kernel(model, ax, (first, second[0])),
            )
    if has_full_metric(model):
        yield Picture(
            "learned",
            "metric",
            "Which columns move rows apart (the diagonal), and which do so together.",
            lambda ax: plot_metric(model, ax),
            rows=min(20, len(model.relevance_by_name(by="column"))),
        )
        yield Picture(
            "learned",
            "leading directions",
            "The directions along which the kernel changes most, and their shares.",
            lambda ax: plot_directions(model, ax),
            rows=min(12, seen_width(model)),
        )
    if hasattr(model, "kernel_") and hasattr(getattr(model, "feature_map_", None), "frequencies"):
        yield Picture(
            "learned",
            "frequencies",
            "Frequencies of the most relevant column, beside the law of the kernel.",
            lambda ax: plot_frequencies(model, ax),
        )


def _of_search(model: Any) -> Iterator[Picture]:
    candidates = compared(model)
    if getattr(model, "history_", None):
        yield Picture(
            "choice",
            "history",
            "The held-out error while scales were learned, which metrics then grow from."
            if candidates
            else "The held-out error while the kernel was learned, from small sizes to large.",
            lambda ax: plot_history(model, ax),
            draws_above=True,
        )
    if candidates:
        yield Picture(
            "choice",
            "candidates",
            "Errors of what was compared on unseen rows, a dot for each part, a line their mean; what was chosen is filled.",
            lambda ax: plot_selection(model, ax),
            rows=min(12, len(candidates)),
        )


def _of_rows(model: Any, X: Any, y: Any) -> Iterator[Picture]:
    if hasattr(model, "predict_proba"):
        yield Picture(
            "quality",
            "calibration",
            "How often predictions come true against their probabilities; numbers are rows in each bin.",
            lambda ax: plot_calibration(model, X, y, ax),
        )
    elif hasattr(model, "predict") and not hasattr(model, "classes_"):
        yield Picture(
            "quality",
            "predicted against true",
            "On the diagonal predictions are right"
            + ("; bars are two standard deviations to each side." if getattr(model, "knows_deviations", False) else "."),
            lambda ax: plot_predictions(model, X, y, ax),
        )
    if _can_shrink(model):
        features = features_in_words(model)
        errors = cache(lambda: feature_errors(model, X, y))  # a picture is drawn for light screens and for dark ones
        yield Picture(
            "quality",
            f"error with fewer {features}",
            f"The same kernel on fewer of its {features}: a flat end says that more would not help.",
            lambda ax: draw_feature_errors(model, *errors(), ax),
        )


def _can_shrink(model: Any) -> bool:
    """Whether there are errors with fewer features, soon."""
    feature_map: Any = getattr(model, "feature_map_", None)
    known = hasattr(feature_map, "points") or hasattr(feature_map, "centres")
    return known and getattr(model, "moments_", None) is not None and feature_map.n_features <= SQUARED_MOST


def has_full_metric(model: Any) -> bool:
    """Whether a model has a metric in which columns work together."""
    metric = getattr(model, "metric_", None)
    return metric is not None and bool(np.any(metric - np.diag(np.diagonal(metric))))


def leading_columns(model: Any, k: int) -> list[int]:
    """The numbers of the k most relevant columns, or of the first where the model knows no relevance."""
    relevance = getattr(model, "relevance_", -np.arange(seen_width(model), dtype=float))
    return [int(i) for i in np.argsort(-relevance, kind="stable")[:k]]
