"""Columns of features in groups, and the penalty that takes whole groups out.

Coefficients of B problems that are solved side by side are one array W (D, B, c): D features in r groups, c outputs of each
problem. The penalty of problem b is

    P_b(w) = sum_t lambda_tb |w_t| + (mu_b / 2) |w|^2,

|w_t| the length of a group's coefficients: of each output by itself, or of all outputs together (``shared``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bochner.arrays import Array

SLACK = 1e-12
"""A group whose pull is above its penalty by no more than this part of it is out: rounding may have put it there."""

FARTHEST = 1e100
"""Length of coefficients beyond which a group has slopes, but no curvature to speak of."""


@dataclass(frozen=True)
class Groups:
    """Consecutive columns that belong together."""

    sizes: tuple[int, ...]
    shared: bool = False
    """Whether the outputs of a problem are in or out together."""

    @classmethod
    def of(cls, labels: Array, *, shared: bool = False) -> tuple[Groups, Array]:
        """The groups of labelled columns (D,), and the order that makes each group consecutive, by rising label."""
        sizes = np.unique(labels, return_counts=True)[1]
        return cls(tuple(sizes.tolist()), shared), np.argsort(labels, kind="stable")

    @cached_property
    def starts(self) -> Array:
        """The first column of each group: (r,)."""
        return np.concatenate([[0], np.cumsum(self.sizes)[:-1]]).astype(int)

    @cached_property
    def slices(self) -> tuple[slice, ...]:
        """The columns of each group."""
        return tuple(slice(start, start + size) for start, size in zip(self.starts, self.sizes, strict=True))

    @property
    def n_columns(self) -> int:
        """D."""
        return sum(self.sizes)

    def starts_in(self, used: Array) -> Array:
        """The groups whose columns are in a mask (D,): a mask (r,)."""
        return used[self.starts]

    def __len__(self) -> int:
        return len(self.sizes)

    def dots(self, a: Array, b: Array) -> Array:
        """Inner products a_t . b_t of each group: (r, B, c) from (D, B, c), or (r, B, 1) where outputs are shared."""
        products = np.add.reduceat(a * b, self.starts, axis=0)
        return products.sum(axis=2, keepdims=True) if self.shared else products

    def norms(self, coef: Array) -> Array:
        """|w_t|: (r, B, c) or (r, B, 1)."""
        return np.sqrt(self.dots(coef, coef))

    def spread(self, values: Array) -> Array:
        """A value of each group (r, ...) for each of its columns: (D, ...)."""
        return np.repeat(values, self.sizes, axis=0)

    def take(self, used: Array) -> tuple[Groups, Array]:
        """Some of the groups, by a mask (r,), and the mask of their columns (D,)."""
        sizes = tuple(size for size, keep in zip(self.sizes, used, strict=True) if keep)
        return Groups(sizes, self.shared), self.spread(used)


@dataclass(frozen=True)
class GroupPenalty:
    """The penalties of B problems."""

    groups: Groups
    lengths: Array
    """lambda: (r, B), not negative."""
    ridge: Array
    """mu: (B,), not negative."""

    def take(self, problems: Array) -> GroupPenalty:
        """The penalties of some of the problems."""
        return GroupPenalty(self.groups, self.lengths[:, problems], self.ridge[problems])

    def value(self, coef: Array) -> Array:
        """P_b at coefficients (D, B, c): (B,)."""
        lengths = np.sum(self.lengths[:, :, None] * self.groups.norms(coef), axis=(0, 2))
        return lengths + 0.5 * self.ridge * np.sum(coef**2, axis=(0, 2))

    def conjugate_gap(self, coef: Array, slopes: Array) -> Array:
        """P(w) + P*(v) - v . w for slopes v = -grad f(w) (D, B, c), infinite where P* is: (B,).

        P* is the sum of (|v_t| - lambda_t)_+^2 / (2 mu); without mu, zero inside the balls |v_t| <= lambda_t.
        """
        over = np.maximum(self.groups.norms(slopes) - self.lengths[:, :, None], 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            conjugate = np.where(over > 0, over**2 / (2 * self.ridge[:, None]), 0.0).sum(axis=(0, 2))
        return self.value(coef) + conjugate - np.sum(coef * slopes, axis=(0, 2))

    def largest_factor(self, slopes: Array) -> Array:
        """The largest s <= 1 with |s v_t| <= lambda_t for all groups: (B,)."""
        norms = self.groups.norms(slopes)
        with np.errstate(divide="ignore", invalid="ignore"):
            factors = np.where(norms > 0, self.lengths[:, :, None] / norms, np.inf)
        return np.minimum(factors.min(axis=(0, 2)), 1.0)


def block_minimum(eigenvalues: Array, slopes: Array, length: Array) -> Array:
    """The minimum of (1/2) w' L w - v . w + lambda |w| over one group, in the eigenbasis of its matrix.

    ``eigenvalues`` L (q, B, 1), not negative, ``slopes`` v (q, B, c), ``length`` lambda (B,); |w| is over (q, c). At the
    minimum w = nu v / (nu L + lambda), with nu = |w| the root of sum v^2 / (nu L + lambda)^2 = 1, or zero where |v| <=
    lambda. The -1/2-th power of that sum is concave in nu and nearly a straight line, so that Newton's method rises to the
    root from below, in a few steps. A group without curvature, whose features are constant but for rounding, stays at zero.
    """
    size = np.sqrt(np.sum(slopes**2, axis=(0, 2)))
    result = np.zeros_like(slopes)
    on = (size > length * (1 + SLACK)) & (size < FARTHEST * eigenvalues.max(axis=0)[:, 0])
    if not on.any():
        return result
    L, v, lam = eigenvalues[:, on], slopes[:, on], length[on][:, None]
    squares = v**2
    nu = (size[on][:, None] - lam) / L.max(axis=0)
    for _ in range(50):
        denominator = nu * L + lam
        terms = squares / denominator**2
        h = terms.sum(axis=(0, 2))[:, None]
        step = h * (1 - np.sqrt(h)) / (terms * (L / denominator)).sum(axis=(0, 2))[:, None]
        nu = nu - step
        if np.all(np.abs(step) <= 1e-12 * nu):
            break
    result[:, on] = nu * v / (nu * L + lam)
    return result
