"""How many features or centres a model needs: its error with fewer of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from bochner.arrays import Array, fetch64
from bochner.estimators.smaller import with_features
from bochner.plots.axes import Axes, given_or_new, plain_ticks, rms_error

FEWEST, SIZES = 16, 8
MOST_TICKS = 5


def plot_feature_error(model: Any, X: Any, y: Any, ax: Axes | None = None, sizes: Any = None) -> Axes:
    """The error of a fitted model on rows X with targets y, had it fewer of its features; the last dot is the model itself.

    Root mean squared error of a regressor, the share of rows that a classifier has wrong. Features are random ones or data
    centres. Kernel and penalty stay as they are, coefficients are fitted anew to the rows of fit. A line that is flat at its
    end says that more features are of no use.

    Parameters
    ----------
    model : a KernelRegressor or KernelClassifier
        Fitted with the squared loss and ``keep_moments``.
    X, y : rows and targets that are new to the model
    ax : matplotlib.axes.Axes, optional
    sizes : list of even numbers, optional
        Numbers of features; eight of them, from 16 on, unless they are given. Of centres any whole numbers.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from bochner import KernelRegressor
    >>> from bochner.plots import plot_feature_error
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KernelRegressor("gaussian", n_features=64, random_state=0).fit(X[::2], y[::2])
    >>> plot_feature_error(model, X[1::2], y[1::2]).get_ylabel()
    'RMS error'
    """
    return draw_feature_errors(model, *feature_errors(model, X, y, sizes), ax)


def feature_errors(model: Any, X: Any, y: Any, sizes: Any = None) -> tuple[Array, list[float]]:
    """Numbers of features of a fitted model, and its error on rows X with targets y had it so many."""
    most = with_features(model, model.feature_map_.n_features).feature_map_.n_features  # an error where there are no sums
    chosen = _sizes(most) if sizes is None else np.unique(np.asarray(sizes, dtype=int))
    return chosen, [_error(with_features(model, int(size)), X, y) for size in chosen]


def draw_feature_errors(model: Any, sizes: Array, errors: list[float], ax: Axes | None = None) -> Axes:
    """What :func:`feature_errors` found, on axes."""
    ax = given_or_new(ax)
    ax.plot(sizes, errors, color="C0", marker="o", markersize=4)
    ax.set_xscale("log")
    plain_ticks(ax.xaxis, sizes if len(sizes) <= MOST_TICKS else sizes[:: -(-len(sizes) // MOST_TICKS)])
    ax.set_ylim(0, 1.1 * max(*errors, np.finfo(np.float64).tiny))
    ax.set_xlabel(features_in_words(model))
    ax.set_ylabel("share of wrong rows" if hasattr(model, "classes_") else "RMS error")
    return ax


def features_in_words(model: Any) -> str:
    """What the features of a model are."""
    return "centres" if hasattr(model.feature_map_, "centres") else "features"


def _sizes(most: int) -> Array:
    """Even numbers of features, evenly spread in their logarithms, up to the most."""
    low = min(FEWEST, most)
    spread = 2 * np.round(np.geomspace(low, most, SIZES) / 2).astype(int)
    spread[-1] = most
    return np.unique(spread)


def _error(model: Any, X: Any, y: Any) -> float:
    if hasattr(model, "classes_"):
        return float(np.mean(np.asarray(model.predict(X)) != np.asarray(y)))
    return rms_error(fetch64(np.asarray(y)), model.predict(X))
