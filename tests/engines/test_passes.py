"""Passes over blocks of rows: the blocks must not show."""

import array_api_strict
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from threadpoolctl import threadpool_limits

from bochner import engines
from bochner.blas import blas_threads
from bochner.engines import passes
from bochner.features.build import FORMS
from tests.cases import ALL, RANDOM, each, feature_tolerance, relative_error, rows, small_map, with_scales

EPS = np.finfo(float).eps


@pytest.fixture
def small_blocks(monkeypatch):
    """Tiles of 16 rows, eight of them a block of 128."""
    monkeypatch.setattr(passes, "TILE_BYTES", 1)
    monkeypatch.setattr(passes, "DEVICE_BLOCK_BYTES", 1)


def bound(feature_map, X, dtype=np.float64):
    if not hasattr(feature_map, "points"):
        return 8 * np.finfo(dtype).eps * np.sqrt(X.max())
    one = feature_tolerance(feature_map, X, dtype)
    return one if feature_map.phases is not None else np.tile(one, 2)


@pytest.mark.parametrize("n", [1, 15, 16, 17, 127, 128, 129, 301])
@pytest.mark.parametrize("form", FORMS)
@each(ALL)
def test_forward_in_blocks(kernel, form, n, small_blocks):
    X = rows(kernel, n, 3)
    feature_map = small_map(kernel, 3, form=form)
    features = engines.forward(feature_map, X)
    assert features.shape == (n, feature_map.n_features)
    assert np.all(np.abs(features - feature_map.forward(X)) <= bound(feature_map, X))


@pytest.mark.parametrize("n", [1, 17, 128, 129, 301])
@pytest.mark.parametrize("form", FORMS)
@each(ALL)
def test_adjoint_in_blocks(kernel, form, n, small_blocks):
    kernel = with_scales(kernel, 3, shared=False)
    X = rows(kernel, n, 3)
    feature_map = small_map(kernel, 3, form=form)
    G = np.random.default_rng(0).standard_normal((n, feature_map.n_features))
    gradient, expected = engines.adjoint(feature_map, X, G), feature_map.adjoint(X, G)
    for name, value in expected.parameters.items():
        # Sums of n f terms in another order, of angles below a thousand.
        assert np.max(np.abs(gradient.parameters[name] - value)) <= 1e3 * n * 5 * 100 * EPS
    if expected.frequencies is not None:
        assert relative_error(gradient.frequencies, expected.frequencies) <= 1e3 * n * EPS


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@each(ALL)
def test_sparse_rows_in_blocks(kernel, dtype, small_blocks):
    X = rows(kernel, 301, 4, dtype=dtype)
    X[np.random.default_rng(1).random(X.shape) < 0.6] = 0
    feature_map = small_map(kernel, 4)
    dense = engines.forward(feature_map, X)
    features = engines.forward(feature_map, sparse.csr_array(X))
    assert features.dtype == dtype
    assert sparse.issparse(features) == (kernel.geometry == "additive")
    features = features.toarray() if sparse.issparse(features) else features
    assert np.all(np.abs(features - dense) <= bound(feature_map, X, dtype))
    G = np.random.default_rng(0).standard_normal(dense.shape).astype(dtype)
    from_sparse, from_dense = engines.adjoint(feature_map, sparse.csr_array(X), G), engines.adjoint(feature_map, X, G)
    eps = np.finfo(dtype).eps
    for name, value in from_dense.parameters.items():
        assert np.max(np.abs(from_sparse.parameters[name] - value)) <= 1e3 * 301 * 5 * 10 * eps


@pytest.mark.parametrize("convert", [torch.tensor, array_api_strict.asarray], ids=["torch", "strict"])
@each(ALL)
def test_other_arrays_in_blocks(kernel, convert, small_blocks):
    X = rows(kernel, 37, 3)
    feature_map = small_map(kernel, 3)
    G = np.random.default_rng(0).standard_normal((37, feature_map.n_features))
    features = engines.forward(feature_map, convert(X))
    assert type(features) is type(convert(X))
    tolerance = 64 * EPS * np.sqrt(X.max()) if kernel.geometry == "additive" else bound(feature_map, X)
    assert np.all(np.abs(np.from_dlpack(features) - engines.forward(feature_map, X)) <= tolerance)
    gradient, expected = engines.adjoint(feature_map, convert(X), convert(G)), engines.adjoint(feature_map, X, G)
    for name, value in expected.parameters.items():
        assert np.max(np.abs(gradient.parameters[name] - value)) <= 1e3 * 37 * 5 * 100 * EPS


