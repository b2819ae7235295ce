"""Losses: against their formulas, scikit-learn, differences, and at scores so large that the formulas overflow."""

import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn.metrics import log_loss

from bochner.losses import LOSSES, Logistic, Multinomial
from tests.cases import slope_along

each_loss = pytest.mark.parametrize("name", list(LOSSES))
ROUNDING = 1e-14
"""A few operations on numbers of order one: tens of eps."""


def targets_for(name, n, c, rng):
    if name == "multinomial":
        return np.eye(c)[rng.integers(c, size=n)]
    return rng.choice([-1.0, 1.0], size=(n, c))


def case(name, n=20, c=3, size=2.0, seed=0):
    rng = np.random.default_rng([seed, n, c])
    return LOSSES[name], size * rng.standard_normal((n, c)), targets_for(name, n, c, rng), rng.standard_normal((n, c))


def matrices(loss, scores, targets):
    """Every row's matrix of second derivatives: (n, c, c)."""
    return np.stack(
        [loss.curve(scores, targets, np.tile(unit, (len(scores), 1))) for unit in np.eye(scores.shape[1])], axis=2
    )


def test_values_are_the_formulas():
    logistic, scores, signs, _ = case("logistic")
    np.testing.assert_allclose(
        logistic.values(scores, signs), np.log(1 + np.exp(-signs * scores)).sum(axis=1), rtol=ROUNDING
    )
    multinomial, scores, one_hot, _ = case("multinomial")
    naive = np.log(np.exp(scores).sum(axis=1)) - np.sum(scores * one_hot, axis=1)
    np.testing.assert_allclose(multinomial.values(scores, one_hot), naive, rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(
        multinomial.values(scores, one_hot), -np.sum(one_hot * log_softmax(scores, axis=1), axis=1), rtol=0, atol=ROUNDING
    )


def test_mean_is_the_log_loss_of_scikit_learn():
    multinomial, scores, one_hot, _ = case("multinomial", n=50)
    chances = np.exp(log_softmax(scores, axis=1))
    chances /= chances.sum(axis=1, keepdims=True)
    mean = multinomial.values(scores, one_hot).mean()
    assert mean == pytest.approx(log_loss(one_hot.argmax(axis=1), chances), rel=ROUNDING)


def test_two_classes_are_one_question():
    """The multinomial loss of scores (0, f) is the logistic loss of f."""
    logistic, scores, signs, direction = case("logistic", c=1)
    both, one_hot = np.c_[np.zeros_like(scores), scores], np.c_[signs < 0, signs > 0].astype(float)
    multinomial = Multinomial()
    np.testing.assert_allclose(multinomial.values(both, one_hot), logistic.values(scores, signs), rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(
        multinomial.slopes(both, one_hot)[:, 1:], logistic.slopes(scores, signs), rtol=0, atol=ROUNDING
    )
    along = np.c_[np.zeros_like(direction), direction]
    found = multinomial.curve(both, one_hot, along)[:, 1:]
    np.testing.assert_allclose(found, logistic.curve(scores, signs, direction), rtol=0, atol=ROUNDING)


@each_loss
@pytest.mark.parametrize("c", [1, 4])
def test_derivatives_are_those_of_differences(name, c):
    loss, scores, targets, direction = case(name, c=c)
    # Differences of fourth order with step 1e-3: h^4 / 30 = 3e-14 of a fifth derivative, and eps / h = 1e-12 of rounding.
    slope = slope_along(lambda s: loss.values(s, targets), scores, direction, 1e-3)
    np.testing.assert_allclose(np.sum(loss.slopes(scores, targets) * direction, axis=1), slope, rtol=0, atol=1e-11)
    curve = slope_along(lambda s: loss.slopes(s, targets), scores, direction, 1e-3)
    np.testing.assert_allclose(loss.curve(scores, targets, direction), curve, rtol=0, atol=1e-11)


@each_loss
@pytest.mark.parametrize("c", [1, 4])
def test_curvature_is_the_diagonal_and_within_its_bound(name, c):
    loss, scores, targets, _ = case(name, c=c, n=200)
    second = matrices(loss, scores, targets)
    np.testing.assert_allclose(loss.curvature(scores, targets), np.diagonal(second, axis1=1, axis2=2), rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(second, second.transpose(0, 2, 1), rtol=0, atol=ROUNDING)
    eigenvalues = np.linalg.eigvalsh(second)
    assert eigenvalues.min() >= -ROUNDING
    assert eigenvalues.max() <= loss.bound + ROUNDING


def test_bounds_are_reached():
    assert Logistic().curvature(np.zeros((1, 1)), np.ones((1, 1)))[0, 0] == Logistic().bound
    halves = np.array([[0.0, 0.0, -800.0]])  # two classes of equal chance, and one of none
    assert np.linalg.eigvalsh(matrices(Multinomial(), halves, np.eye(3)[:1])[0])[-1] == Multinomial().bound


@each_loss
@pytest.mark.parametrize("c", [1, 3])
def test_adding_a_number_to_all_scores(name, c):
    loss, scores, targets, _ = case(name, c=c)
    unchanged = np.allclose(loss.values(scores + 1.5, targets), loss.values(scores, targets), rtol=0, atol=10 * ROUNDING)
    assert unchanged == loss.shift_free


@each_loss
@pytest.mark.parametrize("size", [1e4, 1e300])
def test_large_scores(name, size):
    loss, scores, targets, direction = case(name)
    scores = size * np.sign(scores)
    values = loss.values(scores, targets)
    for found in (
        values,
        *(f(scores, targets) for f in (loss.slopes, loss.curvature)),
        loss.curve(scores, targets, direction),
    ):
        assert np.isfinite(found).all()
    if name == "logistic":
        expected = np.sum(size * (scores * targets < 0), axis=1)
    else:
        expected = scores.max(axis=1) - np.sum(scores * targets, axis=1)
    np.testing.assert_allclose(values, expected, rtol=1e-12, atol=np.log(3))  # ties between classes


@each_loss
def test_slopes_of_confident_scores_keep_their_digits(name):
    loss = LOSSES[name]
    scores, targets = (
        (np.array([[60.0]]), np.ones((1, 1))) if name == "logistic" else (np.array([[60.0, 0.0]]), np.eye(2)[:1])
    )
    assert loss.slopes(scores, targets)[0, 0] == pytest.approx(-np.exp(-60.0), rel=1e-13)
