"""What goes with each column, against formulas."""

import numpy as np

from bochner import KernelRegressor
from bochner.effects import MOST_ROWS, total_effects


def test_effects_of_a_sum_and_a_product_are_those_of_the_formula():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 4))
    found = total_effects(lambda rows: np.c_[3 * rows[:, 0] + rows[:, 1] * rows[:, 2], 2 * rows[:, 1]], X, rng)
    # Twice the variances 9 + 0, 1 + 4, 1 and 0. The mean of 256 squares has a standard error of at most sqrt(50 / 256) of
    # itself: a square of a product of three normal variables has a relative variance below 50.
    np.testing.assert_allclose(found, [18, 10, 2, 0], rtol=4 * (50 / MOST_ROWS) ** 0.5)
    assert found[3] == 0


def test_effects_do_not_depend_on_how_many_columns_are_tried_at_a_time(monkeypatch):
    X = np.random.default_rng(1).standard_normal((50, 7))
    weights = np.arange(7.0)[:, None]
    whole = total_effects(lambda rows: rows @ weights, X, np.random.default_rng(2))
    monkeypatch.setattr("bochner.effects.AT_A_TIME", 100)
    parts = total_effects(lambda rows: rows @ weights, X, np.random.default_rng(2))
    np.testing.assert_allclose(parts, whole, rtol=1e-12)


def test_a_straight_line_counts_though_its_scale_is_small():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 4))
    y = 5 * X[:, 0] + 0.2 * np.sin(6 * X[:, 1]) + 0.05 * rng.standard_normal(400)
    relevance = KernelRegressor(n_features=200, random_state=0).fit(X, y).relevance_
    assert relevance[0] == 1
    assert relevance[1:].max() < 0.2  # the sine has 0.2 / 5 of the spread of the line
