"""Contact sheets: which segments are shown, in which order, and what is said below them."""

import io

import numpy as np
import pytest
from PIL import Image

from bochner.vision.datasets import VOCDataset
from bochner.vision.pool import SegmentPool
from bochner.vision.show import (
    GAP,
    INK,
    MARK,
    WIDTH,
    Panel,
    Shown,
    best_segments,
    labelled,
    outlined,
    panels_of,
    png,
    pool_summary,
    sheet,
    tinted,
    write_sheets,
)
from tests.vision.trees import voc_tree

CLASSES = ("red", "green", "blue")


@pytest.fixture
def two(tmp_path):
    """An image with an object of class 1 (green) and one of class 2 (blue), and segments: both, each, and all."""
    dataset = VOCDataset(voc_tree(tmp_path))
    truth = dataset.truth("two")
    labels = truth.objects + 0
    members = np.array([[False, True, True], [False, True, False], [False, False, True], [True, True, True]])
    return Shown("two", dataset.image("two"), SegmentPool(labels, members), truth)


def test_the_best_segment_of_every_object_comes_first(two):
    found = best_segments(two, CLASSES, 3)
    assert [i for i, _ in found] == [1, 2, 0]
    assert found[0][1] == "segment 1, overlap 1.00 green"
    assert found[1][1] == "segment 2, overlap 1.00 blue"
    assert pool_summary(two.pool, two.truth) == (2, 2, 2.0)


def test_scores_come_before_overlaps(two):
    scores = np.array([[0.1, 0.2, 0.3], [0.0, 0.9, 0.0], [0.0, 0.0, 0.5], [0.95, 0.0, 0.0]])
    found = best_segments(Shown(two.name, two.image, two.pool, two.truth, scores), CLASSES, 2)
    assert [i for i, _ in found] == [3, 1]
    assert found[0][1].startswith("segment 3, red 0.95, overlap 0.")
    assert found[1][1] == "segment 1, green 0.90, overlap 1.00 green"


def test_segments_without_truth_and_no_segments(two):
    assert best_segments(Shown("two", two.image, two.pool), CLASSES, 2) == [(0, "segment 0"), (1, "segment 1")]
    none = two.pool.take(slice(0))
    assert best_segments(Shown("two", two.image, none, two.truth), CLASSES, 2) == []
    assert pool_summary(none, two.truth) == (2, 0, 0.0)


def test_panels(two):
    everything = Shown(
        two.name, two.image, two.pool, two.truth, np.ones((4, 3)), two.truth.classes * (two.truth.classes < 255)
    )
    captions = [panel.caption for panel in panels_of(everything, CLASSES, n_segments=2)]
    assert captions[:4] == ["two", "boundaries", "truth: green, blue", "labels: green, blue"]
    assert len(captions) == 6
    only = panels_of(Shown("two", two.image), CLASSES)
    assert [panel.caption for panel in only] == ["two", "boundaries"]
    np.testing.assert_array_equal(only[0].picture, two.image)


def test_colours_over_an_image():
    image = np.full((5, 6, 3), 90, dtype=np.uint8)
    mask = np.zeros((5, 6), dtype=bool)
    mask[1:4, 1:5] = True
    over = tinted(image, mask.astype(np.uint8))
    assert (over[~mask] == 90).all()
    assert (over[mask] == [(90 + 2 * 128) // 3, 30, 30]).all()
    line = outlined(image, mask)
    edge = mask.copy()
    edge[2, 2:4] = False
    assert (line[edge] == MARK).all()
    assert (line[mask & ~edge] == 90).all()
    assert (line[~mask] == 170 + 30).all()
    assert (outlined(image, np.ones_like(mask))[1:-1, 1:-1] == 90).all()


@pytest.mark.parametrize("shape", [(1, 1), (40, 60), (300, 20), (3, 900)])
@pytest.mark.parametrize("n", [1, 5])
def test_sheets_of_any_shape(shape, n):
    panels = [Panel(np.full((*shape, 3), 9 * k, dtype=np.uint8), "a very long line " * 9 + "é") for k in range(n)]
    with Image.open(io.BytesIO(sheet(panels))) as picture:
        assert picture.width == min(n, 4) * (WIDTH + GAP) + GAP
        assert picture.getpixel((GAP + WIDTH // 2, GAP)) == (0, 0, 0)


def test_pictures_and_page_are_written(tmp_path, two):
    png = sheet(panels_of(two, CLASSES))
    page = write_sheets(tmp_path / "show", {"a": png, "best of tv/monitor": png}, "Two images <here>.")
    assert (tmp_path / "show" / "a.png").read_bytes() == png
    assert (tmp_path / "show" / "best of tv_monitor.png").read_bytes() == png
    text = page.read_text()
    assert text.count("<img") == 2
    assert "Two images &lt;here&gt;." in text


def test_an_overlay_tints_outlines_and_names(two):
    labels = np.where(two.truth.void, 0, two.truth.classes).astype(np.uint8)
    found = labelled(two.image, labels, CLASSES)
    assert found.shape == two.image.shape
    unnamed = labelled(two.image, labels, ())  # without names, all but regions is as it was
    np.testing.assert_array_equal(unnamed[labels == 0], two.image[labels == 0])
    edge = (labels > 0) & (np.roll(labels, 1, axis=0) == 0)
    assert (unnamed[edge] == 255).all()
    inside = np.zeros_like(labels, dtype=bool)
    inside[1:-1, 1:-1] = labels[1:-1, 1:-1] > 0
    for shift, axis in ((1, 0), (-1, 0), (1, 1), (-1, 1)):
        inside &= np.roll(labels, shift, axis=axis) == labels
    np.testing.assert_array_equal(unnamed[inside], tinted(two.image, labels)[inside])
    assert not np.array_equal(found, unnamed)  # which the names make
    assert Image.open(io.BytesIO(png(found))).size == (two.image.shape[1], two.image.shape[0])


def test_regions_have_a_line_around_them_and_their_name_on_them():
    image = np.full((90, 120, 3), 60, dtype=np.uint8)
    labels = np.zeros((90, 120), dtype=np.uint8)
    labels[20:70, 10:60] = 2
    labels[5, 100] = 1  # too small for a name
    found = labelled(image, labels, CLASSES)
    assert (found[labels == 0] == 60).all()
    assert (found[20, 10:60] == 255).all()
    assert (found[5, 100] == 255).all()
    inside = found[25:65, 15:55]
    assert (inside == INK).all(axis=2).any()  # the outline of letters
    without = labelled(image, labels, ())
    assert (without[25:65, 15:55] == tinted(image, labels)[25:65, 15:55]).all()
    for shape in ((1, 1), (2, 5), (5, 2)):
        assert labelled(np.zeros((*shape, 3), dtype=np.uint8), np.ones(shape, dtype=np.uint8), CLASSES).shape == (*shape, 3)
