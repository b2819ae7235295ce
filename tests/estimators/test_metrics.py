"""metric, finish, effort: what the learners do with them, and what they refuse."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import log_loss

from bochner import KernelClassifier, KernelRegressor
from bochner.descent import family_name
from bochner.features import CentreMap
from bochner.kernels import Gaussian, MetricKernel, get_kernel
from bochner.metric_learning import EFFORTS, MetricPlan, sizes
from bochner.metric_learning.candidates import base_of
from bochner.metric_learning.contest import MOST_SPLITS


def made(n=200, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n + 200, 3)) * [1.0, 10.0, 0.1] + [5.0, 0.0, 0.0]
    y = np.sin(1.5 * (X[:, 0] - 5 + X[:, 1] / 10)) + 0.05 * rng.standard_normal(n + 200)
    return X[:n], y[:n], X[n:], y[n:]


@pytest.fixture(scope="module")
def with_effort():
    X, y, _, _ = made()
    model = KernelRegressor(random_state=0).fit(X, y)
    assert model.effort == "default"
    return model


def test_a_metric_is_found_that_scales_cannot_be(with_effort):
    X, y, X_new, y_new = made()
    assert with_effort.finish_ == "centres"
    assert isinstance(with_effort.feature_map_, CentreMap)
    assert isinstance(with_effort.kernel_, MetricKernel)
    plain = KernelRegressor(effort="fast", random_state=0).fit(X, y)
    assert 1 - with_effort.score(X_new, y_new) < 0.5 * (1 - plain.score(X_new, y_new))


def test_a_learned_spectrum_asks_for_random_features():
    X, y, _, _ = made(150)
    model = KernelRegressor("gaussian", spectrum="mixture", random_state=0).fit(X, y)
    assert model.finish_ == "fourier"
    assert model.selection_ == []
    assert model.spectrum_


@pytest.fixture(scope="module")
def of_directions():
    """Rows of very different lengths, whose targets depend on their directions from zero alone; and the model of some."""
    rng = np.random.default_rng(0)
    directions = rng.standard_normal((400, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    X = 10 + rng.lognormal(size=(400, 1)) * directions @ rng.standard_normal((3, 50))
    y = np.sign(directions[:, 0] * directions[:, 1]) + directions[:, 2]
    model = KernelRegressor("gaussian", finish="centres", random_state=0)
    return X - 10, y, model.fit(X[:300] - 10, y[:300])


def test_rows_of_many_columns_may_be_brought_to_one_length(of_directions):
    X, y, model = of_directions
    assert model.kernel_.origin is not None
    np.testing.assert_allclose(model.kernel_.origin, 0, atol=1e-12)
    seen = model.standardiser_(X[300:])
    np.testing.assert_allclose(
        model.kernel_(X[300:], X[:20]), model.feature_map_.kernel(seen, model.standardiser_(X[:20])), rtol=0, atol=1e-12
    )
    plain = KernelRegressor("gaussian", metric="diagonal", finish="centres", random_state=0).fit(X[:300], y[:300])
    assert 1 - model.score(X[300:], y[300:]) < 0.5 * (1 - plain.score(X[300:], y[300:]))
    assert "of rows brought to one length" in model.summary()


def test_a_warm_start_keeps_the_origin(of_directions):
    X, y, model = of_directions
    again = copy.deepcopy(model).set_params(warm_start=True).fit(X[:300], y[:300])
    row = next(row for row in again.selection_ if row["start"] == "earlier" and row["metric"] == "given")
    best = min(row["error"] for row in again.selection_ if row["stage"] == "search 1")
    assert row["error"] < 1.5 * best
    features = copy.deepcopy(model).set_params(warm_start=True, finish="fourier", metric="full", n_features=32)
    assert np.isfinite(features.fit(X[:300], y[:300]).predict(X)).all()


@pytest.mark.parametrize("metric", ["auto", "diagonal"])
def test_a_warm_start_has_the_earlier_metric_among_its_starts(with_effort, metric):
    X, y, X_new, y_new = made()
    again = copy.deepcopy(with_effort).set_params(warm_start=True, metric=metric).fit(X, y)
    assert "earlier" in {row["start"] for row in again.selection_}
    if metric == "auto":
        assert again.score(X_new, y_new) > with_effort.score(X_new, y_new) - 0.01
    else:
        assert not isinstance(again.kernel_, MetricKernel)


def test_an_earlier_kernel_comes_back_as_it_was_learned(with_effort):
    kernel = with_effort.feature_map_.kernel
    np.testing.assert_allclose(with_effort._resumed(with_effort.kernel_, 3).metric, kernel.metric, rtol=1e-12)
    with pytest.raises(ValueError, match="a kernel of 3 columns, and X has 4"):
        with_effort._resumed(with_effort.kernel_, 4)


def test_learning_of_scales_goes_on_from_those_of_a_metric(with_effort):
    X, y, _, _ = made()
    records = []
    scales = copy.deepcopy(with_effort).set_params(warm_start=True, effort="fast", callback=records.append)
    scales.fit(X, y)
    assert not isinstance(scales.kernel_, MetricKernel)
    first = KernelRegressor(scales.feature_map_.kernel, effort="fast", n_features=1000, random_state=0)
    assert {record["kernel"] for record in records} == {"Gaussian"} == {type(first.kernel).__name__}


@pytest.mark.parametrize("columns", [None, 3])
def test_candidates_on_random_features_count_once(columns):
    X, y, _, _ = made(150)
    model = KernelRegressor("gaussian", finish="fourier", scale="per-column", random_state=0).fit(X[:, :columns], y)
    unseen = [row for row in model.selection_ if row["stage"] == "unseen rows"]
    recipes = [(row["start"], row["metric"]) for row in unseen]
    assert max(map(recipes.count, recipes)) == MOST_SPLITS
    often = [recipe for recipe in set(recipes) if recipes.count(recipe) == MOST_SPLITS]
    means = {
        recipe: np.mean([row["error"] for row, own in zip(unseen, recipes, strict=True) if own == recipe])
        for recipe in often
    }
    (chosen,) = {(row["start"], row["metric"]) for row in unseen if row["chosen"]}
    assert chosen == min(means, key=means.get)


def test_a_start_that_wins_on_random_features_is_kept():
    """Where it beats the scales of a descent: what is fitted is what was chosen."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 6))
    y = np.exp(-np.sum(X**2, axis=1) / 4) + 0.01 * rng.standard_normal(150)
    model = KernelRegressor("gaussian", finish="fourier", scale="per-column", random_state=0).fit(X, y)
    (chosen,) = {row["start"] for row in model.selection_ if row["chosen"]}
    scales = model.feature_map_.kernel.scales(6)
    assert (chosen == "isotropic") == (np.ptp(scales) == 0)
    assert chosen != "scales"
    assert model.feature_map_.n_features == 600  # four for each row


