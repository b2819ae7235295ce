"""Losses other than the squared one on rows in blocks: the same as in memory, and an error where there is no room."""

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster
from sklearn.linear_model import LogisticRegression

from bochner import MultipleKernelClassifier, MultipleKernelRegressor, open_rows, weight_search
from bochner.engines import forward
from bochner.engines.dask_rows import DaskFolds
from bochner.engines.fold_products import FoldPasses
from bochner.estimators import blocks, multiple_machine, multiple_rounds
from bochner.folds import Folds
from bochner.kernels import Gaussian
from bochner.rows import from_arrays, from_blocks
from bochner.rows import source as row_source
from bochner.streamed import StreamedFolds

N, SAMPLED = 700, 150
KERNELS = [("signal", Gaussian(scale=0.7), [0, 1]), ("noise", Gaussian(scale=0.7), [2, 3])]
CASES = [
    (MultipleKernelClassifier, "logistic", 2),
    (MultipleKernelClassifier, "logistic", 3),
    (MultipleKernelClassifier, "multinomial", 3),
    (MultipleKernelRegressor, "epsilon-logistic", 1),
]
each_case = pytest.mark.parametrize(("learner", "loss", "c"), CASES, ids=[f"{loss}-{c}" for _, loss, c in CASES])
TOL = 1e-10
CLOSE = 1e-4
"""An objective within 1e-10 of its minimum, where losses curve by 0.1 or so, leaves scores off by 5e-5 or less."""


@pytest.fixture(autouse=True)
def small_samples_and_blocks(monkeypatch):
    """Few rows are many: samples of 150 rows, blocks of 256, and no room for all rows."""
    monkeypatch.setattr(multiple_machine, "FEWEST_SAMPLED", SAMPLED)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1)
    monkeypatch.setattr(blocks, "KEPT_SHARE", 0.0)
    monkeypatch.setattr(row_source, "FEWEST_BLOCK_ROWS", 256)
    monkeypatch.setattr(weight_search, "ROUGH", 0.0)  # paths of the folds as exact as tol, so that they can be compared


@pytest.fixture
def folds_seen(monkeypatch):
    """The folds that weights were learned from."""
    seen = []
    learn = multiple_rounds.learn_weights

    def watched(folds, *args, **options):
        seen.append(folds)
        return learn(folds, *args, **options)

    monkeypatch.setattr(multiple_rounds, "learn_weights", watched)
    return seen


def table(c, seed=0):
    rng = np.random.default_rng([seed, N, c])
    X = rng.standard_normal((N, 4)) * [1, 2, 1, 5] + [0, 3, 0, 0]
    y = np.sin(2 * X[:, 0]) + 0.2 * X[:, 1] + 0.5 * rng.standard_normal(N)
    return X, (y if c == 1 else np.searchsorted(np.quantile(y, np.arange(1, c) / c), y))


def quick(learner, loss, **options):
    options = {"n_features": 16, "l1_ratio": 1.0, "n_alphas": 3, "smallest": 0.05, "validation": 2, "tol": TOL, **options}
    return learner(KERNELS, loss=loss, random_state=0, **options)


def assert_same(one, two, X, tolerance=CLOSE):
    for name in ("coef_", "intercept_", "kernel_weights_", "explained_variance_", "alpha_", "validation_error_"):
        expected = np.asarray(getattr(two, name))
        bound = tolerance * np.abs(expected).max()
        np.testing.assert_allclose(getattr(one, name), expected, rtol=0, atol=bound, err_msg=name)
    np.testing.assert_allclose(one._outputs(X), two._outputs(X), rtol=0, atol=tolerance * np.abs(two._outputs(X)).max())


# -- many kernels --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("validation", [3, 0.3])
@each_case
def test_blocks_equal_rows_in_memory_in_the_same_parts(learner, loss, c, validation, folds_seen, monkeypatch):
    X, y = table(c)
    weights = np.random.default_rng(1).integers(0, 3, N).astype(float)
    options = {"validation": validation} | ({"class_weight": "balanced"} if learner is MultipleKernelClassifier else {})
    streamed = quick(learner, loss, **options).fit(from_arrays(X, y, weights))
    assert isinstance(folds_seen[-1], StreamedFolds)
    monkeypatch.setattr(blocks, "KEPT_SHARE", 0.25)
    whole = quick(learner, loss, **options).fit(from_arrays(X, y, weights))
    assert isinstance(folds_seen[-1], Folds)
    assert_same(streamed, whole, X)


