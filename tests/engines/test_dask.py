"""Rows on many machines: the same sums and fits as on one, whatever the workers do."""

import os
import signal
import threading
import time
import warnings

import numpy as np
import pandas as pd
import pytest

from bochner import (
    FourierFeatures,
    KernelClassifier,
    KernelRegressor,
    MultipleKernelClassifier,
    MultipleKernelRegressor,
    checkpoint,
)
from bochner.engines import dask_cluster, fold_moments, pull_back_folds
from bochner.engines.dask_cluster import get_dask, told
from bochner.engines.dask_rows import DaskRows, dask_rows
from bochner.estimators import machine, multiple_machine, sized
from bochner.estimators.blocks import travelling
from bochner.exact import GMKLRegressor
from bochner.features import FeatureChoices, build_map
from bochner.folds import Rows
from bochner.kernels import Gaussian
from bochner.rows import from_arrays
from bochner.rows.source import Sampler
from bochner.standardise import ColumnSums
from bochner.streamed import HashCut

distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

N, M, SAMPLED = 900, 3, 150
CHUNKS = (250, 250, 130, 270)


def start_cluster(n_workers):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return distributed.LocalCluster(
            n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
        )


@pytest.fixture(scope="session")
def cluster():
    with start_cluster(2) as started, distributed.Client(started, set_as_default=False) as client:
        yield client


@pytest.fixture
def client(cluster):
    with cluster.as_current():
        yield cluster


@pytest.fixture(autouse=True)
def small_samples(monkeypatch):
    monkeypatch.setattr(machine, "FEWEST_SAMPLED", SAMPLED)


def table(n=N):
    rng = np.random.default_rng(n)
    X = rng.standard_normal((n, M)) * [1, 10, 0.1] + [0, 50, 1]
    y = np.sin(2 * X[:, 0]) + 0.1 * X[:, 1] + 0.1 * rng.standard_normal(n)
    return X, y, rng.gamma(2.0, 0.5, n)


def spread_out(values, chunks=CHUNKS):
    return da.from_array(values, chunks=(chunks, *values.shape[1:]))


def quick(learner=KernelRegressor, **options):
    """A learner whose kernel stays where it starts."""
    return learner("gaussian", **{"n_features": 32, "tol": 1e9, "random_state": 0, **options})


def assert_same_fit(model, expected, X):
    np.testing.assert_allclose(model.scale_, expected.scale_, rtol=1e-10)
    assert model.alpha_ == pytest.approx(expected.alpha_, rel=1e-8)
    assert model.validation_error_ == pytest.approx(expected.validation_error_, rel=1e-10)
    np.testing.assert_allclose(model.standardiser_.spread, expected.standardiser_.spread, rtol=1e-12)
    np.testing.assert_allclose(model.moments_.gram, expected.moments_.gram, rtol=1e-10, atol=1e-10)
    method = "decision_function" if hasattr(model, "classes_") else "predict"
    np.testing.assert_allclose(getattr(model, method)(X), getattr(expected, method)(X), rtol=0, atol=1e-8)


# -- sums ----------------------------------------------------------------------------------------------------------------


def as_it_is(block):
    return Rows(block.X, block.y[:, None], np.ones(block.n_rows) if block.weight is None else block.weight)


def folds_of(X, y, weights, chunks=CHUNKS):
    """The same folds on the cluster and in memory."""
    cut = HashCut(5, n_folds=3)
    here = cut.folds(np.arange(len(X)), Rows(X, y[:, None], weights))
    rows = dask_rows(*(spread_out(values, chunks) for values in (X, y, weights)))
    return rows.folds(n=len(X), cut=cut, in_memory=here, smallest_value=X.min(), prepare=as_it_is), here


def slope(part, rows, features):
    return (part + 1) * rows.weights[:, None] * (rows.targets + features)


