"""The ridge penalty of least held-out error, for a kernel that stays as it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

PENALTIES = LOWEST_PENALTY, HIGHEST_PENALTY = 1e-11, 10.0
"""Range of the ridge penalty; features are unit vectors, so the mean loss gives it a scale of its own."""
GRID_POINTS = 10
PRECISION = 1e-4
"""The search ends when another step promises to lower the error by less than this part of it."""
FIRST_STEP, LONGEST_STEP = 0.5, 4.0


class PenaltySearch(ABC):
    """Held-out error as a function of the logarithm of the penalty alone."""

    precision = PRECISION

    @abstractmethod
    def at(self, log_alpha: float) -> Any:
        """The solution at one penalty: ``value``, ``slope`` and ``curvature`` (or None) in log alpha, ``log_alpha``."""

    def best(self, start: float | None, *, bounds: tuple[float, float] = PENALTIES) -> Any:
        """The penalty of least error near ``start``, or near the best point of a grid: Newton steps inside a bracket."""
        ends = low, high = float(np.log(bounds[0])), float(np.log(bounds[1]))
        if start is None:
            here = min((self.at(float(point)) for point in np.linspace(low, high, GRID_POINTS)), key=lambda s: s.value)
        else:
            here = self.at(float(np.clip(start, low, high)))
        best, before, reach = here, None, FIRST_STEP
        for _ in range(20):
            if here.slope > 0 and np.isfinite(here.value):
                high = here.log_alpha
            else:
                low = here.log_alpha
            step, promise = _newton(here, before)
            if promise is not None and promise <= self.precision * here.value:
                break
            if promise is None:
                step, reach = -np.sign(here.slope) * reach, 2 * reach
            target = here.log_alpha + float(np.clip(step, -LONGEST_STEP, LONGEST_STEP))
            if not low < target < high:
                end = low if target <= low else high
                target = end if end in ends else 0.5 * (low + high)
            if abs(target - here.log_alpha) < 1e-6:
                break
            before, here = here, self.at(target)
            best = min(best, here, key=lambda s: s.value)
        return best


def _newton(here: Any, before: Any) -> tuple[float, float | None]:
    """The Newton step from here and what it promises to gain; no promise where the curvature is unknown or negative."""
    curvature = here.curvature
    if curvature is None and before is not None and before.log_alpha != here.log_alpha:
        curvature = (here.slope - before.slope) / (here.log_alpha - before.log_alpha)
    if not np.isfinite(here.value):
        return LONGEST_STEP, np.nan  # rounding has eaten a penalty this small
    if curvature is None or not curvature > 0:
        return 0.0, None
    return -here.slope / curvature, 0.5 * here.slope**2 / curvature
