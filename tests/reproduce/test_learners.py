"""Learners on features: how often they draw them, of which kernels, and what is noted of several draws."""

import numpy as np
import pytest

from bochner.reproduce import learners
from bochner.reproduce.kernel_inputs import chi2_distance, squared_distance
from bochner.reproduce.learners import Bench, Measured, group_lasso, single_kernel
from bochner.reproduce.options import RFF_GL, RFF_SKL, GroupLasso, SingleKernel
from bochner.reproduce.protocol import Problem, Protocol, Views
from bochner.reproduce.rows import Run

N = 120


@pytest.fixture(scope="module")
def problem():
    """Histograms of two views that lean to two classes; a third of the rows show neither."""
    rng = np.random.default_rng(0)
    labels = np.arange(N) % 3
    leaning = np.array([[4.0, 1, 1, 1, 1, 1], [1, 4, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1]])
    tables = {name: np.stack([rng.dirichlet(leaning[k]) for k in labels]).astype(np.float32) for name in ("one", "two")}
    worth = np.stack([labels == 0, labels == 1], axis=1) * 0.9
    rows = Views(tables, worth, np.repeat(np.arange(N // 6), 6))
    test = rows.take(np.flatnonzero(labels < 2))
    return Problem("some", "key", ("a", "b"), rows, test, -np.arange(N), True, Protocol(test_per_class=3), 0)


def bench(problem, learner, n, options, tmp_path):
    return Bench(problem, Run(learner=learner, n=n, options=options), 0, None, lambda run: {}, tmp_path)


@pytest.mark.parametrize(("n", "distance", "draws", "size"), [(60, chi2_distance, 2, 80), (90, squared_distance, 1, 12)])
def test_few_rows_have_the_kernels_of_gmkl_more_features_and_several_draws(
    problem, n, distance, draws, size, tmp_path, monkeypatch
):
    seen, models, make = [], [], learners.MultipleKernelRegressor
    kernels_of = learners.kernels_of
    monkeypatch.setattr(learners, "kernels_of", lambda widths, used: seen.append(used) or kernels_of(widths, used))

    def made(*args, **choices):
        models.append(make(*args, **choices))
        return models[-1]

    monkeypatch.setattr(learners, "MultipleKernelRegressor", made)
    options = GroupLasso(n_features=12, few_features=80, n_coordinates=5, roots_from=90, draws=2, n_alphas=4)
    found = group_lasso(bench(problem, RFF_GL, n, options, tmp_path))
    assert seen == [distance] * draws
    assert [model.random_state for model in models] == list(range(draws))
    assert [model.n_features for model in models] == [size] * draws
    assert found.result["n_features"] == size
    assert models[0].path_.coef.shape[1] == 2 * size  # of the features, whatever coordinates they were solved in
    each = found.result.get("draws", [found.result["accuracy"]])
    assert len(each) == draws
    assert found.result["accuracy"] == pytest.approx(np.mean(each), abs=1e-6)
    assert np.shape(found.result["weights"]) == (2, 2)


def test_draws_of_one_kernel_differ_and_their_mean_is_noted(problem, tmp_path):
    options = SingleKernel(n_features=20, components=3, draws=3)
    found = single_kernel(bench(problem, RFF_SKL, 90, options, tmp_path))
    assert len(found.result["draws"]) == 3
    assert found.result["accuracy"] == pytest.approx(np.mean(found.result["draws"]), abs=1e-6)
    assert found.result["accuracy"] > 0.5  # which is what a guess has
    alone = single_kernel(bench(problem, RFF_SKL, 90, SingleKernel(n_features=20, components=3), tmp_path))
    assert "draws" not in alone.result
    assert alone.result["accuracy"] == pytest.approx(found.result["draws"][0], abs=1e-6)


def test_seconds_are_means_over_draws_and_scores_may_be_missing(problem, tmp_path):
    def learn(one, seed):
        one.seconds |= {"total": seed + 1.0}

    found = Measured()
    bench(problem, RFF_GL, 60, GroupLasso(), tmp_path).means(found, learn, 3)
    assert found.seconds == {"total": pytest.approx(2.0)}
    assert found.result == {}
