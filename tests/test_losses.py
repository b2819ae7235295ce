"""Losses: against their formulas, scikit-learn, differences, fifty digits, and at scores so large that formulas overflow.

Conjugates also by what defines them: a supremum, and the inequality of Fenchel and Young.
"""

import math

import mpmath
import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from sklearn.metrics import log_loss

from bochner.losses import LOSSES, REGRESSION_LOSSES, EpsilonLogistic, Logistic, Multinomial, Squared
from tests.cases import slope_along

EVERY_LOSS = LOSSES | REGRESSION_LOSSES
each_loss = pytest.mark.parametrize("name", list(EVERY_LOSS))
each_of_classifiers = pytest.mark.parametrize("name", list(LOSSES))
EPS = float(np.finfo(np.float64).eps)
ROUNDING = 1e-14
"""A few operations on numbers of order one: tens of eps."""
BANDS = [(0.1, 10.0), (0.0, 3.0), (0.5, 1e-3), (1e-8, 1e8), (10.0, 50.0), (1.0, 1e4)]
"""Pairs of epsilon and gamma: the default, no band, a blunt one, a tiny one, and two so sharp that cosh(gamma epsilon) is
huge or overflows."""
each_band = pytest.mark.parametrize(("epsilon", "gamma"), BANDS)


def targets_for(name, n, c, rng):
    if name == "multinomial":
        return np.eye(c)[rng.integers(c, size=n)]
    if name in REGRESSION_LOSSES:
        return rng.standard_normal((n, c))
    return rng.choice([-1.0, 1.0], size=(n, c))


def case(name, n=20, c=3, size=2.0, seed=0):
    rng = np.random.default_rng([seed, n, c])
    return EVERY_LOSS[name], size * rng.standard_normal((n, c)), targets_for(name, n, c, rng), rng.standard_normal((n, c))


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
    squared, scores, targets, _ = case("squared")
    naive = [sum((f - y) ** 2 for f, y in zip(*row, strict=True)) for row in zip(scores, targets, strict=True)]
    np.testing.assert_allclose(squared.values(scores, targets), naive, rtol=ROUNDING)
    band, scores, targets, _ = case("epsilon-logistic")
    r, g, e = scores - targets, band.gamma, band.epsilon
    naive = np.log(1 + np.exp(g * (r - e))) + np.log(1 + np.exp(g * (-r - e))) - 2 * np.log(1 + np.exp(-g * e))
    np.testing.assert_allclose(band.values(scores, targets), naive.sum(axis=1) / g, rtol=0, atol=ROUNDING)


def test_names_of_classifiers_and_regressors_are_different():
    assert len(EVERY_LOSS) == len(LOSSES) + len(REGRESSION_LOSSES)


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
    # Differences of fourth order with step h, in units of the scores over which the loss bends: h^4 / 30 = 3e-14 of a fifth
    # derivative (times the direction's own size to the fifth), and eps / h = 2e-13 of what is rounded, scores and values.
    steepness = getattr(loss, "gamma", 1.0)
    step = 1e-3 / steepness
    truncation = loss.bound * 1e-3**4 / 30 * np.max(np.abs(direction)) ** 5
    slopes, curves = loss.slopes(scores, targets), loss.curve(scores, targets, direction)
    slope = slope_along(lambda s: loss.values(s, targets), scores, direction, step)
    largest = max(1, np.max(loss.values(scores, targets)), np.max(np.abs(slopes)) * np.max(np.abs(scores)))
    np.testing.assert_allclose(np.sum(slopes * direction, axis=1), slope, rtol=0, atol=truncation + 4 * EPS / step * largest)
    curve = slope_along(lambda s: loss.slopes(s, targets), scores, direction, step)
    largest = max(1, np.max(np.abs(slopes)), loss.bound * np.max(np.abs(scores)))
    np.testing.assert_allclose(curves, curve, rtol=0, atol=truncation + 4 * EPS / step * largest)


