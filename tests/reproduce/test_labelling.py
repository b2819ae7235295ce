"""Labels of test images: what is counted and drawn, and images without a mask."""

from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from bochner.reproduce.options import Labelling
from bochner.reproduce.protocol import Views

pytest.importorskip("cv2")

from bochner.reproduce import labelling
from bochner.vision.datasets import DataError, Truth
from bochner.vision.pool import SegmentPool

CLASSES = ("cat", "dog", "cow")
NAMES = ("lost", "left", "right")


class Scores:
    """Knows the class of each segment; the data set's second class is none of the problem's."""

    def __init__(self, **options):
        self.options = options

    def fit(self, tables, worth, groups, classes):
        assert classes == ("cat", "cow")

    def scores(self, descriptors):
        return descriptors["told"]


class Images:
    """Images of two halves, the left of which is a cat and the right a cow; the first has no mask."""

    classes = CLASSES

    def truth(self, name):
        if name == "lost":
            raise DataError("lost.png: this mask is missing.")
        classes = np.repeat([[1, 3]], 5, axis=1).repeat(8, axis=0).astype(np.uint8)
        return Truth(classes, classes.astype(np.int32), np.zeros(classes.shape, dtype=bool))

    def image(self, name):
        return np.full((8, 10, 3), 90, dtype=np.uint8)


def bench(folder, monkeypatch, **options):
    halves = np.repeat([[0, 1]], 5, axis=1).repeat(8, axis=0)
    monkeypatch.setattr(labelling, "SegmentClassifier", Scores)
    monkeypatch.setattr(labelling, "pool_of", lambda store, name: SegmentPool(halves, np.eye(2, dtype=bool)))
    told = SimpleNamespace(load=lambda name: {"told": np.array([[0.9, 0.1], [0.2, 0.8 if name == "left" else 0.1]])})
    described = SimpleNamespace(dataset=Images(), segments=None, descriptors=told, names=NAMES)
    train = Views({"told": np.linspace(0, 1, 8).reshape(4, 2)}, np.array([[0.9, 0.0]] * 3 + [[0.1, 0.1]]), np.arange(4))
    problem = SimpleNamespace(
        images=SimpleNamespace(test=described, classes=np.array([0, 2])),
        train=train,
        training=lambda n: SimpleNamespace(rows=train),
        classes=("cat", "cow"),
    )
    run = SimpleNamespace(n=4, options=Labelling(**options))
    return SimpleNamespace(problem=problem, run=run, seed=0, folder=folder, timing=lambda found, name: nullcontext())


def test_images_without_a_mask_are_neither_counted_nor_drawn(tmp_path, monkeypatch):
    found = SimpleNamespace(result={})
    labelling.label_images(bench(tmp_path, monkeypatch), found)
    assert found.result["images"] == 2
    assert found.result["pictures"] == ["left", "right"]
    assert {path.stem for path in (tmp_path / "pictures").glob("*.png")} == {"left", "right"}
    # cats are found in both; the cow of the second is background, as its score is no larger than the threshold
    assert found.result["classes"] == ["background", "cat", "cow"]
    assert found.result["intersection_over_union"] == [0.0, 1.0, 0.5]


def test_few_images_and_pictures(tmp_path, monkeypatch):
    found = SimpleNamespace(result={})
    labelling.label_images(bench(tmp_path, monkeypatch, n_images=2, n_pictures=0), found)
    assert found.result["images"] == 1
    assert found.result["pictures"] == []
    assert found.result["intersection_over_union"] == [None, 1.0, 1.0]
