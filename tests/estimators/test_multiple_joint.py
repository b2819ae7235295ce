"""One kernel of all columns in place of a sum of kernels, where columns count in an interaction alone."""

import numpy as np
import pytest

from bochner import MultipleKernelClassifier, MultipleKernelRegressor
from bochner.estimators import blocks, dictionary, multiple_joint, multiple_machine, multiple_parts
from bochner.kernels import Gaussian
from bochner.plots import plot_path
from bochner.rows import from_arrays
from bochner.rows import source as row_source
from bochner.streamed import StreamedFolds

N = 600
NAMES = ("age", "floor", "rooms", "sun")
KERNELS = [(name, Gaussian(scale=1.0 + 0.1 * t), [t]) for t, name in enumerate(NAMES)]
OPTIONS = {"n_features": 100, "n_alphas": 5, "validation": 3, "standardize": False, "random_state": 0}


def table(n=N, seed=0):
    """Age and floor count together, and not by themselves."""
    rng = np.random.default_rng([seed, n])
    X = rng.uniform(-2, 2, size=(n, 4))
    return X, X[:, 0] * X[:, 1] + 0.05 * rng.standard_normal(n)


def names_in(model):
    return [name for name, weights in zip(NAMES, model.kernel_weights_, strict=True) if weights.any()]


def test_columns_that_count_together_alone():
    (X, y), (new, y_new) = table(), table(seed=1)
    sums, joint = (MultipleKernelRegressor(KERNELS, **OPTIONS, refit=refit).fit(X, y) for refit in ("ridge", "auto"))
    assert sums.score(new, y_new) < 0.2
    assert names_in(joint) == ["age", "floor"]
    (one,) = joint.feature_map_.maps
    np.testing.assert_allclose(one.kernel.scale, np.array([1.0, 1.1]) / 2**0.5)
    features = one.forward(np.vstack([X, new])[:, :2])  # ridge regression in its dual form
    centred, unit = features - features[:N].mean(axis=0), y.std()
    ridge = N * joint.refit_alpha_ * np.eye(N)
    dual = np.linalg.solve(centred[:N] @ centred[:N].T + ridge, (y - y.mean()) / unit)
    np.testing.assert_allclose(joint.predict(new), y.mean() + unit * centred[N:] @ centred[:N].T @ dual, atol=1e-6)
    exact = Gaussian(scale=np.array([1.0, 1.1]) / 2**0.5)  # the same with the kernel itself
    predicted = exact(new[:, :2], X[:, :2]) @ np.linalg.solve(exact(X[:, :2], X[:, :2]) + ridge, y)
    assert joint.score(new, y_new) > 1 - 2 * np.mean((predicted - y_new) ** 2) / y_new.var()


def test_what_is_told_of_a_joint_kernel_that_group_lasso_has_not_chosen():
    X, y = table()
    model = MultipleKernelRegressor(KERNELS, **OPTIONS).fit(X, y)
    assert (model.refit_, model.l1_ratio_, model.path_) == ("joint", 0.0, None)
    assert model.alpha_ == model.refit_alpha_
    length = np.linalg.norm(model.coef_) / 2**0.5
    np.testing.assert_allclose(model.kernel_weights_[:, 0], [length, length, 0, 0], rtol=1e-6)
    np.testing.assert_array_equal(model.explained_variance_[:, 0], [0.5, 0.5, 0, 0])
    assert model.converged_
    assert model.duality_gap_.max() < 1e-6
    with pytest.raises(ValueError, match="One kernel in place of all was chosen, which has no path"):
        plot_path(model)
    errors = [trial["error"] for trial in model.trials_ if trial["refit"] == "joint"]
    assert model.validation_error_ == min(errors) < min(t["error"] for t in model.trials_ if t["refit"] != "joint")


