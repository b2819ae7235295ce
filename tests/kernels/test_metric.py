"""Kernels under a metric: against loops over rows, differences, rotations, and the kernels with scales that they include."""

import pickle

import array_api_strict
import numpy as np
import pytest
import torch
from scipy import sparse
from scipy.stats import ortho_group

from bochner.features import FeatureChoices, build_map
from bochner.kernels import Cauchy, Gaussian, Laplacian, Matern, MetricKernel, SkewedChi2
from bochner.kernels.bandwidth import TYPICAL_VALUE, median_scale
from tests import naive
from tests.cases import numerical_gradient, relative_error, slope_along

BASES = {
    "gaussian": Gaussian(),
    "matern12": Matern(nu=0.5),
    "matern32": Matern(nu=1.5),
    "matern0.7": Matern(nu=0.7),
    "laplacian": Laplacian(),
    "cauchy": Cauchy(),
}
RADIAL = {name: base for name, base in BASES.items() if base.geometry == "radial"}
STEP = 1e-3
EPS = np.finfo(float).eps


def each_base(bases=BASES):
    return pytest.mark.parametrize("base", [pytest.param(base, id=name) for name, base in bases.items()])


def case(base, rng, m=4, r=3, n=7, k=6):
    A = 0.6 * rng.standard_normal((m, r))
    X, Z = rng.standard_normal((n, m)), rng.standard_normal((k, m))
    X[0] = Z[0]
    return MetricKernel(base, A), X, Z


def tolerance(kernel, X, Z, dtype=float):
    """The bound of tests.cases.kernel_tolerance for the rows X A and Z A, which carry a rounding of m products more."""
    m, r = kernel.metric.shape
    reach = [np.sum((np.abs(rows) @ np.abs(kernel.metric)) ** 2, axis=1).max() for rows in (X, Z)]
    return 100 * (m + r + 3) * float(np.finfo(dtype).eps) * max(1.0, sum(reach) ** 0.5)


@each_base()
def test_the_formula(base, rng):
    kernel, X, Z = case(base, rng)
    name = next(name for name, other in BASES.items() if other is base)
    formula = naive.FORMULAS["matern12" if name.startswith("matern") else name]
    extra = {"nu": base.nu} if hasattr(base, "nu") else {}
    expected = [[naive.with_metric(formula, x, z, kernel.metric, **extra) for z in Z] for x in X]
    np.testing.assert_allclose(kernel(X, Z), expected, rtol=0, atol=tolerance(kernel, X, Z))
    np.testing.assert_allclose(kernel(X, Z)[0, 0], 1)


@each_base()
def test_gradient_in_the_metric(base, rng):
    kernel, X, Z = case(base, rng)
    G = rng.standard_normal((7, 6))
    gradient = kernel.exact_adjoint(X, Z, G)
    assert gradient["metric"].shape == (4, 3)
    expected = numerical_gradient(lambda t: float(np.sum(G * kernel.with_theta(t).exact(X, Z))), kernel.theta, STEP)
    assert relative_error(kernel.unconstrain(gradient), expected) < 1e-6


@each_base(RADIAL)
def test_gradient_with_near_duplicates(base, rng):
    kernel, X, _ = case(base, rng)
    X = np.concatenate([X, X, X * (1 + 2.0**-52), X * (1 + 1e-10)])
    G = rng.standard_normal((28, 28))
    expected = numerical_gradient(lambda t: float(np.sum(G * kernel.with_theta(t).exact(X, X))), kernel.theta, STEP)
    assert relative_error(kernel.unconstrain(kernel.exact_adjoint(X, X, G)), expected) < 1e-6


@each_base()
def test_a_diagonal_metric_is_a_kernel_with_scales(base, rng):
    scales = np.array([0.5, 1.0, 1.7])
    X, Z, G = rng.standard_normal((6, 3)), rng.standard_normal((5, 3)), rng.standard_normal((6, 5))
    kernel, plain = MetricKernel(base, np.diag(scales)), base.replace(scale=scales)
    np.testing.assert_allclose(kernel(X, Z), plain(X, Z), rtol=0, atol=tolerance(kernel, X, Z))
    np.testing.assert_allclose(kernel.scales(3), scales)
    gradient = np.diagonal(kernel.exact_adjoint(X, Z, G)["metric"])
    # 30 terms of size below ten, a few operations each.
    np.testing.assert_allclose(gradient, plain.exact_adjoint(X, Z, G)["scale"], rtol=0, atol=30 * 10 * 100 * EPS)


