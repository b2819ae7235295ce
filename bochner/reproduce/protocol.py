"""Which rows are learned from, validated on and tested on; every departure from the paper, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bochner.arrays import Array

GOOD = 0.5
"""A segment shows an object where their overlap is this or more."""
BACKGROUND = 0.2
"""The part of the weight of all training rows, at most, that those have which show no object."""


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
class Problem:
    """A data set that is ready for the experiments."""

    name: str
    key: str
    classes: tuple[str, ...]
    train: Views
    test: Views
    scores: Array
    """(n,) of the training rows: those of large scores are learned from first."""
    histograms: bool
    """Whether no view has negative values."""
    protocol: Protocol
    seed: int
    departures: tuple[str, ...] = ()
    same_units: bool = False
    """Whether columns of a view, where they are no bins, stay as they are: else each is brought to unit spread."""
    images: Any = None
    """Where images and their segments are, for labellings; None for data that are no images."""

    @cached_property
    def test_labels(self) -> Array:
        """The class of each test row: (n,)."""
        return np.asarray(self.test.worth.argmax(axis=1))

    def chosen(self, n: int) -> Array:
        """Numbers of n training rows (all, if there are fewer) in ascending order: half of them show a class, half none.

        Both halves are taken by score, the largest first; the first is spread equally over the classes, as far as they have
        rows. Where one half has too few rows, the other has more.
        """
        order = np.argsort(-self.scores, kind="stable")
        labels = labels_of(self.train.worth)[order]
        others = order[labels < 0]
        n_others = min(n - n // 2, len(others))
        n_shown = min(n - n_others, len(order) - len(others))
        shown = _spread(order[labels >= 0], labels[labels >= 0], n_shown)
        return np.sort(np.concatenate([shown, others[: n - n_shown]]))

    def training(self, n: int) -> Training:
        """The rows of :meth:`chosen` with their weights and targets, and which of them validate."""
        rows = self.train.take(self.chosen(n))
        weights = balanced_weights(rows.worth)
        mean = np.average(rows.worth, axis=0, weights=weights)
        spread = np.sqrt(np.average((rows.worth - mean) ** 2, axis=0, weights=weights))
        targets = (rows.worth - mean) / np.where(spread > 0, spread, 1.0)
        return Training(rows, targets, weights, self.protocol.held_out, self.seed)


@dataclass(frozen=True)
class Training:
    """Rows to learn from."""

    rows: Views
    targets: Array
    """(n, c): worth of weighted mean zero and spread one for each class."""
    weights: Array
    """(n,): those of :func:`balanced_weights`, for all learners and for what hyper-parameters are chosen by."""
    held_out: float
    """The part of the groups that :meth:`split` holds out."""
    seed: int

    def split(self) -> list[tuple[Array, Array]]:
        """Numbers of rows to fit and to validate, as learners take them: one part of the groups is held out."""
        validated = held_out_groups(self.rows.groups, self.held_out, self.seed)
        return [(np.flatnonzero(~validated), np.flatnonzero(validated))]

    def folds(self, n_folds: int) -> list[tuple[Array, Array]]:
        """The same for parts of about as many groups each, every one of which is held out in turn."""
        names, numbers = np.unique(self.rows.groups, return_inverse=True)
        part = np.empty(len(names), dtype=int)
        part[np.random.default_rng(self.seed).permutation(len(names))] = np.arange(len(names)) * n_folds // len(names)
        return [(np.flatnonzero(part[numbers] != k), np.flatnonzero(part[numbers] == k)) for k in range(n_folds)]


def labels_of(worth: Array, least: float = GOOD) -> Array:
    """The class that each row shows by its worth (n, c): (n,), -1 for rows that show none."""
    return np.where(worth.max(axis=1) >= least, worth.argmax(axis=1), -1)


def balanced_weights(worth: Array, background: float = BACKGROUND) -> Array:
    """Weights (n,) of mean one for rows of worth (n, c): all rows of a class together weigh as the root of their number.

    Where classes have equally many rows, they weigh the same; where one has many more, it counts for more, but not in
    proportion. Rows that show no class have the part ``background`` of the whole, or less, where they are fewer than that.
    """
    labels = labels_of(worth)
    counts = np.bincount(labels + 1, minlength=worth.shape[1] + 1)
    rest = min(background, counts[0] / len(labels))
    roots = np.sqrt(counts[1:])
    parts = np.concatenate([[rest], (1 - rest) * roots / max(roots.sum(), 1.0)])
    weights = (parts / np.maximum(counts, 1))[labels + 1]
    return np.asarray(weights / weights.mean())


def _spread(order: Array, labels: Array, n: int) -> Array:
    """The first n of rows in ``order`` (m,) of classes ``labels`` (m,), equally many of each class as far as they go."""
    counts = np.bincount(labels)
    low, high = 0, len(order)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if np.minimum(counts, middle).sum() <= n else (low, middle - 1)
    ranks = np.empty(len(order), dtype=int)
    for k in range(len(counts)):
        ranks[labels == k] = np.arange(counts[k])
    return np.concatenate([order[ranks < low], order[ranks == low][: n - int(np.minimum(counts, low).sum())]])


def held_out_groups(groups: Array, share: float, seed: int) -> Array:
    """Which rows validate: all those of a random part of the groups, (n,) of bool."""
    names = np.unique(groups)
    n_held_out = min(max(1, round(share * len(names))), len(names) - 1)
    return np.asarray(np.isin(groups, np.random.default_rng(seed).permutation(names)[:n_held_out]))


def rows_to_test(worth: Array, n_per_class: int, seed: int, least: float = GOOD) -> Array:
    """Numbers of the rows to test on, ascending: of those that show a class, at most so many of each, at random."""
    rng = np.random.default_rng(seed)
    labels = labels_of(worth, least)
    parts = [rng.permutation(np.flatnonzero(labels == k))[:n_per_class] for k in range(worth.shape[1])]
    return np.sort(np.concatenate(parts))


def classes_that_occur(train: Array, test: Array, fewest: int, least: float = GOOD) -> Array:
    """Numbers of the classes that enough training rows and enough test rows show, by their worth (n, c) each."""
    enough = [_counts(worth, least) >= fewest for worth in (train, test)]
    return np.flatnonzero(enough[0] & enough[1])


def _counts(worth: Array, least: float) -> Array:
    return np.bincount(labels_of(worth, least) + 1, minlength=worth.shape[1] + 1)[1:]


WEIGHTS = (
    "rows have weights: those that show a class weigh together as the root of their number, and rows that show none "
    f"have {BACKGROUND:.0%} of the whole at most. Both learners of a comparison have the same weights, and hyper-parameters "
    "are chosen by errors of the same weights."
)
"""How rows count, in words."""
COMMON_DEPARTURES = (
    "One set of n training rows serves all classes, half of them segments that show an object (equally many of each class, "
    "as far as they go) and half of them segments that do not, each by the scores of the ranker; the paper chose such a set "
    "for each class. So that frequent classes do not count for all, " + WEIGHTS,
    "Learners regress the overlap of a segment with the objects of each class, brought to mean zero and spread one; all "
    "four use the squared loss, so that each learner on features has the problem of its exact counterpart. The paper's "
    "GMKL has the epsilon-insensitive loss.",
    "The kernel of RFF-SKL and KRR-GD is Gaussian on roots of histograms with one scale for each descriptor, learned for "
    "all classes together. It is learned on parts of the training images, two halves where nothing else is said, each "
    "predicted from the others; the paper has one training and one validation part, which here left too few images to "
    "learn scales on.",
    "The penalty of RFF-GL is chosen on the held-out images, one for all classes. GMKL has the cost C of the same problem "
    "by the paper's equivalence, alpha = sqrt(2) / (C n), and no search of its own. Both end at a duality gap of "
    "0.003 of the objective.",
)
"""Departures from the paper that do not depend on the data."""