def test_sums_are_those_in_memory(client):
    there, here = folds_of(*table())
    feature_map = build_map(Gaussian(scale=0.3), M, FeatureChoices(n_features=16), np.random.default_rng(0))
    for one, other in zip(fold_moments(feature_map, there), fold_moments(feature_map, here), strict=True):
        np.testing.assert_allclose(one.gram, other.gram, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(one.cross, other.cross, rtol=1e-12, atol=1e-10)
        assert one.weight == pytest.approx(other.weight, rel=1e-12)
    one, other = (pull_back_folds(feature_map, folds, slope) for folds in (there, here))
    np.testing.assert_allclose(one.parameters["scale"], other.parameters["scale"], rtol=1e-10)
    np.testing.assert_allclose(one.frequencies, other.frequencies, rtol=1e-9, atol=1e-9)
    numbers = [k for k, _ in there.chunks()]
    assert sorted(set(numbers)) == [0, 1, 2]


def test_sums_have_equal_bits_on_one_worker_on_two_and_here(client):
    X, y, weights = table()
    feature_map = build_map(Gaussian(scale=0.3), M, FeatureChoices(n_features=16), np.random.default_rng(0))

    def sums():
        there, _ = folds_of(X, y, weights)
        gradient = pull_back_folds(feature_map, there, slope)
        return [m.gram.tobytes() for m in fold_moments(feature_map, there)] + [gradient.frequencies.tobytes()]

    found = [sums(), sums()]
    with get_dask().config.set(scheduler="threads"):
        found.append(sums())
    first = sorted(client.nthreads())[0]
    with get_dask().annotate(workers=[first], allow_other_workers=False):
        found.append(sums())
    assert all(each == found[0] for each in found)


def test_partitions_whose_rows_have_no_weight_count_for_nothing(client):
    X, y, weights = table()
    weights[:250] = 0
    there, _ = folds_of(X, y, weights)
    feature_map = build_map(Gaussian(scale=0.3), M, FeatureChoices(n_features=16), np.random.default_rng(0))
    total = sum(m.weight for m in fold_moments(feature_map, there))
    assert total == pytest.approx(weights.sum())


def test_sums_of_columns_of_two_sets_of_rows_add_up():
    X, _, weights = table()
    X = X * [1.0, 1e180, 1e-180]
    whole, first, second, none = (ColumnSums(M) for _ in range(4))
    whole.add(X, weights)
    first.add(X[:200], weights[:200])
    second.add(X[200:], weights[200:])
    for total in (first + second, none + first + none + second):
        np.testing.assert_allclose(total.mean, whole.mean, rtol=1e-12)
        np.testing.assert_allclose(total.spread, whole.spread, rtol=1e-12)
        assert (total.smallest, total.weight) == (whole.smallest, pytest.approx(whole.weight))


@pytest.mark.parametrize("among", [None, N])
def test_samples_of_two_sets_of_rows_add_up(among):
    X, y, _ = table()
    whole = from_arrays(X, y).sample(50, seed=3)
    samplers = [Sampler(50, 3, among) for _ in range(4)]
    for sampler, block in zip(samplers, from_arrays(X, y).blocks(256), strict=True):
        sampler.add(block)
    total = samplers[0] + samplers[1] + (samplers[2] + samplers[3])
    assert total.n_kept >= 50
    assert among is None or total.n_kept < 200
    np.testing.assert_array_equal(total.sample().numbers, whole.numbers)
    np.testing.assert_array_equal(total.sample().X, whole.X)


# -- fits ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "weighted"),
    [({}, True), ({"schedule": "full"}, True), ({"criterion": "holdout"}, False), ({"alpha": 1e-2, "validation": 2}, True)],
)
def test_a_regressor_is_that_of_a_source(client, options, weighted):
    X, y, weights = table()
    given = (X, y, weights) if weighted else (X, y)
    expected = quick(**options).fit(from_arrays(*given))
    model = quick(**options).fit(*map(spread_out, given))
    assert_same_fit(model, expected, X)
    assert model.moments_.weight == pytest.approx(N)
    assert model.residual_deviation_ == pytest.approx(expected.residual_deviation_, rel=1e-9)


