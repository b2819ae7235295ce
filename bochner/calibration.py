"""From decision values to probabilities, fitted on held-out decisions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from bochner.arrays import Array


@dataclass(frozen=True)
class SoftmaxCalibration:
    """p(class k | x) = exp(a f_k + b_k) / sum_j exp(a f_j + b_j) for decision values f (n, c): one slope, c offsets."""

    slope: float
    offsets: Array

    @classmethod
    def fit(cls, decisions: Array, labels: Array, weights: Array) -> SoftmaxCalibration:
        """Maximum likelihood on held-out decisions (n, c) of rows with labels (n,) from zero to c - 1.

        A weak prior (one row of the uniform distribution for the offsets, a normal law of width 100 for the slope in units
        of the decisions' spread) keeps both finite where the decisions separate the classes.
        """
        n_classes = decisions.shape[1]
        spread = max(float(np.std(decisions)), np.finfo(np.float64).tiny)
        chosen = np.arange(len(labels)), labels
        total = weights.sum() + 1.0

        def loss(parameters: Array) -> tuple[float, Array]:
            scores = parameters[0] / spread * decisions + parameters[1:]
            log_p = log_softmax(scores, axis=1)
            residual = np.exp(log_p)
            residual[chosen] -= 1
            residual *= weights[:, None]
            prior = log_softmax(parameters[1:]), parameters[0] / 100
            value = -float(weights @ log_p[chosen]) - float(prior[0].mean()) + float(prior[1] ** 2) / 2
            gradient = np.concatenate(
                [
                    [np.sum(residual * decisions) / spread + prior[1] / 100],
                    residual.sum(axis=0) + np.exp(prior[0]) - 1 / n_classes,
                ]
            )
            return value / total, gradient / total

        start = np.concatenate([[1.0], np.zeros(n_classes)])
        found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(1e-6, None)] + [(None, None)] * n_classes).x
        return cls(float(found[0] / spread), found[1:] - found[1:].mean())

    def shift(self, decisions: Array) -> Array:
        """Decisions f + b / a (n, c): the class of the largest one is the class of the largest probability."""
        return decisions + self.offsets / self.slope

    def __call__(self, decisions: Array) -> Array:
        """Probabilities (n, c) that sum to one."""
        return softmax(self.slope * decisions + self.offsets, axis=1)
