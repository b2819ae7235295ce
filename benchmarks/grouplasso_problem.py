"""The group lasso of ``grouplasso.py``: its data, and the objective and dual bound by which every solver is judged.

The objective is (1/n) sum_i (y_i - x_i w - b)^2 + alpha sum_t |w_t|, b free and all groups of weight one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from uci_data import MNIST_FILE, absent

from bochner import FourierFeatures

SEED = 0
SIDE = 28
BANDWIDTHS = (1.0, 2.0)
"""Scales of the kernels of a quarter of the image, in units of one over the median distance."""
N_ALPHAS, SMALLEST = 20, 3e-3


@dataclass(frozen=True)
class Problem:
    """Features with their groups, one target a class, and the penalties, which all classes share."""

    features: np.ndarray
    """(n, D)."""
    targets: np.ndarray
    """(n, c)."""
    groups: np.ndarray
    """The group of each column, rising from zero: (D,)."""
    alphas: np.ndarray
    """Falling: (L,)."""

    @classmethod
    def of(cls, features: np.ndarray, targets: np.ndarray, groups: np.ndarray) -> Problem:
        """The problem with penalties from the smallest at which no class has a group down to SMALLEST of it."""
        slopes = 2 / len(features) * features.T @ (targets - targets.mean(axis=0))
        largest = np.sqrt(group_sums(slopes**2, groups)).max()
        return cls(features, targets, groups, largest * np.geomspace(1.0, SMALLEST, N_ALPHAS))

    def objective(self, coef: np.ndarray, intercept: np.ndarray, column: int) -> tuple[np.ndarray, np.ndarray]:
        """Objective, and a lower bound on all objectives, of a path (L, D), (L,) for one class: both (L,).

        The bound is the dual objective y't - n/4 |t|^2 at the residuals, centred and scaled until |F_g't| <= alpha.
        """
        n, y = len(self.features), self.targets[:, column]
        residuals = y[:, None] - self.features @ coef.T - intercept
        lengths = np.sqrt(group_sums(coef.T**2, self.groups)).sum(axis=0)
        dual = 2 / n * (residuals - residuals.mean(axis=0))
        slopes = np.sqrt(group_sums((self.features.T @ dual) ** 2, self.groups)).max(axis=0)
        tiny = np.finfo(np.float64).tiny
        along, squares = y @ dual, n / 4 * np.sum(dual**2, axis=0)
        step = np.minimum(along / np.maximum(2 * squares, tiny), self.alphas / np.maximum(slopes, tiny))
        return np.mean(residuals**2, axis=0) + self.alphas * lengths, step * along - step**2 * squares


def group_sums(values: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Sums over the rows (D, k) of each group: (r, k)."""
    return np.add.reduceat(values, np.flatnonzero(np.diff(groups, prepend=-1)), axis=0)


def mnist_problem(folder: Path, rows: int, per_kernel: int, digits: tuple[int, ...]) -> Problem:
    """Rows of MNIST, digits against the rest; a Gaussian kernel for each quarter of the image and each of two bandwidths."""
    images, labels = _mnist(folder)
    chosen = np.random.default_rng(SEED).permutation(len(images))[:rows]
    images, labels = images[chosen] / 255.0, labels[chosen]
    half, parts = SIDE // 2, []
    for quarter in range(4):
        top, left = (half * i for i in divmod(quarter, 2))
        X = np.ascontiguousarray(images[:, top : top + half, left : left + half].reshape(len(images), -1))
        scale = FourierFeatures("gaussian", n_features=2, scale="median", random_state=SEED).fit(X).kernel_.scale
        for number, factor in enumerate(BANDWIDTHS):
            seed = SEED + len(BANDWIDTHS) * quarter + number
            kernel = FourierFeatures("gaussian", n_features=per_kernel, scale=factor * np.asarray(scale), random_state=seed)
            parts.append(kernel.fit_transform(X))
    groups = np.repeat(np.arange(len(parts)), per_kernel)
    return Problem.of(np.hstack(parts), np.where(labels[:, None] == np.array(digits), 1.0, -1.0), groups)


def _mnist(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    path = folder / MNIST_FILE
    if not path.is_file():
        raise absent(f"There is no file {path}")
    with np.load(path) as file:
        return file["X_train"].reshape(-1, SIDE, SIDE), file["y_train"]
