"""What segments are worth: their overlaps with the objects of every class, and which of them to learn a class from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bochner.arrays import Array
from bochner.errors import InputError
from bochner.vision.datasets import Truth
from bochner.vision.pool import SegmentPool

GOOD = 0.5
"""A segment shows an object where their overlap is this or more."""
POOR = 0.25
"""A segment is of something else than a class where its overlap with the objects of that class is less than this."""

WORTHLESS, WHOLE = 0.35, 0.65
"""Overlaps up to which a segment is worth nothing to a class, and from which on it is worth all."""


@dataclass(frozen=True)
class Choice:
    """The segments to learn a class from: numbers of positive and of negative ones, the first of each the best."""

    positives: Array
    negatives: Array

    @property
    def all(self) -> Array:
        """All numbers, in ascending order."""
        return np.sort(np.concatenate([self.positives, self.negatives]))


def object_overlaps(pool: SegmentPool, truth: Truth) -> Array:
    """Overlap of each of s segments with each of k objects: (s, k). Void pixels do not count."""
    objects = truth.objects_of()
    if not objects:
        return np.zeros((pool.n_segments, 0))
    return pool.overlaps(np.stack([mask for _, mask in objects]), truth.void)


def class_overlaps(pool: SegmentPool, truth: Truth, n_classes: int) -> Array:
    """Overlap of each of s segments with that object of each class which it fits best: (s, n_classes), zero without one."""
    best = np.zeros((pool.n_segments, n_classes))
    np.maximum.at(best.T, [index for index, _ in truth.objects_of()], object_overlaps(pool, truth).T)
    return best


def worth_of(overlaps: Array) -> Array:
    """What learners predict of a segment: its overlaps (n, c), from 0 where they are small to 1 where they are large.

    Segments that show a class badly are many, and would count most; how badly they do is not to be learned.
    """
    return np.clip((np.asarray(overlaps) - WORTHLESS) / (WHOLE - WORTHLESS), 0.0, 1.0)


def segment_labels(overlaps: Array, least: float = GOOD) -> Array:
    """The label of each segment from its overlaps (n, c): index of its class plus one, background (0) below ``least``."""
    return np.where(overlaps.max(axis=1) >= least, overlaps.argmax(axis=1) + 1, 0)


def choose_segments(
    overlaps: Array,
    n_per_class: int,
    *,
    scores: Array | None = None,
    good: float = GOOD,
    poor: float = POOR,
    negatives_per_positive: float | None = 1.0,
) -> list[Choice]:
    """For every class, at most ``n_per_class`` of n segments with overlaps (n, c), half of them positive at most.

    Positives (overlap ``good`` or more) of the largest overlap come first. Negatives (less than ``poor``) come in the order
    of ``scores`` (n,), the largest first; None takes the best overlap with an object of any class, so that segments which
    show other objects well come before those that show nothing. There are ``negatives_per_positive`` at most (None: as many
    as there is room for), and equal scores keep the order of the segments.
    """
    overlaps = np.asarray(overlaps)
    worth = overlaps.max(axis=1) if scores is None else np.asarray(scores)
    if n_per_class < 2:
        raise InputError(f"n_per_class must be 2 or more, got {n_per_class}.")
    if not 0 < poor <= good <= 1:
        raise InputError(
            f"0 < poor <= good <= 1 is needed, got poor={poor} and good={good}; give such as poor={POOR}, good={GOOD}."
        )
    if worth.shape != overlaps.shape[:1]:
        raise InputError(f"scores must be one a segment, ({len(overlaps)},): got {worth.shape}.")
    choices = []
    for own in overlaps.T:
        positives = _largest(own, own >= good, n_per_class // 2)
        room = n_per_class - len(positives)
        wanted = room if negatives_per_positive is None else min(room, round(negatives_per_positive * len(positives)))
        choices.append(Choice(positives, _largest(worth, own < poor, wanted)))
    return choices


def _largest(values: Array, among: Array, n: int) -> Array:
    """Numbers of the ``n`` largest of the values in a mask, the largest first."""
    numbers = np.flatnonzero(among)
    return numbers[np.argsort(-values[numbers], kind="stable")[:n]]
