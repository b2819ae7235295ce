"""Which rows are learned from, validated on and tested on."""

import numpy as np
import pytest

from bochner.reproduce.protocol import (
    Preference,
    Problem,
    Protocol,
    Views,
    classes_that_occur,
    held_out_groups,
    rows_to_test,
)


@pytest.fixture
def problem():
    """Forty rows of two classes, five of them of the second."""
    rng = np.random.default_rng(0)
    worth = np.zeros((40, 2))
    worth[:35, 0], worth[35:, 1] = np.linspace(0.9, 0.1, 35), 0.8
    views = Views({"one": rng.random((40, 3)), "two": rng.random((40, 2))}, worth, np.repeat(np.arange(8), 5))
    first, second = np.arange(35), np.arange(35, 40)
    preferences = [Preference(first[:18], second), Preference(second, first)]
    return Problem(
        "made up", "key", ("a", "b"), views, views, preferences, np.arange(40), True, Protocol(test_per_class=3), 0
    )


def test_the_best_of_every_class_come_first_and_balanced(problem):
    chosen = problem.chosen(8)
    assert chosen.tolist() == [0, 1, 2, 3, 35, 36, 37, 38]


def test_the_rest_is_filled_in_order_and_all_rows_are_the_most(problem):
    assert len(problem.chosen(30)) == 30
    assert set(range(35, 40)) <= set(problem.chosen(30).tolist())
    assert problem.chosen(100).tolist() == list(range(40))


def test_choices_have_as_many_rows_as_were_asked_for(problem):
    for n in range(2, 39):
        assert len(np.unique(problem.chosen(n))) == n


def test_targets_have_mean_zero_and_spread_one(problem):
    training = problem.training(20)
    np.testing.assert_allclose(training.targets.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(training.targets.std(axis=0), 1)


def test_images_are_held_out_with_all_of_their_rows(problem):
    training = problem.training(40)
    fitted, validated = training.split[0]
    assert not set(training.rows.groups[fitted]) & set(training.rows.groups[validated])
    assert sorted([*fitted, *validated]) == list(range(40))
    assert held_out_groups(np.array([1, 1, 2]), 0.01, 0).any()


def test_test_rows_show_an_object_and_are_few_of_each_class(problem):
    index = rows_to_test(problem.train.worth, 3, seed=1)
    worth = problem.train.worth[index]
    assert np.all(worth.max(axis=1) >= 0.5)
    assert np.bincount(worth.argmax(axis=1)).tolist() == [3, 3]


def test_classes_with_few_rows_are_left_out():
    worth = np.array([[0.6, 0.0, 0.0], [0.7, 0.2, 0.0], [0.0, 0.9, 0.4]])
    assert classes_that_occur(worth, worth, 1).tolist() == [0, 1]
    assert classes_that_occur(worth, worth, 2).tolist() == [0]
