"""Learners of many kernels on rows in blocks, and on a device: the same as in memory, and errors that say what to do."""

import pickle

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.model_selection import GroupKFold

from bochner import MultipleKernelClassifier, MultipleKernelRegressor, weight_search
from bochner.engines.devices import DeviceFolds
from bochner.estimators import blocks, dictionary, multiple_machine, multiple_parts, multiple_rounds
from bochner.kernels import Gaussian
from bochner.rows import from_arrays
from bochner.rows import source as row_source
from bochner.streamed import StreamedFolds

N, SAMPLED = 900, 200
KERNELS = [
    ("signal", Gaussian(scale=0.7), [0, 1]),
    ("noise", Gaussian(scale=0.7), [2, 3]),
    ("more noise", Gaussian(scale=0.7), [4]),
]
LEARNERS = (MultipleKernelRegressor, MultipleKernelClassifier)
each_learner = pytest.mark.parametrize("learner", LEARNERS)
CLOSE = 1e-8


@pytest.fixture(autouse=True)
def small_samples_and_blocks(monkeypatch):
    """Few rows are many: samples of 200 rows, blocks of 256."""
    monkeypatch.setattr(multiple_machine, "FEWEST_SAMPLED", SAMPLED)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1)
    monkeypatch.setattr(row_source, "FEWEST_BLOCK_ROWS", 256)


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


def table(learner=MultipleKernelRegressor, n=N, seed=0):
    rng = np.random.default_rng([seed, n])
    X = rng.standard_normal((n, 5)) * [1, 2, 1, 5, 1] + [0, 3, 0, 0, 9]
    y = np.sin(2 * X[:, 0]) + 0.2 * X[:, 1] + 0.1 * rng.standard_normal(n)
    if learner is MultipleKernelClassifier:
        y = np.searchsorted(np.quantile(y, [0.3, 0.6]), y)
    return X, y


def quick(learner=MultipleKernelRegressor, kernels=KERNELS, **options):
    options = {"n_features": 40, "l1_ratio": 1.0, "n_alphas": 8, "smallest": 1e-3, "random_state": 0, **options}
    return learner(kernels, **options)


def output(model, X):
    return model.predict(X) if isinstance(model, MultipleKernelRegressor) else model.predict_proba(X)


def assert_same(one, two, X, tolerance=CLOSE):
    for name in ("coef_", "intercept_", "kernel_weights_", "explained_variance_", "alpha_", "validation_error_"):
        expected = np.asarray(getattr(two, name))
        bound = tolerance * np.abs(expected).max()
        np.testing.assert_allclose(getattr(one, name), expected, rtol=0, atol=bound, err_msg=name)
    np.testing.assert_allclose(one._outputs(X), two._outputs(X), rtol=0, atol=tolerance * np.abs(two._outputs(X)).max())


GROUPS = np.arange(N) // 7
LISTED = list(GroupKFold(3).split(np.zeros(N), groups=GROUPS))


@pytest.mark.parametrize("validation", [None, 3, 0.3, LISTED, LISTED[:1]])
@each_learner
def test_blocks_equal_rows_in_memory_in_the_same_parts(learner, validation, folds_seen, monkeypatch):
    X, y = table(learner)
    weights = np.random.default_rng(1).integers(0, 3, N).astype(float)
    source = from_arrays(X, y, weights)
    options = {"validation": validation, "refit": "ridge"}
    if learner is MultipleKernelClassifier:
        options["class_weight"] = "balanced"
    streamed = quick(learner, **options).fit(source)
    assert isinstance(folds_seen[-1], StreamedFolds)
    monkeypatch.setattr(multiple_machine, "FEWEST_SAMPLED", N)
    whole = quick(learner, **options).fit(source)
    assert not isinstance(folds_seen[-1], StreamedFolds)
    assert_same(streamed, whole, X)


@pytest.mark.parametrize("pairs", [LISTED, LISTED[:2], LISTED[:1]])
def test_listed_rows_are_held_out(pairs):
    cut = blocks.source_cut("auto", pairs, N, N, seed=0)
    parts = cut.parts_of(np.arange(N))
    assert cut.validated == tuple(range(len(pairs)))
    assert cut.n_parts == min(len(pairs) + 1, 3)
    for k, (fitted, validated) in enumerate(pairs):
        np.testing.assert_array_equal(np.flatnonzero(parts == k), validated)
        np.testing.assert_array_equal(np.flatnonzero(parts != k), fitted)


