"""Measures against scikit-learn, and against loops over segments and pixels."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, balanced_accuracy_score, jaccard_score

from bochner.vision.datasets import VOID, Truth
from bochner.vision.measures import (
    PixelCounts,
    average_precision,
    average_precisions,
    balanced_accuracy,
    good_accuracy,
    mean_average_precision,
    paste,
)
from bochner.vision.pool import SegmentPool

ROUNDING = 1e-12


@pytest.mark.parametrize("n_values", [2, 5, None], ids=["many ties", "ties", "no ties"])
@pytest.mark.parametrize("n", [1, 2, 50, 1000])
def test_average_precision_is_that_of_scikit_learn(rng, n, n_values):
    relevant = rng.random(n) < 0.3
    relevant[0] = True
    scores = rng.standard_normal(n) if n_values is None else rng.integers(0, n_values, n).astype(float)
    assert average_precision(relevant, scores) == pytest.approx(average_precision_score(relevant, scores), rel=ROUNDING)


def test_average_precisions_of_classes(rng):
    relevant, scores = rng.random((200, 4)) < 0.2, rng.standard_normal((200, 4))
    relevant[:, 2] = False
    found = average_precisions(relevant, scores)
    kept = [0, 1, 3]
    assert np.isnan(found[2])
    expected = average_precision_score(relevant[:, kept], scores[:, kept], average="macro")
    assert mean_average_precision(relevant, scores) == pytest.approx(expected, rel=ROUNDING)


def test_no_class_is_shown_or_scores_are_no_numbers():
    assert np.isnan(mean_average_precision(np.zeros((3, 2)), np.zeros((3, 2))))
    with pytest.raises(ValueError, match="finite"):
        average_precision([True, False], [np.nan, 0.0])
    with pytest.raises(ValueError, match=r"\(n,\)"):
        average_precision([True, False], [0.0])
    with pytest.raises(ValueError, match="n > 0"):
        balanced_accuracy([], [])


def test_balanced_accuracy_is_that_of_scikit_learn(rng):
    labels = rng.integers(0, 6, 400)
    predicted = np.where(rng.random(400) < 0.5, labels, rng.integers(0, 6, 400))
    assert balanced_accuracy(labels, predicted) == pytest.approx(balanced_accuracy_score(labels, predicted), rel=ROUNDING)


def test_accuracy_on_good_segments():
    overlaps = np.array([[0.8, 0.1], [0.2, 0.5], [0.49, 0.0], [0.6, 0.55], [0.0, 0.0]])
    assert good_accuracy(overlaps, [1, 1, 1, 1, 0]) == pytest.approx(2 / 3)
    assert np.isnan(good_accuracy(overlaps[-1:], [0]))


def truth_of(classes):
    return Truth(classes.astype(np.uint8), (classes > 0).astype(np.int32), classes == VOID)


def test_intersection_over_union_is_that_of_a_loop_and_of_scikit_learn(rng):
    n_classes = 4
    total = PixelCounts.none(n_classes)
    pairs = []
    for _ in range(3):
        classes = rng.choice([0, 1, 2, 3, VOID], (9, 11))
        labels = np.where(rng.random((9, 11)) < 0.6, np.where(classes == VOID, 2, classes), rng.integers(0, 4, (9, 11)))
        total = total + PixelCounts.of(truth_of(classes), labels, n_classes)
        pairs += [(int(t), int(g)) for t, g in zip(classes.flat, labels.flat, strict=True) if t != VOID]
    expected = []
    for k in range(n_classes + 1):
        union = sum(t == k or g == k for t, g in pairs)
        expected.append(sum(t == k and g == k for t, g in pairs) / union if union else np.nan)
    np.testing.assert_allclose(total.intersection_over_union(), expected, rtol=ROUNDING)
    assert np.isnan(expected[4])
    true, given = zip(*pairs, strict=True)
    assert total.mean() == pytest.approx(jaccard_score(true, given, average="macro"), rel=ROUNDING)


def test_counts_that_are_refused():
    truth = truth_of(np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"as large as the image, \(2, 3\)"):
        PixelCounts.of(truth, np.zeros((3, 2)), 2)
    with pytest.raises(ValueError, match="between 0 and 2"):
        PixelCounts.of(truth, np.full((2, 3), 3), 2)
    assert np.isnan(PixelCounts.none(2).mean())


def strip(*segments):
    """Segments of a row of six pixels, one superpixel each."""
    members = np.array([[k in segment for k in range(6)] for segment in segments]).reshape(len(segments), 6)
    return SegmentPool(np.arange(6, dtype=np.int32)[None], members)


def test_better_segments_lie_on_top():
    pool = strip({0, 1, 2}, {2, 3, 4, 5})
    assert paste(pool, np.array([[0.2, 0.9], [0.5, 0.1]])).tolist() == [[2, 2, 2, 1, 1, 1]]
    assert paste(pool, np.array([[0.2, 0.4], [0.5, 0.1]])).tolist() == [[2, 2, 1, 1, 1, 1]]


def test_segments_that_are_covered_low_or_too_many_are_left_out():
    pool = strip({0, 1, 2, 3}, {2, 3, 4}, {5})
    scores = np.array([[0.9, 0.0], [0.0, 0.8], [0.0, 0.3]])
    assert paste(pool, scores).tolist() == [[1, 1, 1, 1, 0, 2]]
    assert paste(pool, scores, covered=0.7).tolist() == [[1, 1, 1, 1, 2, 2]]
    assert paste(pool, scores, threshold=0.3).tolist() == [[1, 1, 1, 1, 0, 0]]
    assert paste(pool, scores, most=1).tolist() == [[1, 1, 1, 1, 0, 0]]
    assert paste(pool, scores - 2).tolist() == [[0] * 6]


def test_no_segments_and_wrong_scores():
    assert paste(strip(), np.zeros((0, 3))).tolist() == [[0] * 6]
    with pytest.raises(ValueError, match=r"\(2, c\)"):
        paste(strip({1}, {2}), np.zeros((3, 2)))


def test_pasting_agrees_with_a_loop_over_pixels(rng):
    labels = np.kron(np.arange(20).reshape(4, 5), np.ones((3, 3))).astype(np.int32)
    pool = SegmentPool(labels, rng.random((15, 20)) < 0.3)
    scores = rng.standard_normal((15, 4))
    expected = np.zeros(labels.shape, dtype=int)
    for i in sorted(range(15), key=lambda i: -scores[i].max()):
        mask = pool.mask(i)
        if scores[i].max() > 0 and mask.sum() and (mask & (expected > 0)).sum() < 0.5 * mask.sum():
            expected[mask & (expected == 0)] = scores[i].argmax() + 1
    np.testing.assert_array_equal(paste(pool, scores), expected)
    assert len(np.unique(expected)) > 2