@each_case
def test_blocks_and_files_make_no_difference(learner, loss, c, tmp_path):
    X, y = table(c)
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"]).assign(y=y)
    frame[:500].to_parquet(tmp_path / "1.parquet")
    frame[500:].to_parquet(tmp_path / "2.parquet")
    np.save(tmp_path / "X.npy", np.c_[X, y])
    sources = [
        from_arrays(X, y),
        from_blocks(lambda: ((X[i : i + 70], y[i : i + 70]) for i in range(0, N, 70))),
        open_rows(tmp_path / "*.parquet", target="y"),
        open_rows(tmp_path / "X.npy", target=4),
    ]
    models = [quick(learner, loss, alpha=1e-2).fit(source) for source in sources]
    for model in models[1:]:
        np.testing.assert_array_equal(model.coef_, models[0].coef_)


@pytest.mark.parametrize(("loss", "c"), [("logistic", 2), ("multinomial", 3)])
def test_a_ridge_penalty_is_that_of_scikit_learn(loss, c):
    X, y = table(c)
    weights = np.random.default_rng(1).gamma(2.0, 0.5, N)
    alpha = 1e-2
    model = quick(MultipleKernelClassifier, loss, l1_ratio=1e-9, alpha=alpha).fit(from_arrays(X, y, weights))
    features = forward(model.feature_map_, model._stacked(model._views.take(model, X)))
    reference = LogisticRegression(C=1 / (2 * alpha * weights.sum()), solver="newton-cholesky", tol=1e-12, max_iter=1000)
    reference.fit(features, y, sample_weight=weights)
    coef = model.coef_ - model.coef_.mean(axis=1, keepdims=True) if c > 2 else model.coef_
    np.testing.assert_allclose(coef.T, reference.coef_, rtol=0, atol=1e-4 * np.abs(reference.coef_).max())


@each_case
def test_fewer_penalties_side_by_side_where_memory_is_small(learner, loss, c, monkeypatch, folds_seen):
    X, y = table(c)
    whole = quick(learner, loss).fit(from_arrays(X, y))
    monkeypatch.setattr("bochner.multiple_kernel.SCORE_SHARE", 1e-12)
    one_by_one = quick(learner, loss).fit(from_arrays(X, y))
    assert isinstance(folds_seen[-1], StreamedFolds)
    assert_same(one_by_one, whole, X)


@each_case
def test_no_room_for_scores(learner, loss, c, monkeypatch):
    X, y = table(c)
    read = []

    def make():
        read.append(0)
        yield X, y

    monkeypatch.setattr(multiple_machine, "SCORE_SHARE", 1e-12)
    with pytest.raises(
        ValueError, match=rf"loss='{loss}' keeps scores of all 700 rows .* Raise max_memory, give fewer rows"
    ):
        quick(learner, loss).fit(from_blocks(make, n_rows=N))
    assert len(read) <= 1  # to see columns, and not for a pass


def test_no_room_for_scores_of_many_classes(monkeypatch):
    """How many there are is known after the first pass."""
    X, _ = table(1)
    y = np.arange(N) % 50
    one = multiple_machine.row_bytes(N, 1)
    needs_more = multiple_machine.row_bytes(N, 50)
    monkeypatch.setattr(multiple_machine, "SCORE_SHARE", 1.0)
    model = quick(MultipleKernelClassifier, "multinomial")
    monkeypatch.setattr(model, "_room_beside_matrices", lambda *_: (one + needs_more) / 2, raising=False)
    with pytest.raises(ValueError, match=r"keeps scores of all 700 rows in memory"):
        model.fit(from_arrays(X, y))


def test_features_of_kernels_that_are_out_are_not_made(monkeypatch):
    X, y = table(2)
    seen = set()
    inner = FoldPasses.there_and_back

    def watched(self, *args):
        seen.add(self.n_columns)
        return inner(self, *args)

    monkeypatch.setattr(FoldPasses, "there_and_back", watched)
    quick(MultipleKernelClassifier, "logistic").fit(from_arrays(X, y))
    assert 16 in seen  # of 32 in all


# -- many machines -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def client():
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        yield client


@each_case
def test_rows_on_many_machines(learner, loss, c, client, folds_seen):
    X, y = table(c)
    weights = np.random.default_rng(1).integers(0, 3, N).astype(float)
    weights[200:400] = 0  # a partition of which no row counts
    here = quick(learner, loss).fit(from_arrays(X, y, weights))
    rows = (da.from_array(each, chunks=(200, *each.shape[1:])) for each in (X, y, weights))
    there = quick(learner, loss).fit(*rows)
    assert isinstance(folds_seen[-1], DaskFolds)
    assert_same(there, here, X)
