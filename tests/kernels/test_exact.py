"""Exact kernel matrices, against the slow formulas, scikit-learn, mpmath and other array libraries."""

import array_api_strict
import mpmath
import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.gaussian_process.kernels import Matern as SklearnMatern
from sklearn.metrics.pairwise import additive_chi2_kernel, chi2_kernel, laplacian_kernel, rbf_kernel

from bochner.kernels import (
    KERNELS,
    Chi2,
    Exponentiated,
    ExponentiatedChi2,
    ExponentiatedIntersection,
    Gaussian,
    Intersection,
    Laplacian,
    Matern,
    SkewedChi2,
    SkewedIntersection,
)
from tests import naive
from tests.cases import ADDITIVE, ALL, each, kernel_tolerance, rows, with_scales

SKLEARN = 1e-12
"""How closely scikit-learn is met: its own sums of m <= 10 products lose about as much as ours, 1e-13 on these rows."""


def with_duplicates(X):
    """X, its first rows again, and its last row moved by one unit of roundoff."""
    return np.concatenate([X, X[:3], X[-1:] * (1 + 2.0**-52)])


@pytest.mark.parametrize("m", [1, 4])
@pytest.mark.parametrize("shared", [True, False], ids=["shared", "per column"])
@pytest.mark.parametrize("name", KERNELS)
def test_every_built_in_kernel_equals_its_formula(name, shared, m):
    assert name in naive.FORMULAS, f"write the formula of {name!r} in tests/naive.py"
    kernel = with_scales(KERNELS[name](), m, shared=shared)
    X, Z = with_duplicates(rows(kernel, 6, m)), rows(kernel, 5, m, seed=1)
    np.testing.assert_allclose(
        kernel(X, Z), naive.kernel_matrix(name, kernel, X, Z), rtol=0, atol=kernel_tolerance(kernel, X, Z)
    )
    np.testing.assert_allclose(
        kernel(X), naive.kernel_matrix(name, kernel, X, X), rtol=0, atol=kernel_tolerance(kernel, X, X)
    )


@pytest.mark.parametrize("c", [0.05, 1.0, 30.0])
@pytest.mark.parametrize(("name", "make"), [("skewed_chi2", SkewedChi2), ("skewed_intersection", SkewedIntersection)])
def test_skewed_kernels_at_other_c(name, make, c):
    kernel = make(c=c, scale=0.6)
    X = rows(kernel, 7, 3)
    np.testing.assert_allclose(
        kernel(X), naive.kernel_matrix(name, kernel, X, X), rtol=0, atol=kernel_tolerance(kernel, X, X)
    )


@pytest.mark.parametrize("m", [1, 3, 10])
def test_equal_to_scikit_learn(m):
    normal = with_duplicates(rows(Gaussian(), 20, m))
    positive = with_duplicates(rows(Chi2(), 20, m))
    s = 0.8
    pairs = [
        (Gaussian(scale=s)(normal), rbf_kernel(normal, gamma=s**2 / 2)),
        (Laplacian(scale=s)(normal), laplacian_kernel(normal, gamma=s)),
        (ExponentiatedChi2(scale=s)(positive), chi2_kernel(positive, gamma=s**2 / 2)),
    ]
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=SKLEARN)


@pytest.mark.parametrize("m", [1, 3, 10])
def test_distance_of_the_chi2_kernel_is_minus_scikit_learns_additive_kernel(m):
    X, Z = rows(Chi2(), 20, m), rows(Chi2(), 15, m, seed=1)
    distance = X.sum(axis=1)[:, None] + Z.sum(axis=1) - 2 * Chi2()(X, Z)
    np.testing.assert_allclose(distance, -additive_chi2_kernel(X, Z), rtol=0, atol=SKLEARN)
    by_column = sum(Chi2().pair_distance(X[:, i, None], Z[None, :, i]) for i in range(m))
    np.testing.assert_allclose(by_column, distance, rtol=0, atol=SKLEARN)


@pytest.mark.parametrize("m", [1, 3, 10])
@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5, 0.7, 3.2, np.inf])
def test_matern_equal_to_scikit_learn(nu, m):
    X = with_duplicates(rows(Matern(), 20, m))
    for scale in (0.8, np.linspace(0.5, 1.1, m)):
        theirs = SklearnMatern(length_scale=1 / np.asarray(scale), nu=nu)
        np.testing.assert_allclose(Matern(nu=nu, scale=scale)(X), theirs(X), rtol=0, atol=SKLEARN)


