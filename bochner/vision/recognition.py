"""The last three steps on a data set: a classifier of segments is trained, its labels are pasted, and they are measured."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from PIL import Image

from bochner.arrays import Array
from bochner.durable import replace_file, write_all
from bochner.vision.datasets import DataError, ImageSet
from bochner.vision.measures import (
    PixelCounts,
    average_precisions,
    balanced_accuracy,
    good_accuracy,
    paste,
)
from bochner.vision.stages import Folders, pool_of
from bochner.vision.store import Store, configuration_of
from bochner.vision.targets import GOOD, choose_segments, class_overlaps, segment_labels


class Classifier(Protocol):
    """What the steps ask of a classifier of segments. Descriptors are tables (n, q) under their names.

    Its class makes one by ``load(path)`` from a file. It goes to other processes.
    """

    @property
    def threshold(self) -> float:
        """A segment whose score of a class is above this shows that class."""

    def fit(self, descriptors: Mapping[str, Array], overlaps: Array, images: Array, classes: Sequence[str]) -> Any:
        """Learn from n segments with overlaps (n, c) with classes of these names, of images with these numbers (n,)."""

    def scores(self, descriptors: Mapping[str, Array]) -> Array:
        """Scores (n, c) of segments."""

    def save(self, path: Path) -> None:
        """Write the classifier to a file."""


@dataclass(frozen=True)
class TrainingSet:
    """The segments that a classifier learns from, those of all images one after the other."""

    descriptors: Mapping[str, Array]
    """Tables (n, q)."""
    overlaps: Array
    """(n, c)."""
    images: Array
    """The number of the image of each row: (n,)."""


def training_set(
    dataset: ImageSet, names: Sequence[str], segments: Store, descriptors: Store, n_per_class: int | None = None
) -> TrainingSet:
    """The segments of the images that are described: all, or at most so many of a class, half of which show it.

    Only their descriptors are held in memory.
    """
    overlaps = [class_overlaps(pool_of(segments, name), dataset.truth(name), len(dataset.classes)) for name in names]
    used = _used(np.concatenate(overlaps), n_per_class)
    if not len(used):
        raise DataError(
            f"No segment of these {len(names)} images has an overlap of {GOOD} or more: nothing can be learned; "
            "give more images."
        )
    starts = np.cumsum([0, *map(len, overlaps)])
    tables: dict[str, list[Array]] = {}
    for name, first, last in zip(names, starts, starts[1:], strict=False):
        own = used[slice(*np.searchsorted(used, [first, last]))] - first
        if len(own):
            for kind, table in descriptors.load(name).items():
                tables.setdefault(kind, []).append(table[own])
    stacked = {kind: np.concatenate(tables.pop(kind)) for kind in list(tables)}
    images = np.searchsorted(starts, used, side="right") - 1
    return TrainingSet(stacked, np.concatenate(overlaps)[used], images)


def _used(overlaps: Array, n_per_class: int | None) -> Array:
    """Numbers of the segments to learn from, in ascending order; none where no segment shows an object."""
    if n_per_class is None:
        return np.arange(len(overlaps) if overlaps.max(initial=0.0) >= GOOD else 0)
    return np.unique(np.concatenate([choice.all for choice in choose_segments(overlaps, n_per_class)])).astype(np.intp)


@dataclass(frozen=True)
class Predict:
    """The task of the fourth step: scores of segments, and labels of pixels."""

    classifier: Classifier
    segments: Store
    descriptors: Store

    def __call__(self, name: str) -> Mapping[str, Array]:
        pool = pool_of(self.segments, name)
        scores = np.asarray(self.classifier.scores(self.descriptors.load(name)), dtype=np.float32)
        labels = paste(pool, scores, threshold=self.classifier.threshold)
        return {"scores": scores, "labels": labels, "threshold": np.array(self.classifier.threshold)}


def prediction_store(folders: Folders, descriptors: Store, model: str, stale: str = "refuse") -> Store:
    """The store of predictions by the classifier of a key."""
    made_of = configuration_of(step="predict", descriptors=descriptors.key, model=model)
    return Store(folders.predictions, made_of, stale)


def save_labels(path: Path, labels: Array) -> None:
    """Write labels (h, w) as a PNG with the colours of PASCAL VOC."""
    image = Image.fromarray(np.asarray(labels, dtype=np.uint8))
    image.putpalette(colours(256).ravel().tolist())
    buffer = io.BytesIO()
    image.save(buffer, format="PNG")
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, lambda file: write_all(file, buffer.getvalue()))


def colours(n: int) -> Array:
    """The colours (n, 3) of labels: the bits of a label, three at a time, fill red, green and blue from the top."""
    labels = np.arange(n)
    found = np.zeros((n, 3), dtype=np.uint8)
    for digit in range(8):
        for channel in range(3):
            found[:, channel] |= (((labels >> (3 * digit + channel)) & 1) << (7 - digit)).astype(np.uint8)
    return found


@dataclass(frozen=True)
class Evaluation:
    """Measures of predictions on a set of images."""

    classes: tuple[str, ...]
    n_images: int
    average_precisions: Array
    """(c,): NaN for a class that no segment shows."""
    intersection_over_union: Array
    """(c + 1,): background first."""
    balanced_accuracy: float
    good_accuracy: float

    def summary(self) -> dict[str, float]:
        """One number a measure."""
        return {
            "mean average precision": _mean(self.average_precisions),
            "balanced accuracy": self.balanced_accuracy,
            "accuracy on good segments": self.good_accuracy,
            "mean intersection over union": _mean(self.intersection_over_union),
        }

    def table(self) -> list[tuple[str, float, float]]:
        """Average precision and intersection over union of background and every class."""
        precisions = [float("nan"), *self.average_precisions]
        names = ("background", *self.classes)
        return [
            (name, float(p), float(i)) for name, p, i in zip(names, precisions, self.intersection_over_union, strict=True)
        ]

    def plain(self) -> dict[str, Any]:
        """All measures as plain values, None where there is no number."""
        rows = {
            name: {"average precision": _plain(precision), "intersection over union": _plain(overlap)}
            for name, precision, overlap in self.table()
        }
        return {"images": self.n_images, **{k: _plain(v) for k, v in self.summary().items()}, "classes": rows}


def evaluate(dataset: ImageSet, names: Sequence[str], segments: Store, predictions: Store) -> Evaluation:
    """Measure the predictions of images with masks."""
    n_classes = len(dataset.classes)
    counts = PixelCounts.none(n_classes)
    overlaps, scores, given = [], [], []
    for name in names:
        truth, found = dataset.truth(name), predictions.load(name)
        overlaps.append(class_overlaps(pool_of(segments, name), truth, n_classes))
        scores.append(found["scores"])
        best = found["scores"].max(axis=1, initial=-np.inf)
        given.append(np.where(best > found["threshold"], found["scores"].argmax(axis=1) + 1, 0))
        counts = counts + PixelCounts.of(truth, found["labels"], n_classes)
    all_overlaps, all_scores = np.concatenate(overlaps), np.concatenate(scores)
    return Evaluation(
        dataset.classes,
        len(names),
        average_precisions(all_overlaps >= GOOD, all_scores),
        counts.intersection_over_union(),
        balanced_accuracy(segment_labels(all_overlaps), np.concatenate(given)),
        good_accuracy(all_overlaps, all_scores.argmax(axis=1) + 1),
    )


def _mean(values: Array) -> float:
    return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")


def _plain(value: float) -> float | None:
    return value if np.isfinite(value) else None
