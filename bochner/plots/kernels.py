"""Pictures of kernels and of their approximations."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq

from bochner.arrays import Array, fetch64
from bochner.errors import InputError
from bochner.features import FeatureMap
from bochner.kernels import Kernel, get_kernel
from bochner.plots.axes import MAX_DOTS, Axes, draw_diagonal, evenly, given_or_new, ink, plain_ticks, rms_error

GRID_POINTS = 401
FAINT = 0.05
"""A kernel with a bandwidth is drawn as far as the point where it has fallen to this value."""


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
        A name out of :data:`bochner.kernels.KERNELS` or a kernel object, for rows of one column. One with several scales
        is drawn with a scale of one, so that x is in units of 1 / scale.
    feature_map : FeatureMap, optional
        A map of rows of one column, such as ``FourierFeatures(kernel).fit(X).feature_map_`` for X of shape (n, 1).
    ax : matplotlib.axes.Axes, optional
    centre : float, optional
        The fixed point: zero, or one for a kernel of histograms, unless it is given.
    reach : float, optional
        x goes this far from the centre; by default until the kernel is small. Kernels of histograms stop at zero.

    Examples
    --------
    >>> from bochner.plots import plot_kernel
    >>> plot_kernel("gaussian").get_ylabel()
    'k(0, x)'
    """
    kernel = get_kernel(kernel)
    if feature_map is not None and feature_map.n_columns != 1:
        raise InputError(
            f"plot_kernel draws rows of one column, and this feature map takes {feature_map.n_columns}: fit one on X[:, :1]."
        )
    several = np.size(kernel.scale) > 1
    if several and feature_map is not None:
        raise InputError(
            f"kernel has {np.size(kernel.scale)} scales, and the feature map is one of a single column: give the map's own "
            "kernel, feature_map.kernel."
        )
    kernel = kernel.replace(scale=1.0) if several else kernel
    of_histograms = bool(np.isfinite(kernel.lower))
    centre = (1.0 if of_histograms else 0.0) if centre is None else float(centre)
    reach = _reach(kernel, centre) if reach is None else float(reach)
    low = max(0.0, centre - reach) if of_histograms else centre - reach
    x = np.linspace(low, centre + reach, GRID_POINTS)[:, None]
    fixed = np.array([[centre]])
    ax = given_or_new(ax)
    ax.plot(x[:, 0], fetch64(kernel(fixed, x))[0], color=ink(), linewidth=1.4, label="exact")
    if feature_map is not None:
        values = (feature_map.forward(fixed) @ feature_map.forward(x).T)[0]
        label = f"{feature_map.n_features} features"
        ax.plot(x[:, 0], values, color="C1", linewidth=1.8, linestyle=(0, (4, 2)), label=label)
        ax.legend(frameon=False)
    ax.set_xlabel("x" if not several else "x, at a scale of one" if of_histograms else "x times its scale")
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

    ``limits`` are the values of the two ends of the colour scale: give two matrices the same to compare them by eye.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.plots import plot_gram
    >>> len(plot_gram(np.eye(3)).images)
    1
    """
    K = fetch64(K)
    if K.ndim != 2:
        raise InputError(f"K must be a matrix, got an array of {K.ndim} dimensions.")
    low, high = (None, None) if limits is None else limits
    ax = given_or_new(ax)
    image = ax.imshow(K, vmin=low, vmax=high, cmap=cmap, interpolation="nearest")
    ax.set_xticks([])
    ax.set_yticks([])
    if colorbar:
        ax.figure.colorbar(image, ax=ax, fraction=0.046, pad=0.04)
    return ax


def plot_approximation(exact: Array, approximate: Array, ax: Axes | None = None) -> Axes:
    """Approximate kernel values against exact ones, arrays of one shape, with the diagonal, and the RMS error as the title.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.plots import plot_approximation
    >>> plot_approximation(np.zeros((2, 2)), np.full((2, 2), 0.5)).get_title()
    'RMS error 0.5'
    """
    exact, approximate = fetch64(exact), fetch64(approximate)
    if exact.shape != approximate.shape:
        raise InputError(
            f"exact has shape {exact.shape} and approximate has shape {approximate.shape}: give the same entries twice."
        )
    x, y = exact.ravel(), approximate.ravel()
    chosen = evenly(x.size, MAX_DOTS)
    ax = given_or_new(ax)
    ax.scatter(x[chosen], y[chosen], s=5, alpha=0.35, linewidths=0, color="C0", rasterized=True)
    draw_diagonal(ax, x, y)
    ax.set_xlabel("exact")
    ax.set_ylabel("approximate")
    ax.set_title(f"RMS error {rms_error(exact, approximate):.2g}")
    return ax


def plot_convergence(n_features: Array, errors: Array, ax: Axes | None = None, *, guide: bool = True) -> Axes:
    """Errors (t,) against numbers of features (t,) on logarithmic axes.

    ``guide`` draws the slope -1/2 of Monte Carlo methods through the first error.

    Examples
    --------
    >>> from bochner.plots import plot_convergence
    >>> plot_convergence([100, 400, 1600], [0.1, 0.05, 0.025]).get_xscale()
    'log'
    """
    sizes, errors = fetch64(np.asarray(n_features)), fetch64(np.asarray(errors))
    ax = given_or_new(ax)
    if guide:
        ax.loglog(sizes, errors[0] * np.sqrt(sizes[0] / sizes), color=ink(), linewidth=0.9, linestyle=":")
    ax.loglog(sizes, errors, color="C0", marker="o", markersize=4)
    plain_ticks(ax.xaxis, sizes if sizes.size <= 4 else None)
    plain_ticks(ax.yaxis)
    ax.set_xlabel("features")
    ax.set_ylabel("RMS error")
    return ax


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
