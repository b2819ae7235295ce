"""Pictures of learned kernels: along columns of the data, their frequencies, and the directions of their metrics."""

from __future__ import annotations

from typing import Any

import numpy as np

from bochner.arrays import Array, fetch64
from bochner.errors import InputError
from bochner.estimators.encoding import column_names, seen_width
from bochner.plots.axes import Axes, evenly, given_or_new, ink
from bochner.plots.kernels import _reach
from bochner.plots.learned import require

LINE_POINTS, PLANE_POINTS = 401, 101
SPREADS = 3.0
"""A kernel of standardised columns is drawn this many standard deviations to each side."""
BARS = 40
TAIL, QUARTILES = 0.01, 5.0
"""A histogram of frequencies leaves out this part of their law at each end, and all beyond so many times its quartile."""
LEAST_SHARE = 0.005
"""Directions of a smaller share are not drawn: they are unit vectors like the others, and look as strong."""
MOST_FREQUENCIES = 200_000
HEADROOM = 1.15
"""Height of a histogram, over that of its bars: its legend stands above them."""


def plot_learned_kernel(
    model: Any,
    ax: Axes | None = None,
    columns: str | int | tuple[str | int, str | int] | None = None,
    *,
    centre: float | None = None,
    reach: float | None = None,
) -> Axes:
    """The learned kernel k(x, x + t) as one column of x changes by t, or two of them, while the others stay.

    One column is drawn as a line, two as a map of colours, both from zero on. Columns that were standardised go three
    standard deviations to each side, so that a kernel that looks flat hardly sees the column; others until the kernel is
    small.

    Parameters
    ----------
    model : a fitted KernelRegressor, KernelClassifier, KernelRidgeGD or FourierFeatures
    ax : matplotlib.axes.Axes, optional
    columns : name or number, or two of them, optional
        The most relevant column, unless they are given.
    centre : float, optional
        Kernels of histograms are no functions of differences: k(centre, x) is drawn, with all other columns at zero. One,
        unless it is given.
    reach : float, optional
        How far columns go to each side, in their own units.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from bochner import KernelRegressor
    >>> from bochner.plots import plot_learned_kernel
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = KernelRegressor("gaussian", n_features=32, random_state=0).fit(X, y)
    >>> plot_learned_kernel(model, columns="bmi").get_xlabel()
    'change of bmi'
    """
    kernel = require(model, "kernel_", "KernelRegressor, KernelClassifier, KernelRidgeGD or FourierFeatures")
    if getattr(kernel, "origin", None) is not None:
        raise InputError(
            "plot_learned_kernel draws kernels of differences, and this one sees in which direction a row lies: use "
            "plot_metric or plot_directions."
        )
    pair = columns if isinstance(columns, tuple | list) else (columns,)
    if len(pair) not in (1, 2):
        raise InputError(f"columns must be one column or two, got {len(pair)} of them.")
    chosen = [column_of(model, column) for column in pair]
    of_histograms = bool(np.isfinite(kernel.lower))
    centre = (1.0 if of_histograms else 0.0) if centre is None else float(centre)
    names = [column_names(model)[i] for i in chosen]
    labels = names if of_histograms else [f"change of {name}" for name in names]
    size = LINE_POINTS if len(chosen) == 1 else PLANE_POINTS
    grids = [_grid(kernel, centre, _reach_of(model, i, centre) if reach is None else float(reach), size) for i in chosen]
    fixed = np.zeros((1, seen_width(model)))
    fixed[0, chosen] = centre
    ax = given_or_new(ax)
    if len(chosen) == 1:
        rows = np.repeat(fixed, len(grids[0]), axis=0)
        rows[:, chosen[0]] = grids[0]
        values = fetch64(kernel(fixed, rows))[0]
        ax.plot(grids[0], values, color="C0", linewidth=1.8)
        ax.set(xlabel=labels[0], ylabel="kernel")
        ax.set_ylim(min(-0.02, float(values.min())), 1.05 * float(values.max()))
        ax.margins(x=0)
        return ax
    rows = np.repeat(fixed, PLANE_POINTS**2, axis=0)
    rows[:, chosen] = np.stack(np.meshgrid(*grids), axis=-1).reshape(-1, 2)
    values = fetch64(kernel(fixed, rows)).reshape(PLANE_POINTS, PLANE_POINTS)
    image = ax.pcolormesh(*grids, values, vmin=min(0.0, float(values.min())), shading="nearest", rasterized=True)
    ax.figure.colorbar(image, ax=ax, label="kernel")
    ax.plot(centre, centre, marker="+", color="black")
    ax.set(xlabel=labels[0], ylabel=labels[1])
    return ax


