"""Labels of pixels from learned scores of segments: intersection over union of every class, and pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from bochner.durable import replace_file, write_all
from bochner.reproduce.protocol import GOOD, Views
from bochner.vision.classifier import SegmentClassifier
from bochner.vision.datasets import DataError
from bochner.vision.images import ImageError
from bochner.vision.measures import PixelCounts, paste
from bochner.vision.show import Shown, panels_of, sheet
from bochner.vision.stages import pool_of

PICTURES = "pictures"
"""The folder of sheets beside the rows."""


def label_images(bench: Any, found: Any) -> None:
    """Learn scores from n segments by group lasso, label the test images, and note how well.

    The classifier is that of ``bochner voc train``: a kernel on the roots of each descriptor, with weights for all classes
    together that are learned on held-out images. Images without a mask that can be read are left out.
    """
    problem, options = bench.problem, bench.run.options
    described, columns = problem.images.test, problem.images.classes
    rows = problem.training(bench.run.n).rows
    classifier = SegmentClassifier(n_features=options.n_features, random_state=bench.seed)
    with bench.timing(found, "total"):
        classifier.fit(rows.tables, rows.worth, rows.groups, problem.classes)
        threshold = threshold_of(classifier, problem.train)
    n_classes = len(described.dataset.classes)
    counts = PixelCounts.none(n_classes)
    drawn: dict[str, tuple[Any, ...]] = {}
    n_images = 0
    with bench.timing(found, "predict"):
        for name in described.names[: options.n_images]:
            try:
                truth = described.dataset.truth(name)
            except (DataError, ImageError):
                continue
            pool = pool_of(described.segments, name)
            scores = np.full((pool.n_segments, n_classes), -np.inf)
            scores[:, columns] = classifier.scores(described.descriptors.load(name))
            labels = paste(pool, scores, threshold=threshold)
            counts = counts + PixelCounts.of(truth, labels, n_classes)
            n_images += 1
            if len(drawn) < options.n_pictures:
                drawn[name] = pool, truth, scores, labels
    each = counts.intersection_over_union()
    used = [0, *(int(k) + 1 for k in columns)]
    found.result |= {"n": rows.n, "images": n_images, "classes": ["background", *problem.classes]}
    found.result["intersection_over_union"] = [None if np.isnan(each[k]) else round(float(each[k]), 6) for k in used]
    found.result["mean_intersection_over_union"] = round(counts.mean(), 6)
    found.result["pictures"] = list(drawn)
    pictures = [Shown(name, described.dataset.image(name), *more) for name, more in drawn.items()]
    write_pictures(
        bench.folder / PICTURES, {shown.name: sheet(panels_of(shown, described.dataset.classes)) for shown in pictures}
    )


def threshold_of(classifier: SegmentClassifier, train: Views) -> float:
    """A segment whose best score is above this shows an object: as many of all training segments as do so in truth.

    The classifier's own threshold is for rows like those it learned from, of which more show objects.
    """
    share = float(np.mean(train.worth.max(axis=1) >= GOOD))
    return float(np.quantile(classifier.scores(train.tables).max(axis=1), 1 - share))


def write_pictures(folder: Path, sheets: dict[str, bytes]) -> None:
    """Write the sheets of images, NAME.png each."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in sheets.items():
        replace_file(folder / f"{name}.png", lambda file, data=data: write_all(file, data))  # type: ignore[misc]
