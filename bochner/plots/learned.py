"""Pictures of fitted models: what they look at, how they were learned, and how well they predict."""

from __future__ import annotations

from itertools import groupby, zip_longest
from typing import Any

import numpy as np

from bochner.arrays import fetch64
from bochner.descent import typed_name
from bochner.errors import InputError
from bochner.estimators.encoding import column_names
from bochner.plots.axes import MAX_DOTS, Axes, draw_diagonal, evenly, few_ticks, given_or_new, ink, plain_ticks, rms_error

MAX_BARS = 200
"""Dots that have error bars."""
LABEL_SHARE = 0.07
"""How wide two lines of text on end are, in parts of a picture."""
HEADROOM = 1.45
"""Height of a history, over that of its dots: the sizes of the levels stand above them."""
BINS = 10
FOOT = 0.2
"""Height of the bars at the foot of a reliability curve."""


def plot_relevance(model: Any, ax: Axes | None = None, top: int = 20) -> Axes:
    """The relevance of each column to what a model predicts as bars, the ``top`` most relevant ones from the top down.

    Columns are those of the table; what they were encoded as counts to them.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from bochner import KernelRegressor
    >>> from bochner.plots import plot_relevance
    >>> model = KernelRegressor("gaussian", n_features=32, random_state=0).fit(*load_diabetes(return_X_y=True))
    >>> len(plot_relevance(model, top=3).patches)
    3
    """
    require(model, "relevance_")
    if top < 1:
        raise InputError(f"top must be the number of columns to show, at least 1, got {top!r}.")
    everything = model.relevance_by_name(by="column")
    names, values = list(everything)[:top], list(everything.values())[:top]
    ax = given_or_new(ax)
    ax.barh(range(len(names)), values, color="C0", height=0.7)
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.set_xlim(0, 1.02)
    ax.set_xlabel("relevance")
    if len(names) < len(everything):
        ax.set_title(f"the first {len(names)} of {len(everything)} columns")
    return ax


def plot_history(model: Any, ax: Axes | None = None) -> Axes:
    """The criterion at every point of learning by its gradient, against the seconds that this took so far.

    Dots are evaluations, lines the lowest one so far of a family at a level. Dotted lines mark where levels begin, with
    their numbers of features and rows where these fit in: errors of different levels are not the same quantity. The starts
    are chosen before the first dot. Where metrics were learned too, these are the scales that they grew from: learned once
    for each part that was set aside, and once more on all rows if there were several; :func:`plot_selection` shows what came
    of it.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from bochner import KernelRegressor
    >>> from bochner.plots import plot_history
    >>> model = KernelRegressor("gaussian", n_features=32, random_state=0).fit(*load_diabetes(return_X_y=True))
    >>> plot_history(model).get_ylabel()
    'criterion'
    """
    history = require(model, "history_")
    families = list(dict.fromkeys(record["kernel"] for record in history))
    colours = {family: f"C{i}" for i, family in enumerate(families)}
    ax = given_or_new(ax)
    labelled: set[str] = set()
    for (family, _), run in groupby(history, key=lambda record: (record["kernel"], record["level"])):
        seconds, values = np.array([(record["seconds"], record["criterion"]) for record in run]).T
        label = None if family in labelled else typed_name(family)
        labelled.add(family)
        ax.plot(seconds, values, ".", markersize=4, alpha=0.5, color=colours[family])
        ax.plot(seconds, np.minimum.accumulate(values), linewidth=1.6, color=colours[family], label=label)
    ax.set_yscale("log")
    plain_ticks(ax.yaxis, few_ticks(*ax.get_ylim()))
    _mark_levels(ax, history)
    low, high = ax.get_ylim()
    ax.set_ylim(low, low * (high / low) ** HEADROOM)
    ax.set_xlim(left=0)
    ax.set_xlabel("seconds")
    ax.set_ylabel("criterion")
    narrow = {"handlelength": 1.2, "handletextpad": 0.5, "columnspacing": 1.2, "borderpad": 0.1}
    ax.legend(frameon=False, fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 0.99), ncols=3, **narrow)
    return ax


