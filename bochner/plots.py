"""Pictures of kernels, of their approximations and of learned models: axes in, axes out.

Every function draws on ``ax``, or on a new figure where it is left out, and returns the axes. Colours follow Matplotlib's
current style. Matplotlib is imported only when something is drawn: ``pip install bochner[plots]``.
"""

from __future__ import annotations

from inspect import signature
from itertools import groupby
from typing import Any

import numpy as np
from scipy.optimize import brentq

from bochner.arrays import Array, fetch64
from bochner.features import FeatureMap
from bochner.kernels import Kernel, get_kernel

Axes = Any
"""A ``matplotlib.axes.Axes``."""

GRID_POINTS = 401
FAINT = 0.05
"""A kernel with a bandwidth is drawn as far as the point where it has fallen to this value."""
MAX_DOTS = 4000
"""Dots of a scatter; the errors in its title count every entry."""
MAX_BARS = 200
"""Dots that have error bars."""
BINS = 10
FOOT = 0.2
"""Height of the bars at the foot of a reliability curve."""


def plot_kernel(
    kernel: str | Kernel,
    feature_map: FeatureMap | None = None,
    ax: Axes | None = None,
    *,
    centre: float | None = None,
    reach: float | None = None,
) -> Axes:
    """The kernel of one column, k(centre, x) against x, and its approximation phi(centre) . phi(x).

    Parameters
    ----------
    kernel : str or Kernel
        A name out of :data:`bochner.kernels.KERNELS` or a kernel object, for rows of one column.
    feature_map : FeatureMap, optional
        A map of rows of one column, such as ``FourierFeatures(kernel).fit(X).feature_map_`` for X of shape (n, 1).
    ax : matplotlib.axes.Axes, optional
    centre : float, optional
        The fixed point: zero, or one for a kernel of histograms, unless it is given.
    reach : float, optional
        x goes this far from the centre; by default until the kernel is small. Kernels of histograms stop at zero.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> from bochner.plots import plot_kernel
    >>> plot_kernel("gaussian").get_ylabel()
    'k(0, x)'
    """
    kernel = get_kernel(kernel)
    if feature_map is not None and feature_map.n_columns != 1:
        raise ValueError(
            f"plot_kernel draws rows of one column, and this feature map takes {feature_map.n_columns}: fit one on X[:, :1]."
        )
    of_histograms = bool(np.isfinite(kernel.lower))
    centre = (1.0 if of_histograms else 0.0) if centre is None else float(centre)
    reach = _reach(kernel, centre) if reach is None else float(reach)
    low = max(0.0, centre - reach) if of_histograms else centre - reach
    x = np.linspace(low, centre + reach, GRID_POINTS)[:, None]
    fixed = np.array([[centre]])
    ax = _axes(ax)
    ax.plot(x[:, 0], fetch64(kernel(fixed, x))[0], color=_ink(), linewidth=1.4, label="exact")
    if feature_map is not None:
        values = (feature_map.forward(fixed) @ feature_map.forward(x).T)[0]
        label = f"{feature_map.n_features} features"
        ax.plot(x[:, 0], values, color="C1", linewidth=1.8, linestyle=(0, (4, 2)), label=label)
        ax.legend(frameon=False)
    ax.set_xlabel("x")
    ax.set_ylabel(f"k({centre:g}, x)")
    ax.margins(x=0)
    return ax


def plot_gram(
    K: Array,
    ax: Axes | None = None,
    *,
    limits: tuple[float, float] | None = None,
    cmap: str = "viridis",
    colorbar: bool = True,
) -> Axes:
    """A kernel matrix K (n, k) as a picture, one cell an entry.

    Parameters
    ----------
    K : array of shape (n, k)
    ax : matplotlib.axes.Axes, optional
    limits : (float, float), optional
        Values of the two ends of the colour scale: give two matrices the same limits to compare them by eye.
    cmap : str, default="viridis"
    colorbar : bool, default=True

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.kernels import Gaussian
    >>> from bochner.plots import plot_gram
    >>> ax = plot_gram(Gaussian()(np.linspace(0, 3, 20)[:, None]))
    >>> len(ax.images)
    1
    """
    K = _table(K, "K")
    low, high = (None, None) if limits is None else limits
    ax = _axes(ax)
    image = ax.imshow(K, vmin=low, vmax=high, cmap=cmap, interpolation="nearest")
    ax.set_xticks([])
    ax.set_yticks([])
    if colorbar:
        ax.figure.colorbar(image, ax=ax, fraction=0.046, pad=0.04)
    return ax