def test_steps_of_a_descent_at_full_size(client, monkeypatch):
    monkeypatch.setattr(sized, "FULL_STEPS", 2)
    X, y, _ = table()
    options = {"schedule": "full", "tol": 0.0, "n_features": 16, "alpha": 1e-2}
    expected = quick(**options).fit(from_arrays(X, y))
    model = quick(**options).fit(spread_out(X), spread_out(y))
    assert len(model.history_) == len(expected.history_) > 3
    np.testing.assert_allclose(model.scale_, expected.scale_, rtol=1e-6)


@pytest.mark.parametrize(("class_weight", "weighted"), [(None, True), ("balanced", False)])
def test_a_classifier_of_text_is_that_of_a_source(client, class_weight, weighted):
    X, y, weights = table()
    labels = np.array(["few", "some", "many"], dtype=object)[np.searchsorted(np.quantile(y, [0.1, 0.4]), y)]
    given = (X, labels, weights) if weighted else (X, labels)
    expected = quick(KernelClassifier, class_weight=class_weight).fit(from_arrays(*given))
    model = quick(KernelClassifier, class_weight=class_weight).fit(*map(spread_out, given))
    assert_same_fit(model, expected, X)
    assert model.classes_.tolist() == ["few", "many", "some"]
    rows = spread_out(X)
    np.testing.assert_allclose(model.predict_proba(rows).compute(), model.predict_proba(X), atol=1e-12)
    np.testing.assert_allclose(model.predict_log_proba(rows).compute(), model.predict_log_proba(X), atol=1e-12)
    np.testing.assert_allclose(model.decision_function(rows).compute(), model.decision_function(X), atol=1e-12)
    assert (model.predict(rows).compute() == model.predict(X)).all()
    assert model.score(rows, spread_out(labels)) == pytest.approx(model.score(X, labels))


def test_tables_of_dask(client):
    X, y, weights = table()
    frame = pd.DataFrame(X, columns=["size", "age", "floor"]).assign(price=y, weight=weights)
    frame["age"] = frame["age"].astype("Float64")
    frame["kind"] = np.where(y > 5, "dear", "cheap")
    rows = dd.from_pandas(frame, npartitions=3)
    rows = rows[rows["size"] > -10]  # of which Dask does not know how many there are
    columns = ["size", "age", "floor"]
    expected = quick().fit(from_arrays(X, y, weights))
    model = quick().fit(rows[columns], rows["price"], rows["weight"])
    assert model.feature_names_in_.tolist() == columns
    np.testing.assert_allclose(model.predict(frame[columns].astype(float)), expected.predict(X), atol=1e-8)
    np.testing.assert_allclose(model.predict(rows[columns]).compute(), expected.predict(X), atol=1e-8)
    assert model.score(rows[columns], rows["price"]) > 0.5
    names = quick(KernelClassifier).fit(rows[columns], rows["kind"])
    assert names.classes_.tolist() == ["cheap", "dear"]
    with pytest.raises(ValueError, match="has no column 'floor'"):
        model.predict(rows[["size", "age"]])
    with pytest.raises(ValueError, match="column 'kind' holds"):
        quick().fit(rows[["size", "kind"]], rows["price"])


KERNELS = [("two", "gaussian", [0, 1]), ("last", "matern32", [2])]


