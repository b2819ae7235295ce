"""Rows on a device of PyTorch's: the same numbers as on NumPy, whether they are there at once or come in blocks."""

import sys
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import linalg, sparse
from threadpoolctl import threadpool_limits

from bochner import engines, single_kernel
from bochner.arrays import double, dtype_of, fetch, fetch_numbers, is_foreign, place, total
from bochner.criteria import FoldedRidge, HeldOutError
from bochner.descent import Level
from bochner.engines import devices, passes
from bochner.engines.devices import DeviceFolds, DeviceStream, brought, on_device, tf32
from bochner.features import StackedMap
from bochner.features.build import FORMS
from bochner.folds import Folds, Rows
from bochner.kernels import Cauchy, Gaussian, SkewedChi2
from bochner.kernels.ties import SharedScales
from bochner.single_kernel import learn_kernel
from bochner.solvers.normal_equations import factorise, factorise_fresh
from bochner.statistics import Moments, MomentSum
from bochner.threads import row_blocks
from tests.cases import BUILT_IN, each, feature_tolerance, numerical_gradient, relative_error, rows, small_map
from tests.solvers.test_normal_equations import INDEFINITE
from tests.test_blas import threads
from tests.test_criteria import make_folds, make_map
from tests.test_single_kernel import folds_of, plan_of, sine

EPS = float(np.finfo(float).eps)
GPU = pytest.param(
    "cuda", marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch sees no GPU")]
)
DTYPES = (np.float32, np.float64)
ALPHA = 0.1
FIELDS = ("gram", "cross", "feature_sum", "target_sum", "target_square", "weight")


@pytest.fixture(params=["cpu", GPU])
def device(request):
    return request.param


@pytest.fixture(params=["at once", "in blocks"])
def bring(request, device, monkeypatch):
    """Folds on the device: all rows at once, or five rows at a time or so, in passes of 16 rows."""
    monkeypatch.setattr(passes, "DEVICE_BLOCK_BYTES", 1)
    monkeypatch.setattr(devices, "COPY_BYTES", 300)
    monkeypatch.setattr(devices, "COPY_TILE_BYTES", 64)
    return partial(on_device, device=device, room=None if request.param == "at once" else 0)


@pytest.fixture
def fixed_penalty(monkeypatch):
    """Evaluate at the penalty that is given, without a search."""
    monkeypatch.setattr(FoldedRidge, "best", lambda self, start, bounds: self.at(start))


@dataclass(frozen=True)
class Elsewhere:
    """Folds that say that they are not in memory: three rows of every part at a time."""

    whole: Folds

    def __getattr__(self, name):
        return getattr(self.whole, name)

    @property
    def in_memory(self):
        return self.whole.head(30)

    def chunks(self):
        for block in row_blocks(0, max(part.n for part in self.whole.parts), 3):
            for k, part in enumerate(self.whole.parts):
                if part.take(block).n:
                    yield k, part.take(block)

    def head(self, n_rows, most_validated=None):
        return self.whole.head(n_rows, most_validated)

    def astype(self, dtype):
        return Elsewhere(self.whole.astype(dtype))


def feature_error(feature_map, folds):
    """Bound on the difference of one feature as two libraries compute it."""
    X = np.concatenate([part.X for part in folds.parts])
    if not hasattr(feature_map, "points"):
        return 64 * float(np.finfo(folds.dtype).eps) * float(np.sqrt(X.max()))
    return float(feature_tolerance(feature_map, X, folds.dtype).max())


def solution_error(feature_map, folds):
    """Relative difference of what is solved from features at the penalty ALPHA, on two libraries.

    Feature vectors, of length s or less, are off by e = sqrt(d) times one feature, their second moments by 2 s e and by
    n eps s^2 of summation. The condition of a matrix A_c + W alpha I multiplies that: 1 + s^2 / alpha. Gradients solve
    twice, for the coefficients and for their adjoint, and residuals are a third of the targets or more: six.
    """
    X = np.concatenate([part.X for part in folds.parts])
    square = float(np.max(np.sum(feature_map.forward(X.astype(float)) ** 2, axis=1)))
    off = np.sqrt(feature_map.n_features) * feature_error(feature_map, folds)
    relative = 2 * off / np.sqrt(square) + folds.n * float(np.finfo(folds.dtype).eps)
    return 6 * (1 + square / ALPHA) * relative