def plot_approximation(exact: Array, approximate: Array, ax: Axes | None = None) -> Axes:
    """Approximate kernel values against exact ones, with the diagonal, and the RMS error as the title.

    Parameters
    ----------
    exact, approximate : arrays of the same shape
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.plots import plot_approximation
    >>> plot_approximation(np.zeros((2, 2)), np.full((2, 2), 0.5)).get_title()
    'RMS error 0.5'
    """
    exact, approximate = fetch64(exact), fetch64(approximate)
    if exact.shape != approximate.shape:
        raise ValueError(
            f"exact has shape {exact.shape} and approximate has shape {approximate.shape}: give the same entries twice."
        )
    x, y = exact.ravel(), approximate.ravel()
    chosen = np.linspace(0, x.size - 1, min(x.size, MAX_DOTS)).astype(int)
    ax = _axes(ax)
    ax.scatter(x[chosen], y[chosen], s=5, alpha=0.35, linewidths=0, color="C0", rasterized=True)
    ends = [min(x.min(), y.min()), max(x.max(), y.max())]
    ax.plot(ends, ends, color=_ink(), linewidth=0.9)
    ax.set_xlabel("exact")
    ax.set_ylabel("approximate")
    ax.set_title(f"RMS error {rms_error(exact, approximate):.2g}")
    return ax


def plot_convergence(n_features: Array, errors: Array, ax: Axes | None = None, *, guide: bool = True) -> Axes:
    """Errors against numbers of features on logarithmic axes.

    Parameters
    ----------
    n_features : array of shape (t,)
    errors : array of shape (t,)
    ax : matplotlib.axes.Axes, optional
    guide : bool, default=True
        Whether to draw the slope -1/2 of Monte Carlo methods through the first error.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> from bochner.plots import plot_convergence
    >>> plot_convergence([100, 400, 1600], [0.1, 0.05, 0.025]).get_xscale()
    'log'
    """
    sizes, errors = fetch64(np.asarray(n_features)), fetch64(np.asarray(errors))
    ax = _axes(ax)
    if guide:
        ax.loglog(sizes, errors[0] * np.sqrt(sizes[0] / sizes), color=_ink(), linewidth=0.9, linestyle=":")
    ax.loglog(sizes, errors, color="C0", marker="o", markersize=4)
    _plain_ticks(ax.xaxis, sizes if sizes.size <= 4 else None)
    _plain_ticks(ax.yaxis)
    ax.set_xlabel("features")
    ax.set_ylabel("RMS error")
    return ax


def plot_relevance(model: Any, ax: Axes | None = None, top: int = 20) -> Axes:
    """The relevance of each column to a learned kernel as bars, the most relevant one on top.

    Parameters
    ----------
    model : fitted KernelRegressor, KernelClassifier or KernelRidgeGD
    ax : matplotlib.axes.Axes, optional
    top : int, default=20
        Most columns to show.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import KernelRegressor
    >>> from bochner.plots import plot_relevance
    >>> X = np.random.default_rng(0).standard_normal((60, 3))
    >>> model = KernelRegressor("gaussian", n_features=32, random_state=0).fit(X, np.sin(2 * X[:, 1]))
    >>> ax = plot_relevance(model)
    >>> ax.get_yticklabels()[0].get_text()
    'x1'
    """
    _require(model, "relevance_")
    if top < 1:
        raise ValueError(f"top must be the number of columns to show, at least 1, got {top!r}.")
    everything = model.relevance_by_name()
    names, values = list(everything)[:top], list(everything.values())[:top]
    ax = _axes(ax)
    ax.barh(range(len(names)), values, color="C0", height=0.7)
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.set_xlim(0, 1.02)
    ax.set_xlabel("relevance")
    if len(names) < len(everything):
        ax.set_title(f"the first {len(names)} of {len(everything)} columns")
    return ax


