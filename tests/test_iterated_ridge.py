"""Ridge regression on centres by conjugate gradients: against the direct way, scikit-learn, and itself in other ways."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.kernel_ridge import KernelRidge
from threadpoolctl import threadpool_limits

from bochner.criteria import HeldOutError
from bochner.engines import predict
from bochner.engines.devices import DeviceFolds, on_device
from bochner.features import CentreMap, FeatureChoices, build_map
from bochner.folds import Folds, Rows
from bochner.iterated_ridge import DECADE, CentreRidge, IteratedHeldOutError
from bochner.kernels import Gaussian, Matern, MetricKernel

GPU = pytest.param(
    "cuda", marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch sees no GPU")]
)
EXACT = 1e-18
"""A tolerance of the objective at which coefficients are right to 1e-8 or so."""


def data(n=240, c=1, *, weighted=False, seed=0, dtype=np.float64):
    """Two parts, of which the first is held out."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    slopes = rng.standard_normal((3, c))
    y = np.sin(X @ slopes) + 2 + 0.1 * rng.standard_normal((n, c))
    weights = rng.uniform(0.5, 2, n) if weighted else np.ones(n)
    rows = Rows(X.astype(dtype), y, weights)
    cut = n // 4
    return Folds((rows.take(slice(0, cut)), rows.take(slice(cut, n))), (0,))


def centre_map(folds, size=40, kernel=None):
    return CentreMap(kernel or Matern(nu=1.5, scale=0.8), np.asarray(folds.parts[1].X[:size], dtype=float))


@pytest.mark.parametrize("c", [1, 3])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "kernel", [Matern(nu=1.5, scale=0.8), MetricKernel(Gaussian(), np.diag([1.0, 0.5, 0.7]))], ids=["matern", "metric"]
)
@pytest.mark.parametrize("alpha", [1e-2, 1e-6])
def test_equals_the_direct_way(c, weighted, kernel, alpha):
    folds = data(c=c, weighted=weighted)
    feature_map = centre_map(folds, kernel=kernel)
    direct, iterated = HeldOutError(folds, penalty=alpha), IteratedHeldOutError(folds, penalty=alpha, tol=EXACT)
    expected, found = direct.evaluate(feature_map, gradient=False), iterated.evaluate(feature_map)
    assert found.converged
    assert found.log_alpha == expected.log_alpha
    assert found.value == pytest.approx(expected.value, rel=1e-6)
    size = np.max(np.abs(expected.models[0][0]))
    np.testing.assert_allclose(found.models[0][0], expected.models[0][0], rtol=0, atol=1e-6 * size)
    np.testing.assert_allclose(found.models[0][1], expected.models[0][1], rtol=1e-6)
    held, held_direct = iterated.held_out(feature_map, found), direct.held_out(feature_map, expected)
    np.testing.assert_allclose(held.predictions, held_direct.predictions, rtol=0, atol=1e-6)
    assert held.rows is folds.parts[0]
    fit, fit_direct = iterated.fit(feature_map, found), direct.fit(feature_map, expected)
    assert fit.converged
    np.testing.assert_allclose(fit.coef, fit_direct.coef, rtol=0, atol=1e-6 * size)
    np.testing.assert_allclose(fit.intercept, fit_direct.intercept, rtol=1e-6)


def test_fits_the_parts_that_are_to_be_fitted():
    folds = replace(data(), fitted=(1,))
    feature_map = centre_map(folds)
    iterated = IteratedHeldOutError(folds, penalty=1e-4, tol=EXACT)
    found = iterated.evaluate(feature_map)
    fit = iterated.fit(feature_map, found)
    np.testing.assert_allclose(fit.coef, found.models[0][0], rtol=0, atol=1e-7)  # the same rows: nothing is left to do
    np.testing.assert_allclose(fit.intercept, found.models[0][1], rtol=1e-7)


def test_the_first_of_several_validated_parts_counts():
    one, other = data(n=160), data(n=80, seed=1)
    folds = Folds((*one.parts, other.parts[0]), (1, 0, 2))
    feature_map = centre_map(folds)
    found = IteratedHeldOutError(folds, penalty=1e-3, tol=EXACT).evaluate(feature_map)
    expected = HeldOutError(replace(folds, validated=(1,)), penalty=1e-3).evaluate(feature_map, gradient=False)
    assert found.value == pytest.approx(expected.value, rel=1e-6)
    assert list(found.models) == [1]