def matern_error(nu, r):
    """Bound on the relative error of a Matern kernel at the distances r.

    Its logarithm is a sum of terms of size nu log x, log Gamma(nu) and x, each off by an eps or two of itself, with scipy's
    Bessel function at some 50 eps besides. From nu = 80 on it is an expansion cut after nu^-4 instead, whose next term is
    at most 0.03 / nu^5 for the distances below 8 used here (U_5 of DLMF 10.41.10 is below that), and twice with Gamma's.
    """
    x = np.sqrt(2 * nu) * r
    if nu >= 80:
        return 0.06 / nu**5 + np.finfo(float).eps * (50 + 4 * x)
    return np.finfo(float).eps * (50 + 4 * (nu * np.abs(np.log(x)) + nu * np.log(nu + 2) + x))


@pytest.mark.parametrize("nu", [0.05, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 2.5, 3.2, 10.0, 40.0, 79.9, 80.0, 120.5, 500.5, 5000.5])
def test_matern_against_mpmath_at_extreme_arguments(nu):
    r = np.array([1e-300, 1e-160, 1e-20, 1e-8, 1e-3, 0.1, 0.3, 1.0, 3.0, 8.0])
    with mpmath.workdps(50):
        expected = np.array([float(naive.matern_profile(v, nu)) for v in r])
    kernel = Matern(nu=nu)
    assert kernel.profile(np.zeros(1))[0] == 1
    assert np.all(np.abs(kernel.profile(r) / expected - 1) <= matern_error(nu, r))


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5, 0.7, 3.2, 79.9, 90.3])
def test_matern_slope_against_mpmath(nu):
    r = np.array([1e-8, 1e-3, 0.3, 1.0, 3.0, 8.0])
    with mpmath.workdps(50):
        expected = [float(mpmath.diff(lambda v: naive.matern_profile(v, nu), v)) for v in r]
    got = Matern(nu=nu).slope(r)
    assert np.all(np.abs(got / expected - 1) <= matern_error(nu, r))
    np.testing.assert_array_equal(Matern(nu=nu).slope(-r), -got)


def test_matern_far_apart_is_zero_without_a_warning():
    r = np.array([1e3, 1e6, 1e150])
    for nu in (0.5, 0.7, 1.5, 2.5, 3.2, 200.0, np.inf):
        assert np.all(Matern(nu=nu).profile(r) < 1e-300)
        assert np.all(np.abs(Matern(nu=nu).slope(r)) < 1e-300)


@pytest.mark.parametrize("s", [0.5, 1.0, 2.0])
def test_exponentiated_intersection_is_a_laplacian(s):
    X = rows(Intersection(), 12, 4)
    np.testing.assert_allclose(
        ExponentiatedIntersection(scale=s)(X),
        Laplacian(scale=s**2 / 2)(X),
        rtol=0,
        atol=kernel_tolerance(Laplacian(scale=s), X, X),
    )


@each(ADDITIVE)
def test_exponentiated_distance_is_that_of_the_additive_kernel(kernel):
    X = rows(kernel, 9, 3)
    own = np.diagonal(kernel(X))
    expected = np.exp(-0.5 * (own[:, None] + own - 2 * kernel(X)))
    np.testing.assert_allclose(Exponentiated(additive=kernel)(X), expected, rtol=0, atol=kernel_tolerance(kernel, X, X))


@each(ADDITIVE)
def test_additive_kernels_are_homogeneous_of_degree_one(kernel):
    X, Z = rows(kernel, 6, 3), rows(kernel, 5, 3, seed=1)
    np.testing.assert_allclose(kernel(4 * X, 4 * Z), 4 * kernel(X, Z), rtol=8 * np.finfo(float).eps, atol=0)
    np.testing.assert_allclose(np.diagonal(kernel(X)), X.sum(axis=1), rtol=8 * np.finfo(float).eps, atol=0)


@pytest.mark.parametrize("m", [1, 3, 10])
@each(ALL)
def test_symmetric_and_positive_semi_definite(kernel, m):
    X = with_duplicates(rows(kernel, 20, m))
    K = kernel(X)
    tolerance = kernel_tolerance(kernel, X, X)
    np.testing.assert_allclose(K, K.T, rtol=0, atol=tolerance)
    # An error of at most tol an entry moves eigenvalues by at most n tol.
    assert np.linalg.eigvalsh(K).min() >= -len(X) * tolerance
    np.testing.assert_allclose(K, kernel(X, X), rtol=0, atol=0)


