"""Losses of classifiers as functions of their scores: value, slope and curvature of every row.

A loss sees scores and targets, never features. All of it stays finite for scores of any size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import expit

from bochner.arrays import Array


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


def _chances(scores: Array) -> Array:
    """exp(f_k) / sum_j exp(f_j): (n, c)."""
    exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


LOSSES: dict[str, Loss] = {"logistic": Logistic(), "multinomial": Multinomial()}
"""The losses by name."""
