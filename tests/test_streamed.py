"""Rows in blocks, in parts by hashes of row numbers: the same parts, sums, errors and gradients as for rows in memory."""

import numpy as np
import pytest
from scipy import sparse

from bochner.criteria import HeldOutError
from bochner.descent import Level, Plan
from bochner.folds import Folds, Rows
from bochner.kernels import Gaussian
from bochner.kernels.ties import SharedScales
from bochner.rows import from_arrays
from bochner.single_kernel import learn_kernel
from bochner.streamed import HashCut, ListedCut, StreamedFolds
from tests.cases import small_map, with_scales

N, M = 240, 3
CUTS = {"holdout": HashCut(5), "a third held out": HashCut(5, fraction=1 / 3), "3 folds": HashCut(5, n_folds=3)}
CUTS["listed"] = ListedCut(5, np.arange(N) // 7 % 3, 2)
each_cut = pytest.mark.parametrize("cut", [pytest.param(cut, id=name) for name, cut in CUTS.items()])
ROUNDING = 1e-10
"""At most n eps times the condition of the matrices, 1 / alpha = 100 for unit features, and a margin of ten."""


def table(*, c=2, weighted=True, container=np.asarray, dtype=np.float64, n=N):
    rng = np.random.default_rng([n, c])
    X = rng.standard_normal((n, M))
    if container is not np.asarray:
        X[rng.random(X.shape) < 0.4] = 0
    targets = np.stack([np.sin((k + 1) * X[:, 0]) + X[:, -1] + 0.3 * rng.standard_normal(n) for k in range(c)], axis=1)
    weights = rng.gamma(2.0, 0.5, n) if weighted else np.ones(n)
    return Rows(container(X.astype(dtype)), targets, weights)


def streamed(rows, cut, *, block_rows=37, n_sample=60, **more):
    """Rows as those of a source, the first of them in memory."""
    used = np.flatnonzero(rows.weights > 0)
    numbers = used[:n_sample]
    return StreamedFolds(
        source=from_arrays(rows.X, rows.targets, rows.weights),
        n=len(used),
        prepare=lambda block: Rows(block.X, block.y, block.weight),
        cut=cut,
        in_memory=cut.folds(numbers, rows.take(numbers)),
        block_rows=block_rows,
        smallest_value=float(rows.X.min()),
        **more,
    )


def in_memory(rows, cut):
    return cut.folds(np.arange(rows.n), rows)


# -- parts ---------------------------------------------------------------------------------------------------------------


@each_cut
@pytest.mark.parametrize("block_rows", [1, 37, N, 10 * N])
def test_parts_are_the_same_for_any_block_size_and_cover_every_row_once(cut, block_rows):
    rows = table()
    found = streamed(rows, cut, block_rows=block_rows)
    parts = [[] for _ in range(cut.n_parts)]
    for k, some in found.chunks():
        parts[k].append(some)
    expected = in_memory(rows, cut)
    assert found.n == expected.n == sum(some.n for part in parts for some in part) == N
    for part, whole in zip(parts, expected.parts, strict=True):
        stacked = Rows.stack(part)
        np.testing.assert_array_equal(stacked.X, whole.X)
        np.testing.assert_array_equal(stacked.targets, whole.targets)
        np.testing.assert_array_equal(stacked.weights, whole.weights)


@pytest.mark.parametrize(
    ("cut", "share"), [(HashCut(1), 0.2), (HashCut(1, fraction=0.5), 0.5), (HashCut(1, n_folds=7), 1 / 7)]
)
def test_parts_have_their_share_of_the_rows(cut, share):
    n = 50_000
    parts = cut.parts_of(np.arange(n))
    sizes = np.bincount(parts, minlength=cut.n_parts)
    assert sizes.sum() == n
    # Each row is in a validated part by chance of ``share``: five standard deviations of a binomial law.
    assert np.all(np.abs(sizes[list(cut.validated)] - share * n) <= 5 * np.sqrt(n * share * (1 - share)))
    assert not np.array_equal(parts, HashCut(2, n_folds=cut.n_folds, fraction=cut.fraction).parts_of(np.arange(n)))


def test_too_few_rows_for_their_parts():
    rows = table()
    with pytest.raises(ValueError, match=r"3 rows are too few for 5 parts by the hash of their numbers: .*validation=2"):
        HashCut(0, n_folds=5).folds(np.arange(3), rows.take(slice(0, 3)))
    with pytest.raises(ValueError, match=r"a split without a single validation or training row .* among the 7 rows"):
        CUTS["listed"].folds(np.arange(7), rows.take(slice(0, 7)))


@each_cut
def test_the_contract_of_rows_in_parts(cut):
    rows = table()
    found, expected = streamed(rows, cut), in_memory(rows, cut)
    for name in ("validated", "fitted", "n", "n_to_fit", "n_parts", "n_columns", "n_targets", "dtype", "smallest_value"):
        assert getattr(found, name) == getattr(expected, name), name
    assert found.head(N).n == N
    assert found.head(N, 1).validated == found.validated[:1]
    assert 30 <= found.head(30).n <= 30 + cut.n_parts  # the parts' shares are rounded up
    assert isinstance(found.head(30), Folds)
    assert found.astype(np.float32).dtype == np.float32
    assert all(some.X.dtype == np.float32 for _, some in found.astype(np.float32).chunks())


def test_every_pass_is_watched():
    seen = []
    folds = streamed(table(), CUTS["holdout"], block_rows=100, watch=seen.append)
    for _ in range(2):
        assert len(list(folds.chunks())) > 0
    assert [(r["pass"], r["done"], r["n_rows"]) for r in seen] == [(p, d, N) for p in (2, 3) for d in (100, 200, 240)]
    assert all(r["seconds"] >= 0 for r in seen)


# -- the criterion -------------------------------------------------------------------------------------------------------


def assert_same_evaluation(found, expected, rtol):
    assert found.value == pytest.approx(expected.value, rel=rtol)
    np.testing.assert_allclose(found.log_alpha, expected.log_alpha, rtol=0, atol=max(rtol, 1e-6))
    for name, gradient in expected.gradient.parameters.items():
        size = np.max(np.abs(gradient))
        np.testing.assert_allclose(found.gradient.parameters[name], gradient, rtol=0, atol=rtol * size)
    assert list(found.models) == list(expected.models)
    for k, (coef, intercept) in expected.models.items():
        np.testing.assert_allclose(found.models[k][0], coef, rtol=0, atol=rtol * np.linalg.norm(coef))
        np.testing.assert_allclose(found.models[k][1], intercept, rtol=0, atol=rtol * np.linalg.norm(coef))


@each_cut
@pytest.mark.parametrize("c", [1, 3])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("block_rows", [37, N])
def test_held_out_error_and_its_gradient(cut, c, container, weighted, block_rows):
    rows = table(c=c, weighted=weighted, container=container)
    feature_map = small_map(with_scales(Gaussian(), M, shared=False), M, frequencies=10)
    streams, holds = (
        HeldOutError(folds, penalty=1e-2) for folds in (streamed(rows, cut, block_rows=block_rows), in_memory(rows, cut))
    )
    found, expected = streams.evaluate(feature_map), holds.evaluate(feature_map)
    assert_same_evaluation(found, expected, ROUNDING)
    one, two = streams.fit(feature_map, found), holds.fit(feature_map, expected)
    np.testing.assert_allclose(one.coef, two.coef, rtol=0, atol=ROUNDING * np.linalg.norm(two.coef))


@each_cut
@pytest.mark.parametrize("per_target", [False, True])
def test_the_best_penalty(cut, per_target):
    rows = table()
    feature_map = small_map(with_scales(Gaussian(), M, shared=False), M, frequencies=10)
    found, expected = (
        HeldOutError(folds, per_target=per_target).evaluate(feature_map)
        for folds in (streamed(rows, cut), in_memory(rows, cut))
    )
    # The search ends within its precision of the least value, where the value is flat and the gradient is not.
    assert_same_evaluation(found, expected, 1e-6)


@each_cut
def test_float32(cut):
    rows = table(dtype=np.float32)
    feature_map = small_map(with_scales(Gaussian(), M, shared=False), M, frequencies=10)
    found, expected = (
        HeldOutError(folds, penalty=1e-2).evaluate(feature_map) for folds in (streamed(rows, cut), in_memory(rows, cut))
    )
    # Products of float32 features, summed over blocks of another length: sqrt(n) eps32 times the condition 1 / alpha.
    assert_same_evaluation(found, expected, 100 * np.sqrt(N) * np.finfo(np.float32).eps)


def test_rows_of_weight_zero_count_for_nothing():
    rows = table()
    more = table(n=N + 50)
    padded = Rows(
        np.r_[rows.X, 100 * more.X[N:]], np.r_[rows.targets, 1e3 * more.targets[N:]], np.r_[rows.weights, np.zeros(50)]
    )
    feature_map = small_map(with_scales(Gaussian(), M, shared=False), M, frequencies=10)
    cut = CUTS["3 folds"]
    one, two = (HeldOutError(streamed(each, cut), penalty=1e-2).evaluate(feature_map) for each in (rows, padded))
    assert streamed(padded, cut).n == N
    assert_same_evaluation(two, one, ROUNDING)


def test_held_out_predictions_are_those_of_the_rows_in_memory():
    rows, cut = table(), CUTS["3 folds"]
    feature_map = small_map(with_scales(Gaussian(), M, shared=False), M, frequencies=10)
    folds = streamed(rows, cut)
    criterion, whole = HeldOutError(folds, penalty=1e-2), HeldOutError(in_memory(rows, cut), penalty=1e-2)
    found = criterion.held_out(feature_map, criterion.evaluate(feature_map, gradient=False))
    everyone = whole.held_out(feature_map, whole.evaluate(feature_map, gradient=False))
    assert found.rows.n == 60
    sampled = np.concatenate([np.flatnonzero(np.isin(everyone.rows.X[:, 0], x)) for x in found.rows.X[:, 0]])
    np.testing.assert_allclose(found.predictions, everyone.predictions[sampled], rtol=0, atol=1e-8)


@pytest.mark.parametrize("cut", [CUTS["holdout"], CUTS["3 folds"]], ids=["holdout", "3 folds"])
def test_a_whole_descent_on_all_rows(cut):
    """The levels of schedule="full": every step goes over all rows."""
    rows = table(c=1)
    plan = Plan(
        families=(Gaussian(scale=np.full(M, 0.5)),),
        n_starts=0,
        levels=(Level(20, N, 6),),
        ties=SharedScales(np.arange(M)),
        tol=1e-3,
    )
    found, expected = (
        learn_kernel(folds, plan, np.random.default_rng(0)) for folds in (streamed(rows, cut), in_memory(rows, cut))
    )
    assert [r["n_rows"] for r in found.descent.history] == [N] * len(expected.descent.history)
    # A descent carries rounding on from step to step, and stops where steps promise little.
    np.testing.assert_allclose(found.feature_map.kernel.scale, expected.feature_map.kernel.scale, rtol=1e-5)
    assert found.value == pytest.approx(expected.value, rel=1e-6)
    np.testing.assert_allclose(found.fit.coef, expected.fit.coef, rtol=0, atol=1e-4 * np.linalg.norm(expected.fit.coef))
