"""The search for weights of kernels: which trial is chosen, which penalties are tried."""

import numpy as np
import pytest

from bochner.weight_search import NOT_WORTH, RIDGE_ALPHAS, Trial, WeightChoices, _downhill, choose


def choices(**changes):
    return WeightChoices(**{"weights": np.ones(2), "shared": True, "alpha": None, "l1_ratios": (1.0,), **changes})


def trial(errors, n_in=1, alpha=1.0):
    return Trial(alpha, 1.0, None, None, np.array(errors, dtype=float), [], n_in)


def test_the_fewest_kernels_next_to_the_least_error_are_chosen():
    best, close, far = trial([1.0, 1.0], 5), trial([1 + NOT_WORTH / 2] * 2, 3), trial([1 + 2 * NOT_WORTH] * 2, 1)
    assert choose([best, close, far], one_standard_error=False) is close
    assert choose([best, far], one_standard_error=False) is best


def test_the_fewest_kernels_within_a_standard_error_are_chosen():
    best, within, beyond = trial([0.8, 1.2], 5), trial([1.1, 1.1], 3), trial([1.3, 1.3], 1)
    assert best.standard_error == pytest.approx(0.2)
    assert choose([best, within, beyond], one_standard_error=True) is within


def test_among_as_many_kernels_the_least_error_is_chosen():
    worse, better = trial([1.001]), trial([1.0])
    assert choose([worse, better], one_standard_error=False) is better


def test_penalties_below_the_smallest():
    wanted = choices(n_alphas=4, smallest=1e-3)
    np.testing.assert_allclose(wanted.further(1.0), [1e-4, 1e-5, 1e-6], rtol=1e-12)
    np.testing.assert_allclose(choices(n_alphas=4, smallest=1e-3, lowest=1e-4).further(1.0), [1e-4], rtol=1e-12)


@pytest.mark.parametrize(
    ("changes", "l1_ratio"),
    [({"alpha": 0.1}, 1.0), ({}, 0.0), ({"n_alphas": 1}, 1.0), ({"smallest": 1.0}, 1.0), ({"lowest": 1e-3}, 1.0)],
)
def test_paths_that_cannot_go_on(changes, l1_ratio):
    assert len(choices(**changes).further(l1_ratio)) == 0


@pytest.mark.parametrize(
    ("l1_ratios", "refits", "expected"),
    [((1.0,), (None,), 2), ((1.0, 0.0), (None,), 3), ((1.0, 0.0), (None, "ridge"), 4), ((1.0, 0.5), ("weighted",), 5)],
)
def test_number_of_paths(l1_ratios, refits, expected):
    """One of all folds for each share, one of all rows for each with refits, and the final one."""
    assert choices(l1_ratios=l1_ratios, refits=refits).n_paths == expected


def test_ridge_penalties_are_tried_as_long_as_errors_fall():
    errors = [5.0, 4.0, 3.0, 1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 0.0]
    assert len(errors) == len(RIDGE_ALPHAS)

    def at(alpha):
        return trial([errors[RIDGE_ALPHAS.index(alpha)]])

    assert sorted(_downhill(at, 4)) == [2, 3, 4, 5]
    assert sorted(_downhill(at, 0)) == [0, 1, 2, 3, 4]
    assert list(_downhill(at, 2, enough=2.9)) == [2]
