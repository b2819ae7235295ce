"""Penalties on the scales of a kernel: functions of m positive numbers, and their derivatives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from bochner.arrays import Array


class ScalePenalty(Protocol):
    """r(s) for scales s (m,) in units of the standardised columns."""

    @property
    def selects(self) -> bool:
        """Whether columns that are not needed are to lose their scale altogether."""

    def value(self, scales: Array) -> float:
        """The penalty."""

    def gradient(self, scales: Array) -> Array:
        """Its derivative in each scale: (m,)."""


@dataclass(frozen=True)
class NoScalePenalty:
    """r(s) = 0."""

    selects: ClassVar[bool] = False

    strength: float = 0.0

    def value(self, scales: Array) -> float:
        return 0.0

    def gradient(self, scales: Array) -> Array:
        return np.zeros_like(scales)


@dataclass(frozen=True)
class SquaredScalePenalty:
    """r(s) = strength sum_i s_i^2: smoother kernels (the paper's regulariser)."""

    selects: ClassVar[bool] = False

    strength: float = 1e-3

    def value(self, scales: Array) -> float:
        return self.strength * float(scales @ scales)

    def gradient(self, scales: Array) -> Array:
        return 2 * self.strength * scales


@dataclass(frozen=True)
class SparseScalePenalty:
    """r(s) = strength sum_i s_i: drives the scales of useless columns to zero."""

    strength: float = 1e-3

    @property
    def selects(self) -> bool:
        return self.strength > 0

    def value(self, scales: Array) -> float:
        return self.strength * float(scales.sum())

    def gradient(self, scales: Array) -> Array:
        return np.full_like(scales, self.strength)


SCALE_PENALTIES: dict[str, Callable[[float], ScalePenalty]] = {
    "none": NoScalePenalty,
    "squared": SquaredScalePenalty,
    "sparse": SparseScalePenalty,
}
"""The penalties by name; each value makes one from its strength."""
