"""The ridge penalty of least held-out error, for a kernel that stays as it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

LOWEST_PENALTY, HIGHEST_PENALTY = 1e-11, 10.0
"""Range of the ridge penalty; features are unit vectors, so the mean loss gives it a scale of its own."""
GRID_POINTS = 13


class PenaltySearch(ABC):
    """Held-out error as a function of the logarithm of the penalty alone.

    Each trial is a factorisation, a third of d^3 operations: the few that a search takes cost less than the one
    eigendecomposition (about nine d^3) from which all penalties could be read off.
    """

    @abstractmethod
    def at(self, log_alpha: float) -> Any:
        """The solution at one penalty: an object with ``value``, ``slope`` (in log alpha) and ``log_alpha``."""

    def best(self, start: float | None, *, highest: float = HIGHEST_PENALTY) -> Any:
        """The penalty of least error: a root of the slope near ``start``, or near the best point of a grid."""
        low, high = np.log(LOWEST_PENALTY), np.log(highest)
        if start is None:
            here = min((self.at(point) for point in np.linspace(low, high, GRID_POINTS)), key=lambda s: s.value)
        else:
            here = self.at(float(np.clip(start, low, high)))
        best, step = here, 0.5
        for _ in range(12):  # walk downhill until the slope changes sign
            there = self.at(float(np.clip(here.log_alpha - np.sign(here.slope) * step, low, high)))
            best = min(best, there, key=lambda s: s.value)
            if there.slope * here.slope <= 0 or there.log_alpha in (low, high):
                break
            here, step = there, 2 * step
        return self._root(here, there, best)

    def _root(self, one: Any, two: Any, best: Any) -> Any:
        """The sign change of the slope between two points, by the Illinois rule, to a thousandth of the error."""
        a, slope_a, b, slope_b = one.log_alpha, one.slope, two.log_alpha, two.slope
        moved = None
        for _ in range(8):
            if slope_a * slope_b >= 0 or abs(best.slope) <= 1e-3 * best.value:
                break
            middle = self.at(a - slope_a * (b - a) / (slope_b - slope_a))
            best = min(best, middle, key=lambda s: s.value)
            if middle.slope * slope_a < 0:  # an end that stays twice counts for half
                b, slope_b, slope_a = middle.log_alpha, middle.slope, slope_a / (2 if moved == "b" else 1)
                moved = "b"
            else:
                a, slope_a, slope_b = middle.log_alpha, middle.slope, slope_b / (2 if moved == "a" else 1)
                moved = "a"
        return best
