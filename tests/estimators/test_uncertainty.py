"""predict(return_std=True): against scikit-learn's Gaussian process, its normalisation, and its coverage."""

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct

from bochner import KernelRegressor
from tests.estimators.learners import EPS, features_of, fixed, regressor, solving_error, table

WIDE = 30.0
"""Prior deviation of the intercept in the Gaussian process, where that of a coefficient is one."""


def process_variance(kernel, train, new, noise):
    """Variance of a new observation over that of the noise, by scikit-learn's Gaussian process with fixed parameters."""
    process = GaussianProcessRegressor(kernel, alpha=noise, optimizer=None).fit(train, np.zeros(len(train)))
    return process.predict(new, return_std=True)[1] ** 2


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("pieces", [1, 2])
def test_it_is_the_deviation_of_a_gaussian_process(weighted, pieces):
    """Ridge regression of penalty alpha is the posterior mean for coefficients of variance one and noise W alpha / w."""
    X, y = table()
    weights = np.random.default_rng(0).gamma(2.0, 0.5, 60) if weighted else np.ones(60)
    model = fixed(KernelRegressor)
    for part in np.array_split(np.arange(60), pieces):
        model.partial_fit(X[part], y[part], sample_weight=weights[part])
    new = 3 * table(seed=1)[0]
    deviations = model.predict(new, return_std=True)[1]
    features = features_of(model, X)
    unit = weights[: 60 // pieces].mean()  # weights have a mean of one over the rows of the first call
    total = weights.sum() / unit
    noise = total * 1e-2
    variance = process_variance(
        DotProduct(sigma_0=WIDE), features, features_of(model, new), noise * unit / weights
    )  # of the mean alone: the noise of a new row comes on top
    expected = 1 + variance / noise
    # The model's intercept is free: its variance 1 / W is 1 / (W + noise / WIDE^2) in the process, a part of
    # alpha / WIDE^2 less. The process solves a system whose condition is WIDE^2 n / (noise / largest weight).
    condition = WIDE**2 * 60 / np.min(noise * unit / weights)
    tolerance = 1e-2 / WIDE**2 + 60 * EPS * condition
    ratio = (deviations / deviations[0]) ** 2
    np.testing.assert_allclose(ratio, expected / expected[0], rtol=4 * tolerance)
    on_rows = model.predict(X, return_std=True)[1] / model.residual_deviation_
    assert weights @ on_rows**2 / weights.sum() == pytest.approx(1, rel=solving_error(features, 1e-2))


def test_it_approaches_the_process_of_the_exact_kernel():
    X, y = table(40)
    new = table(seed=1)[0][:20]
    noise = 40 * 0.1
    kernel = RBF(length_scale=1 / 0.7) + ConstantKernel(WIDE**2)
    exact = 1 + process_variance(kernel, X, new, noise) / noise

    def error(n_features):
        found = []
        for seed in range(6):
            model = fixed(KernelRegressor, alpha=0.1, n_features=n_features, random_state=seed, sampling="iid").fit(X, y)
            variance = (model.predict(new, return_std=True)[1] / model.residual_deviation_) ** 2
            found.append(np.max(np.abs(variance / variance.mean() - exact / exact.mean())))
        return np.mean(found)

    # Errors of the features fall by the square root of 64; half of that is left to the spread over six seeds.
    assert error(1024) < error(16) / 4


def test_the_noise_is_the_held_out_error():
    X, y = table()
    model = fixed(KernelRegressor).fit(X, y)
    # One target: residual_deviation_ is the held-out error in the units of the target.
    assert model.residual_deviation_[0] ** 2 == pytest.approx(model.validation_error_ * y.var(), rel=1e-8)


@pytest.mark.parametrize("criterion", ["kfold", "holdout", "loo"])
def test_every_criterion_gives_it(criterion):
    X, y = table()
    predictions, deviations = regressor(criterion=criterion).fit(X, y).predict(X, return_std=True)
    assert predictions.shape == deviations.shape == (60,)
    assert (deviations > 0).all()
    np.testing.assert_array_equal(predictions, regressor(criterion=criterion).fit(X, y).predict(X))


@pytest.mark.parametrize("alpha", [None, 1e-2, "per-target"])
def test_several_targets(alpha):
    X, y = table()
    Y = np.stack([y, 10 * y + 3, X[:, 1]], axis=1)
    model = fixed(KernelRegressor, alpha=alpha).fit(X, Y)
    predictions, deviations = model.predict(X, return_std=True)
    assert predictions.shape == deviations.shape == (60, 3)
    assert model.residual_deviation_.shape == (3,)
    # The second target is the first in other units. Penalties of equal problems may differ by what rounding does to a
    # search that ends at a part of 1e-4 of the error.
    np.testing.assert_allclose(deviations[:, 1], 10 * deviations[:, 0], rtol=1e-6)


def test_it_grows_away_from_the_rows():
    X = np.linspace(-1, 1, 60)[:, None]
    model = fixed(KernelRegressor).fit(X, np.sin(3 * X[:, 0]))
    near, far = (model.predict(A, return_std=True)[1] for A in (X, np.array([[4.0], [-4.0]])))
    assert far.min() > near.max()


@pytest.mark.parametrize("value", [0.0, 7.0])
def test_a_constant_target_has_none(value):
    X, _ = table()
    deviations = regressor().fit(X, np.full(60, value)).predict(X, return_std=True)[1]
    assert (deviations >= 0).all()
    assert deviations.max() <= 1e-6 * max(1.0, value)  # held-out means of equal numbers are those numbers but for rounding


@pytest.mark.parametrize("unit", [1e-30, 1e30])
def test_unit_of_the_target(unit):
    X, y = table()
    one, two = (fixed(KernelRegressor).fit(X, a * y).predict(X, return_std=True)[1] for a in (1.0, unit))
    np.testing.assert_allclose(two, unit * one, rtol=solving_error(np.ones((60, 1)), 1e-2) * 32)


def test_float32_rows():
    X, y = table()
    one, two = (fixed(KernelRegressor).fit(A, y).predict(A, return_std=True)[1] for A in (X, X.astype(np.float32)))
    # Features in float32, products of condition 1 / alpha.
    np.testing.assert_allclose(two, one, rtol=64 * float(np.finfo(np.float32).eps) * 100)


def test_sums_that_were_not_kept():
    X, y = table()
    model = regressor(keep_moments=False).fit(X, y)
    with pytest.raises(ValueError, match=r"return_std needs .* fit with keep_moments=True"):
        model.predict(X, return_std=True)
    assert model.predict(X).shape == (60,)


@pytest.mark.parametrize("noise", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("criterion", ["kfold", "loo"])
def test_coverage(noise, criterion):
    """Intervals of 1.96 deviations hold 95% of new observations, give or take.

    The share among 2000 new rows is off by half a percent. The held-out error of 200 rows gives the deviation of the noise
    to a part of 1 / sqrt(2 * 200) = 5%, or 15% at three deviations; intervals of 1.96 * 0.85 and 1.96 * 1.15 deviations
    hold 90.4% and 97.6%.
    """
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (2200, 2))
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + noise * rng.standard_normal(2200)
    model = regressor(n_features=64, criterion=criterion).fit(X[:200], y[:200])
    predictions, deviations = model.predict(X[200:], return_std=True)
    share = np.mean(np.abs(predictions - y[200:]) <= 1.96 * deviations)
    assert 0.90 <= share <= 0.99
