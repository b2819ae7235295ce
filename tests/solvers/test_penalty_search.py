"""PenaltySearch: the minimum of a function of one variable, against a fine grid."""

from dataclasses import dataclass

import numpy as np
import pytest

from bochner.criteria import FoldedMoments, FoldedRidge
from bochner.solvers.penalty_search import GRID_POINTS, HIGHEST_PENALTY, LOWEST_PENALTY, PRECISION, PenaltySearch
from bochner.statistics import Moments

LOW, HIGH = float(np.log(LOWEST_PENALTY)), float(np.log(HIGHEST_PENALTY))
INSIDE = 1e-12
"""Slack for points that a formula puts on the end of the range."""


@dataclass
class Point:
    value: float
    slope: float
    log_alpha: float
    curvature: float | None = None


class Search(PenaltySearch):
    """A function and its derivative, and where it was asked for."""

    def __init__(self, value, slope):
        self.value, self.slope, self.asked = value, slope, []

    def at(self, log_alpha):
        self.asked.append(log_alpha)
        return Point(float(self.value(log_alpha)), float(self.slope(log_alpha)), log_alpha)


def valley(centre):
    """1 + x^2 / (1 + x^2 / 9) around a centre: flat far away, like held-out errors."""
    return Search(
        lambda t: 1 + (t - centre) ** 2 / (1 + (t - centre) ** 2 / 9),
        lambda t: 2 * (t - centre) / (1 + (t - centre) ** 2 / 9) ** 2,
    )


@pytest.mark.parametrize("start", [None, -3.0, -5.2, 1.0])
@pytest.mark.parametrize("centre", [-4.0, -3.1, -5.7])
def test_minimum(centre, start):
    search = valley(centre)
    best = search.best(start)
    # The search ends where a Newton step promises less than PRECISION; the curvature, a secant's, is right to a factor two.
    assert best.value - 1 <= 2 * PRECISION * best.value
    assert len(search.asked) <= GRID_POINTS + 12


@pytest.mark.parametrize("start", [None, LOW, HIGH, -100.0, 100.0, -5.0])
@pytest.mark.parametrize("slope", [1.0, -1.0])
def test_a_slope_leads_to_the_end_of_the_range(slope, start):
    search = Search(lambda t: 100 + slope * t, lambda t: slope)
    best = search.best(start)
    assert best.log_alpha == pytest.approx(LOW if slope > 0 else HIGH, abs=INSIDE)
    assert all(LOW - INSIDE <= t <= HIGH + INSIDE for t in search.asked)


@pytest.mark.parametrize("start", [None, -2.0, 50.0])
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_flat(value, start):
    search = Search(lambda t: value, lambda t: 0.0)
    best = search.best(start)
    assert best.value == value
    assert LOW - INSIDE <= best.log_alpha <= HIGH + INSIDE


def test_never_worse_than_its_start():
    rng = np.random.default_rng(0)
    for start in rng.uniform(LOW, HIGH, 20):
        search = Search(lambda t: 2 + np.sin(3 * t), lambda t: 3 * np.cos(3 * t))
        assert search.best(float(start)).value <= 2 + np.sin(3 * start)


@pytest.mark.parametrize("noise", [0.0, 0.3, 3.0])
@pytest.mark.parametrize("folds", [2, 5])
def test_held_out_error(folds, noise):
    """The real thing: ridge regressions on moments, with and without a start."""
    rng = np.random.default_rng([folds, round(10 * noise)])
    features = rng.standard_normal((60, 12)) / 12**0.5
    targets = features @ rng.standard_normal((12, 2)) + noise * rng.standard_normal((60, 2))
    weights = rng.gamma(2.0, 0.5, 60)
    parts = [Moments.of(features[k::folds], targets[k::folds], weights[k::folds]) for k in range(folds)]
    ridge = FoldedRidge(FoldedMoments(parts, sum(parts[1:], parts[0]), tuple(range(folds)), 2 * float(weights.sum())))
    grid = np.linspace(LOW, HIGH, 1201)
    values = [ridge.at(t).value for t in grid]
    least = min(values)
    for start in (None, float(grid[int(np.argmin(values))] + 2.0)):
        best = ridge.best(start)
        assert LOW - INSIDE <= best.log_alpha <= HIGH + INSIDE
        # "To a thousandth of the error": a slope of 1e-3 of the value over the width of a valley, about one.
        # Without noise the error is rounding of the sums of squares, of size one.
        assert best.value <= least * (1 + 1e-3) + 60 * np.finfo(float).eps


@pytest.mark.parametrize("log_alpha", [-20.0, -6.0, 0.0, 2.0])
def test_slope_in_log_alpha(log_alpha):
    rng = np.random.default_rng(3)
    features, targets, weights = rng.standard_normal((40, 6)) + 1, rng.standard_normal((40, 2)), rng.gamma(2.0, 0.5, 40)
    parts = [Moments.of(features[k::3], targets[k::3], weights[k::3]) for k in range(3)]
    for validated in ((0, 1, 2), (1,)):
        ridge = FoldedRidge(FoldedMoments(parts, sum(parts[1:], parts[0]), validated, 2.0))
        step = 1e-2
        near = ridge.at(log_alpha + step).value - ridge.at(log_alpha - step).value
        far = ridge.at(log_alpha + 2 * step).value - ridge.at(log_alpha - 2 * step).value
        # Fourth order: h^4 / 30 of a fifth derivative, 1e-9 of the slope; rounding of values of size W = 40: 1e-12.
        difference = (8 * near - far) / (12 * step)
        assert ridge.at(log_alpha).slope == pytest.approx(difference, rel=1e-6, abs=1e-11)
