"""Accuracy, defined here and nowhere else.

In words: every test segment shows an object of one class (its overlap with that object is 0.5 or more). A learner gives it
a score for every class, and the class of the largest score is its answer. The accuracy of a class is the part of its test
segments with the right answer; *the accuracy* is the mean of that over the classes. Every class counts the same, however
many segments it has, and a guess is right once in as many times as there are classes.

Scores are in units of standardised targets (those of each class have mean zero and spread one over the training rows), so
that rare classes are not at a disadvantage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bochner.arrays import Array
from bochner.errors import InputError


@dataclass(frozen=True)
class Accuracy:
    """The accuracy, and that of each class."""

    mean: float
    classes: tuple[float, ...]

    def plain(self) -> dict[str, float | list[float]]:
        """As it stands in a row, to six digits: beyond them results depend on the order of sums."""
        return {"accuracy": round(self.mean, 6), "class_accuracies": [round(one, 6) for one in self.classes]}


def accuracy_of(labels: Array, scores: Array) -> Accuracy:
    """The accuracy of scores (n, c) for rows of the classes ``labels`` (n,), each of which occurs."""
    labels, scores = np.asarray(labels), np.asarray(scores)
    if scores.ndim != 2 or labels.shape != scores.shape[:1]:
        raise InputError(f"labels must be (n,) and scores (n, c): got {labels.shape} and {scores.shape}.")
    if not np.isfinite(scores).all():
        raise InputError("scores must be finite, got some that are not: take out the rows that have them.")
    counts = np.bincount(labels, minlength=scores.shape[1])
    if len(counts) > scores.shape[1] or counts.min() == 0:
        raise InputError(
            f"every class must have a test row, got {counts.tolist()} of {scores.shape[1]} classes: "
            "give more rows, or leave the others out of scores."
        )
    right = scores.argmax(axis=1) == labels
    shares = np.bincount(labels, weights=right, minlength=scores.shape[1]) / counts
    return Accuracy(float(shares.mean()), tuple(float(share) for share in shares))


def mean_accuracy(found: Sequence[Accuracy]) -> Accuracy:
    """The mean over several learners of one kind, of the accuracy and of that of each class."""
    classes = np.mean([one.classes for one in found], axis=0)
    return Accuracy(float(np.mean([one.mean for one in found])), tuple(float(share) for share in classes))