@each(ALL)
def test_tensors_that_record_gradients_in_blocks(kernel, small_blocks):
    """These stay in their library, block after block."""
    X = rows(kernel, 37, 3)
    feature_map = small_map(kernel, 3)
    features = engines.forward(feature_map, torch.tensor(X, requires_grad=True))
    assert features.requires_grad
    tolerance = 64 * EPS * np.sqrt(X.max()) if kernel.geometry == "additive" else bound(feature_map, X)
    assert np.all(np.abs(features.detach().numpy() - engines.forward(feature_map, X)) <= tolerance)


def bits(feature_map, X, G):
    gradient = engines.adjoint(feature_map, X, G)
    features = engines.forward(feature_map, X)
    features = features.toarray() if sparse.issparse(features) else features
    return [features, *gradient.parameters.values(), *([] if gradient.frequencies is None else [gradient.frequencies])]


@pytest.mark.parametrize("n", [20, 1_000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", FORMS)
@each({name: ALL[name] for name in ("gaussian", "skewed_chi2", "exponentiated_chi2", "chi2")})
def test_same_bits_on_one_and_two_threads(kernel, form, dtype, n, small_blocks):
    X = rows(kernel, n, 7, dtype=dtype)
    feature_map = small_map(kernel, 7, form=form, frequencies=60)
    G = np.random.default_rng(0).standard_normal((n, feature_map.n_features)).astype(dtype)
    answers = []
    for limit in (1, 2):
        with threadpool_limits(limits=limit, user_api="blas"):
            assert blas_threads() == limit
            answers.append(bits(feature_map, X, G))
    for one, two in zip(*answers, strict=True):
        np.testing.assert_array_equal(one, two)


@each({name: ALL[name] for name in ("gaussian", "skewed_chi2", "exponentiated_chi2", "chi2")})
def test_same_bits_for_a_large_single_block(kernel):
    """One block is not shared out among threads of ours; those of BLAS must not change the sums either."""
    n, m = 400, 30
    X = rows(kernel, n, m)
    feature_map = small_map(kernel, m, frequencies=250)
    G = np.random.default_rng(0).standard_normal((n, feature_map.n_features))
    answers = []
    for limit in (1, 2):
        with threadpool_limits(limits=limit, user_api="blas"):
            answers.append(bits(feature_map, X, G))
    for one, two in zip(*answers, strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_moments_on_one_and_two_threads_differ_by_rounding_alone(dtype):
    """BLAS shares out products of all pairs of features; every entry is a sum over the rows in one order or another."""
    n = 700
    X = rows(ALL["gaussian"], n, 7, dtype=dtype)
    feature_map = small_map(ALL["gaussian"], 7, frequencies=250)
    found = []
    for limit in (1, 2):
        with threadpool_limits(limits=limit, user_api="blas"):
            found.append(engines.moments(feature_map, X, np.ones((n, 2)), np.ones(n)))
    one, two = found
    largest = np.abs(one.gram).max()  # by Cauchy and Schwarz, no sum of absolute values is larger
    np.testing.assert_allclose(one.gram, two.gram, rtol=0, atol=2 * n * np.finfo(dtype).eps * largest)
    np.testing.assert_array_equal(one.cross, two.cross)
    np.testing.assert_array_equal(one.feature_sum, two.feature_sum)


@given(
    n=st.integers(1, 400),
    m=st.integers(1, 5),
    frequencies=st.integers(1, 12),
    tile_bytes=st.integers(1, 20_000),
    form=st.sampled_from(FORMS),
    dtype=st.sampled_from([np.float32, np.float64]),
    name=st.sampled_from(sorted(RANDOM)),
    as_sparse=st.booleans(),
)
def test_any_shape_and_block(n, m, frequencies, tile_bytes, form, dtype, name, as_sparse):
    kernel = RANDOM[name]
    X = rows(kernel, n, m, dtype=dtype)
    feature_map = small_map(kernel, m, form=form, frequencies=frequencies)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passes, "TILE_BYTES", tile_bytes)
        features = engines.forward(feature_map, sparse.csr_array(X) if as_sparse else X)
    assert features.dtype == dtype
    assert np.all(np.abs(features - feature_map.place(X).forward(X)) <= bound(feature_map, X, dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_memory_maps_and_odd_strides(dtype, tmp_path, small_blocks):
    kernel = ALL["gaussian"]
    X = rows(kernel, 200, 6, dtype=dtype)
    np.save(tmp_path / "rows.npy", X)
    feature_map = small_map(kernel, 3)
    for view in (np.load(tmp_path / "rows.npy", mmap_mode="r")[::2, ::2], X[::2, ::2], np.asfortranarray(X[::2, ::2])):
        features = engines.forward(feature_map, view)
        assert type(features) is np.ndarray
        assert np.all(np.abs(features - feature_map.place(X).forward(X[::2, ::2].copy())) <= bound(feature_map, view, dtype))
