"""Additive summaries of blocks of rows: what is left of the rows once their features are gone."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np
from array_api_compat import device

from bochner.arrays import Array, dense, fetch, is_foreign, namespace, place
from bochner.tiled import add_squares

STRIP = 1024
"""Columns of a Gram matrix that are multiplied at a time where there is no product of half a matrix: they leave out most of
the upper triangle, and are enough for a device to have its hands full."""


@dataclass(frozen=True)
class Moments:
    """Weighted sums over rows that determine every ridge regression on their features Phi (n, d) and targets Y (n, c).

    Sums, not means; those of several blocks of rows add up. All float64, and on the device of the rows.
    """

    gram: Array
    """Phi' W Phi: (d, d)."""
    cross: Array
    """Phi' W Y: (d, c)."""
    feature_sum: Array
    """Phi' w: (d,)."""
    target_sum: Array
    """Y' w: (c,)."""
    target_square: Array
    """Sum of w y^2 for each target: (c,)."""
    weight: float
    """Sum of the weights w."""

    @classmethod
    def of(cls, features: Array, targets: Array, weights: Array) -> Moments:
        """The moments of one block: features (b, d), dense or sparse, targets (b, c) and weights (b,) in float64.

        Features of float32 stay so; all others become float64.
        """
        features = dense(features)
        xp = namespace(features)
        total = MomentSum(features.shape[1], targets.shape[1], like=features)
        total.add(xp.astype(features, xp.float32 if features.dtype == xp.float32 else xp.float64), targets, weights)
        return total.moments()

    def __add__(self, other: Moments) -> Moments:
        return Moments(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def squared_error(self, coef: Array, intercept: Array) -> Array:
        """Sum of w (phi . coef + intercept - y)^2 over the rows, for each target: (c,)."""
        quadratic = namespace(coef).sum(coef * (self.gram @ coef - 2 * self.cross), axis=0)
        linear = 2 * intercept * (self.feature_sum @ coef - self.target_sum)
        return self.target_square + quadratic + linear + self.weight * intercept**2

    def square(self, coef: Array, intercept: Array) -> Array:
        """Sum of w (phi . coef + intercept)^2 over the rows, for each column of coef: (c,)."""
        quadratic = namespace(coef).sum(coef * (self.gram @ coef), axis=0)
        return quadratic + 2 * intercept * (self.feature_sum @ coef) + self.weight * intercept**2

    def scaled(self, used: Array, factors: Array) -> Moments:
        """The moments of some features, a mask (d,), times factors (q, 1)."""
        gram = self.gram[np.ix_(used, used)] * factors * factors.T
        return replace(self, gram=gram, cross=factors * self.cross[used], feature_sum=factors[:, 0] * self.feature_sum[used])

    def target(self, index: int) -> Moments:
        """The moments with one of the targets."""
        column = slice(index, index + 1)
        some = {name: getattr(self, name)[column] for name in ("target_sum", "target_square")}
        return replace(self, cross=self.cross[:, column], **some)

    def residual_products(self, coef: Array, intercept: Array) -> tuple[Array, Array]:
        """Phi' W R (d, c) and w' R (c,) for the residuals R = Phi coef + intercept - Y."""
        with_features = self.gram @ coef + self.feature_sum[:, None] * intercept - self.cross
        return with_features, self.feature_sum @ coef + self.weight * intercept - self.target_sum

    def on_host(self) -> Moments:
        """The same in NumPy arrays; the small ones of a device come in one transfer."""
        if not is_foreign(self.gram):
            return self
        xp, names = namespace(self.gram), [f.name for f in fields(self) if f.name not in ("gram", "weight")]
        small = [getattr(self, name) for name in names]
        numbers = fetch(xp.concat([xp.reshape(array, (-1,)) for array in small]))
        parts = np.split(numbers, np.cumsum([math.prod(array.shape) for array in small])[:-1])
        here: dict[str, Any] = {
            name: part.reshape(array.shape) for name, part, array in zip(names, parts, small, strict=True)
        }
        return replace(self, gram=fetch(self.gram).T, **here)  # symmetric, in the order of LAPACK


class MomentSum:
    """Moments on their way: blocks of rows are added to one matrix in place, and only to its lower triangle.

    The sums are NumPy's, or where the rows are that they should be ``like``.
    """

    def __init__(self, n_features: int, n_targets: int, like: Array | None = None) -> None:
        foreign = like is not None and is_foreign(like)
        make = partial(namespace(like).zeros, dtype=namespace(like).float64, device=device(like)) if foreign else np.zeros
        square = make((n_features, n_features))
        self._gram = square if foreign else square.T  # in the order of the products that are added, or of LAPACK
        self._with_features = make((n_features, n_targets + 1))
        self._target_sum = make(n_targets)
        self._target_square = make(n_targets)
        self._weight: Array = 0.0

    def add(self, features: Array, targets: Array, weights: Array) -> None:
        """One more block: features (b, d), which are used up, targets (b, c) and weights (b,) in float64.

        Features are float32 or float64; products of float32 ones are taken in float32, and summed over blocks in float64.
        """
        xp = namespace(features)
        root = xp.sqrt(weights)
        if is_foreign(features) or not np.all(weights == 1):  # to look at weights would be to wait for their device
            features *= xp.astype(root, features.dtype)[:, None]
        _add_squares(self._gram, features)
        beside = xp.astype(xp.concat([targets * root[:, None], root[:, None]], axis=1), features.dtype)
        self._with_features += features.T @ beside
        self._target_sum += weights @ targets
        self._target_square += weights @ targets**2
        self._weight = self._weight + xp.sum(weights)

    def state(self) -> dict[str, Array]:
        """The sums so far in NumPy arrays, to go on from with :meth:`restore`."""
        return {name: fetch(value) for name, value in vars(self).items()}

    def restore(self, state: dict[str, Array]) -> None:
        """Take over sums of the same sizes."""
        self._weight = float(state["_weight"])
        for name in vars(self).keys() - {"_weight"}:
            sums = getattr(self, name)
            sums[...] = place(state[name], like=sums)

    def moments(self) -> Moments:
        """The sums so far; nothing may be added after that."""
        _mirror(self._gram)
        return Moments(
            gram=self._gram,
            cross=self._with_features[:, :-1],
            feature_sum=self._with_features[:, -1],
            target_sum=self._target_sum,
            target_square=self._target_square,
            weight=float(self._weight),
        )


def _add_squares(gram: Array, features: Array) -> None:
    """Add Phi' Phi for features (b, d) to the lower triangle of a matrix; what becomes of the upper one is left open."""
    if is_foreign(features):
        for start in range(0, features.shape[1], STRIP):
            columns = slice(start, start + STRIP)
            gram[start:, columns] += features[:, start:].T @ features[:, columns]
    else:
        add_squares(gram, features)


def _mirror(matrix: Array) -> None:
    """Copy the lower triangle of a matrix to the upper one, block by block."""
    xp, block = namespace(matrix), STRIP if is_foreign(matrix) else 256
    for start in range(0, len(matrix), block):
        stop = start + block
        square = matrix[start:stop, start:stop]
        square[...] = xp.tril(square) + xp.tril(square, k=-1).T
        matrix[start:stop, stop:] = matrix[stop:, start:stop].T