@pytest.mark.parametrize("n_classes", [2, 9])
@pytest.mark.parametrize("shared", [True, False])
def test_all_classes_penalties_and_folds_come_from_one_pass(n_classes, shared, monkeypatch):
    passes, read = [], StreamedFolds._blocks
    monkeypatch.setattr(StreamedFolds, "_blocks", lambda *given: passes.append(given) or read(*given))
    X, y = table()
    classes = np.searchsorted(np.quantile(y, np.arange(1, n_classes) / n_classes), y)
    model = quick(MultipleKernelClassifier, shared_weights=shared, refit="weighted").fit(from_arrays(X, classes))
    assert len(model.trials_) > 5
    assert model.coef_.shape[1] == (1 if n_classes == 2 else n_classes)
    assert len(passes) == 1


def test_standardisers_are_those_of_all_rows():
    X, y = table()
    streamed, whole = quick().fit(from_arrays(X, y)), quick().fit(X, y)
    for one, two in zip(streamed._standardisers, whole._standardisers, strict=True):
        np.testing.assert_allclose(one.centre, two.centre, rtol=0, atol=1e-12 * np.abs(X).max())
        np.testing.assert_allclose(one.spread, two.spread, rtol=1e-12)
    assert streamed.n_features_in_ == 5


@each_learner
def test_kernels_of_noise_are_out(learner):
    X, y = table(learner)
    model = quick(learner, selection="one-standard-error").fit(from_arrays(X, y))
    in_ = model.kernel_weights_.max(axis=1) > 0
    assert in_.tolist() == [True, False, False]


@each_learner
def test_predictions_and_scores_of_sources(learner):
    X, y = table(learner)
    source = from_arrays(X, y)
    model = quick(learner).fit(source)
    np.testing.assert_allclose(output(model, source), output(model, X), rtol=0, atol=CLOSE)
    assert model.score(source) == pytest.approx(model.score(X, y))
    np.testing.assert_allclose(output(quick(learner).fit(X, y), source).sum(), output(quick(learner).fit(X, y), X).sum())


def test_columns_by_name(tmp_path):
    X, y = table()
    named = from_arrays(X, y)
    named.names = ("a", "b", "c", "d", "e")
    by_name = [
        ("signal", KERNELS[0][1], ["a", "b"]),
        ("noise", KERNELS[1][1], slice("c", "d")),
        ("rest", KERNELS[2][1], "e"),
    ]
    one, two = quick(kernels=by_name).fit(named), quick().fit(from_arrays(X, y))
    np.testing.assert_array_equal(one.coef_, two.coef_)
    assert one.feature_names_in_.tolist() == list("abcde")
    auto = quick(kernels="auto", n_features=10).fit(named)
    assert "column a" in auto.kernel_names_.tolist()


def test_a_table_on_disk_that_is_larger_than_memory(tmp_path, folds_seen):
    X, y = table()
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    small = quick(kernels=[("all", Gaussian(scale=0.7), slice(None))], n_features=10, validation=2)
    small.set_params(max_memory=130_000).fit(mapped, y)
    assert isinstance(folds_seen[-1], StreamedFolds)
    assert small.predict(mapped).shape == (N,)
    small.set_params(max_memory=None).fit(mapped, y)
    assert not isinstance(folds_seen[-1], StreamedFolds)


@pytest.mark.parametrize("scale", ["median", "learned", "learned-per-column"])
def test_scales_come_from_the_sample(scale):
    X, y = table()
    names = [(name, "gaussian", columns) for name, _, columns in KERNELS]
    streamed = quick(kernels=names, scale=scale).fit(from_arrays(X, y))
    whole = quick(kernels=names, scale=scale).fit(X, y)
    assert streamed.score(X, y) > 0.9 * whole.score(X, y)
    if scale == "median":
        for one, two in zip(streamed.kernels_, whole.kernels_, strict=True):
            np.testing.assert_allclose(one.scale, two.scale, rtol=0.2)  # medians of 200 and of 256 rows


def test_sparse_rows_in_blocks():
    X, y = table()
    X = sparse.csr_array(np.where(X > 0, X, 0))
    kernels = [("one", Gaussian(scale=0.3), [0, 1]), ("two", "chi2", [2, 3])]
    model = quick(kernels=kernels).fit(from_arrays(X, y))
    assert model.predict(X).shape == (N,)
    assert [part.centre.any() for part in model._standardisers] == [False, False]


