"""The best step along a direction, for many penalised problems at a time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bochner.arrays import Array
from bochner.solvers.groups import GroupPenalty

LONGEST = 4.0


def best_step(coef: Array, direction: Array, penalty: GroupPenalty, smooth: Callable[[Array], tuple[Array, Array]]) -> Array:
    """The s in [0, 4] of least f(w + s x) + P(w + s x) for each problem: (B,).

    ``coef`` w and ``direction`` x are (D, B, c); ``smooth`` gives two derivatives of f in s at steps (B,). Newton's method
    inside a bracket.
    """
    groups = penalty.groups
    here, across, there = groups.dots(coef, coef), groups.dots(coef, direction), groups.dots(direction, direction)
    ridge_slope = penalty.ridge * np.sum(coef * direction, axis=(0, 2))
    ridge_bend = penalty.ridge * np.sum(direction**2, axis=(0, 2))
    lengths = penalty.lengths[:, :, None]
    tiny = 1e-30 * np.maximum(here.max(axis=0), there.max(axis=0)) + np.finfo(np.float64).tiny

    def derivatives(s: Array) -> tuple[Array, Array]:
        along = s[:, None]
        norms = np.sqrt(np.maximum(here + along * (2 * across + along * there), tiny))
        turned = (across + along * there) / norms
        slope, bend = smooth(s)
        return (
            slope + ridge_slope + s * ridge_bend + np.sum(lengths * turned, axis=(0, 2)),
            bend + ridge_bend + np.sum(lengths * np.maximum(there - turned**2, 0.0) / norms, axis=(0, 2)),
        )

    low, high, s = np.zeros(coef.shape[1]), np.full(coef.shape[1], LONGEST), np.ones(coef.shape[1])
    for _ in range(40):
        slope, bend = derivatives(s)
        low, high = np.where(slope <= 0, s, low), np.where(slope > 0, s, high)
        with np.errstate(over="ignore"):
            newton = s - slope / np.maximum(bend, np.finfo(np.float64).tiny)
        inside = (newton > low) & (newton < high)
        before, s = s, np.where(inside, newton, 0.5 * (low + high))
        if np.all(np.abs(s - before) <= 1e-9):
            break
    return s
