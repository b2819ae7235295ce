"""Losses of classifiers and regressors as functions of their scores: value, slope, curvature and conjugate of every row.

A loss sees scores and targets, never features. All of it stays finite for scores of any size (squares: up to 1e150).
"""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.special import expit, xlog1py, xlogy

from bochner.arrays import Array
from bochner.errors import InputError

SLACK = 4 * float(np.finfo(np.float64).eps)
"""Slopes this far outside the domain of a conjugate are taken for slopes on its boundary."""
LARGE = 600.0
"""exp(LARGE) is finite, and its inverse far below rounding."""


class Loss(Protocol):
    """A convex function of the scores (n, c) of n rows with targets (n, c), row by row."""

    @property
    def bound(self) -> float:
        """No row's matrix of second derivatives (c, c) has an eigenvalue above this."""

    @property
    def shift_free(self) -> bool:
        """Whether adding one number to all scores of a row changes nothing."""

    def values(self, scores: Array, targets: Array) -> Array:
        """The loss of each row: (n,)."""

    def slopes(self, scores: Array, targets: Array) -> Array:
        """Its derivative in each score: (n, c)."""

    def curve(self, scores: Array, targets: Array, direction: Array) -> Array:
        """Each row's matrix of second derivatives times that row of ``direction`` (n, c): (n, c)."""

    def curvature(self, scores: Array, targets: Array) -> Array:
        """The diagonals of those matrices: (n, c)."""

    def conjugate(self, slopes: Array, targets: Array) -> Array:
        """Each row's convex conjugate, sup over f of (u . f - loss(f)), at slopes u (n, c): (n,).

        It is finite at all that ``slopes`` returns, and at a part of that between 0 and 1; inf where there is no supremum.
        """


@dataclass(frozen=True)
class Logistic:
    """sum_k log(1 + exp(-y_k f_k)) for targets y of -1 and +1: every column is a question of its own."""

    bound = 0.25
    shift_free = False

    def values(self, scores: Array, targets: Array) -> Array:
        return np.logaddexp(0, -targets * scores).sum(axis=1)

    def slopes(self, scores: Array, targets: Array) -> Array:
        return -targets * expit(-targets * scores)

    def curve(self, scores: Array, targets: Array, direction: Array) -> Array:
        return self.curvature(scores, targets) * direction

    def curvature(self, scores: Array, targets: Array) -> Array:
        return expit(scores) * expit(-scores)

    def conjugate(self, slopes: Array, targets: Array) -> Array:
        """sum_k p_k log p_k + (1 - p_k) log(1 - p_k) with p = -u y in [0, 1]."""
        against = -targets * slopes
        p = np.clip(against, 0, 1)
        outside = (against < -SLACK) | (against > 1 + SLACK)
        return np.where(outside, np.inf, xlogy(p, p) + xlog1py(1 - p, -p)).sum(axis=1)


@dataclass(frozen=True)
class Multinomial:
    """log sum_k exp(f_k) - sum_k y_k f_k for targets y with a one in the column of the row's class, else zeros."""

    bound = 0.5
    shift_free = True

    def values(self, scores: Array, targets: Array) -> Array:
        behind = scores - np.sum(targets * scores, axis=1, keepdims=True)  # zero for the class of the row itself
        largest = behind.max(axis=1)
        return largest + np.log(np.exp(behind - largest[:, None]).sum(axis=1))

    def slopes(self, scores: Array, targets: Array) -> Array:
        others = _chances(scores) * (1 - targets)
        return others - targets * others.sum(axis=1, keepdims=True)  # p - y, where p is close to y as well

    def curve(self, scores: Array, targets: Array, direction: Array) -> Array:
        chances = _chances(scores)
        return chances * (direction - np.sum(chances * direction, axis=1, keepdims=True))

    def curvature(self, scores: Array, targets: Array) -> Array:
        chances = _chances(scores)
        return chances * (1 - chances)

    def conjugate(self, slopes: Array, targets: Array) -> Array:
        """sum_k p_k log p_k with p = u + y, none of them negative and their sum one."""
        others = (1 - targets) * slopes
        together = -np.sum(targets * slopes, axis=1)  # 1 - p for the class of the row itself, small where p is close to one
        slack = SLACK * slopes.shape[1]  # slopes add up to zero, but for the rounding of c numbers
        outside = (np.abs(slopes.sum(axis=1)) > slack) | (others < -SLACK).any(axis=1) | (together > 1 + slack)
        p, rest = np.clip(others, 0, 1), np.clip(together, 0, 1)
        return np.where(outside, np.inf, xlogy(p, p).sum(axis=1) + xlog1py(1 - rest, -rest))


