"""From a kernel and choices to a map, and the choices that are refused."""

import numpy as np
import pytest

from bochner.features import FeatureChoices, FourierMap, HomogeneousMap, build_map, draw_points
from bochner.features.build import DEFAULT_FEATURES, FORMS
from bochner.kernels import Chi2, Exponentiated, ExponentiatedChi2, Gaussian, Laplacian
from tests.cases import ADDITIVE, ALL, RANDOM, each, rows, small_map


@pytest.mark.parametrize("form", FORMS)
@each(RANDOM)
def test_sizes(kernel, form, rng):
    assert build_map(kernel, 3, FeatureChoices(form=form), rng).n_features == DEFAULT_FEATURES
    feature_map = build_map(kernel, 3, FeatureChoices(n_features=8, form=form), rng)
    assert isinstance(feature_map, FourierMap)
    assert feature_map.n_features == 8
    assert feature_map.n_columns == 3
    assert feature_map.points.shape == (3 * feature_map.inputs.width, 4 if form == "paired" else 8)
    assert (feature_map.phases is None) == (form == "paired")
    assert feature_map.kernel == kernel


@pytest.mark.parametrize("order", [0, 1, 2, 3])
@each(ADDITIVE)
def test_sizes_of_additive_kernels(kernel, order, rng):
    feature_map = build_map(kernel, 3, FeatureChoices(order=order), rng)
    assert isinstance(feature_map, HomogeneousMap)
    assert feature_map.n_features == 3 * (2 * order + 1)
    again = build_map(kernel, 3, FeatureChoices(order=order, n_features=3 * (2 * order + 1)), rng)
    X = rows(kernel, 4, 3)
    np.testing.assert_array_equal(again.forward(X), feature_map.forward(X))


@pytest.mark.parametrize("order", [0, 1, 3])
@each({name: kernel for name, kernel in ALL.items() if kernel.geometry == "exponentiated"})
def test_order_of_exponentiated_kernels(kernel, order, rng):
    feature_map = build_map(kernel, 2, FeatureChoices(n_features=6, order=order), rng)
    assert feature_map.points.shape == (2 * (2 * order + 1), 3)


def test_numpy_integers_are_whole_numbers(rng):
    choices = FeatureChoices(n_features=np.int64(6), order=np.int32(1))
    assert build_map(ExponentiatedChi2(), 2, choices, rng).n_features == 6


@each({name: kernel for name, kernel in ALL.items() if kernel.geometry in ("product", "radial")})
def test_order_is_refused_where_there_is_no_homogeneous_map(kernel, rng):
    with pytest.raises(ValueError, match="has no homogeneous map: leave order out"):
        build_map(kernel, 2, FeatureChoices(order=2), rng)


@each(ADDITIVE)
def test_phases_are_refused_where_nothing_is_random(kernel, rng):
    with pytest.raises(ValueError, match="has no random phases: leave it out"):
        build_map(kernel, 2, FeatureChoices(form="phase"), rng)


def test_an_exponentiated_kernel_has_one_scale():
    with pytest.raises(ValueError, match="give the scale to the exponentiated kernel"):
        Exponentiated(additive=Chi2(scale=5.0))


@pytest.mark.parametrize("value", [0, -2, 2.0, 1.5, "many", True, np.nan, [4]])
def test_n_features_must_be_a_positive_whole_number(value):
    with pytest.raises(ValueError, match="n_features must be a positive whole number or None"):
        FeatureChoices(n_features=value)


def test_odd_n_features_need_phases(rng):
    with pytest.raises(ValueError, match=r"n_features must be even.* got 7: use 8, or form='phase'"):
        build_map(Gaussian(), 2, FeatureChoices(n_features=7), rng)
    assert build_map(Gaussian(), 2, FeatureChoices(n_features=7, form="phase"), rng).n_features == 7


@pytest.mark.parametrize("value", ["pairs", "", None, 2])
def test_form(value):
    with pytest.raises(ValueError, match="form must be 'paired' or 'phase'"):
        FeatureChoices(form=value)


@pytest.mark.parametrize("value", ["sobol", "", None, 2])
def test_sampling(value):
    with pytest.raises(ValueError, match="sampling must be one of 'iid', 'orthogonal', 'qmc' or 'auto'"):
        FeatureChoices(sampling=value)


@pytest.mark.parametrize("value", [-1, 1.5, "two", True])
def test_order(value):
    with pytest.raises(ValueError, match="order must be a whole number, zero or more"):
        FeatureChoices(order=value)


@pytest.mark.parametrize("size", [14, 16, 1000])
@each(ADDITIVE)
def test_n_features_that_contradict_an_additive_kernel(kernel, size, rng):
    with pytest.raises(ValueError, match=f"n_features={size}, but .* 15 in all: leave n_features out"):
        build_map(kernel, 3, FeatureChoices(n_features=size), rng)


@each(ADDITIVE)
def test_choices_that_mean_nothing_to_an_additive_kernel(kernel, rng):
    with pytest.raises(ValueError, match=r"sampling='iid', but the features of .* are not random"):
        build_map(kernel, 3, FeatureChoices(sampling="iid"), rng)


@each(ALL)
def test_scale_of_the_wrong_length(kernel, rng):
    with pytest.raises(ValueError, match="scale has 2 entries and the rows have 3 columns"):
        build_map(kernel.replace(scale=[1.0, 2.0]), 3, FeatureChoices(), rng)


@pytest.mark.parametrize("form", FORMS)
@each(RANDOM)
def test_the_same_seed_makes_the_same_map_whatever_the_scale(kernel, form):
    first, again, other = (
        small_map(k, 3, form=form, seed=seed) for k, seed in ((kernel, 0), (kernel.replace(scale=2.0), 0), (kernel, 1))
    )
    np.testing.assert_array_equal(first.points, again.points)
    assert not np.array_equal(first.points, other.points)
    if form == "phase":
        np.testing.assert_array_equal(first.phases, again.phases)
        assert np.all((first.phases >= 0) & (first.phases < 2 * np.pi))


def test_points_one_a_row(rng):
    assert draw_points(Gaussian(), 7, 3, sampling="auto", rng=rng).shape == (7, 3)
    assert draw_points(Laplacian(), 7, 3, sampling="auto", rng=rng).shape == (7, 3)