def plot_frequencies(model: Any, ax: Axes | None = None, column: str | int | None = None) -> Axes:
    """A histogram of the frequencies that a model has for a column, and the density of the law of its kernel.

    Frequencies that were drawn from the law follow it; learned ones (``spectrum``) may have left it. The far ends
    of the law are left out.

    Parameters
    ----------
    model : a fitted KernelRegressor, KernelClassifier or FourierFeatures
        On random Fourier features: data centres, and the maps of additive kernels, have no random frequencies.
    ax : matplotlib.axes.Axes, optional
    column : name or number, optional
        The most relevant column, unless it is given.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from bochner import FourierFeatures
    >>> from bochner.plots import plot_frequencies
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> plot_frequencies(FourierFeatures("gaussian", random_state=0).fit(X), column="bmi").get_xlabel()
    'frequency of bmi'
    """
    feature_map = require(model, "feature_map_", "KernelRegressor, KernelClassifier or FourierFeatures")
    if not hasattr(feature_map, "frequencies"):
        raise InputError(f"{type(feature_map).__name__} has no random frequencies: fit with finish='fourier' to have some.")
    i = column_of(model, column)
    frequencies = fetch64(feature_map.frequencies)[i :: feature_map.n_columns].ravel() / _spread(model)[i]
    x, density = frequency_density(model.kernel_, seen_width(model), i)
    ends = np.linspace(x[0], x[-1], _bars(len(frequencies)) + 1)
    counts, _ = np.histogram(frequencies, ends)
    ax = given_or_new(ax)
    heights = counts / (len(frequencies) * np.diff(ends))
    ax.bar(ends[:-1], heights, np.diff(ends), align="edge", color="C0", alpha=0.55, label=f"{len(frequencies)} frequencies")
    ax.plot(x, density, color=ink(), linewidth=1.4, label="law of the kernel")
    ax.set(xlabel=f"frequency of {column_names(model)[i]}", ylabel="density", xlim=(x[0], x[-1]))
    ax.set_ylim(0, HEADROOM * max(heights.max(), density.max()))
    ax.legend(frameon=False, fontsize="small", loc="upper center", ncols=2)
    return ax


def _bars(n: int) -> int:
    """Bars of a histogram of n numbers: few for few, so that they do not look rougher than they are."""
    return int(np.clip(round(2.5 * n ** (1 / 3)), 10, BARS))


def frequency_density(kernel: Any, n_columns: int, column: int) -> tuple[Array, Array]:
    """Frequencies (t,) of one column and their density (t,) under the law of a kernel, but for its ends.

    The law of one column is that of the kernel on this column alone: a radius of either sign for a radial one. Under a
    metric whose base is a product it is a sum over directions, and taken from many draws.
    """
    from bochner.kernels import Gaussian, MetricKernel

    scale = float(kernel.scales(n_columns)[column])
    law: Any = Gaussian() if kernel.geometry == "exponentiated" else kernel
    if isinstance(kernel, MetricKernel) and kernel.geometry == "product":
        return _density_of_sums(kernel, column)
    u = np.linspace(0.5, 1 - TAIL, 2001)[1:]
    right = scale * (law.quantile(2 * u - 1, 1) if law.geometry == "radial" else law.quantile(u))
    density = np.gradient(u, right)
    near = right <= QUARTILES * np.interp(0.75, u, right)
    right, density = right[near], density[near]
    return np.concatenate([-right[::-1], right]), np.concatenate([density[::-1], density])