def meaningful(tolerance, dtype):
    """Whether a bound is far from one: by the half of the digits that float32 has, or by nine digits."""
    return tolerance < (0.1 if dtype == np.float32 else 1e-9)


def close(found, expected, tolerance):
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * np.abs(expected).max())


# -- passes --------------------------------------------------------------------------------------------------------------


@each(BUILT_IN)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", FORMS)
def test_moments(kernel, dtype, form, bring):
    folds = make_folds(kernel, scheme="kfold", n=70).astype(dtype)
    feature_map = small_map(kernel, 3, form=form)
    expected, found = engines.fold_moments(feature_map, folds), engines.fold_moments(feature_map, bring(folds))
    for here, there, part in zip(expected, found, folds.parts, strict=True):
        assert is_foreign(there.gram)
        largest = max(1.0, np.abs(part.targets).max(), float(np.abs(feature_map.forward(part.X.astype(float))).max()))
        # Sums of n products: their terms err by those of two features, and their sums by (n + 4) eps, on both sides.
        terms = 2 * feature_error(feature_map, folds) + 2 * (part.n + 4) * float(np.finfo(dtype).eps)
        for name in FIELDS:
            size = largest**2 * here.weight
            error = np.abs(getattr(here, name) - fetch(getattr(there, name))).max()
            assert fetch(getattr(there, name)).dtype == np.float64
            assert error <= terms * size, name
        np.testing.assert_array_equal(fetch(there.gram), fetch(there.gram).T)


def test_features_are_kept_from_one_pass_to_the_next(device, monkeypatch):
    """Those of parts that are a single block: the gradient takes no cosine, and is the same."""
    folds = on_device(make_folds(Gaussian(), scheme="kfold", n=70), device)
    placed = make_map(Gaussian()).place(folds.parts[0].X)
    kept: dict = {}

    def slope(part, rows, features):
        return (part + 1) * rows.weights[:, None] * features

    expected = engines.pull_back_folds(placed, folds, slope)
    for one, other in zip(engines.fold_moments(placed, folds, kept), engines.fold_moments(placed, folds), strict=True):
        np.testing.assert_array_equal(fetch(one.gram), fetch(other.gram))
    assert sorted(kept) == list(range(folds.n_parts))
    monkeypatch.setattr(type(placed), "forward", None)
    found = engines.pull_back_folds(placed, folds, slope, kept)
    np.testing.assert_array_equal(found.parameters["scale"], expected.parameters["scale"])
    assert not kept


def test_features_of_several_blocks_are_not_kept(device, monkeypatch):
    monkeypatch.setattr(passes, "DEVICE_BLOCK_BYTES", 1)
    folds = on_device(make_folds(Gaussian(), scheme="kfold", n=140), device)
    kept: dict = {}
    engines.fold_moments(make_map(Gaussian()), folds, kept)
    assert not kept


@pytest.mark.parametrize("n_kept", [0, 1, 2, 3])
def test_no_more_features_are_kept_than_a_block(n_kept, device, monkeypatch):
    feature_map, folds = make_map(Gaussian()), on_device(make_folds(Gaussian(), scheme="kfold", n=90), device)
    monkeypatch.setattr(passes, "_device_rows", lambda _: 30 * n_kept + 29)
    kept = {}
    engines.fold_moments(feature_map.place(folds.parts[0].X), folds, kept)
    assert set(kept) == set(range(n_kept))


@pytest.mark.parametrize("size", [1, 3, 4, 5, 100])
def test_strips_of_a_gram_matrix(size, device, rng, monkeypatch):
    """However many columns are multiplied at a time, the halves that are left out come back."""
    monkeypatch.setattr("bochner.statistics.STRIP", size)
    features, targets, weights = rng.standard_normal((40, 7)), rng.standard_normal((40, 2)), rng.gamma(2.0, 0.5, 40)
    expected = Moments.of(features, targets, weights)
    found = Moments.of(*(torch.tensor(a, device=device) for a in (features, targets, weights)))
    for name in FIELDS:
        close(fetch(getattr(found, name)), getattr(expected, name), 2 * (40 + 4) * EPS * 4)


def test_what_is_summed_stays_as_it_was(device, rng):
    features = torch.tensor(rng.standard_normal((5, 3)), device=device)
    before = features.clone()
    Moments.of(features, features, 2 + torch.zeros(5, dtype=torch.float64, device=device))
    assert torch.equal(features, before)


