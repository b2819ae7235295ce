"""Losses other than the squared one on rows in blocks: the same as in memory, and an error where there is no room."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from bochner import KernelClassifier, MultipleKernelClassifier, MultipleKernelRegressor, open_rows, weight_search
from bochner.engines import forward
from bochner.engines.dask_rows import DaskFolds
from bochner.engines.fold_products import FoldPasses
from bochner.estimators import blocks, machine, multiple_machine, multiple_rounds
from bochner.folds import Folds
from bochner.kernels import Gaussian
from bochner.rows import from_arrays, from_blocks
from bochner.rows import source as row_source
from bochner.streamed import StreamedFolds
from tests.estimators.learners import features_of

N, SAMPLED = 500, 150
KERNELS = [("signal", Gaussian(scale=0.7), [0, 1]), ("noise", Gaussian(scale=0.7), [2, 3])]
CASES = [
    (MultipleKernelClassifier, "logistic", 2),
    (MultipleKernelClassifier, "logistic", 3),
    (MultipleKernelClassifier, "multinomial", 3),
    (MultipleKernelRegressor, "epsilon-logistic", 1),
]
NAMES = [f"{loss}-{c}" for _, loss, c in CASES]
each_case = pytest.mark.parametrize(("learner", "loss", "c"), CASES, ids=NAMES)
each_loss = pytest.mark.parametrize(("loss", "c"), [case[1:] for case in CASES[:3]], ids=NAMES[:3])
TOL = 1e-8
CLOSE = 1e-3
"""An objective within 1e-8 of its minimum, where losses curve by 0.1 or so, leaves scores off by 5e-4 or less."""
SOLVED = 1e-7
"""The same for Newton's method, whose distance from the minimum is at most 1e-9 in the norm of second derivatives."""


@pytest.fixture(autouse=True)
def small_samples_and_blocks(monkeypatch):
    """Few rows are many: samples of 150 rows, blocks of 192, and no room for all rows."""
    monkeypatch.setattr(multiple_machine, "FEWEST_SAMPLED", SAMPLED)
    monkeypatch.setattr(machine, "FEWEST_SAMPLED", SAMPLED)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1)
    monkeypatch.setattr(blocks, "KEPT_SHARE", 0.0)
    monkeypatch.setattr(row_source, "FEWEST_BLOCK_ROWS", 192)
    monkeypatch.setattr(weight_search, "ROUGH", 0.0)  # paths of the folds as exact as tol, so that they can be compared


