"""Multiple-kernel learning in rounds: all kernels, those that are in with more features, one kernel in place of a sum."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from bochner.arrays import Array
from bochner.errors import NotEnoughMemoryError
from bochner.estimators.dictionary import fine_features, joint_features
from bochner.features import FeatureChoices, FeatureMap, StackedMap, build_map
from bochner.features.stacked import consecutive
from bochner.fold_problems import column_counts
from bochner.folds import FoldedRows
from bochner.kernels import Kernel
from bochner.losses import Loss
from bochner.memory import as_bytes, readable
from bochner.multiple_kernel import (
    LearnedWeights,
    fine_bytes,
    fit_jointly,
    learn_weights,
    matrix_bytes,
    refit_finely,
    refit_jointly,
)
from bochner.progress import PathLine
from bochner.streamed import PassKeeper
from bochner.weight_search import WeightChoices


@dataclass(frozen=True)
class Round:
    """What was learned, and the random features that it was learned on."""

    learned: LearnedWeights
    feature_map: StackedMap
    widened: bool = False
    """Whether it is of one kernel of columns that group lasso has not chosen."""

    @property
    def is_in(self) -> Array:
        """Which kernels count, for some target at least: a mask (r,)."""
        return np.any(self.learned.norms > 0, axis=1)


@dataclass(frozen=True, kw_only=True)
class Rounds:
    """Rounds of learning from the same rows, which have the columns of all kernels side by side."""

    folds: FoldedRows
    kernels: Sequence[Kernel]
    names: Sequence[str]
    widths: Sequence[int]
    """The number of columns of each kernel."""
    choices: WeightChoices
    loss: Loss | None
    """None: the squared one."""
    sampling: str
    max_memory: Any
    verbose: int
    rng: np.random.Generator
    keeper: PassKeeper
    """Keeps the sums of passes, each under the name of its round."""

    @cached_property
    def columns(self) -> tuple[slice, ...]:
        """The columns of each kernel."""
        return consecutive(list(self.widths))

    def learn(self, sizes: Array, turn: int = 1) -> Round:
        """The weights of kernels, each with so many features (r,); those without features are out. ``turn`` is told."""
        has_some = sizes > 0
        feature_map = self._stacked_map(sizes)
        counts = np.zeros(len(self.kernels), dtype=int)
        counts[has_some] = column_counts(feature_map, self.folds, self.choices.n_coordinates)
        refuse_beyond_memory(counts.tolist(), self.folds.n_parts, self.names, self.max_memory)
        choices = replace(self.choices, weights=self.choices.weights[has_some])
        line = closing(PathLine(choices.n_paths, turn)) if self.verbose else nullcontext()
        with self.keeper.asking(f"round {turn}"), line as callback:
            learned = learn_weights(
                self.folds, feature_map, choices, loss=self.loss, max_memory=as_bytes(self.max_memory), callback=callback
            )
        return Round(learned.among(has_some), feature_map)

    def skip(self, sizes: Array) -> None:
        """Draw the features of a round that need not be learned from again, so that chance goes on as it did."""
        self._stacked_map(sizes)

    def can_join(self, is_in: Array) -> bool:
        """Whether some kernels, by a mask (r,), are radial and differ in their scales alone: one can take their place."""
        some = [self.kernels[t] for t in np.flatnonzero(is_in).tolist()]
        return all(kernel.geometry == "radial" and _alike(kernel, some[0]) for kernel in some)

    def join(self, before: Round, size: int | None = None) -> Round:
        """Ridge regression on one kernel of the columns of all kernels that are in, which must be such as can be joined.

        It has ``size`` features, by default as many as all of them had.
        """
        if size is None:
            places = [self.columns[t] for t in np.flatnonzero(before.is_in).tolist()]
            each = zip(before.feature_map.columns, before.feature_map.sizes, strict=True)
            size = joint_features([size for place, size in each if place in places], self.folds.n_to_fit)
        feature_map = self._joint_map(before.is_in, size)
        with self.keeper.asking("joint"):
            return Round(refit_jointly(before.learned, self.folds, feature_map, self.choices), feature_map)

    def widen(self, before: Round, is_in: Array, size: int) -> Round:
        """The same of any kernels, a mask (r,), whether they are in or not."""
        feature_map = self._joint_map(is_in, size)
        with self.keeper.asking("wide"):
            learned = fit_jointly(before.learned, self.folds, feature_map, self.choices, is_in)
        return Round(learned, feature_map, widened=True)

    def refine(self, before: Round, worth: float) -> Round:
        """The last ridge regression once more where rows are few, on features that make it next to exact.

        As before where they are many, where features are not ``worth`` times as many, or where held-out rows are
        predicted no better.
        """
        rows, is_joint = self.folds.in_memory, before.learned.chosen.refit == "joint"
        n_kernels, n_sets = (1, 1) if is_joint else (int(before.is_in.sum()), before.learned.norms.shape[1])
        room = as_bytes(self.max_memory) - fine_bytes(rows.n, rows.n_parts, n_sets)
        size = fine_features(n_kernels, self.folds.n, room, n_sets)
        if rows.n < self.folds.n or size < worth * max(before.feature_map.sizes):
            return before
        if is_joint:
            after = self.widen(before, before.is_in, size) if before.widened else self.join(before, size)
            return after if after.learned.chosen.error < before.learned.chosen.error else before
        feature_map = self._stacked_map(np.where(before.is_in, size, 0))
        learned = refit_finely(before.learned, rows, feature_map, self.choices)
        return before if learned is None else Round(learned, feature_map)

    def _stacked_map(self, sizes: Array) -> StackedMap:
        """Random features of every kernel, so many (r,), side by side; those of size zero are left out."""
        each = zip(self.kernels, self.widths, self.columns, sizes.tolist(), strict=True)
        used = [(self._map(kernel, width, size), columns) for kernel, width, columns, size in each if size]
        maps, columns = zip(*used, strict=True)
        return StackedMap(maps, columns)

    def _joint_map(self, is_in: Array, size: int) -> StackedMap:
        """So many features of one kernel of the columns of some kernels, a mask (r,)."""
        some = np.flatnonzero(is_in).tolist()
        scale = np.concatenate([self.kernels[t].scales(self.widths[t]) for t in some])
        kernel = self.kernels[some[0]].replace(scale=scale / len(some) ** 0.5)  # squares of distances add up
        columns = np.concatenate([np.arange(self.columns[t].start, self.columns[t].stop) for t in some])
        return StackedMap((self._map(kernel, len(columns), size),), (columns,))

    def _map(self, kernel: Kernel, width: int, size: int) -> FeatureMap:
        """Features of one kernel: so many, unless it is additive and has a number of its own."""
        random = kernel.geometry != "additive"
        choices = FeatureChoices(n_features=size, sampling=self.sampling) if random else FeatureChoices()
        return build_map(kernel, width, choices, self.rng)


def refuse_beyond_memory(counts: Sequence[int], n_parts: int, names: Sequence[str], max_memory: Any) -> None:
    """Refuse more features of kernels than matrices of all their pairs have room for, and say with which it happens."""
    totals, there = np.cumsum(counts), as_bytes(max_memory)
    over = np.flatnonzero([matrix_bytes(int(total), n_parts) > there for total in totals])
    if len(over):
        most = int((there / matrix_bytes(1, n_parts)) ** 0.5) // len(totals) // 2 * 2
        advice = f"Use at most n_features={most} for each kernel" if most else "Not even two features of each fit: use"
        raise NotEnoughMemoryError(
            f"The {totals[-1]} features of {len(totals)} kernels need about "
            f"{readable(matrix_bytes(int(totals[-1]), n_parts))} for matrices of all their pairs, and max_memory is "
            f"{readable(there)}: there is no room from kernel {names[over[0]]!r} on. "
            f"{advice}{',' if most else ''} fewer kernels, fewer folds, or raise max_memory."
        )


def _alike(one: Kernel, two: Kernel) -> bool:
    """Whether two kernels differ in their scales alone."""
    return one.replace(scale=1.0) == two.replace(scale=1.0)
