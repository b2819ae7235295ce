"""Learners on rows in blocks: what is learned, what is predicted, and errors that say what to do."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import Ridge
from sklearn.model_selection import StratifiedKFold
from threadpoolctl import threadpool_limits

from bochner import FourierFeatures, KernelClassifier, KernelRegressor, open_rows
from bochner.estimators import blocks, machine
from bochner.exact import KernelRidgeGD
from bochner.kernels import Gaussian
from bochner.rows import csv_files, from_arrays, from_blocks
from bochner.rows import source as row_source
from tests.estimators.learners import (
    EPS,
    classifier,
    each_learner,
    features_of,
    fixed,
    output,
    regressor,
    small,
    solving_error,
    targets,
)

N, M = 900, 3
SAMPLED = 150


@pytest.fixture(autouse=True)
def small_samples_and_blocks(monkeypatch):
    """Few rows are many: samples of 150 rows, blocks of 256."""
    monkeypatch.setattr(machine, "FEWEST_SAMPLED", SAMPLED)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1)
    monkeypatch.setattr(row_source, "FEWEST_BLOCK_ROWS", 256)


def table(n=N, m=M, seed=0):
    rng = np.random.default_rng([seed, n, m])
    X = rng.standard_normal((n, m)) * [1, 10, 0.1] + [0, 50, 1]
    y = np.sin(2 * X[:, 0]) + 0.1 * X[:, 1] + 0.1 * rng.standard_normal(n)
    X.flags.writeable = y.flags.writeable = False
    return X, y


def quick(learner, **options):
    """A learner whose kernels stay where they start: no step promises to lower the criterion by a billion times itself."""
    return small(learner, **{"n_features": 32, "tol": 1e9, "kernel": "gaussian", **options})


def state(model):
    return copy.deepcopy(vars(model))


def assert_unchanged(model, before):
    assert set(vars(model)) == set(before)
    for name, value in before.items():
        now = getattr(model, name)
        assert now is value or pickle.dumps(now) == pickle.dumps(value), name


# -- what is learned -----------------------------------------------------------------------------------------------------


def ridge_on_all_rows(model, X, targets, weights):
    """The same problem, solved by scikit-learn on the features of all rows."""
    features = features_of(model, X)
    ridge = Ridge(alpha=weights.sum() / weights[weights > 0].mean() * model.alpha_, solver="cholesky")
    return features, ridge.fit(features, targets, sample_weight=weights / weights[weights > 0].mean())


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("c", [1, 2])
@pytest.mark.parametrize("options", [{}, {"schedule": "full"}, {"validation": 2}, {"criterion": "holdout"}, {"alpha": 1e-2}])
def test_the_final_regression_is_on_all_rows(options, c, weighted):
    X, y = table()
    y = y if c == 1 else np.stack([y, X[:, 0] ** 2], axis=1)
    weights = np.random.default_rng(1).gamma(2.0, 0.5, N) if weighted else None
    model = quick(KernelRegressor, **options).fit(from_arrays(X, y, weights))
    assert model.moments_.weight == pytest.approx(N)
    weights = np.ones(N) if weights is None else weights
    features, ridge = ridge_on_all_rows(model, X, y, weights)
    bound = solving_error(features, model.alpha_) * np.linalg.norm(ridge.coef_)
    np.testing.assert_allclose(model.coef_.T.reshape(ridge.coef_.shape), ridge.coef_, rtol=0, atol=10 * bound)
    np.testing.assert_allclose(model.predict(X), ridge.predict(features), rtol=0, atol=1e-6)
    standardised = X - np.average(X, axis=0, weights=weights)
    spread = np.sqrt(np.average(standardised**2, axis=0, weights=weights))
    np.testing.assert_allclose(model.standardiser_.spread, spread, rtol=1e-10)


@pytest.mark.parametrize("class_weight", [None, "balanced", {"few": 3.0, "many": 0.5, "some": 1.0}])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_final_classification_is_on_all_rows(class_weight, weighted):
    X, y = table()
    names = np.array(["few", "some", "many"])
    labels = names[np.searchsorted(np.quantile(y, [0.1, 0.4]), y)].astype(object)
    weights = np.random.default_rng(1).gamma(2.0, 0.5, N) if weighted else np.ones(N)
    weights[::9] = 0 if weighted else 1
    model = quick(KernelClassifier, class_weight=class_weight).fit(from_arrays(X, labels, weights))
    assert model.classes_.tolist() == ["few", "many", "some"]
    numbers = np.searchsorted(model.classes_, labels.astype(str))
    counts = np.bincount(numbers[weights > 0])
    if isinstance(class_weight, dict):
        factors = np.array([class_weight[name] for name in model.classes_])
    else:
        factors = np.ones(3) if class_weight is None else counts.sum() / (3 * counts)
    signs = 2.0 * (numbers[:, None] == np.arange(3)) - 1
    features, ridge = ridge_on_all_rows(model, X, signs, weights * factors[numbers])
    bound = solving_error(features, model.alpha_) * np.linalg.norm(ridge.coef_)
    np.testing.assert_allclose(model.coef_.T, ridge.coef_, rtol=0, atol=10 * bound)
    assert set(model.predict(X)) <= set(names)


@pytest.mark.parametrize("learner", [KernelRegressor, KernelClassifier])
def test_sparse_rows(learner):
    X, y = table()
    X = np.where(np.random.default_rng(2).random(X.shape) < 0.5, 0, X)
    rows = sparse.csr_array(X)
    y = targets(learner, y, 3)
    model = quick(learner).fit(from_arrays(rows, y))
    np.testing.assert_array_equal(model.standardiser_.centre, 0)
    assert model.moments_.weight == pytest.approx(N)
    np.testing.assert_allclose(output(model, from_arrays(rows)), output(model, rows), rtol=0, atol=1e-12)
    signs = y if learner is KernelRegressor else 2.0 * (y[:, None] == np.arange(3)) - 1
    features, ridge = ridge_on_all_rows(model, rows, signs, np.ones(N))
    bound = solving_error(features, model.alpha_) * np.linalg.norm(ridge.coef_)
    np.testing.assert_allclose(model.coef_.T.reshape(ridge.coef_.shape), ridge.coef_, rtol=0, atol=10 * bound)


@each_learner
def test_small_sources_are_in_memory_and_kernels_are_those_of_streamed_ones(learner, monkeypatch):
    """With schedule="full" every step goes over all rows, in the same parts, in memory or not."""
    X, y = table()
    y = targets(learner, y)
    source = from_arrays(X, y)
    options = {"kernel": Gaussian(scale=[0.5, 0.05, 5.0]), "schedule": "full", "n_features": 16, "tol": 1e-2}
    streamed = quick(learner, **options).fit(source)
    monkeypatch.setattr(machine, "FEWEST_SAMPLED", N)
    held = quick(learner, **options).fit(source)
    assert [r["n_rows"] for r in held.history_] == [r["n_rows"] for r in streamed.history_] == [N] * len(held.history_)
    # Sums over blocks of other lengths: rounding, carried on from step to step.
    np.testing.assert_allclose(streamed.scale_, held.scale_, rtol=1e-5)
    np.testing.assert_allclose(streamed.coef_, held.coef_, rtol=0, atol=1e-4 * np.linalg.norm(held.coef_))


@each_learner
def test_kernels_are_tried_on_the_sample(learner):
    X, y = table()
    model = small(learner, n_features=512, random_state=0, tol=1e-1, validation=2)
    model.fit(from_arrays(X, targets(learner, y)))
    assert len({r["level"] for r in model.history_}) > 1
    assert {r["n_rows"] for r in model.history_} == {SAMPLED}
    assert model.moments_.weight == pytest.approx(N)
    assert model.feature_map_.n_features == 512


@each_learner
def test_blocks_and_files_make_no_difference(learner, tmp_path):
    X, y = table()
    y = targets(learner, y)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y)
    frame[:500].to_parquet(tmp_path / "1.parquet")
    frame[500:].to_parquet(tmp_path / "2.parquet")
    sources = [
        from_arrays(X, y),
        from_blocks(lambda: ((X[i : i + 70], y[i : i + 70]) for i in range(0, N, 70))),
        open_rows(tmp_path / "*.parquet", target="y"),
    ]
    models = [quick(learner).fit(source) for source in sources]
    for model in models[1:]:
        np.testing.assert_array_equal(model.coef_, models[0].coef_)
    assert models[2].feature_names_in_.tolist() == ["a", "b", "c"]
    assert not hasattr(models[0], "feature_names_in_")


@each_learner
def test_one_and_two_threads_make_no_difference_beyond_rounding(learner):
    X, y = table()
    source, found = from_arrays(X, targets(learner, y)), []
    for limit in (1, 2):
        with threadpool_limits(limits=limit, user_api="blas"):
            found.append(fixed(learner, n_features=512, validation=2).fit(source))
    one, two = found
    np.testing.assert_array_equal(one.standardiser_.spread, two.standardiser_.spread)
    bound = solving_error(features_of(one, X), one.alpha_) * np.linalg.norm(one.coef_)
    np.testing.assert_allclose(one.coef_, two.coef_, rtol=0, atol=bound)
    assert one.validation_error_ == pytest.approx(two.validation_error_, rel=1e-9)


@each_learner
def test_float32(learner):
    X, y = table()
    y = targets(learner, y)
    model = quick(learner, alpha=1e-2).fit(from_arrays(X.astype(np.float32), y))
    other = quick(learner, alpha=1e-2).fit(from_arrays(X, y))
    # Rows around 5 spreads from zero are off by 5 eps32 in units of their spread; alpha keeps the condition below 100.
    np.testing.assert_allclose(output(model, X), output(other, X), rtol=0, atol=1e-2)
    assert {r["precision"] for r in model.history_} == {"float32"}


def test_a_small_penalty_of_float32_rows_goes_on_in_float64():
    X, _ = table()
    model = quick(KernelRegressor, alpha=1e-9, schedule="full").fit(from_arrays(X.astype(np.float32), np.sin(X[:, 0])))
    assert model.history_[-1]["precision"] == "float64"
    assert model.moments_.weight == pytest.approx(N)


@each_learner
def test_scaling_all_weights_changes_nothing(learner):
    X, y = table()
    y = targets(learner, y)
    weights = np.random.default_rng(1).gamma(2.0, 0.5, N)
    one, two = (quick(learner).fit(from_arrays(X, y, factor * weights)) for factor in (1.0, 1024.0))
    np.testing.assert_array_equal(two.coef_, one.coef_)  # a power of two changes no digit
    np.testing.assert_array_equal(output(two, X), output(one, X))


@each_learner
def test_rows_of_weight_zero_count_for_nothing(learner):
    X, y = table()
    y = targets(learner, y)
    weights = np.random.default_rng(1).gamma(2.0, 0.5, N)
    padded = np.r_[X, 1e6 + X], np.r_[y, y[::-1]], np.r_[weights, np.zeros(N)]
    one, two = quick(learner).fit(from_arrays(X, y, weights)), quick(learner).fit(from_arrays(*padded))
    assert two.history_[-1]["n_rows"] == one.history_[-1]["n_rows"]
    np.testing.assert_allclose(two.coef_, one.coef_, rtol=0, atol=1e-9 * np.linalg.norm(one.coef_))
    assert two.validation_error_ == pytest.approx(one.validation_error_, rel=1e-9)


@each_learner
def test_few_rows_of_positive_weight_are_all_in_the_sample(learner):
    X, y = table()
    weights = np.zeros(N)
    weights[::9] = 1
    model = quick(learner).fit(from_arrays(X, targets(learner, y), weights))
    assert model.history_[-1]["n_rows"] == N // 9
    assert model.moments_.weight == pytest.approx(N // 9)


@each_learner
def test_the_same_seed_gives_the_same_model(learner):
    X, y = table()
    source = from_arrays(X, targets(learner, y))
    one, two, other = (quick(learner, random_state=seed).fit(source) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.coef_, two.coef_)
    assert (one.coef_ != other.coef_).any()


@each_learner
def test_warm_start(learner):
    X, y = table()
    source = from_arrays(X, targets(learner, y))
    model = quick(learner, warm_start=True).fit(source)
    kept = model.kernel_
    model.set_params(tol=1e9).fit(source)
    np.testing.assert_allclose(model.kernel_.scale, kept.scale, rtol=1e-12)


def test_kernels_of_histograms():
    X, y = table()
    X = np.abs(X)
    model = quick(KernelRegressor, kernel="chi2", n_features=None).fit(from_arrays(X, y))
    np.testing.assert_array_equal(model.standardiser_.spread, 1)
    X[600, 1] = -1
    for call in (model.fit, model.predict, model.score, model.partial_fit):
        with pytest.raises(ValueError, match=r"In the 256 rows from row 512 on: .*column 1, row 88"):
            call(from_arrays(X, y))


# -- arrays --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def mapped(tmp_path):
    X, y = table()
    np.save(tmp_path / "X.npy", X)
    return np.load(tmp_path / "X.npy", mmap_mode="r"), y


@each_learner
def test_small_memory_maps_are_arrays(learner, mapped):
    X, y = mapped
    y = targets(learner, y)
    one, two = quick(learner).fit(X, y), quick(learner).fit(np.array(X), y)
    np.testing.assert_array_equal(one.coef_, two.coef_)
    np.testing.assert_allclose(output(one, X), output(two, np.array(X)), rtol=0, atol=1e-12)
    assert one.score(X, y) == pytest.approx(two.score(np.array(X), y), rel=1e-12)


@each_learner
@pytest.mark.parametrize("kind", ["array", "mapped"])
def test_arrays_too_large_for_max_memory_go_in_blocks(learner, kind, mapped):
    X, y = mapped
    X = X if kind == "mapped" else np.array(X)
    y = targets(learner, y)
    weights = np.random.default_rng(1).gamma(2.0, 0.5, N)
    limit = 3.5 * X.nbytes  # less than four copies of the rows
    model = quick(learner, n_features=8, max_memory=limit).fit(X, y, weights)
    source = quick(learner, n_features=8, max_memory=limit).fit(from_arrays(X, y, weights))
    np.testing.assert_array_equal(model.coef_, source.coef_)
    in_memory = quick(learner, n_features=8).fit(np.array(X), y, weights)
    assert not np.array_equal(in_memory.coef_, model.coef_)  # other folds
    if learner is KernelClassifier:
        assert model.classes_.dtype == y.dtype == in_memory.classes_.dtype
        assert source.classes_.dtype == np.int64


@pytest.mark.parametrize("dtype", [bool, np.int32, np.float64, object, "U2"])
def test_classes_of_large_arrays_have_the_type_of_their_labels(dtype):
    X, y = table()
    labels = np.array(["no", "si"])[(y > y.mean()).astype(int)] if dtype in (object, "U2") else y > y.mean()
    labels = labels.astype(dtype)
    limit = 3.5 * X.nbytes
    model = quick(KernelClassifier, n_features=8, max_memory=limit).fit(X, labels)
    assert model.classes_.dtype == dtype
    np.testing.assert_array_equal(model.classes_, np.unique(labels))
    predictions = model.predict(X)
    assert predictions.dtype == dtype
    assert model.score(X, labels) == np.mean(predictions == labels)


@each_learner
@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"X": lambda X: np.ma.masked_less(X, 0)}, "X is a masked array"),
        ({"X": lambda X: np.where(np.isin(X, X[5, 1]), np.nan, X)}, r"X, column 1, row 5 holds NaN"),
        ({"y": lambda y: np.ma.masked_less(y, y.mean())}, "y is a masked array"),
        ({"y": lambda y: y[:-1]}, "y has 899 rows, and X has 900"),
        ({"y": lambda y: None}, "come without targets: .*give y beside an array"),
        ({"sample_weight": lambda y: -np.ones(N)}, "Negative values in data passed to `sample_weight`"),
        ({"sample_weight": lambda y: np.zeros(N)}, "sample_weight is zero for every row"),
    ],
)
def test_errors_of_large_arrays(learner, change, match):
    X, y = table()
    given = {"X": X, "y": targets(learner, y), "sample_weight": y}
    changed = {name: make(given[name]) for name, make in change.items()}
    limit = 3.5 * X.nbytes
    model = quick(learner, n_features=8, max_memory=limit)
    before = state(model)
    with pytest.raises(ValueError, match=match):
        model.fit(**{"X": X, "y": targets(learner, y), **changed})
    assert_unchanged(model, before)


# -- predictions ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path):
    X, y = table()
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y, label=np.where(y > y.mean(), "high", "low"))
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=200)
    return tmp_path / "t.parquet", frame


def test_a_regressor_predicts_rows_in_blocks(files):
    path, frame = files
    columns = ["a", "b", "c"]
    source = open_rows(path, columns=columns, target="y")
    model = quick(KernelRegressor).fit(source)
    # A product may be rounded in another way at the end of a block: a few eps of the largest of its terms.
    close = {"rtol": 0, "atol": 1e3 * EPS * np.abs(model.coef_).sum()}
    np.testing.assert_allclose(model.predict(source), model.predict(frame[columns]), **close)
    found, expected = model.predict(source, return_std=True), model.predict(frame[columns], return_std=True)
    for one, two in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, two, rtol=0, atol=1e-9)
    assert model.score(source) == pytest.approx(model.score(frame[columns], frame["y"]), rel=1e-12)


def test_a_classifier_predicts_rows_in_blocks(files):
    path, frame = files
    columns = ["a", "b", "c"]
    source = open_rows(path, columns=columns, target="label")
    model = quick(KernelClassifier).fit(source)
    assert model.classes_.tolist() == ["high", "low"]
    np.testing.assert_array_equal(model.predict(source), model.predict(frame[columns]))
    for name in ("predict_proba", "predict_log_proba", "decision_function"):
        found, expected = (getattr(model, name)(rows) for rows in (source, frame[columns]))
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)
    assert model.score(source) == model.score(frame[columns], frame["label"])


def test_one_block_is_exactly_the_array(files, monkeypatch):
    path, frame = files
    source = open_rows(path, columns=["a", "b", "c"], target="y")
    model = quick(KernelRegressor).fit(source)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 2**20)
    np.testing.assert_array_equal(model.predict(source), model.predict(frame[["a", "b", "c"]]))


@each_learner
def test_a_score_counts_weights(learner):
    X, y = table()
    y = targets(learner, y)
    weights = np.random.default_rng(1).gamma(2.0, 0.5, N)
    model = quick(learner).fit(from_arrays(X, y))
    assert model.score(from_arrays(X, y, weights)) == pytest.approx(model.score(X, y, weights), rel=1e-12)


@pytest.mark.parametrize("scale", ["median", None, 0.5])
def test_features_of_rows_in_blocks(files, scale):
    path, frame = files
    columns = ["a", "b", "c"]
    source = open_rows(path, columns=columns)
    model = FourierFeatures(n_features=20, scale=scale, random_state=0).fit(source)
    assert model.feature_names_in_.tolist() == columns
    np.testing.assert_allclose(model.transform(source), model.transform(frame[columns]), rtol=0, atol=1e-13)
    few = frame[columns][:100]
    small_ones = FourierFeatures(n_features=20, scale=scale, random_state=0).fit(few)
    same = FourierFeatures(n_features=20, scale=scale, random_state=0).fit(from_arrays(few))
    np.testing.assert_array_equal(small_ones.transform(few), same.transform(few))


def test_features_of_sparse_rows_in_blocks():
    X, _ = table()
    rows = sparse.csr_array(np.where(X > 1, np.abs(X), 0))
    model = FourierFeatures("chi2").fit(from_arrays(rows))
    found = model.transform(from_arrays(rows))
    assert sparse.issparse(found)
    np.testing.assert_array_equal(found.toarray(), model.transform(rows).toarray())


def test_features_of_memory_maps(mapped):
    X, _ = mapped
    model = FourierFeatures(n_features=20, random_state=0).fit(X)
    np.testing.assert_allclose(model.transform(X), model.transform(np.array(X)), rtol=0, atol=1e-13)


# -- more rows -----------------------------------------------------------------------------------------------------------


@each_learner
def test_partial_fit(learner):
    X, y = table()
    y = targets(learner, y, 3)
    weights = np.random.default_rng(1).gamma(2.0, 0.5, N)
    first, rest = slice(0, 400), slice(400, N)
    one, two = (
        fixed(learner).fit(X[first], y[first], weights[first]).partial_fit(*more, **options)
        for more, options in (
            ((X[rest], y[rest]), {"sample_weight": weights[rest]}),
            ((from_arrays(X[rest], y[rest], weights[rest]),), {}),
        )
    )
    np.testing.assert_allclose(two.coef_, one.coef_, rtol=0, atol=1e-9 * np.linalg.norm(one.coef_))
    assert two.moments_.weight == pytest.approx(one.moments_.weight)


@each_learner
def test_a_first_partial_fit_is_a_fit(learner):
    X, y = table()
    source = from_arrays(X, targets(learner, y))
    np.testing.assert_array_equal(quick(learner).partial_fit(source).coef_, quick(learner).fit(source).coef_)


def test_a_first_partial_fit_may_name_the_classes():
    X, y = table()
    labels = targets(KernelClassifier, y, 3)
    some = labels < 2
    model = quick(KernelClassifier).partial_fit(from_arrays(X[some], labels[some]), classes=[2, 0, 1])
    assert model.classes_.tolist() == [0, 1, 2]
    model.partial_fit(from_arrays(X, labels))
    assert set(model.predict(X)) == {0, 1, 2}
    with pytest.raises(ValueError, match=r"y has labels that the model does not know, such as 2"):
        quick(KernelClassifier).partial_fit(from_arrays(X, labels), classes=[0, 1])


@each_learner
def test_a_failed_partial_fit_adds_nothing(learner):
    X, y = table()
    y = targets(learner, y)
    model = quick(learner).fit(from_arrays(X, y))
    before = state(model)
    bad = X.copy()
    bad[700, 2] = np.inf
    with pytest.raises(ValueError, match=r"X, column 2, row 700 holds infinity"):
        model.partial_fit(from_arrays(bad, y))
    with pytest.raises(ValueError, match=r"come without targets: open them with target="):
        model.partial_fit(from_arrays(X))
    with pytest.raises(ValueError, match=r"The source has 2 columns, but .* is expecting 3"):
        model.partial_fit(from_arrays(X[:, :2], y))
    assert_unchanged(model, before)


# -- interrupted ---------------------------------------------------------------------------------------------------------


class Interrupted:
    """Blocks whose pass of a given number is interrupted in its middle."""

    def __init__(self, X, y, at):
        self.X, self.y, self.at, self.passes = X, y, at, 0

    def __call__(self):
        self.passes += 1
        for start in range(0, len(self.X), 100):
            if self.passes == self.at and start == 500:
                raise KeyboardInterrupt
            yield self.X[start : start + 100], self.y[start : start + 100]


@each_learner
@pytest.mark.parametrize("at", [1, 2])
def test_ctrl_c_in_a_pass_leaves_the_model_as_it_was(learner, at):
    X, y = table()
    y = targets(learner, y)
    model = quick(learner, n_features=512, alpha=1e-2, validation=2).fit(from_arrays(X, y))
    before = state(model)
    make = Interrupted(X, y, at + 1)  # from_blocks looks at the first block
    source = from_blocks(make, n_rows=N)
    with pytest.raises(KeyboardInterrupt):
        model.fit(source)
    assert make.passes == at + 1
    assert_unchanged(model, before)
    new = quick(learner)
    with pytest.raises(KeyboardInterrupt):
        new.fit(from_blocks(Interrupted(X, y, 2), n_rows=N))
    assert not hasattr(new, "n_features_in_")


@each_learner
def test_ctrl_c_while_kernels_are_tried_keeps_the_best_so_far(learner):
    X, y = table()

    def stop(record):
        raise KeyboardInterrupt

    model = quick(learner, n_features=512, alpha=1e-2, callback=stop)
    with pytest.warns(ConvergenceWarning, match="Interrupted after 1 evaluations"):
        model.fit(from_arrays(X, targets(learner, y)))
    assert model.moments_.weight == pytest.approx(N)


def test_verbose_tells_of_every_pass(capsys):
    X, y = table()
    quick(KernelRegressor, n_features=512, verbose=1, validation=2).fit(from_arrays(X, y))
    lines = capsys.readouterr().err.splitlines()
    told = [line.split("  ")[-1] for line in lines if "pass" in line]
    assert [line.split(" rows,")[0] for line in told] == [f"pass {k}: 900 of 900" for k in range(1, len(told) + 1)]
    assert len(told) >= 2


@each_learner
def test_verbose_tells_of_counting(learner, files, tmp_path, capsys):
    _, frame = files
    frame.assign(y=targets(learner, frame["y"].to_numpy())).to_csv(tmp_path / "t.csv", index=False)
    source = open_rows(tmp_path / "t.csv", columns=["a", "b", "c"], target="y")
    quick(learner, verbose=1).fit(source)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("[####################]")
    assert "counting: 900 rows, " in lines[0]
    assert "pass 1: 900 of 900 rows" in lines[1]
    quick(learner, verbose=1).fit(source)
    assert "counting" not in capsys.readouterr().err


@each_learner
def test_a_sample_that_memory_makes_small_is_warned_of(learner, monkeypatch):
    monkeypatch.setattr(machine, "FEWEST_SAMPLED", 32_000)
    X, y = table(2500)
    source = from_arrays(X, targets(learner, y))
    with pytest.warns(UserWarning, match=r"room for 1,041 of 2,500 rows .*For 2,000 rows .* 768 kB"):
        model = quick(learner, max_memory="400kB", validation=2).fit(source)
    assert model.moments_.weight == pytest.approx(2500)
    quick(learner, max_memory="900kB", validation=2).fit(source)  # enough, and nothing is said


# -- errors --------------------------------------------------------------------------------------------------------------


def changed_file(path, frame):
    """A source whose file changes after its first pass."""
    source = open_rows(path, columns=["a", "b", "c"], target="y")

    def change(record):
        frame[::-1].to_parquet(path)

    return source, change


@each_learner
def test_a_file_that_changes_between_passes(learner, files):
    path, frame = files
    frame = frame.assign(y=targets(learner, frame["y"].to_numpy()))
    frame.to_parquet(path)
    source, change = changed_file(path, frame)
    model = quick(learner, n_features=512, validation=2, callback=change)
    before = state(model)
    with pytest.raises(RuntimeError, match=r"t\.parquet has changed"):
        model.fit(source)
    assert_unchanged(model, before)


@each_learner
@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"criterion": "loo"}, r"criterion='loo' needs all features in memory, and these rows come in blocks.*'holdout'"),
        ({"validation": [([0], [1])]}, r"cannot be used: the training rows of a split are not all"),
        ({"validation": StratifiedKFold(3)}, r"validation=StratifiedKFo.* cannot be used"),
        ({"validation": (np.ones((3, 3)), np.ones(3))}, r"validation must be a number of folds .* got tuple"),
        ({"validation": 1}, r"validation must be a number of folds .* got int 1"),
        ({"validation": 0.5, "criterion": "kfold"}, r"validation must be a whole number of folds, at least 2, for 'kfold'"),
        ({"validation": 3, "criterion": "holdout"}, r"validation must be a fraction between 0 and 1 for 'holdout', got 3"),
        ({"max_memory": "10kB"}, r"max_memory is 10 kB"),
        ({"max_memory": "200kB", "n_features": 400}, r"n_features=400 needs about .* and max_memory is 200 kB: use fewer"),
        ({"max_memory": "84kB", "n_features": 32}, r"Of max_memory, .* are left beside the features, .*: raise max_memory"),
        ({"max_memory": "plenty"}, r"max_memory must be a positive number of bytes"),
        ({"schedule": "some"}, r"schedule must be one of"),
    ],
)
def test_what_rows_in_blocks_do_not_allow(learner, options, match):
    X, y = table()
    model = quick(learner, **options)
    before, passes = state(model), []

    def make():
        passes.append(0)
        yield X, targets(learner, y)

    source = from_blocks(make, n_rows=N)
    with pytest.raises(ValueError, match=match):
        model.fit(source)
    assert len(passes) == 1  # told before anything is read
    assert_unchanged(model, before)


@each_learner
def test_targets_and_weights_are_those_of_the_source(learner):
    X, y = table()
    y = targets(learner, y)
    model = quick(learner)
    with pytest.raises(ValueError, match=r"come with their own targets: leave y out, and open them with target="):
        model.fit(from_arrays(X, y), y)
    with pytest.raises(ValueError, match=r"come with their own weights: leave sample_weight out, .* weight="):
        model.fit(from_arrays(X, y), sample_weight=np.ones(N))
    with pytest.raises(ValueError, match=r"come without targets: open them with target="):
        model.fit(from_arrays(X))
    with pytest.raises(ValueError, match=r"no rows of positive weight"):
        model.fit(from_arrays(X, y, np.zeros(N)))
    assert not hasattr(model, "n_features_in_")
    model.fit(from_arrays(X, y))
    with pytest.raises(ValueError, match=r"come with their own targets"):
        model.score(from_arrays(X, y), y)
    with pytest.raises(ValueError, match=r"come without targets: open them with target="):
        model.score(from_arrays(X))


@each_learner
def test_a_missing_value_in_a_late_row(learner, files):
    path, frame = files
    frame = frame.assign(y=targets(learner, frame["y"].to_numpy()))
    frame.loc[850, "b"] = np.nan
    frame.to_parquet(path)
    model = quick(learner)
    with pytest.raises(ValueError, match=r"t\.parquet, column 'b', row 850 holds NaN or a missing value"):
        model.fit(open_rows(path, columns=["a", "b", "c"], target="y"))
    assert not hasattr(model, "n_features_in_")


@each_learner
def test_a_path_in_the_place_of_rows(learner):
    with pytest.raises(ValueError, match=r"got the path 'a.parquet': open it with bochner.open_rows\('a.parquet', target"):
        learner().fit("a.parquet", [1.0, 2.0])


def test_a_missing_target_in_a_late_row(files):
    path, frame = files
    frame.loc[851, "y"] = np.nan
    frame.loc[852, "label"] = None
    frame.to_parquet(path)
    for model, target in ((regressor(), "y"), (classifier(), "label")):
        with pytest.raises(ValueError, match=rf"t\.parquet, target '{target}', row 85\d holds NaN or a missing value"):
            model.fit(open_rows(path, columns=["a", "b", "c"], target=target))


def test_what_is_wrong_with_targets_is_told_before_rows_are_counted(files, tmp_path, monkeypatch):
    _, frame = files
    frame.to_csv(tmp_path / "t.csv", index=False)

    def count(self):
        raise AssertionError("too early")

    monkeypatch.setattr(csv_files.CsvTable, "counting", count)
    opened = {"columns": ["a", "b", "c"]}
    with pytest.raises(ValueError, match="come without targets"):
        regressor().fit(open_rows(tmp_path / "t.csv", **opened))
    with pytest.raises(ValueError, match=r"y holds text, such as .*KernelClassifier"):
        regressor().fit(open_rows(tmp_path / "t.csv", target="label", **opened))
    with pytest.raises(ValueError, match=r"Unknown label type: continuous"):
        classifier().fit(open_rows(tmp_path / "t.csv", target="y", **opened))


def test_targets_of_the_wrong_kind(files):
    path, _ = files
    with pytest.raises(ValueError, match=r"y holds text, such as .*KernelClassifier"):
        regressor().fit(open_rows(path, columns=["a", "b", "c"], target="label"))
    with pytest.raises(ValueError, match=r"Unknown label type: continuous"):
        classifier().fit(open_rows(path, columns=["a", "b", "c"], target="y"))
    X, _ = table()
    with pytest.raises(ValueError, match=r"y has only one class, 1, among rows of positive weight"):
        classifier().fit(from_arrays(X, np.ones(N)))


@pytest.mark.parametrize("method", ["predict", "transform", "score"])
def test_other_columns_than_those_of_the_fit(method, files):
    path, frame = files
    made = FourierFeatures(n_features=8, scale=1.0) if method == "transform" else quick(KernelRegressor)
    model = made.fit(open_rows(path, columns=["a", "b", "c"], target="y"))
    call = getattr(model, method)
    with pytest.raises(
        ValueError, match=r"has its columns in another order, or more of them, .*\['a', 'b', 'c'\].*columns="
    ):
        call(open_rows(path, columns=["b", "a", "c"], target="y"))
    with pytest.raises(ValueError, match=r"has no column 'c', and the model was fitted on"):
        call(open_rows(path, columns=["a", "b"], target="y"))
    with pytest.raises(ValueError, match=r"The source has 2 columns, but .* is expecting 3: open it with columns="):
        call(from_arrays(frame[["a", "b"]].to_numpy(), frame["y"]))


def test_others_say_that_they_need_arrays():
    X, y = table()
    with pytest.raises(ValueError, match=r"KernelRidgeGD takes no rows in blocks: give it arrays"):
        KernelRidgeGD().fit(from_arrays(X, y), y)


def test_a_model_must_be_fitted_first():
    X, _ = table()
    with pytest.raises(NotFittedError):
        KernelRegressor().predict(from_arrays(X))
    with pytest.raises(NotFittedError):
        FourierFeatures().transform(from_arrays(X))


def test_features_that_cannot_be_drawn_leave_the_transformer_as_it_was():
    X, _ = table()
    model = FourierFeatures(n_features=8, scale=1.0, random_state=0).fit(X)
    before = state(model)
    with pytest.raises(ValueError, match="holds NaN"):
        model.set_params(scale="median").fit(from_arrays(np.full((5, 2), np.nan)))
    assert_unchanged(model, {**before, "scale": "median"})


def test_given_kernels_start_from_their_scales():
    X, y = table()
    model = fixed(KernelRegressor, scale=0.3).fit(from_arrays(X, y))
    np.testing.assert_allclose(model.kernel_.scale, 0.3, rtol=1e-12)
    assert isinstance(model.kernel_, Gaussian)
