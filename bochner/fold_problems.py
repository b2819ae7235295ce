"""The group lasso problem of all rows to fit, and those of all but one part of them.

Whatever the loss, the second moments of the features of every part are summed once, and those of a problem are differences.
With the squared loss they are all there is to know; any other loss goes over the rows, part by part: over features that are
kept, where they fit the memory, and else over features that every pass makes anew, of the kernels that are in alone. Of rows
that are not in memory, their scores and targets are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np

from bochner.arrays import Array, dense
from bochner.engines import fold_moments, forward
from bochner.engines.fold_products import FoldRows, RowNumbers
from bochner.engines.products import TableFeatures, TableRows
from bochner.features import StackedMap
from bochner.folds import FoldedRows, Folds
from bochner.losses import Loss
from bochner.solvers.group_path import MOST_PENALTIES, ElasticGroups, GroupLassoPath, Repeatable, walk_path, with_intercept
from bochner.solvers.groups import Groups
from bochner.solvers.least_squares import LeastSquares
from bochner.solvers.normal_equations import CentredMoments
from bochner.solvers.row_loss import RowLoss
from bochner.solvers.spectra import Spectra
from bochner.span import Span, StackedSpan, few_rows
from bochner.statistics import Moments

ROW_ARRAYS = 16
"""Numbers for each row, output and penalty that a path of a loss of rows holds at a time."""
FIXED_ARRAYS = 2, 6
"""Numbers for each row and output, and for each row, that it holds beside them, and one more for each part predicted."""


@dataclass(frozen=True)
class FoldMoments:
    """The moments of every part of the rows, and of all that are fitted."""

    parts: list[Moments]
    fitted: tuple[int, ...]
    total: Moments

    @classmethod
    def of(cls, parts: list[Moments], fitted: tuple[int, ...]) -> FoldMoments:
        """From those of every part."""
        total = parts[fitted[0]]
        for k in fitted[1:]:
            total = total + parts[k]
        return cls(parts, fitted, total)

    def centred(self, without: int | None) -> CentredMoments:
        """The moments of all rows to fit, or of all but a part."""
        return CentredMoments(self.total, self.parts[without] if without in self.fitted else None)


class FoldProblems:
    """The problems of the squared loss, from the moments of every part, which are summed wherever the rows are.

    Where rows are few, and in memory, ``rows`` (n, D') are kept: the features of all of them, or their coordinates in the
    spans of kernels, of which there are at most ``most`` of each.
    """

    def __init__(self, folds: FoldedRows, feature_map: StackedMap, *, together: bool, most: int | None = None) -> None:
        self.together, self.feature_map = together, feature_map
        self.folds = folds.in_memory
        in_memory = isinstance(folds, Folds)
        self.span = span_of(self.folds, feature_map, most) if in_memory else None
        self.rows = None if self.span is None else self.span.coordinates
        if in_memory and self.rows is None and few_rows(folds.n, feature_map.n_features):
            self.rows = np.concatenate([_features(feature_map, part.X) for part in self.folds.parts])
        self.fitted = tuple(range(folds.n_parts)) if folds.fitted is None else folds.fitted
        self._all_folds = folds
        self._moments: FoldMoments | None = None
        self._whole_spectra: Spectra | None = None

    @property
    def moments(self) -> FoldMoments:
        """Those of all columns; ridge regressions on ``rows`` do without them."""
        if self._moments is None:
            if self.rows is not None:
                parts = self.moments_of(self.rows)
            else:
                parts = [part.on_host() for part in fold_moments(self.feature_map, self._all_folds)]
            self._moments = FoldMoments.of(parts, self.fitted)
        return self._moments

    def scaled_moments(self, used: Array, factors: Array) -> FoldMoments:
        """Those of some columns, a mask (D',), times factors (q, 1); of them alone where those of all are not known yet."""
        if self.rows is not None and self._moments is None:
            return FoldMoments.of(self.moments_of(self.rows[:, used] * factors.T), self.fitted)
        return FoldMoments.of([part.scaled(used, factors) for part in self.moments.parts], self.fitted)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Columns of each kernel: its features, or coordinates of the rows."""
        return self.feature_map.sizes if self.span is None else self.span.sizes

    def expand(self, coef: Array) -> Array:
        """Coefficients of the features (D, ...) from those of a problem."""
        return coef if self.span is None else self.span.expand(coef)

    def split(self, rows: Array) -> list[Array]:
        """The rows of each part."""
        return np.split(rows, np.cumsum([part.n for part in self.folds.parts])[:-1])

    def moments_of(self, rows: Array) -> list[Moments]:
        """The moments of each part, from the features of all rows (n, q)."""
        pairs = zip(self.split(rows), self.folds.parts, strict=True)
        return [Moments.of(some, part.targets, part.weights) for some, part in pairs]

    def centred(self, without: int | None) -> CentredMoments:
        """The moments of all rows to fit, or of all but a part."""
        return self.moments.centred(without)

    def problem(self, without: int | None) -> Repeatable:
        """The problem of all rows to fit, or of all but a part."""
        return LeastSquares.of(self.centred(without), together=self.together)

    @cached_property
    def whole(self) -> Repeatable:
        """The problem of all rows to fit."""
        return self.problem(None)

    def walk(self, without: int | None, penalties: ElasticGroups, alphas: Array, **options: Any) -> Iterator[GroupLassoPath]:
        """The path of that problem, piece by piece."""
        if penalties.l1_ratio == 0:
            return (self._ridge(without, penalties, float(alpha)) for alpha in alphas)  # exact at once
        centred = self.centred(without)
        return (with_intercept(piece, centred) for piece in self._path(without, penalties, alphas, **options))

    def _path(
        self, without: int | None, penalties: ElasticGroups, alphas: Array, **options: Any
    ) -> Iterator[GroupLassoPath]:
        """The path with intercepts as the problem has them."""
        problem = self.whole if without is None else self.problem(without)
        return walk_path(problem, penalties, alphas, spectra=self._spectra(without, penalties.groups), **options)

    def _spectra(self, without: int | None, groups: Groups) -> Spectra:
        """Those of all rows: squares around the mean of some of them sum to no more, so that only their weight differs."""
        if self._whole_spectra is None or self._whole_spectra.groups != groups:
            self._whole_spectra = Spectra(self.whole.matrix, groups)
        return self._whole_spectra.times(self.centred(None).weight / self.centred(without).weight)

    def error(self, part: int, coef: Array, intercept: Array) -> float:
        """The mean loss of one part of the rows, and of all targets."""
        return float(self.errors(part, coef[None], intercept[None])[0])

    def errors(self, part: int, coef: Array, intercept: Array) -> Array:
        """Those of L models, with coefficients (L, D', c) and intercepts (L, c): (L,)."""
        models = list(zip(coef, intercept, strict=True))
        if self.rows is None:
            some = self.moments.parts[part]
            return np.array([some.squared_error(*model).mean() for model in models]) / some.weight
        rows, features = self.folds.parts[part], self.split(self.rows)[part]
        squares = np.stack([np.mean((features @ one + level - rows.targets) ** 2, axis=1) for one, level in models])
        return np.asarray(squares @ rows.weights) / rows.weights.sum()

    def target_mean(self, without: int | None) -> Array:
        """The mean of the targets of all rows to fit, or of all but a part: (c,)."""
        if self.rows is None:
            return self.centred(without).target_mean
        some = [self.folds.parts[k] for k in self.fitted if k != without]
        total = np.sum([part.weights @ part.targets for part in some], axis=0)
        return np.asarray(total / sum(float(part.weights.sum()) for part in some))

    def variance_shares(self, coef: Array) -> Array:
        """cov(f_t, f) / var(f) of the predictions f = sum_t f_t of all rows to fit: (r, c); zeros where f is constant."""
        starts = np.cumsum((0, *self.sizes[:-1]))
        if self.rows is None:
            covariances = np.add.reduceat(coef * (self.centred(None).gram() @ coef), starts, axis=0)
        else:
            parts = zip(np.split(self.rows, starts[1:], axis=1), np.split(coef, starts[1:]), strict=True)
            each = np.stack([rows @ some for rows, some in parts])
            weights = np.concatenate([part.weights * (k in self.fitted) for k, part in enumerate(self.folds.parts)])
            each = each - np.average(each, axis=1, weights=weights)[:, None]
            covariances = np.einsum("tnc,nc,n->tc", each, each.sum(axis=0), weights)
        variance = covariances.sum(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(variance > 0, covariances / variance, 0.0)

    @cached_property
    def _plain(self) -> Ridges:
        return Ridges(self, np.ones(sum(self.sizes)))

    def _ridge(self, without: int | None, penalties: ElasticGroups, alpha: float) -> GroupLassoPath:
        """A piece of a path without a group penalty: ridge regression."""
        coef, intercept = self._plain.model(without, alpha)
        norms = penalties.groups.norms(coef[:, None, :]).transpose(1, 0, 2)
        each = (1, norms.shape[2])
        return GroupLassoPath(
            alphas=np.array([alpha]),
            coef=coef[None],
            intercept=intercept[None],
            norms=norms,
            value=np.full(each, np.nan),
            gap=np.zeros(each),
            converged=np.ones(each, dtype=bool),
            n_iter=1,
        )


class RowProblems(FoldProblems):
    """Those of any other loss, in ``spare`` bytes.

    Features of rows in memory are kept if all of them take no more; of other rows, a path has as many penalties side by
    side as there is room for :func:`row_bytes` of.
    """

    def __init__(
        self,
        folds: FoldedRows,
        feature_map: StackedMap,
        loss: Loss,
        *,
        together: bool,
        spare: float,
        most: int | None = None,
    ) -> None:
        super().__init__(folds, feature_map, together=together, most=most)
        self.loss = loss
        self._most_penalties = MOST_PENALTIES
        if isinstance(folds, Folds):
            self._by_parts: TableRows | FoldRows = TableRows(folds.parts, self._tables(folds, spare))
        else:
            self._by_parts = FoldRows(RowNumbers.of(folds), feature_map)
            fixed, one = (row_bytes(folds.n, folds.n_targets, len(folds.validated), n) for n in (0, 1))
            self._most_penalties = int(np.clip((spare - fixed) / (one - fixed), 1, MOST_PENALTIES))

    def _tables(self, folds: Folds, spare: float) -> list[TableFeatures]:
        """The features of each part, kept if all of them take no more than ``spare`` bytes."""
        kept: Sequence[Array | None] = [None] * len(folds.parts)
        if self.rows is not None:
            kept = self.split(self.rows)
        elif 8.0 * folds.n * self.feature_map.n_features <= spare:
            kept = [_features(self.feature_map, part.X) for part in folds.parts]
        pairs = zip(folds.parts, kept, strict=True)
        return [TableFeatures(self.feature_map, part.X, some) for part, some in pairs]

    def problem(self, without: int | None) -> RowLoss:
        rows, some = self._by_parts, [k for k in self.fitted if k != without]
        numbers = rows.targets(some), rows.weights(some), self.centred(without)
        return RowLoss.of(rows.passes(some), self.loss, *numbers, together=self.together)

    def walk(self, without: int | None, penalties: ElasticGroups, alphas: Array, **options: Any) -> Iterator[GroupLassoPath]:
        return self._path(without, penalties, alphas, most_penalties=self._most_penalties, **options)

    def errors(self, part: int, coef: Array, intercept: Array) -> Array:
        targets, weights = self._by_parts.targets([part]), self._by_parts.weights([part])
        scores = self._by_parts.passes([part]).there(coef.transpose(1, 0, 2).reshape(coef.shape[1], -1))
        scores = scores.reshape(len(targets), *intercept.shape) + intercept
        losses = np.stack([self.loss.values(scores[:, i], targets) for i in range(len(coef))])
        return np.asarray(losses @ weights) / weights.sum()


def row_bytes(n_rows: int, n_outputs: int, n_validated: int, n_penalties: int = 1) -> float:
    """What paths of other losses hold of rows that are not in memory, with so many penalties side by side."""
    for_outputs, for_all = (some + n_validated for some in FIXED_ARRAYS)
    return 8.0 * n_rows * ((ROW_ARRAYS * n_penalties + for_outputs) * n_outputs + for_all)


class Ridges:
    """Ridge regressions on the columns of problems times ``root`` (D',), whatever the penalty and the part left out.

    Columns whose root is zero are out. Where columns outnumber rows, regressions are on coordinates of the rows.
    """

    def __init__(self, problems: FoldProblems, root: Array) -> None:
        self._used, self._root = root > 0, root[root > 0][:, None]
        self._shape = (len(root), problems.folds.n_targets)
        self._span: Span | None = None
        if problems.rows is not None and few_rows(len(problems.rows), len(self._root)):
            self._span = Span.of(problems.rows[:, self._used] * self._root.T)
            self._moments = FoldMoments.of(problems.moments_of(self._span.coordinates), problems.fitted)
        elif np.all(root == 1):
            self._moments = problems.moments
        else:
            self._moments = problems.scaled_moments(self._used, self._root)

    def model(self, without: int | None, alpha: float) -> tuple[Array, Array]:
        """Coefficients (D', c) and intercept (c,)."""
        solution = self._moments.centred(without).solve(alpha)
        coef = np.zeros(self._shape)
        coef[self._used] = self._root * (solution.coef if self._span is None else self._span.expand(solution.coef))
        return coef, solution.intercept


class KernelRidges:
    """Ridge regressions of each target on the kernels that are in for it: on their plain sum, or on one weighted by d_t.

    ``norms`` are the lengths of kernels in a group lasso, zero where they are out: (r, c), or (r, 1) for all c targets.
    """

    def __init__(self, problems: FoldProblems, groups: Groups, norms: Array, *, weighted: bool) -> None:
        relative = norms / np.maximum(norms.max(axis=0), np.finfo(np.float64).tiny)
        roots = np.sqrt(relative) if weighted else (norms > 0).astype(np.float64)
        distinct, which = np.unique(roots, axis=1, return_inverse=True)
        ridges = [Ridges(problems, groups.spread(root)) if root.any() else None for root in distinct.T]
        self._problems, self._n_columns = problems, groups.n_columns
        self._ridges = [ridges[i] for i in which.ravel()]
        """One for each target, or one for all; None where no kernel is in."""

    def model(self, without: int | None, alpha: float) -> tuple[Array, Array]:
        """Coefficients (D', c) and intercept (c,), the mean of targets for which no kernel is in."""
        mean = self._problems.target_mean(without)
        ridges = self._ridges if len(self._ridges) == len(mean) else self._ridges * len(mean)
        fitted = {each: each.model(without, alpha) for each in set(ridges) if each is not None}
        coef, intercept = np.zeros((self._n_columns, len(mean))), mean.copy()
        for target, one in enumerate(ridges):
            if one is not None:
                coef[:, target], intercept[target] = fitted[one][0][:, target], fitted[one][1][target]
        return coef, intercept


def column_counts(feature_map: StackedMap, folds: FoldedRows, most: int | None = None) -> list[int]:
    """Columns of each kernel in the problems of some rows: its features, or coordinates of the rows, at most ``most``."""
    in_memory, n = isinstance(folds, Folds), folds.n
    there = n if most is None else min(n, most)
    return [there if in_memory and few_rows(n, size) else size for size in feature_map.sizes]


def span_of(folds: Folds, feature_map: StackedMap, most: int | None = None) -> StackedSpan | None:
    """Coordinates of all rows in place of the features of kernels that have clearly more of them; None: of no kernel.

    With ``most``, the leading ones.
    """
    if not any(few_rows(folds.n, size) for size in feature_map.sizes):
        return None
    kernels = np.eye(len(feature_map.maps), dtype=bool)
    features = (np.concatenate([_features(feature_map.take(one), part.X) for part in folds.parts]) for one in kernels)
    return StackedSpan.of(features, most)


def _features(feature_map: StackedMap, X: Array) -> Array:
    """Features (n, D), dense and in float64."""
    return cast(Array, dense(forward(feature_map, X)).astype(np.float64, copy=False))