def test_more_features_where_few_kernels_are_in(monkeypatch):
    monkeypatch.setattr(multiple_parts, "MOST_FEATURES", 300)
    for name, size in (("FEWEST_IN_ALL", 300), ("SMALL_PROBLEM", 0)):
        monkeypatch.setattr(dictionary, name, size)
    X, y = table()
    model = quick(n_features=None, selection="one-standard-error").fit(from_arrays(X, y))
    assert len(model.feature_map_.sizes) < 3
    assert model.feature_map_.sizes[0] > 100  # the share of each of three kernels


@pytest.mark.parametrize(
    ("learner", "options", "message"),
    [
        (MultipleKernelRegressor, {"validation": ([[0.0] * 5], [1.0])}, r"validation must be a number of folds"),
        (MultipleKernelRegressor, {"kernels": [("a", "gaussian", ["z"])]}, r"the columns of these rows have no names"),
        (MultipleKernelRegressor, {"kernels": [("a", "gaussian", lambda X: [0])]}, r"no table that a function could look"),
        (MultipleKernelRegressor, {"kernels": [("a", "gaussian", [7])]}, r"among the columns 0 to 4 of X"),
        (MultipleKernelRegressor, {"kernels": [("a", "chi2", [0])]}, r"Kernel 'a': Negative values in data"),
        (MultipleKernelRegressor, {"max_memory": 1000}, r"there is no room from kernel 'signal' on"),
        (MultipleKernelRegressor, {"device": "cuda:99"}, r"device='cuda:99' was asked for"),
    ],
)
def test_errors(learner, options, message):
    X, y = table(learner)
    with pytest.raises(ValueError, match=message):
        quick(learner, **options).fit(from_arrays(X, y))


def test_errors_of_targets_and_columns():
    X, y = table()
    with pytest.raises(ValueError, match=r"come with their own targets: leave y out"):
        quick().fit(from_arrays(X, y), y)
    with pytest.raises(ValueError, match=r"These rows come without targets"):
        quick().fit(from_arrays(X))
    model = quick().fit(from_arrays(X, y))
    with pytest.raises(ValueError, match=r"The source has 4 columns, but MultipleKernelRegressor is expecting 5"):
        model.predict(from_arrays(X[:, :4], y))
    with pytest.raises(ValueError, match=r"takes no rows in blocks"):
        quick(kernels="gaussian").fit([from_arrays(X, y), X], y)


def test_a_fit_that_fails_leaves_the_model_as_it_was():
    X, y = table()
    model = quick().fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="come without targets"):
        model.fit(from_arrays(X))
    np.testing.assert_array_equal(model.predict(X), before)


# -- devices -------------------------------------------------------------------------------------------------------------

HAS_GPU = torch.cuda.is_available()
GPU = pytest.param("cuda", marks=[pytest.mark.gpu, pytest.mark.skipif(not HAS_GPU, reason="PyTorch sees no GPU")])


@pytest.mark.parametrize("device", ["cpu", GPU])
@pytest.mark.parametrize("in_blocks", [False, True])
@each_learner
def test_moments_on_a_device(learner, in_blocks, device, folds_seen, monkeypatch):
    monkeypatch.setattr(weight_search, "ROUGH", 0.0)  # paths of the folds as exact as tol, so that they can be compared
    X, y = table(learner)
    rows = (from_arrays(X, y),) if in_blocks else (X, y)
    here, there = (quick(learner, device=where, tol=1e-12).fit(*rows) for where in (None, device))
    assert isinstance(folds_seen[-1], DeviceFolds) is not in_blocks
    assert_same(there, here, X)
    assert b"torch" not in pickle.dumps(there)


def test_few_rows_on_a_device():
    X, y = table(n=60)
    here, there = (quick(n_features=200, device=where).fit(X, y) for where in (None, "cpu"))
    assert_same(there, here, X, 1e-6)


def test_a_joint_kernel_on_a_device():
    X, y = table()
    y = y * np.cos(X[:, 2])
    here, there = (quick(refit="joint", device=where).fit(X, y) for where in (None, "cpu"))
    assert there.refit_ == here.refit_
    assert_same(there, here, X, 1e-6)


@pytest.mark.parametrize(
    ("learner", "loss"), [(MultipleKernelRegressor, "epsilon-logistic"), (MultipleKernelClassifier, "logistic")]
)
def test_other_losses_refuse_a_device(learner, loss):
    X, y = table(learner)
    with pytest.raises(
        ValueError, match=r"is computed on the host, and device is 'cpu': use device=None, or loss='squared'"
    ):
        quick(learner, loss=loss, device="cpu").fit(X, y)