@each_loss
@pytest.mark.parametrize("c", [1, 4])
def test_curvature_is_the_diagonal_and_within_its_bound(name, c):
    loss, scores, targets, _ = case(name, c=c, n=200)
    second = matrices(loss, scores, targets)
    np.testing.assert_allclose(loss.curvature(scores, targets), np.diagonal(second, axis1=1, axis2=2), rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(second, second.transpose(0, 2, 1), rtol=0, atol=ROUNDING)
    eigenvalues = np.linalg.eigvalsh(second)
    assert eigenvalues.min() >= -ROUNDING
    assert eigenvalues.max() <= loss.bound * (1 + ROUNDING)


def test_bounds_are_reached():
    assert Logistic().curvature(np.zeros((1, 1)), np.ones((1, 1)))[0, 0] == Logistic().bound
    halves = np.array([[0.0, 0.0, -800.0]])  # two classes of equal chance, and one of none
    assert np.linalg.eigvalsh(matrices(Multinomial(), halves, np.eye(3)[:1])[0])[-1] == Multinomial().bound
    assert Squared().curvature(np.zeros((1, 1)), np.ones((1, 1)))[0, 0] == Squared().bound


@pytest.mark.parametrize(("epsilon", "gamma"), [*BANDS, (0.13, 10.0), (0.14, 10.0), (0.3, 10.0)])
def test_bound_of_a_band_is_its_largest_curvature(epsilon, gamma):
    """On both sides of cosh(gamma epsilon) = 2, above which the curvature is largest near the edges of the band."""
    loss, b = EpsilonLogistic(epsilon, gamma), gamma * epsilon
    residuals = np.r_[0, np.geomspace(1e-3, 1e3, 2000), b + np.linspace(-3, 3, 2001)][:, None] / gamma
    curvature = loss.curvature(residuals, np.zeros_like(residuals))
    assert curvature.max() <= loss.bound * (1 + ROUNDING)
    # Around the largest curvature it falls by about the square of the distance, which is at most 3e-3 / 2 on this grid.
    assert curvature.max() >= loss.bound * (1 - 3e-6)
    assert gamma / 4 * (1 - ROUNDING) <= loss.bound <= gamma / 2
    k = math.cosh(min(b, 700))
    peak = np.array([[math.acosh(max(k - 2 / k, 1)) / gamma if b < 700 else epsilon]])
    assert loss.curvature(peak, np.zeros((1, 1)))[0, 0] == pytest.approx(loss.bound, rel=ROUNDING)


@each_loss
@pytest.mark.parametrize("c", [1, 3])
def test_adding_a_number_to_all_scores(name, c):
    loss, scores, targets, _ = case(name, c=c)
    unchanged = np.allclose(loss.values(scores + 1.5, targets), loss.values(scores, targets), rtol=0, atol=10 * ROUNDING)
    assert unchanged == loss.shift_free


@pytest.mark.parametrize(
    ("name", "size"), [(name, size) for name in EVERY_LOSS for size in (1e4, 1e150 if name == "squared" else 1e300)]
)
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
    elif name == "multinomial":
        expected = scores.max(axis=1) - np.sum(scores * targets, axis=1)
    else:
        expected = np.sum(np.abs(scores - targets) ** (2 if name == "squared" else 1), axis=1)
    # Ties between classes; three columns that lose epsilon and as much again at the rounded edges of the band.
    np.testing.assert_allclose(values, expected, rtol=1e-12, atol=np.log(3))


def test_scores_that_overflow_when_multiplied_by_gamma():
    loss, scores, zeros = EpsilonLogistic(gamma=1e10), np.array([[1e300], [-1e300]]), np.zeros((2, 1))
    assert loss.values(scores, zeros).tolist() == [1e300, 1e300]
    assert loss.slopes(scores, zeros).tolist() == [[1], [-1]]
    assert loss.curvature(scores, zeros).tolist() == [[0], [0]]


@each_of_classifiers
def test_slopes_of_confident_scores_keep_their_digits(name):
    loss = LOSSES[name]
    scores, targets = (
        (np.array([[60.0]]), np.ones((1, 1))) if name == "logistic" else (np.array([[60.0, 0.0]]), np.eye(2)[:1])
    )
    assert loss.slopes(scores, targets)[0, 0] == pytest.approx(-np.exp(-60.0), rel=1e-13)


def column(*numbers):
    return np.array(numbers, dtype=np.float64)[:, None]


SCORES = [s * x for s in (-1, 1) for x in (1e-8, 1e-3, 1.0, 40.0, 700.0, 1e4)]
VANISHING = 1e-290
"""Numbers below this, times and over gamma, may underflow on the way."""


def exact_band(r, epsilon, gamma):
    """Value and slope of the band's loss by its formula, in the precision that mpmath works in now.

    Of 50 digits the value loses two for each of those that gamma |r| is small by: at most 22 of them here.
    """
    r, e, g = mpmath.mpf(r), mpmath.mpf(epsilon), mpmath.mpf(gamma)
    one, two = mpmath.exp(g * (r - e)), mpmath.exp(g * (-r - e))
    value = (mpmath.log1p(one) + mpmath.log1p(two) - 2 * mpmath.log1p(mpmath.exp(-g * e))) / g
    return value, one / (1 + one) - two / (1 + two)


def exact_band_conjugate(u, epsilon, gamma):
    """sup_r (u r - l(r)): at the r of slope u, or at |u| = 1 the limit of r - l(r) for large r."""
    u, e, g = mpmath.mpf(u), mpmath.mpf(epsilon), mpmath.mpf(gamma)
    if abs(u) == 1:
        return e + 2 * mpmath.log(1 + mpmath.exp(-g * e)) / g
    k, v = mpmath.cosh(g * e), abs(u)
    r = mpmath.sign(u) * mpmath.log((k * v + mpmath.sqrt(k**2 * v**2 + 1 - v**2)) / (1 - v)) / g
    value, slope = exact_band(r, epsilon, gamma)
    assert abs(slope - u) < mpmath.mpf(10) ** -40  # the r is the right one
    return u * r - value


@each_band
def test_band_in_fifty_digits(epsilon, gamma):
    loss = EpsilonLogistic(epsilon, gamma)
    edges = [epsilon * (1 - 1e-9), epsilon, epsilon * (1 + 1e-9), epsilon + 1 / gamma]
    residuals = [r for r in (*SCORES, 0.0, *edges, *(-r for r in edges)) if abs(r) <= 1e4]
    with mpmath.workdps(50):
        expected = np.array([[float(x) for x in exact_band(r, epsilon, gamma)] for r in residuals])
    scores = column(*residuals)
    zeros = np.zeros_like(scores)
    # Inside the band both are proportional to e^t, t = gamma (|r| - epsilon), and rounding of t is eps |t| of them.
    inside = np.clip(gamma * (epsilon - np.abs(scores[:, 0])), 0, None)
    tolerance = VANISHING + 8 * EPS * (1 + inside)[:, None] * np.abs(expected)
    found = np.c_[loss.values(scores, zeros), loss.slopes(scores, zeros)]
    assert np.all(np.abs(found - expected) <= tolerance)
    assert found[residuals.index(0.0)].tolist() == [0, 0]


@each_band
def test_conjugate_of_a_band_in_fifty_digits(epsilon, gamma):
    slopes = [0.0, 1e-8, 1e-3, 0.3, 0.5 - EPS, 0.5, 0.9, 1 - 1e-8, 1 - EPS / 2, 1.0]
    slopes += [-u for u in slopes]
    with mpmath.workdps(50):
        expected = [float(exact_band_conjugate(u, epsilon, gamma)) for u in slopes]
    found = EpsilonLogistic(epsilon, gamma).conjugate(column(*slopes), np.zeros((len(slopes), 1)))
    np.testing.assert_allclose(found, expected, rtol=16 * EPS, atol=0)  # a dozen operations, none of which cancels


def test_logistic_in_fifty_digits():
    signs = np.ones((len(SCORES), 1))
    with mpmath.workdps(50):
        powers = [mpmath.exp(-mpmath.mpf(f)) for f in SCORES]
        values = [float(mpmath.log1p(x)) for x in powers]
        slopes = [float(-x / (1 + x)) for x in powers]
    for y in (1, -1):  # one or two operations; e^-1e4 underflows
        np.testing.assert_allclose(Logistic().values(y * column(*SCORES), y * signs), values, rtol=4 * EPS, atol=VANISHING)
        found = y * Logistic().slopes(y * column(*SCORES), y * signs)
        np.testing.assert_allclose(found, column(*slopes), rtol=4 * EPS, atol=VANISHING)


def test_multinomial_in_fifty_digits():
    scores = np.array([[0.0, x, -x / 2] for x in SCORES])
    own = np.arange(len(SCORES)) % 3
    with mpmath.workdps(50):
        powers = [[mpmath.exp(mpmath.mpf(f)) for f in row] for row in scores]
        values = [float(mpmath.log(sum(row)) - mpmath.log(row[k])) for row, k in zip(powers, own, strict=True)]
        slopes = np.array([[float(x / sum(row)) for x in row] for row in powers])
        for i, k in enumerate(own):
            slopes[i, k] = -float(sum(x for j, x in enumerate(powers[i]) if j != k) / sum(powers[i]))
    one_hot = np.eye(3)[own]
    # The values are logarithms of numbers of order one or more, and the slopes products of four numbers.
    np.testing.assert_allclose(Multinomial().values(scores, one_hot), values, rtol=4 * EPS, atol=4 * EPS)
    np.testing.assert_allclose(Multinomial().slopes(scores, one_hot), slopes, rtol=8 * EPS, atol=VANISHING)


def test_conjugates_of_classifiers_in_fifty_digits():
    """Both are p log p + (1 - p) log(1 - p) where there are two classes, and p the chance of the other one."""
    chances = [1e-300, 1e-20, 1e-8, 0.3, 0.5, 0.9, 1 - 1e-8, 1 - EPS / 2]
    with mpmath.workdps(350):  # fifty digits of 1 - 1e-300 less one
        exact = [mpmath.mpf(p) for p in chances]
        expected = [0.0, *(float(p * mpmath.log(p) + (1 - p) * mpmath.log(1 - p)) for p in exact), 0.0]
    slopes = column(0, *chances, 1)
    for y in (1, -1):
        np.testing.assert_allclose(Logistic().conjugate(-y * slopes, np.full_like(slopes, y)), expected, rtol=4 * EPS)
    one_hot = np.tile([1.0, 0.0], (len(slopes), 1))
    np.testing.assert_allclose(Multinomial().conjugate(np.c_[-slopes, slopes], one_hot), expected, rtol=4 * EPS)


def test_conjugates_are_the_formulas():
    multinomial, scores, one_hot, _ = case("multinomial")
    slopes = multinomial.slopes(scores, one_hot)
    chances = slopes + one_hot
    naive = np.sum(chances * np.log(chances), axis=1)
    np.testing.assert_allclose(multinomial.conjugate(slopes, one_hot), naive, rtol=0, atol=ROUNDING)
    squared, slopes, targets, _ = case("squared")
    naive = np.sum(slopes**2 / 4 + slopes * targets, axis=1)
    np.testing.assert_allclose(squared.conjugate(slopes, targets), naive, rtol=0, atol=10 * ROUNDING)  # numbers of order ten
    logistic, scores, signs, _ = case("logistic")
    slopes = logistic.slopes(scores, signs)
    p = -slopes * signs
    naive = np.sum(p * np.log(p) + (1 - p) * np.log(1 - p), axis=1)
    np.testing.assert_allclose(logistic.conjugate(slopes, signs), naive, rtol=0, atol=ROUNDING)


def fenchel_young(loss, scores, targets, slopes):
    """l(f) + l*(u) - u . f, and the size of its terms: both (n,)."""
    terms = loss.values(scores, targets), loss.conjugate(slopes, targets), -np.sum(slopes * scores, axis=1)
    return sum(terms), np.abs(terms).sum(axis=0) + np.sum(np.abs(slopes) * (np.abs(scores) + np.abs(targets)), axis=1)


@each_loss
@pytest.mark.parametrize("c", [1, 3])
@pytest.mark.parametrize("size", [1e-8, 1.0, 30.0, 1e4])
def test_fenchel_young(name, c, size):
    loss, scores, targets, _ = case(name, c=c, size=size, n=50)
    slopes = loss.slopes(scores, targets)
    # Rounding of the terms: a few eps of each, and of one where values are logarithms of numbers of order one.
    least = 1 if name == "multinomial" else 0
    gap, scale = fenchel_young(loss, scores, targets, slopes)
    assert np.all(np.abs(gap) <= 8 * EPS * (scale + least))
    for part in (0.0, 0.3, 0.9):
        gap, scale = fenchel_young(loss, scores, targets, part * slopes)
        assert np.all(gap >= -8 * EPS * (scale + least))
    other = np.random.default_rng(1).permutation(50)
    gap, scale = fenchel_young(loss, scores, targets, loss.slopes(scores[other], targets))
    assert np.all(gap >= -8 * EPS * (scale + least))
    if size == 1 and (name, c) != ("multinomial", 1):  # where a loss of one class is zero
        assert np.max(gap) > 0.01


@each_band
def test_fenchel_young_of_bands(epsilon, gamma):
    loss = EpsilonLogistic(epsilon, gamma)
    scores = column(*SCORES, 0.0, 0.99 * epsilon, epsilon, epsilon + 1 / gamma)
    targets = np.zeros_like(scores)
    gap, scale = fenchel_young(loss, scores, targets, loss.slopes(scores, targets))
    # Deep inside the band the terms are exponentials of gamma times the distance from its edge, which is rounded.
    inside = np.clip(gamma * (epsilon - np.abs(scores[:, 0])), 0, None)
    assert np.all(np.abs(gap) <= 8 * EPS * (1 + inside) * scale + VANISHING)


@each_loss
@pytest.mark.parametrize("share", [0.2, 0.7])
def test_conjugate_is_a_supremum(name, share):
    c = 2 if name == "multinomial" else 1
    loss, scores, targets, _ = case(name, c=c, n=5)
    slopes = share * loss.slopes(scores, targets)
    one = np.eye(c)[-1:]  # adding a number to all scores changes nothing, so the last one will do

    for k in range(5):
        row = slice(k, k + 1)

        def lost(f, row=row):
            return float(loss.values(f * one, targets[row])[0] - f * np.sum(slopes[row] * one))

        best = minimize_scalar(lost, bounds=(-50, 50), method="bounded", options={"xatol": 1e-9})
        # Comparing values finds the f of the best one to eps^(1/2) or so, and the value to a few eps of numbers up to ten.
        assert loss.conjugate(slopes[row], targets[row])[0] == pytest.approx(-best.fun, rel=0, abs=10 * ROUNDING)


@each_loss
@pytest.mark.parametrize("c", [1, 3, 100])
@pytest.mark.parametrize("size", [1e-8, 1.0, 40.0, 1e4])
def test_parts_of_slopes_have_conjugates(name, c, size):
    loss, scores, targets, _ = case(name, c=c, size=size, n=200)
    slopes = loss.slopes(scores, targets)
    for part in (0.3, 1.0, 1 / 3):
        assert np.isfinite(loss.conjugate(part * slopes, targets)).all()
    assert np.all(loss.conjugate(0 * slopes, targets) == 0)  # no loss here is ever below zero, which all come close to


def test_no_conjugate_outside_the_domain():
    one, just = np.ones((1, 1)), 1 + 2 * EPS
    found = Logistic().conjugate(column(-1.01, 0.01, -just, EPS), np.ones((4, 1)))
    assert found.tolist() == [np.inf, np.inf, 0, 0]
    band = EpsilonLogistic()
    assert band.conjugate(1.01 * one, 0 * one)[0] == band.conjugate(-1.01 * one, 0 * one)[0] == np.inf
    assert band.conjugate(just * one, 0 * one)[0] == band.conjugate(one, 0 * one)[0]
    one_hot = np.array([[1.0, 0.0, 0.0]])
    outside = np.array([[-0.5, 0.6, -0.1], [-0.5, 0.25, 0.26], [0.1, -0.05, -0.05], [-1.1, 0.6, 0.5]])
    assert np.all(Multinomial().conjugate(outside, np.tile(one_hot, (4, 1))) == np.inf)
    assert Multinomial().conjugate(np.array([[-just, just, -EPS]]), one_hot)[0] == 0
    assert np.isfinite(Squared().conjugate(1e6 * one, one)[0])


@each_loss
def test_conjugates_keep_what_is_not_a_number(name):
    loss, scores, targets, _ = case(name, n=3)
    slopes = loss.slopes(scores, targets)
    slopes[1] = np.nan
    assert np.isnan(loss.conjugate(slopes, targets)).tolist() == [False, True, False]


@pytest.mark.parametrize("bad", [-0.1, np.inf, np.nan, None])
def test_impossible_bands(bad):
    with pytest.raises(ValueError, match=rf"epsilon must be a finite number, zero or larger .* got {bad}"):
        EpsilonLogistic(epsilon=bad)
    with pytest.raises(ValueError, match=rf"gamma must be a finite number larger than zero .* got {bad}"):
        EpsilonLogistic(gamma=bad)


def test_impossible_sharpness():
    with pytest.raises(ValueError, match=r"gamma must be a finite number larger than zero .* got 0"):
        EpsilonLogistic(gamma=0)
    with pytest.raises(ValueError, match=r"gamma \* epsilon must be finite, got gamma=1e\+200 and epsilon=1e\+200"):
        EpsilonLogistic(epsilon=1e200, gamma=1e200)