def test_all_rows_as_centres_are_kernel_ridge():
    """With M = n the features are exact. Targets of mean zero, and a kernel so narrow that features have none either."""
    rng = np.random.default_rng(0)
    X, new = rng.uniform(-30, 30, (60, 3)), rng.uniform(-30, 30, (15, 3))
    y = rng.standard_normal((60, 2))
    y -= y.mean(axis=0)
    folds = Folds((Rows(new, np.zeros((15, 2)), np.ones(15)), Rows(X, y, np.ones(60))), (0,))
    scale, alpha = 0.3, 1e-3
    feature_map = CentreMap(Gaussian(scale=scale), X)
    found = IteratedHeldOutError(folds, penalty=alpha, tol=EXACT).evaluate(feature_map)
    coef, intercept = found.models[0]
    # scikit-learn has no intercept: one that is fitted along is the regression of y - intercept without one.
    peer = KernelRidge(alpha=60 * alpha, kernel="rbf", gamma=scale**2 / 2).fit(X, y - intercept)
    np.testing.assert_allclose(found.predictions, peer.predict(new) + intercept, rtol=0, atol=1e-6)
    np.testing.assert_allclose(predict(feature_map, X, coef, intercept), peer.predict(X) + intercept, rtol=0, atol=1e-6)


def test_solutions_that_are_known_are_added_up_to_the_least_objective(rng):
    folds = data(c=2, weighted=True)
    feature_map = centre_map(folds)
    rows, logs = folds.parts[1], [np.log(1e-3), np.log(1e-5)]
    system = CentreRidge(feature_map, folds, logs[0], None, 200, EXACT).system([1])
    known = [rng.standard_normal((40, 2)) for _ in range(3)]
    features = feature_map.forward(rows.X)
    mean = rows.weights @ features / rows.weights.sum()
    roots = np.sqrt(rows.weights)[:, None]
    targets = roots * (rows.targets - rows.weights @ rows.targets / rows.weights.sum())
    found = system.start(known, logs)
    for k, log_alpha in enumerate(logs):
        for j in range(2):
            basis = np.stack([coef[:, j] for coef in known], axis=1)
            shift = np.sqrt(rows.weights.sum() * np.exp(log_alpha))
            design = np.vstack([roots * (features - mean) @ basis, shift * basis])
            shares = np.linalg.lstsq(design, np.concatenate([targets[:, j], np.zeros(40)]))[0]
            np.testing.assert_allclose(found[:, 2 * k + j], basis @ shares, rtol=1e-8)


def test_a_solution_that_is_known_is_where_its_penalty_begins():
    folds = data(c=2)
    system = CentreRidge(centre_map(folds), folds, np.log(1e-4), None, 200, EXACT).system([1])
    logs = [np.log(1e-3), np.log(1e-4)]
    solved = system.solve(logs, None, EXACT)
    again = system.start([solved.coef[:, :2], solved.coef[:, 2:]], logs)
    np.testing.assert_allclose(again, solved.coef, rtol=0, atol=1e-7 * np.abs(solved.coef).max())


def test_what_is_known_may_be_twice_the_same_or_nothing_or_not_finite(rng):
    folds = data()
    system = CentreRidge(centre_map(folds), folds, np.log(1e-4), None, 200, EXACT).system([1])
    known, logs = rng.standard_normal((40, 1)), [np.log(1e-3)]
    once = system.start([known], logs)
    np.testing.assert_allclose(system.start([known, known, np.zeros((40, 1))], logs), once, rtol=1e-8)
    system.ridge.products._kept[1][0, 0] = np.nan
    np.testing.assert_array_equal(system.start([known], logs), np.zeros((40, 1)))


@pytest.mark.parametrize("bounds", [(1e-4, 1e-4), (1e-2, 1.0), (1e-13, 1e-11)])
@pytest.mark.parametrize("start", [1e-13, 1e-3, 1e3])
def test_the_penalty_stays_in_its_bounds(bounds, start):
    folds = data(n=200)
    feature_map = centre_map(folds)
    found = IteratedHeldOutError(folds).evaluate(feature_map, np.log(start), bounds=bounds)
    low, high = np.log(bounds)
    assert low - 1e-9 <= found.log_alpha <= high + 1e-9
    grid = [
        HeldOutError(folds, penalty=float(alpha)).evaluate(feature_map, gradient=False).value
        for alpha in np.geomspace(*bounds, 15)
    ]
    assert found.value <= min(grid) * (1 + 3e-3)