def _density_of_sums(kernel: Any, column: int) -> tuple[Array, Array]:
    """The same for frequencies that are sums over directions of a metric, from draws with a fixed seed."""
    directions = kernel.metric[column]
    u = np.random.default_rng(0).uniform(size=(len(directions), MOST_FREQUENCIES // len(directions) + 1))
    draws = np.abs(directions @ kernel.quantile(u))
    ends = np.linspace(0, min(np.quantile(draws, 1 - 2 * TAIL), QUARTILES * np.median(draws)), BARS + 1)
    density = np.histogram(draws, ends)[0] / (2 * draws.size * ends[1])
    middle = 0.5 * (ends[1:] + ends[:-1])
    return np.concatenate([-middle[::-1], middle]), np.concatenate([density[::-1], density])


def plot_directions(model: Any, ax: Axes | None = None, k: int = 3, top: int = 12) -> Axes:
    """The ``k`` leading directions of a learned metric, a column of colours each, with their shares of all squares.

    Rows are the ``top`` columns of the data that weigh most in them; a direction is a unit vector of standardised columns.
    Directions of less than half a percent are left out.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import KernelRegressor
    >>> from bochner.plots import plot_directions
    >>> X = np.random.default_rng(0).standard_normal((120, 3))
    >>> model = KernelRegressor("gaussian", metric="full", random_state=0).fit(X, np.sin(X[:, 0] + X[:, 1]))
    >>> plot_directions(model, k=2).get_xlabel()
    'leading directions, and their shares'
    """
    require(model, "metric_", "KernelRegressor, KernelClassifier or KernelRidgeGD")
    for name, value in (("k", k), ("top", top)):
        if value < 1:
            raise InputError(f"{name} must be at least 1, got {value!r}.")
    found = visible_directions(model, k)
    names = column_names(model)
    weights = np.array([[each["weights"][name] for each in found] for name in names])
    shares = np.array([each["share"] for each in found])
    shown = np.sort(np.argsort(-(weights**2 @ shares), kind="stable")[:top])
    ax = given_or_new(ax)
    image = ax.imshow(weights[shown], cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto", interpolation="nearest")
    ax.set_yticks(range(len(shown)), [names[i] for i in shown])
    ax.set_xticks(range(len(found)), [f"{share:.0%}" for share in shares])
    ax.set_xlabel("leading directions, and their shares")
    ax.figure.colorbar(image, ax=ax, label="weight")
    if len(shown) < len(names):
        ax.set_title(f"{len(shown)} of {len(names)} columns")
    return ax


def visible_directions(model: Any, k: int) -> list[dict[str, Any]]:
    """The k leading directions of a metric, without those of next to no share; one at least."""
    first, *others = model.leading_directions(k)
    return [first, *(each for each in others if each["share"] >= LEAST_SHARE)]


def column_of(model: Any, column: str | int | None) -> int:
    """The number of a column by its name or number; of the most relevant one, or the first, where it is None."""
    if column is None:
        relevance = getattr(model, "relevance_", None)
        return 0 if relevance is None else int(np.argmax(relevance))
    names = column_names(model)
    if isinstance(column, str):
        if column not in names:
            some = ", ".join(repr(names[i]) for i in evenly(len(names), 8))
            raise InputError(f"There is no column {column!r}: give a number, or a name such as {some}.")
        return names.index(column)
    if not -len(names) <= column < len(names):
        raise InputError(
            f"There is no column {column}: the model has {len(names)}, from 0 to {len(names) - 1}: give one of those."
        )
    return int(column) % len(names)


def _spread(model: Any) -> Array:
    """Standard deviations (m,) of the columns that a model was fitted on; ones where it did not standardise them."""
    standardiser = getattr(model, "standardiser_", None)
    return np.ones(seen_width(model)) if standardiser is None else np.asarray(standardiser.spread)


def _reach_of(model: Any, column: int, centre: float) -> float:
    """How far a column is drawn to each side: three standard deviations, or until the kernel is small."""
    standardiser = getattr(model, "standardiser_", None)
    if standardiser is not None and np.any(standardiser.spread != 1):
        return SPREADS * float(_spread(model)[column])
    kernel = model.kernel_
    scale = float(kernel.scales(seen_width(model))[column])
    return _reach(getattr(kernel, "base", kernel).replace(scale=scale), centre)


def _grid(kernel: Any, centre: float, reach: float, size: int) -> Array:
    """Values of a column (size,) around the centre; kernels of histograms stop at zero."""
    low = max(0.0, centre - reach) if np.isfinite(kernel.lower) else centre - reach
    return np.linspace(low, centre + reach, size)