@pytest.mark.parametrize("learner", [MultipleKernelRegressor, MultipleKernelClassifier])
def test_many_kernels_are_those_of_a_source(client, learner, monkeypatch):
    monkeypatch.setattr(multiple_machine, "FEWEST_SAMPLED", SAMPLED)
    X, y, weights = table()
    y = y if learner is MultipleKernelRegressor else np.array(["few", "many"], dtype=object)[(y > np.median(y)).astype(int)]
    options = {"n_features": 30, "l1_ratio": 1.0, "n_alphas": 5, "random_state": 0}
    expected = learner(KERNELS, **options).fit(from_arrays(X, y, weights))
    model = learner(KERNELS, **options).fit(*map(spread_out, (X, y, weights)))
    np.testing.assert_allclose(model.kernel_weights_, expected.kernel_weights_, rtol=1e-6)
    assert (model.alpha_, model.refit_) == (pytest.approx(expected.alpha_, rel=1e-8), expected.refit_)
    np.testing.assert_allclose(model._outputs(X), expected._outputs(X), atol=1e-6)
    rows = spread_out(X)
    if learner is MultipleKernelRegressor:
        np.testing.assert_allclose(model.predict(rows).compute(), model.predict(X), rtol=1e-12)
    else:
        assert (model.predict(rows).compute() == model.predict(X)).all()
    assert model.score(rows, spread_out(y)) == pytest.approx(model.score(X, y))


def test_columns_that_dask_reads_in_other_partitions(client, tmp_path):
    """Of a Parquet file it reads one column in fewer pieces than many."""
    X, y, _ = table()
    frame = pd.DataFrame(X, columns=list("abc")).assign(y=pd.array(y, dtype="Float64"))
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=150)
    rows = dd.read_parquet(tmp_path / "rows.parquet", split_row_groups=1)
    model = quick().fit(rows[list("abc")], rows["y"].repartition(npartitions=2))
    expected = quick().fit(from_arrays(X, y)).predict(X)
    np.testing.assert_allclose(model.predict(frame[list("abc")]), expected, atol=1e-8)
    again = quick().fit(rows[list("abc")], rows["y"])
    np.testing.assert_allclose(again.predict(frame[list("abc")]), expected, atol=1e-8)


def test_predictions_are_arrays_of_dask(client):
    X, y, _ = table()
    model = quick().fit(X, y)
    rows = da.from_array(X, chunks=(200, 2))
    predictions, deviations = model.predict(rows, return_std=True)
    for found, expected in zip((predictions, deviations), model.predict(X, return_std=True), strict=True):
        assert isinstance(found, da.Array)
        assert found.chunks == ((200, 200, 200, 200, 100),)
        np.testing.assert_allclose(found.compute(), expected, rtol=1e-12)
    assert model.score(rows, da.from_array(y, chunks=300)) == pytest.approx(model.score(X, y))
    two = quick().fit(X, np.stack([y, -y], axis=1))
    np.testing.assert_allclose(two.predict(rows).compute(), two.predict(X), atol=1e-12)
    features = FourierFeatures("gaussian", n_features=10, scale=0.1, random_state=0).fit(X)
    np.testing.assert_allclose(features.transform(rows).compute(), features.transform(X), atol=1e-12)
    assert features.transform(rows).chunks[1] == (10,)


def test_further_rows_and_one_that_does_not_travel(client):
    X, y, _ = table()
    lock = threading.Lock()

    def callback(record):
        with lock:
            pass

    expected = quick().fit(from_arrays(X, y)).partial_fit(from_arrays(X[:300], y[:300]))
    model = quick(callback=callback).fit(spread_out(X), spread_out(y))
    model.partial_fit(da.from_array(X[:300], chunks=(100, M)), da.from_array(y[:300], chunks=100))
    np.testing.assert_allclose(model.predict(X), expected.predict(X), atol=1e-8)
    assert travelling(model).callback is None
    assert model.callback is callback


def test_without_a_client(capsys):
    X, y, _ = table()
    expected = quick().fit(from_arrays(X, y))
    assert_same_fit(quick(verbose=1).fit(spread_out(X), spread_out(y)), expected, X)
    assert "pass 2: 900 of 900 rows" in capsys.readouterr().err


