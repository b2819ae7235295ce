"""The group lasso problem of all rows to fit, and those of all but one part of them.

Whatever the loss, the second moments of the features of every part are summed once, and those of a problem are differences.
With the squared loss they are all there is to know; any other loss goes over the rows, part by part: over features that are
kept, where they fit the memory, and else over features that every pass makes anew, of the kernels that are in alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from bochner.arrays import Array, dense
from bochner.engines import FeaturePasses, forward, moments
from bochner.features import StackedMap
from bochner.folds import Folds
from bochner.losses import Loss
from bochner.solvers.group_path import ElasticGroups, GroupLassoPath, Repeatable, walk_path, with_intercept
from bochner.solvers.least_squares import LeastSquares
from bochner.solvers.normal_equations import CentredMoments
from bochner.solvers.row_loss import ArrayPasses, Passes, RowLoss
from bochner.span import StackedSpan, few_rows
from bochner.statistics import Moments


class FoldProblems:
    """The problems of the squared loss, from the moments of every part."""

    def __init__(self, folds: Folds, feature_map: StackedMap, *, together: bool) -> None:
        self.together = together
        self.folds = folds
        self.span = span_of(folds, feature_map)
        if self.span is None:
            self.parts = [moments(feature_map, part.X, part.targets, part.weights) for part in folds.parts]
        else:
            pairs = zip(self._coordinates(self.span), folds.parts, strict=True)
            self.parts = [Moments.of(some, part.targets, part.weights) for some, part in pairs]
        self.fitted = tuple(range(len(self.parts))) if folds.fitted is None else folds.fitted
        total = self.parts[self.fitted[0]]
        for k in self.fitted[1:]:
            total = total + self.parts[k]
        self.total: Moments = total

    @property
    def sizes(self) -> tuple[int, ...] | None:
        """Coordinates of each kernel; None: its features."""
        return None if self.span is None else self.span.sizes

    def expand(self, coef: Array) -> Array:
        """Coefficients of the features (D, ...) from those of a problem."""
        return coef if self.span is None else self.span.expand(coef)

    def _coordinates(self, span: StackedSpan) -> list[Array]:
        """The coordinates of each part."""
        return np.split(span.coordinates, np.cumsum([part.n for part in self.folds.parts])[:-1])

    def centred(self, without: int | None) -> CentredMoments:
        """The moments of all rows to fit, or of all but a part."""
        left_out = self.parts[without] if without is not None and without in self.fitted else None
        return CentredMoments(self.total, left_out)

    def problem(self, without: int | None) -> Repeatable:
        """The problem of all rows to fit, or of all but a part."""
        return LeastSquares.of(self.centred(without), together=self.together)

    def walk(self, without: int | None, penalties: ElasticGroups, alphas: Array, **options: Any) -> Iterator[GroupLassoPath]:
        """The path of that problem, piece by piece."""
        centred = self.centred(without)
        if penalties.l1_ratio == 0:
            return (_ridge(centred, penalties, alpha) for alpha in alphas)
        return (with_intercept(piece, centred) for piece in walk_path(self.problem(without), penalties, alphas, **options))

    def error(self, part: int, coef: Array, intercept: Array) -> float:
        """The mean loss of one part of the rows."""
        return float(self.parts[part].squared_error(coef, intercept).sum()) / self.parts[part].weight


class RowProblems(FoldProblems):
    """Those of any other loss; features are kept if all of them take at most ``spare`` bytes."""

    def __init__(self, folds: Folds, feature_map: StackedMap, loss: Loss, *, together: bool, spare: float) -> None:
        super().__init__(folds, feature_map, together=together)
        self.loss = loss
        self.passes: list[Passes]
        if self.span is not None:
            self.passes = [ArrayPasses(some) for some in self._coordinates(self.span)]
        elif 8.0 * folds.n * feature_map.n_features <= spare:
            self.passes = [ArrayPasses(_features(feature_map, part.X)) for part in folds.parts]
        else:
            self.passes = [FeaturePasses(feature_map, part.X) for part in folds.parts]

    def problem(self, without: int | None) -> RowLoss:
        some = [k for k in self.fitted if k != without]
        rows = [self.folds.parts[k] for k in some]
        targets, weights = (np.concatenate([getattr(part, name) for part in rows]) for name in ("targets", "weights"))
        passes = PassesInTurn(tuple(self.passes[k] for k in some), tuple(part.n for part in rows))
        return RowLoss.of(passes, self.loss, targets, weights, self.centred(without), together=self.together)

    def walk(self, without: int | None, penalties: ElasticGroups, alphas: Array, **options: Any) -> Iterator[GroupLassoPath]:
        return walk_path(self.problem(without), penalties, alphas, **options)

    def error(self, part: int, coef: Array, intercept: Array) -> float:
        rows = self.folds.parts[part]
        losses = self.loss.values(self.passes[part].there(coef) + intercept, rows.targets)
        return float(rows.weights @ losses) / float(rows.weights.sum())


@dataclass(frozen=True)
class PassesInTurn:
    """Passes over several parts of the rows, one after the other."""

    parts: tuple[Passes, ...]
    sizes: tuple[int, ...]

    def there(self, coef: Array) -> Array:
        """Phi coef for coef (D, k): (n, k)."""
        return np.concatenate([part.there(coef) for part in self.parts])

    def back(self, values: Array) -> Array:
        """Phi' values for values (n, k): (D, k)."""
        pieces = np.split(values, np.cumsum(self.sizes)[:-1])
        return np.sum([part.back(piece) for part, piece in zip(self.parts, pieces, strict=True)], axis=0)

    def columns(self, used: Array) -> PassesInTurn:
        """The same for some of the columns, a mask (D,)."""
        return PassesInTurn(tuple(part.columns(used) for part in self.parts), self.sizes)


def span_of(folds: Folds, feature_map: StackedMap) -> StackedSpan | None:
    """Coordinates of all rows in place of the features of kernels that have clearly more of them; None: of no kernel."""
    if not any(few_rows(folds.n, size) for size in feature_map.sizes):
        return None
    kernels = np.eye(len(feature_map.maps), dtype=bool)
    return StackedSpan.of(
        np.concatenate([_features(feature_map.take(one), part.X) for part in folds.parts]) for one in kernels
    )


def _features(feature_map: StackedMap, X: Array) -> Array:
    """Features (n, D), dense and in float64."""
    return cast(Array, dense(forward(feature_map, X)).astype(np.float64, copy=False))


def _ridge(centred: CentredMoments, penalties: ElasticGroups, alpha: float) -> GroupLassoPath:
    """A piece of a path without a group penalty: ridge regression."""
    solution = centred.solve(float(alpha))
    norms = penalties.groups.norms(solution.coef[:, None, :]).transpose(1, 0, 2)
    each = (1, norms.shape[2])
    return GroupLassoPath(
        alphas=np.array([alpha]),
        coef=solution.coef[None],
        intercept=solution.intercept[None],
        norms=norms,
        value=np.full(each, np.nan),
        gap=np.zeros(each),
        converged=np.ones(each, dtype=bool),
        n_iter=1,
    )
