"""SoftmaxCalibration: probabilities, likelihood, and data that would send the slope to infinity."""

import numpy as np
import pytest
from scipy.special import log_softmax

import bochner.calibration
from bochner.calibration import SoftmaxCalibration
from tests.cases import numerical_gradient, relative_error

EPS = float(np.finfo(float).eps)


def problem(n_classes, *, n=200, seed=0, unit=1.0):
    """Noisy decisions (n, c), labels and weights."""
    rng = np.random.default_rng([seed, n_classes])
    labels = rng.choice(n_classes, n, p=np.arange(1, n_classes + 1) / np.arange(1, n_classes + 1).sum())
    decisions = unit * ((labels[:, None] == np.arange(n_classes)) + rng.standard_normal((n, n_classes)))
    return decisions, labels, rng.gamma(2.0, 0.5, n)


def likelihood(scores, labels, weights):
    return float(weights @ log_softmax(scores, axis=1)[np.arange(len(labels)), labels])


@pytest.mark.parametrize("unit", [1.0, 1e-6, 1e6, 1e-100])
@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_better_than_no_calibration(n_classes, unit):
    decisions, labels, weights = problem(n_classes, unit=unit)
    found = SoftmaxCalibration.fit(decisions, labels, weights)
    probabilities = found(decisions)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=0, atol=2 * n_classes * EPS)
    assert (probabilities >= 0).all()
    reached = likelihood(found.slope * decisions + found.offsets, labels, weights)
    assert reached >= likelihood(np.zeros_like(decisions), labels, weights)
    # The prior (a uniform row of weight one and a weak pull on the slope) is worth at most log c and 1e-4 of the slope^2.
    slack = np.log(n_classes) + 1e-4
    assert reached >= likelihood(decisions, labels, weights) - slack
    assert reached >= likelihood(decisions / np.std(decisions), labels, weights) - slack


@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_same_probabilities_in_any_unit(n_classes):
    decisions, labels, weights = problem(n_classes)
    one = SoftmaxCalibration.fit(decisions, labels, weights)
    other = SoftmaxCalibration.fit(1024 * decisions, labels, weights)  # a power of two rounds nothing
    np.testing.assert_allclose(other(1024 * decisions), one(decisions), rtol=0, atol=64 * EPS)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_gradient(n_classes, monkeypatch):
    """The function that is handed to the optimiser, against differences of its value."""
    handed = {}

    def spy(function, start, **options):
        handed["function"] = function
        return original(function, start, **options)

    original = bochner.calibration.minimize
    monkeypatch.setattr(bochner.calibration, "minimize", spy)
    SoftmaxCalibration.fit(*problem(n_classes))
    point = np.random.default_rng(1).gamma(2.0, 0.5, n_classes + 1)
    # Values and derivatives of order one; a step of 1e-3 has an error of 1e-12 and rounding of 1e-13.
    difference = numerical_gradient(lambda p: handed["function"](p)[0], point, 1e-3)
    assert relative_error(handed["function"](point)[1], difference) <= 1e-9


@pytest.mark.parametrize("n_classes", [2, 3])
def test_separable_decisions(n_classes):
    labels = np.arange(60) % n_classes
    decisions = 2.0 * (labels[:, None] == np.arange(n_classes)) - 1
    found = SoftmaxCalibration.fit(decisions, labels, np.ones(60))
    assert np.isfinite(found.slope)
    assert found.slope > 0
    probabilities = found(decisions)
    assert (probabilities > 0).all()
    np.testing.assert_array_equal(probabilities.argmax(axis=1), labels)


def test_useless_decisions_give_the_shares_of_the_classes():
    labels = np.repeat([0, 1, 2], [10, 30, 60])
    found = SoftmaxCalibration.fit(np.zeros((100, 3)), labels, np.ones(100))
    # A label counts as 1 - 1/102 of its class and 1/204 of each other; the optimiser stops at a gradient below 1e-5.
    shares = np.array([0.1, 0.3, 0.6])
    shares = shares * (101 / 102 - 1 / 204) + 1 / 204
    pulled = found(np.zeros((1, 3)))[0] + found.offsets / 100  # standard normal offsets pull by that much, at the optimum
    np.testing.assert_allclose(pulled, shares, rtol=0, atol=1e-4)


@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_shifted_decisions_have_the_order_of_the_probabilities(n_classes):
    decisions, labels, weights = problem(n_classes)
    found = SoftmaxCalibration.fit(decisions, labels, weights)
    shifted = found.shift(decisions)
    np.testing.assert_array_equal(shifted.argmax(axis=1), found(decisions).argmax(axis=1))
    assert (shifted.argmax(axis=1) != decisions.argmax(axis=1)).any()  # the classes are not equally frequent
    assert found.offsets.sum() == pytest.approx(0, abs=8 * n_classes * EPS * np.abs(found.offsets).max())


def test_log_loss_is_that_of_the_best_slope():
    decisions, labels, weights = problem(3)
    n = weights.sum() ** 2 / np.sum(weights**2)  # rows of equal weight that say as much
    doubt = 1 / (n + 2)  # a label counts as a chance of 1 - 1 / (n + 2) of its class
    chances = np.where(labels[:, None] == np.arange(3), 1 - doubt, doubt / 2)
    shares = (weights / weights.sum())[:, None]
    best = min(
        -float(np.sum(shares * chances * log_softmax(slope * decisions, axis=1))) for slope in np.linspace(0, 5, 2000)
    )
    found = SoftmaxCalibration.log_loss(decisions, labels, weights)
    assert found == pytest.approx(best, rel=1e-4)
    assert found > SoftmaxCalibration.log_loss(decisions + np.eye(3)[labels], labels, weights)
    np.testing.assert_allclose(SoftmaxCalibration.log_loss(7 * decisions, labels, weights), found, rtol=1e-6)


def test_rows_of_next_to_no_weight_say_nothing():
    """Three rows that count, and fifty of the same decisions that do not, are held back as three are."""
    rng = np.random.default_rng(0)
    three = rng.standard_normal((3, 3))
    labels = np.array([0, 1, 1])
    decisions, others = np.tile(three, (18, 1)), np.tile([2, 2, 0], 17)
    weights = np.concatenate([np.ones(3), np.full(51, 1e-12)])
    among = SoftmaxCalibration.fit(decisions, np.concatenate([labels, others]), weights)
    alone = SoftmaxCalibration.fit(three, labels, np.ones(3))
    np.testing.assert_allclose(among(three), alone(three), rtol=0, atol=1e-3)
    equal = SoftmaxCalibration.fit(decisions, np.concatenate([labels, others]), np.full(54, 7.0))
    assert np.abs(equal(three) - alone(three)).max() > 0.1