def test_a_stack_of_maps(bring):
    folds = make_folds(Gaussian(), scheme="kfold", n=40)
    stacked = StackedMap(
        (make_map(Gaussian(), m=2), small_map(Cauchy(), 2, form="phase")), columns=(slice(0, 2), np.array([2, 0]))
    )
    expected, found = engines.fold_moments(stacked, folds), engines.fold_moments(stacked, bring(folds))
    for here, there in zip(expected, found, strict=True):
        bound = 2 * max(feature_error(each, folds_of_columns(folds, [2, 0])) for each in stacked.maps) + 2 * (40 + 4) * EPS
        assert np.abs(here.gram - fetch(there.gram)).max() <= bound * here.weight
    X = folds.parts[0].X
    features = fetch(stacked.place(torch.tensor(X)).forward(torch.tensor(X)))
    assert np.abs(features - stacked.forward(X)).max() <= bound


def folds_of_columns(folds, columns):
    return Folds(tuple(Rows(part.X[:, columns], part.targets, part.weights) for part in folds.parts), folds.validated)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", FORMS)
def test_predictions_and_variances(dtype, form, device, rng, monkeypatch):
    monkeypatch.setattr(passes, "DEVICE_BLOCK_BYTES", 1)
    X = rows(Gaussian(), 40, 3, dtype=dtype)
    feature_map = small_map(Gaussian(), 3, form=form)
    d = feature_map.n_features
    coef, intercept = rng.standard_normal((d, 2)), rng.standard_normal(2)
    there = torch.tensor(X, device=device)
    found, expected = engines.predict(feature_map, there, coef, intercept), engines.predict(feature_map, X, coef, intercept)
    assert (found.dtype, found.device.type) == (there.dtype, device)
    eps = float(np.finfo(dtype).eps)
    one = float(feature_tolerance(feature_map, X, dtype).max()) + 2 * (d + 1) * eps
    assert np.abs(fetch(found) - expected).max() <= one * (np.abs(coef).sum(axis=0).max() + np.abs(intercept).max())
    triangle, mean = linalg.cholesky(np.eye(d) + 0.1, lower=True), rng.standard_normal(d)
    found, expected = (
        engines.quadratic_form(feature_map, there, triangle, mean),
        engines.quadratic_form(feature_map, X, triangle, mean),
    )
    # |L^-1 v|^2 for v = phi - mean, where |L^-1| = 1: off by 2 |v| sqrt(d) times the error of a feature; the solve, whose
    # condition is sqrt(1 + d / 10), by d eps of that.
    length = np.sqrt(expected.max()) * np.sqrt(1 + d / 10)
    bound = 2 * length * np.sqrt(d) * one + 2 * d * EPS * np.sqrt(1 + d / 10) * length**2
    np.testing.assert_allclose(fetch(found), expected, rtol=0, atol=bound)


# -- factorisations ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shift", [0.0, 1e-14])
@pytest.mark.parametrize("name", INDEFINITE)
def test_factorise_never_raises(name, shift, device):
    gram = INDEFINITE[name]
    expected = factorise(gram, shift)
    factor = factorise_fresh(lambda: torch.tensor(gram, device=device), shift)
    assert factor.jitter == pytest.approx(expected.jitter, rel=len(gram) * EPS)
    triangle = fetch(factor.triangle)
    rebuilt, wanted = np.tril(triangle) @ np.tril(triangle).T, gram + (shift + factor.jitter) * np.eye(len(gram))
    np.testing.assert_allclose(rebuilt, wanted, rtol=0, atol=8 * len(gram) * EPS * np.abs(wanted).max())


def test_factors_solve(device, rng):
    root = rng.standard_normal((9, 9))
    gram, right = root @ root.T, rng.standard_normal((9, 2))
    factor = factorise_fresh(lambda: torch.tensor(gram, device=device), 0.5)
    solved = fetch(factor.solve(torch.tensor(right, device=device)))
    matrix = gram + 0.5 * np.eye(9)
    # The solution is off by a few d eps times the condition.
    close(solved, np.linalg.solve(matrix, right), 8 * 9 * EPS * np.linalg.cond(matrix))


def test_sums_that_are_not_finite(device):
    with pytest.raises(ValueError, match="not finite"):
        factorise_fresh(lambda: torch.full((2, 2), torch.inf, device=device), 0.0)


# -- the criterion -------------------------------------------------------------------------------------------------------