@pytest.fixture
def folds_seen(monkeypatch):
    """The folds that were learned from."""
    seen = []

    def watch(module, name):
        learn = getattr(module, name)

        def watched(folds, *args, **options):
            seen.append(folds)
            return learn(folds, *args, **options)

        monkeypatch.setattr(module, name, watched)

    watch(multiple_rounds, "learn_weights")
    watch(machine, "learn_kernel")
    return seen


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed")
    options = {"processes": False, "dashboard_address": ":0", "scheduler_port": 0}
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, **options) as started,
        distributed.Client(started, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture
def client(cluster):
    with cluster.as_current():
        yield cluster


def table(c, seed=0):
    rng = np.random.default_rng([seed, N, c])
    X = rng.standard_normal((N, 4)) * [1, 2, 1, 5] + [0, 3, 0, 0]
    y = np.sin(2 * X[:, 0]) + 0.2 * X[:, 1] + 0.5 * rng.standard_normal(N)
    return X, (y if c == 1 else np.searchsorted(np.quantile(y, np.arange(1, c) / c), y))


def quick(learner, loss, **options):
    options = {"n_features": 16, "l1_ratio": 1.0, "n_alphas": 3, "smallest": 0.05, "validation": 0.3, "tol": TOL, **options}
    return learner(KERNELS, loss=loss, random_state=0, **options)


def single(loss, **options):
    """A learner whose kernel stays where it starts, and is tried on all rows."""
    options = {"n_features": 24, "schedule": "full", "alpha": 1e-2, "validation": 0.3, "tol": 1e9, **options}
    return KernelClassifier(Gaussian(scale=[0.7, 0.3, 0.1, 0.05]), loss=loss, random_state=0, **options)


def assert_same(one, two, X, tolerance=CLOSE, names=("kernel_weights_", "explained_variance_")):
    for name in ("coef_", "intercept_", "alpha_", "validation_error_", *names):
        expected = np.asarray(getattr(two, name))
        bound = tolerance * np.abs(expected).max()
        np.testing.assert_allclose(getattr(one, name), expected, rtol=0, atol=bound, err_msg=name)
    expected = two._outputs(X)  # probabilities are calibrated on held-out rows that are in memory
    np.testing.assert_allclose(one._outputs(X), expected, rtol=0, atol=tolerance * np.abs(expected).max())


def written(X, y, folder):
    """The same rows in blocks of other sizes, and in files."""
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"]).assign(y=y)
    frame[:300].to_parquet(folder / "1.parquet")
    frame[300:].to_parquet(folder / "2.parquet")
    np.save(folder / "X.npy", X)
    np.save(folder / "y.npy", y)
    return [
        from_arrays(X, y),
        from_blocks(lambda: ((X[i : i + 70], y[i : i + 70]) for i in range(0, N, 70))),
        open_rows(folder / "*.parquet", target="y"),
        open_rows(folder / "X.npy", target=folder / "y.npy"),
    ]


def on_machines(X, y, weights):
    da = pytest.importorskip("dask.array")
    return [da.from_array(each, chunks=(130, *each.shape[1:])) for each in (X, y, weights)]


def some_weights():
    """A block, and a partition, of which no row counts."""
    weights = np.random.default_rng(1).integers(0, 3, N).astype(float)
    weights[120:270] = 0
    return weights


# -- many kernels --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("validation", [2, 0.3])
@each_case
def test_many_kernels_in_blocks_are_those_in_memory_in_the_same_parts(learner, loss, c, validation, folds_seen, monkeypatch):
    X, y = table(c)
    options = {"validation": validation} | ({"class_weight": "balanced"} if learner is MultipleKernelClassifier else {})
    streamed = quick(learner, loss, **options).fit(from_arrays(X, y, some_weights()))
    assert isinstance(folds_seen[-1], StreamedFolds)
    monkeypatch.setattr(blocks, "KEPT_SHARE", 0.25)
    whole = quick(learner, loss, **options).fit(from_arrays(X, y, some_weights()))
    assert isinstance(folds_seen[-1], Folds)
    assert_same(streamed, whole, X)


@each_case
def test_many_kernels_of_blocks_and_files(learner, loss, c, tmp_path):
    X, y = table(c)
    models = [quick(learner, loss, alpha=1e-2).fit(source) for source in written(X, y, tmp_path)]
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


@pytest.mark.parametrize("make", [quick, lambda _, loss, **options: single(loss, **options)], ids=["many", "one"])
@pytest.mark.parametrize(("learner", "loss", "c"), CASES[1:3], ids=NAMES[1:3])
def test_no_room_for_scores(learner, loss, c, make):
    X, y = table(c)
    read = []

    def rows():
        read.append(0)
        yield X, y

    model = make(learner, loss, max_memory="1GB")
    with pytest.raises(ValueError, match=rf"loss='{loss}' keeps scores of all 1,000,000,000 rows .* GB, .*Raise max_memory"):
        model.fit(from_blocks(rows, n_rows=10**9))
    assert len(read) <= 1  # to see columns, and not for a pass
    assert not hasattr(model, "n_features_in_")


def test_no_room_for_scores_of_many_classes(monkeypatch):
    """How many there are is known after the first pass."""
    X, _ = table(1)
    y = np.arange(N) % 50
    one = multiple_machine.row_bytes(N, 1, 1)
    needs_more = multiple_machine.row_bytes(N, 50, 1)
    monkeypatch.setattr(multiple_machine, "SCORE_SHARE", 1.0)
    model = quick(MultipleKernelClassifier, "multinomial")
    monkeypatch.setattr(model, "_room_beside_matrices", lambda *_: (one + needs_more) / 2, raising=False)
    with pytest.raises(ValueError, match=r"keeps scores of all 500 rows in memory"):
        model.fit(from_arrays(X, y))


def test_features_of_kernels_that_are_out_are_not_made(monkeypatch):
    X, y = table(2)
    seen = set()
    inner = FoldPasses.there_and_back

    def watched(self, *args):
        seen.add(self.n_columns)
        return inner(self, *args)

    monkeypatch.setattr(FoldPasses, "there_and_back", watched)
    monkeypatch.setattr("bochner.multiple_kernel.SCORE_SHARE", 1e-12)  # one penalty at a time
    quick(MultipleKernelClassifier, "logistic").fit(from_arrays(X, y))
    assert 16 in seen  # of 32 in all


@each_case
def test_many_kernels_on_many_machines(learner, loss, c, client, folds_seen):
    X, y = table(c)
    here = quick(learner, loss, alpha=1e-2).fit(from_arrays(X, y, some_weights()))
    there = quick(learner, loss, alpha=1e-2).fit(*on_machines(X, y, some_weights()))
    assert isinstance(folds_seen[-1], DaskFolds)
    assert_same(there, here, X)


# -- one kernel ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("validation", [2, 0.3])
@each_loss
def test_one_kernel_in_blocks_is_that_in_memory_in_the_same_parts(loss, c, validation, folds_seen, monkeypatch):
    X, y = table(c)
    options = {"validation": validation, "class_weight": "balanced"}
    streamed = single(loss, **options).fit(from_arrays(X, y, some_weights()))
    assert isinstance(folds_seen[-1], StreamedFolds)
    monkeypatch.setattr(blocks, "KEPT_SHARE", 0.25)
    whole = single(loss, **options).fit(from_arrays(X, y, some_weights()))
    assert isinstance(folds_seen[-1], Folds)
    assert_same(streamed, whole, X, SOLVED, ("scale_",))


def test_steps_of_a_kernel_in_blocks(monkeypatch):
    """Every step goes over all rows, in memory or not."""
    X, y = table(2)
    streamed = single("logistic", tol=1e-2).fit(from_arrays(X, y))
    monkeypatch.setattr(blocks, "KEPT_SHARE", 0.25)
    whole = single("logistic", tol=1e-2).fit(from_arrays(X, y))
    assert streamed.n_iter_ == whole.n_iter_ > 0
    np.testing.assert_allclose(streamed.scale_, whole.scale_, rtol=1e-4)  # rounding, carried on from step to step


@each_loss
def test_one_kernel_of_blocks_and_files(loss, c, tmp_path):
    X, y = table(c)
    models = [single(loss).fit(source) for source in written(X, y, tmp_path)]
    for model in models[1:]:
        np.testing.assert_array_equal(model.coef_, models[0].coef_)


@pytest.mark.parametrize(("loss", "c"), [("logistic", 2), ("multinomial", 3)])
def test_one_kernel_at_its_penalty_is_that_of_scikit_learn(loss, c):
    """The kernel is tried on a sample; penalty and coefficients are those of all rows."""
    X, y = table(c)
    weights = np.random.default_rng(1).gamma(2.0, 0.5, N)
    model = single(loss, schedule="small-to-large", alpha=None).fit(from_arrays(X, y, weights))
    assert {record["n_rows"] for record in model.history_} == {SAMPLED}
    features = features_of(model, X)
    reference = LogisticRegression(
        C=1 / (2 * model.alpha_ * weights.sum()), solver="newton-cholesky", tol=1e-12, max_iter=1000
    ).fit(features, y, sample_weight=weights)
    scores = reference.decision_function(features)
    found = model._outputs(X)[:, 0] if c == 2 else model._outputs(X)
    np.testing.assert_allclose(found, scores, rtol=0, atol=1e-5 * np.abs(scores).max())


def test_one_kernel_in_single_precision():
    X, y = table(3)
    model, other = (single("multinomial").fit(from_arrays(each, y)) for each in (X.astype(np.float32), X))
    np.testing.assert_allclose(model.predict_proba(X), other.predict_proba(X), rtol=0, atol=1e-4)


@each_loss
def test_one_kernel_on_many_machines(loss, c, client, folds_seen):
    X, y = table(c)
    here = single(loss).fit(from_arrays(X, y, some_weights()))
    there = single(loss).fit(*on_machines(X, y, some_weights()))
    assert isinstance(folds_seen[-1], DaskFolds)
    assert_same(there, here, X, SOLVED, ("scale_",))


# -- checkpoints ---------------------------------------------------------------------------------------------------------


def test_checkpoints(tmp_path):
    X, y = table(2)
    for make in (
        lambda **options: quick(MultipleKernelClassifier, "logistic", alpha=1e-2, **options),
        lambda **options: single("logistic", schedule="small-to-large", **options),
    ):
        kept, plain = make(checkpoint=tmp_path / "fit").fit(from_arrays(X, y)), make().fit(from_arrays(X, y))
        np.testing.assert_array_equal(kept.coef_, plain.coef_)
        assert not (tmp_path / "fit").exists()