def test_rows_that_are_made_anew_for_every_pass(client, monkeypatch):
    monkeypatch.setattr(dask_cluster, "SHARE", 0.0)
    X, y, _ = table()
    assert_same_fit(quick().fit(spread_out(X), spread_out(y)), quick().fit(from_arrays(X, y)), X)


# -- errors --------------------------------------------------------------------------------------------------------------


def test_errors_say_what_to_do(client):
    X, y, _ = table()
    rows, targets = spread_out(X), spread_out(y)
    with pytest.raises(ValueError, match="y has 800 rows, and X has 900"):
        quick().fit(rows, da.from_array(y[:800], chunks=250))
    frame = dd.from_pandas(pd.DataFrame(X, columns=list("abc")).assign(y=y), npartitions=3)
    with pytest.raises(ValueError, match="y has 600 rows in partition 1, and X has 300"):
        quick().fit(frame[list("abc")], frame["y"].repartition(npartitions=2).to_dask_array())
    bad = X.copy()
    bad[517, 1] = np.nan
    with pytest.raises(ValueError, match=r"partition 2, column 1, row 17 \(row 517 of all\) holds NaN"):
        quick().fit(spread_out(bad), targets)
    model = quick().fit(X, y)
    with pytest.raises(ValueError, match="has 2 columns, but KernelRegressor is expecting 3"):
        model.predict(rows[:, :2])
    with pytest.raises(ValueError, match="an array of 1 dimensions"):
        quick().fit(targets, targets)
    with pytest.raises(ValueError, match="takes no rows of Dask's here"):
        GMKLRegressor().fit(rows, targets)


def test_what_is_wrong_is_told_before_anything_is_computed():
    X, y, _ = table()

    def never(block):
        raise AssertionError("computed too early")

    rows, targets = (spread_out(values).map_blocks(never, dtype=float) for values in (X, y))
    with pytest.raises(ValueError, match="These rows come without targets"):
        quick().fit(rows)
    with pytest.raises(ValueError, match=r"y must be of shape \(rows,\) or \(rows, targets\), got an array of 3 dimensions"):
        quick().fit(rows, targets[:, None, None])
    with pytest.raises(ValueError, match=r"sample_weight must be of shape \(rows,\), got an array of 2 dimensions"):
        quick().fit(rows, targets, targets[:, None])


@pytest.mark.parametrize("known", [True, False])
def test_rows_that_cannot_be_predicted_are_named(client, known):
    X, y, _ = table()
    frame = pd.DataFrame(X, columns=list("abc"))
    model = quick().fit(frame, y)
    frame.loc[517, "b"] = np.nan
    rows = dd.from_pandas(frame, npartitions=3)
    rows = rows.to_dask_array(lengths=known or None)
    place = r"partition 1, column 1, row 217" + r" \(row 517 of all\)" * known
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an array has no names
        with pytest.raises(ValueError, match=f"^{place} holds NaN or a missing value"):
            model.predict(rows).compute()
    chi2 = KernelRegressor("chi2", tol=1e9, random_state=0).fit(np.abs(X), y)
    given = np.abs(X)
    given[600, 2] = -1
    with pytest.raises(ValueError, match=r"In partition 2: In the 130 rows from row 500 on: .* column 2, row 100 holds -1"):
        chi2.predict(spread_out(given)).compute()


def test_a_cluster_that_is_closed_between_passes(client):
    with pytest.raises(RuntimeError, match="cluster was lost amid the work"), told():
        raise ValueError("Missing dependency of kept rows")
    with pytest.raises(ValueError, match="another one"), told():
        raise ValueError("another one")


def test_targets_of_dask_beside_rows_of_numpy(client):
    X, y, _ = table()
    model = quick().fit(X, spread_out(y))
    np.testing.assert_array_equal(model.coef_, quick().fit(X, y).coef_)
    assert model.score(X, spread_out(y)) == pytest.approx(model.score(X, y))