def plot_metric(model: Any, ax: Axes | None = None, top: int = 20) -> Axes:
    """The learned metric of standardised columns as a map of colours, the ``top`` columns of the largest entries.

    Distances are (x - z) M (x - z)'. The diagonal of M says how far each column moves rows apart, the rest which columns
    work together: two of the same sign in one direction, of opposite signs in the other. Colours are entries over the
    largest.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from bochner import KernelRegressor
    >>> from bochner.plots import plot_metric
    >>> model = KernelRegressor("gaussian", n_features=32, random_state=0).fit(*load_diabetes(return_X_y=True))
    >>> len(plot_metric(model, top=5).get_yticklabels())
    5
    """
    metric = require(model, "metric_", "KernelRegressor or KernelClassifier")
    if top < 1:
        raise InputError(f"top must be the number of columns to show, at least 1, got {top!r}.")
    shown = np.sort(np.argsort(-np.diagonal(metric), kind="stable")[:top])
    names = column_names(model)
    values = metric[np.ix_(shown, shown)] / max(float(np.abs(metric).max()), np.finfo(np.float64).tiny)
    ax = given_or_new(ax)
    image = ax.imshow(values, cmap="RdBu_r", vmin=-1, vmax=1, interpolation="nearest", aspect="auto")
    ax.set_xticks(range(len(shown)), [names[i] for i in shown], rotation=90 if len(shown) > 4 else 0)
    ax.set_yticks(range(len(shown)), [names[i] for i in shown])
    ax.figure.colorbar(image, ax=ax, fraction=0.046, pad=0.04)
    ax.set_title("metric" if len(shown) == len(metric) else f"metric, {len(shown)} of {len(metric)} columns")
    return ax


def plot_calibration(model: Any, X: Any, y: Any, ax: Axes | None = None) -> Axes:
    """How often a class comes true against its predicted probability, in ten bins of probability, with the diagonal.

    Two classes: the probability of the second one. More: the probability of the class that is predicted, and how often it
    is the right one. Error bars are what chance alone does, one standard deviation to each side, were the probabilities
    true; bars and numbers at the foot say how many rows are in each bin. The rows should be new to the model.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from bochner import KernelClassifier
    >>> from bochner.plots import plot_calibration
    >>> X, y = load_wine(return_X_y=True)
    >>> model = KernelClassifier("gaussian", n_features=64, random_state=0).fit(X[::2], y[::2])
    >>> plot_calibration(model, X[1::2], y[1::2]).get_xlabel()
    'probability of the predicted class'
    """
    if not hasattr(model, "predict_proba"):
        advice = "fit a KernelClassifier" if hasattr(model, "classes_") else "for a regressor, use plot_predictions"
        name = type(model).__name__
        raise InputError(
            f"plot_calibration draws classifiers with probabilities, and {name} has no predict_proba: {advice}."
        )
    labels = np.asarray(y)
    probabilities = fetch64(model.predict_proba(X))
    if labels.shape != (len(probabilities),):
        raise InputError(
            f"y must have one label for each of the {len(probabilities)} rows of X, got shape {labels.shape}: give "
            "both alike."
        )
    if len(model.classes_) == 2:
        predicted, happened = probabilities[:, 1], labels == model.classes_[1]
        names = f"probability of {model.classes_[1]}", f"share of rows that are {model.classes_[1]}"
    else:
        predicted, happened = probabilities.max(axis=1), labels == model.classes_[probabilities.argmax(axis=1)]
        names = "probability of the predicted class", "share of rows where it is right"
    which = np.minimum((BINS * predicted).astype(int), BINS - 1)
    counts = np.bincount(which, minlength=BINS)
    filled = np.nonzero(counts)[0]
    middle, share = (np.bincount(which, v, BINS)[filled] / counts[filled] for v in (predicted, happened.astype(float)))
    chance = np.sqrt(middle * (1 - middle) / counts[filled])
    ax = given_or_new(ax)
    ax.bar((np.arange(BINS) + 0.5) / BINS, FOOT * counts / counts.max(), 0.9 / BINS, color="C0", alpha=0.25, linewidth=0)
    for i in filled:
        ax.text((i + 0.5) / BINS, -0.03, str(counts[i]), ha="center", va="top", fontsize="x-small")
    ax.plot([0, 1], [0, 1], color=ink(), linewidth=0.9)
    inside = np.minimum(chance, [share, 1 - share])  # a share is between zero and one
    ax.errorbar(middle, share, inside, color="C0", marker="o", markersize=4, elinewidth=0.9)
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.1, 1.04), xlabel=names[0], ylabel=names[1])
    return ax


