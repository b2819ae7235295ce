"""Overlaps with the objects of each class, and the choice of segments to learn from."""

import numpy as np
import pytest

from bochner.vision.datasets import VOCDataset
from bochner.vision.pool import SegmentPool
from bochner.vision.targets import choose_segments, class_overlaps, segment_labels, worth_of
from tests.vision.trees import HEIGHT, PICTURES, WIDTH, voc_tree


def squares(shape, side=4):
    """A grid of superpixels."""
    y, x = np.mgrid[: shape[0], : shape[1]] // side
    return (y * (x.max() + 1) + x).astype(np.int32)


@pytest.mark.parametrize("name", PICTURES)
def test_overlaps_are_the_best_of_each_class(tmp_path, rng, name):
    truth = VOCDataset(voc_tree(tmp_path)).truth(name)
    labels = squares((HEIGHT, WIDTH))
    pool = SegmentPool(labels, rng.random((7, labels.max() + 1)) < 0.4)
    expected = np.zeros((7, 3))
    for i in range(7):
        for index, mask in truth.objects_of():
            segment = pool.mask(i) & ~truth.void
            overlap = (segment & mask).sum() / (segment | mask).sum()
            expected[i, index] = max(expected[i, index], overlap)
    np.testing.assert_allclose(class_overlaps(pool, truth, 3), expected, rtol=1e-12)
    assert (name == "empty") == (not expected.any())


def test_no_segments(tmp_path):
    truth = VOCDataset(voc_tree(tmp_path)).truth("two")
    pool = SegmentPool(squares((HEIGHT, WIDTH)), np.zeros((0, 150), dtype=bool))
    assert class_overlaps(pool, truth, 20).shape == (0, 20)


def test_labels_of_segments():
    overlaps = np.array([[0.1, 0.7], [0.5, 0.2], [0.4, 0.49], [0.0, 0.0]])
    assert segment_labels(overlaps).tolist() == [2, 1, 0, 0]
    assert segment_labels(overlaps, 0.45).tolist() == [2, 1, 2, 0]


def test_what_overlaps_are_worth():
    overlaps = np.array([[0.0, 0.35], [0.41, 0.5], [0.65, 1.0]])
    np.testing.assert_allclose(worth_of(overlaps), [[0, 0], [0.2, 0.5], [1, 1]], atol=1e-12)


def test_the_choice_is_balanced_and_by_score(rng):
    overlaps = rng.random((500, 3)) ** 2
    for own, choice in zip(overlaps.T, choose_segments(overlaps, 40), strict=True):
        assert len(choice.positives) == len(choice.negatives) == 20
        assert (own[choice.positives] >= 0.5).all()
        assert (own[choice.negatives] < 0.25).all()
        left_out = np.setdiff1d(np.flatnonzero(own >= 0.5), choice.positives)
        assert own[left_out].max() <= own[choice.positives].min()
        others = np.setdiff1d(np.flatnonzero(own < 0.25), choice.negatives)
        assert overlaps[others].max(axis=1).max() <= overlaps[choice.negatives].max(axis=1).min()
        assert len(np.unique(choice.all)) == 40


def test_few_positives_have_as_many_negatives_or_as_many_as_there_is_room_for():
    overlaps = np.zeros((30, 2))
    overlaps[[3, 8], 0] = 0.6, 0.9
    scores = np.arange(30.0)
    first, second = choose_segments(overlaps, 10, scores=scores)
    assert first.positives.tolist() == [8, 3]
    assert first.negatives.tolist() == [29, 28]
    assert not second.all.size
    first, second = choose_segments(overlaps, 10, scores=scores, negatives_per_positive=None)
    assert first.negatives.tolist() == [29, 28, 27, 26, 25, 24, 23, 22]
    assert len(second.negatives) == 10
    first, _ = choose_segments(overlaps, 10, negatives_per_positive=2.0)
    assert len(first.negatives) == 4


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"n_per_class": 1}, "n_per_class"),
        ({"n_per_class": 4, "poor": 0.6}, "poor"),
        ({"n_per_class": 4, "scores": [1.0]}, "one a segment"),
    ],
)
def test_what_is_refused(options, said):
    with pytest.raises(ValueError, match=said):
        choose_segments(np.zeros((5, 2)), **options)
