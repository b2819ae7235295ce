"""Coordinates of rows in the span of their own features, where there are clearly fewer rows than features."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg
from scipy.linalg import lapack

from bochner.arrays import Array
from bochner.solvers.normal_equations import factorise_fresh
from bochner.tiled import add_squares

ROUNDING = float(np.finfo(np.float64).eps)
FEW_ROWS = 1.2
"""Work in the span of the rows where there are this many times more features than rows."""


@dataclass(frozen=True)
class Span:
    """The span of the rows of a feature matrix Phi (n, d), for n clearly below d: L (n, r) with L L' = Phi Phi'.

    Ridge coefficients lie in the span, so nothing is lost by regressing on the rows of L instead of those of Phi = L Q'.
    Rows that are the same, but for what is lost beside the largest feature, share their coordinates, and rows that are a
    combination of others, but for rounding, have no coordinate of their own, so that r may be less than n.
    """

    features: Array
    """Of the rows that have a coordinate of their own: (r, d)."""
    coordinates: Array
    """Those of all rows: (n, r)."""
    triangle: Array
    """Those of the former rows: (r, r)."""

    @classmethod
    def of(cls, features: Array) -> Span:
        """The span of all rows of Phi."""
        features = np.asarray(features, dtype=np.float64)
        largest = np.abs(features).max(initial=0.0)
        rounded = (features + largest) - largest
        if len(np.unique(rounded.sum(axis=1))) == len(features):  # no two rows are the same
            return cls._of_different(features)
        _, first, which = np.unique(rounded, axis=0, return_index=True, return_inverse=True)
        own = np.sort(first)
        different = cls._of_different(features[own])
        return replace(different, coordinates=different.coordinates[np.searchsorted(own, first[which.ravel()])])

    @classmethod
    def _of_different(cls, features: Array) -> Span:
        """That of rows of which no two are the same: they take turns, those first that the others say least about.

        A pivot that is nothing but rounding would be a coordinate that coefficients of the features cannot see.
        """
        gram = _products(features)
        factor = factorise_fresh(lambda: gram.copy(order="F"), 0.0)
        triangle, largest = np.asarray(np.tril(factor.triangle)), float(gram.diagonal().max())
        rounding = ROUNDING * len(gram) * largest
        if largest == 0 or (factor.jitter == 0 and triangle.diagonal().min() ** 2 > rounding):
            return cls(features, triangle, triangle)
        pivoted, order, rank, _ = lapack.dpstrf(gram, tol=rounding, lower=1)
        own, coordinates = order[:rank] - 1, np.empty((len(gram), rank))
        coordinates[order - 1] = np.tril(pivoted)[:, :rank]
        return cls(features[own], coordinates, coordinates[own])

    def expand(self, coef: Array) -> Array:
        """Coefficients of the features, Q coef: (d, c), from those of the coordinates (r, c)."""
        return self.features.T @ self._weights(coef)

    def reduce(self, coef: Array) -> Array:
        """Coefficients of the coordinates, Q' coef: (r, c), from those of the features (d, c)."""
        return linalg.solve_triangular(self.triangle, self.features @ coef, lower=True, check_finite=False)

    def expand_gradient(self, slopes: Array) -> Array:
        """A gradient in the features, slopes Q': (k, d), from one in the coordinates (k, r)."""
        return self._weights(slopes.T).T @ self.features

    def _weights(self, coef: Array) -> Array:
        """Weights of the rows that make up coefficients: (r, c)."""
        return linalg.solve_triangular(self.triangle, coef, lower=True, trans=1, check_finite=False)


def _products(features: Array) -> Array:
    """Phi Phi' (n, n) of features (n, d): its lower triangle."""
    gram = np.zeros((len(features), len(features)), order="F")
    add_squares(gram, features.T)
    return gram


@dataclass(frozen=True)
class LeadingSpan:
    """The first q principal directions of that span: with Phi Phi' = U S U', the coordinates U_q S_q^(1/2) (n, q).

    Regressing on them is regressing on the features with coefficients in these directions; the others are left out.
    """

    features: Array
    coordinates: Array
    weights: Array
    """U_q S_q^(-1/2), the weights of the rows that make up each direction: (n, q)."""

    @classmethod
    def of(cls, features: Array, most: int) -> LeadingSpan:
        """At most so many directions, without those that are nothing but rounding."""
        features = np.asarray(features, dtype=np.float64)
        gram, n = _products(features), len(features)
        values, vectors = linalg.eigh(gram, subset_by_index=(n - most, n - 1), check_finite=False)
        some = values > ROUNDING * n * values[-1]
        roots, vectors = np.sqrt(values[some]), vectors[:, some]
        return cls(features, vectors * roots, vectors / roots)

    def expand(self, coef: Array) -> Array:
        """Coefficients of the features: (d, c), from those of the coordinates (q, c)."""
        return self.features.T @ (self.weights @ coef)


@dataclass(frozen=True)
class StackedSpan:
    """Features of several groups side by side, with coordinates instead where a group has clearly more features than rows.

    The lengths of a group's coefficients are the same in both.
    """

    coordinates: Array
    """(n, D')."""
    spans: tuple[Span | LeadingSpan | None, ...]
    """None: a group that is left as it is."""
    sizes: tuple[int, ...]
    """Columns of each group among the D'."""

    @classmethod
    def of(cls, features: Iterable[Array], most: int | None = None) -> StackedSpan:
        """From the features (n, q) of one group after the other; with ``most``, at most so many coordinates of each."""
        columns: list[Array] = []
        spans: list[Span | LeadingSpan | None] = []
        for some in features:
            spans.append(_span(some, most) if few_rows(*some.shape) else None)
            last = spans[-1]
            columns.append(some if last is None else last.coordinates)
        return cls(np.hstack(columns), tuple(spans), tuple(some.shape[1] for some in columns))

    def expand(self, coef: Array) -> Array:
        """Coefficients of the features (D, ...) from those of the coordinates (D', ...)."""
        parts = zip(self.spans, np.split(coef, np.cumsum(self.sizes)[:-1]), strict=True)
        return np.concatenate([_expanded(span, some) for span, some in parts])


def _span(features: Array, most: int | None) -> Span | LeadingSpan:
    """All coordinates of rows, or the leading ones."""
    return Span.of(features) if most is None or most >= len(features) else LeadingSpan.of(features, most)


def _expanded(span: Span | LeadingSpan | None, coef: Array) -> Array:
    if span is None:
        return coef
    return span.expand(coef.reshape(len(coef), -1)).reshape(-1, *coef.shape[1:])


def few_rows(n_rows: int, n_features: int) -> bool:
    """Whether there are so few rows that their coordinates in their span are clearly shorter than their features."""
    return FEW_ROWS * n_rows <= n_features
