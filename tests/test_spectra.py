"""Learned frequencies: their gradients, mixtures as limits, and that they stay where they do not help."""

from dataclasses import replace

import numpy as np
import pytest

from bochner import KernelClassifier, KernelRegressor, spectra
from bochner.criteria import HeldOutError
from bochner.features import FeatureChoices, build_map
from bochner.folds import Folds, Rows
from bochner.kernels import Gaussian, MetricKernel
from bochner.spectra import GROUPS, Points, learn_spectrum, to_points


def rows_of(X, y, parts=4):
    return Folds(tuple(Rows(X[k::parts], y[k::parts, None], np.ones(len(X[k::parts]))) for k in range(parts)), (0, 1, 2, 3))


def drawn(kernel, n_columns, n_features=16):
    return build_map(kernel, n_columns, FeatureChoices(n_features=n_features), np.random.default_rng(0))


@pytest.mark.parametrize("kind", ["free", "mixture"])
@pytest.mark.parametrize("kernel", [Gaussian(scale=np.array([1.0, 0.3, 2.0])), MetricKernel(Gaussian(), np.eye(3)[:, :2])])
def test_the_gradient_in_the_numbers(kind, kernel):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((80, 3))
    criterion, feature_map = HeldOutError(rows_of(X, np.sin(3 * X[:, 0])), penalty=1e-2), drawn(kernel, 3)
    points = Points(np.asarray(feature_map.points), kind)
    numbers = 0.2 * rng.standard_normal(points.n_numbers)

    def evaluate(numbers, *, gradient):
        return criterion.evaluate(replace(feature_map, points=points.at(numbers)), gradient=gradient)

    slopes = points.back(to_points(kernel, evaluate(numbers, gradient=True).gradient.frequencies), numbers)
    for k in range(0, len(numbers), 5):
        step = 1e-5 * np.eye(len(numbers))[k]
        near = [evaluate(numbers + sign * step, gradient=False).value for sign in (1, -1)]
        assert slopes[k] == pytest.approx((near[0] - near[1]) / 2e-5, rel=1e-4, abs=1e-8)


def test_groups_that_are_stretched_alike_are_a_kernel_of_other_scales():
    feature_map = drawn(Gaussian(scale=np.ones(3)), 3)
    points = Points(np.asarray(feature_map.points), "mixture")
    stretched = points.at(np.tile(np.log([2.0, 0.5, 1.0]), GROUPS))
    other = feature_map.with_kernel(Gaussian(scale=np.array([2.0, 0.5, 1.0])))
    np.testing.assert_allclose(stretched, other.frequencies, rtol=1e-12)


def waves(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 8))
    directions = np.random.default_rng(7).standard_normal((8, 3)) / 2
    return X, np.sin(X @ directions).sum(axis=1) + 0.02 * rng.standard_normal(n)


def test_free_frequencies_find_waves_that_few_random_ones_miss():
    (X, y), (X_new, y_new) = waves(1500), waves(500, seed=1)
    options = {"n_features": 64, "random_state": 0}
    plain = KernelRegressor("gaussian", **options).fit(X, y)
    free = KernelRegressor("gaussian", spectrum="free", **options).fit(X, y)
    assert plain.spectrum_ == []
    assert [row["strength"] for row in free.spectrum_ if row["chosen"]] != [float("inf")]
    assert 1 - free.score(X_new, y_new) < 0.7 * (1 - plain.score(X_new, y_new))


@pytest.mark.parametrize("kind", ["free", "mixture"])
def test_frequencies_stay_where_there_is_nothing_to_learn(kind):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((200, 4)), rng.standard_normal(200)
    feature_map = drawn(Gaussian(scale=np.ones(4)), 4, 64)
    options = {"criterion": HeldOutError, "place": lambda folds: folds}
    found = learn_spectrum(rows_of(X, y), feature_map, -2.0, kind, **options)
    assert found.feature_map is feature_map
    assert [row["chosen"] for row in found.ladder] == [True, False, False, False]


def test_frequencies_stay_where_all_held_out_parts_say_so(monkeypatch):
    """Rows set aside, by chance, let through frequencies that are far too high."""

    def by_chance(_folds, feature_map, *_arguments, **_options):
        wild = replace(feature_map, points=50 * feature_map.points)
        ladder = [
            {"spectrum": "prior", "strength": float("inf"), "error": 1.0, "chosen": False},
            {"spectrum": "free", "strength": 0.1, "error": 0.9, "chosen": True},
        ]
        return spectra.SpectrumChoice(wild, ladder)

    X, y = waves(300)
    options = {"n_features": 64, "random_state": 0}
    plain = KernelRegressor("gaussian", **options).fit(X, y)
    monkeypatch.setattr(spectra, "learn_spectrum", by_chance)
    free = KernelRegressor("gaussian", spectrum="free", **options).fit(X, y)
    assert [row["chosen"] for row in free.spectrum_] == [True, False]
    np.testing.assert_array_equal(free.predict(X), plain.predict(X))


def test_what_is_refused():
    X, y = waves(60)
    with pytest.raises(ValueError, match="spectrum must be"):
        KernelRegressor(spectrum="any").fit(X, y)
    with pytest.raises(ValueError, match=r"spectrum='free' is not for criterion='loo': use spectrum='prior'"):
        KernelRegressor(spectrum="free", criterion="loo").fit(X, y)
    with pytest.raises(ValueError, match=r"spectrum='free' is not for loss='logistic'"):
        KernelClassifier(spectrum="free", loss="logistic").fit(X, y > 0)
    with pytest.raises(ValueError, match=r"spectrum='mixture' is for kernels of plain differences .* kernel is skewed_chi2"):
        KernelRegressor("skewed_chi2", spectrum="mixture").fit(np.abs(X), y)
