"""The best and the worst images of every class."""

import numpy as np
import pytest

from bochner.vision.best_and_worst import EACH, Rated, class_panels, rated_images
from bochner.vision.datasets import VOCDataset
from tests.vision.trees import voc_tree


@pytest.fixture
def dataset(tmp_path):
    pictures = {f"red{k}": [(1, 5, 5, 30, 30)] for k in range(6)} | {"green": [(2, 4, 4, 20, 25)], "empty": []}
    return VOCDataset(voc_tree(tmp_path, pictures))


def test_images_are_ordered_by_the_overlap_of_the_class(dataset):
    labels = {}
    for k, name in enumerate(dataset.names):
        truth = dataset.truth(name)
        labels[name] = np.where(truth.void, 0, truth.classes).astype(np.uint8)
        labels[name][:, : 5 + 3 * k] = 0  # the later ones lose more of their object
    rated = rated_images(dataset, labels)
    assert list(rated) == ["aeroplane", "bicycle"]  # of the classes that are there, in their order
    reds = rated["aeroplane"]
    assert [some.name for some in reds] == [f"red{k}" for k in range(6)]
    assert reds[0].overlap == 1.0
    truth = dataset.truth("red3").classes == 1
    given = labels["red3"] == 1
    assert reds[3].overlap == pytest.approx((truth & given).sum() / truth.sum())
    panels = class_panels(dataset, "aeroplane", reds, labels)
    assert [panel.caption for panel in panels[::2]] == [f"aeroplane, red{k}: truth" for k in (0, 1, 4, 5)]
    assert [panel.caption for panel in panels[1::2]] == [f"labels, IoU {reds[k].overlap:.2f}" for k in (0, 1, 4, 5)]


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_no_image_is_shown_twice(dataset, n):
    rated = [Rated(f"red{k}", 1 - k / 10) for k in range(n)]
    labels = {some.name: np.zeros((40, 60), dtype=np.uint8) for some in rated}
    assert len(class_panels(dataset, "aeroplane", rated, labels)) == 2 * min(n, 2 * EACH)


def test_images_whose_masks_cannot_be_read_are_left_out(dataset):
    (dataset.root / "SegmentationClass" / "green.png").write_bytes(b"damaged")
    labels = {name: np.zeros((40, 60), dtype=np.uint8) for name in dataset.names}
    assert list(rated_images(dataset, labels)) == ["aeroplane"]