@each(BUILT_IN)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scheme", ["holdout", "kfold"])
def test_criterion(kernel, dtype, scheme, bring, fixed_penalty):
    folds = make_folds(kernel, scheme=scheme, n=90).astype(dtype)
    feature_map = make_map(kernel, frequencies=4)
    here, there = HeldOutError(folds), HeldOutError(bring(folds))
    expected, found = (one.evaluate(feature_map, float(np.log(ALPHA))) for one in (here, there))
    tolerance = solution_error(feature_map, folds)
    if kernel.geometry in ("product", "radial") and kernel.lower == -np.inf:
        assert meaningful(tolerance, dtype)
    assert isinstance(found.value, float)
    assert found.value == pytest.approx(expected.value, rel=tolerance)
    for name, value in expected.gradient.parameters.items():
        assert isinstance(found.gradient.parameters[name], np.ndarray | float)
        # A derivative is a sum over rows, of both signs: its error is relative to the sum of their sizes.
        close(found.gradient.parameters[name], value, 10 * tolerance)
    for k, (coef, intercept) in expected.models.items():
        close(found.models[k][0], coef, tolerance)
        close(found.models[k][1], intercept, tolerance)
    assert type(found.totals.gram) is np.ndarray
    fit, expected_fit = there.fit(feature_map, found), here.fit(feature_map, expected)
    assert type(fit.coef) is np.ndarray
    close(fit.coef, expected_fit.coef, tolerance)
    held, expected_held = there.held_out(feature_map, found), here.held_out(feature_map, expected)
    assert type(held.predictions) is np.ndarray
    close(held.predictions, expected_held.predictions, tolerance)
    for name in ("X", "targets", "weights"):
        np.testing.assert_array_equal(getattr(held.rows, name), getattr(expected_held.rows, name))


@each({"gaussian": Gaussian(), "skewed_chi2": SkewedChi2(), "additive": BUILT_IN["chi2"]})
@pytest.mark.parametrize("scheme", ["holdout", "kfold"])
def test_gradient_against_differences(kernel, scheme, bring, fixed_penalty):
    folds = bring(make_folds(kernel, scheme=scheme))
    feature_map = make_map(kernel, frequencies=4)
    kernel = feature_map.kernel

    def value(theta):
        moved = feature_map.with_kernel(kernel.with_theta(theta))
        return HeldOutError(folds).evaluate(moved, float(np.log(ALPHA)), gradient=False).value

    # As in tests/test_criteria.py: a step of 1e-2 over the largest angle.
    angle = float(np.max(np.abs(feature_map.frequencies))) * 3 if hasattr(feature_map, "frequencies") else 1.0
    difference = numerical_gradient(value, kernel.theta, 1e-2 / max(1.0, angle))
    found = HeldOutError(folds).evaluate(feature_map, float(np.log(ALPHA))).gradient.parameters
    assert relative_error(kernel.unconstrain(found), difference) < 1e-5


