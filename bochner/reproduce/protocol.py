"""Which rows are learned from, validated on and tested on; every departure from the paper, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bochner.arrays import Array

GOOD = 0.5
"""A segment shows an object where their overlap is this or more."""


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """How a data set is used."""

    test_per_class: int
    """Test segments of each class, at most, drawn at random."""
    held_out: float = 0.2
    """The part of the training images on which hyper-parameters are chosen, with all of their segments."""
    fewest: int = 10
    """A class with fewer training or test segments that show it is left out."""


@dataclass(frozen=True)
class Views:
    """Rows of several views: tables (n, q_t) under their names, what rows are worth for each class, and their groups."""

    tables: Mapping[str, Array]
    worth: Array
    """(n, c): overlap of a segment with the best object of each class; one or zero for labelled rows."""
    groups: Array
    """(n,): the number of the image of each segment."""

    @property
    def n(self) -> int:
        """Rows."""
        return len(self.worth)

    def take(self, index: Array) -> Views:
        """Some of the rows."""
        tables = {name: table[index] for name, table in self.tables.items()}
        return Views(tables, self.worth[index], self.groups[index])


@dataclass(frozen=True)
class Preference:
    """In which order rows are taken to learn a class from: numbers of positive and of negative ones, the best first."""

    positives: Array
    negatives: Array

    def best(self, n: int) -> tuple[Array, Array]:
        """At most n rows, half of them positive at most, and no more negative ones than positive ones."""
        positives = self.positives[: n // 2]
        return positives, self.negatives[: len(positives)]


@dataclass(frozen=True)
class Problem:
    """A data set that is ready for the experiments."""

    name: str
    key: str
    classes: tuple[str, ...]
    train: Views
    test: Views
    preferences: Sequence[Preference]
    """One for each class."""
    order: Array
    """All training rows, those first that are taken where positives and as many negatives are not enough."""
    histograms: bool
    """Whether no view has negative values."""
    protocol: Protocol
    seed: int
    departures: tuple[str, ...] = ()
    images: Any = None
    """Where images and their segments are, for labellings; None for data that are no images."""

    @cached_property
    def test_labels(self) -> Array:
        """The class of each test row: (n,)."""
        return np.asarray(self.test.worth.argmax(axis=1))

    def chosen(self, n: int) -> Array:
        """Numbers of n training rows (all, if there are fewer) in ascending order: balanced over classes, the best first.

        The largest number k of rows of each class is taken whose union over the classes has at most n rows; the rest of the
        n is filled in the order of ``order``.
        """
        if n >= self.train.n:
            return np.arange(self.train.n)
        low, high = 0, 2 * self.train.n
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if len(self._union(middle)) <= n else (low, middle - 1)
        union = self._union(low)
        rest = self.order[~np.isin(self.order, union)]
        return np.sort(np.concatenate([union, rest[: n - len(union)]]))

    def _union(self, n_per_class: int) -> Array:
        parts = [part for one in self.preferences for part in one.best(n_per_class)]
        return np.unique(np.concatenate(parts))

    def training(self, n: int) -> Training:
        """The rows of :meth:`chosen` with their targets, and which of them validate."""
        rows = self.train.take(self.chosen(n))
        mean, spread = rows.worth.mean(axis=0), rows.worth.std(axis=0)
        targets = (rows.worth - mean) / np.where(spread > 0, spread, 1.0)
        return Training(rows, targets, held_out_groups(rows.groups, self.protocol.held_out, self.seed))


@dataclass(frozen=True)
class Training:
    """Rows to learn from."""

    rows: Views
    targets: Array
    """(n, c): worth of mean zero and spread one for each class."""
    validated: Array
    """(n,) of bool."""

    @property
    def split(self) -> list[tuple[Array, Array]]:
        """Numbers of rows to fit and to validate, as learners take them."""
        return [(np.flatnonzero(~self.validated), np.flatnonzero(self.validated))]


def held_out_groups(groups: Array, share: float, seed: int) -> Array:
    """Which rows validate: all those of a random part of the groups, (n,) of bool."""
    names = np.unique(groups)
    n_held_out = min(max(1, round(share * len(names))), len(names) - 1)
    return np.asarray(np.isin(groups, np.random.default_rng(seed).permutation(names)[:n_held_out]))


def rows_to_test(worth: Array, n_per_class: int, seed: int, least: float = GOOD) -> Array:
    """Numbers of the rows to test on, ascending: of those that show a class, at most so many of each, at random."""
    rng = np.random.default_rng(seed)
    labels = np.where(worth.max(axis=1) >= least, worth.argmax(axis=1), -1)
    parts = [rng.permutation(np.flatnonzero(labels == k))[:n_per_class] for k in range(worth.shape[1])]
    return np.sort(np.concatenate(parts))


def classes_that_occur(train: Array, test: Array, fewest: int, least: float = GOOD) -> Array:
    """Numbers of the classes that enough training rows and enough test rows show, by their worth (n, c) each."""
    enough = [_counts(worth, least) >= fewest for worth in (train, test)]
    return np.flatnonzero(enough[0] & enough[1])


def _counts(worth: Array, least: float) -> Array:
    labels = worth.argmax(axis=1)[worth.max(axis=1) >= least]
    return np.bincount(labels, minlength=worth.shape[1])


COMMON_DEPARTURES = (
    "One set of n training rows serves all classes; the paper chose a set for each class.",
    "Learners regress the overlap of a segment with the objects of each class, brought to mean zero and spread one; all "
    "four use the squared loss, so that each learner on features has the problem of its exact counterpart. The paper's "
    "GMKL has the epsilon-insensitive loss.",
    "The kernel of RFF-SKL and KRR-GD is Gaussian on roots of histograms with one scale for each descriptor, learned for "
    "all classes together.",
    "The penalty of RFF-GL is chosen on the held-out images, one for all classes. GMKL has the cost C of the same problem "
    "by the paper's equivalence, alpha = sqrt(2) / (C n), and no search of its own.",
)
"""Departures from the paper that do not depend on the data."""
