"""Pictures of models of many kernels: which of them count, and how they came in along the path of penalties."""

from __future__ import annotations

from typing import Any

import numpy as np

from bochner.arrays import Array
from bochner.errors import InputError
from bochner.plots.axes import Axes, colours, few_ticks, given_or_new, ink, plain_ticks
from bochner.plots.learned import require

KNOWN = "MultipleKernelRegressor or MultipleKernelClassifier"
WEIGHTED = "MultipleKernelRegressor, MultipleKernelClassifier, GMKLRegressor or GMKLClassifier"
MOST_LABELS = 10
"""Kernels that are named in a picture of a path, and targets whose names stand upright below a map."""
ROOMY, ROW = 20, 0.18
"""Kernels that a figure of the usual height has room for, and inches of height for each of more of them."""
LONGEST = 36
"""Letters of a name that are shown."""
BESIDE = 5
"""More names than this stand beside a path, not on it."""


def plot_kernel_weights(model: Any, ax: Axes | None = None) -> Axes:
    """The weight of each kernel: bars, or, where each target or class has weights of its own, a map of kernels and targets.

    A new figure is as high as the names of many kernels need.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from bochner import MultipleKernelRegressor
    >>> from bochner.plots import plot_kernel_weights
    >>> kernels = [("body", "gaussian", [0, 1, 2, 3]), ("blood", "gaussian", slice(4, 10))]
    >>> model = MultipleKernelRegressor(kernels, n_features=20, random_state=0).fit(*load_diabetes(return_X_y=True))
    >>> len(plot_kernel_weights(model).patches)
    2
    """
    weights = require(model, "kernel_weights_", WEIGHTED)
    names = [str(name) for name in model.kernel_names_]
    weights = weights.reshape(len(names), -1)
    new, ax = ax is None, given_or_new(ax)
    if new and len(names) > ROOMY:
        width, height = ax.figure.get_size_inches()
        ax.figure.set_size_inches(width, height + ROW * (len(names) - ROOMY))
    if weights.shape[1] == 1:
        ax.barh(range(len(names)), weights[:, 0], color="C0", height=0.7)
        ax.set_ylim(len(names) - 0.4, -0.6)
        ax.set_xlabel("weight")
    else:
        image = ax.imshow(weights, aspect="auto", vmin=0)
        ax.figure.colorbar(image, ax=ax, label="weight")
        targets = [str(label) for label in getattr(model, "classes_", range(weights.shape[1]))]
        ax.set_xticks(range(len(targets)), targets, rotation=90 if len(targets) > MOST_LABELS else 0)
        ax.set_xlabel("class" if hasattr(model, "classes_") else "target")
    ax.set_yticks(range(len(names)), list(map(_shortened, names)), fontsize="small" if len(names) > ROOMY // 2 else "medium")
    return ax


def plot_path(model: Any, ax: Axes | None = None, target: int = 0) -> Axes:
    """The length of each kernel's coefficients along the path of penalties, with a line at the penalty that was chosen.

    The ten kernels with the largest weights at that penalty are named.
    ``target`` is the number of a target or class, where each has weights of its own.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from bochner import MultipleKernelRegressor
    >>> from bochner.plots import plot_path
    >>> kernels = [("body", "gaussian", [0, 1, 2, 3]), ("blood", "gaussian", slice(4, 10))]
    >>> model = MultipleKernelRegressor(kernels, l1_ratio=1.0, n_features=20, random_state=0)
    >>> plot_path(model.fit(*load_diabetes(return_X_y=True))).get_xlabel()
    'penalty'
    """
    path = require(model, "path_", KNOWN)
    if path is None:
        chosen = (
            "One kernel in place of all" if getattr(model, "refit_", None) == "joint" else "The plain average of the kernels"
        )
        raise InputError(f"{chosen} was chosen, which has no path: fit with l1_ratio=1.0 to see one.")
    if not 0 <= target < path.norms.shape[2]:
        raise InputError(f"target must be from 0 to {path.norms.shape[2] - 1}, got {target!r}.")
    new, ax = ax is None, given_or_new(ax)
    n_colours = colours()
    chosen = path.norms[int(np.argmin(np.abs(path.alphas - model.alpha_))), :, target]
    order = np.lexsort((-path.norms[:, :, target].max(axis=0), -chosen))
    marker = "o" if len(path.alphas) == 1 else None
    for place, t in enumerate(order):
        label = _shortened(str(model.kernel_names_[t])) if place < MOST_LABELS else None
        style = {"color": f"C{place % n_colours}", "linestyle": ("-", "--", "-.", ":")[place // n_colours % 4]}
        ax.plot(path.alphas, path.norms[:, t, target] / np.sqrt(2), label=label, marker=marker, **style)
    if len(order) > MOST_LABELS:
        ax.plot([], [], linestyle="none", label=f"and {len(order) - MOST_LABELS} more")
    ax.axvline(model.alpha_, color=ink(), linestyle=":", linewidth=1)
    ax.set_xscale("log")
    ax.invert_xaxis()
    plain_ticks(ax.xaxis, _places(path.alphas))
    ax.set_xlabel("penalty")
    ax.set_ylabel("weight" if hasattr(model, "classes_") else "weight, of standardised targets")
    if new and len(order) > BESIDE:
        width, height = ax.figure.get_size_inches()
        ax.figure.set_size_inches(1.4 * width, height)
        ax.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
    else:
        ax.legend(fontsize="small", loc="best")
    return ax


def _places(alphas: Array) -> Array:
    """Where ticks of falling penalties (L,) are: at powers of ten, more of them on a short path, at a penalty by itself."""
    low, high = float(alphas[-1]), float(alphas[0])
    if len(alphas) == 1:
        return alphas
    if high < 100 * low:
        return few_ticks(low, high)
    return 10.0 ** np.arange(np.ceil(np.log10(low)), np.floor(np.log10(high)) + 1)


def _shortened(name: str) -> str:
    """A name without the middle of a long one: long names often differ at their ends."""
    half = LONGEST // 2
    return name if len(name) <= LONGEST else f"{name[: half - 1]}…{name[-half:]}"
