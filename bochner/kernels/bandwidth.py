"""A first guess at a kernel's scale, from the rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq

from bochner.arrays import Array, squared_distances
from bochner.errors import InputError
from bochner.kernels.base import Kernel

TYPICAL_VALUE = float(np.exp(-0.5))
"""Kernel value of the middle pair of rows: for the Gaussian kernel, scale = 1 / median distance."""

ROUNDINGS = 8
"""Rows that are no further apart than this many roundings of the longest one are equal: no kernel can tell them apart."""

LARGEST = 1e150
"""Numbers whose squared distances are still numbers."""


def median_scale(kernel: Kernel, X: Array) -> float:
    """The shared scale at which half of the pairs of distinct rows of X (n, m) have a kernel above exp(-1/2).

    For the Gaussian kernel that is one over the median distance. X is a sample of a hundred rows or so, dense; kernels
    without a bandwidth are refused. Where all rows are equal but for rounding any scale does, and the answer is one.
    """
    if not kernel.has_bandwidth:
        raise InputError(
            f"scale='median' asks for a bandwidth, and {type(kernel).__name__} has none (its scale weighs the columns): "
            "give a number, one number per column, or leave scale out."
        )
    mapped = kernel.transform(X)
    if np.max(np.abs(mapped)) > LARGEST:
        raise InputError(
            f"scale='median' needs distances between rows, and values as large as {np.max(np.abs(X)):.3g} overflow them: "
            "standardise the columns first, for instance with sklearn.preprocessing.StandardScaler(), or give a scale."
        )
    distances = np.sqrt(squared_distances(mapped, mapped))
    least = ROUNDINGS * float(np.finfo(np.float64).eps) * float(np.linalg.norm(mapped, axis=1).max())
    pairs = np.nonzero(np.triu(distances > least, k=1))
    if not pairs[0].size:
        return 1.0

    def typical(log_scale: float) -> float:
        return float(np.median(kernel.replace(scale=float(np.exp(log_scale))).exact(X, X)[pairs])) - TYPICAL_VALUE

    return float(np.exp(_root(typical, start=-float(np.log(np.median(distances[pairs]))))))


def _root(decreasing: Callable[[float], float], start: float) -> float:
    """A root of a decreasing function: a bracket grown from ``start``, at most 200 steps of one either way."""
    low = high = start
    while decreasing(low) < 0 and low > start - 200:
        low -= 1.0
    while decreasing(high) > 0 and high < start + 200:
        high += 1.0
    return float(brentq(decreasing, low, high, xtol=1e-6)) if decreasing(low) > 0 > decreasing(high) else high
