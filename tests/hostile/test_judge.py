"""The judge is judged: every way to break the rule is seen, and what keeps it passes."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from tests.hostile.cases import Data
from tests.hostile.judge import BrokenRuleError, judge, no_worse_than_mean, no_worse_than_prior

X = np.arange(8.0)[:, None]
Y = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 70.0])
DATA = Data(X, Y, None)


def raising(error):
    def act():
        raise error

    return act


def warning(category):
    def act():
        warnings.warn("a warning", category, stacklevel=1)

    return act


@pytest.mark.parametrize(
    ("act", "result"),
    [
        (lambda: 1.0, "finite"),
        (raising(ValueError("C must be positive, got -1: use 1.0.")), "error"),
        (raising(MemoryError("fit fewer rows")), "error"),
        (raising(ValueError("bad")), "failed"),
        (raising(TypeError("use another type")), "failed"),
        (raising(np.linalg.LinAlgError("use another matrix")), "failed"),
        (lambda: np.linalg.cholesky(-np.eye(2)), "failed"),
        (lambda: np.log(np.zeros(1)), "failed"),
        (lambda: np.float32(1) * np.array([1e300]).astype(np.float32), "failed"),
        (warning(RuntimeWarning), "failed"),
        (warning(DeprecationWarning), "failed"),
        (warning(UserWarning), "finite"),
        (warning(ConvergenceWarning), "finite"),
    ],
)
def test_what_comes(act, result):
    assert judge(act, lambda found: None).result == result


def test_a_check_that_fails_is_a_failure():
    def check(found):
        raise BrokenRuleError("worse")

    assert judge(lambda: 1.0, check).message == "worse"


def test_the_mean_and_what_is_worse():
    no_worse_than_mean(np.full(8, Y.mean()), DATA)
    no_worse_than_mean(Y, DATA)
    for wrong in (np.full(8, Y.mean() + 1), np.full(8, np.nan), -Y):
        with pytest.raises(BrokenRuleError):
            no_worse_than_mean(wrong, DATA)


def test_weights_count():
    weighted = Data(X, Y, np.array([1.0] * 7 + [1e-20]))  # which vanishes
    no_worse_than_mean(np.full(8, 3.0), weighted)
    with pytest.raises(BrokenRuleError):
        no_worse_than_mean(np.full(8, 3.0), DATA)


def test_the_slack_is_that_of_the_precision():
    y = 1e6 + np.arange(8.0)
    off = np.full(8, y.mean() + 0.01)
    with pytest.raises(BrokenRuleError):
        no_worse_than_mean(off, Data(X, y, None))
    no_worse_than_mean(np.full(8, y.mean() + 1e-8), Data(X, y, None))


def test_a_loss_with_a_band_is_judged_by_distances():
    median = np.full(8, np.median(Y))
    with pytest.raises(BrokenRuleError):
        no_worse_than_mean(median, DATA)
    no_worse_than_mean(median, DATA, 0.1)


class Model:
    classes_ = np.array([0, 1])


def test_the_prior_and_what_is_worse():
    y = np.array([0] * 90 + [1] * 10)
    data = Data(np.zeros((100, 1)), y, None)
    no_worse_than_prior(Model, np.zeros(100, dtype=int), None, data)
    with pytest.raises(BrokenRuleError, match="largest class"):
        no_worse_than_prior(Model, np.ones(100, dtype=int), None, data)
    with pytest.raises(BrokenRuleError, match="prior"):
        no_worse_than_prior(Model, np.ones(100, dtype=int), np.tile([0.3, 0.7], (100, 1)), data)
    with pytest.raises(BrokenRuleError, match="sum to one"):
        no_worse_than_prior(Model, np.zeros(100, dtype=int), np.tile([0.3, 0.8], (100, 1)), data)
    with pytest.raises(BrokenRuleError, match="label"):
        no_worse_than_prior(Model, np.full(100, 2), None, data)
