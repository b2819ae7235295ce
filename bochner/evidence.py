"""Scales by the evidence of a Gaussian process on few rows: a start for learning where held-out errors are noisy.

A Gaussian process with kernel a k and noise of variance a rho explains targets y of n rows with the evidence
log N(y; 0, a Q), Q = K + rho I. Its best amplitude a has a closed form, and what is left to minimise is

    J(s, rho) = (n / 2c) sum_j log(y_j' Q^-1 y_j) + (1/2) log|Q|

over the c targets, each with an amplitude of its own. With u_j = Q^-1 y_j its gradient in the kernel matrix is

    dJ/dQ = (1/2) Q^-1 - (n / 2c) sum_j u_j u_j' / (y_j' u_j),

which goes back to the scales by the kernel's own adjoint. Evidence has no folds and no luck of a split, which is why it
tells columns apart on fewer rows than a held-out error needs; but it trusts the kernel to be right, so that the choice is
left to the held-out error.
"""

from __future__ import annotations

import numpy as np

from bochner.arrays import Array, dense, fetch64, is_foreign, namespace, place
from bochner.kernels import Kernel
from bochner.solvers.lbfgs import minimise
from bochner.solvers.normal_equations import factorise_fresh

EVIDENCE_STEPS = 40
FIRST_NOISE = 0.1
"""Variance of the noise, in units of the amplitude, where learning starts."""
SMALLEST_NOISE, LARGEST_NOISE = 1e-6, 1e2
FARTHEST = 6.0
"""How far the logarithm of a scale may move from its start."""


def negative_evidence(kernel: Kernel, X: Array, targets: Array, log_noise: float) -> tuple[float, dict[str, Array], float]:
    """J of rows X (n, m) and targets (n, c), its gradient in the kernel's parameters, and in the logarithm of the noise."""
    n, c = targets.shape
    noise = float(np.exp(log_noise))
    factor = factorise_fresh(lambda: kernel.exact(X, X), noise)
    xp = namespace(factor.triangle)
    identity = place(np.eye(n), like=factor.triangle) if is_foreign(factor.triangle) else np.eye(n)
    inverse = factor.solve(identity)
    solved = inverse @ targets
    squares = xp.sum(targets * solved, axis=0) + np.finfo(np.float64).tiny  # targets may be zero
    value = 0.5 * n * xp.mean(xp.log(squares)) + xp.sum(xp.log(xp.linalg.diagonal(factor.triangle)))
    slopes = 0.5 * inverse - (0.5 * n / c) * (solved / squares) @ solved.T
    in_noise = noise * float(xp.sum(xp.linalg.diagonal(slopes)))
    return float(value), kernel.exact_adjoint(X, X, slopes), in_noise


def learn_by_evidence(kernel: Kernel, X: Array, targets: Array, *, max_iter: int = EVIDENCE_STEPS) -> Kernel:
    """The kernel whose scales have the largest evidence near those of ``kernel``, on rows X (n, m) and targets (n, c).

    Minimised is exp(2 J / n), which is like a squared error: positive, and lower by a share for every step that counts.
    """
    X, n = X if is_foreign(X) else dense(X).astype(np.float64, copy=False), X.shape[0]
    spread = np.maximum(fetch64(namespace(targets).mean(targets**2, axis=0)), np.finfo(np.float64).tiny) ** 0.5
    targets = targets / (place(spread, like=targets) if is_foreign(targets) else spread)
    start = np.append(kernel.theta, np.log(FIRST_NOISE))
    low, high = start - FARTHEST, start + FARTHEST
    low[-1], high[-1] = np.log(SMALLEST_NOISE), np.log(LARGEST_NOISE)

    def value_and_gradient(theta: Array) -> tuple[float, Array]:
        trial = kernel.with_theta(theta[:-1])
        value, gradient, in_noise = negative_evidence(trial, X, targets, float(theta[-1]))
        level = float(np.exp(np.clip(2 * value / n, -50, 50)))
        return level, level * 2 / n * np.append(trial.unconstrain(gradient), in_noise)

    result = minimise(value_and_gradient, start, bounds=(low, high), max_iter=max_iter, tol=1e-3)
    return kernel.with_theta(result.coef[:-1])
