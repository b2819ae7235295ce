"""From decision values to probabilities, fitted on held-out decisions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.special import log_softmax, logsumexp, softmax

from bochner.arrays import Array

FEW_ROWS = 30
"""Held-out rows, counted by what their weights are worth, below which offsets are held back the more."""


@dataclass(frozen=True)
class SoftmaxCalibration:
    """p(class k | x) = exp(a f_k + b_k) / sum_j exp(a f_j + b_j) for decision values f (n, c): one slope, c offsets."""

    slope: float
    offsets: Array

    @classmethod
    def fit(cls, decisions: Array, labels: Array, weights: Array) -> SoftmaxCalibration:
        """The most probable calibration after held-out decisions (n, c) of rows with labels (n,) from zero to c - 1.

        Offsets are standard normal beforehand, so that classes of few rows have small ones; of fewer than FEW_ROWS rows in
        all they are narrower, since so few say little of how frequent classes are. By Laplace's rule of succession
        a label counts as a chance of 1 - 1 / (n + 2) of its class: n rows that were all predicted right are no proof of
        certainty. Of rows of very different weights n is the number of equal ones that say as much.
        """
        n_classes = decisions.shape[1]
        spread, n = _unit(decisions), _worth(weights)
        doubt = 1 / (n + 2)
        chances = np.where(labels[:, None] == np.arange(n_classes), 1 - doubt, doubt / (n_classes - 1))
        shares = weights / weights.sum()
        held = max(1.0, FEW_ROWS / n) / n

        def loss(parameters: Array) -> tuple[float, Array]:
            log_p = log_softmax(parameters[0] / spread * decisions + parameters[1:], axis=1)
            residual = shares[:, None] * (np.exp(log_p) - chances)
            slope, offsets = np.sum(residual * decisions) / spread, parameters[1:]
            value = -float(shares @ np.sum(chances * log_p, axis=1)) + held / 2 * (offsets @ offsets)
            return value, np.concatenate([[slope], residual.sum(axis=0) + held * offsets])

        start = np.concatenate([[1.0], np.zeros(n_classes)])
        found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(1e-6, None)] + [(None, None)] * n_classes).x
        return cls(float(found[0] / spread), found[1:] - found[1:].mean())

    @staticmethod
    def log_loss(decisions: Array, labels: Array, weights: Array) -> float:
        """The mean log loss of decisions (n, c) at their best slope, without offsets, with the same doubt about labels.

        It says which decisions are better, without taking part in what they become.
        """
        n, n_classes = decisions.shape
        doubt = 1 / (_worth(weights) + 2)
        spread = _unit(decisions)
        scaled, shares = decisions / spread, weights / weights.sum()
        mixed = (1 - doubt * n_classes / (n_classes - 1)) * scaled[np.arange(n), labels]
        mixed += doubt / (n_classes - 1) * scaled.sum(axis=1)
        wanted = float(shares @ mixed)

        def loss(log_slope: float) -> float:
            slope = np.exp(log_slope)
            return float(shares @ logsumexp(slope * scaled, axis=1)) - slope * wanted

        return float(minimize_scalar(loss, bounds=(-3.0, 6.0), method="bounded", options={"xatol": 1e-2}).fun)

    def shift(self, decisions: Array) -> Array:
        """Decisions f + b / a (n, c): the class of the largest one is the class of the largest probability."""
        return decisions + self.offsets / self.slope

    def __call__(self, decisions: Array) -> Array:
        """Probabilities (n, c) that sum to one."""
        return softmax(self.slope * decisions + self.offsets, axis=1)


def _worth(weights: Array) -> float:
    """How many rows of equal weight say as much as rows of these weights (Kish, 1965): all, where these are equal."""
    return float(weights.sum() ** 2 / (weights @ weights))


def _unit(decisions: Array) -> float:
    """The standard deviation of decisions; of such that are all alike, their size, or one."""
    size = float(np.max(np.abs(decisions)))
    spread = float(np.std(decisions))
    return spread if spread > np.finfo(np.float64).eps * size else size or 1.0