@each_base()
def test_a_rotation_of_the_rows_is_one_of_the_metric(base, rng):
    """k with metric Q'A on rows X Q is k with A on X, and so is its gradient, turned."""
    kernel, X, Z = case(base, rng)
    Q = ortho_group.rvs(4, random_state=0)
    turned = kernel.replace(metric=Q.T @ kernel.metric)
    np.testing.assert_allclose(turned(X @ Q, Z @ Q), kernel(X, Z), rtol=0, atol=4 * tolerance(kernel, X, Z))
    G = rng.standard_normal((7, 6))
    gradient = turned.exact_adjoint(X @ Q, Z @ Q, G)["metric"]
    np.testing.assert_allclose(Q @ gradient, kernel.exact_adjoint(X, Z, G)["metric"], rtol=0, atol=1e-10)


@each_base(RADIAL)
def test_low_rank_is_full_at_rank_m(base, rng):
    """A radial kernel depends on A A' alone: any square root of it does, of whatever number of columns."""
    kernel, X, Z = case(base, rng, r=2)
    values, vectors = np.linalg.eigh(kernel.outer)
    full = kernel.replace(metric=vectors * np.sqrt(np.maximum(values, 0)))
    assert full.metric.shape == (4, 4)
    np.testing.assert_allclose(full(X, Z), kernel(X, Z), rtol=0, atol=1e-7)  # roots of eigenvalues of eps
    wide = kernel.replace(metric=np.concatenate([kernel.metric, np.zeros((4, 3))], axis=1))
    np.testing.assert_allclose(wide(X, Z), kernel(X, Z), rtol=0, atol=tolerance(kernel, X, Z))


@each_base()
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_other_arrays(base, dtype, rng):
    kernel, X, Z = case(base, rng)
    X, Z, G = X.astype(dtype), Z.astype(dtype), rng.standard_normal((7, 6)).astype(dtype)
    expected = kernel(X.astype(float), Z.astype(float))
    gradient = kernel.exact_adjoint(X.astype(float), Z.astype(float), G.astype(float))["metric"]
    bound = tolerance(kernel, X, Z, dtype)
    for convert in (np.asarray, torch.tensor, array_api_strict.asarray):
        got = kernel(convert(X), convert(Z))
        assert got.dtype == convert(X).dtype
        np.testing.assert_allclose(np.asarray(got), expected, rtol=0, atol=bound)
        there = kernel.exact_adjoint(convert(X), convert(Z), convert(G))["metric"]
        assert there.dtype == np.float64
        # 42 terms |G| |x - z| |slope|, each below 30, whose slope errs like the kernel.
        np.testing.assert_allclose(there, gradient, rtol=0, atol=42 * 30 * bound)
    np.testing.assert_allclose(kernel.exact(sparse.csr_array(X), sparse.csr_array(Z)), expected, rtol=0, atol=bound)
    assert isinstance(kernel.embed(sparse.csr_matrix(X)), np.ndarray)
    np.testing.assert_allclose(
        kernel.exact_adjoint(sparse.csr_array(X), sparse.csr_array(Z), G)["metric"], gradient, rtol=0, atol=42 * 30 * bound
    )


@each_base()
def test_gradients_in_the_rows(base, rng):
    kernel, X, Z = case(base, rng)
    for some in (kernel, base.replace(scale=[0.5, 0.9, 1.1, 1.4])):
        rows, weights = X[1:], rng.standard_normal((6, 2))
        gradients = some.row_gradients(rows, Z, weights)
        assert gradients.shape == (6, 4, 2)
        for i in range(6):
            for q in range(2):

                def value(x, some=some, weights=weights, q=q):
                    return float((some.exact(x[None], Z) @ weights)[0, q])

                expected = numerical_gradient(value, rows[i], 1e-4)
                assert relative_error(gradients[i, :, q], expected) < 1e-6
        for convert in (torch.tensor, array_api_strict.asarray):
            there = some.row_gradients(convert(rows), convert(Z), convert(weights))
            np.testing.assert_allclose(np.asarray(there), gradients, rtol=0, atol=1e-12)