def slowly(X):
    """The same rows, after a while."""
    time.sleep(0.3)
    return X


def test_a_worker_that_dies_changes_nothing(client, monkeypatch):
    """It dies between passes, with the rows that it kept."""
    monkeypatch.setattr(sized, "FULL_STEPS", 1)
    X, y, _ = table()
    options = {"schedule": "full", "tol": 0.0, "n_features": 16, "alpha": 1e-2}
    expected = quick(**options).fit(spread_out(X), spread_out(y))
    to_kill = list(client.run(os.getpid).values())[:1]

    def kill_once(record):
        while to_kill:
            os.kill(to_kill.pop(), signal.SIGKILL)

    model = quick(**options, callback=kill_once).fit(spread_out(X).map_blocks(slowly, dtype=float), spread_out(y))
    assert not to_kill
    assert model.coef_.tobytes() == expected.coef_.tobytes()


def test_a_cluster_that_is_lost_is_told():
    X, y, _ = table()
    rows = spread_out(X).map_blocks(slowly, dtype=float)
    started = start_cluster(1)
    client = distributed.Client(started, set_as_default=False)
    try:
        with client.as_current():
            model = quick().fit(X, y)
            before = model.coef_
            closer = threading.Timer(0.5, started.close)
            closer.start()
            with pytest.raises(RuntimeError, match=r"cluster was lost amid the work.*start a new cluster and fit again"):
                model.fit(rows, spread_out(y))
            closer.join()
            assert model.coef_ is before
    finally:
        client.close()
        started.close()


def test_a_cluster_that_is_lost_leaves_a_checkpoint(client, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sized, "FULL_STEPS", 2)
    monkeypatch.setattr(checkpoint, "CHECKPOINT_SECONDS", 0.0)
    X, y, _ = table()
    options = {"schedule": "full", "tol": 0.0, "n_features": 16, "alpha": 1e-2}
    expected = quick(**options).fit(spread_out(X), spread_out(y))
    started, folder, heard = start_cluster(1), tmp_path / "kept", []

    def close(record):
        heard.append(record)
        if len(heard) == 2:
            started.close()

    model = quick(**options, checkpoint=folder, verbose=1, callback=close)
    with (
        distributed.Client(started, set_as_default=False) as other,
        other.as_current(),
        pytest.raises(RuntimeError, match=r"cluster was lost amid the work.*start a new cluster and fit again"),
    ):
        model.fit(spread_out(X), spread_out(y))
    assert not hasattr(model, "coef_")
    assert sorted(path.name for path in folder.iterdir()) == [checkpoint.LOG, checkpoint.FIT, "bochner-pass-first.npz"]
    with pytest.raises(ValueError, match=r"is of another fit: X was 900 rows of 3 columns in 4 partitions \w+ and is 900"):
        model.fit(spread_out(X + 1), spread_out(y))

    def no_first_pass(*args):
        raise AssertionError("which was kept")

    monkeypatch.setattr(DaskRows, "map_reduce", no_first_pass)
    capsys.readouterr()
    model.set_params(callback=None).fit(spread_out(X), spread_out(y))
    assert "KernelRegressor goes on from" in capsys.readouterr().err
    assert model.coef_.tobytes() == expected.coef_.tobytes()
    assert len(model.history_) == len(expected.history_)
    assert not folder.exists()


def test_a_cluster_without_workers_is_told(monkeypatch):
    monkeypatch.setattr(dask_cluster, "POLL", 0.1)
    monkeypatch.setattr(dask_cluster, "ALONE", 0.5)
    X, y, _ = table()
    with (
        start_cluster(0) as started,
        distributed.Client(started, set_as_default=False) as client,
        client.as_current(),
        pytest.raises(RuntimeError, match="no worker for 0 seconds"),
    ):
        quick().fit(spread_out(X), spread_out(y))