def test_classes_and_targets_with_weights_of_their_own():
    X, y = table()
    labels = np.where(y > 0, "same", "other")
    new, y_new = table(seed=1)
    model = MultipleKernelClassifier(KERNELS, **OPTIONS, shared_weights=False).fit(X, labels)
    assert names_in(model) == ["age", "floor"]
    assert model.score(new, np.where(y_new > 0, "same", "other")) > 0.9
    both = np.column_stack([y, X[:, 2] * X[:, 1]])
    model = MultipleKernelRegressor(KERNELS, **OPTIONS, shared_weights=False).fit(X, both)
    assert model.kernel_weights_.shape == (4, 2)
    assert names_in(model) == ["age", "floor", "rooms"]
    np.testing.assert_allclose(model.explained_variance_.sum(axis=0), 1.0)


def test_what_is_tried_in_vain_changes_nothing(monkeypatch):
    X, _ = table(200)
    y = np.sin(2 * X[:, 0]) + X[:, 2] + 0.05 * np.random.default_rng(2).standard_normal(200)
    options = OPTIONS | {"n_features": None}
    model = MultipleKernelRegressor(KERNELS, **options).fit(X, y)
    assert set(NAMES) > set(names_in(model)) >= {"age", "rooms"}
    assert model.refit_ != "joint"
    monkeypatch.setattr(multiple_joint.Joining, "of_all", lambda self, found, features_each: found)
    without = MultipleKernelRegressor(KERNELS, **options).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), without.predict(X))
    assert len(model.trials_) > len(without.trials_)


@pytest.mark.parametrize(
    "options",
    [
        {"l1_ratio": 1.0},
        {"refit": None},
        {"refit": "ridge"},
        {"alpha": 1e-2},
        {"loss": "epsilon-logistic"},
        {"kernels": [*KERNELS[:3], ("sun", "matern32", [3])]},
    ],
)
def test_it_is_not_tried_where_all_kernels_may_not_be_in(options, monkeypatch):
    X, y = table(100)
    seen = []
    monkeypatch.setattr(multiple_joint.Rounds, "widen", lambda *given: seen.append(given))
    MultipleKernelRegressor(**{"kernels": KERNELS} | OPTIONS | options).fit(X, y)
    assert not seen


def test_it_has_a_finish_next_to_exact(monkeypatch):
    monkeypatch.setattr(multiple_parts, "MOST_FEATURES", 80)
    monkeypatch.setattr(dictionary, "FEWEST_IN_ALL", 80)
    monkeypatch.setattr(dictionary, "FEWEST_EACH", 10)
    X, y = table(300, seed=2)
    y += np.cos(2 * X[:, 0]) * np.cos(2 * X[:, 1])
    model = MultipleKernelRegressor(KERNELS, **OPTIONS | {"n_features": None}).fit(X, y)
    assert names_in(model) == ["age", "floor"]
    assert model.feature_map_.sizes == (600,)
    np.testing.assert_allclose(model.kernel_weights_[:2, 0], np.linalg.norm(model.coef_) / 2**0.5, rtol=1e-6)


def test_no_kernel_is_left_out_where_that_takes_passes_over_the_rows(monkeypatch):
    monkeypatch.setattr(multiple_machine, "FEWEST_SAMPLED", 600)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1)
    monkeypatch.setattr(row_source, "FEWEST_BLOCK_ROWS", 256)
    passes = []
    read = StreamedFolds._blocks
    monkeypatch.setattr(StreamedFolds, "_blocks", lambda *given: passes.append(given) or read(*given))
    X, y = table(900)
    model = MultipleKernelRegressor(KERNELS, **OPTIONS).fit(from_arrays(X, y))
    new, y_new = table(seed=1)
    assert model.score(new, y_new) > 0.9
    assert names_in(model) == list(NAMES)
    assert len(passes) <= 3  # of the sum, of the joint kernel of those that are in, of that of all
    few = MultipleKernelRegressor(KERNELS, **OPTIONS).fit(from_arrays(X[:600], y[:600]))
    assert names_in(few) == ["age", "floor"]