def plot_history(model: Any, ax: Axes | None = None) -> Axes:
    """The criterion of every kernel tried against the seconds since learning began.

    Dots are evaluations, lines the lowest one so far of a family at a level. Dotted lines mark where levels begin, with
    their numbers of features and rows: errors of different levels are not the same quantity. The starts are chosen before
    the first dot.

    Parameters
    ----------
    model : fitted KernelRegressor, KernelClassifier or KernelRidgeGD
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import KernelRegressor
    >>> from bochner.plots import plot_history
    >>> X = np.random.default_rng(0).standard_normal((60, 3))
    >>> ax = plot_history(KernelRegressor("gaussian", n_features=32, random_state=0).fit(X, X[:, 1]))
    >>> ax.get_ylabel()
    'criterion'
    """
    history = _require(model, "history_")
    families = list(dict.fromkeys(record["kernel"] for record in history))
    colours = {family: f"C{i}" for i, family in enumerate(families)}
    ax = _axes(ax)
    labelled: set[str] = set()
    for (family, _), run in groupby(history, key=lambda record: (record["kernel"], record["level"])):
        seconds, values = np.array([(record["seconds"], record["criterion"]) for record in run]).T
        label = None if family in labelled else family
        labelled.add(family)
        ax.plot(seconds, values, ".", markersize=4, alpha=0.5, color=colours[family])
        ax.plot(seconds, np.minimum.accumulate(values), linewidth=1.6, color=colours[family], label=label)
    ax.set_yscale("log")
    _plain_ticks(ax.yaxis, _few_ticks(*ax.get_ylim()))
    for _, run in groupby(history, key=lambda record: record["level"]):
        first = next(run)
        size = [f"{first[name]} {word}" for name, word in (("n_features", "features"), ("n_rows", "rows")) if name in first]
        ax.axvline(first["seconds"], color=_ink(), linewidth=0.7, linestyle=":", alpha=0.6)
        where = {"transform": ax.get_xaxis_transform(), "rotation": 90, "va": "top", "ha": "right"}
        ax.text(first["seconds"], 0.98, ", ".join(size), fontsize="xx-small", alpha=0.8, **where)
    ax.set_xlim(left=0)
    ax.set_xlabel("seconds")
    ax.set_ylabel("criterion")
    ax.legend(frameon=False, fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 0.99), ncols=3, borderpad=0.1)
    return ax