@each_base()
def test_a_row_that_meets_a_centre_counts_as_flat(base, rng):
    kernel, X, Z = case(base, rng)
    one = kernel.row_gradients(X[:1], Z[:1], np.ones((1, 1)))
    np.testing.assert_array_equal(one, 0)
    near = kernel.row_gradients(X[:1] * (1 + EPS), Z, rng.standard_normal((6, 1)))
    assert np.abs(near).max() < 100


# -- rows seen from an origin -------------------------------------------------------------------------------------------


def directions_case(base, rng, scale=1.3):
    kernel, X, Z = case(base.replace(scale=scale), rng)
    return kernel.replace(base=base.replace(scale=scale), metric=kernel.metric / scale, origin=rng.standard_normal(4)), X, Z


@each_base(RADIAL)
def test_the_formula_of_directions(base, rng):
    kernel, X, Z = directions_case(base, rng)
    name = next(name for name, other in BASES.items() if other is base)
    formula = naive.FORMULAS["matern12" if name.startswith("matern") else name]
    extra = {"nu": base.nu} if hasattr(base, "nu") else {}
    expected = [[naive.of_directions(formula, x, z, kernel.metric, kernel.origin, 1.3, **extra) for z in Z] for x in X]
    np.testing.assert_allclose(kernel(X, Z), expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(kernel(X, Z)[0, 0], 1)


@each_base(RADIAL)
def test_gradient_in_the_metric_of_directions(base, rng):
    kernel, X, Z = directions_case(base, rng)
    for rows, others, G in ((X, Z, rng.standard_normal((7, 6))), (X, X, rng.standard_normal((7, 7)))):
        gradient = kernel.unconstrain(kernel.exact_adjoint(rows, others, G))

        def value(theta, rows=rows, others=others, G=G):
            return float(np.sum(G * kernel.with_theta(theta).exact(rows, others)))

        expected = numerical_gradient(value, kernel.theta, 1e-4)
        assert relative_error(gradient, expected) < 1e-6
        assert abs(gradient @ kernel.theta) < 1e-12  # the metric's own length does not count
    for convert in (torch.tensor, array_api_strict.asarray):
        there = kernel.exact_adjoint(convert(rows), convert(others), convert(G))["metric"]
        np.testing.assert_allclose(there.ravel(), gradient, rtol=0, atol=1e-12)


@each_base(RADIAL)
def test_gradients_in_the_rows_of_directions(base, rng):
    kernel, X, Z = directions_case(base, rng)
    rows, weights = X[1:], rng.standard_normal((6, 2))
    gradients = kernel.row_gradients(rows, Z, weights)
    for i in range(6):
        for q in range(2):

            def value(x, q=q):
                return float((kernel.exact(x[None], Z) @ weights)[0, q])

            assert relative_error(gradients[i, :, q], numerical_gradient(value, rows[i], 1e-4)) < 1e-6
    for convert in (torch.tensor, array_api_strict.asarray):
        there = kernel.row_gradients(convert(rows), convert(Z), convert(weights))
        np.testing.assert_allclose(np.asarray(there), gradients, rtol=0, atol=1e-12)
    along = np.einsum("imq,im->iq", gradients, rows - kernel.origin)
    np.testing.assert_allclose(along, 0, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_only_directions_count(dtype, rng):
    """Rows may lie anywhere on their rays, and the metric be of any length; the base says how narrow the kernel is."""
    kernel, X, Z = directions_case(Gaussian(), rng)
    X, Z = X.astype(dtype), Z.astype(dtype)
    bound = 100 * float(np.finfo(dtype).eps)
    plain = kernel(X, Z)
    farther = kernel.origin + rng.uniform(0.5, 3, (7, 1)) * (X - kernel.origin)
    np.testing.assert_allclose(kernel(farther.astype(dtype), Z), plain, rtol=0, atol=bound)
    np.testing.assert_allclose(kernel.replace(metric=5 * kernel.metric)(X, Z), plain, rtol=0, atol=bound)
    np.testing.assert_allclose(kernel.rescaled(2.0)(X, Z), plain**4, rtol=0, atol=bound)
    for convert in (torch.tensor, array_api_strict.asarray, sparse.csr_array):
        got = kernel.exact(convert(X), convert(Z))
        assert str(got.dtype).endswith(np.dtype(dtype).name)
        np.testing.assert_allclose(np.asarray(got), plain, rtol=0, atol=bound)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("convert", [np.asarray, torch.tensor])
def test_a_row_that_misses_the_origin_by_rounding_is_there(dtype, convert, rng):
    """A blank image among others, standardised: the kernel of no direction, and no gradient."""
    X = rng.uniform(0, 1, (30, 60)).astype(dtype)
    X[3] = 0
    mean, spread = X.mean(axis=0), X.std(axis=0)
    seen = (X - mean) / spread
    kernel = MetricKernel(Gaussian(scale=2.0), rng.standard_normal((60, 60)), origin=-mean.astype(float) / spread)
    K = np.asarray(kernel.exact(convert(seen), convert(seen)))
    np.testing.assert_allclose(K[3, np.arange(30) != 3], np.exp(-2), rtol=0, atol=1e-6)
    gradients = np.asarray(kernel.row_gradients(convert(seen), convert(seen), convert(np.ones((30, 1), dtype))))
    np.testing.assert_array_equal(gradients[3], 0)
    sizes = np.linalg.norm(gradients[:, :, 0], axis=1)
    assert sizes.max() < 3 * np.median(sizes)
    raw = kernel.before(mean.astype(float), spread.astype(float))
    np.testing.assert_allclose(
        np.asarray(raw.exact(convert(X), convert(X))), K, rtol=0, atol=2e-5 if dtype == np.float32 else 1e-12
    )


@pytest.mark.parametrize(
    ("dtype", "unit"), [(np.float32, 1e-25), (np.float32, 1e20), (np.float64, 1e-170), (np.float64, 1e160)]
)
def test_how_long_the_metric_is_does_not_count(dtype, unit, rng):
    kernel, X, Z = directions_case(Gaussian(), rng)
    X, Z = X.astype(dtype), Z.astype(dtype)
    far = kernel.replace(metric=unit * kernel.metric)
    np.testing.assert_allclose(far(X, Z), kernel(X, Z), rtol=0, atol=100 * float(np.finfo(dtype).eps))
    at_zero = kernel.replace(origin=np.zeros(4))
    with np.errstate(all="raise"):
        np.testing.assert_allclose(
            at_zero((X * dtype(unit)), Z * dtype(unit)), at_zero(X, Z), rtol=0, atol=100 * float(np.finfo(dtype).eps)
        )


def test_a_scale_is_one_of_the_base(rng):
    kernel, X, Z = directions_case(Gaussian(), rng)
    scaled = kernel.replace(scale=2.0)
    np.testing.assert_allclose(scaled.base.scale, 2 * kernel.base.scale)
    np.testing.assert_array_equal(scaled.origin, kernel.origin)
    np.testing.assert_allclose(scaled(X, Z), kernel(X, Z) ** 4, rtol=0, atol=1e-12)
    with pytest.raises(ValueError, match="one number as scale"):
        kernel.replace(scale=np.ones(4))


def test_the_origin_itself_is_a_row(rng):
    kernel, X, _ = directions_case(Gaussian(), rng)
    some = np.vstack([kernel.origin, X])
    np.testing.assert_allclose(kernel(some)[0, 1:], np.exp(-(1.3**2) / 2))
    assert kernel(some)[0, 0] == 1
    assert np.isfinite(kernel.exact_adjoint(some, some, np.ones((8, 8)))["metric"]).all()
    assert np.isfinite(kernel.row_gradients(some, some, np.ones((8, 1)))).all()


@pytest.mark.parametrize("directions", [False, True])
def test_before_a_standardiser(directions, rng):
    kernel, X, Z = (directions_case if directions else case)(Matern(nu=1.5), rng)
    centre, spread = rng.standard_normal(4), rng.uniform(0.5, 2, 4)
    earlier = kernel.before(centre, spread)
    np.testing.assert_allclose(earlier(X * spread + centre, Z * spread + centre), kernel(X, Z), rtol=0, atol=1e-12)
    again = earlier.before(-centre / spread, 1 / spread)
    np.testing.assert_allclose(again(X, Z), kernel(X, Z), rtol=0, atol=1e-12)


def test_directions_have_no_random_features(rng):
    kernel, _, _ = directions_case(Gaussian(), rng)
    with pytest.raises(ValueError, match="CentreMap"):
        build_map(kernel, 4, FeatureChoices(n_features=10), np.random.default_rng(0))


@pytest.mark.parametrize(
    ("base", "origin", "words"),
    [
        (Laplacian(), np.zeros(3), "radial"),
        (Gaussian(scale=[1.0, 2.0]), np.zeros(3), "one scale"),
        (Gaussian(), np.zeros(2), "3 finite numbers"),
        (Gaussian(), np.array([0, 0, np.inf]), "NaN or infinite"),
        (Gaussian(), "zero", "real numbers"),
    ],
)
def test_errors_of_origins(base, origin, words):
    with pytest.raises(ValueError, match=words):
        MetricKernel(base, np.ones((3, 2)), origin)


# -- features -----------------------------------------------------------------------------------------------------------


def test_frequencies_and_their_adjoint(rng):
    kernel, _, _ = case(Gaussian(), rng)
    points, G = rng.standard_normal((3, 5)), rng.standard_normal((4, 5))
    np.testing.assert_allclose(kernel.frequencies(points), kernel.metric @ points)
    gradient = kernel.frequencies_adjoint(G, points)["metric"]
    expected = numerical_gradient(lambda t: float(np.sum(G * kernel.with_theta(t).frequencies(points))), kernel.theta, STEP)
    assert relative_error(gradient.ravel(), expected) < 1e-9
    plain = Gaussian(scale=[0.5, 2.0, 3.0])
    np.testing.assert_array_equal(plain.frequencies(points), [[0.5], [2.0], [3.0]] * points)
    np.testing.assert_allclose(plain.frequencies_adjoint(G[:3], points)["scale"], np.diagonal(G[:3] @ points.T))


@pytest.mark.parametrize("form", ["paired", "phase"])
@each_base()
def test_fourier_features(base, form, rng):
    """Points are drawn in the dimensions of the metric; the features approximate the kernel; the adjoint is exact."""
    kernel, X, Z = case(base, rng, m=4, r=2)
    feature_map = build_map(kernel, 4, FeatureChoices(n_features=20_000, form=form), np.random.default_rng(0))
    assert feature_map.points.shape[0] == 2
    assert feature_map.frequencies.shape[0] == 4
    product = feature_map.forward(X) @ feature_map.forward(Z).T
    # Means of 1e4 (or 2e4) cosines, bounded by two and of variance at most 1.5: 6 deviations.
    np.testing.assert_allclose(product, kernel(X, Z), rtol=0, atol=6 * (1.5 / 1e4) ** 0.5)
    few = np.argsort(np.abs(feature_map.points).max(axis=0))[:5]
    phases = None if feature_map.phases is None else feature_map.phases[few]
    small = type(feature_map)(kernel, 4, feature_map.inputs, feature_map.points[:, few], phases)
    G = rng.standard_normal((7, small.n_features))

    def features(theta):
        return small.with_kernel(kernel.with_theta(theta)).forward(X)

    gradient = small.adjoint(X, G)
    expected = numerical_gradient(lambda t: float(np.sum(features(t) * G)), kernel.theta, STEP)
    assert relative_error(kernel.unconstrain(gradient.parameters), expected) < 1e-6
    direction = rng.standard_normal(kernel.theta.size)
    change = slope_along(features, kernel.theta, direction, STEP / 3)
    right = float(direction @ kernel.unconstrain(gradient.parameters))
    assert abs(np.sum(change * G) - right) < 1e-6 * np.sum(np.abs(change * G))
    there = small.place(torch.tensor(X)).adjoint(torch.tensor(X), torch.tensor(G))
    np.testing.assert_allclose(there.parameters["metric"], gradient.parameters["metric"], rtol=0, atol=1e-11)
    sparse_rows = small.adjoint(sparse.csr_array(X), G)
    np.testing.assert_allclose(sparse_rows.parameters["metric"], gradient.parameters["metric"], rtol=0, atol=1e-11)


def test_scales_go_into_the_metric(rng):
    A = rng.standard_normal((3, 2))
    kernel = MetricKernel(Gaussian(scale=[2.0, 3.0]), A, scale=[1.0, 2.0, 4.0])
    np.testing.assert_allclose(kernel.metric, [[1.0], [2.0], [4.0]] * A * [2.0, 3.0])
    assert kernel.scale == 1.0
    assert kernel.base == Gaussian()
    np.testing.assert_allclose(kernel.rescaled(0.5).metric, kernel.metric / 2)
    np.testing.assert_allclose(kernel.replace(scale=2.0).metric, kernel.metric * 2)
    with pytest.raises(ValueError, match="read-only"):
        kernel.metric[0, 0] = 1
    A[:] = 0
    assert kernel.metric.any()


def test_parameters_and_copies(rng):
    kernel, X, Z = case(Matern(nu=1.5), rng)
    assert kernel.geometry == "radial"
    assert kernel.parameters["metric"] is kernel.metric
    theta = kernel.theta
    assert kernel.with_theta(theta) == kernel
    assert hash(kernel.with_theta(theta)) == hash(kernel)
    assert kernel.with_theta(theta + 1) != kernel
    assert MetricKernel(Matern(nu=0.5), kernel.metric) != kernel
    again = pickle.loads(pickle.dumps(kernel))
    assert again == kernel
    np.testing.assert_array_equal(again(X, Z), kernel(X, Z))
    with pytest.raises(ValueError, match="has 12 parameters"):
        kernel.with_theta(theta[:-1])
    assert MetricKernel(Laplacian(), np.eye(2)).geometry == "product"


def test_directions():
    kernel = MetricKernel(Gaussian(), np.array([[3.0, 0.0], [0.0, -1.0], [0.0, 0.0]]))
    vectors, strengths = kernel.directions()
    np.testing.assert_allclose(strengths, [3.0, 1.0])
    np.testing.assert_allclose(vectors, [[1, 0, 0], [0, 1, 0]], atol=1e-15)
    assert kernel.directions(1)[0].shape == (1, 3)
    np.testing.assert_allclose(kernel.outer, np.diag([9.0, 1.0, 0.0]))
    np.testing.assert_allclose(vectors.T * strengths**2 @ vectors, kernel.outer, atol=1e-15)


def test_a_median_bandwidth(rng):
    kernel, X, _ = case(Gaussian(), rng, n=40)
    scaled = kernel.replace(scale=median_scale(kernel, X))
    values = scaled(X)[np.triu_indices(len(X), k=1)]
    assert abs(np.median(values) - TYPICAL_VALUE) < 1e-5


@pytest.mark.parametrize(
    ("base", "metric", "words"),
    [
        (SkewedChi2(), np.eye(2), "input map"),
        ("gaussian", np.eye(2), "must be a kernel of differences"),
        (MetricKernel(Gaussian(), np.eye(2)), np.eye(2), "must be a kernel of differences"),
        (Gaussian(), np.ones(2), "shape"),
        (Gaussian(), np.full((2, 2), np.nan), "NaN"),
        (Gaussian(), "eye", "real numbers"),
        (Gaussian(scale=[1.0, 2.0, 3.0]), np.eye(2), "3 entries"),
    ],
)
def test_errors(base, metric, words):
    with pytest.raises(ValueError, match=words):
        MetricKernel(base, metric)


def test_errors_of_shapes():
    kernel = MetricKernel(Gaussian(), np.eye(2))
    with pytest.raises(ValueError, match="metric has 2 rows"):
        kernel(np.ones((3, 4)))
    with pytest.raises(ValueError, match="as many"):
        kernel.replace(scale=[1.0, 2.0, 3.0])
