"""A first guess at a kernel's scale, from the rows."""

from __future__ import annotations

import numpy as np

from bochner.arrays import Array
from bochner.kernels.base import Kernel

TYPICAL_VALUE = float(np.exp(-0.5))
"""Kernel value of the middle pair of rows: for the Gaussian kernel, scale = 1 / median distance."""


def median_scale(kernel: Kernel, X: Array) -> float:
    """The shared scale at which half of the pairs of distinct rows of X (n, m) have a kernel above exp(-1/2).

    For the Gaussian kernel that is one over the median distance. X is a sample of a few hundred rows, dense; kernels
    without a bandwidth are refused.
    """
    if not kernel.has_bandwidth:
        raise ValueError(
            f"scale='median' asks for a bandwidth, and {type(kernel).__name__} has none (its scale weighs the columns): "
            "give a number, one number per column, or leave scale out."
        )
    upper = np.triu_indices(X.shape[0], k=1)
    apart = (kernel.replace(scale=1e6 / (1e-300 + np.ptp(X))).exact(X, X)[upper] < 0.5) if X.size else np.zeros(0, bool)
    pairs = tuple(index[apart] for index in upper)
    if not pairs[0].size:
        return 1.0

    def typical(log_scale: float) -> float:
        return float(np.median(kernel.replace(scale=float(np.exp(log_scale))).exact(X, X)[pairs]))

    return float(np.exp(_crossing(typical, TYPICAL_VALUE, start=-np.log(np.ptp(X)))))


def _crossing(decreasing, value: float, start: float) -> float:
    """Where a decreasing function of one number crosses ``value``: a bracket grown from ``start``, then bisection."""
    low = high = start
    while decreasing(low) < value:
        low -= 2.0
    while decreasing(high) > value:
        high += 2.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if decreasing(middle) > value else (low, middle)
    return (low + high) / 2