@each({name: kernel for name, kernel in ALL.items() if kernel.geometry != "additive"})
def test_one_on_the_diagonal(kernel):
    X = with_duplicates(rows(kernel, 20, 3))
    K = kernel(X)
    eps = np.finfo(float).eps
    # Exponentials of distances: those are zero on the diagonal up to eps times the values (below ten here, three columns).
    np.testing.assert_allclose(np.diagonal(K), 1, rtol=0, atol=30 * eps)
    assert K.max() <= 1 + 30 * eps
    assert K.min() >= 0


@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_distances_far_from_the_origin_and_between_near_duplicates(offset):
    X = rows(Gaussian(), 8, 3) + offset
    X = np.concatenate([X, X + 1e-6 * rows(Gaussian(), 8, 3, seed=5)])
    direct = np.sqrt(np.sum((X[:, None] - X[None]) ** 2, axis=2))
    # Pairs near each other come from x - z, exact here but for the rounding of the centred rows: an eps of the offset.
    bound = kernel_tolerance(Laplacian(), X - X.mean(axis=0), X - X.mean(axis=0)) + 4 * np.finfo(float).eps * offset
    np.testing.assert_allclose(Matern(nu=0.5)(X), np.exp(-direct), rtol=0, atol=bound)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@each(ALL)
def test_torch_and_strict_arrays_give_the_numpy_result(kernel, dtype):
    kernel = with_scales(kernel, 3, shared=False)
    X, Z = with_duplicates(rows(kernel, 7, 3, dtype=dtype)).astype(dtype), rows(kernel, 5, 3, seed=1, dtype=dtype)
    expected = kernel(X, Z)
    assert expected.dtype == dtype
    tolerance = kernel_tolerance(kernel, X, Z, dtype)
    from_torch = kernel(torch.tensor(X), torch.tensor(Z))
    assert isinstance(from_torch, torch.Tensor)
    np.testing.assert_allclose(from_torch.numpy(), expected, rtol=0, atol=tolerance)
    from_strict = kernel(array_api_strict.asarray(X), array_api_strict.asarray(Z))
    assert type(from_strict) is type(array_api_strict.asarray(X))
    np.testing.assert_allclose(np.from_dlpack(from_strict), expected, rtol=0, atol=tolerance)
    assert str(from_torch.dtype).endswith(np.dtype(dtype).name)
    assert str(from_strict.dtype).endswith(np.dtype(dtype).name)


@each(ALL)
def test_float32_is_right_to_its_precision(kernel):
    X = rows(kernel, 12, 4, dtype=np.float32)
    K = kernel(X)
    assert K.dtype == np.float32
    np.testing.assert_allclose(K, kernel(X.astype(np.float64)), rtol=0, atol=kernel_tolerance(kernel, X, X, np.float32))


@pytest.mark.parametrize("container", [sparse.csr_matrix, sparse.csr_array, sparse.csc_array, sparse.coo_array])
@each(ALL)
def test_sparse_rows(kernel, container):
    X, Z = rows(kernel, 7, 3), rows(kernel, 5, 3, seed=1)
    X[0] = 0
    np.testing.assert_array_equal(kernel(container(X), container(Z)), kernel(X, Z))


@each(ALL)
def test_lists_and_whole_numbers_are_read_as_float64(kernel):
    table = [[1, 2], [3, 4], [5, 6]]
    expected = kernel(np.array(table, dtype=np.float64))
    np.testing.assert_array_equal(kernel(table), expected)
    np.testing.assert_array_equal(kernel(np.array(table, dtype=np.int8)), expected)
    np.testing.assert_array_equal(
        kernel(torch.tensor(table)).numpy(), kernel(torch.tensor(table, dtype=torch.float64)).numpy()
    )


@each(ALL)
def test_exact_kernels_leave_their_input_alone(kernel):
    X, Z = rows(kernel, 6, 3), rows(kernel, 5, 3, seed=1)
    X.flags.writeable = Z.flags.writeable = False
    before = X.copy(), Z.copy()
    kernel(X, Z)
    kernel.exact_adjoint(X, Z, np.ones((6, 5)))
    np.testing.assert_array_equal(X, before[0])
    np.testing.assert_array_equal(Z, before[1])
