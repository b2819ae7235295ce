"""The images in which a class was labelled best and worst."""

import numpy as np
import pytest

from bochner.vision.best_and_worst import EACH, Rated, class_panels, rated_images
from bochner.vision.datasets import VOCDataset
from tests.vision.trees import HEIGHT, WIDTH, voc_tree

CATS = {f"cat{k}": [(1, 5, 5, 25, 45)] for k in range(3)}


@pytest.fixture
def dataset(tmp_path):
    """Three images with an object of the first class, one of which has another of the second, and one without."""
    return VOCDataset(voc_tree(tmp_path, {**CATS, "cat2": [*CATS["cat2"], (2, 28, 5, 38, 25)], "none": []}))


def test_the_best_come_first_and_classes_in_their_order(dataset):
    first, second = dataset.classes[:2]
    labels = {name: np.where(dataset.truth(name).classes == 1, 1, 0) for name in dataset.names}
    labels["cat0"][:, 25:] = 0  # half of the cat
    labels["cat1"][:] = 0
    labels["none"][:] = 1  # which it does not show, so that it is no image of that class
    found = rated_images(dataset, labels)
    assert list(found) == [first, second]
    assert [some.name for some in found[first]] == ["cat2", "cat0", "cat1"]
    assert found[first][0].overlap == 1
    assert found[first][1].overlap == pytest.approx(0.5, abs=0.05)
    assert found[first][2].overlap == 0
    assert found[second] == [Rated("cat2", 0.0)]


def test_images_without_a_mask_are_left_out(dataset):
    labels = {name: np.ones((HEIGHT, WIDTH), dtype=np.uint8) for name in dataset.names}
    (dataset.root / "SegmentationClass" / "cat1.png").unlink()
    assert {some.name for some in rated_images(dataset, labels)[dataset.classes[0]]} == {"cat0", "cat2"}


@pytest.mark.parametrize("n", [1, EACH, EACH + 1, 2 * EACH, 2 * EACH + 3])
def test_truth_and_labels_of_the_best_and_the_worst_and_none_twice(dataset, n):
    names = [f"cat{k % 3}" for k in range(n)]
    rated = [Rated(name, 1 - k / n) for k, name in enumerate(names)]
    panels = class_panels(dataset, rated, {name: dataset.truth(name).classes for name in dataset.names})
    shown = [*rated[:EACH], *rated[EACH:][-EACH:]]
    assert [panel.caption for panel in panels[::2]] == [f"{some.name}: truth" for some in shown]
    assert [panel.caption for panel in panels[1::2]] == [f"labels, IoU {some.overlap:.2f}" for some in shown]
    assert all(panel.picture.shape == dataset.image("cat0").shape for panel in panels)