def test_a_family_that_wins_on_random_features_is_kept():
    """Matérn 1/2 is tried for metrics alone: scales alone, learned once more, would be those of another family."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 2))
    y = np.exp(-np.sqrt(np.sum(X**2, axis=1))) + 0.01 * rng.standard_normal(150)
    kernels = [get_kernel(name) for name in ("gaussian", "matern12")]
    for families in (kernels, kernels[::-1]):
        model = KernelRegressor(families, finish="fourier", scale="per-column", random_state=0).fit(X, y)
        (chosen,) = {row["kernel"] for row in model.selection_ if row["chosen"]}
        kernel = model.feature_map_.kernel
        assert chosen == family_name(base_of(kernel))


def test_what_is_fitted_in_the_end_is_told_too(with_effort):
    (last,) = [row for row in with_effort.selection_ if row["stage"] == "finish"]
    assert last is with_effort.selection_[-1]
    assert (last["metric"] != "given") == isinstance(with_effort.kernel_, MetricKernel)
    assert (last["n_rows"], last["n_centres"]) == (200, with_effort.feature_map_.n_features)


def test_the_history_of_several_descents_goes_on(with_effort):
    for name in ("seconds", "level"):
        assert np.all(np.diff([record[name] for record in with_effort.history_]) >= 0)
    assert with_effort.history_[-1]["level"] == MOST_SPLITS + 1


def test_centres_that_are_counted_are_given():
    X, y, _, _ = made(150)
    model = KernelRegressor("gaussian", n_centres=40, random_state=0).fit(X, y)
    assert len(model.feature_map_.centres) == 40


@pytest.mark.parametrize(("metric", "learned"), [("auto", "diagonal"), ("full", "full")])
def test_little_effort_tries_random_features_and_scales_unless_told_otherwise(metric, learned):
    X, y, _, _ = made(150)
    options = {"metric": metric} if metric == "full" else {"finish": "centres"}
    model = KernelRegressor("gaussian", effort="fast", random_state=0, **options).fit(X, y)
    assert {row["metric"] for row in model.selection_} <= {"given", learned}
    assert model.finish_ == ("fourier" if metric == "full" else "centres")


def test_a_kernel_with_a_metric_is_refused():
    X, y, _, _ = made(50)
    with pytest.raises(ValueError, match="give its base, such as Gaussian\\(\\), and metric='full'"):
        KernelRegressor(MetricKernel(base=Gaussian(), metric=np.eye(3))).fit(X, y)


def test_kernels_that_no_metric_fits_into_are_learned_as_they_are():
    X, y, _, _ = made(120)
    model = KernelRegressor(Gaussian(), random_state=0).fit(X, y)
    assert model.selection_
    skewed = KernelRegressor("skewed_chi2", effort="default", random_state=0).fit(np.abs(X), y)
    assert skewed.selection_ == []


def test_rows_that_come_in_parts_are_learned_on_random_features():
    X, y, X_new, y_new = made()
    model = KernelRegressor(random_state=0).partial_fit(X[:150], y[:150])
    assert model.finish_ == "fourier"
    before = model.score(X_new, y_new)
    assert model.partial_fit(X[150:], y[150:]).score(X_new, y_new) != before
    assert model.fit(X, y).finish_ == "centres"


def test_scales_that_are_equal_count_once():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 4))
    y = np.exp(-np.sum(X**2, axis=1) / 4) + 0.01 * rng.standard_normal(150)
    model = KernelRegressor("gaussian", metric="diagonal", random_state=0).fit(X, y)
    scales = model.feature_map_.kernel.scales(4)
    assert model.n_scales_ == (1 if np.ptp(scales) == 0 else 4)
    assert "1 scale" in model.summary() or model.n_scales_ == 4


def test_features_that_are_asked_for_are_given():
    X, y, _, _ = made(120)
    model = KernelRegressor("gaussian", metric="full", n_features=64, random_state=0).fit(X, y)
    assert (model.finish_, model.feature_map_.n_features) == ("fourier", 64)
    with pytest.raises(ValueError, match="spectrum='free' belongs to finish='fourier'"):
        KernelRegressor("gaussian", spectrum="free", finish="centres").fit(X, y)


def test_sums_of_centres_stay_within_their_room():
    def centres(room, by_sums):
        plan = MetricPlan((Gaussian(),), ("full",), ("centres",), EFFORTS["default"], room=room, matrices=20.0)
        return plan.centres_for(9000, by_sums=by_sums)

    assert centres(np.inf, by_sums=True) == centres(np.inf, by_sums=False) == 9000
    assert centres(200e6, by_sums=True) == int((200e6 / (8 * 20)) ** 0.5)
    assert centres(200e6, by_sums=False) == int((200e6 / (8 * 2)) ** 0.5)


def test_ctrl_c_leaves_a_model_that_a_warm_start_goes_on_from():
    X, y, _, _ = made(120)

    def stop(record):
        raise KeyboardInterrupt

    model = KernelRegressor("gaussian", random_state=0, callback=stop)
    with pytest.warns(ConvergenceWarning, match="Interrupted after 1 evaluations"):
        model.fit(X, y)
    assert not model.converged_
    model.set_params(warm_start=True, callback=None).fit(X, y)
    assert model.converged_
    assert "earlier" in {row["start"] for row in model.selection_}


def test_the_metric_shows_the_interaction(with_effort):
    assert with_effort.metric_.shape == (3, 3)
    np.testing.assert_allclose(with_effort.metric_, with_effort.metric_.T)
    leading = with_effort.leading_directions(1)[0]
    assert set(list(leading["weights"])[:2]) == {"x0", "x1"}
    assert leading["share"] > 0.8
    assert leading["weights"]["x0"] * leading["weights"]["x1"] > 0


def test_the_kernel_is_in_the_units_of_the_data(with_effort):
    X, _, _, _ = made()
    standardised = with_effort.standardiser_(X)
    M = with_effort.metric_
    difference = standardised[0] - standardised[1]
    profile = with_effort.kernel_.base.profile(np.sqrt(difference @ M @ difference))
    np.testing.assert_allclose(with_effort.kernel_(X[:1], X[1:2])[0, 0], profile, rtol=1e-8)
    np.testing.assert_allclose(with_effort.scale_ * with_effort.standardiser_.spread, np.sqrt(np.diagonal(M)), rtol=1e-8)


def test_all_that_was_compared_is_told(with_effort):
    records = with_effort.selection_
    assert {"stage", "kernel", "start", "metric", "finish", "n_rows", "error", "alpha", "seconds", "chosen"} <= set(
        records[0]
    )
    judged = [record for record in records if record["stage"] == "unseen rows"]
    assert any(record["chosen"] for record in judged)
    assert {record["finish"] for record in judged} <= {"centres", "fourier"}
    assert not any(record["chosen"] for record in records if record["stage"] != "unseen rows")


def test_few_rows_judge_the_winner_on_every_part_set_aside(with_effort):
    judged = [row for row in with_effort.selection_ if row["stage"] == "unseen rows"]
    recipes = [(row["kernel"], row["start"], row["metric"], row["finish"]) for row in judged]
    means = {r: np.mean([row["error"] for row, own in zip(judged, recipes, strict=True) if own == r]) for r in recipes}
    (chosen,) = {r for row, r in zip(judged, recipes, strict=True) if row["chosen"]}
    complete = [r for r in means if recipes.count(r) == MOST_SPLITS]
    assert len(complete) > 10
    assert chosen == min(complete, key=means.get)


def test_centres_at_all_rows_are_exact_kernel_ridge(with_effort):
    X, y, X_new, _ = made()
    assert with_effort.feature_map_.n_features == len(X)
    alpha = with_effort.alpha_ * len(X)
    K = with_effort.kernel_(X)
    ones = np.ones(len(X))
    system = np.block([[K + alpha * np.eye(len(X)), ones[:, None]], [ones[None], np.zeros((1, 1))]])
    solved = np.linalg.solve(system, np.append(y, 0.0))
    expected = with_effort.kernel_(X_new, X) @ solved[:-1] + solved[-1]
    np.testing.assert_allclose(with_effort.predict(X_new), expected, atol=1e-5)
    centred = KernelRidge(alpha=alpha, kernel="precomputed").fit(K, y - solved[-1])
    np.testing.assert_allclose(with_effort.kernel_(X_new, X) @ centred.dual_coef_ + solved[-1], expected, atol=1e-5)


def test_clone_and_pickle(with_effort):
    X, y, X_new, _ = made()
    again = pickle.loads(pickle.dumps(with_effort))
    np.testing.assert_array_equal(again.predict(X_new), with_effort.predict(X_new))
    np.testing.assert_allclose(clone(with_effort).fit(X, y).predict(X_new), with_effort.predict(X_new), rtol=1e-12)


def test_deviations_grow_away_from_the_rows(with_effort):
    X, _, _, _ = made()
    _, near = with_effort.predict(X[:20], return_std=True)
    _, far = with_effort.predict(X[:20] + np.array([0.0, 1000.0, 0.0]), return_std=True)
    assert (far > 3 * near).all()


@pytest.mark.parametrize(("metric", "finish"), [("low-rank", "centres"), ("full", "fourier"), ("diagonal", "centres")])
def test_what_is_asked_for_is_what_comes(metric, finish):
    X, y, X_new, y_new = made(150)
    options = {"rank": 1} if metric == "low-rank" else {}
    model = KernelRegressor("gaussian", metric=metric, finish=finish, random_state=0, **options).fit(X, y)
    assert model.finish_ == finish
    assert isinstance(model.kernel_, MetricKernel) == (metric != "diagonal")
    if metric == "low-rank":
        assert np.linalg.matrix_rank(model.metric_) == 1
    assert model.score(X_new, y_new) > (0.5 if metric == "diagonal" else 0.9)


@pytest.mark.parametrize("way", ["gradient", "both"])
def test_metrics_along_the_gradient(way):
    X, y, X_new, y_new = made(150)
    model = KernelRegressor("gaussian", metric="full", metric_by=way, finish="centres", random_state=0).fit(X, y)
    assert model.score(X_new, y_new) > 0.9


def test_fast_is_the_paper():
    X, y, X_new, _ = made(120)
    fast = KernelRegressor(effort="fast", random_state=0).fit(X, y)
    plain = KernelRegressor(metric="diagonal", finish="fourier", random_state=0).fit(X, y)
    assert fast.selection_ == []
    assert fast.finish_ == "fourier"
    np.testing.assert_array_equal(fast.predict(X_new), plain.predict(X_new))


def test_classes():
    X, y = load_iris(return_X_y=True)
    model = KernelClassifier(effort="default", random_state=0).fit(X[::2], y[::2])
    assert model.score(X[1::2], y[1::2]) > 0.9
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric": "round"}, "metric must be"),
        ({"finish": "center"}, "finish must be"),
        ({"effort": "most"}, "effort must be"),
        ({"metric_by": "luck"}, "metric_by must be"),
        ({"rank": 2}, "belongs to metric='low-rank'"),
        ({"metric": "low-rank", "rank": 0}, "rank must be a positive whole number"),
        ({"n_centres": -1}, "n_centres must be a positive whole number"),
        ({"n_centres": 10, "finish": "fourier"}, "belongs to finish='centres'"),
        ({"n_features": 10, "finish": "centres"}, "belongs to finish='fourier'"),
        ({"n_features": 10, "n_centres": 10}, "n_centres=10 is for .* n_features=10 for .*leave one"),
        ({"n_centres": 10, "alpha": 1.0}, "n_centres=10 is not for alpha=1.0"),
        ({"metric_by": "gradient", "metric": "diagonal", "finish": "fourier"}, "learns none: leave metric_by out"),
        ({"metric_by": "both", "criterion": "loo"}, "metric_by='both' is not for criterion='loo'"),
        (
            {"metric": "full", "kernel": "skewed_chi2"},
            "metric='full' is not for kernels that are not functions of a distance alone",
        ),
        ({"finish": "centres", "criterion": "loo"}, "finish='centres' is not for criterion='loo'"),
        ({"metric": "full", "scale": "shared"}, "columns that share a scale"),
        ({"metric": "full", "scale_penalty": "sparse"}, "scale_penalty='sparse'"),
    ],
)
def test_refused(options, message):
    X, y, _, _ = made(60)
    with pytest.raises(ValueError, match=message):
        KernelRegressor(**options).fit(np.abs(X), y)


def test_rows_of_float32_are_predicted_like_those_of_float64(with_effort):
    _, _, X_new, _ = made()
    single = with_effort.predict(X_new.astype(np.float32))
    np.testing.assert_allclose(single, with_effort.predict(X_new.astype(np.float32).astype(np.float64)), atol=1e-5)


def test_a_saved_model_holds_centres_and_no_matrix_of_them():
    X, y, _, _ = made(200)
    model = KernelRegressor("gaussian", finish="centres", keep_moments=False, random_state=0).fit(X, y)
    centres = model.feature_map_.centres
    assert len(pickle.dumps(model)) < 200_000 + 10 * centres.nbytes
    with pytest.raises(ValueError, match="keep_moments=True"):
        model.predict(X, return_std=True)


def test_many_centres_are_solved_for_by_iterations(monkeypatch):
    X, y, X_new, y_new = made(300)
    options = {"kernel": "gaussian", "metric": "full", "finish": "centres", "random_state": 0}
    direct = KernelRegressor(**options).fit(X, y)
    monkeypatch.setattr("bochner.metric_learning.finish.BY_SUMS", 0.0)
    iterated = KernelRegressor(**options).fit(X, y)
    assert direct.moments_ is not None
    assert iterated.moments_ is None
    np.testing.assert_allclose(iterated.score(X_new, y_new), direct.score(X_new, y_new), atol=0.01)
    _, near = iterated.predict(X[:20], return_std=True)
    _, far = iterated.predict(X[:20] + np.array([0.0, 1000.0, 0.0]), return_std=True)
    assert (far > 3 * near).all()
    with pytest.raises(ValueError, match="begin with partial_fit"):
        iterated.partial_fit(X, y)
    begun = KernelRegressor(**options).partial_fit(X[:150], y[:150])
    assert begun.partial_fit(X[150:], y[150:]).score(X_new, y_new) > 0.9


def test_where_every_row_is_a_centre_the_model_is_exact_kernel_ridge(monkeypatch):
    """On a GPU all rows become centres; the same is asked for here, on the host."""
    monkeypatch.setattr(MetricPlan, "every_row", lambda self, folds: folds.n >= 200)
    monkeypatch.setattr(sizes, "FEW_ROWS", 200)
    monkeypatch.setattr(sizes, "TRIAL_ROWS", 240)
    monkeypatch.setattr(sizes, "AT_ONCE", 300)
    X, y, X_new, y_new = made(400)
    model = KernelRegressor(["gaussian", "matern32"], effort="default", random_state=0).fit(X, y)
    assert model.feature_map_.n_features == 400
    assert [row["n_rows"] for row in model.selection_ if row["stage"] == "finish"] == [240]
    K, ones, alpha = model.kernel_(X), np.ones(400), model.alpha_ * 400
    system = np.block([[K + alpha * np.eye(400), ones[:, None]], [ones[None], np.zeros((1, 1))]])
    solved = np.linalg.solve(system, np.append(y, 0.0))
    rows = np.argsort([np.flatnonzero((model.feature_map_.centres == row).all(axis=1))[0] for row in model.standardiser_(X)])
    assert len(set(rows)) == 400  # every row is a centre, once
    np.testing.assert_allclose(model.predict(X_new), model.kernel_(X_new, X) @ solved[:-1] + solved[-1], atol=1e-6)
    assert model.score(X_new, y_new) > 0.98


def test_metrics_of_classifiers_are_compared_by_log_loss():
    X, y = load_iris(return_X_y=True)
    model = KernelClassifier(effort="default", random_state=0).fit(X, y)
    judged = [row["error"] for row in model.selection_ if row["stage"] == "unseen rows"]
    held_out_loss = log_loss(y, model.predict_proba(X))  # of rows that were fitted: less than what was held out
    assert held_out_loss < min(judged) < 0.2 * np.log(3)
