"""Pictures of models of many kernels: which of them count, and how they came in along the path of penalties."""

from __future__ import annotations

from typing import Any

import numpy as np

from bochner.plots.axes import Axes, colours, given_or_new, ink
from bochner.plots.learned import require

KNOWN = "MultipleKernelRegressor or MultipleKernelClassifier"
WEIGHTED = "MultipleKernelRegressor, MultipleKernelClassifier, GMKLRegressor or GMKLClassifier"
MOST_LABELS = 20
"""Kernels that are named in a picture of a path."""


def plot_kernel_weights(model: Any, ax: Axes | None = None) -> Axes:
    """The weight of each kernel: bars, or, where each target or class has weights of its own, a map of kernels and targets.

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
    ax = given_or_new(ax)
    if weights.shape[1] == 1:
        ax.barh(range(len(names)), weights[:, 0], color="C0", height=0.7)
        ax.set_ylim(len(names) - 0.4, -0.6)
        ax.set_xlabel("weight")
    else:
        image = ax.imshow(weights, aspect="auto", vmin=0)
        ax.figure.colorbar(image, ax=ax, label="weight")
        targets = [str(label) for label in getattr(model, "classes_", range(weights.shape[1]))]
        ax.set_xticks(range(len(targets)), targets, rotation=90 if len(targets) > MOST_LABELS // 2 else 0)
        ax.set_xlabel("class" if hasattr(model, "classes_") else "target")
    ax.set_yticks(range(len(names)), names)
    return ax


def plot_path(model: Any, ax: Axes | None = None, target: int = 0) -> Axes:
    """The length of each kernel's coefficients along the path of penalties, with a line at the penalty that was chosen.

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
        raise ValueError("The plain average of the kernels was chosen, which has no path: fit with l1_ratio=1.0 to see one.")
    if not 0 <= target < path.norms.shape[2]:
        raise ValueError(f"target must be from 0 to {path.norms.shape[2] - 1}, got {target!r}.")
    ax = given_or_new(ax)
    n_colours = colours()
    order = np.argsort(-path.norms[:, :, target].max(axis=0), kind="stable")
    for place, t in enumerate(order):
        label = str(model.kernel_names_[t]) if place < MOST_LABELS else None
        style = {"color": f"C{place % n_colours}", "linestyle": ("-", "--", "-.", ":")[place // n_colours % 4]}
        ax.plot(path.alphas, path.norms[:, t, target] / np.sqrt(2), label=label, **style)
    ax.axvline(model.alpha_, color=ink(), linestyle=":", linewidth=1)
    ax.set_xscale("log")
    ax.invert_xaxis()
    ax.set_xlabel("penalty")
    ax.set_ylabel("weight" if hasattr(model, "classes_") else "weight, of standardised targets")
    ax.legend(loc="upper left", fontsize="small")
    return ax
