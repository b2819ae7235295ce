"""How many features a fit has where nobody says so, in how many steps it gets there, and what memory that takes."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from bochner.descent import Level
from bochner.errors import NotEnoughMemoryError
from bochner.estimators.folds import FOLDS
from bochner.estimators.learner import KernelLearner
from bochner.memory import MATRIX_SHARE, as_bytes, machine_bytes, readable
from bochner.single_kernel import default_levels

FEWEST_FEATURES, MOST_FEATURES = 256, 4000
"""Limits of the number of features that n_features=None chooses."""
MATRICES = 4
"""Matrices of all pairs of features (or of rows, where these are fewer) that are there at a time."""
FULL_STEPS = 60
"""Most steps of schedule="full"."""
SCHEDULES = ("small-to-large", "full")


class SizedLearner(KernelLearner):
    """A learner on features, whose number is given or chosen, within a limit of memory.

    Subclasses have the parameters of a KernelLearner, and those below.
    """

    n_features: int | None
    schedule: str
    keep_moments: bool
    max_memory: Any

    def _check_memory(self, n_features: int, n_rows: int, n_parts: int) -> None:
        """Refuse more features than there is room for matrices of all pairs of, before anything is learned."""
        kept, needed = self._kept_bytes(n_features), self._matrix_bytes(n_features, n_rows, n_parts)
        there = machine_bytes() if self.max_memory is None else as_bytes(self.max_memory)
        if needed > there:
            most = int((there / self._matrix_bytes(1, n_rows, n_parts)) ** 0.5) // 2 * 2
            helps = needed - kept <= there
            advice = f"use fewer, such as {most}" + ", or keep_moments=False if there is no partial_fit to come" * helps
            what = "this machine has" if self.max_memory is None else "max_memory is"
            raise NotEnoughMemoryError(
                f"n_features={n_features} needs about {readable(needed)} for matrices of all pairs of features, and {what} "
                f"{readable(there)}: {advice}."
            )

    def _matrix_bytes(self, n_features: int, n_rows: int, n_parts: int) -> float:
        """What matrices of all pairs of features take, and of rows where these are fewer."""
        return self._kept_bytes(n_features) + 8.0 * (MATRICES + n_parts) * min(n_features, n_rows) ** 2

    def _kept_bytes(self, n_features: int) -> float:
        """What ``moments_`` takes."""
        return 8.0 * n_features**2 if self.keep_moments else 0.0

    def _warn_of_few_features(self) -> None:
        """Say that ``max_memory`` leaves little room for features, where it chooses their number."""
        room = self._room_for_features()
        random = any(family.geometry != "additive" for family in self._families())
        if self.n_features is None and room < FEWEST_FEATURES and random:
            needed = 8 * self._matrices * FEWEST_FEATURES**2 / MATRIX_SHARE
            warnings.warn(
                f"max_memory is {readable(as_bytes(self.max_memory))}, which has room for {room} features: predictions by "
                f"so few may be poor. For {FEWEST_FEATURES} raise max_memory to {readable(needed)}, or say n_features=.",
                UserWarning,
                stacklevel=6,
            )

    def _levels(self, n_rows: int, n_columns: int) -> tuple[Level, ...]:
        n_features = self.n_features
        if n_features is None:
            n_features = min(MOST_FEATURES, max(FEWEST_FEATURES, 4 * n_rows), self._room_for_features())
        if self.schedule == "full":
            return (Level(n_features, n_rows, FULL_STEPS),)
        n_scales = n_columns if isinstance(self.scale, str) else len(np.unique(self._groups(n_columns)))
        return default_levels(n_rows, n_features, n_scales)

    def _room_for_features(self) -> int:
        """How many features ``max_memory`` has room for, an even number."""
        if self.max_memory is None:
            return MOST_FEATURES
        return max(2, int((MATRIX_SHARE * as_bytes(self.max_memory) / (8 * self._matrices)) ** 0.5) // 2 * 2)

    @property
    def _matrices(self) -> int:
        """Matrices of all pairs of features that a fit on folds holds at a time."""
        return MATRICES + FOLDS + bool(self.keep_moments)
