"""The forward map: against loops, unit norms, other arrays, sparse rows."""

from dataclasses import replace

import array_api_strict
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from bochner.features.build import FORMS
from bochner.kernels import Gaussian
from tests import naive
from tests.cases import ALL, RANDOM, each, feature_tolerance, rows, small_map, with_scales


def tolerances(feature_map, X, dtype=np.float64):
    """A bound for each feature, cosines and sines alike."""
    bound = feature_tolerance(feature_map, X, dtype) * (2 / feature_map.points.shape[1]) ** 0.5
    return bound if feature_map.phases is not None else np.tile(bound, 2)


def naive_features(feature_map, X):
    inputs = feature_map.inputs
    kernel = feature_map.kernel
    if inputs.width == 1:
        mapped = kernel.transform(X)
    else:
        mapped = naive.homogeneous_map(X, kernel.additive.spectrum, inputs.order, inputs.interval)
    frequencies = np.tile(kernel.scales(X.shape[1]), inputs.width)[:, None] * feature_map.points
    if feature_map.phases is None:
        return naive.paired_features(mapped, frequencies)
    return naive.phase_features(mapped, frequencies, feature_map.phases)


@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize("shared", [True, False], ids=["shared", "per column"])
@pytest.mark.parametrize("form", FORMS)
@each(RANDOM)
def test_forward_equals_the_formula(kernel, form, shared, m):
    kernel = with_scales(kernel, m, shared=shared)
    X = rows(kernel, 5, m)
    feature_map = small_map(kernel, m, form=form)
    features = feature_map.forward(X)
    assert features.shape == (5, feature_map.n_features)
    assert np.all(np.abs(features - naive_features(feature_map, X)) <= tolerances(feature_map, X))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@each(RANDOM)
def test_paired_features_are_unit_vectors(kernel, dtype):
    X = rows(kernel, 9, 3, dtype=dtype)
    features = small_map(kernel, 3, frequencies=50).place(X).forward(X)
    assert features.dtype == dtype
    # cos^2 + sin^2 is off by 2 * 8 * 2 eps at most (see test_trigonometry), and their mean by no more.
    np.testing.assert_allclose(np.sum(features.astype(float) ** 2, axis=1), 1, rtol=0, atol=40 * np.finfo(dtype).eps)


@pytest.mark.parametrize("form", FORMS)
@each(RANDOM)
def test_out_is_filled_and_returned(kernel, form):
    X = rows(kernel, 5, 3)
    feature_map = small_map(kernel, 3, form=form)
    out = np.empty((5, feature_map.n_features))
    assert feature_map.forward(X, out=out) is out
    np.testing.assert_array_equal(out, feature_map.forward(X))


@each({name: kernel for name, kernel in ALL.items() if kernel.geometry == "additive"})
def test_out_is_filled_by_the_homogeneous_map(kernel):
    X = rows(kernel, 5, 3)
    feature_map = small_map(kernel, 3)
    out = np.empty((5, 15))
    assert feature_map.forward(X, out=out) is out
    np.testing.assert_array_equal(out, feature_map.forward(X))


@pytest.mark.parametrize("form", FORMS)
@each(ALL)
def test_rows_are_left_alone(kernel, form):
    X = rows(kernel, 5, 3)
    before = X.copy()
    X.flags.writeable = False
    feature_map = small_map(kernel, 3, form=form)
    for array in (getattr(feature_map, "points", None), getattr(feature_map, "phases", None)):
        if array is not None:
            array.flags.writeable = False
    G = np.ones((5, feature_map.n_features))
    G.flags.writeable = False
    feature_map.adjoint(X, G, features=feature_map.forward(X))
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("container", [sparse.csr_matrix, sparse.csr_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", FORMS)
@each(ALL)
def test_sparse_rows_give_the_dense_features(kernel, form, dtype, container):
    X = rows(kernel, 9, 4, dtype=dtype)
    X[np.random.default_rng(1).random(X.shape) < 0.5] = 0
    X[3] = 0
    feature_map = small_map(kernel, 4, form=form).place(X)
    features, dense = feature_map.forward(container(X)), feature_map.forward(X)
    assert features.dtype == dtype
    if kernel.geometry == "additive":
        assert sparse.issparse(features)
        np.testing.assert_allclose(features.toarray(), dense, rtol=0, atol=8 * np.finfo(dtype).eps * dense.max())
    else:
        assert np.all(np.abs(features - dense) <= tolerances(feature_map, X, dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", FORMS)
@each(ALL)
def test_other_arrays_give_the_numpy_features(kernel, form, dtype):
    X = rows(kernel, 6, 3, dtype=dtype)
    feature_map = small_map(kernel, 3, form=form)
    expected = feature_map.place(X).forward(X)
    for convert in (torch.tensor, array_api_strict.asarray):
        there = convert(X)
        features = feature_map.place(there).forward(there)
        assert type(features) is type(there)
        assert features.dtype == there.dtype
        if kernel.geometry == "additive":
            bound = 64 * np.finfo(dtype).eps * np.abs(expected).max()
        else:
            bound = tolerances(feature_map, X, dtype)
        assert np.all(np.abs(np.from_dlpack(features) - expected) <= bound)


@pytest.mark.parametrize("form", FORMS)
@each(ALL)
def test_with_kernel_keeps_the_base_points(kernel, form):
    X = rows(kernel, 6, 3)
    feature_map = small_map(kernel, 3, form=form)
    moved = feature_map.with_kernel(kernel.with_theta(kernel.theta + 0.3))
    assert moved.kernel.scale == pytest.approx(np.exp(0.3))
    np.testing.assert_array_equal(moved.with_kernel(kernel).forward(X), feature_map.forward(X))
    if kernel.geometry != "additive":
        assert np.all(np.abs(moved.forward(X) - naive_features(moved, X)) <= tolerances(moved, X))


@given(
    n=st.integers(1, 20),
    m=st.integers(1, 8),
    frequencies=st.integers(1, 30),
    form=st.sampled_from(FORMS),
    dtype=st.sampled_from([np.float32, np.float64]),
    name=st.sampled_from(sorted(RANDOM)),
    order=st.sampled_from(["C", "F"]),
)
def test_any_shape(n, m, frequencies, form, dtype, name, order):
    kernel = with_scales(RANDOM[name], m, shared=False)
    X = np.asarray(rows(kernel, n, m, dtype=dtype), order=order)
    feature_map = small_map(kernel, m, form=form, frequencies=frequencies)
    features = feature_map.place(X).forward(X)
    assert features.shape == (n, feature_map.n_features)
    assert features.dtype == dtype
    assert np.all(np.abs(features - naive_features(feature_map, X.astype(float))) <= tolerances(feature_map, X, dtype))


def test_names_of_features():
    assert small_map(Gaussian(), 2, frequencies=2).feature_names(["a", "b"]) == ["cos0", "cos1", "sin0", "sin1"]
    assert small_map(Gaussian(), 2, frequencies=2, form="phase").feature_names(["a", "b"]) == ["cos0", "cos1"]


def test_frequencies_are_scales_times_points():
    feature_map = small_map(Gaussian(scale=[2.0, 3.0]), 2)
    np.testing.assert_array_equal(feature_map.frequencies, np.array([[2.0], [3.0]]) * feature_map.points)
    assert feature_map.widest == 5
    again = replace(feature_map, points=2 * feature_map.points)
    np.testing.assert_array_equal(again.frequencies, 2 * feature_map.frequencies)