def plot_predictions(model: Any, X: Any, y: Any, ax: Axes | None = None) -> Axes:
    """Predicted targets of a fitted regressor against true ones, with the diagonal, and the RMS error as the title.

    Bars of two standard deviations to each side where the model has kept what they need. Every target of
    several has its own colour.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from bochner import KernelRegressor
    >>> from bochner.plots import plot_predictions
    >>> X, y = load_diabetes(return_X_y=True)
    >>> plot_predictions(KernelRegressor("gaussian", n_features=32, random_state=0).fit(X, y), X, y).get_ylabel()
    'predicted'
    """
    if hasattr(model, "classes_"):
        raise InputError(f"plot_predictions draws regressors, and {type(model).__name__} has classes: use plot_calibration.")
    knows = getattr(model, "knows_deviations", False)
    predictions, deviations = model.predict(X, return_std=True) if knows else (model.predict(X), None)
    predictions, targets = fetch64(predictions), fetch64(np.asarray(y))
    if predictions.shape != targets.shape:
        raise InputError(
            f"y has shape {targets.shape} and the predictions have shape {predictions.shape}: give a y of theirs."
        )
    n, columns = len(targets), targets.reshape(len(targets), -1).shape[1]
    chosen = evenly(n, MAX_BARS if knows else MAX_DOTS)
    ax = given_or_new(ax)
    draw_diagonal(ax, targets, predictions)
    for j in range(columns):
        x, z = (values.reshape(n, -1)[chosen, j] for values in (targets, predictions))
        style = {"color": f"C{j}", "rasterized": True}
        if deviations is not None:
            bars = 2 * fetch64(deviations).reshape(n, -1)[chosen, j]
            ax.errorbar(x, z, bars, linestyle="", elinewidth=0.6, alpha=0.35, **style)
        ax.scatter(x, z, s=9, alpha=0.7, linewidths=0, label=f"target {j}" if columns > 1 else None, **style)
    if columns > 1:
        ax.legend(frameon=False)
    ax.set_xlabel("true")
    ax.set_ylabel("predicted")
    ax.set_title(f"RMS error {rms_error(targets, predictions):.3g}")
    return ax


def require(model: Any, attribute: str, known: str = "KernelRegressor, KernelClassifier or KernelRidgeGD") -> Any:
    """An attribute of a fitted model, of the classes that are ``known`` to have it."""
    if not hasattr(model, attribute):
        raise InputError(f"{type(model).__name__} has no {attribute}: give a {known} after fit.")
    return getattr(model, attribute)


def _mark_levels(ax: Axes, history: list[dict[str, Any]]) -> None:
    """A dotted line where each level begins, with its size if the level is as wide as its label; the last one always."""
    levels = [next(run) for _, run in groupby(history, key=lambda record: record["level"])]
    end = ax.get_xlim()[1]
    for first, following in zip_longest(levels, levels[1:]):
        wide = (end if following is None else following["seconds"]) - first["seconds"] >= LABEL_SHARE * end
        ax.axvline(first["seconds"], color=ink(), linewidth=0.7, linestyle=":", alpha=0.6)
        if wide or following is None:
            size = [
                f"{first[name]} {word}" for name, word in (("n_features", "features"), ("n_rows", "rows")) if name in first
            ]
            where = {"transform": ax.get_xaxis_transform(), "rotation": 90, "va": "top", "ha": "left" if wide else "right"}
            ax.text(first["seconds"], 0.98, "\n".join(size), fontsize="x-small", alpha=0.8, **where)
