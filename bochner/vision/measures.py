"""How well segments are recognised: average precision, balanced accuracy, and intersection over union of pixels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bochner.arrays import Array
from bochner.errors import InputError
from bochner.vision.datasets import Truth
from bochner.vision.pool import SegmentPool
from bochner.vision.targets import GOOD, segment_labels

COVERED = 0.5
"""A segment is left out where this part of it is under better ones, or more."""


def average_precision(relevant: Array, scores: Array) -> float:
    """sum_k (R_k - R_(k-1)) P_k over the thresholds: P_k and R_k are precision and recall of what scores as much or more.

    ``relevant`` (n,) is true where a segment shows the class; NaN where none does.
    """
    relevant, scores = np.asarray(relevant, dtype=bool), np.asarray(scores, dtype=np.float64)
    if relevant.shape != scores.shape or relevant.ndim != 1:
        raise InputError(f"relevant and scores must be (n,): got {relevant.shape} and {scores.shape}.")
    if not np.isfinite(scores).all():
        raise InputError("scores must be finite, got some that are not: take out the segments that have them.")
    if not relevant.any():
        return float("nan")
    order = np.argsort(-scores, kind="stable")
    lasts = np.append(np.flatnonzero(np.diff(scores[order])), len(scores) - 1)
    hits = np.cumsum(relevant[order])[lasts]
    return float(np.diff(hits, prepend=0) @ (hits / (lasts + 1)) / hits[-1])


def average_precisions(relevant: Array, scores: Array) -> Array:
    """Average precision of each of c classes (c,), from (n, c) each."""
    pairs = zip(np.asarray(relevant).T, np.asarray(scores).T, strict=True)
    return np.array([average_precision(own, theirs) for own, theirs in pairs])


def mean_average_precision(relevant: Array, scores: Array) -> float:
    """The mean of average precision over the classes that some segment shows; NaN without any."""
    each = average_precisions(relevant, scores)
    return float(np.nanmean(each)) if np.isfinite(each).any() else float("nan")


def balanced_accuracy(labels: Array, predicted: Array) -> float:
    """Mean over the labels that occur, background among them, of the part of their segments that is predicted right."""
    labels, predicted = np.asarray(labels), np.asarray(predicted)
    if labels.shape != predicted.shape or not labels.size:
        raise InputError(f"labels and predicted must be (n,), n > 0: got {labels.shape} and {predicted.shape}.")
    return float(np.mean([np.mean(predicted[labels == label] == label) for label in np.unique(labels)]))


def good_accuracy(overlaps: Array, predicted: Array, least: float = GOOD) -> float:
    """Of the segments with overlap ``least`` or more, the part whose predicted label (n,) is theirs; NaN without any."""
    labels = segment_labels(overlaps, least)
    good = labels > 0
    return float(np.mean(np.asarray(predicted)[good] == labels[good])) if good.any() else float("nan")


@dataclass(frozen=True)
class PixelCounts:
    """How many pixels of each label were given each label; void ones do not count. Those of images add up."""

    counts: Array
    """(c + 1, c + 1) of int64: row, the true label; column, the given one; 0 is background."""

    @classmethod
    def none(cls, n_classes: int) -> PixelCounts:
        """Those of no image."""
        return cls(np.zeros((n_classes + 1, n_classes + 1), dtype=np.int64))

    @classmethod
    def of(cls, truth: Truth, labels: Array, n_classes: int) -> PixelCounts:
        """Those of one image that was given labels (h, w)."""
        if labels.shape != truth.classes.shape:
            raise InputError(f"labels must be as large as the image, {truth.classes.shape}: got {labels.shape}.")
        if labels.size and int(labels.max()) > n_classes:
            raise InputError(
                f"labels must lie between 0 and {n_classes}: got {labels.max()}; "
                f"give n_classes={labels.max()}, or other labels."
            )
        true, given = (some[~truth.void].astype(np.int64) for some in (truth.classes, labels))
        n = n_classes + 1
        return cls(np.bincount(true * n + given, minlength=n * n).reshape(n, n))

    def __add__(self, other: PixelCounts) -> PixelCounts:
        return PixelCounts(self.counts + other.counts)

    def intersection_over_union(self) -> Array:
        """(c + 1,): background and every class; NaN where neither the truth nor the labels have it."""
        both = np.diag(self.counts)
        union = self.counts.sum(axis=0) + self.counts.sum(axis=1) - both
        return np.where(union > 0, both / np.maximum(union, 1), np.nan)

    def mean(self) -> float:
        """The mean over background and all classes that occur."""
        return float(np.nanmean(self.intersection_over_union())) if self.counts.any() else float("nan")


def paste(
    pool: SegmentPool, scores: Array, *, threshold: float = 0.0, most: int | None = None, covered: float = COVERED
) -> Array:
    """Labels (h, w) of uint8 of an image from the scores (s, c) of its segments: better segments lie on top.

    Segments go in the order of their best score, down to ``threshold`` (those must be above it) and ``most`` of them; one of
    which the part ``covered`` or more is taken is left out. A pixel without a segment is background, 0.
    """
    scores = np.asarray(scores, dtype=np.float64)
    if scores.ndim != 2 or len(scores) != pool.n_segments:
        raise InputError(f"scores must be ({pool.n_segments}, c): got {scores.shape}.")
    sizes, areas = pool.sizes(), pool.areas()
    given = np.zeros(pool.n_superpixels, dtype=np.uint8)
    if not scores.size:
        return given[pool.labels]
    best, labels = scores.max(axis=1), scores.argmax(axis=1) + 1
    n_pasted = 0
    for i in np.argsort(-best, kind="stable"):
        if not best[i] > threshold or n_pasted == most:
            break
        free = pool.members[i] & (given == 0)
        if areas[i] and areas[i] - sizes[free].sum() < covered * areas[i]:
            given[free] = labels[i]
            n_pasted += 1
    return given[pool.labels]