@pytest.mark.parametrize("start", [None, 10.0, 1e-1, 1e-5, 1e-9])
@pytest.mark.parametrize("size", [20, 150])
def test_the_penalty_is_the_best_of_a_grid(start, size):
    folds = data(n=200)
    feature_map = centre_map(folds, size)
    grid = [
        HeldOutError(folds, penalty=float(alpha)).evaluate(feature_map, gradient=False).value
        for alpha in np.geomspace(1e-10, 10, 45)
    ]
    found = IteratedHeldOutError(folds).evaluate(feature_map, None if start is None else np.log(start))
    # Neighbours of the search that differ by less than a thousandth are equal to it, and so is its own error.
    assert found.value <= min(grid) * (1 + 3e-3)
    assert found.converged
    assert found.tried[found.log_alpha] == found.value


def test_bounds_hold():
    folds = data()
    feature_map = centre_map(folds)
    best = IteratedHeldOutError(folds).evaluate(feature_map).log_alpha
    above = float(np.exp(best + 2 * DECADE))
    found = IteratedHeldOutError(folds).evaluate(feature_map, np.log(1e-8), bounds=(above, 10.0))
    assert np.exp(found.log_alpha) == pytest.approx(above)
    assert min(found.tried) >= np.log(above) - 1e-12


def test_one_factor_serves_a_search_that_starts_at_the_best(monkeypatch):
    """A search from a good start, its exact end and the fit of all rows share a factor, and take few iterations."""
    folds = data(n=400)
    feature_map = centre_map(folds, 60)
    first = IteratedHeldOutError(folds).evaluate(feature_map)
    made = []
    original = CentreRidge.system
    monkeypatch.setattr(CentreRidge, "system", lambda self, parts: made.append(self) or original(self, parts))
    criterion = IteratedHeldOutError(folds)
    again = criterion.evaluate(feature_map, first.log_alpha)
    factor = made[0].precondition._factor
    criterion.fit(feature_map, again)
    assert made[0] is made[1]
    assert made[1].precondition._factor is factor
    assert again.value == pytest.approx(first.value, rel=1e-2)
    assert again.n_iter < 60


@pytest.mark.parametrize("weighted", [False, True])
def test_kernel_values_that_do_not_fit_are_made_anew_or_rounded(weighted):
    """The room for float32 alone rounds them; no room at all gives the same as all of it."""
    folds = data(weighted=weighted)
    feature_map = centre_map(folds)
    numbers = folds.n * 40
    kept, values = {}, {}
    for budget in (8 * numbers, 4 * numbers, 1):
        criterion = IteratedHeldOutError(folds, penalty=1e-4, tol=EXACT, budget=budget)
        values[budget] = criterion.evaluate(feature_map)
        kept[budget] = criterion._latest[1].kept
    assert [str(each) for each in kept.values()] == ["float64", "float32", "None"]
    whole, single, anew = values.values()
    np.testing.assert_allclose(anew.models[0][0], whole.models[0][0], rtol=0, atol=1e-7)
    assert anew.value == pytest.approx(whole.value, rel=1e-9)
    # A rounding of 2^-24 in every value, in features 1 / pivot as large, is noise beside a penalty of 1e-4.
    assert single.value == pytest.approx(whole.value, rel=1e-4)
    assert single.value != whole.value


def test_rounding_that_the_factor_does_not_bear_is_not_done():
    """A smooth kernel of near centres has pivots at rounding: float32 values would be noise in its features."""
    folds = data()
    feature_map = centre_map(folds, kernel=Gaussian(scale=0.05))
    criterion = IteratedHeldOutError(folds, penalty=1e-4, tol=1e-10, budget=4 * folds.n * 40)
    value = criterion.evaluate(feature_map).value
    assert criterion._latest[1].kept is None
    assert value == pytest.approx(HeldOutError(folds, penalty=1e-4).evaluate(feature_map, gradient=False).value, rel=1e-3)


def test_rows_of_float32():
    """Values of float32, and sums of float64: the model of the rows in float64 but for their rounding."""
    folds, single = data(), data(dtype=np.float32)
    feature_map = centre_map(folds)
    found = IteratedHeldOutError(single, penalty=1e-4, tol=1e-14)
    whole = IteratedHeldOutError(folds, penalty=1e-4, tol=1e-14).evaluate(feature_map)
    assert found.evaluate(feature_map).value == pytest.approx(whole.value, rel=1e-3)
    assert found._latest[1].kept == np.float32


