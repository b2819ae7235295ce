"""For each class, the images in which it was labelled best and worst, as a contact sheet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bochner.arrays import Array
from bochner.vision.datasets import DataError, ImageSet
from bochner.vision.images import ImageError
from bochner.vision.measures import PixelCounts
from bochner.vision.show import COLUMNS, Panel, tinted

EACH = COLUMNS // 2
"""How many of the best and of the worst, in a row of panels each."""


@dataclass(frozen=True)
class Rated:
    """An image that shows a class, and the intersection over union of the class in it."""

    name: str
    overlap: float


def rated_images(dataset: ImageSet, labels: Mapping[str, Array]) -> dict[str, list[Rated]]:
    """Of images with labels, those that show each class in truth, the best labelled first.

    Images without a mask that can be read are left out, and so are classes that none shows.
    """
    rated: dict[str, list[Rated]] = {}
    for name, given in labels.items():
        try:
            truth = dataset.truth(name)
        except (DataError, ImageError):
            continue
        overlaps = PixelCounts.of(truth, given, len(dataset.classes)).intersection_over_union()
        for label in np.unique(truth.classes[(truth.classes > 0) & ~truth.void]).tolist():
            rated.setdefault(dataset.classes[label - 1], []).append(Rated(name, float(overlaps[label])))
    order = [one for one in dataset.classes if one in rated]
    return {one: sorted(rated[one], key=lambda some: -some.overlap) for one in order}


def class_panels(dataset: ImageSet, shown: str, rated: Sequence[Rated], labels: Mapping[str, Array]) -> list[Panel]:
    """Truth and labels of the best images of the class ``shown``, then of the worst; none twice."""
    best = rated[:EACH]
    worst = rated[max(EACH, len(rated) - EACH) :]
    panels = []
    for some in (*best, *worst):
        image = dataset.image(some.name)
        panels.append(Panel(tinted(image, dataset.truth(some.name).classes), f"{shown}, {some.name}: truth"))
        panels.append(Panel(tinted(image, labels[some.name]), f"labels, IoU {some.overlap:.2f}"))
    return panels
