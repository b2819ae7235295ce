"""What kernels see of views: columns for one kernel on all of them, and one kernel of each view with its width."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from sklearn.metrics.pairwise import additive_chi2_kernel, euclidean_distances

from bochner.arrays import Array
from bochner.kernels import ExponentiatedChi2, Gaussian, Kernel
from bochner.reproduce.protocol import Problem, Views

SAMPLE = 4000
"""Training rows, evenly spread, from which spreads and principal components come."""
WIDTH_ROWS = 200
"""Rows whose distances make the width of a kernel."""
BLOCK = 512
"""Rows of a kernel matrix that are computed at a time."""


@dataclass(frozen=True)
class Columns:
    """From views to the columns of one kernel: roots of histograms (or other values), perhaps rotated and cut.

    Values that are no bins have unit spread in each column, or stay as they are where they share units.

    A Gaussian kernel with one scale for a view sees distances only, so that principal components lose what they leave out
    and nothing else.
    """

    histograms: bool
    spreads: Mapping[str, Array]
    rotations: Mapping[str, Array]
    """(q, k) for each view; empty where columns stay as they are."""

    @classmethod
    def of(cls, problem: Problem, components: int | None) -> Columns:
        """Those of a problem, from a sample of its training rows."""
        index = np.unique(np.linspace(0, problem.train.n - 1, SAMPLE).astype(int))
        spreads, rotations = {}, {}
        for name, table in problem.train.tables.items():
            some = np.asarray(table[index], dtype=np.float64)
            spread = np.ones(some.shape[1]) if problem.histograms or problem.same_units else some.std(axis=0)
            spreads[name] = np.where(spread > 0, spread, 1.0).astype(np.float32)
            if components is not None and components < some.shape[1]:
                values = np.sqrt(some) if problem.histograms else some / spreads[name]
                _, vectors = np.linalg.eigh(np.cov(values, rowvar=False))
                rotations[name] = vectors[:, ::-1][:, :components].astype(np.float32)
        return cls(problem.histograms, spreads, rotations)

    def __call__(self, rows: Views) -> Array:
        """All columns side by side: (n, m) of float32."""
        return np.hstack([self._view(name, np.asarray(table, dtype=np.float32)) for name, table in rows.tables.items()])

    def names(self, rows: Views) -> Array:
        """The name of the view of each column (m,), by which columns share a scale."""
        widths = [self.rotations[name].shape[1] if name in self.rotations else t.shape[1] for name, t in rows.tables.items()]
        return np.repeat(list(rows.tables), widths)

    def _view(self, name: str, table: Array) -> Array:
        values = np.sqrt(table) if self.histograms else table / self.spreads[name]
        return values @ self.rotations[name] if name in self.rotations else values


Distance = Callable[[Array, Array], Array]


def distance_of(problem: Problem) -> Distance:
    """The distance of the kernels of views: chi2 of histograms, or else the squared one of values as they are."""
    return chi2_distance if problem.histograms else squared_distance


def chi2_distance(X: Array, Z: Array) -> Array:
    """sum_i (x_i - z_i)^2 / (x_i + z_i): (n, k)."""
    return np.asarray(-additive_chi2_kernel(X, Z))


def squared_distance(X: Array, Z: Array) -> Array:
    """|x - z|^2: (n, k)."""
    return np.asarray(euclidean_distances(X, Z, squared=True))


def widths_of(rows: Views, distance: Distance) -> dict[str, float]:
    """The mean distance of each view, of pairs out of 200 rows at most."""
    index = np.unique(np.linspace(0, rows.n - 1, WIDTH_ROWS).astype(int))
    found = {}
    for name, table in rows.tables.items():
        some = np.asarray(table[index], dtype=np.float64)
        width = float(distance(some, some).sum() / max(len(some) * (len(some) - 1), 1))
        found[name] = width if width > 0 else 1.0
    return found


def kernels_of(widths: Mapping[str, float], distance: Distance) -> list[tuple[str, Kernel, str]]:
    """exp(-distance / width) for each view, as learners on features take kernels: name, kernel, view."""
    make = ExponentiatedChi2 if distance is chi2_distance else Gaussian
    return [(name, make(scale=float(np.sqrt(2 / width))), name) for name, width in widths.items()]


def roots_of(rows: Views) -> Views:
    """The same rows with roots of bins."""
    return Views({name: np.sqrt(table) for name, table in rows.tables.items()}, rows.worth, rows.groups)


def training_gram(distance: Distance, table: Array, width: float) -> Array:
    """exp(-distance / width) of all pairs of rows; one half is computed, and mirrored."""
    table = np.asarray(table, dtype=np.float64)
    gram = np.empty((len(table), len(table)))
    for start in range(0, len(table), BLOCK):
        stop = min(start + BLOCK, len(table))
        block = np.exp(distance(table[start:stop], table[:stop]) / -width)
        gram[start:stop, :stop] = block
        gram[:stop, start:stop] = block.T
    np.fill_diagonal(gram, 1.0)
    return (gram + gram.T) / 2


def cross_gram(distance: Distance, rows: Array, table: Array, width: float) -> Array:
    """The same of new rows with those of training: (k, n)."""
    return np.exp(distance(np.asarray(rows, dtype=np.float64), np.asarray(table, dtype=np.float64)) / -width)