@pytest.mark.parametrize("device", ["cpu", GPU])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("budget", [None, 1])
def test_tensors_as_arrays(device, dtype, budget):
    folds = data(c=2, weighted=True, dtype=dtype)
    there = on_device(folds, device)
    assert isinstance(there, DeviceFolds)
    feature_map = centre_map(folds)
    results = []
    for some in (folds, there):
        criterion = IteratedHeldOutError(some, tol=1e-16, budget=budget)
        found = criterion.evaluate(feature_map, np.log(1e-4))
        results.append((found, criterion.fit(feature_map, found), criterion.held_out(feature_map, found)))
    (here, here_fit, here_held), (far, far_fit, far_held) = results
    assert isinstance(far.models[0][0], np.ndarray)
    assert isinstance(far_fit.coef, np.ndarray)
    assert isinstance(far_held.rows.X, np.ndarray)
    close = 1e-6 if dtype == np.float64 else 1e-3
    assert far.log_alpha == pytest.approx(here.log_alpha, abs=10 * close)
    assert far.value == pytest.approx(here.value, rel=close)
    np.testing.assert_allclose(far_held.predictions, here_held.predictions, rtol=0, atol=close)
    np.testing.assert_allclose(
        predict(feature_map, folds.parts[0].X, far_fit.coef, far_fit.intercept),
        predict(feature_map, folds.parts[0].X, here_fit.coef, here_fit.intercept),
        rtol=0,
        atol=10 * close,
    )


def test_sparse_rows():
    folds = data()
    parts = tuple(replace(part, X=sparse.csr_array(part.X)) for part in folds.parts)
    feature_map = centre_map(folds)
    dense, thin = (IteratedHeldOutError(some, penalty=1e-3, tol=EXACT) for some in (folds, Folds(parts, (0,))))
    assert thin.evaluate(feature_map).value == pytest.approx(dense.evaluate(feature_map).value, rel=1e-8)


@pytest.mark.parametrize("budget", [None, 1])
def test_the_same_bits_on_any_number_of_threads(budget):
    folds = data(n=300, c=2)
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            criterion = IteratedHeldOutError(folds, budget=budget)
            feature_map = centre_map(folds, 60)
            evaluation = criterion.evaluate(feature_map)
            found.append(criterion.fit(feature_map, evaluation).coef.tobytes())
    assert found[0] == found[1]


def test_a_weight_of_two_is_a_row_twice_and_the_unit_of_weights_does_not_count():
    folds = data(n=120)
    feature_map = centre_map(folds)
    held, rest = folds.parts
    double = replace(rest, weights=rest.weights + (np.arange(rest.n) < 10))
    twice = Rows.stack([rest, rest.take(slice(0, 10))])
    values = [
        IteratedHeldOutError(Folds((held, some), (0,)), penalty=1e-3, tol=EXACT).evaluate(feature_map).value
        for some in (double, twice, replace(double, weights=7 * double.weights))
    ]
    assert values[1] == pytest.approx(values[0], rel=1e-8)
    assert values[2] == pytest.approx(values[0], rel=1e-8)


def test_too_few_iterations_are_said():
    folds = data()
    feature_map = centre_map(folds, 100)
    criterion = IteratedHeldOutError(folds, penalty=1e-6, tol=1e-10, max_iter=2)
    found = criterion.evaluate(feature_map)
    assert not found.converged
    assert found.n_iter == 2
    assert not criterion.fit(feature_map, found).converged


def test_memory_is_let_go_of_after_the_fit():
    folds = data()
    feature_map = centre_map(folds)
    criterion = IteratedHeldOutError(folds, penalty=1e-3)
    found = criterion.evaluate(feature_map)
    before = criterion._latest
    assert criterion.evaluate(feature_map).value == pytest.approx(found.value)
    assert criterion._latest is before
    criterion.fit(feature_map, found)
    assert criterion._latest is None


def test_what_it_is_not_for():
    folds = data()
    criterion = IteratedHeldOutError(folds)
    with pytest.raises(ValueError, match=r"has no gradient: use HeldOutError"):
        criterion.evaluate(centre_map(folds), gradient=True)
    fourier = build_map(Gaussian(), 3, FeatureChoices(n_features=10), np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"got FourierMap: use HeldOutError"):
        criterion.evaluate(fourier)
    with pytest.raises(ValueError, match=r"not in memory at once: use HeldOutError"):
        IteratedHeldOutError(on_device(folds, "cpu", room=1))
    assert torch.is_tensor(on_device(folds, "cpu").parts[0].X)
