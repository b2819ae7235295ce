"""Which rows are learned from, validated on and tested on."""

import numpy as np
import pytest

from bochner.reproduce.protocol import (
    Problem,
    Protocol,
    Views,
    balanced_weights,
    classes_that_occur,
    held_out_groups,
    labels_of,
    rows_to_test,
)


@pytest.fixture
def problem():
    """Forty rows of two classes: 18 show the first, five the second, and the others none; the first have the best scores."""
    rng = np.random.default_rng(0)
    worth = np.zeros((40, 2))
    worth[:35, 0], worth[35:, 1] = np.linspace(0.9, 0.1, 35), 0.8
    views = Views({"one": rng.random((40, 3)), "two": rng.random((40, 2))}, worth, np.repeat(np.arange(8), 5))
    scores = -np.arange(40.0)
    return Problem("made up", "key", ("a", "b"), views, views, scores, True, Protocol(test_per_class=3), 0)


def test_half_of_the_rows_show_a_class_the_same_number_of_each_and_the_best_come_first(problem):
    assert problem.chosen(8).tolist() == [0, 1, 18, 19, 20, 21, 35, 36]


def test_what_one_class_or_one_half_lacks_the_others_have(problem):
    labels = labels_of(problem.train.worth)
    assert np.bincount(labels[problem.chosen(20)] + 1).tolist() == [10, 5, 5]
    assert np.bincount(labels[problem.chosen(30)] + 1).tolist() == [15, 10, 5]
    assert np.bincount(labels[problem.chosen(38)] + 1).tolist() == [17, 16, 5]
    assert problem.chosen(100).tolist() == list(range(40))


def test_choices_have_as_many_rows_as_were_asked_for_and_grow(problem):
    before = set()
    for n in range(2, 39):
        chosen = set(problem.chosen(n).tolist())
        assert len(chosen) == n
        assert len(before - chosen) <= 1  # one row of a class may give way to one of another, where halves are odd
        before = chosen


def test_classes_weigh_as_roots_of_their_numbers_and_other_rows_a_part_of_all(problem):
    weights = balanced_weights(problem.train.worth)
    labels = labels_of(problem.train.worth)
    assert weights.mean() == pytest.approx(1.0)
    roots = np.sqrt([18, 5])
    expected = [0.2, *(0.8 * roots / roots.sum())]
    assert [weights[labels == k].sum() / 40 for k in (-1, 0, 1)] == pytest.approx(expected)
    assert all(np.ptp(weights[labels == k]) == 0 for k in (-1, 0, 1))


def test_few_rows_that_show_nothing_weigh_no_more_than_others():
    worth = np.array([[0.9, 0.0]] * 15 + [[0.0, 0.9]] * 4 + [[0.1, 0.1]])
    weights = balanced_weights(worth)
    assert weights[-1] == pytest.approx(1.0)
    assert weights[:15].sum() == pytest.approx(weights[15:19].sum() * (15 / 4) ** 0.5)
    np.testing.assert_allclose(balanced_weights(worth[:15]), 1.0)


def test_targets_have_weighted_mean_zero_and_spread_one(problem):
    training = problem.training(20)
    np.testing.assert_allclose(training.weights @ training.targets, 0, atol=1e-12)
    np.testing.assert_allclose(training.weights @ training.targets**2 / 20, 1)
    np.testing.assert_array_equal(training.weights, balanced_weights(training.rows.worth))


def test_images_are_held_out_with_all_of_their_rows(problem):
    training = problem.training(40)
    fitted, validated = training.split()[0]
    assert not set(training.rows.groups[fitted]) & set(training.rows.groups[validated])
    assert sorted([*fitted, *validated]) == list(range(40))
    assert held_out_groups(np.array([1, 1, 2]), 0.01, 0).any()


def test_every_row_is_held_out_in_one_fold_with_its_image(problem):
    training = problem.training(40)
    folds = training.folds(3)
    assert sorted(np.concatenate([validated for _, validated in folds])) == list(range(40))
    for fitted, validated in folds:
        assert sorted([*fitted, *validated]) == list(range(40))
        assert not set(training.rows.groups[fitted]) & set(training.rows.groups[validated])
    assert sorted(len(set(training.rows.groups[validated])) for _, validated in folds) == [2, 3, 3]


def test_test_rows_show_an_object_and_are_few_of_each_class(problem):
    index = rows_to_test(problem.train.worth, 3, seed=1)
    worth = problem.train.worth[index]
    assert np.all(worth.max(axis=1) >= 0.5)
    assert np.bincount(worth.argmax(axis=1)).tolist() == [3, 3]


def test_classes_with_few_rows_are_left_out():
    worth = np.array([[0.6, 0.0, 0.0], [0.7, 0.2, 0.0], [0.0, 0.9, 0.4]])
    assert classes_that_occur(worth, worth, 1).tolist() == [0, 1]
    assert classes_that_occur(worth, worth, 2).tolist() == [0]