@pytest.mark.parametrize("per_target", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_best_penalty(per_target, dtype, bring):
    folds = make_folds(Gaussian(), scheme="kfold", n=90, c=3).astype(dtype)
    feature_map = make_map(Gaussian(), frequencies=4)
    here, there = HeldOutError(folds, per_target=per_target), HeldOutError(bring(folds), per_target=per_target)
    expected, found = here.evaluate(feature_map), there.evaluate(feature_map)
    assert np.shape(found.log_alpha) == ((3,) if per_target else ())
    assert np.all(np.exp(expected.log_alpha) > 1e-3)  # a condition of a thousand at most, a hundred times that of ALPHA
    tolerance = 100 * solution_error(feature_map, folds)
    if dtype == np.float64:
        assert meaningful(tolerance, np.float32)
        np.testing.assert_allclose(found.log_alpha, expected.log_alpha, rtol=0, atol=tolerance)
        assert found.value == pytest.approx(expected.value, rel=tolerance)
        close(there.fit(feature_map, found).coef, here.fit(feature_map, expected).coef, tolerance)
    else:  # the search ends where a step promises to gain 1e-4 of the error or less: that much may lie between two ends
        assert found.value == pytest.approx(expected.value, rel=2e-4 + solution_error(feature_map, folds))


def test_penalty_that_stays(bring):
    folds = make_folds(Gaussian(), scheme="holdout")
    feature_map = make_map(Gaussian(), frequencies=4)
    expected, found = (HeldOutError(f, penalty=ALPHA).evaluate(feature_map) for f in (folds, bring(folds)))
    assert found.log_alpha == expected.log_alpha
    assert found.value == pytest.approx(expected.value, rel=solution_error(feature_map, folds))


@pytest.mark.parametrize("scheme", ["holdout", "kfold"])
def test_fewer_rows_than_features(scheme, bring, fixed_penalty):
    """On NumPy these are solved in the span of the rows, and here from the moments of all features."""
    folds = make_folds(Gaussian(), scheme=scheme, n=12)
    feature_map = make_map(Gaussian(), frequencies=20)
    expected, found = (HeldOutError(f).evaluate(feature_map, float(np.log(1e-3))) for f in (folds, bring(folds)))
    assert expected.basis is not None
    assert found.basis is None
    assert found.value == pytest.approx(expected.value, rel=1e-8)
    close(found.gradient.parameters["scale"], expected.gradient.parameters["scale"], 1e-8)


def test_rows_of_their_own_to_validate(bring, fixed_penalty):
    """The final regression is fitted on the first part alone."""
    folds = make_folds(Gaussian(), scheme="holdout")
    folds = Folds(folds.parts, folds.validated, fitted=(0,))
    feature_map = make_map(Gaussian(), frequencies=4)
    here, there = HeldOutError(folds), HeldOutError(bring(folds))
    expected, found = (one.evaluate(feature_map, float(np.log(ALPHA))) for one in (here, there))
    tolerance = solution_error(feature_map, folds)
    assert found.totals.weight == pytest.approx(expected.totals.weight, rel=folds.n * EPS)
    close(there.fit(feature_map, found).coef, here.fit(feature_map, expected).coef, tolerance)


# -- learning ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("levels", [(Level(32, 90, 15),), (Level(16, 45, 4), Level(32, 90, 8)), (Level(128, 90, 8),)])
def test_learned_kernels_are_the_same(levels, bring):
    X, targets = sine(n=90)
    folds = folds_of(X, targets)
    expected, found = (
        learn_kernel(f, plan_of(Gaussian(), Cauchy(), levels=levels), np.random.default_rng(0))
        for f in (folds, bring(folds))
    )
    assert type(found.feature_map.kernel) is type(expected.feature_map.kernel)
    np.testing.assert_allclose(found.feature_map.kernel.scale, expected.feature_map.kernel.scale, rtol=1e-6)
    assert found.value == pytest.approx(expected.value, rel=1e-6)
    assert found.alpha == pytest.approx(expected.alpha, rel=1e-6)
    assert [r["n_rows"] for r in found.descent.history] == [r["n_rows"] for r in expected.descent.history]
    close(found.held_out.predictions, expected.held_out.predictions, 1e-6)


@pytest.mark.parametrize("levels", [(Level(32, 90, 3),), (Level(16, 45, 4), Level(24, 90, 3), Level(32, 90, 2, draws=2))])
def test_maps_of_one_family_are_drawn_ahead(levels, bring, monkeypatch):
    """All of them, and they are those that are drawn on the host; BLAS has its threads back after that."""
    X, targets = sine(n=90)
    folds = folds_of(X, targets)

    def learned(some):
        return learn_kernel(some, plan_of(Gaussian(), levels=levels), np.random.default_rng(0))

    expected = learned(folds)
    monkeypatch.setattr(single_kernel, "build_map", None)
    monkeypatch.setattr("bochner.features.ahead.DrawnAhead.forget", forget_nothing)
    with threadpool_limits(2, user_api="blas"):
        before = threads()
        found = learned(bring(folds))
        assert threads() == before
    np.testing.assert_array_equal(found.feature_map.points, expected.feature_map.points)


def forget_nothing(ahead):
    """In place of :meth:`DrawnAhead.forget`: all maps that were foreseen have been asked for."""
    assert not ahead._foreseen
    ahead._thread.shutdown()


def test_shared_scales_are_chosen(bring):
    X, targets = sine(n=90)
    ties = SharedScales(np.zeros(3, dtype=int))
    learned = [
        learn_kernel(f, plan_of(levels=(Level(16, 90, 5),)), np.random.default_rng(0), other_ties=ties)
        for f in (folds_of(X, targets), bring(folds_of(X, targets)))
    ]
    np.testing.assert_allclose(learned[1].feature_map.kernel.scale, learned[0].feature_map.kernel.scale, rtol=1e-6)


def test_single_precision_gives_way_to_double(bring):
    """Where the best penalty is one that float32 cannot carry: on noiseless targets."""
    X, targets = sine(n=90, noise=0.0)
    folds = folds_of(X, targets).astype(np.float32)
    learned = learn_kernel(bring(folds), plan_of(levels=(Level(16, 90, 20),)), np.random.default_rng(0))
    precisions = [record["precision"] for record in learned.descent.history]
    assert precisions[-1] == "float64"
    assert learned.held_out.predictions.dtype == np.float64


# -- rows on a device ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_at_once(dtype, device):
    folds = make_folds(Gaussian(), scheme="kfold", n=70).astype(dtype)
    there = on_device(folds, device)
    assert isinstance(there, DeviceFolds)
    assert there.in_memory is folds
    for name in ("n", "n_to_fit", "n_parts", "n_columns", "n_targets", "dtype", "validated", "fitted", "smallest_value"):
        assert getattr(there, name) == getattr(folds, name), name
    for mine, part in zip(there.parts, folds.parts, strict=True):
        assert mine.X.device.type == device
        for name in ("X", "targets", "weights"):
            np.testing.assert_array_equal(fetch(getattr(mine, name)), getattr(part, name), strict=True)
    few, expected = there.head(20, 2), folds.head(20, 2)
    assert few.validated == expected.validated
    for mine, part in zip(few.parts, expected.parts, strict=True):
        np.testing.assert_array_equal(fetch(mine.X), part.X)
    for other in DTYPES:
        changed = there.astype(other)
        assert changed.dtype == changed.in_memory.dtype == other
        np.testing.assert_array_equal(fetch(changed.parts[0].X), folds.parts[0].X.astype(other))
    assert brought(there) is there


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", [Elsewhere, lambda folds: folds])
def test_rows_in_blocks(dtype, kind, device, monkeypatch):
    monkeypatch.setattr(devices, "COPY_BYTES", 150)
    folds = kind(make_folds(Gaussian(), scheme="kfold", n=70).astype(dtype))
    there = on_device(folds, device, room=0 if isinstance(folds, Folds) else None)
    assert isinstance(there, DeviceStream)
    for name in ("n", "n_to_fit", "n_parts", "n_columns", "n_targets", "dtype", "validated", "fitted", "smallest_value"):
        assert getattr(there, name) == getattr(folds, name), name
    for stream, expected in ((there, folds), (there.astype(np.float64), folds.astype(np.float64))):
        assert stream.dtype == stream.in_memory.dtype == expected.dtype
        assert pieces(stream) == pieces(expected)
        assert max(rows.n for _, rows in stream.chunks()) <= 150 // (3 * np.dtype(dtype).itemsize)
    few = there.head(20, 2)
    assert isinstance(few, DeviceStream if isinstance(folds, Folds) else DeviceFolds)
    assert (few.n, few.dtype, few.validated) == (folds.head(20).n, folds.dtype, (0, 1))
    held = brought(there)
    assert held.n == folds.in_memory.n
    assert pieces(held) == pieces(folds.in_memory)


def pieces(folds):
    """The bytes of each part of folds, whatever their chunks are."""
    parts = [{"X": [], "targets": [], "weights": []} for _ in range(folds.n_parts)]
    for k, some in folds.chunks():
        for name, arrays in parts[k].items():
            arrays.append(fetch(getattr(some, name)).copy())
    return [{name: np.concatenate(arrays).tobytes() for name, arrays in part.items()} for part in parts]


def test_rows_that_do_not_fit_come_in_blocks(device):
    folds = make_folds(Gaussian(), scheme="kfold", n=30, m=3, c=2)
    needed = 30 * (3 + 2 + 1) * 8
    assert isinstance(on_device(folds, device, room=needed), DeviceFolds)
    assert isinstance(on_device(folds, device, room=needed - 1), DeviceStream)


def test_rows_on_a_device_may_change_it(device):
    folds = make_folds(Gaussian(), scheme="kfold", n=30)
    single = on_device(folds, device).astype(np.float32)
    again = on_device(single, device, room=0)
    assert isinstance(again, DeviceStream)
    assert again.dtype == np.float32
    assert pieces(on_device(again, torch.device(device))) == pieces(folds.astype(np.float32))


@pytest.mark.parametrize("container", [sparse.csr_array, sparse.csr_matrix])
def test_sparse_rows_become_dense(container, bring, fixed_penalty):
    folds = make_folds(Gaussian(), scheme="kfold", container=container)
    feature_map = make_map(Gaussian(), frequencies=4)
    there = HeldOutError(bring(folds))
    found, expected = (one.evaluate(feature_map, float(np.log(ALPHA))) for one in (there, HeldOutError(folds)))
    whole = Folds(tuple(Rows(part.X.toarray(), part.targets, part.weights) for part in folds.parts), folds.validated)
    assert found.value == pytest.approx(expected.value, rel=solution_error(feature_map, whole))
    assert sparse.issparse(there.held_out(feature_map, found).rows.X)


def test_rows_that_may_not_be_written_to_and_whole_numbers(device):
    X = np.arange(12).reshape(6, 2)
    X.flags.writeable = False
    there = on_device(folds_of(X, np.ones((6, 1))), device)
    assert there.dtype == np.float64
    np.testing.assert_array_equal(fetch(there.parts[0].X), X[::3])


# -- arrays --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_come_and_go(dtype, device):
    here = np.arange(6, dtype=dtype).reshape(2, 3)
    there = place(here, like=torch.zeros(1, dtype=getattr(torch, here.dtype.name), device=device))
    assert there.device.type == device
    assert place(there, like=there) is there
    assert dtype_of(there) == dtype_of(here) == dtype
    np.testing.assert_array_equal(place(there, like=here), here, strict=True)
    assert dtype_of(double(there)) == np.float64
    assert double(there).device.type == device
    np.testing.assert_array_equal(fetch(double(there)), double(here), strict=True)


def test_numbers_come_together(device):
    here = np.array([[1.0, 2.0], [3.0, 0.5]])
    there = torch.tensor(here, device=device)
    assert total(here) == 6.5
    assert isinstance(total(here), float)
    assert is_foreign(total(there))
    np.testing.assert_array_equal(fetch_numbers([total(there), total(there[0])]), [6.5, 3.0], strict=True)
    np.testing.assert_array_equal(fetch_numbers([total(here), total(here[0])]), [6.5, 3.0], strict=True)


# -- two buffers ---------------------------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch sees no GPU")
@pytest.mark.parametrize("slow", ["computations", "copies"])
def test_blocks_wait_for_each_other(slow, monkeypatch):
    """Whichever is slow: no block is overwritten while it is computed with, or computed with before it is there."""
    monkeypatch.setattr(devices, "COPY_BYTES", 8 * 100 * 1000)
    n, m = 5_000, 100
    X = np.repeat(np.arange(n, dtype=float)[:, None], m, axis=1)
    folds = folds_of(X, np.ones((n, 1)))
    stream = on_device(folds, "cuda", room=0)
    if slow == "copies":
        fill = devices._fill
        monkeypatch.setattr(devices, "_fill", lambda there, host: (fill(there, host), torch.cuda._sleep(10_000_000)))
    sums = []
    for _, some in stream.chunks():
        if slow == "computations":
            torch.cuda._sleep(10_000_000)
        sums.append((some.n, some.X.sum(dim=0)))
    found = [(n_rows, total[0].item(), total[-1].item()) for n_rows, total in sums]
    blocks = devices._blocks(folds.chunks(), len_of(stream))
    assert found == [(some.n, some.X[:, 0].sum(), some.X[:, -1].sum()) for _, some in blocks]


def len_of(stream):
    return devices.COPY_BYTES // stream.row_bytes


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch sees no GPU")
@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype feature")
def test_blocks_do_not_bring_anything_to_the_host(monkeypatch):
    monkeypatch.setattr(passes, "DEVICE_BLOCK_BYTES", 1)
    part = on_device(make_folds(Gaussian(), scheme="holdout", n=90), "cuda").parts[0]
    placed = make_map(Gaussian()).place(part.X)
    total = MomentSum(placed.n_features, 2, like=part.X)
    assert placed.frequencies.is_cuda
    try:
        torch.cuda.set_sync_debug_mode("error")
        passes._add_moments(total, placed, part)
        passes._pull_back(placed, part.X, lambda block, features: features)
    finally:
        torch.cuda.set_sync_debug_mode("default")


class FakeCuda:
    """Streams and events that write down what they are told, for machines without a GPU."""

    def __init__(self):
        self.told = []

    def Stream(self, device):  # noqa: N802
        return self._stream("copies")

    def current_stream(self, device):
        return self._stream("compute")

    def _stream(self, name):
        return SimpleNamespace(
            name=name,
            wait_event=lambda event: self.told.append((name, "waits for", event.name)),
            wait_stream=lambda other: self.told.append((name, "waits for", other.name)),
        )

    def Event(self):  # noqa: N802
        event = SimpleNamespace(name=f"event {sum(told[1] == 'is new' for told in self.told)}")
        self.told.append((event.name, "is new"))
        event.record = lambda stream: self.told.append((stream.name, "records", event.name))
        event.synchronize = lambda: self.told.append(("host", "waits for", event.name))
        return event

    @contextmanager
    def stream(self, stream):
        self.told.append((stream.name, "copies"))
        yield


def test_the_order_of_copies_and_computations(monkeypatch):
    """Block 1 is on its way before block 0 is given out; the copy of block 2 waits until block 0 has been used."""
    cuda = FakeCuda()

    def empty(shape, *, dtype, device, pin_memory=False):
        return torch.empty(shape, dtype=dtype)

    fake = SimpleNamespace(cuda=cuda, empty=empty, float32=torch.float32, float64=torch.float64)
    folds = folds_of(np.arange(9.0)[:, None], np.ones((9, 1)))
    stream = DeviceStream(folds, "cuda", np.dtype(np.float64))
    monkeypatch.setattr(devices, "_torch", lambda: fake)
    monkeypatch.setattr(devices, "COPY_BYTES", 3 * stream.row_bytes)
    seen = []
    for k, some in stream.chunks():
        cuda.told.append(("compute", "works on", k))
        seen.append((k, some.X[:, 0].tolist()))
    assert seen == [(0, [0, 3, 6]), (1, [1, 4, 7]), (2, [2, 5, 8])]
    copied, used = (0, 2), (1, 3)  # events 0 and 1 are of the first buffer, 2 and 3 of the second

    def copy(block):
        """To buffer ``block % 2``: when the last copy from its pinned memory is done, and the last use of its rows."""
        mine = block % 2
        return [
            ("host", "waits for", f"event {copied[mine]}"),
            ("copies", "waits for", f"event {used[mine]}"),
            ("copies", "copies"),
            ("copies", "records", f"event {copied[mine]}"),
        ]

    def work(block):
        mine = block % 2
        return [
            ("compute", "waits for", f"event {copied[mine]}"),
            ("compute", "works on", block),
            ("compute", "records", f"event {used[mine]}"),
        ]

    steps = [*copy(0), *copy(1), *work(0), *copy(2), *work(1), *work(2)]
    ends = ("copies", "waits for", "compute"), ("compute", "waits for", "copies")
    assert [told for told in cuda.told if told[1] != "is new"] == [ends[0], *steps, ends[1]]


# -- precision and errors ------------------------------------------------------------------------------------------------


def test_tf32_is_allowed_inside_the_context_only():
    assert torch.get_float32_matmul_precision() == "highest"
    with tf32():
        assert torch.get_float32_matmul_precision() == "high"
    assert torch.get_float32_matmul_precision() == "highest"
    with pytest.raises(KeyError), tf32():
        raise KeyError
    assert torch.get_float32_matmul_precision() == "highest"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch sees no GPU")
def test_tf32_rounds_factors_to_eleven_bits():
    folds = on_device(make_folds(Gaussian(), scheme="holdout", n=3_000, m=64).astype(np.float32), "cuda")
    feature_map = small_map(Gaussian(scale=0.1), 64, frequencies=256)
    exact = fetch(engines.fold_moments(feature_map, folds.astype(np.float64))[0].gram)
    single = fetch(engines.fold_moments(feature_map, folds)[0].gram)
    with tf32():
        rounded = fetch(engines.fold_moments(feature_map, folds)[0].gram)
    # Two factors of a product are off by 2^-11 each, and angles of size two or so by as much.
    assert relative_error(single, exact) < relative_error(rounded, exact) < 2**-7


def test_no_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match="pip install torch"):
        on_device(make_folds(Gaussian(), scheme="kfold"), "cpu")


def test_no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="device='cuda' was asked for and this machine has none: use device='cpu'"):
        on_device(make_folds(Gaussian(), scheme="kfold"), "cuda")


def test_not_so_many_gpus(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(ValueError, match="device='cuda:2' was asked for and this machine has 'cuda:0', 'cuda:1'"):
        on_device(make_folds(Gaussian(), scheme="kfold"), "cuda:2")


@pytest.mark.parametrize("device", ["gpu", "mps", 1.5, None])
def test_no_such_device(device):
    with pytest.raises(ValueError, match=r"device must be 'cuda', .*, got " + repr(device)):
        on_device(make_folds(Gaussian(), scheme="kfold"), device)