def _chances(scores: Array) -> Array:
    """exp(f_k) / sum_j exp(f_j): (n, c)."""
    exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


@dataclass(frozen=True)
class Squared:
    """sum_k (f_k - y_k)^2."""

    bound = 2.0
    shift_free = False

    def values(self, scores: Array, targets: Array) -> Array:
        return np.sum((scores - targets) ** 2, axis=1)

    def slopes(self, scores: Array, targets: Array) -> Array:
        return 2 * (scores - targets)

    def curve(self, scores: Array, targets: Array, direction: Array) -> Array:
        return 2 * direction

    def curvature(self, scores: Array, targets: Array) -> Array:
        return np.full(scores.shape, 2.0)

    def conjugate(self, slopes: Array, targets: Array) -> Array:
        """sum_k u_k^2 / 4 + u_k y_k."""
        return np.sum(slopes * (slopes / 4 + targets), axis=1)


@dataclass(frozen=True)
class EpsilonLogistic:
    """A smooth version of max(|r| - epsilon, 0), r = f - y, summed over columns; the larger gamma, the closer:

        (1/gamma) [log(1 + e^(gamma (r - epsilon))) + log(1 + e^(gamma (-r - epsilon))) - 2 log(1 + e^(-gamma epsilon))].

    With a = gamma |r| and b = gamma epsilon this is (1/gamma) log(1 + (sinh(a/2) / cosh(b/2))^2), whose slope in |r| is
    sinh a / (cosh a + cosh b): none of their terms cancel. The code writes them in exponentials that do not overflow.
    """

    epsilon: float = 0.1
    """Half the width of the band that costs next to nothing, in units of the targets."""
    gamma: float = 10.0
    """How sharp the edges of the band are: over 1/gamma or so the slope goes from zero to one."""

    shift_free = False

    def __post_init__(self) -> None:
        if not (_is_finite(self.epsilon) and self.epsilon >= 0):
            raise InputError(f"epsilon must be a finite number, zero or larger (0.1, say), got {self.epsilon!r}.")
        if not (_is_finite(self.gamma) and self.gamma > 0):
            raise InputError(f"gamma must be a finite number larger than zero (10.0, say), got {self.gamma!r}.")
        if not math.isfinite(self.gamma * self.epsilon):
            raise InputError(
                f"gamma * epsilon must be finite, got gamma={self.gamma!r} and epsilon={self.epsilon!r}; "
                "take a smaller gamma."
            )

    @property
    def bound(self) -> float:
        """gamma times the largest (1 + k x) / (x + k)^2 of all x = cosh a >= 1, where k = cosh b.

        It is the one at x = k - 2/k, which is k^2 / (4 (k^2 - 1)), or at x = 1 where k < 2 and that x would be below one.
        """
        b = self.gamma * self.epsilon
        return self.gamma / (1 + math.cosh(b)) if b < math.acosh(2) else self.gamma / (4 * math.tanh(b) ** 2)

    def values(self, scores: Array, targets: Array) -> Array:
        size = np.abs(scores - targets)
        beyond = size - self.epsilon
        near = np.minimum(beyond, LARGE / self.gamma)  # from there on the loss is a straight line
        rise = np.expm1(-self._times_gamma(size)) / (1 + math.exp(-self.gamma * self.epsilon))
        return np.sum(np.log1p(rise**2 * np.exp(self.gamma * near)) / self.gamma + (beyond - near), axis=1)

    def slopes(self, scores: Array, targets: Array) -> Array:
        residuals = scores - targets
        size = np.abs(residuals)
        inner, outer = self._edges(size)
        return np.sign(residuals) * -np.expm1(-2 * self._times_gamma(size)) * expit(inner) * expit(outer)

    def curve(self, scores: Array, targets: Array, direction: Array) -> Array:
        return self.curvature(scores, targets) * direction

    def curvature(self, scores: Array, targets: Array) -> Array:
        inner, outer = self._edges(np.abs(scores - targets))
        return self.gamma * (expit(inner) * expit(-inner) + expit(outer) * expit(-outer))

    def conjugate(self, slopes: Array, targets: Array) -> Array:
        """sum_k C(|u_k|) / gamma + u_k y_k, where for v in [0, 1], with k = cosh b and w = (1 + v^2 sinh^2 b)^(1/2),

            C(v) = v log(k v + w) - log((k + w) / (k + 1)) + (1 - v) log(1 - v) + log(1 + v).

        The slope is v at e^a = (k v + w) / (1 - v), and there cosh a + k = (k + w) / (1 - v^2). At v = 1 there is no such a,
        and C is the limit, 2 log(2 cosh(b/2)).
        """
        v = np.minimum(np.abs(slopes), 1)
        b = self.gamma * self.epsilon
        small = math.exp(-b)  # k, sinh b and w are counted in units of e^b
        sinh = -math.expm1(-2 * b) / 2
        part = v / np.maximum(small + np.hypot(small, sinh * v), np.finfo(np.float64).tiny)  # (w - 1) / (v sinh^2 b)
        gain = v * ((1 + small**2) / 2 + sinh**2 * part)  # k v + w - 1
        steep = v * _log1p_times_exp(gain, b) - np.log1p(v * part * math.expm1(-b) ** 2 / 2)
        v_low, v_high = np.minimum(v, 0.5), np.maximum(v, 0.5)
        low = np.log1p(-(v_low**2)) - v_low * np.log1p(-v_low)  # equal to the next one, without its terms of order v
        high = xlog1py(1 - v_high, -v_high) + np.log1p(v_high)
        conjugates = (steep + np.where(v < 0.5, low, high)) / self.gamma + slopes * targets
        return np.where(np.abs(slopes) > 1 + SLACK, np.inf, conjugates).sum(axis=1)

    def _edges(self, size: Array) -> tuple[Array, Array]:
        """gamma (|r| - epsilon) and gamma (|r| + epsilon)."""
        return self._times_gamma(size - self.epsilon), self._times_gamma(size + self.epsilon)

    def _times_gamma(self, distance: Array) -> Array:
        """gamma times a distance, or a number past which its exponential vanishes."""
        return self.gamma * np.minimum(distance, 2 * LARGE / self.gamma)


def _is_finite(value: Any) -> bool:
    return isinstance(value, numbers.Real) and math.isfinite(value)


def _log1p_times_exp(x: Array, t: float) -> Array:
    """log(1 + x e^t) for numbers x >= 0, without overflow."""
    if t <= LARGE:
        return np.log1p(x * math.exp(t))
    return np.logaddexp(0, t + np.log(np.maximum(x, np.finfo(np.float64).smallest_subnormal)))


LOSSES: dict[str, Loss] = {"logistic": Logistic(), "multinomial": Multinomial()}
"""The losses of classifiers by name."""
REGRESSION_LOSSES: dict[str, Loss] = {"squared": Squared(), "epsilon-logistic": EpsilonLogistic()}
"""The losses of regressors by name."""