def plot_calibration(model: Any, X: Any, y: Any, ax: Axes | None = None) -> Axes:
    """How often a class comes true against its predicted probability, in ten bins of probability, with the diagonal.

    Two classes: the probability of the second one. More: the probability of the class that is predicted, and how often it
    is the right one. Error bars are what chance alone does, one standard deviation to each side, were the probabilities
    true; bars and numbers at the foot say how many rows are in each bin.

    Parameters
    ----------
    model : fitted classifier with ``predict_proba``
    X : rows of shape (n, m), which the fit has not seen
    y : labels of shape (n,)
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

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
    labels = np.asarray(y)
    probabilities = fetch64(model.predict_proba(X))
    if labels.shape != (len(probabilities),):
        raise ValueError(f"y must have one label for each of the {len(probabilities)} rows of X, got shape {labels.shape}.")
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
    ax = _axes(ax)
    heights = FOOT * counts / counts.max()
    ax.bar((np.arange(BINS) + 0.5) / BINS, heights, width=0.9 / BINS, color="C0", alpha=0.25, linewidth=0)
    for i in filled:
        ax.text((i + 0.5) / BINS, heights[i] + 0.01, str(counts[i]), ha="center", fontsize="xx-small", alpha=0.8)
    ax.plot([0, 1], [0, 1], color=_ink(), linewidth=0.9)
    chance = np.sqrt(middle * (1 - middle) / counts[filled])
    ax.errorbar(middle, share, chance, color="C0", marker="o", markersize=4, elinewidth=0.9)
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.04), xlabel=names[0], ylabel=names[1])
    return ax


def plot_predictions(model: Any, X: Any, y: Any, ax: Axes | None = None) -> Axes:
    """Predicted targets against true ones, with the diagonal, and the RMS error as the title.

    Bars of two standard deviations to each side where ``model.predict`` knows them (``return_std``). Every target of
    several has its own colour.

    Parameters
    ----------
    model : fitted regressor
    X : rows of shape (n, m)
    y : targets of shape (n,) or (n, c)
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import KernelRegressor
    >>> from bochner.plots import plot_predictions
    >>> X = np.random.default_rng(0).standard_normal((60, 3))
    >>> model = KernelRegressor("gaussian", n_features=32, random_state=0).fit(X, X[:, 1])
    >>> plot_predictions(model, X, X[:, 1]).get_ylabel()
    'predicted'
    """
    knows = "return_std" in signature(model.predict).parameters and getattr(model, "moments_", True) is not None
    predictions, deviations = model.predict(X, return_std=True) if knows else (model.predict(X), None)
    predictions, targets = fetch64(predictions), fetch64(np.asarray(y))
    if predictions.shape != targets.shape:
        raise ValueError(f"y has shape {targets.shape} and the predictions have shape {predictions.shape}.")
    n, columns = len(targets), targets.reshape(len(targets), -1).shape[1]
    chosen = np.linspace(0, n - 1, min(n, MAX_BARS if knows else MAX_DOTS)).astype(int)
    ax = _axes(ax)
    ends = [min(targets.min(), predictions.min()), max(targets.max(), predictions.max())]
    ax.plot(ends, ends, color=_ink(), linewidth=0.9)
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


def rms_error(exact: Array, approximate: Array) -> float:
    """Root of the mean squared difference of two arrays of the same shape."""
    return float(np.sqrt(np.mean((fetch64(approximate) - fetch64(exact)) ** 2)))


def _axes(ax: Axes | None) -> Axes:
    """The given axes, or those of a new figure."""
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("Drawing needs Matplotlib: pip install 'bochner[plots]'.") from error
    return pyplot.subplots(layout="constrained")[1]


def _require(model: Any, attribute: str) -> Any:
    """An attribute of a fitted model."""
    if not hasattr(model, attribute):
        raise ValueError(f"{type(model).__name__} has no {attribute}: give a KernelRegressor or KernelClassifier after fit.")
    return getattr(model, attribute)


def _ink() -> str:
    """The colour of text in the current style: dark on light paper, light on dark."""
    from matplotlib import rcParams

    return str(rcParams["text.color"])


def _plain_ticks(axis: Any, places: Array | None = None) -> None:
    """Plain numbers (0.02, not powers of ten) on a logarithmic axis: at 1, 2 and 5 of each decade unless told where."""
    from matplotlib import ticker

    axis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)) if places is None else ticker.FixedLocator(places))
    axis.set_major_formatter(ticker.StrMethodFormatter("{x:g}"))
    axis.set_minor_locator(ticker.NullLocator())


def _few_ticks(low: float, high: float) -> Array:
    """A few round numbers from low to high, for a logarithmic axis that may span less than a decade."""
    from matplotlib import ticker

    locator = ticker.LogLocator(subs=(1, 2, 5)) if high / low > 20 else ticker.MaxNLocator(6)
    ticks = np.asarray(locator.tick_values(low, high))
    return ticks[(ticks >= low) & (ticks <= high)]


def _table(K: Array, name: str) -> Array:
    K = fetch64(K)
    if K.ndim != 2:
        raise ValueError(f"{name} must be a matrix, got an array of {K.ndim} dimensions.")
    return K


def _reach(kernel: Kernel, centre: float) -> float:
    """Distance at which the kernel of one column has fallen to FAINT; twice the centre where it has no bandwidth."""
    if not kernel.has_bandwidth:
        return 2 * abs(centre) or 1.0

    def above(log_distance: float) -> float:
        return float(kernel(np.array([[centre]]), np.array([[centre + np.exp(log_distance)]]))[0, 0]) - FAINT

    steps = np.arange(-12.0, 13.0)
    fallen = [step for step in steps if above(step) < 0]
    if not fallen or fallen[0] == steps[0]:
        return 1.0
    return float(np.exp(brentq(above, fallen[0] - 1, fallen[0])))
