"""Accuracy against a case computed by hand."""

import numpy as np
import pytest

from bochner.reproduce.accuracy import Accuracy, accuracy_of, mean_accuracy

LABELS = np.array([0, 0, 0, 0, 1, 2, 2])
SCORES = np.array(
    [
        [3.0, 1.0, 2.0],  # right
        [0.1, 0.0, 0.0],  # right
        [0.0, 1.0, 0.0],  # wrong
        [9.0, 8.0, 7.0],  # right
        [1.0, 0.0, 0.0],  # wrong
        [0.0, 0.0, 1.0],  # right
        [0.0, 2.0, 1.0],  # wrong
    ]
)


def test_the_mean_over_classes_of_the_part_that_is_right():
    found = accuracy_of(LABELS, SCORES)
    assert found.classes == (0.75, 0.0, 0.5)
    assert found.mean == pytest.approx((0.75 + 0.0 + 0.5) / 3)
    assert found.plain() == {"accuracy": 0.416667, "class_accuracies": [0.75, 0.0, 0.5]}


def test_classes_count_the_same_however_many_rows_they_have():
    many = np.repeat(np.arange(7), [5, 5, 5, 5, 1, 1, 1])
    assert accuracy_of(LABELS[many], SCORES[many]).mean == accuracy_of(LABELS, SCORES).mean


@pytest.mark.parametrize(
    ("labels", "scores", "told"),
    [
        (LABELS[:3], SCORES, "labels must be"),
        (LABELS, np.full_like(SCORES, np.nan), "finite"),
        (np.zeros(7, dtype=int), SCORES, "every class must have a test row"),
    ],
)
def test_what_is_refused(labels, scores, told):
    with pytest.raises(ValueError, match=told):
        accuracy_of(labels, scores)


def test_the_mean_over_draws_is_that_of_each_class():
    found = mean_accuracy([Accuracy(0.5, (0.25, 0.75)), Accuracy(0.75, (0.5, 1.0))])
    assert found == Accuracy(0.625, (0.375, 0.875))
